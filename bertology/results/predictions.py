"""What a run keeps of each cell: predictions of items or sums by cluster, and the fitted probe.

Any other score can be computed from these later.
"""

from __future__ import annotations

import itertools
import json
import platform
import time
from collections import ChainMap, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from bertology import _files, activations, encoders, readouts
from bertology._lazy import pa, pd, pq, safetensors, torch
from bertology._names import by_key
from bertology.corpora import Sentence, Sentences, as_sentences
from bertology.errors import FitError, ResultsError, quoted
from bertology.measures.metrics import CountKind, Grouped
from bertology.results import cells
from bertology.results.cells import PREDICTIONS, RECORDS, Cell, CellRecord

if TYPE_CHECKING:
    from bertology.readouts.kept import KeptFit

FITS = "fits"
"""The folder of a run in which fitted probes of labels are kept, under the names of the files of their cells."""
SET_MARK = "|"
"""Between the labels of an item that may have any number of them."""
_SETS = {b"labels": b"sets"}
_REMEDY = "name another folder with --out"
CLOZE = "group", "rival", "rank", "reason"
"""Further columns of a cloze task: see the arguments of :meth:`Predictions.of_cloze`."""
INFORMATION = "information_bits"
"""Further column where usable information is measured: that about each item's label, NaN where train lacks it."""
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
    """Further columns, ``[item]`` each: those of a cloze task, as :data:`CLOZE` names them, or :data:`INFORMATION`."""
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
    """Columns of the predictions of a cell, of a cloze task with its own."""
    coded = pa.dictionary(pa.int32(), pa.string())
    plain = [("item_id", pa.string()), ("cluster_id", coded), ("gold", coded), ("pred", coded), ("score", pa.float32())]
    plain += [("group", coded), ("rival", pa.float32()), ("rank", pa.int32()), ("reason", coded)] if cloze else []
    return pa.schema(plain, metadata={"bertology": "predictions 2"})


def write_predictions(folder: Path, cell_id: str, predictions: Predictions) -> str:
    """Write a file with the predictions of one cell under ``folder``; returns their SHA-256."""
    files = CellFiles(folder)
    files.add_table(cell_id, prediction_table(predictions))
    return files.write_tables()[cell_id]


def prediction_table(predictions: Predictions) -> pa.Table:
    """Predictions as the table that is kept of them, a line an item."""
    one, schema, columns = predictions, prediction_schema(cloze=predictions.is_cloze), list[Any]()
    for codes, names in ((one.cluster, one.cluster_ids), (one.gold, one.labels), (one.pred, one.labels)):
        columns.append(pa.DictionaryArray.from_arrays(codes.astype(np.int32), _texts(tuple(names))))
    columns = [_texts(tuple(one.item_ids)), *columns, pa.array(np.asarray(one.score, dtype=np.float32))]
    columns += [pa.array(one.extra[name], schema.field(name).type) for name in CLOZE if one.is_cloze]
    table = pa.Table.from_arrays(columns, schema=schema)
    if one.fold is not None:
        table = table.append_column("fold", pa.array(one.fold, pa.int32()))
    if INFORMATION in one.extra:
        table = table.append_column(INFORMATION, pa.array(np.asarray(one.extra[INFORMATION], dtype=np.float32)))
    return table.replace_schema_metadata({**table.schema.metadata, **_SETS}) if one.label_sets else table


@lru_cache(maxsize=8)
def _texts(values: tuple[str, ...]) -> pa.Array:
    """Texts as Arrow has them, remembered: cells of one task share their items."""
    return pa.array(values, pa.string())


Kept = Path | Mapping[str, Any]
"""Storage of the predictions of cells: a folder, or in memory what :func:`prediction_table` makes of each."""


