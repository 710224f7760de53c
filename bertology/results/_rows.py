"""What one row of the tidy tables says."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import operator
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from bertology._files import parse_json, shortened
from bertology.errors import ResultsError
from bertology.measures import Bootstrap, Comparison

SCHEMA_VERSION = 3

Control = Literal[
    "none",
    "majority",
    "word_majority",
    "lexical",
    "linear_chain",
    "control_task",
    "blind",
    "offset",
    "nearest",
    "head_match",
    "rule",
]
OWN_HEADS = frozenset({"masked_lm", "next_sentence", "attention", "gates"})
"""Readouts that are the model's own, of which nothing is trained."""


class _Row:
    """Fields of the type they say: rows come from JSON, where nothing is checked."""

    def __post_init__(self) -> None:
        for name, (kind, optional, allowed) in _KINDS[type(self)].items():
            value = _as_kind(type(self).__name__, name, getattr(self, name), kind, optional=optional)
            if allowed and value is not None and value not in allowed:
                told = f"{name} of a row is {shortened(repr(value))}"
                raise ResultsError(f"{told}; it should be one of {', '.join(map(str, allowed))}")
            if name in _WRITTEN and value is not None:
                _check_text(name, value)
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class ResultRow(_Row):
    """One score of one cell: a row of ``results.parquet``.

    A cell is one task read from one layer of one model with one readout and seed, or a baseline that reads none.
    """

    # identity
    experiment: str
    cell_id: str
    status: Literal["ok", "failed"] = "ok"
    # model; all None for a baseline that looks at no vector
    model: str | None = None
    model_fingerprint: str | None = None
    init: Literal["pretrained", "random", "random_blocks"] | None = None
    init_seed: int | None = None
    """Which draw of random weights; None of pretrained ones. Since schema 3."""
    layer: int | None = None
    """0 is the embedding output."""
    n_layers: int | None = None
    """Number of blocks L; there are L + 1 layers to read."""
    head: str | None = None
    pooling: str | None = None
    # task
    task: str
    task_version: str
    corpus: str
    corpus_fingerprint: str
    split: str
    group: str | None = None
    """Of items that stand in groups, such as relations or constructions, the one that is scored alone. Since schema 2.
    """
    language: str | None = None
    annotation: Literal["gold", "silver"] = "gold"
    n_train: int
    """Training items."""
    n_items: int
    """Items scored."""
    n_clusters: int
    """What intervals draw: the sentences that items stand in; of cloze tasks what ``clusters`` in ``params_json`` says.
    """
    n_classes: int
    n_skipped: int = 0
    """Items of the split that could not be scored."""
    skip_reasons: str = "{}"
    """JSON: reason → number of items."""
    n_unseen_label: int = 0
    """Scored items whose label training never saw."""
    # probe
    readout: str | None = None
    readout_version: str | None = None
    n_params: int | None = None
    params_json: str = "{}"
    control: Control = "none"
    seed: int | None = None
    # score
    metric: str
    higher_is_better: bool = True
    main_metric: bool = False
    """Whether this is the metric by which the task's layers are ranked."""
    value: float | None = None
    """A fraction, not a percentage; None where undefined or failed."""
    stderr: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str | None = None
    """How the interval was made, and of how many resamples: ``cluster-bootstrap-bca-10000``. Before schema 3 there were
    2,000 unless an experiment said otherwise."""
    # the mean over all runs of the same cell: fits from several seeds, draws of random weights; since schema 3
    n_runs: int = 1
    """Rows that differ in ``seed`` or ``init_seed`` alone, this one included."""
    mean: float | None = None
    """Of their values; this and what follows are None where there is one run."""
    mean_stderr: float | None = None
    mean_ci_low: float | None = None
    """The interval covers other runs and other test sentences."""
    mean_ci_high: float | None = None
    mean_ci_method: str | None = None
    # provenance
    versions: str = "{}"
    """JSON: component → version."""
    device: str | None = None
    dtype: str | None = None
    wall_s: float | None = None
    """Seconds. Cells that are computed together take equal shares of their time, and the rows of a cell of its own, so
    that sums over rows are totals. Before schema 3 every row had the time of all cells computed together."""
    started_utc: str | None = None
    predictions_sha256: str | None = None
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, kw_only=True)
class ComparisonRow(_Row):
    """One paired comparison of two layers: a row of ``comparisons.parquet``.

    With several seeds the scores compared are means over them, and ``cell_a`` and ``cell_b`` are the cells of the
    first seed.
    """

    family: str
    """What was adjusted together."""
    metric: str
    cell_a: str
    cell_b: str
    layer_a: int | None = None
    layer_b: int | None = None
    n_pairs: int
    """Sentences both were measured on."""
    diff: float | None
    """Score of a less score of b."""
    ci_low: float | None
    ci_high: float | None
    p_raw: float
    p_adj: float


