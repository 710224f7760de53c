"""Records of a cell from which any other score can be computed later: predictions of items, sums of heads."""

from __future__ import annotations

import hashlib
import itertools
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology._files import file_sha256, real_path, write_atomically
from bertology.errors import ResultsError
from bertology.measures.metrics import CountKind, Grouped
from bertology.results.rows import read_parquet, to_parquet

if TYPE_CHECKING:
    import pyarrow as pa

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
        *,
        item_ids: Sequence[str],
        cluster: NDArray[np.integer],
        cluster_ids: Sequence[str],
        group: NDArray[np.integer],
        groups: Sequence[str],
        gold: Sequence[str],
        pred: Sequence[str],
        score: NDArray[np.floating],
        rival: NDArray[np.floating],
        rank: NDArray[np.integer],
        reason: Sequence[str],
    ) -> Predictions:
        """The items of one cell of a cloze task: those that were scored, and those that could not be.

        All are ``[item]`` but the names: ``cluster_ids`` and ``groups``, in which ``cluster`` and ``group`` are places.

        Args:
            gold: what is correct.
            pred: what the model ranks first, or chooses; empty where an item was not scored.
            score: natural logarithm of the probability of what is correct; NaN where an item was not scored.
            rival: that of what it is compared with; NaN where there is none.
            rank: of what is correct, 1 for the first; 0 where it has none.
            reason: why an item was not scored; empty where it was.
        """
        codes, labels = _numbered((*gold, *pred))
        extra = {
            "group": [groups[code] for code in np.asarray(group).tolist()],
            "rival": np.asarray(rival, dtype=np.float32),
            "rank": np.asarray(rank, dtype=np.int32),
            "reason": list(reason),
        }
        gold_codes, pred_codes = codes[: len(gold)], codes[len(gold) :]
        return cls(item_ids, cluster, cluster_ids, gold_codes, pred_codes, score, labels, extra=extra)


def split_sets(labels: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """The labels that are in some of the sets, in order of first appearance, and ``[set, label]`` in which each is."""
    sets = [label.split(SET_MARK) if label else [] for label in labels]
    single = tuple(dict.fromkeys(label for members in sets for label in members))
    return single, np.array([[label in members for label in single] for members in sets], dtype=np.bool_)


@cache
def prediction_schema(*, cloze: bool = False) -> pa.Schema:
    """Columns of ``predictions/<cell_id>.parquet``, of a cloze task with its own."""
    import pyarrow as pa

    coded = pa.dictionary(pa.int32(), pa.string())
    plain = [("item_id", pa.string()), ("cluster_id", coded), ("gold", coded), ("pred", coded), ("score", pa.float32())]
    plain += [("group", coded), ("rival", pa.float32()), ("rank", pa.int32()), ("reason", coded)] if cloze else []
    return pa.schema(plain, metadata={"bertology": "predictions 1"})


def predictions_path(folder: Path, cell_id: str) -> Path:
    """Where a cell's predictions are kept."""
    return folder / _FOLDER / f"{cell_id}.parquet"


def write_predictions(folder: Path, cell_id: str, predictions: Predictions) -> str:
    """Write ``predictions/<cell_id>.parquet`` under ``folder``; returns the file's SHA-256 in hexadecimal digits."""
    return _write(folder, cell_id, prediction_table(predictions))


def prediction_table(predictions: Predictions) -> pa.Table:
    """Predictions as the table that is kept of them, a line an item."""
    import pyarrow as pa

    values = {"cluster": predictions.cluster_ids, "gold": predictions.labels, "pred": predictions.labels}
    codes = {name: getattr(predictions, name).astype(np.int32) for name in values}
    coded = (pa.DictionaryArray.from_arrays(codes[name], _texts(tuple(values[name]))) for name in values)
    columns = [_texts(tuple(predictions.item_ids)), *coded, pa.array(np.asarray(predictions.score, dtype=np.float32))]
    schema = prediction_schema(cloze=bool(predictions.extra))
    if predictions.fold is not None:
        schema = schema.append(pa.field("fold", pa.int32()))
        columns.append(pa.array(predictions.fold, pa.int32()))
    columns += [pa.array(predictions.extra[name], schema.field(name).type) for name in CLOZE if predictions.extra]
    if predictions.label_sets:
        schema = schema.with_metadata({**(schema.metadata or {}), **_SETS})
    return pa.Table.from_arrays(columns, schema=schema)


def _write(folder: Path, cell_id: str, table: pa.Table) -> str:
    content = to_parquet(table)
    write_atomically(predictions_path(folder, cell_id), content)
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=8)
def _texts(values: tuple[str, ...]) -> pa.Array:
    """Texts as Arrow has them, remembered: cells of one task share their items."""
    import pyarrow as pa

    return pa.array(values, pa.string())


Kept = Path | Mapping[str, Any]
"""Where cells keep their predictions: a folder, or in memory what :func:`prediction_table` makes of each."""


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


