"""What a cell keeps of attention heads: the two sums of every ratio, by cluster of sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology._files import write_atomically
from bertology.errors import ResultsError
from bertology.results.tables.predictions import predictions_path, read_columns
from bertology.results.tables.store import to_parquet

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = "split", "metric", "group", "unit", "cluster_id", "over", "under"


@dataclass(frozen=True, eq=False)
class HeadSums:
    """The sums of one statistic in one layer, or in no layer."""

    split: str
    metric: str
    group: str
    """Of what the metric is; empty where it is of everything."""
    unit: str
    """``head``, ``layer`` or ``model``: what a ratio belongs to."""
    clusters: NDArray[np.int64]
    """``[cluster]`` numbers of those in which there is anything to count, ascending."""
    over: NDArray[np.float64]
    """``[head, cluster]``; of layers and models one in the place of heads."""
    under: NDArray[np.float64]
    """``[head, cluster]``"""


def write_head_sums(folder: Path, cell_id: str, sums: Sequence[HeadSums]) -> str:
    """Write ``predictions/<cell_id>.parquet``: a line for each statistic and cluster, the heads in lists.

    Returns:
        The file's SHA-256, as 64 hexadecimal digits.
    """
    import pyarrow as pa

    n_clusters = [len(one.clusters) for one in sums]
    names = (np.repeat([getattr(one, name) for one in sums], n_clusters) for name in _COLUMNS[:4])
    columns = [pa.array(values.tolist(), pa.string()).dictionary_encode() for values in names]
    clusters = np.concatenate([one.clusters for one in sums]) if sums else np.zeros(0, np.int64)
    columns.append(pa.array(clusters.astype(np.int32)))
    columns += [_lists([getattr(one, name) for one in sums]) for name in ("over", "under")]
    content = to_parquet(pa.table(dict(zip(_COLUMNS, columns, strict=True))))
    write_atomically(predictions_path(folder, cell_id), content)
    return hashlib.sha256(content).hexdigest()


def read_head_sums(folder: Path, cell_id: str) -> tuple[HeadSums, ...]:
    """The sums of one cell, in the order in which they were written.

    Raises:
        ResultsError: the file is missing or broken.
    """
    table = read_columns(folder, cell_id, _COLUMNS)
    if not len(table):
        return ()
    keys = list(zip(*(table[name].to_pylist() for name in _COLUMNS[:4]), strict=True))
    clusters = table["cluster_id"].to_numpy().astype(np.int64)
    over, under = table["over"].combine_chunks(), table["under"].combine_chunks()
    values = [part.flatten().to_numpy().astype(np.float64) for part in (over, under)]
    starts = over.offsets.to_numpy()
    if not np.array_equal(starts, under.offsets.to_numpy()):
        where = predictions_path(folder, cell_id)
        raise ResultsError(f"{where}: sums of unlike numbers of heads; delete it and run again")
    sums = []
    for first, last in _runs(keys):
        above, below = (part[starts[first] : starts[last]].reshape(last - first, -1).T for part in values)
        split, metric, group, unit = keys[first]
        sums.append(HeadSums(split, metric, group, unit, clusters[first:last], above, below))
    return tuple(sums)


def _lists(parts: Sequence[NDArray[np.float64]]) -> pa.ListArray:
    """``[head, cluster]`` sums as one list of heads for each cluster."""
    import pyarrow as pa

    widths = np.concatenate([np.full(part.shape[1], part.shape[0]) for part in parts]) if parts else np.zeros(0)
    offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
    values = np.concatenate([part.T.ravel() for part in parts]) if parts else np.zeros(0)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.astype(np.float32)))


def _runs(keys: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, int]]:
    """Where lines of one key begin and end."""
    starts = [place for place in range(len(keys)) if place == 0 or keys[place] != keys[place - 1]]
    return zip(starts, [*starts[1:], len(keys)], strict=True)
