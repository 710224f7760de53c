"""Rows of the tidy tables: their fields, which are checked, and what is derived from one row."""

from __future__ import annotations

import contextlib
import json
import math
import operator
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from bertology._files import parse_json, shortened
from bertology._names import layer_number, training_name
from bertology.errors import ResultsError
from bertology.measures import Bootstrap
from bertology.measures.comparisons import Comparison

SCHEMA_VERSION = 1

Control = Literal[
    "none", "majority", "word_majority", "length", "lexical", "linear_chain", "control_task", "blind", "offset",
    "nearest", "head_match", "rule", "mean", "word_mean", "first", "last", "diagonal", "rescaled", "refit",
    "reference",
]  # fmt: skip
ATTENTION = frozenset({"attention", "gates"})
"""Readouts of attention heads, and of the model with heads closed."""
OWN_HEADS = ATTENTION | {"masked_lm", "tuned_lens", "next_sentence"}
"""Readouts that are parts of the model itself; of the tuned lens translators of its layers are fitted to other text."""
VECTORS = "vectors"
"""The readout of statistics of vectors, to which nothing is fitted."""
INTERVENTIONS = "interventions"
"""The readout of predictions with states of a layer changed."""
STATISTICS = frozenset({VECTORS, "encoders", INTERVENTIONS})
"""Readouts of statistics: of vectors, of two models side by side, and of a model that is changed."""


