"""Intervals of scores by resampling clusters, with the same resamples for all scores that are compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures._metric import Bounds, Floats, Metric
from bertology.measures._metrics import find_metric

N_RESAMPLES = 10_000
"""Resamples of a bootstrap: with fewer, the bounds of BCa intervals move noticeably from one random seed to the next
(their Monte-Carlo standard deviation is 0.08 standard errors of the score with 2,000 resamples, below 0.05 with these).
"""


class CiMethod(StrEnum):
    """How an interval was computed; the number of resamples follows the name of a bootstrap."""

    BCA = "cluster-bootstrap-bca"
    RUNS_BCA = "run-by-cluster-bootstrap-bca"
    """Runs were resampled as well as clusters (:func:`over_runs`)."""
    EXACT = "exact-over-clusters"
    """Every cluster is all right or all wrong, so that all resamples are equal."""
    NONE = "none"
    """There are fewer than two clusters, or a correlation is the same in all resamples (predictions are constant)."""


_BLOCK = 256
_BLOCK_ELEMENTS = 1 << 24
# Layers are summed together as long as their sums stay in the processor's caches.
_AT_ONCE = 1 << 19
# Draws depend on few numbers, and are kept for the next call up to this size.
_KEPT_BYTES = 1 << 26
# How often a resample holds a cluster: Poisson distributed with mean 1, so that a byte is never exceeded.
_TIMES = np.uint8
_EXACT_IN_FLOAT32 = 1 << 24


@dataclass(frozen=True)
class Bootstrap:
    """Values of a metric by layer, with standard errors and intervals for other sentences of the same kind."""

    metric: str
    values: Floats
    """``[layer]`` on the data as they are."""
    stderr: Floats
    """``[layer]`` standard deviation over resamples."""
    ci_low: Floats
    ci_high: Floats
    ci_methods: tuple[str, ...]
    """:class:`CiMethod` of each layer's interval, with the number of resamples: ``cluster-bootstrap-bca-10000``."""
    replicates: Floats
    """``[resample, layer]`` values on each resample. Two bootstraps of equal ``n_clusters``, number of resamples and
    ``seed`` drew the same clusters, so that their replicates are paired."""
    jackknife: Floats
    """``[cluster, layer]`` values with one cluster left out."""
    n_clusters: int
    level: float
    seed: int
    by_run: Floats | None = None
    """``[run, layer]`` values of the runs that were averaged; None of a single run."""
    bounds: Bounds = "share"
    """What a value can be."""


