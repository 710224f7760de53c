"""Rows of the tidy tables: their fields, which are checked, what is derived from rows, and their Parquet files."""

from __future__ import annotations

import contextlib
import json
import math
import operator
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Strict, StringConstraints, ValidationError, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass

from bertology._files import parse_json, shortened, write_atomically
from bertology._lazy import pa, pd, pq
from bertology._names import by_key, layer_number, training_name
from bertology.errors import BertologyError, ResultsError
from bertology.measures.intervals import Bootstrap, Comparison
from bertology.measures.metrics import ITSELF, Control

SCHEMA_VERSION = 1

ATTENTION = frozenset({"attention", "gates"})
"""Readouts of attention heads, and of the model with heads closed."""
OWN_HEADS = ATTENTION | {"masked_lm", "left_to_right", "replaced_tokens", "tuned_lens", "next_sentence"}
"""Readouts that are parts of the model itself; of the tuned lens translators of its layers are fitted to other text."""
VECTORS, ENCODERS, INTERVENTIONS, CLASSIFIER = "vectors", "encoders", "interventions", "classifier"
"""Readouts of statistics: of vectors, of two models, of predictions with states changed, of a head's decisions."""
FALSE_DISCOVERY_RATE = 0.05
INITS = {"pretrained": "", "random_blocks": "random blocks over pretrained embeddings", "random": "random weights"}
"""Kinds of a model's weights, and their names in tables."""


@dataclass(frozen=True)
class Score:
    """A value with its interval; fractions, not percentages."""

    value: float
    low: float | None = None
    high: float | None = None

    def __neg__(self) -> Score:
        """The score of the other direction of a difference."""
        low, high = (None if bound is None else 0.0 - bound for bound in (self.high, self.low))
        return Score(0.0 - self.value, low, high)

    def is_better_than(self, other: Score, *, higher_is_better: bool) -> bool:
        """Whether the intervals do not overlap, this one on the better side; the value itself where there is none."""
        sign, own, others = (1, self.low, other.high) if higher_is_better else (-1, self.high, other.low)
        return sign * (self.value if own is None else own) > sign * (other.value if others is None else others)


@dataclass(frozen=True)
class _Params:
    """The parameters of a fit that tables use."""

    settings: dict[str, Any] | None = None
    chance: dict[str, float] | None = None
    chosen_on: str | None = None
    details: dict[str, Any] | None = None
    note: tuple[str, str] | None = None


@lru_cache(maxsize=4096)
def _checked_json(form: Any, text: str) -> str:
    """The text, if it is JSON of that form; remembered, as most rows have the same."""
    try:
        parse_json(text, where="a row", what="JSON", form=form, remedy="it was altered")
    except BertologyError as error:
        raise ValueError(error) from None  # which becomes an error of the row's field
    return text


