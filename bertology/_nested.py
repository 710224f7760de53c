"""The order in which portions of a data set grow, whole sentences at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def share_before(clusters: ArrayLike, *, seed: int) -> NDArray[np.float64]:
    """What part of the items comes before each item's cluster when clusters are put in a random order.

    The items where it is below ``f`` are the clusters that begin in the first ``f`` of the data: portions of one seed
    lie inside each other.

    Args:
        clusters: ``int [item]`` number of the cluster (sentence) an item stands in, 0 or more.
        seed: of the order.

    Returns:
        ``[item]`` in [0, 1), the same for all items of a cluster.
    """
    numbers = np.asarray(clusters, dtype=np.int64)
    _, cluster, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    before = np.empty(len(sizes), dtype=np.int64)
    before[order] = np.cumsum(sizes[order]) - sizes[order]
    return np.asarray(before[cluster] / max(1, len(numbers)), dtype=np.float64)