def score_of(scores: Bootstrap, column: int) -> dict[str, Any]:
    """The score fields of a :class:`ResultRow` for one column (layer) of a bootstrap."""
    return {
        "metric": scores.metric,
        "value": float(scores.values[column]),
        "stderr": float(scores.stderr[column]),
        "ci_low": float(scores.ci_low[column]),
        "ci_high": float(scores.ci_high[column]),
        "ci_method": scores.ci_methods[column],
    }


def mean_of(scores: Bootstrap | None, column: int, *, n_runs: int) -> dict[str, Any]:
    """The fields of a :class:`ResultRow` about the mean over several runs, from its bootstrap; none of one run."""
    if scores is None:
        return {}
    of_mean = {name: value for name, value in score_of(scores, column).items() if name not in ("metric", "value")}
    return {
        "n_runs": n_runs,
        "mean": float(scores.values[column]),
        **{f"mean_{name}": value for name, value in of_mean.items()},
    }


def comparison_rows(
    comparisons: Sequence[Comparison], *, family: str, metric: str, cells: Sequence[str], layers: Sequence[int]
) -> tuple[ComparisonRow, ...]:
    """Rows of one family of comparisons.

    Args:
        comparisons: between columns.
        family: its name.
        metric: what was compared.
        cells: the cell of each column.
        layers: the layer of each column.
    """
    return tuple(
        ComparisonRow(
            family=family,
            metric=metric,
            cell_a=cells[found.a],
            cell_b=cells[found.b],
            layer_a=layers[found.a],
            layer_b=layers[found.b],
            n_pairs=found.n_pairs,
            diff=found.diff,
            ci_low=found.ci_low,
            ci_high=found.ci_high,
            p_raw=found.p_raw,
            p_adj=found.p_adj,
        )
        for found in comparisons
    )


def sort_key(row: _Row) -> tuple[tuple[bool, Any], ...]:
    """Orders rows the same whatever order they were computed in."""
    names = _RESULT_ORDER if isinstance(row, ResultRow) else _COMPARISON_ORDER
    values = (getattr(row, name) for name in names)
    return tuple((value is not None, value if value is not None else 0) for value in values)


_RESULT_ORDER = (
    *("experiment", "task", "corpus", "split", "model", "pooling", "readout", "init", "control"),
    *("layer", "head", "seed", "init_seed", "metric", "group", "cell_id"),
)
_COMPARISON_ORDER = ("family", "metric", "layer_a", "layer_b", "cell_a", "cell_b")