def _read_columns(kept: Kept, cell_ids: Sequence[str], columns: Sequence[str] | None = None) -> list[pa.Table]:
    """The predictions of cells, or some of their columns."""
    if not isinstance(kept, Path):
        return [kept[cell_id] for cell_id in cell_ids]
    wanted, tables = prediction_schema().names if columns is None else columns, []
    for path, table in cells.read_tables(kept, cell_ids, columns):
        if missing := [name for name in wanted if name not in table.column_names]:
            raise ResultsError(f"{path}: no column {', '.join(missing)}; was it written by bertology?")
        tables.append(table)
    return tables


def read_predictions(folder: Path, cell_id: str, *folds: Path) -> Predictions:
    """The predictions of one cell, or those in the folders of all folds together, which have no item in common.

    Raises:
        ResultsError: the file is missing or broken.
    """
    tables = [_read_columns(one, [cell_id])[0] for one in (folder, *folds)]
    table = pa.concat_tables(tables)
    (gold, pred), labels = _recoded(table["gold"], table["pred"])
    (cluster,), clusters = _recoded(table["cluster_id"])
    item_ids, score, names = table["item_id"].to_pylist(), table["score"].to_numpy(), table.column_names
    extra: dict[str, Any] = {name: table[name].to_pylist() for name in CLOZE if name in names}
    if INFORMATION in names:
        extra[INFORMATION] = table[INFORMATION].to_numpy()
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
    (first,) = _read_columns(folder, cell_ids[:1], ("cluster_id", "gold", "pred"))
    others = _read_columns(folder, cell_ids[1:], ("pred",))
    (gold, *pred), labels = _recoded(first["gold"], *(table["pred"] for table in (first, *others)))
    (cluster,), clusters = _recoded(first["cluster_id"])
    return PredictedLabels(gold, np.stack(pred), cluster, len(clusters), labels, _has_sets(first))


