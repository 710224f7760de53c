"""Files that a run keeps of each cell: its record, predictions of items, sums by cluster, and fitted probes.

Any other score can be computed from these later.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
import time
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property, lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from bertology import _files, activations, encoders, readouts
from bertology._lazy import pa, pd, safetensors, torch
from bertology.corpora import Sentence, Sentences, as_sentences
from bertology.errors import FitError, ResultsError, quoted
from bertology.measures.metrics import CountKind, Grouped
from bertology.results.rows import read_parquet, to_parquet

if TYPE_CHECKING:
    from bertology.readouts.kept import KeptFit

_FOLDER = "predictions"
FITS = "fits"
"""The folder of a run in which fitted probes of labels are kept, under the names of their cells."""
SET_MARK = "|"
"""Between the labels of an item that may have any number of them."""
_SETS = {b"labels": b"sets"}
CLOZE = "group", "rival", "rank", "reason"
"""Further columns of a cloze task: see the arguments of :meth:`Predictions.of_cloze`."""
_HEAD_SUMS = "split", "metric", "group", "unit", "cluster_id", "over", "under"


@dataclass(frozen=True, eq=False)
class Predictions:
    """The items of one cell, by column; arrays and lists may be shared between cells."""

    item_ids: Sequence[str]
    """``[item]`` such as ``sentence-id:word``"""
    cluster: NDArray[np.integer]
    """``[item]`` place in ``cluster_ids``"""
    cluster_ids: Sequence[str]
    gold: NDArray[np.integer]
    """``[item]`` place in ``labels``"""
    pred: NDArray[np.integer]
    """``[item]`` place in ``labels``"""
    score: NDArray[np.floating]
    """``[item]`` natural logarithm of the probability of the predicted label."""
    labels: Sequence[str]
    label_sets: bool = False
    """Whether an item may have any number of labels, so that those in ``labels`` are sets: ``awareness|volition``."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of a cloze task, ``[item]`` each, as :data:`CLOZE` names them."""
    fold: NDArray[np.integer] | None = None
    """The fold of a cross-validation, from 1, in which each item was scored by a fit that did not see its group."""

    @property
    def is_cloze(self) -> bool:
        """Whether these are of a cloze task."""
        return set(CLOZE) <= set(self.extra)

    @classmethod
    def of_cloze(
        cls,
        item_ids: Sequence[str],
        cluster: NDArray[np.integer],
        cluster_ids: Sequence[str],
        gold: Sequence[str],
        pred: Sequence[str],
        score: NDArray[np.floating],
        **extra: Any,
    ) -> Predictions:
        """The items of one cell of a cloze task, those that could not be scored among them; ``[item]`` each.

        Args:
            item_ids: as :attr:`item_ids`, like ``cluster`` and ``cluster_ids``.
            gold: what is correct.
            pred: what the model ranks first, or chooses; empty where an item was not scored.
            score: natural logarithm of the probability of what is correct; NaN where an item was not scored.
            extra: its ``group``; ``rival``, the logarithm for what it is compared with, NaN where there is none;
                ``rank`` of what is correct, 1 for the first, 0 where it has none; and ``reason``, why an item was not
                scored, empty where it was.
        """
        codes, labels = _numbered((*gold, *pred))
        return cls(item_ids, cluster, cluster_ids, codes[: len(gold)], codes[len(gold) :], score, labels, extra=extra)