def bootstrap(
    counts: NDArray[Any],
    metrics: Sequence[str | Metric],
    *,
    labels: Sequence[str] = (),
    n_resamples: int = N_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Bootstrap]:
    """Intervals of metrics by a bootstrap over clusters, bias-corrected and accelerated (Efron 1987).

    Words of a sentence are not independent, so whole clusters are drawn with replacement, as many as there are, and
    each metric is computed anew from their summed counts. What is drawn depends on the number of clusters and the
    seed alone: all layers, metrics and calls share it. Plain percentiles fall short where a metric is skewed or
    biased in small samples, as macro-F1 over many rare labels is; BCa shifts them by the replicates' median bias and
    by the skew that leaving out one cluster at a time shows.

    Args:
        counts: ``[layer, cluster, label, kind]``, as from :func:`count_labels` or :func:`count_trees`.
        metrics: names or metrics.
        labels: names of the labels, for metrics that leave some out.
        n_resamples: number of resamples.
        level: of the intervals.
        seed: of the resampling.

    Returns:
        A :class:`Bootstrap` by metric name. With fewer than two clusters, errors and bounds are NaN.

    Raises:
        NameNotFoundError: a metric is not known.
        ValueError: counts of the wrong shape, no resamples, or a level outside 0…1.
    """
    if counts.ndim != 4 or counts.shape[-1] < 3:
        raise ValueError(f"counts should be [layer, cluster, label, 3 or more], not {counts.shape}")
    check_resampling(n_resamples, level)
    chosen = [find_metric(metric) for metric in metrics]
    n_layers, n_clusters = counts.shape[:2]
    totals = counts.sum(axis=1, dtype=np.int64 if counts.dtype.kind in "iu" else np.float64)
    replicates = {metric.name: np.empty((n_resamples, n_layers)) for metric in chosen}
    jackknife = {metric.name: np.empty((n_clusters, n_layers)) for metric in chosen}
    for layer in range(n_layers):
        for clusters in _slices(n_clusters, width=counts[0, 0].size):
            rest = totals[layer] - counts[layer, clusters]
            for metric in chosen:
                jackknife[metric.name][clusters, layer] = metric(rest, labels)
    # The smallest type in which every possible sum of counts over a resample is exact.
    is_exact = counts.dtype.kind != "f" and int(counts.max(initial=0)) * n_clusters < _EXACT_IN_FLOAT32
    dtype: type[np.float32] | type[np.float64] = np.float32 if is_exact else np.float64
    together = _slices(n_layers, width=math.prod(counts.shape[2:]), most=_AT_ONCE // _BLOCK)
    tables = [(layers, _Table(counts[layers], dtype)) for layers in together]
    for rows, weights in weight_blocks(n_clusters, n_resamples, seed, dtype):
        for layers, table in tables:
            sums = table.summed(weights)
            for metric in chosen:
                replicates[metric.name][rows, layers] = metric(sums, labels)
    used = counts.any(axis=(2, 3)).sum(axis=1)
    settings: dict[str, Any] = {"level": level, "seed": seed, "used": used}
    summaries = (
        summarised(m.name, m(totals, labels), replicates[m.name], jackknife[m.name], bounds=m.bounds, **settings)
        for m in chosen
    )
    return {summary.metric: summary for summary in summaries}


def check_resampling(n_resamples: int, level: float) -> None:
    if n_resamples < 1 or not 0 < level < 1:
        raise ValueError(f"need at least one resample and a level in 0…1, not {n_resamples} and {level}")


def check_paired(runs: Sequence[Bootstrap]) -> None:
    """Raise a ValueError where there are no runs, or runs were not bootstrapped over the same resamples."""
    if not runs:
        raise ValueError("there is nothing to average")
    keys = {(run.n_clusters, run.replicates.shape, run.seed, run.level) for run in runs}
    if len(keys) > 1:
        raise ValueError(f"not bootstrapped over the same resamples: {sorted(keys, key=repr)}")


def weight_blocks(
    n_clusters: int, n_resamples: int, seed: int, dtype: type[np.float32] | type[np.float64]
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Number of times that each resample has each cluster, as ``[resample, cluster]`` blocks of bounded size."""
    blocks = _kept_blocks if n_clusters * n_resamples <= _KEPT_BYTES else _drawn_blocks
    return ((rows, weights.astype(dtype)) for rows, weights in blocks(n_clusters, n_resamples, seed))


@lru_cache(maxsize=2)
def _kept_blocks(n_clusters: int, n_resamples: int, seed: int) -> tuple[tuple[slice, NDArray[np.uint8]], ...]:
    return tuple(_drawn_blocks(n_clusters, n_resamples, seed))


def _drawn_blocks(n_clusters: int, n_resamples: int, seed: int) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
    generator = np.random.default_rng(seed)
    # The block's size is part of what is drawn, so it must not depend on anything but the number of clusters.
    height = max(1, min(_BLOCK, _BLOCK_ELEMENTS // max(1, n_clusters)))
    for start in range(0, n_resamples, height):
        n_rows = min(height, n_resamples - start)
        drawn = generator.integers(0, n_clusters, size=(n_rows, n_clusters)) if n_clusters else np.empty((n_rows, 0))
        drawn = drawn.astype(np.int64) + np.arange(n_rows)[:, None] * n_clusters
        weights = np.bincount(drawn.ravel(), minlength=n_rows * n_clusters).reshape(n_rows, n_clusters)
        yield slice(start, start + n_rows), weights.astype(_TIMES)


class _Table:
    """Counts of some layers, laid out so that one matrix product sums them over every resample."""

    def __init__(self, counts: NDArray[Any], dtype: type[np.float32] | type[np.float64]) -> None:
        self._used = np.flatnonzero(counts.any(axis=1))  # what occurs at all
        columns = counts.transpose(1, 0, 2, 3).reshape(counts.shape[1], -1)[:, self._used]
        self._columns, self._shape = columns.astype(dtype), (len(counts), *counts.shape[2:])

    def summed(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Sums ``[resample, layer, label, kind]`` under ``[resample, cluster]``: counts are not rounded."""
        sums = np.zeros((len(weights), math.prod(self._shape)), dtype=weights.dtype)
        sums[:, self._used] = weights @ self._columns
        return sums.reshape(len(weights), *self._shape)


def _slices(n: int, *, width: int, most: int = _BLOCK_ELEMENTS) -> Iterator[slice]:
    height = max(1, most // max(1, width))
    return (slice(start, start + height) for start in range(0, n, height))


def summarised(
    metric: str,
    values: Floats,
    replicates: Floats,
    jackknife: Floats,
    *,
    level: float,
    seed: int,
    bounds: Bounds,
    by_run: Floats | None = None,
    used: NDArray[np.integer[Any]] | None = None,
) -> Bootstrap:
    """Standard errors and intervals of replicates ``[resample, layer]``; those of a mean over ``[run, layer]``.

    ``used`` is ``[layer]`` the number of clusters that hold an item, all of them when left out.
    """
    from scipy.special import stdtrit

    n_layers, n_clusters = len(values), len(jackknife)
    stderr, low, high = np.full(n_layers, np.nan), np.full(n_layers, np.nan), np.full(n_layers, np.nan)
    methods: list[str] = [CiMethod.NONE.value] * n_layers
    tail = (1 - level) / 2
    left_out = jackknife
    if by_run is not None:  # with each run left out as well, on the scale that one cluster of many has
        n_runs, mean = len(by_run), by_run.mean(axis=0)
        left_out = np.concatenate([jackknife, mean - (by_run - mean) / np.sqrt(n_runs * (n_runs - 1))])
    for layer in range(n_layers if n_clusters > 1 else 0):
        # Resamples in which the metric is undefined (no entity drawn) are left out.
        column = replicates[:, layer]
        column = column[np.isfinite(column)]
        value = float(values[layer])
        if not np.isfinite(value) or len(column) < 2:
            continue
        stderr[layer] = column.std(ddof=1)
        # Resamples have nothing to vary: an interval of no width would claim certainty.
        is_constant = bounds != "none" and bool(np.all(column == value))
        if is_constant and bounds == "share" and value in (0.0, 1.0):
            low[layer], high[layer] = exact_bounds(value, n_clusters if used is None else int(used[layer]), tail)
            methods[layer] = CiMethod.EXACT.value
        elif not (is_constant and bounds == "correlation"):
            known = left_out[np.isfinite(left_out[:, layer]), layer]
            shares = _bca_shares(values[[layer]], column[None], known[None], tail)[0]
            low[layer], high[layer] = np.quantile(column, shares)
            methods[layer] = f"{CiMethod.BCA if by_run is None else CiMethod.RUNS_BCA}-{len(replicates)}"
    if by_run is not None:
        # Means over few runs have wider intervals than over as many runs as clusters.
        most = max(1, n_clusters - 1)
        reach = stdtrit(np.minimum(freedom(stderr, by_run, n_clusters), most), 1 - tail) / stdtrit(most, 1 - tail)
        low, high = values - reach * (values - low), values + reach * (high - values)
    if bounds != "none":  # also where replicates pass them, which are sums of jackknife influences
        low, high = np.maximum(low, 0.0 if bounds == "share" else -1.0), np.minimum(high, 1.0)
    return Bootstrap(
        *(metric, values, stderr, low, high, tuple(methods), replicates, jackknife, n_clusters, level, seed, by_run),
        bounds=bounds,
    )


def freedom(stderr: Floats, by_run: Floats, n_clusters: int | NDArray[np.int64]) -> Floats:
    """Degrees of freedom of means over ``[run, column]`` and clusters, after Satterthwaite (1946)."""
    n_runs, whole = len(by_run), stderr**2
    of_runs = np.minimum(by_run.var(axis=0, ddof=1) / n_runs, whole)
    rest = np.maximum(1, np.asarray(n_clusters, dtype=np.float64) - 1)
    parts = of_runs**2 / (n_runs - 1) + (whole - of_runs) ** 2 / rest
    degrees = np.array(np.broadcast_to(rest, len(whole)))
    np.divide(whole**2, parts, out=degrees, where=parts > 0)
    return degrees


def _bca_shares(values: Floats, replicates: Floats, jackknife: Floats, tail: float) -> Floats:
    """``[column, 2]`` which quantiles of the replicates bound the interval of each column (Efron 1987, eq. 2.3, 6.6).

    Replicates are ``[column, resample]``, the jackknife ``[column, cluster]``, empty where it is unknown; ``tail`` is
    left out on either side.
    """
    from scipy.special import ndtr, ndtri

    n = replicates.shape[1]
    # Scores of few items come in steps: a replicate equal to the value counts half on either side.
    below = (replicates < values[:, None]).mean(axis=1) + (replicates == values[:, None]).mean(axis=1) / 2
    bias = ndtri(np.clip(below, 1 / (n + 1), n / (n + 1)))[:, None]
    lag = jackknife.mean(axis=1, keepdims=True) - jackknife if jackknife.shape[1] else np.zeros((len(values), 1))
    squared = lag * lag
    scale = squared.sum(axis=1) ** 1.5
    acceleration = np.zeros(len(values))
    # A third power is a hundred times as slow as a product.
    np.divide((squared * lag).sum(axis=1), 6 * scale, out=acceleration, where=scale > 0)
    reach = bias + ndtri(np.array([tail, 1 - tail]))
    # |acceleration| ≤ 1/6, so the divisor only nears zero when nearly all replicates lie on one side of the value.
    divisor = np.maximum(1 - acceleration[:, None] * reach, 0.05)
    return np.asarray(ndtr(bias + reach / divisor), dtype=np.float64)


def bca_bounds(values: Floats, replicates: Floats, jackknife: Floats, *, level: float) -> tuple[Floats, Floats, Floats]:
    """Standard errors and both bounds of many columns at once, all of whose replicates are defined.

    Shapes are as in ``_bca_shares``; replicates are put in order in place.
    """
    stderr = replicates.std(axis=1, ddof=1)
    shares = _bca_shares(values, replicates, jackknife, (1 - level) / 2)
    # As np.quantile has it, which takes the same quantiles of all columns.
    replicates.sort(axis=1)
    last = replicates.shape[1] - 1
    place = shares * last
    first = np.floor(place).astype(np.int64)
    near = np.take_along_axis(replicates, first, axis=1)
    far = np.take_along_axis(replicates, np.minimum(first + 1, last), axis=1)
    bounds = near + (far - near) * (place - first)
    return stderr, bounds[:, 0], bounds[:, 1]


def exact_bounds(value: float, n_clusters: int, tail: float) -> tuple[float, float]:
    """Clopper–Pearson bounds when all of ``n_clusters`` are right (1) or wrong (0).

    Resamples of such data are all equal; an interval of no width would claim certainty.
    """
    reach = 1 - tail ** (1 / n_clusters)
    return (1 - reach, 1.0) if value == 1.0 else (0.0, reach)