def _number(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError("it should be of type int")
    return operator.index(value)


Int = Annotated[int, BeforeValidator(_number)]
Float = Annotated[
    float | None, AfterValidator(lambda value: None if value is not None and math.isnan(value) else value)
]
Counts = Annotated[str, AfterValidator(partial(_checked_json, dict[str, int]))]


@checked_dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, values: Any, check: Callable[[Any], Any]) -> Any:
        """Say in one line which field is wrong."""
        try:
            return check(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            what = shortened(repr(first["input"]))
            raise ResultsError(
                f"{first['loc'][0]} of a row is {what}: {first['msg'].removeprefix('Value error, ')}"
            ) from None


@checked_dataclass(frozen=True, kw_only=True, slots=True)
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
    init_seed: Int | None = None
    """Seed of the random initialisation; None for pretrained weights."""
    pretraining_seed: Int | None = None
    """Seed of the pretraining, where several trainings differ in it alone."""
    step: Int | None = None
    """Updates that a checkpoint of a training has had; None of a model that is not one of several checkpoints."""
    layer: Int | None = None
    """0 is the embedding output."""
    n_layers: Int | None = None
    """Number of blocks L; there are L + 1 layers to read."""
    head: Annotated[str, StringConstraints(pattern="^L[0-9]{1,4}H[0-9]{1,4}$")] | None = None
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
    n_train: Int
    n_items: Int
    n_clusters: Int
    """Units that intervals resample: sentences; of cloze tasks what ``clusters`` in ``params_json`` names."""
    n_classes: Int
    n_skipped: Int = 0
    """Items of the split that could not be scored."""
    skip_reasons: Counts = "{}"
    """JSON: reason → number of items."""
    n_unseen_label: Int = 0
    """Scored items whose label training never saw."""
    # data and alignment: numbers of words of the split; None where not known, as of baselines
    n_unknown: Int | None = None
    """Words with an unknown subword."""
    n_shared: Int | None = None
    """Words with exactly the subwords of another word, as *de* and *le* of French *du*, in either model."""
    shared_subwords: Literal["exclude", "include"] | None = None
    n_long: Int | None = None
    """Number of words in sentences longer than the model takes."""
    n_repeated: Int | None = None
    """Texts of test that are in train as well; None where nothing is fitted."""
    left_out: Counts | None = None
    """JSON: reason → number of sentences, in all splits, that were left out of the corpus."""
    # probe
    readout: str | None = None
    readout_version: str | None = None
    n_params: Int | None = None
    params_json: Annotated[str, AfterValidator(partial(_checked_json, _Params))] = "{}"
    control: Control = ITSELF
    seed: Int | None = None
    # score
    metric: str
    higher_is_better: Annotated[bool, Strict()] = True
    main_metric: Annotated[bool, Strict()] = False
    """Whether this is the metric by which the task's layers are ranked."""
    value: Float = None
    """A fraction, not a percentage; None where undefined or failed."""
    stderr: Float = None
    ci_low: Float = None
    ci_high: Float = None
    ci_method: str | None = None
    """Method and number of resamples of the interval: ``cluster-bootstrap-bca-10000``."""
    # the mean over all runs of the same cell: fits from several seeds, draws of random weights
    n_runs: Int = 1
    """Rows that differ in ``seed`` or ``init_seed`` alone, this one included."""
    mean: Float = None
    """Mean of their values; this and the following fields are None where there is one run."""
    mean_stderr: Float = None
    mean_ci_low: Float = None
    """The interval covers other runs and other test sentences."""
    mean_ci_high: Float = None
    mean_ci_method: str | None = None
    # provenance
    versions: Annotated[str, AfterValidator(partial(_checked_json, dict[str, str | None]))] = "{}"
    """JSON: component → version."""
    device: str | None = None
    dtype: str | None = None
    wall_s: Float = None
    """Seconds. Cells that are computed together take equal shares of their time, and the rows of a cell of its own, so
    that sums over rows are totals."""
    started_utc: str | None = None
    predictions_sha256: str | None = None
    schema_version: Int = SCHEMA_VERSION

    def param(self, name: str, default: Any = None) -> Any:
        """A parameter of the fit, from ``params_json``; ``default`` where it has none of that name."""
        # Most rows have few, and there may be very many rows.
        return json.loads(self.params_json).get(name, default) if f'"{name}"' in self.params_json else default

    @property
    def reading(self) -> str:
        """The readout configuration in words: ``mlp.v1, hidden 64, 10 % of train``; empty for baselines."""
        parts = [".".join(filter(None, (self.readout, self.readout_version)))]
        for name, value in self.param("settings", {}).items():
            text = str(value) if "/" in str(value) else str(value).replace("_", " ")  # paths stay
            if name == "fraction":
                parts.append(f"{100 * value:g} % of train")
            elif name in ("codelength", "erase"):
                parts.append(f"{value} {'code' if name == 'codelength' else 'erased'}")
            elif name != "eraser" or value != "leace":
                parts.append(f"{name.replace('_', ' ')} {text}")
        return ", ".join(filter(None, parts))

    @property
    def answers_itself(self) -> bool:
        """Whether the model itself answers: nothing is trained, items are texts."""
        return self.readout in OWN_HEADS

    @property
    def is_statistic(self) -> bool:
        """Whether it is a statistic of vectors or models themselves, to which nothing was fitted."""
        return self.readout in (VECTORS, ENCODERS, INTERVENTIONS, CLASSIFIER)

    @property
    def is_baseline(self) -> bool:
        """Whether it is the score of a control that reads no layer of any weights."""
        return self.control != ITSELF and self.init is None and self.readout is None

    @property
    def clusters(self) -> str:
        """The task's name for the clusters; ``sentences`` if it has none."""
        known = "clusters" if self.answers_itself else "pairs" if self.param("items") == "pairs" else "sentences"
        return str(self.param("clusters", known))

    @property
    def training(self) -> str:
        """The model without its pretraining seed and step: what checkpoints of a training have in common."""
        return training_name(str(self.model), pretraining_seed=self.pretraining_seed, step=self.step)

    @property
    def chances(self) -> dict[str, float]:
        """The share of choices that are right by chance, by group; empty where nothing is chosen."""
        return dict(self.param("chance", {}))

    @property
    def note(self) -> tuple[str, str]:
        """Label and description of the control; its name alone where the row has no note."""
        label, text = self.param("note", (self.control.replace("_", " "), ""))
        return str(label), str(text)

    @property
    def score(self) -> Score:
        """Value and interval of a row that has a value."""
        assert self.value is not None  # rows without a value were left out before
        return Score(self.value, self.ci_low, self.ci_high)


@checked_dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonRow(_Row):
    """One paired comparison of two layers: a row of ``comparisons.parquet``.

    With several seeds the scores compared are means over them, and ``cell_a`` and ``cell_b`` are the cells of the
    first seed.
    """

    family: str
    """Name of the comparisons that were adjusted together."""
    metric: str
    cell_a: str
    cell_b: str
    layer_a: Int | None = None
    layer_b: Int | None = None
    n_pairs: Int
    diff: Float
    """Score of a less score of b."""
    ci_low: Float
    ci_high: Float
    p_raw: float
    p_adj: float


def score_of(scores: Bootstrap, column: int, *, mean: Bootstrap | None = None, n_runs: int = 1) -> dict[str, Any]:
    """The score fields of a :class:`ResultRow` for one column (layer) of a bootstrap.

    Those about the ``mean`` over several runs are made of its own bootstrap, where there is one.
    """
    fields = {"metric": scores.metric, "value": float(scores.values[column])}
    if mean is not None:
        fields |= {"n_runs": n_runs, "mean": float(mean.values[column])}
    for prefix, one in (("", scores), ("mean_", mean)):
        if one is not None:
            fields |= {prefix + name: float(getattr(one, name)[column]) for name in ("stderr", "ci_low", "ci_high")}
            fields[f"{prefix}ci_method"] = one.ci_methods[column]
    return fields


def comparison_rows(
    comparisons: Sequence[Comparison], *, family: str, metric: str, cells: Sequence[str], layers: Sequence[int]
) -> tuple[ComparisonRow, ...]:
    """Rows of one ``family`` of comparisons between columns, each the scores of one of the ``cells`` and ``layers``."""
    rows = []
    for pair in comparisons:
        values = dict(vars(pair))
        a, b = values.pop("a"), values.pop("b")
        sides = {"cell_a": cells[a], "cell_b": cells[b], "layer_a": layers[a], "layer_b": layers[b]}
        rows.append(ComparisonRow(family=family, metric=metric, **sides, **values))
    return tuple(rows)


RowT = TypeVar("RowT", ResultRow, ComparisonRow)


def in_fixed_order(rows: Iterable[RowT]) -> list[RowT]:
    """Rows in an order that does not depend on the one they were computed in."""
    ordered = list(rows)
    # A column at a time, the most important one last: keys of whole rows would take more memory than the rows.
    for name in reversed(_ORDER[type(ordered[0])] if ordered else ()):
        values = map(operator.attrgetter(name), ordered)
        keys = [(value is not None, 0 if value is None else value) for value in values]
        ordered = [ordered[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]
    return ordered


_ORDER: Mapping[type[Any], Sequence[str]] = {
    ResultRow: (
        *("experiment", "task", "corpus", "split", "pretraining_seed", "step"),
        *("model", "pooling", "readout", "init", "control"),
        *("layer", "head", "seed", "init_seed", "metric", "group", "cell_id"),
    ),
    ComparisonRow: ("family", "metric", "layer_a", "layer_b", "cell_a", "cell_b"),
}


_OF_A_MODEL = frozenset({"model", "model_fingerprint", "init", "init_seed", "pooling", "readout"})


def row_fits(row: ResultRow, name: str, value: Any) -> bool:
    """Whether a row has a value in a column, or belongs to no model and so fits any; see :meth:`Results.only`."""
    # Baselines of what one model reads name that model, and no weights or reading of it.
    of_no_weights = row.init is None and row.readout is None
    if name == "pool":
        return of_no_weights or row.param("settings", {}).get("pool", "mean") == value
    if name == "layer" and value is not None and row.n_layers is not None:
        value = layer_number(value, row.n_layers)
    of_no_model = row.model is None or (of_no_weights and name != "model")
    return (of_no_model and name in _OF_A_MODEL) or getattr(row, name) == value


def own_baselines(
    baselines: Sequence[ResultRow], model: str | None, settings: Mapping[str, object] | None = None
) -> list[ResultRow]:
    """The baselines of one task for the items that a model reads, under its ``settings`` where they differ by these.

    Of a text of which a model cannot read all, they are its own.
    """
    of_model = [row for row in baselines if row.model == model]
    if settings is not None:
        of_settings = [row for row in of_model if row.param("settings", {}) == settings]
        of_model = of_settings or [row for row in of_model if not row.param("settings", {})]
    return of_model or [row for row in baselines if row.model is None]


def joined_rows(
    one: Sequence[ResultRow], other: Sequence[ResultRow], *, where: object = "the other"
) -> tuple[ResultRow, ...]:
    """The rows of both, those of the same score once; the first stays, unless it failed.

    Raises:
        ResultsError: one score has two values; the message says ``where`` the second is.
    """
    rows: dict[Any, ResultRow] = {}
    for row in (*one, *other):
        # Models of one architecture share the cells of their random weights, and each has rows of its own; the majority
        # among the items that could be asked of a model is a row of that model's first cell.
        key = (row.cell_id, row.control, row.metric, row.group, row.model, row.head, row.split)
        known = rows.setdefault(key, row)
        if known.status == "failed":
            rows[key] = row
        elif row.status == "ok" and known.value != row.value:
            values = f"{row.metric} of cell {row.cell_id} is {known.value} in one and {row.value} in {where}"
            raise ResultsError(f"task {row.task}: {values}; `bertology verify` tells which run was altered")
    return tuple(rows.values())


def counterpart(layer: int, depth: int, other_depth: int) -> int:
    """The layer of another model at the same relative depth: of the same number in one of equal depth.

    The embeddings correspond to each other, and a block to a block; any layer to the only one of static vectors.
    """
    return max(1, int(layer * other_depth / depth + 0.5)) if layer and other_depth else 0


def grouped(rows: Iterable[RowT], *names: str) -> dict[Any, list[RowT]]:
    """The rows by their values in some columns, several of which make a tuple, in order of first appearance."""
    of = operator.attrgetter(*names)
    return by_key((of(row), row) for row in rows)


def own_init(rows: Sequence[ResultRow]) -> str:
    """The weights that scores are about: where there are several, random ones are the control."""
    return min((row.init for row in rows if row.init), key=list(INITS).index, default="pretrained")


def mean_score(rows: Sequence[ResultRow]) -> Score | None:
    """The mean over runs. Where its own interval is not known, means of bounds stand for it."""
    if not rows:
        return None
    first = rows[0]
    if first.mean is not None and first.n_runs == len(rows):
        return Score(first.mean, first.mean_ci_low, first.mean_ci_high)
    columns = zip(*[(row.value, row.ci_low, row.ci_high) for row in rows], strict=True)
    return Score(*[None if None in column else float(np.mean(column)) for column in columns])  # type: ignore[arg-type]


RESULTS = "results.parquet"
COMPARISONS = "comparisons.parquet"
ASKED = "experiment.yaml"
"""The file in a run's folder that says what was asked."""


def write_results(folder: Path, rows: Sequence[ResultRow], *, comparisons: Sequence[ComparisonRow] = ()) -> None:
    """Write ``results.parquet`` and ``comparisons.parquet`` into ``folder``; the same rows give the same bytes."""
    # The file that marks the folder as a run comes last.
    write_atomically(folder / COMPARISONS, to_parquet(rows_to_table(comparisons, ComparisonRow)))
    write_atomically(folder / RESULTS, to_parquet(rows_to_table(rows, ResultRow)))


def read_result_rows(folder: Path) -> tuple[ResultRow, ...]:
    """The rows of ``results.parquet`` in ``folder``.

    Raises:
        ResultsError: the file is missing or broken, or lacks columns.
    """
    return _read_rows(folder / RESULTS, ResultRow, what="the scores of a run")


def read_comparison_rows(folder: Path) -> tuple[ComparisonRow, ...]:
    """The rows of ``comparisons.parquet`` in ``folder``; raises as :func:`read_result_rows`."""
    return _read_rows(folder / COMPARISONS, ComparisonRow, what="the comparisons of a run")


def row_schema(kind: type[ResultRow] | type[ComparisonRow]) -> pa.Schema:
    """The columns of a table: the fields of its rows, ``schema_version`` first."""
    arrow: dict[Any, Any] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    fields: list[Any] = []
    for name, hint in typing.get_type_hints(kind).items():
        # A whole number or a number that may be missing; what has few values is a text.
        inner = typing.get_args(hint)[0] if type(None) in typing.get_args(hint) else hint
        field = pa.field(name, arrow.get(inner, pa.string()))
        fields.insert(0 if name == "schema_version" else len(fields), field)
    what = "results" if kind is ResultRow else "comparisons"
    return pa.schema(fields, metadata={"bertology": f"{what} {SCHEMA_VERSION}"})


def rows_to_table(rows: Sequence[RowT], kind: type[RowT]) -> pa.Table:
    """Rows in their fixed order as an Arrow table."""
    ordered, schema = in_fixed_order(rows), row_schema(kind)
    columns = [pa.array(map(operator.attrgetter(field.name), ordered), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_to_pandas(rows: Sequence[RowT], kind: type[RowT]) -> pd.DataFrame:
    """Rows in their fixed order as a data frame; whole numbers stay whole where some are missing."""
    types = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype()}
    frame: pd.DataFrame = rows_to_table(rows, kind).to_pandas(types_mapper=types.get)
    return frame


_ROWS_AT_ONCE = 8192


def _read_rows(path: Path, kind: type[RowT], *, what: str) -> tuple[RowT, ...]:
    rows, texts, wanted = list[RowT](), dict[str, str](), list(kind.__dataclass_fields__)
    with opened_parquet(path, what=what) as file:
        columns = file.schema_arrow.names
        # Another schema may have other columns, so the version is checked first.
        of_schema = [name for name in columns if name == "schema_version"]
        versions = file.read(of_schema)[0].unique().to_pylist() if of_schema else []
        other = next((version for version in versions if version != SCHEMA_VERSION), None)
        if other is not None:
            known = f"this version of bertology reads schema {SCHEMA_VERSION}"
            raise ResultsError(f"{path}: written in schema {shortened(other)}, {known}: run it again")
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise ResultsError(f"{path}: no column {', '.join(missing)}; was it written by bertology?")
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=wanted):
            batch.validate(full=True)
            values = zip(*(_shared(batch[name], texts) for name in wanted), strict=True)
            try:
                rows += [kind(**dict(zip(wanted, of_row, strict=True))) for of_row in values]
            except ResultsError as error:
                raise ResultsError(f"{path}: {error}; write it anew by running the same again") from None
    return tuple(rows)


def _shared(column: pa.Array, known: dict[str, str]) -> Iterator[Any]:
    """The values of a column; texts that are ``known`` are one object, since a table may have a million rows."""
    if not pa.types.is_string(column.type):
        return iter(column.to_pylist())
    whole = column.dictionary_encode()
    texts = [*(known.setdefault(text, text) for text in whole.dictionary.to_pylist()), None]
    return map(texts.__getitem__, whole.indices.fill_null(-1).to_pylist())


def frame_to_parquet(frame: pd.DataFrame) -> bytes:
    """The columns of a frame, without its index, as a Parquet file with checksums."""
    return to_parquet(pa.Table.from_pandas(frame, preserve_index=False))


def to_parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file, with checksums of its pages."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", version="2.6", write_page_checksum=True)
    return bytes(sink.getvalue())


@contextlib.contextmanager
def opened_parquet(path: Path, *, what: str) -> Iterator[pq.ParquetFile]:
    """A Parquet file, opened; an error names it as ``what``."""
    if path.is_fifo():
        raise ResultsError(f"{path}: a pipe where {what} was due; delete it and run again")
    try:
        # As one file: the reader of data sets would import pandas, half a second that nothing here needs.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file; it should be {what}") from None
    except (OSError, pa.ArrowException, ValueError, TypeError, KeyError) as error:
        reason = shortened(next(iter(str(error).splitlines()), type(error).__name__))
        raise ResultsError(f"{path}: not readable as {what} ({reason}); delete it and run again") from error