def split_sets(labels: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """The labels that are in some of the sets, in order of first appearance, and ``[set, label]`` in which each is."""
    sets = [label.split(SET_MARK) if label else [] for label in labels]
    single = tuple(dict.fromkeys(label for members in sets for label in members))
    return single, np.array([[label in members for label in single] for members in sets], dtype=np.bool_)


@cache
def prediction_schema(*, cloze: bool = False) -> pa.Schema:
    """Columns of ``predictions/<cell_id>.parquet``, of a cloze task with its own."""
    coded = pa.dictionary(pa.int32(), pa.string())
    plain = [("item_id", pa.string()), ("cluster_id", coded), ("gold", coded), ("pred", coded), ("score", pa.float32())]
    plain += [("group", coded), ("rival", pa.float32()), ("rank", pa.int32()), ("reason", coded)] if cloze else []
    return pa.schema(plain, metadata={"bertology": "predictions 1"})


def predictions_path(folder: Path, cell_id: str) -> Path:
    """The place of a cell's predictions."""
    return folder / _FOLDER / f"{cell_id}.parquet"


def write_predictions(folder: Path, cell_id: str, predictions: Predictions) -> str:
    """Write ``predictions/<cell_id>.parquet`` under ``folder``; returns the file's SHA-256 in hexadecimal digits."""
    return _write(folder, cell_id, prediction_table(predictions))


def prediction_table(predictions: Predictions) -> pa.Table:
    """Predictions as the table that is kept of them, a line an item."""
    schema, columns = prediction_schema(cloze=bool(predictions.extra)), [_texts(tuple(predictions.item_ids))]
    for codes, names in (
        (predictions.cluster, predictions.cluster_ids),
        (predictions.gold, predictions.labels),
        (predictions.pred, predictions.labels),
    ):
        columns.append(pa.DictionaryArray.from_arrays(codes.astype(np.int32), _texts(tuple(names))))
    columns.append(pa.array(np.asarray(predictions.score, dtype=np.float32)))
    if predictions.fold is not None:
        schema = schema.append(pa.field("fold", pa.int32()))
        columns.append(pa.array(predictions.fold, pa.int32()))
    for name in CLOZE if predictions.extra else ():
        columns.append(pa.array(predictions.extra[name], schema.field(name).type))
    if predictions.label_sets:
        schema = schema.with_metadata({**(schema.metadata or {}), **_SETS})
    return pa.Table.from_arrays(columns, schema=schema)


def _write(folder: Path, cell_id: str, table: pa.Table) -> str:
    content = to_parquet(table)
    _files.write_atomically(predictions_path(folder, cell_id), content)
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=8)
def _texts(values: tuple[str, ...]) -> pa.Array:
    """Texts as Arrow has them, remembered: cells of one task share their items."""
    return pa.array(values, pa.string())


Kept = Path | Mapping[str, Any]
"""Storage of the predictions of cells: a folder, or in memory what :func:`prediction_table` makes of each."""