def read_scores(folder: Kept, cell_ids: Sequence[str]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Scores of cells for the very same items: ``[cell, item]`` the scores, and ``[item]`` the gold labels as text."""
    tables = _read_columns(folder, cell_ids, ("gold", "score"))
    scores = np.stack([table["score"].to_numpy().astype(np.float64) for table in tables])
    return scores, tuple(tables[0]["gold"].to_pylist())


def read_information(folder: Kept, cell_ids: Sequence[str]) -> NDArray[np.float64]:
    """``[cell, item]`` usable information about the label of each item in bits, NaN where train lacks the label."""
    tables = _read_columns(folder, cell_ids, (INFORMATION,))
    return np.stack([table[INFORMATION].to_numpy().astype(np.float64) for table in tables])


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
    (shared,) = _read_columns(folder, cell_ids[:1], ("item_id", "cluster_id", "group", "reason"))
    item_ids, reasons = shared["item_id"].to_pylist(), shared["reason"].to_pylist()
    scored = [not reason and (among is None or item in among) for item, reason in zip(item_ids, reasons, strict=True)]
    kept = np.array(scored, dtype=bool)
    # Numbered by first appearance, whatever order the file has them in: the bootstrap draws clusters by number.
    cluster, _ = _numbered(shared["cluster_id"].to_pylist())
    group, groups = _numbered(shared["group"].to_pylist())
    tables = _read_columns(folder, cell_ids, ("pred", "score", "rival", "rank"))
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
            known, (path, part) = self._checksums.get(cell_id), cells.located(self.folder, cell_id)
            if known is not None and known != part.sha256:
                raise ResultsError(f"{path}: altered since the scores were computed from it; repeat the run")

    def copy(self, cell_ids: Iterable[str], folder: Path) -> None:
        """Copy the files of cells to ``folder``, byte for byte: rows hold the checksums of predictions."""
        for name in sorted({str(cells.file_with(self.folder, cell_id)) for cell_id in cell_ids}):
            for path in (Path(PREDICTIONS, f"{name}.parquet"), Path(FITS, f"{name}.safetensors")):
                source, target = self.folder / path, folder / path
                if source.exists() and _files.real_path(source) != _files.real_path(target):
                    _files.write_atomically(target, source.read_bytes())

    def __contains__(self, cell_id: object) -> bool:
        return isinstance(cell_id, str) and cells.file_with(self.folder, cell_id) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(cells.cells_in(self.folder))

    def __len__(self) -> int:
        return len(cells.cells_in(self.folder))


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


def joined_sums(folds: Sequence[Sequence[HeadSums]], n_clusters: Sequence[int]) -> list[HeadSums]:
    """The sums of all folds, in the order of the first, with the clusters of one after those of another."""
    begun = zip(itertools.accumulate(n_clusters, initial=0), folds, strict=False)
    moved = (replace(one, clusters=one.clusters + start) for start, fold in begun for one in fold)
    of_fold = by_key(((one.split, one.metric, one.group, one.unit), one) for one in moved)
    return [
        replace(
            some[0],
            clusters=np.concatenate([one.clusters for one in some]),
            over=np.concatenate([one.over for one in some], axis=1),
            under=np.concatenate([one.under for one in some], axis=1),
        )
        for some in of_fold.values()
    ]


def _sums_table(sums: Sequence[HeadSums]) -> pa.Table:
    """Sums as the table that is kept of them: a line for each statistic and cluster, the heads in lists."""
    columns: dict[str, Any] = {
        name: [getattr(one, name) for one in sums for _ in one.clusters] for name in _HEAD_SUMS[:4]
    }
    columns = {name: pa.array(values, pa.string()).dictionary_encode() for name, values in columns.items()}
    columns["cluster_id"] = pa.array([place for one in sums for place in one.clusters.tolist()], pa.int32())
    for name in ("over", "under"):  # ``[head, cluster]`` sums as one list of heads for each cluster
        heads = [of_heads for one in sums for of_heads in getattr(one, name).T.astype(np.float32)]
        columns[name] = pa.array(heads, pa.list_(pa.float32()))
    return pa.table(columns)


def read_head_sums(folder: Path, cell_id: str) -> tuple[HeadSums, ...]:
    """The sums of one cell, in the order in which they were written; refused as by :func:`read_predictions`."""
    (table,) = _read_columns(folder, [cell_id], _HEAD_SUMS)
    clusters = table["cluster_id"].to_numpy().astype(np.int64)
    over, under = table["over"].combine_chunks(), table["under"].combine_chunks()
    values = [part.flatten().to_numpy().astype(np.float64) for part in (over, under)]
    starts = over.offsets.to_numpy()
    if not np.array_equal(starts, under.offsets.to_numpy()):
        where, _ = cells.located(folder, cell_id)
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


KEPT = "probes"
"""The folder of a run in which probes of trees are kept, under the names of the files of their cells."""


_MOST_ROWS = 1 << 20  # of a row group: a cell with more items has several


@dataclass
class CellFiles(AbstractContextManager["CellFiles"]):
    """The files of cells that are computed together, written when the ``with`` block has ended without an error.

    Predictions are compressed as they are added, so that few are in memory as they are.
    """

    run: Path
    _rows: dict[str, int] = field(default_factory=dict)
    _sink: Any = field(default_factory=lambda: pa.BufferOutputStream())
    _writer: Any = None
    _told: list[CellRecord] = field(default_factory=list)
    _probes: dict[str, dict[str, KeptProbe]] = field(default_factory=lambda: defaultdict(dict))

    def add_table(self, cell_id: str, table: pa.Table) -> None:
        """Add the predictions of a cell alone; tables of one file have the same columns."""
        ids = pa.DictionaryArray.from_arrays(np.zeros(len(table), dtype=np.int32), [cell_id])
        table = table.add_column(0, "cell_id", ids)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, table.schema, compression="zstd", version="2.6")
        self._writer.write_table(table, row_group_size=_MOST_ROWS)
        self._rows[cell_id] = max(1, -(-len(table) // _MOST_ROWS))

    def add(
        self,
        cell: Cell,
        kept: Predictions | Sequence[HeadSums],
        *,
        facts: Mapping[str, Any],
        provenance: Mapping[str, Any],
        notes: tuple[str, ...] = (),
    ) -> None:
        """Add a cell's predictions, or sums, and what its record says."""
        table = prediction_table(kept) if isinstance(kept, Predictions) else _sums_table(kept)
        self.add_table(cell.id, table)
        self._told.append(CellRecord(cell.id, cell.identity, notes, dict(facts), dict(provenance), ""))

    def keep(self, cell: Cell, probe: KeptProbe, *, folder: str) -> None:
        """Add the fitted probe of a cell, to be kept in ``folder`` of the run."""
        self._probes[folder][cell.id] = probe

    def write_tables(self) -> dict[str, str]:
        """Write ``predictions/<name>.parquet``; returns the SHA-256 of each cell's row groups."""
        self._writer.add_key_value_metadata({cells.CELLS: json.dumps(self._rows)})
        self._writer.close()
        content, path = self._sink.getvalue(), self.run / PREDICTIONS / f"{cells.name_of(self._rows)}.parquet"
        _files.write_atomically(path, [content], remedy=_REMEDY)
        parts = cells.parts_in(content, pq.read_metadata(pa.BufferReader(content)))
        return {cell_id: part.sha256 for cell_id, part in parts.items()}

    def write(self) -> None:
        """Write probes and predictions, then the records, which make the cells finished."""
        name = cells.name_of(self._rows)
        for folder, probes in self._probes.items():
            write_probes(self.run / folder / f"{name}.safetensors", probes)
        sums = self.write_tables()
        told = (vars(record) | {"predictions_sha256": sums[record.cell_id]} for record in self._told)
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in told)
        _files.write_atomically(self.run / RECORDS / f"{name}.jsonl", lines.encode(), remedy=_REMEDY)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.write()


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
    """A probe as it was fitted; those of cells that were computed together share a file."""

    parts: ClassVar[tuple[str, ...]] = ()
    """The tensors that it may have; any where none are named."""
    origin: FitOrigin
    tensors: Mapping[str, torch.Tensor]

    @classmethod
    def read(cls, path: Path, *cell_ids: str) -> dict[str, Self]:
        """The probes in a file that :func:`write_probes` wrote, or those of some cells that it has.

        Raises:
            BertologyError: the file is missing, broken or of another format.
        """
        with _files.opened(path, error=ResultsError, missing="fit the probe anew"):
            pass  # a file, and no pipe that never ends
        probes = {}
        try:
            with safetensors.safe_open(path, "pt") as file:
                about = json.loads((file.metadata() or {})["bertology"])
                if (version := about["format"]) != _files.FORMAT:
                    raise ResultsError(f"{path}: probes of format {version}, and not {_files.FORMAT}; fit them anew")
                names = [name.split("/", 1) for name in file.keys()]  # noqa: SIM118 (it is no mapping)
                for cell_id in filter(about["probes"].__contains__, cell_ids or about["probes"]):
                    plain = json.dumps(about["probes"][cell_id])
                    origin = _files.parse_json(plain, where=str(path), what="a probe", form=FitOrigin)
                    tensors = {part: file.get_tensor(f"{cell_id}/{part}") for of, part in names if of == cell_id}
                    if cls.parts and (other := tensors.keys() - set(cls.parts)):
                        raise ValueError(f"it has {', '.join(sorted(other))}")
                    probes[cell_id] = cls(origin, tensors)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, safetensors.SafetensorError) as error:
            raise ResultsError(f"{path}: not complete probes ({error}); fit them anew") from error
        return probes


def write_probes(path: Path, probes: Mapping[str, KeptProbe]) -> None:
    """Write the probes of cells as one file of tensors, named ``cell/tensor``; its metadata say what they are."""
    tensors = {
        f"{cell_id}/{name}": value.detach().float().cpu().contiguous().clone()  # cells of one fit may share it
        for cell_id, probe in probes.items()
        for name, value in probe.tensors.items()
    }
    origins = {cell_id: asdict(probe.origin) for cell_id, probe in probes.items()}
    about = json.dumps({"format": _files.FORMAT, "probes": origins}, ensure_ascii=False)
    _files.write_atomically(path, safetensors.torch.save(tensors, {"bertology": about}))


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