def read_predictions(folder: Path, cell_id: str) -> Predictions:
    """The predictions of one cell.

    Raises:
        ResultsError: the file is missing or broken.
    """
    table = _read_columns(folder, cell_id)
    labels: dict[str, int] = {}
    clusters: dict[str, int] = {}
    gold, pred = (_recoded(table[name], labels) for name in ("gold", "pred"))
    cluster = _recoded(table["cluster_id"], clusters)
    extra = {name: table[name].to_pylist() for name in CLOZE if name in table.column_names}
    item_ids, score = table["item_id"].to_pylist(), table["score"].to_numpy()
    more = tuple(labels), _has_sets(table), extra, table["fold"].to_numpy() if "fold" in table.column_names else None
    return Predictions(item_ids, cluster, tuple(clusters), gold, pred, score, *more)


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
    labels: dict[str, int] = {}
    clusters: dict[str, int] = {}
    gold, cluster = _recoded(first["gold"], labels), _recoded(first["cluster_id"], clusters)
    pred = [_recoded(first["pred"], labels)]
    pred += [_recoded(_read_columns(folder, cell_id, ("pred",))["pred"], labels) for cell_id in cell_ids[1:]]
    return PredictedLabels(gold, np.stack(pred), cluster, len(clusters), tuple(labels), _has_sets(first))


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
        if kind == "answers":
            return self.items.count_answers(self.rank)
        if kind == "changes":
            return self.items.count_changes(self.rank, self.score, self.rival)
        if kind == "agreement":
            return self.items.count_agreement(self.pred, self.rank)
        return self.items.count_choices(self.score, self.rival)


def read_outcomes(folder: Kept, cell_ids: Sequence[str], *, among: Collection[str] | None = None) -> ClozeOutcomes:
    """The outcomes of cells of a cloze task that predict the very same items, ``among`` those alone if it is given."""
    shared = _read_columns(folder, cell_ids[0], ("item_id", "cluster_id", "group", "reason"))
    item_ids, reasons = shared["item_id"].to_pylist(), shared["reason"].to_pylist()
    scored = [not reason and (among is None or item in among) for item, reason in zip(item_ids, reasons, strict=True)]
    kept = np.array(scored, dtype=bool)
    # Numbered by first appearance, whatever order the file has them in: the bootstrap draws clusters by number.
    cluster, _ = _numbered(shared["cluster_id"].to_pylist())
    group, groups = _numbered(shared["group"].to_pylist())
    words: dict[str, int] = {}
    columns: dict[str, list[NDArray[Any]]] = {"pred": [], "score": [], "rival": [], "rank": []}
    for cell_id in cell_ids:
        table = _read_columns(folder, cell_id, tuple(columns))
        if len(table) != len(kept):
            raise ResultsError(f"{folder}: cells {cell_ids[0]} and {cell_id} were not asked about the same items")
        for name, values in columns.items():
            column = _recoded(table[name], words) if name == "pred" else table[name].to_numpy()
            values.append(column.astype(np.int64 if name in ("pred", "rank") else np.float64)[kept])
    # Clusters without a scored item are none: they would widen nothing and be drawn all the same.
    used, cluster = np.unique(cluster[kept], return_inverse=True)
    items = Grouped(cluster, group[kept], len(used), len(groups))
    names = tuple(itertools.compress(item_ids, scored))
    return ClozeOutcomes(names, items, groups, **{name: np.stack(values) for name, values in columns.items()})


def _numbered(values: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The number of each value, and the values by number."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], dtype=np.int64), tuple(numbers)


def _has_sets(table: pa.Table) -> bool:
    return _SETS.items() <= dict(table.schema.metadata or {}).items()


def _recoded(column: pa.ChunkedArray, numbers: dict[str, int]) -> NDArray[np.int32]:
    """Codes of a column of strings in a numbering that is shared with, and grows by, other columns."""
    column = column.combine_chunks().dictionary_encode()
    places = [numbers.setdefault(value, len(numbers)) for value in column.dictionary.to_pylist()]
    codes: NDArray[np.int32] = np.asarray(places, dtype=np.int32)[column.indices.to_numpy()]
    return codes


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
            if known is not None and known != file_sha256(path):
                raise ResultsError(f"{path}: altered, it is not what the scores were computed of; run the same again")

    def copy(self, cell_id: str, folder: Path) -> None:
        """Copy one cell's files to ``folder``, byte for byte: rows hold the checksum of its predictions."""
        source, target = predictions_path(self.folder, cell_id), predictions_path(folder, cell_id)
        if real_path(source) != real_path(target):
            write_atomically(target, source.read_bytes())
            for fit in (self.folder / FITS).glob(f"{cell_id}.*"):
                write_atomically(folder / FITS / fit.name, fit.read_bytes())

    def __contains__(self, cell_id: object) -> bool:
        return isinstance(cell_id, str) and predictions_path(self.folder, cell_id).exists()

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in sorted((self.folder / _FOLDER).glob("*.parquet")))

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
    import pyarrow as pa

    def lists(name: str) -> pa.ListArray:
        """``[head, cluster]`` sums as one list of heads for each cluster."""
        parts = [getattr(one, name) for one in sums]
        widths = [np.zeros(1), *(np.full(part.shape[1], part.shape[0]) for part in parts)]
        offsets = np.cumsum(np.concatenate(widths)).astype(np.int32)
        values = np.concatenate([np.zeros(0), *(part.T.ravel() for part in parts)]).astype(np.float32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))

    n_clusters = [len(one.clusters) for one in sums]
    names = (np.repeat([getattr(one, name) for one in sums], n_clusters) for name in _HEAD_SUMS[:4])
    columns = [pa.array(values.tolist(), pa.string()).dictionary_encode() for values in names]
    columns.append(pa.array(np.concatenate([np.zeros(0, np.int64), *(one.clusters for one in sums)]).astype(np.int32)))
    columns += [lists("over"), lists("under")]
    return _write(folder, cell_id, pa.table(dict(zip(_HEAD_SUMS, columns, strict=True))))


def read_head_sums(folder: Path, cell_id: str) -> tuple[HeadSums, ...]:
    """The sums of one cell, in the order in which they were written; refused as by :func:`read_predictions`."""
    table = _read_columns(folder, cell_id, _HEAD_SUMS)
    if not len(table):
        return ()
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