def _read_columns(kept: Kept, cell_id: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A cell's predictions, or some of their columns."""
    if not isinstance(kept, Path):
        return kept[cell_id]
    path = predictions_path(kept, cell_id)
    table = read_parquet(path, what="the predictions of a cell", columns=columns)
    wanted = prediction_schema().names if columns is None else columns
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise ResultsError(f"{path}: no column {', '.join(missing)}; was it written by bertology?")
    return table


def read_predictions(folder: Path, cell_id: str, *folds: Path) -> Predictions:
    """The predictions of one cell, or those in the folders of all folds together, which have no item in common.

    Raises:
        ResultsError: the file is missing or broken.
    """
    tables = [_read_columns(one, cell_id) for one in (folder, *folds)]
    table = pa.concat_tables(tables)
    (gold, pred), labels = _recoded(table["gold"], table["pred"])
    (cluster,), clusters = _recoded(table["cluster_id"])
    item_ids, score, names = table["item_id"].to_pylist(), table["score"].to_numpy(), table.column_names
    extra = {name: table[name].to_pylist() for name in CLOZE if name in names}
    fold = table["fold"].to_numpy() if "fold" in names else None
    if folds:
        fold = np.repeat(np.arange(1, len(tables) + 1), list(map(len, tables)))
    return Predictions(item_ids, cluster, clusters, gold, pred, score, labels, _has_sets(table), extra, fold)


@dataclass(frozen=True, eq=False)
class PredictedLabels:
    """Gold labels of items, and what several cells predict for them: all that scores are made of."""

    gold: NDArray[np.integer]
    """``[item]`` place in ``labels``"""
    pred: NDArray[np.integer]
    """``[cell, item]`` place in ``labels``"""
    cluster: NDArray[np.integer]
    """``[item]`` number of the sentence."""
    n_clusters: int
    labels: tuple[str, ...]
    label_sets: bool


def read_labels(folder: Kept, cell_ids: Sequence[str]) -> PredictedLabels:
    """The labels of cells that predict the very same items, read and refused as by :func:`read_predictions`."""
    first = _read_columns(folder, cell_ids[0], ("cluster_id", "gold", "pred"))
    others = [_read_columns(folder, cell_id, ("pred",))["pred"] for cell_id in cell_ids[1:]]
    (gold, *pred), labels = _recoded(first["gold"], first["pred"], *others)
    (cluster,), clusters = _recoded(first["cluster_id"])
    return PredictedLabels(gold, np.stack(pred), cluster, len(clusters), labels, _has_sets(first))


def read_scores(folder: Kept, cell_ids: Sequence[str]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Scores of cells for the very same items: ``[cell, item]`` the scores, and ``[item]`` the gold labels as text."""
    tables = [_read_columns(folder, cell_id, ("gold", "score")) for cell_id in cell_ids]
    scores = np.stack([table["score"].to_numpy().astype(np.float64) for table in tables])
    return scores, tuple(tables[0]["gold"].to_pylist())


@dataclass(frozen=True, eq=False)
class ClozeOutcomes:
    """Predictions of several cells for the very same items, without those that could not be scored."""

    item_ids: tuple[str, ...]
    """``[item]``"""
    items: Grouped
    groups: tuple[str, ...]
    pred: NDArray[np.int64]
    """``[cell, item]`` number of what the model ranks first."""
    score: NDArray[np.float64]
    """``[cell, item]``"""
    rival: NDArray[np.float64]
    rank: NDArray[np.int64]

    def clusters_of(self, *groups: int) -> NDArray[np.int64]:
        """The clusters that have items in some of the groups."""
        return np.unique(self.items.cluster[np.isin(self.items.group, groups)])

    def counts(self, kind: CountKind) -> NDArray[np.float64]:
        """``[cell, cluster, group, kind]`` counts of one kind, which metrics are made of."""
        if kind == "changes":
            return self.items.count_changes(self.rank, self.score, self.rival)
        if kind == "choices":
            return self.items.count_choices(self.score, self.rival)
        is_answers = kind == "answers"
        return self.items.count_answers(self.rank) if is_answers else self.items.count_agreement(self.pred, self.rank)


def read_outcomes(folder: Kept, cell_ids: Sequence[str], *, among: Collection[str] | None = None) -> ClozeOutcomes:
    """The outcomes of cells of a cloze task that predict the very same items, ``among`` those alone if it is given."""
    shared = _read_columns(folder, cell_ids[0], ("item_id", "cluster_id", "group", "reason"))
    item_ids, reasons = shared["item_id"].to_pylist(), shared["reason"].to_pylist()
    scored = [not reason and (among is None or item in among) for item, reason in zip(item_ids, reasons, strict=True)]
    kept = np.array(scored, dtype=bool)
    # Numbered by first appearance, whatever order the file has them in: the bootstrap draws clusters by number.
    cluster, _ = _numbered(shared["cluster_id"].to_pylist())
    group, groups = _numbered(shared["group"].to_pylist())
    tables = [_read_columns(folder, cell_id, ("pred", "score", "rival", "rank")) for cell_id in cell_ids]
    for cell_id, table in zip(cell_ids, tables, strict=True):
        if len(table) != len(kept):
            raise ResultsError(f"{folder}: cells {cell_ids[0]} and {cell_id} were not asked about the same items")
    words, _ = _recoded(*[table["pred"] for table in tables])
    columns: dict[str, NDArray[Any]] = {"pred": np.stack(words)[:, kept].astype(np.int64)}
    for name, kind in (("score", np.float64), ("rival", np.float64), ("rank", np.int64)):
        columns[name] = np.stack([table[name].to_numpy().astype(kind)[kept] for table in tables])
    # Clusters without a scored item are none: they would widen nothing and be drawn all the same.
    used, cluster = np.unique(cluster[kept], return_inverse=True)
    items = Grouped(cluster, group[kept], len(used), len(groups))
    return ClozeOutcomes(tuple(itertools.compress(item_ids, scored)), items, groups, **columns)


def _numbered(values: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The number of each value, and the values by number."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], dtype=np.int64), tuple(numbers)


def _has_sets(table: pa.Table) -> bool:
    return _SETS.items() <= dict(table.schema.metadata or {}).items()


def _recoded(*columns: pa.ChunkedArray) -> tuple[list[NDArray[np.int32]], tuple[str, ...]]:
    """Codes of columns of strings in a numbering that they share, and the strings by number."""
    numbers: dict[str, int] = {}
    codes: list[NDArray[np.int32]] = []
    for column in columns:
        coded = column.combine_chunks().dictionary_encode()
        places = [numbers.setdefault(value, len(numbers)) for value in coded.dictionary.to_pylist()]
        codes.append(np.asarray(places, dtype=np.int32)[np.from_dlpack(coded.indices)])  # to_numpy imports pandas
    return codes, tuple(numbers)


class PredictionFolder(Mapping[str, Predictions]):
    """The predictions kept in a results folder, read when they are needed."""

    def __init__(self, folder: Path, checksums: Mapping[str, str] | None = None) -> None:
        """Open a folder; predictions whose SHA-256 differs from that in ``checksums``, by cell, are refused."""
        self.folder, self._checksums = folder, checksums or {}

    def __getitem__(self, cell_id: str) -> Predictions:
        if cell_id not in self:
            raise KeyError(cell_id)
        predictions = read_predictions(self.folder, cell_id)
        self.check((cell_id,))
        return predictions

    def check(self, cell_ids: Sequence[str]) -> None:
        """Raise a :class:`ResultsError` where predictions of cells are not what the checksums are of."""
        for cell_id in cell_ids:
            known, path = self._checksums.get(cell_id), predictions_path(self.folder, cell_id)
            if known is not None and known != _files.file_sha256(path):
                raise ResultsError(f"{path}: altered since the scores were computed from it; repeat the run")

    def copy(self, cell_id: str, folder: Path) -> None:
        """Copy one cell's files to ``folder``, byte for byte: rows hold the checksum of its predictions."""
        source, target = predictions_path(self.folder, cell_id), predictions_path(folder, cell_id)
        if _files.real_path(source) != _files.real_path(target):
            _files.write_atomically(target, source.read_bytes())
            for fit in (self.folder / FITS).glob(f"{cell_id}.*"):
                _files.write_atomically(folder / FITS / fit.name, fit.read_bytes())

    def __contains__(self, cell_id: object) -> bool:
        return isinstance(cell_id, str) and predictions_path(self.folder, cell_id).exists()

    def __iter__(self) -> Iterator[str]:
        for path in sorted((self.folder / _FOLDER).glob("*.parquet")):
            yield path.stem

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, eq=False)
class HeadSums:
    """Numerators and denominators of a ratio of attention heads by cluster, in one layer or in no layer."""

    split: str
    metric: str
    group: str
    """Name of the group of items; empty for all items."""
    unit: str
    """``head``, ``layer`` or ``model``: what a ratio belongs to."""
    clusters: NDArray[np.int64]
    """``[cluster]`` numbers of those in which there is anything to count, ascending."""
    over: NDArray[np.float64]
    """``[head, cluster]``; of layers and models one in the place of heads."""
    under: NDArray[np.float64]


def write_head_sums(folder: Path, cell_id: str, sums: Sequence[HeadSums]) -> str:
    """Write ``predictions/<cell_id>.parquet``: a line for each statistic and cluster, the heads in lists.

    Returns the file's SHA-256 in hexadecimal digits.
    """
    columns: dict[str, Any] = {
        name: [getattr(one, name) for one in sums for _ in one.clusters] for name in _HEAD_SUMS[:4]
    }
    columns = {name: pa.array(values, pa.string()).dictionary_encode() for name, values in columns.items()}
    columns["cluster_id"] = pa.array([place for one in sums for place in one.clusters.tolist()], pa.int32())
    for name in ("over", "under"):  # ``[head, cluster]`` sums as one list of heads for each cluster
        heads = [of_heads for one in sums for of_heads in getattr(one, name).T.astype(np.float32)]
        columns[name] = pa.array(heads, pa.list_(pa.float32()))
    return _write(folder, cell_id, pa.table(columns))


def read_head_sums(folder: Path, cell_id: str) -> tuple[HeadSums, ...]:
    """The sums of one cell, in the order in which they were written; refused as by :func:`read_predictions`."""
    table = _read_columns(folder, cell_id, _HEAD_SUMS)
    clusters = table["cluster_id"].to_numpy().astype(np.int64)
    over, under = table["over"].combine_chunks(), table["under"].combine_chunks()
    values = [part.flatten().to_numpy().astype(np.float64) for part in (over, under)]
    starts = over.offsets.to_numpy()
    if not np.array_equal(starts, under.offsets.to_numpy()):
        where = predictions_path(folder, cell_id)
        raise ResultsError(f"{where}: sums of unlike numbers of heads; delete it and run again")
    keys = zip(*(table[name].to_pylist() for name in _HEAD_SUMS[:4]), strict=True)
    sums, last = [], 0
    for key, lines in itertools.groupby(keys):
        first, last = last, last + len(list(lines))
        above, below = (part[starts[first] : starts[last]].reshape(last - first, -1).T for part in values)
        split, metric, group, unit = key
        sums.append(HeadSums(split, metric, group, unit, clusters[first:last], above, below))
    return tuple(sums)


def parts_of(kept: Mapping[str, Predictions]) -> list[Mapping[str, Predictions]]:
    """The predictions of each of the results that some were joined from."""
    return list(kept.maps) if isinstance(kept, ChainMap) else [kept]


_RECORDS = "cells"
KEPT = "probes"
"""The folder of a run in which families keep what is fitted, under the name of its cell."""


@dataclass(frozen=True)
class Cell:
    """One task read from one layer of one model with one readout and seed; or a baseline that reads no layer."""

    identity: Mapping[str, Any]
    """All that decides the numbers: fingerprints, versions, settings. No names, no places, no time."""

    @cached_property
    def id(self) -> str:
        """Hash of the identity, 32 hexadecimal digits."""
        return _files.digest([_files.canonical_json({"format": _files.FORMAT, **self.identity})])


@dataclass(frozen=True)
class CellRecord:
    """The record of a finished cell."""

    cell_id: str
    identity: Mapping[str, Any]
    facts: Mapping[str, Any]
    """Counts of items, skips and labels; the fit's strength and convergence."""
    provenance: Mapping[str, Any]
    predictions_sha256: str
    notes: tuple[str, ...] = field(default=())
    """Notes for the reader of the results."""


def columns_of(record: CellRecord) -> dict[str, Any]:
    """The columns of ``results.parquet`` that all rows of a cell have in common."""
    facts, provenance = dict(record.facts), record.provenance
    # By group they belong to some of the rows.
    facts.pop("groups", None)
    return {
        "cell_id": record.cell_id,
        "skip_reasons": json.dumps(facts.pop("skip_reasons"), sort_keys=True),
        "params_json": json.dumps(facts.pop("params", {}), sort_keys=True),
        **facts,
        "versions": json.dumps(provenance["versions"], sort_keys=True),
        "device": provenance.get("device"),
        "wall_s": provenance["wall_s"],
        "started_utc": provenance.get("fit_started_utc"),
        "predictions_sha256": record.predictions_sha256,
    }


def read_cell(run: Path, cell: Cell) -> CellRecord | None:
    """The record of ``cell`` in folder ``run``; None where it is missing, or its predictions are not those it tells of.

    Their checksum is taken once by each process, and again when the file has changed.
    """
    try:
        # As text: of a thousand cells, each asked about several times, the making of paths is most of the time.
        with open(f"{run}/{_RECORDS}/{cell.id}.json", "rb") as file:  # noqa: PTH123
            plain = json.loads(file.read())
        record = CellRecord(**{**plain, "notes": tuple(plain["notes"])})
        is_whole = (record.cell_id, record.predictions_sha256) == (cell.id, predictions_checksum(run, cell.id))
    except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):  # the last: of ten thousand brackets
        return None
    return record if is_whole else None


