"""How sure a ratio of two sums over clusters is: compression, a mean loss, anything that adds up over sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bertology.measures._bootstrap import (
    BCA,
    EXACT,
    N_RESAMPLES,
    NO_INTERVAL,
    Bootstrap,
    bca_bounds,
    exact_bounds,
    summarised,
    weight_blocks,
)
from bertology.measures._metric import Floats

_COLUMNS = 256
"""That are resampled together."""


def bootstrap_ratio(
    over: ArrayLike,
    under: ArrayLike,
    *,
    metric: str,
    n_resamples: int = N_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Bootstrap:
    """Interval of a sum over clusters divided by another, by the bootstrap over clusters of :func:`bootstrap`.

    Compression is the uniform code's bits over the code's (Voita & Titov 2020, section 3), a mean loss the losses
    over the numbers of items. With ``under`` one over the number of clusters throughout it is the sum itself, a
    codelength in bits. Fits stay as they are: what is resampled is what they are tried on.

    Args:
        over: ``[layer, cluster]``, or ``[cluster]`` where all layers share it.
        under: ``[layer, cluster]`` or ``[cluster]``, 0 or more.
        metric: what the ratio is called.
        n_resamples: how many resamples are drawn, the same as in other calls of this many clusters and this seed.
        level: of the intervals.
        seed: of the resampling.

    Raises:
        ValueError: shapes that do not fit, no resamples, or a level outside 0…1.
    """
    above, below = (np.atleast_2d(np.asarray(values, dtype=np.float64)) for values in (over, under))
    if above.shape[1] != below.shape[1] or above.ndim != 2 or below.ndim != 2:
        raise ValueError(f"shapes do not fit: over {np.shape(over)}, under {np.shape(under)}")
    if n_resamples < 1 or not 0 < level < 1:
        raise ValueError(f"need at least one resample and a level in 0…1, not {n_resamples} and {level}")
    above, below = np.broadcast_arrays(above, below)
    n_layers, n_clusters = above.shape
    replicates = np.empty((n_resamples, n_layers))
    for rows, weights in weight_blocks(n_clusters, n_resamples, seed, dtype=np.float64):
        replicates[rows] = _quotient(weights @ above.T, weights @ below.T)
    total_above, total_below = above.sum(axis=1), below.sum(axis=1)
    jackknife = _quotient(total_above - above.T, total_below - below.T)
    values = _quotient(total_above, total_below)
    # a ratio of 1 may well be exceeded, so that no value is certain by its bounds
    return summarised(metric, values, replicates, jackknife, level=level, seed=seed, bounded=False)


@dataclass(frozen=True)
class RatioIntervals:
    """Ratios of very many columns, with their intervals; the replicates are not kept."""

    values: Floats
    """``[column]``, NaN where there is nothing to divide by."""
    stderr: Floats
    """``[column]``"""
    ci_low: Floats
    """``[column]``"""
    ci_high: Floats
    """``[column]``"""
    ci_methods: tuple[str, ...]


def ratio_intervals(
    over: ArrayLike, under: ArrayLike, *, n_resamples: int = N_RESAMPLES, level: float = 0.95, seed: int = 0
) -> RatioIntervals:
    """The intervals of :func:`bootstrap_ratio`, of very many columns, such as heads by relations.

    Shares, which are nowhere more than one, have exact bounds where they are 0 or 1 in every cluster, as in
    :func:`bootstrap`.

    Args:
        over: ``[column, cluster]``
        under: ``[column, cluster]``, 0 or more.
        n_resamples: as there.
        level: as there.
        seed: as there.
    """
    above, below = np.broadcast_arrays(np.asarray(over, dtype=np.float64), np.asarray(under, dtype=np.float64))
    parts = [
        _interval_block(above[start : start + _COLUMNS], below[start : start + _COLUMNS], n_resamples, level, seed)
        for start in range(0, len(above), _COLUMNS)
    ]
    values, stderr, low, high = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "stderr", "ci_low", "ci_high")
    )
    return RatioIntervals(values, stderr, low, high, tuple(method for part in parts for method in part.ci_methods))


def _interval_block(above: Floats, below: Floats, n_resamples: int, level: float, seed: int) -> RatioIntervals:
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
    methods = [NO_INTERVAL] * n_columns
    chosen = np.flatnonzero(whole)
    if len(chosen):
        # All of them are mostly defined; then nothing is copied.
        own = slice(None) if len(chosen) == n_columns else chosen
        stderr[own], low[own], high[own] = bca_bounds(values[own], replicates[own], jackknife[own], level=level)
    for column in np.flatnonzero(~whole).tolist():
        one = summarised(
            "", values[[column]], replicates[[column]].T, jackknife[[column]].T, level=level, seed=seed, bounded=False
        )
        stderr[column], low[column], high[column] = one.stderr[0], one.ci_low[0], one.ci_high[0]
        methods[column] = one.ci_methods[0]
    for column in chosen.tolist():
        methods[column] = f"{BCA}-{n_resamples}"
    # Of a share that is 0 or 1 in every cluster resampling has nothing to vary.
    used = np.count_nonzero(below, axis=1)
    same = ((above >= 0) & (above <= below)).all(axis=1) & ((values == 0) | (values == 1)) & (used > 1)
    for column in np.flatnonzero(same).tolist():
        low[column], high[column] = exact_bounds(float(values[column]), int(used[column]), (1 - level) / 2)
        methods[column] = EXACT
    return RatioIntervals(values, stderr, low, high, tuple(methods))


def _quotient(over: Floats, under: Floats) -> Floats:
    """``over / under``, NaN where there is nothing to divide by."""
    divides = under > 0
    if divides.all():
        return np.asarray(over / under)
    result = np.full(over.shape, np.nan)
    np.divide(over, under, out=result, where=divides)
    return result