class _Row:
    """Checks and converts the fields: rows come from JSON, where nothing is checked."""

    def __post_init__(self) -> None:
        for name, (kind, optional, allowed) in _KINDS[type(self)].items():
            value = _as_kind(type(self).__name__, name, getattr(self, name), kind, optional=optional)
            if allowed and value is not None and value not in allowed:
                known = ", ".join(allowed)
                raise ResultsError(f"{name} of a row is {shortened(repr(value))}; it should be one of {known}")
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
    """Which draw of random weights; None of pretrained ones."""
    pretraining_seed: int | None = None
    """Which of several trainings that differ in their seed alone."""
    step: int | None = None
    """Updates that a checkpoint of a training has had; None of a model that is not one of several checkpoints."""
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
    """The group of items, such as a relation or construction, that is scored alone; None for all items."""
    language: str | None = None
    annotation: Literal["gold", "silver"] = "gold"
    n_train: int
    n_items: int
    n_clusters: int
    """Units that intervals resample: sentences; of cloze tasks what ``clusters`` in ``params_json`` names."""
    n_classes: int
    n_skipped: int = 0
    """Items of the split that could not be scored."""
    skip_reasons: str = "{}"
    """JSON: reason → number of items."""
    n_unseen_label: int = 0
    """Scored items whose label training never saw."""
    # data and alignment: numbers of words of the split; None where not known, as of baselines
    n_unknown: int | None = None
    """With an unknown subword."""
    n_shared: int | None = None
    """With exactly the subwords of another word, as *de* and *le* of French *du*, in the model or its reference."""
    shared_subwords: Literal["exclude", "include"] | None = None
    n_long: int | None = None
    """In sentences longer than the model takes."""
    n_repeated: int | None = None
    """Texts of test that are in train as well; None where nothing is fitted."""
    left_out: str | None = None
    """JSON: reason → number of sentences, in all splits, that were left out of the corpus."""
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
    """How the interval was made, and of how many resamples: ``cluster-bootstrap-bca-10000``."""
    # the mean over all runs of the same cell: fits from several seeds, draws of random weights
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
    that sums over rows are totals."""
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
    diff: float | None
    """Score of a less score of b."""
    ci_low: float | None
    ci_high: float | None
    p_raw: float
    p_adj: float


def score_of(scores: Bootstrap, column: int, *, mean: Bootstrap | None = None, n_runs: int = 1) -> dict[str, Any]:
    """The score fields of a :class:`ResultRow` for one column (layer) of a bootstrap.

    Those about the ``mean`` over several runs are made of its own bootstrap, where there is one.
    """
    fields = {"metric": scores.metric, "value": float(scores.values[column]), **_spread(scores, column)}
    if mean is not None:
        fields |= {"n_runs": n_runs, "mean": float(mean.values[column])}
        fields |= {f"mean_{name}": value for name, value in _spread(mean, column).items()}
    return fields


def _spread(scores: Bootstrap, column: int) -> dict[str, Any]:
    bounds = {name: float(getattr(scores, name)[column]) for name in ("stderr", "ci_low", "ci_high")}
    return {**bounds, "ci_method": scores.ci_methods[column]}


_COMPARED = ("n_pairs", "diff", "ci_low", "ci_high", "p_raw", "p_adj")


def comparison_rows(
    comparisons: Sequence[Comparison], *, family: str, metric: str, cells: Sequence[str], layers: Sequence[int]
) -> tuple[ComparisonRow, ...]:
    """Rows of one ``family`` of comparisons between columns, each the scores of one of the ``cells`` and ``layers``."""
    return tuple(
        ComparisonRow(
            family=family,
            metric=metric,
            cell_a=cells[pair.a],
            cell_b=cells[pair.b],
            layer_a=layers[pair.a],
            layer_b=layers[pair.b],
            **{name: getattr(pair, name) for name in _COMPARED},
        )
        for pair in comparisons
    )


def comparison_of(row: ComparisonRow, a: int, b: int) -> Comparison:
    """The comparison behind a row, as one of columns ``a`` and ``b``."""
    values = {name: getattr(row, name) for name in _COMPARED}
    known: dict[str, Any] = {name: math.nan if value is None else value for name, value in values.items()}
    return Comparison(a=a, b=b, **known)


def sort_key(row: _Row) -> tuple[tuple[bool, Any], ...]:
    """Orders rows the same whatever order they were computed in."""
    values = (getattr(row, name) for name in _ORDER[type(row)])
    return tuple((value is not None, value if value is not None else 0) for value in values)


_ORDER: Mapping[type[_Row], Sequence[str]] = {
    ResultRow: (
        *("experiment", "task", "corpus", "split", "pretraining_seed", "step"),
        *("model", "pooling", "readout", "init", "control"),
        *("layer", "head", "seed", "init_seed", "metric", "group", "cell_id"),
    ),
    ComparisonRow: ("family", "metric", "layer_a", "layer_b", "cell_a", "cell_b"),
}


def _kinds(row: type[_Row]) -> Mapping[str, tuple[type, bool, tuple[Any, ...]]]:
    """For each field its plain type, whether it may be None, and the values allowed."""
    kinds: dict[str, tuple[type, bool, tuple[Any, ...]]] = {}
    for name, hint in typing.get_type_hints(row).items():
        optional = type(None) in typing.get_args(hint)
        hint = typing.get_args(hint)[0] if optional else hint
        allowed = typing.get_args(hint)
        kinds[name] = (str if allowed else hint, optional, allowed)
    return kinds


_KINDS: Mapping[type[_Row], Any] = {row: _kinds(row) for row in (ResultRow, ComparisonRow)}


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
    note: tuple[str, str] | None = None


_WRITTEN: Mapping[str, Any] = {
    "head": None,
    "params_json": _Params,
    "skip_reasons": dict[str, int],
    "left_out": dict[str, int],
    "versions": dict[str, str | None],
}
"""Columns of text in which other values stand as JSON, with the type of those; and the names of heads."""
_HEAD = re.compile(r"L\d{1,4}H\d{1,4}")


@lru_cache(maxsize=4096)
def _check_text(name: str, text: str) -> None:
    """Raise where a text is not what its column holds; remembered, as most rows have the same."""
    form = _WRITTEN[name]
    if form is not None:
        parse_json(text, where=f"{name} of a row", what="JSON", form=form, remedy="it was altered")
    elif _HEAD.fullmatch(text) is None:
        raise ResultsError(f"{name} of a row is {shortened(repr(text))}; it should be as L8H10")


def param_of(row: ResultRow, name: str, default: Any = None) -> Any:
    """A parameter of the fit behind a row, from ``params_json``; ``default`` where it has none of that name."""
    # Most rows have few, and there may be very many rows.
    return json.loads(row.params_json).get(name, default) if f'"{name}"' in row.params_json else default


def reading_of(row: ResultRow) -> str:
    """How the task behind a row was read, in words: ``mlp.v1, hidden 64, 10 % of train``; empty for baselines."""
    parts = [".".join(filter(None, (row.readout, row.readout_version)))]
    for name, value in param_of(row, "settings", {}).items():
        if name == "fraction":
            parts.append(f"{100 * value:g} % of train")
        elif name in ("codelength", "erase"):
            parts.append(f"{value} {'code' if name == 'codelength' else 'erased'}")
        elif name != "eraser" or value != "leace":
            is_file = "/" in str(value)
            parts.append(f"{name.replace('_', ' ')} {value if is_file else str(value).replace('_', ' ')}")
    return ", ".join(filter(None, parts))


def answers_itself(row: ResultRow) -> bool:
    """Whether the model itself answers: nothing is trained, items are texts, clusters are what the task names them."""
    return row.readout in OWN_HEADS


def clusters_of(row: ResultRow) -> str:
    """What the clusters behind a row are: what its task calls them, ``sentences`` if it has no word for them."""
    known = "clusters" if answers_itself(row) else "pairs" if param_of(row, "items") == "pairs" else "sentences"
    return str(param_of(row, "clusters", known))


def is_statistic(row: ResultRow) -> bool:
    """Whether a row is a statistic of vectors or models themselves, to which nothing was fitted."""
    return row.readout in STATISTICS


_OF_A_MODEL = frozenset({"model", "model_fingerprint", "init", "init_seed", "pooling", "readout"})


def row_fits(row: ResultRow, name: str, value: Any) -> bool:
    """Whether a row has a value in a column, or belongs to no model and so fits any; see :meth:`Results.only`."""
    # Baselines of what one model reads name that model, and no weights or reading of it.
    of_no_weights = row.init is None and row.readout is None
    if name == "pool":
        return of_no_weights or param_of(row, "settings", {}).get("pool", "mean") == value
    if name == "layer" and value is not None and row.n_layers is not None:
        value = layer_number(value, row.n_layers)
    of_no_model = row.model is None or (of_no_weights and name != "model")
    return (of_no_model and name in _OF_A_MODEL) or getattr(row, name) == value


def training_of(row: ResultRow) -> str:
    """The model of a row without its pretraining seed and step: what checkpoints of a training have in common."""
    return training_name(str(row.model), pretraining_seed=row.pretraining_seed, step=row.step)


def chances_of(row: ResultRow) -> dict[str, float]:
    """By group, how often choices are right by chance; empty where nothing is chosen."""
    return dict(param_of(row, "chance", {}))


def reasons_of(rows: Sequence[ResultRow]) -> dict[str, int]:
    """The reasons for skipped items of the first row that has any, with the number of items."""
    reasons: dict[Any, Any] = next((json.loads(row.skip_reasons) for row in rows if row.n_skipped), {})
    return {str(reason): int(number) for reason, number in reasons.items()}