def all_finished(run: Path, cells: Iterable[Cell]) -> bool:
    """Whether folder ``run`` has the records of all ``cells``."""
    return all(read_cell(run, cell) is not None for cell in cells)


def predictions_checksum(run: Path, cell_id: str) -> str:
    """SHA-256 of a cell's predictions, which have to be there."""
    path = f"{run}/{_FOLDER}/{cell_id}.parquet"
    return _sha256(path, _files.signature(path))


@lru_cache(maxsize=1 << 17)
def _sha256(path: str, signed: tuple[int, int, int]) -> str:
    return _files.file_sha256(Path(path))


def write_cell(
    run: Path,
    cell: Cell,
    predictions: Predictions | Sequence[HeadSums],
    *,
    facts: Mapping[str, Any],
    provenance: Mapping[str, Any],
    notes: tuple[str, ...] = (),
) -> None:
    """Write a cell's predictions, or sums, then its record, which makes it finished."""
    if isinstance(predictions, Predictions):
        checksum = write_predictions(run, cell.id, predictions)
    else:
        checksum = write_head_sums(run, cell.id, predictions)
    record = CellRecord(cell.id, dict(cell.identity), dict(facts), dict(provenance), checksum, notes)
    content = json.dumps(vars(record), indent=1, ensure_ascii=False).encode()
    _files.write_atomically(run / _RECORDS / f"{cell.id}.json", content, remedy="name another folder with --out")


