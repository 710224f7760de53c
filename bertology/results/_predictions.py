"""What was predicted for every item of a cell, kept so that any other score can be computed later."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology._files import real_path, write_atomically
from bertology._sealed import file_sha256
from bertology.errors import ResultsError
from bertology.results._parquet import read_parquet, to_parquet

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "predictions"
SET_MARK = "|"
"""Between the labels of an item that may have any number of them."""
_SETS = {b"labels": b"sets"}


@dataclass(frozen=True, eq=False)
class Predictions:
    """The items of one cell, by column; arrays and lists may be shared between cells."""

    item_ids: Sequence[str]
    """``[item]`` such as ``sentence-id:word``"""
    cluster: NDArray[np.integer]
    """``[item]`` place in ``cluster_ids``"""
    cluster_ids: Sequence[str]
    """Sentence ids."""
    gold: NDArray[np.integer]
    """``[item]`` place in ``labels``"""
    pred: NDArray[np.integer]
    """``[item]`` place in ``labels``"""
    score: NDArray[np.floating]
    """``[item]`` natural log of the probability of the predicted label."""
    labels: Sequence[str]
    label_sets: bool = False
    """Whether an item may have any number of labels, so that those in ``labels`` are sets: ``awareness|volition``."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Of a cloze task the further columns that :data:`CLOZE` names, ``[item]`` each."""


CLOZE = "group", "rival", "rank", "reason"
"""Columns that the predictions of a cloze task have besides: the group of an item; the logarithm of the probability of
what the answer is compared with; the answer's place; why an item was not scored."""


@cache
def prediction_schema(*, cloze: bool = False) -> pa.Schema:
    """Columns of ``predictions/<cell_id>.parquet``, of a cloze task with its own."""
    import pyarrow as pa

    coded = pa.dictionary(pa.int32(), pa.string())
    plain = [("item_id", pa.string()), ("cluster_id", coded), ("gold", coded), ("pred", coded), ("score", pa.float32())]
    more = [("group", coded), ("rival", pa.float32()), ("rank", pa.int32()), ("reason", coded)] if cloze else []
    return pa.schema([*plain, *more], metadata={"bertology": "predictions 1"})


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
    """As in :class:`Predictions`."""


