"""How sure a ratio of two sums over clusters is: compression, a mean loss, anything that adds up over sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bertology.measures._bootstrap import Bootstrap, summarised, weight_blocks
from bertology.measures._metric import Floats


def bootstrap_ratio(
    over: ArrayLike, under: ArrayLike, *, metric: str, n_resamples: int = 2000, level: float = 0.95, seed: int = 0
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


def _quotient(over: Floats, under: Floats) -> Floats:
    """``over / under``, NaN where there is nothing to divide by."""
    result = np.full(over.shape, np.nan)
    np.divide(over, under, out=result, where=under > 0)
    return result