@cache
def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, bertology and ``packages``; nothing is imported."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in ("bertology", *packages)}


@dataclass(frozen=True)
class Stopwatch:
    """The time at which a fit began."""

    started: datetime = field(default_factory=partial(datetime.now, UTC))
    clock: float = field(default_factory=time.perf_counter)

    def provenance(self, *packages: str, device: str, n_cells: int = 1) -> dict[str, Any]:
        """The provenance of each of ``n_cells`` that are finished now: versions, device, when they were begun, and an
        equal share of the time that they took together."""
        return {
            "versions": versions(*packages),
            "device": device,
            "fit_started_utc": self.started.isoformat(timespec="seconds"),
            "wall_s": round((time.perf_counter() - self.clock) / n_cells, 6),
        }


BETWEEN_SPANS = " | "
Items = Literal["words", "sentences", "pairs", "spans"]
"""The kind of item that gets a label: a word; a whole text; two texts in a row; spans of words that are named."""


@dataclass(frozen=True, kw_only=True)
class FitOrigin:
    """The data and vectors that a probe was fitted to, which decide what it applies to."""

    task: str
    corpus: str
    train_fingerprint: str
    """Fingerprint of the sentences it was fitted on."""
    model: str
    """Name by which the model is loaded again."""
    revision: str | None = None
    init: str = "pretrained"
    init_seed: int = 0
    model_fingerprint: str
    layer: int | None
    """The layer; None for a fit to several layers together."""
    pooling: str
    dtype: str = "float32"
    stored_dtype: str = "float16"
    max_pieces: int | None = None
    readout: str
    items: Items = "sentences"
    labels: tuple[str, ...] = ()
    kind: str = "softmax"
    """Kind of the scores, as :attr:`bertology.readouts.kept.KeptFit.kind`."""
    layers: tuple[int, ...] = ()
    """Layers that are read, where they are not the one."""
    design: Mapping[str, Any] = field(default_factory=dict)
    """Design of the readout, as :attr:`bertology.readouts.kept.KeptFit.design`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    are_compared: bool = False
    """Whether difference and product of the vectors of two texts follow them."""
    relations: tuple[str, ...] = ()
    """Names of the relations of a probe of trees, in its own order."""


@dataclass(frozen=True, eq=False)
class KeptProbe:
    """A probe as it was fitted, in two files: tensors, and the JSON that describes them."""

    parts: ClassVar[tuple[str, ...]] = ()
    """The tensors that it may have; any where none are named."""
    origin: FitOrigin
    tensors: Mapping[str, torch.Tensor]

    def save(self, path: Path) -> None:
        """Write ``path.safetensors``, then ``path.json``, which makes the probe whole."""
        plain = {name: value.detach().float().cpu().contiguous() for name, value in self.tensors.items()}
        _files.write_atomically(path.with_name(f"{path.name}.safetensors"), safetensors.torch.save(plain))
        content = json.dumps({"format": _files.FORMAT, **asdict(self.origin)}, indent=1, ensure_ascii=False)
        _files.write_atomically(path.with_name(f"{path.name}.json"), content.encode())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises:
            BertologyError: a file is missing, broken or of another format.
        """
        about, weights = (path.with_name(f"{path.name}{ending}") for ending in (".json", ".safetensors"))
        try:
            with _files.opened(about, error=ResultsError, missing="fit the probe anew") as file:
                content = file.read()
            if (version := json.loads(content).get("format")) != _files.FORMAT:
                known = f"this version reads {_files.FORMAT}"
                raise ResultsError(f"{about}: a probe of format {version}, {known}; fit it anew")
            origin = _files.parse_json(content, where=str(about), what="a probe", form=FitOrigin, remedy="fit it anew")
            tensors = safetensors.torch.load_file(weights)
            if cls.parts and (other := tensors.keys() - set(cls.parts)):
                raise ValueError(f"it has {', '.join(sorted(other))}")
        except (OSError, ValueError, AttributeError, safetensors.SafetensorError) as error:
            raise ResultsError(f"{about}: not a complete probe ({error}); fit it anew") from error
        return cls(origin, tensors)


