"""Intervals of ratios of two sums over clusters: compression, a mean loss, anything that adds up over sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.measures._bootstrap import (
    N_RESAMPLES,
    Bootstrap,
    CiMethod,
    bca_bounds,
    check_resampling,
    exact_bounds,
    summarised,
    weight_blocks,
)
from bertology.measures._metric import Bounds, Floats, ratio

_COLUMNS = 256
"""Number of columns that are resampled together."""


def bootstrap_ratio(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    metric: str,
    bounds: Bounds = "none",
    n_resamples: int = N_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Bootstrap:
    """Interval of a sum over clusters divided by another, by the bootstrap over clusters of :func:`bootstrap`.

    Compression is the uniform code's bits over the code's (Voita & Titov 2020, section 3), a mean loss the losses
    over the numbers of items. With a constant ``denominator`` of one over the number of clusters it is the sum, a
    codelength in bits. Arguments that are not named here are as in :func:`bootstrap`.

    Args:
        numerator: ``[layer, cluster]``, or ``[cluster]`` where all layers share it.
        denominator: ``[layer, cluster]`` or ``[cluster]``, 0 or more.
        metric: name of the ratio.
        bounds: ``share`` where no cluster can add less than 0 or more than its denominator: a share that is 0 or 1 in
            every cluster has an exact interval. A ratio of 1 may well be exceeded otherwise.

    Raises:
        ValueError: shapes that do not fit, no resamples, or a level outside 0…1.
    """
    above, below = (np.atleast_2d(np.asarray(values, dtype=np.float64)) for values in (numerator, denominator))
    if above.shape[1] != below.shape[1] or above.ndim != 2 or below.ndim != 2:
        raise ValueError(f"shapes do not fit: numerator {np.shape(numerator)}, denominator {np.shape(denominator)}")
    check_resampling(n_resamples, level)
    above, below = np.broadcast_arrays(above, below)
    n_layers, n_clusters = above.shape
    replicates = np.empty((n_resamples, n_layers))
    for rows, weights in weight_blocks(n_clusters, n_resamples, seed, dtype=np.float64):
        replicates[rows] = _quotient(weights @ above.T, weights @ below.T)
    total_above, total_below = above.sum(axis=1), below.sum(axis=1)
    jackknife = _quotient(total_above - above.T, total_below - below.T)
    values = _quotient(total_above, total_below)
    used = np.count_nonzero(below, axis=1)
    return summarised(metric, values, replicates, jackknife, level=level, seed=seed, bounds=bounds, used=used)


def sums_over_clusters(values: Floats, clusters: Sequence[str]) -> Floats:
    """``[row, cluster]`` sums of ``[row, item]`` values over the items of each cluster."""
    names, of_item = np.unique(np.array(clusters), return_inverse=True)
    return np.stack([np.bincount(of_item, weights=row, minlength=len(names)) for row in values])


def intervals_over_clusters(numerator: Floats, denominator: Floats, clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Lower and upper bounds of :func:`bootstrap_ratio` of sums over items.

    Args:
        numerator: ``[..., item]``; an item that has no value is 0 in both.
        denominator: ``[..., item]``.
        clusters: ``[item]`` what is resampled together.

    Returns:
        ``[...]`` bounds of 95 %, NaN for fewer than two clusters.
    """
    rows = (part.reshape(-1, len(clusters)) for part in (numerator, denominator))
    sums = (sums_over_clusters(part, clusters) for part in rows)
    scores, shape = bootstrap_ratio(*sums, metric="ratio"), numerator.shape[:-1]
    return scores.ci_low.reshape(shape), scores.ci_high.reshape(shape)


@dataclass(frozen=True)
class RatioIntervals:
    """Ratios ``[column]`` with their intervals, without replicates."""

    values: Floats
    """NaN where the denominator is 0."""
    stderr: Floats
    ci_low: Floats
    ci_high: Floats
    ci_methods: tuple[str, ...]