def _kinds(row: type[ResultRow] | type[ComparisonRow]) -> Mapping[str, tuple[type, bool, tuple[Any, ...]]]:
    """For each field its plain type, whether it may be None, and the values allowed."""
    hints = typing.get_type_hints(row)
    kinds: dict[str, tuple[type, bool, tuple[Any, ...]]] = {}
    for field in dataclasses.fields(row):
        hint, optional = hints[field.name], False
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            optional = True
            (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
        allowed = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
        kinds[field.name] = (type(allowed[0]) if allowed else hint, optional, allowed)
    return kinds


def field_kinds(row: type[_Row]) -> dict[str, type]:
    """The plain type of each field, in order."""
    return {name: kind for name, (kind, _, _) in _KINDS[row].items()}


def _as_kind(row: str, name: str, value: Any, kind: type, *, optional: bool) -> Any:
    with contextlib.suppress(TypeError, ValueError):  # what they say of a value, the error below says of its place
        if value is None and optional:
            return None
        if kind is float:
            number = float(value)
            return None if optional and math.isnan(number) else number
        if kind is int and not isinstance(value, bool):
            return operator.index(value)
        if kind is bool and value in (True, False):
            return bool(value)
        if kind is str and isinstance(value, str):
            return str(value)
    raise ResultsError(f"{name} of a {row} is {shortened(repr(value))}; it should be of type {kind.__name__}")


@dataclass(frozen=True)
class _Params:
    """What is read of the parameters of a fit."""

    settings: dict[str, Any] | None = None
    chance: dict[str, float] | None = None
    chosen_on: str | None = None
    details: dict[str, Any] | None = None


_WRITTEN: Mapping[str, Any] = {
    "head": None,
    "params_json": _Params,
    "skip_reasons": dict[str, int],
    "versions": dict[str, str | None],
}
"""Columns of text in which other values stand as JSON, with the type of those; and the names of heads."""
_HEAD = re.compile(r"L\d{1,4}H\d{1,4}")


@lru_cache(maxsize=4096)
def _check_text(name: str, text: str) -> None:
    """That a text can be read as what stands in it; remembered, as most rows have the same."""
    form = _WRITTEN[name]
    if form is not None:
        parse_json(text, where=f"{name} of a row", what="JSON", form=form, remedy="it was altered")
    elif _HEAD.fullmatch(text) is None:
        raise ResultsError(f"{name} of a row is {shortened(repr(text))}; it should be as L8H10")


def settings_of(row: ResultRow) -> dict[str, Any]:
    """What differs, in the reading behind a row, from its readout's defaults on all of train."""
    # Most rows have none, and there may be very many.
    return dict(json.loads(row.params_json)["settings"]) if '"settings"' in row.params_json else {}


def reading_of(row: ResultRow) -> str:
    """How the task behind a row was read, in words: ``mlp.v1, hidden 64, 10 % of train``; empty for baselines."""
    parts = [".".join(filter(None, (row.readout, row.readout_version)))]
    for name, value in settings_of(row).items():
        if name == "fraction":
            parts.append(f"{100 * value:g} % of train")
        elif name == "codelength":
            parts.append(f"{value} code")
        elif name == "erase":
            parts.append(f"{value} erased")
        elif name != "eraser" or value != "leace":
            parts.append(f"{name} {value}".replace("_", " "))
    return ", ".join(filter(None, parts))


def clusters_of(row: ResultRow) -> str:
    """What the clusters behind a row are: ``sentences``; where the model's own head is asked as the task names them."""
    if row.readout not in OWN_HEADS:
        return "sentences"
    return str(json.loads(row.params_json).get("clusters", "clusters"))


def own_baselines(
    baselines: Sequence[ResultRow], model: str | None, settings: Mapping[str, object] | None = None
) -> list[ResultRow]:
    """The baselines of what a model reads: of a text of which it cannot read all they are its own.

    Args:
        baselines: of one task.
        model: its name.
        settings: how the model was read, where baselines may differ by that as well.
    """
    of_model = [row for row in baselines if row.model == model]
    if settings is not None:
        of_reading = [row for row in of_model if settings_of(row) == settings]
        of_model = of_reading or [row for row in of_model if not settings_of(row)]
    return of_model or [row for row in baselines if row.model is None]


def chances_of(row: ResultRow) -> dict[str, float]:
    """By group, how often choices would be right by chance; empty where nothing is chosen."""
    return dict(json.loads(row.params_json)["chance"]) if '"chance"' in row.params_json else {}


def path_end_of(row: ResultRow) -> str | None:
    """Which end of its path the strength of the regularisation is at, where dev accuracy still rises towards it."""
    return str(json.loads(row.params_json)["path_end"]) if '"path_end"' in row.params_json else None


def reasons_of(rows: Sequence[ResultRow]) -> dict[str, int]:
    """The reasons for skipped items, as the first of ``rows`` that has any tells them."""
    for row in rows:
        if row.n_skipped:
            return {str(reason): int(number) for reason, number in json.loads(row.skip_reasons).items()}
    return {}


_KINDS: Mapping[type[_Row], Mapping[str, tuple[type, bool, tuple[Any, ...]]]] = {
    row: _kinds(row) for row in (ResultRow, ComparisonRow)
}