@dataclass(frozen=True, eq=False)
class FittedProbe(KeptProbe):
    """A probe of labels as it was fitted to one layer; :meth:`Results.fitted` finds it.

    Its tensors are ``coefficients [class, dim]`` and ``intercepts [class]``, for raw vectors; of a perceptron they
    follow ``hidden [unit, dim]`` and ``hidden_bias [unit]`` with ReLUs; of an edge probe its parameters.
    """

    def __repr__(self) -> str:
        at = self.origin
        where = "all layers" if at.layer is None else f"layer {at.layer}"
        what = "numbers" if at.kind == "number" else f"{len(at.labels)} labels"
        return f"<FittedProbe {at.task} at {where} of {at.model}: {what} of {at.items}>"

    def predict(self, texts: Any, *, places: Sequence[Sequence[str]] | None = None, model: Any = None) -> pd.DataFrame:
        """The most probable label of each item of new texts, or its number.

        Args:
            texts: one or several, each a string, or a list of its words; of tasks about two texts pairs of them.
            places: of tasks about spans, by text those that are asked about, such as ``["2-3", "1,4-5"]``: words
                counted from 1, with a comma between two spans.
            model: the encoder, if it is not to be loaded by the name it was probed by.

        Returns:
            A line an item: ``text``, of words and spans ``place`` and ``word``; then ``label`` (several are joined by
            ``|``) and ``probability`` (NaN where the readout gives none), or of numbers ``value``.

        Raises:
            FitError: the encoder is another one, or places are missing or outside a text.
            ModelError: a word has no vector.
        """
        about, scores = self._read(texts, places, model)
        if self.origin.kind == "number":
            return about.assign(value=scores[:, 0].double().numpy())
        best, probability = self._fit.best(scores)
        known = np.array(self.origin.labels, dtype=object)
        # A set of labels is written as in the predictions of the run.
        labels = known[best] if best.ndim == 1 else [SET_MARK.join(known[row]) for row in best.numpy()]
        return about.assign(label=labels, probability=probability.numpy())

    def predict_proba(
        self, texts: Any, *, places: Sequence[Sequence[str]] | None = None, model: Any = None
    ) -> pd.DataFrame:
        """The probability of every label, a column each, of each item of new texts; arguments as in :meth:`predict`.

        Raises:
            FitError: the readout gives no probabilities; or as in :meth:`predict`.
        """
        about, scores = self._read(texts, places, model)
        probabilities = self._fit.probabilities(scores)
        if probabilities is None:
            raise FitError(f"{self.origin.readout} gives no probabilities: ask predict for what it predicts")
        index = pd.MultiIndex.from_frame(about)
        return pd.DataFrame(probabilities.numpy(), columns=list(self.origin.labels), index=index)

    def logits(self, vectors: torch.Tensor) -> torch.Tensor:
        """``[item, class]`` scores of ``[item, dim]`` vectors of its layer, through which gradients pass."""
        return self._fit.of_vectors(vectors)

    @property
    def _fit(self) -> KeptFit:
        from bertology.readouts.kept import KeptFit

        return KeptFit(self.tensors, self.origin.design, cast(Any, self.origin.kind))

    def _read(self, texts: Any, places: Any, model: Any) -> tuple[pd.DataFrame, torch.Tensor]:
        """The columns that tell items apart, and their scores ``[item, class]``."""
        sentences, of_items = self._items(texts, places)
        encoder, at = model, self.origin
        if not isinstance(model, encoders.Encoder):  # loaded by its name, unless another is given
            name, revision = (at.model, at.revision) if model is None else (encoders.model_name(model), None)
            weights: dict[str, Any] = {"init": at.init, "seed": at.init_seed, "dtype": at.dtype}
            encoder = encoders.load_encoder(name, revision=revision, max_pieces=at.max_pieces, **weights)
        if encoder.fingerprint != at.model_fingerprint:
            other = f"it cannot read the vectors of {encoder.name}; give model="
            raise FitError(f"the probe was fitted on {at.model}: {other}")
        pool, layers = at.settings.get("pool", "mean"), at.layers or (cast(int, at.layer),)
        pooling = pool if pool == "cls" else at.pooling
        vectors = activations.read_words(encoder, Sentences(sentences), layers=layers, pooling=pooling)
        if at.stored_dtype == "float16":  # as the vectors were that it was fitted to
            vectors = vectors.half().float()
        starts = np.cumsum([0, *map(len, sentences)])
        spans = [[(first + starts[n], last + starts[n]) for first, last in item] for n, item in of_items]
        of_words = np.array(spans, dtype=np.int64)
        source: Any = readouts.ArrayFeatures(vectors) if pool == "cls" else readouts.ArraySpans(vectors, of_words)
        if pool != "cls" and not at.design:
            source = readouts.pooled(source, pooling=pool, compare=at.are_compared)
        about = {"text": [sentences[number].text for number, _ in of_items]}
        if at.items in ("words", "spans"):
            about["place"] = [written_place(item) for _, item in of_items]
            about["word"] = []
            for number, item in of_items:
                text, places = sentences[number].text, sentences[number].spans
                about["word"].append(BETWEEN_SPANS.join(text[places[a][0] : places[b - 1][1]] for a, b in item))
        return pd.DataFrame(about), self._fit.scores(source)

    def _items(self, texts: Any, places: Any) -> tuple[list[Sentence], list[tuple[int, list[tuple[int, int]]]]]:
        """The sentences, and of each item the number of its sentence and its spans there."""
        kind = self.origin.items
        if (places is None) == (kind == "spans"):
            remedy = "give places" if kind == "spans" else "leave places out"
            raise FitError(f"task {self.origin.task} is about {kind}: {remedy}")
        if kind == "pairs":  # two texts in a row as one sentence
            joined, items = [], []
            for n, (one, other) in enumerate(zip(*map(as_sentences, zip(*texts, strict=True)), strict=True)):
                offset, words = len(one.text) + 1, (*one.words, *other.words)
                spans = (*one.spans, *[(begin + offset, end + offset) for begin, end in other.spans])
                joined.append(Sentence("", f"{one.text} {other.text}", words, spans))
                items.append((n, [(0, len(one)), (len(one), len(words))]))
            return joined, items
        sentences = list(as_sentences(texts))
        if kind == "words":
            return sentences, [(n, [(k, k + 1)]) for n, sentence in enumerate(sentences) for k in range(len(sentence))]
        if kind == "sentences":
            return sentences, [(n, [(0, len(sentence))]) for n, sentence in enumerate(sentences)]
        by_text = [places] if all(isinstance(place, str) for place in places) else places
        items = [(n, spans_of(place)) for n, of_text in enumerate(by_text) for place in of_text]
        for n, item in items:
            if n >= len(sentences) or not all(0 <= first < last <= len(sentences[n]) for first, last in item):
                raise FitError(f"place {quoted(written_place(item))} of text {n + 1}: not among its words")
        return sentences, items


def spans_of(place: str) -> list[tuple[int, int]]:
    """The spans of a place such as ``3-5,7``, counted from 0, end exclusive: ``[(2, 5), (6, 7)]``."""
    try:
        ends = [span.partition("-") for span in place.split(",")]
        return [(int(first) - 1, int(last or first)) for first, _, last in ends]
    except ValueError:
        raise FitError(f"place {quoted(place)}: write words counted from 1, such as 3, 3-5 or 3-5,7") from None


def written_place(spans: Sequence[Sequence[int]]) -> str:
    """The place of spans that are counted from 0, end exclusive: ``3-5,7`` for ``[(2, 5), (6, 7)]``."""
    return ",".join(str(last) if last == first + 1 else f"{first + 1}-{last}" for first, last in spans)