def ratio_intervals(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    are_shares: ArrayLike = True,
    n_resamples: int = N_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> RatioIntervals:
    """The intervals of :func:`bootstrap_ratio` for many columns at once, such as heads by relations.

    Shares, which never exceed one, have exact bounds where they are 0 or 1 in every cluster, as in :func:`bootstrap`.

    Args:
        numerator: ``[column, cluster]``
        denominator: ``[column, cluster]``, 0 or more.
        are_shares: ``[column]`` whether a column is a share of items, and not a loss or a difference, which may be
            exactly 0 without being a matter of chance.
        n_resamples: as there, like ``level`` and ``seed``.
    """
    above, below = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in (numerator, denominator)))
    shares = np.broadcast_to(np.asarray(are_shares, dtype=bool), len(above))
    blocks = [slice(start, start + _COLUMNS) for start in range(0, len(above), _COLUMNS)]
    parts = [_interval_block(above[block], below[block], shares[block], n_resamples, level, seed) for block in blocks]
    values, stderr, low, high = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "stderr", "ci_low", "ci_high")
    )
    return RatioIntervals(values, stderr, low, high, tuple(method for part in parts for method in part.ci_methods))


def _interval_block(
    above: Floats, below: Floats, are_shares: NDArray[np.bool_], n_resamples: int, level: float, seed: int
) -> RatioIntervals:
    n_columns, n_clusters = above.shape
    # Heads are divided by the same numbers of words, mostly: neighbours that are alike are summed once.
    is_new = np.concatenate([[True], (below[1:] != below[:-1]).any(axis=1)])
    apart, which = below[is_new], np.cumsum(is_new) - 1
    replicates = np.empty((n_columns, n_resamples))
    for rows, weights in weight_blocks(n_clusters, n_resamples, seed, dtype=np.float64):
        replicates[:, rows] = _quotient(above @ weights.T, (apart @ weights.T)[which])
    total_above, total_below = above.sum(axis=1), below.sum(axis=1)
    values = _quotient(total_above, total_below)
    jackknife = _quotient(total_above[:, None] - above, total_below[:, None] - below)
    # Where a resample holds nothing to divide by, each column has as many replicates as are defined: one at a time.
    whole = np.isfinite(replicates).all(axis=1) & np.isfinite(jackknife).all(axis=1) & (n_clusters > 1)
    stderr, low, high = (np.full(n_columns, np.nan) for _ in range(3))
    methods = [f"{CiMethod.BCA}-{n_resamples}"] * n_columns
    if whole.any():
        # All of them are mostly defined; then nothing is copied.
        chosen: Any = slice(None) if whole.all() else np.flatnonzero(whole)
        stderr[chosen], low[chosen], high[chosen] = bca_bounds(
            values[chosen], replicates[chosen], jackknife[chosen], level=level
        )
    for column in np.flatnonzero(~whole).tolist():
        one = summarised(
            "", values[[column]], replicates[[column]].T, jackknife[[column]].T, level=level, seed=seed, bounds="none"
        )
        stderr[column], low[column], high[column] = one.stderr[0], one.ci_low[0], one.ci_high[0]
        methods[column] = one.ci_methods[0]
    # Of a share that is 0 or 1 in every cluster resampling has nothing to vary.
    used = np.count_nonzero(below, axis=1)
    same = are_shares & ((above >= 0) & (above <= below)).all(axis=1) & ((values == 0) | (values == 1)) & (used > 1)
    for column in np.flatnonzero(same).tolist():
        low[column], high[column] = exact_bounds(float(values[column]), int(used[column]), (1 - level) / 2)
        methods[column] = CiMethod.EXACT.value
    return RatioIntervals(values, stderr, low, high, tuple(methods))


def _quotient(numerator: Floats, denominator: Floats) -> Floats:
    """``numerator / denominator``, NaN where the denominator is not above 0; without a copy where it always is."""
    return np.asarray(numerator / denominator) if (denominator > 0).all() else ratio(numerator, denominator)