def split_sets(labels: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """The labels that are in some of the sets, in order of first appearance, and ``[set, label]`` in which each is."""
    sets = [label.split(SET_MARK) if label else [] for label in labels]
    single = tuple(dict.fromkeys(label for found in sets for label in found))
    return single, np.array([[label in found for label in single] for found in sets], dtype=np.bool_)


def write_predictions(folder: Path, cell_id: str, predictions: Predictions) -> str:
    """Write ``predictions/<cell_id>.parquet`` under ``folder``.

    Returns:
        The file's SHA-256, as 64 hexadecimal digits.
    """
    import pyarrow as pa

    def coded(codes: NDArray[np.integer], values: Sequence[str]) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(codes.astype(np.int32), _texts(values))

    columns = [
        _texts(predictions.item_ids),
        coded(predictions.cluster, predictions.cluster_ids),
        coded(predictions.gold, predictions.labels),
        coded(predictions.pred, predictions.labels),
        pa.array(np.asarray(predictions.score, dtype=np.float32)),
    ]
    schema = prediction_schema(cloze=bool(predictions.extra))
    columns += [pa.array(predictions.extra[name], schema.field(name).type) for name in CLOZE if predictions.extra]
    if predictions.label_sets:
        schema = schema.with_metadata({**(schema.metadata or {}), **_SETS})
    content = to_parquet(pa.Table.from_arrays(columns, schema=schema))
    write_atomically(predictions_path(folder, cell_id), content)
    return hashlib.sha256(content).hexdigest()


def read_predictions(folder: Path, cell_id: str) -> Predictions:
    """The predictions of one cell.

    Raises:
        ResultsError: the file is missing or broken.
    """
    table = _read(folder, cell_id, None)
    labels: dict[str, int] = {}
    gold, pred = (_recoded(table[name], labels) for name in ("gold", "pred"))
    clusters: dict[str, int] = {}
    cluster = _recoded(table["cluster_id"], clusters)
    score = table["score"].to_numpy()
    item_ids = table["item_id"].to_pylist()
    extra = {name: table[name].to_pylist() for name in CLOZE if name in table.column_names}
    return Predictions(item_ids, cluster, tuple(clusters), gold, pred, score, tuple(labels), _has_sets(table), extra)


def read_labels(folder: Path, cell_ids: Sequence[str]) -> PredictedLabels:
    """The labels of cells that were asked about the very same items; nothing else is read of them.

    Raises:
        ResultsError: a file is missing or broken.
    """
    first = _read(folder, cell_ids[0], ("cluster_id", "gold", "pred"))
    labels: dict[str, int] = {}
    clusters: dict[str, int] = {}
    gold, cluster = _recoded(first["gold"], labels), _recoded(first["cluster_id"], clusters)
    pred = [_recoded(first["pred"], labels)]
    pred += [_recoded(_read(folder, cell_id, ("pred",))["pred"], labels) for cell_id in cell_ids[1:]]
    return PredictedLabels(gold, np.stack(pred), cluster, len(clusters), tuple(labels), _has_sets(first))


def read_scores(folder: Path, cell_ids: Sequence[str]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """What cells say of the very same items: ``[cell, item]`` their scores, and ``[item]`` the gold labels as text.

    Raises:
        ResultsError: a file is missing or broken.
    """
    tables = [_read(folder, cell_id, ("gold", "score")) for cell_id in cell_ids]
    scores = np.stack([table["score"].to_numpy().astype(np.float64) for table in tables])
    return scores, tuple(tables[0]["gold"].to_pylist())


def read_columns(folder: Path, cell_id: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of a cell's predictions.

    Raises:
        ResultsError: the file is missing or broken, or has no such column.
    """
    return _read(folder, cell_id, columns)


def _has_sets(table: pa.Table) -> bool:
    return _SETS.items() <= dict(table.schema.metadata or {}).items()


class PredictionFolder(Mapping[str, Predictions]):
    """The predictions kept in a results folder, read when asked for."""

    def __init__(self, folder: Path, checksums: Mapping[str, str] | None = None) -> None:
        """Of a folder; predictions that are not what ``checksums`` (SHA-256 by cell) are of are refused."""
        self.folder = folder
        self._checksums = checksums or {}

    def __getitem__(self, cell_id: str) -> Predictions:
        if cell_id not in self:
            raise KeyError(cell_id)
        found, path = read_predictions(self.folder, cell_id), predictions_path(self.folder, cell_id)
        if self._checksums.get(cell_id, checksum := file_sha256(path)) != checksum:
            raise ResultsError(f"{path}: altered, it is not what the scores were computed of; run the same again")
        return found

    def copy(self, cell_id: str, folder: Path) -> None:
        """Put one cell's file under ``folder`` as well, byte for byte: its checksum stands in the rows."""
        here, there = predictions_path(self.folder, cell_id), predictions_path(folder, cell_id)
        if real_path(here) != real_path(there):
            write_atomically(there, here.read_bytes())

    def __contains__(self, cell_id: object) -> bool:
        return isinstance(cell_id, str) and predictions_path(self.folder, cell_id).exists()

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in sorted((self.folder / FOLDER).glob("*.parquet")))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _read(folder: Path, cell_id: str, columns: Sequence[str] | None) -> pa.Table:
    """The file of a cell, or some of its columns."""
    path = predictions_path(folder, cell_id)
    table = read_parquet(path, what="the predictions of a cell", columns=columns)
    wanted = prediction_schema().names if columns is None else columns
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise ResultsError(f"{path}: no column {', '.join(missing)}; was it written by bertology?")
    return table


def _texts(values: Sequence[str]) -> pa.Array:
    """Texts as Arrow has them."""
    import pyarrow as pa

    # Only what cannot change may be remembered.
    return _texts_kept(values) if isinstance(values, tuple) else pa.array(list(values), pa.string())


@lru_cache(maxsize=8)
def _texts_kept(values: tuple[str, ...]) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, pa.string())


def predictions_path(folder: Path, cell_id: str) -> Path:
    """Where a cell's predictions are kept."""
    return folder / FOLDER / f"{cell_id}.parquet"


def _recoded(column: pa.ChunkedArray, numbers: dict[str, int]) -> NDArray[np.int32]:
    """Codes of a column of strings in a numbering that is shared with, and grows by, other columns."""
    column = column.combine_chunks().dictionary_encode()
    places = [numbers.setdefault(value, len(numbers)) for value in column.dictionary.to_pylist()]
    codes: NDArray[np.int32] = np.asarray(places, dtype=np.int32)[column.indices.to_numpy()]
    return codes
