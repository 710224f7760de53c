"""Intervals of scores by resampling clusters, with the same resamples for all scores; and comparisons of scores."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._lazy import scipy
from bertology.measures.metrics import Bounds, Floats, Metric, find_metric, ratio

N_RESAMPLES = 10_000
"""Resamples of a bootstrap: with fewer, the bounds of BCa intervals move noticeably from one random seed to the next
(their Monte-Carlo standard deviation is 0.08 standard errors of the score with 2,000 resamples, below 0.05 with these).
"""


class CiMethod(StrEnum):
    """Method by which an interval was computed; the number of resamples follows the name of a bootstrap."""

    BCA = "cluster-bootstrap-bca"
    RUNS_BCA = "run-by-cluster-bootstrap-bca"  # runs were resampled as well as clusters (:func:`over_runs`)
    EXACT = "exact-over-clusters"  # every cluster is all right or all wrong, so that all resamples are equal
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
    """Range of the values."""


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
    chosen = list(map(find_metric, metrics))
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
    sums_by_layers = [(layers, _summing(counts[layers], dtype)) for layers in together]
    for rows, weights in weight_blocks(n_clusters, n_resamples, seed, dtype):
        for layers, summed in sums_by_layers:
            sums = summed(weights)
            for metric in chosen:
                replicates[metric.name][rows, layers] = metric(sums, labels)
    used = counts.any(axis=(2, 3)).sum(axis=1)
    settings: dict[str, Any] = {"level": level, "seed": seed, "used": used}
    found = {}
    for m in chosen:
        parts = m(totals, labels), replicates[m.name], jackknife[m.name]
        found[m.name] = summarised(m.name, *parts, bounds=m.bounds, **settings)
    return found


def check_resampling(n_resamples: int, level: float) -> None:
    """Raise a ValueError without resamples, or for a level outside 0…1."""
    if n_resamples < 1 or not 0 < level < 1:
        raise ValueError(f"need at least one resample and a level in 0…1, not {n_resamples} and {level}")


def check_paired(runs: Sequence[Bootstrap]) -> None:
    """Raise a ValueError where there are no runs, or runs were not bootstrapped over the same resamples."""
    if not runs:
        raise ValueError("there is nothing to average")
    keys = {(run.n_clusters, run.replicates.shape, run.seed, run.level) for run in runs}
    if len(keys) > 1:
        raise ValueError(f"not bootstrapped over the same resamples: {sorted(keys, key=repr)}")


def weight_blocks(n_clusters: int, n_resamples: int, seed: int, dtype: type[Any]) -> Iterator[tuple[slice, Any]]:
    """Number of times that each resample has each cluster, as ``[resample, cluster]`` blocks of bounded size."""
    is_small = n_clusters * n_resamples <= _KEPT_BYTES
    for rows, weights in (_kept_blocks if is_small else _drawn_blocks)(n_clusters, n_resamples, seed):
        yield rows, weights.astype(dtype)


@functools.lru_cache(maxsize=2)
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


def _summing(counts: NDArray[Any], dtype: type[Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A function from weights ``[resample, cluster]`` to sums ``[resample, layer, label, kind]``, by matrix products.

    Counts ``[layer, cluster, label, kind]`` are not rounded.
    """
    shape = (len(counts), *counts.shape[2:])
    used = np.flatnonzero(counts.any(axis=1))  # what occurs at all
    columns = counts.transpose(1, 0, 2, 3).reshape(counts.shape[1], -1)[:, used].astype(dtype)

    def summed(weights: NDArray[Any]) -> NDArray[Any]:
        sums = np.zeros((len(weights), math.prod(shape)), dtype=weights.dtype)
        sums[:, used] = weights @ columns
        return sums.reshape(len(weights), *shape)

    return summed


def _slices(n: int, *, width: int, most: int = _BLOCK_ELEMENTS) -> Iterator[slice]:
    height = max(1, most // max(1, width))
    for start in range(0, n, height):
        yield slice(start, start + height)


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
    n_layers, n_clusters = len(values), len(jackknife)
    stderr, low, high = np.full(n_layers, np.nan), np.full(n_layers, np.nan), np.full(n_layers, np.nan)
    methods: list[str] = [CiMethod.NONE.value] * n_layers
    tail = (1 - level) / 2
    left_out = jackknife
    if by_run is not None:  # with each run left out as well, on the scale that one cluster of many has
        n_runs, mean = len(by_run), by_run.mean(axis=0)
        left_out = np.concatenate([jackknife, mean - (by_run - mean) / np.sqrt(n_runs * (n_runs - 1))])
    known = np.flatnonzero(np.isfinite(values)) if n_clusters > 1 else np.empty(0, dtype=np.int64)
    is_whole = np.isfinite(replicates.T[known]).all(axis=1) & np.isfinite(left_out.T[known]).all(axis=1)
    whole = known[is_whole]
    together = [whole[some] for some in _slices(len(whole), width=len(replicates) + len(left_out), most=_AT_ONCE)]
    for layers in (*together, *known[~is_whole][:, None]):
        # Resamples in which the metric is undefined (no entity drawn) are left out.
        drawn, rest = (part.T[np.ix_(layers, np.isfinite(part[:, layers[0]]))] for part in (replicates, left_out))
        if drawn.shape[1] < 2:
            continue
        stderr[layers] = drawn.std(axis=1, ddof=1)
        # Resamples have nothing to vary: an interval of no width would claim certainty.
        is_constant = (drawn == values[layers][:, None]).all(axis=1) & (bounds != "none")
        is_exact = is_constant & (bounds == "share") & np.isin(values[layers], (0.0, 1.0))
        for layer in layers[is_exact].tolist():
            n_used = n_clusters if used is None else int(used[layer])
            low[layer], high[layer] = exact_bounds(float(values[layer]), n_used, tail)
            methods[layer] = CiMethod.EXACT.value
        varied = ~is_exact & ~(is_constant & (bounds == "correlation"))
        shares = _bca_shares(values[layers[varied]], drawn[varied], rest[varied], tail)
        low[layers[varied]], high[layers[varied]] = quantiles(drawn[varied], shares).T
        for layer in layers[varied].tolist():
            methods[layer] = f"{CiMethod.BCA if by_run is None else CiMethod.RUNS_BCA}-{len(replicates)}"
    if by_run is not None:
        # Means over few runs have wider intervals than over as many runs as clusters.
        most = max(1, n_clusters - 1)
        degrees = np.minimum(freedom(stderr, by_run, n_clusters), most)
        reach = scipy.special.stdtrit(degrees, 1 - tail) / scipy.special.stdtrit(most, 1 - tail)
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
    n = replicates.shape[1]
    # Scores of few items come in steps: a replicate equal to the value counts half on either side.
    below = (replicates < values[:, None]).mean(axis=1) + (replicates == values[:, None]).mean(axis=1) / 2
    bias = scipy.special.ndtri(np.clip(below, 1 / (n + 1), n / (n + 1)))[:, None]
    lag = jackknife.mean(axis=1, keepdims=True) - jackknife if jackknife.shape[1] else np.zeros((len(values), 1))
    squared = lag * lag
    scale = squared.sum(axis=1) ** 1.5
    acceleration = np.zeros(len(values))
    # A third power is a hundred times as slow as a product.
    np.divide((squared * lag).sum(axis=1), 6 * scale, out=acceleration, where=scale > 0)
    reach = bias + scipy.special.ndtri(np.array([tail, 1 - tail]))
    # |acceleration| ≤ 1/6, so the divisor only nears zero when nearly all replicates lie on one side of the value.
    divisor = np.maximum(1 - acceleration[:, None] * reach, 0.05)
    return np.asarray(scipy.special.ndtr(bias + reach / divisor), dtype=np.float64)


def quantiles(rows: Floats, shares: Floats) -> Floats:
    """``[row, share]`` quantiles of every row at shares of its own, interpolated as by ``numpy.quantile``, which takes
    one row after another."""
    ordered, places = np.sort(rows, axis=1), shares * (rows.shape[1] - 1)
    first = places.astype(np.int64)
    below, above = (np.take_along_axis(ordered, np.minimum(at, rows.shape[1] - 1), 1) for at in (first, first + 1))
    step, part = above - below, places - first
    return np.asarray(np.where(part < 0.5, below + step * part, above - step * (1 - part)))


def exact_bounds(value: float, n_clusters: int, tail: float) -> tuple[float, float]:
    """Clopper–Pearson bounds when all of ``n_clusters`` are right (1) or wrong (0).

    Resamples of such data are all equal; an interval of no width would claim certainty.
    """
    reach = 1 - tail ** (1 / n_clusters)
    return (1 - reach, 1.0) if value == 1.0 else (0.0, reach)


_COLUMNS = 256  # number of columns that are resampled together


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
    codelength in bits. The other arguments are as in :func:`bootstrap`, whose errors it raises.

    Args:
        numerator: ``[layer, cluster]``, or ``[cluster]`` where all layers share it.
        denominator: ``[layer, cluster]`` or ``[cluster]``, 0 or more.
        metric: name of the ratio.
        bounds: ``share`` where no cluster can add less than 0 or more than its denominator: a share that is 0 or 1 in
            every cluster has an exact interval. A ratio of 1 may well be exceeded otherwise.
    """
    above, below = (np.atleast_2d(np.asarray(values, dtype=np.float64)) for values in (numerator, denominator))
    if above.shape[1] != below.shape[1] or above.ndim != 2 or below.ndim != 2:
        raise ValueError(f"shapes do not fit: numerator {np.shape(numerator)}, denominator {np.shape(denominator)}")
    check_resampling(n_resamples, level)
    above, below = np.broadcast_arrays(above, below)
    parts, used = _resampled_ratios(above, below, slice(None), n_resamples, seed), np.count_nonzero(below, axis=1)
    return summarised(metric, *parts, level=level, seed=seed, bounds=bounds, used=used)


def sums_over_clusters(values: Floats, clusters: Sequence[str]) -> Floats:
    """``[row, cluster]`` sums of ``[row, item]`` values over the items of each cluster."""
    names, of_item = np.unique(np.array(clusters), return_inverse=True)
    return np.stack([np.bincount(of_item, weights=row, minlength=len(names)) for row in values])


def intervals_over_clusters(numerator: Floats, denominator: Floats, clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Lower and upper 95 % bounds ``[...]`` of :func:`bootstrap_ratio` of sums over items, NaN of a single cluster.

    Numerators and denominators are ``[..., item]``, both 0 for an item without a value; ``clusters`` name for each item
    what is resampled together.
    """
    rows = (part.reshape(-1, len(clusters)) for part in (numerator, denominator))
    sums = (sums_over_clusters(part, clusters) for part in rows)
    scores, shape = bootstrap_ratio(*sums, metric="ratio"), numerator.shape[:-1]
    return scores.ci_low.reshape(shape), scores.ci_high.reshape(shape)


def ratio_intervals(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    are_shares: ArrayLike = True,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> Bootstrap:
    """The 95 % intervals of :func:`bootstrap_ratio` for many columns, such as heads by relations, without replicates.

    Numerators and denominators are ``[column, cluster]``, ``are_shares`` is ``[column]`` whether a column is one, and
    not a loss or a difference, which may be exactly 0 without being a matter of chance.
    """
    above, below = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in (numerator, denominator)))
    used, found = np.count_nonzero(below, axis=1), np.full((4, len(above)), np.nan)
    # A share that is right or wrong in every cluster has exact bounds; what some clusters exceed is none.
    shares = ((above >= 0) & (above <= below)).all(axis=1) & (used > 1)
    methods = np.full(len(above), CiMethod.NONE.value, dtype=object)
    shares &= np.asarray(are_shares, dtype=bool)
    for start in range(0, len(above), _COLUMNS):
        block = slice(start, start + _COLUMNS)
        # Heads are divided by the same numbers of words, mostly: neighbours that are alike are summed once.
        is_new = np.concatenate([[True], (below[block][1:] != below[block][:-1]).any(axis=1)])
        which = np.cumsum(is_new) - 1
        of_block = _resampled_ratios(above[block], below[block][is_new], which, n_resamples, seed)
        of_kind: tuple[tuple[Bounds, Any], ...] = (("share", shares[block]), ("none", ~shares[block]))
        for bounds, chosen in of_kind:
            parts = of_block if chosen.all() else tuple(part.T[chosen].T for part in of_block)
            some = summarised("", *parts, level=0.95, seed=seed, bounds=bounds, used=used[block][chosen])
            found[:, start + np.flatnonzero(chosen)] = some.values, some.stderr, some.ci_low, some.ci_high
            methods[block][chosen] = some.ci_methods
    none = np.empty((0, len(above)))
    values, stderr, low, high = found
    return Bootstrap("", values, stderr, low, high, tuple(methods), none, none, above.shape[1], 0.95, seed)


def _resampled_ratios(
    above: Floats, below: Floats, which: Any, n_resamples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Ratios of the sums of ``above`` to those of ``below[which]``, both ``[column, cluster]``.

    Values ``[column]``, replicates ``[resample, column]`` and the jackknife ``[cluster, column]``.
    """
    # BLAS takes no values with gaps between them; with columns first, each is then summarised in one piece of memory.
    above, below = np.ascontiguousarray(above), np.ascontiguousarray(below)
    replicates = np.empty((len(above), n_resamples))
    for rows, weights in weight_blocks(above.shape[1], n_resamples, seed, dtype=np.float64):
        replicates[:, rows] = ratio(above @ weights.T, (below @ weights.T)[which])
    totals, divisors = above.sum(axis=1), below.sum(axis=1)[which]
    jackknife = ratio(totals[:, None] - above, divisors[:, None] - below[which])
    return ratio(totals, divisors), replicates.T, jackknife.T


Seeds = Sequence[Bootstrap | Sequence[Bootstrap]]
"""Runs of each pretraining seed (fine-tunings, seeds of a probe), over the same resamples of clusters."""


@dataclass(frozen=True)
class VarianceParts:
    """The variance of an estimate by its sources, from a two-way analysis of variance without replication.

    Each part is ``[column]``, the variance of the mean over seeds and clusters that it causes; estimates below 0 are
    set to 0. With one seed, ``seeds`` and ``interaction`` are not identified and NaN.
    """

    seeds: Floats
    """σ²_seed / n_seeds"""
    clusters: Floats
    """σ²_cluster / n_clusters: that of the items."""
    interaction: Floats
    """σ²_residual / (n_seeds · n_clusters): seeds that differ in which items they get right."""

    @property
    def shares(self) -> Floats:
        """``[3, column]`` seeds, clusters and interaction as shares of their sum; NaN where that is 0."""
        parts = np.stack([self.seeds, self.clusters, self.interaction])
        return ratio(parts, parts.sum(axis=0))


@dataclass(frozen=True)
class MultiBootstrap:
    """A mean over pretraining seeds, or a difference of two, with an interval for other seeds and other items."""

    values: Floats
    """``[column]`` θ̂, or δ̂ where two sides are compared."""
    ci_low: Floats
    ci_high: Floats
    """``[column]`` percentiles of the replicates; NaN where a replicate is undefined."""
    p: Floats
    """``[column]`` one-sided: the share of replicates that are not above ``null``, at least 1 / B."""
    replicates: Floats
    """``[resample, column]``"""
    variance: VarianceParts
    n_seeds: int
    """Number of seeds of the first side."""
    n_clusters: int


def multibootstrap(
    seeds: Seeds,
    other: Seeds | None = None,
    *,
    is_paired: bool = True,
    null: float = 0.0,
    level: float = 0.95,
    rescaled: bool = False,
) -> MultiBootstrap:
    """The multi-bootstrap (Sellam et al. 2022, *The MultiBERTs*, section 4 and algorithm 1).

    A replicate draws n seeds of the n there are with replacement, and as many clusters as there are with replacement,
    the same clusters for all runs; its value is the mean over the drawn seeds of the metric on the drawn clusters. The
    draws of clusters, and the metric on them, are those of :func:`bootstrap`. Runs of one pretraining seed are averaged
    inside the seed first.

    Args:
        seeds: the runs of each pretraining seed, bootstrapped over the same resamples.
        other: those of a second model, to be subtracted; on the same clusters.
        is_paired: whether both sides come from the same pretraining seeds, in the same order: these are then drawn
            together. Otherwise the seeds of the two sides are drawn independently.
        null: the constant that one-sided p-values are about: that the value is not above it.
        level: of the intervals.
        rescaled: enlarge what drawn seeds deviate from the mean over all of them by √(n / (n − 1)): the variance of n
            values drawn from n is too small by (n − 1) / n, which is 20 % of it for five seeds. The paper does not.

    Raises:
        ValueError: no seeds, runs that are not bootstrapped over the same resamples, paired sides of different numbers
            of seeds, or a level outside 0…1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it should be in 0…1")
    sides = [
        [[of_seed] if isinstance(of_seed, Bootstrap) else list(of_seed) for of_seed in side]
        for side in (seeds, *([] if other is None else [other]))
    ]
    if not all(side and all(side) for side in sides):
        raise ValueError("there is nothing to average: give a run of each seed")
    every = [run for side in sides for of_seed in side for run in of_seed]
    check_paired(every)
    first, means = every[0], list[list[list[Floats]]]()
    for of_side in sides:
        inside: list[list[Floats]] = []  # of each seed, means of values, replicates, and pseudo-values of the jackknife
        for runs in of_side:
            # What each cluster adds to the value, to first order.
            pseudo = (run.n_clusters * run.values - (run.n_clusters - 1) * run.jackknife for run in runs)
            parts = [run.values for run in runs], [run.replicates for run in runs], pseudo
            inside.append([functools.reduce(np.add, part) / len(runs) for part in parts])
        means.append(inside)
    if other is not None and is_paired:
        if len(means[0]) != len(means[1]):
            raise ValueError(f"paired sides of {len(means[0])} and {len(means[1])} seeds: give the same seeds of both")
        means = [[[one - two for one, two in zip(a, b, strict=True)] for a, b in zip(*means, strict=True)]]
    sign, value, replicates = 1, np.zeros(len(first.values)), np.zeros(first.replicates.shape)
    for number, side in enumerate(means):
        n = len(side)
        drawn = drawn_deviations(n, len(replicates), (first.seed, n, number), rescaled=rescaled) + 1 / n
        value += sign * np.mean([values for values, _, _ in side], axis=0)
        for place, (_, of_seed, _) in enumerate(side):
            replicates += sign * drawn[:, [place]] * of_seed
        sign = -1
    low, high = np.quantile(replicates, ((1 - level) / 2, (1 + level) / 2), axis=0)
    p = np.maximum((replicates <= null).mean(axis=0), 1 / len(replicates))
    variance = _variance_parts([np.stack([pseudo for _, _, pseudo in side]) for side in means])
    return MultiBootstrap(value, low, high, p, replicates, variance, len(means[0]), first.n_clusters)


def drawn_deviations(n: int, n_resamples: int, seed: tuple[int, ...], *, rescaled: bool) -> Floats:
    """``[resample, run]`` by how much the share of each of ``n`` runs in a replicate's mean differs from 1/n.

    Rescaled, by √(n / (n − 1)), as the variance of n values drawn from n is too small by the inverse of its square.
    """
    # Not the generator that draws the clusters: which runs are drawn must not depend on them.
    drawn = np.random.default_rng(seed).multinomial(n, [1 / n] * n, n_resamples) / n - 1 / n
    return drawn * np.sqrt(n / (n - 1)) if rescaled and n > 1 else drawn


def _variance_parts(sides: Sequence[Floats]) -> VarianceParts:
    """Variance parts of one side, or of two with seeds of their own, from ``[seed, cluster, column]`` pseudo-values."""
    n_clusters = sides[0].shape[1]
    seeds, interaction = np.zeros(sides[0].shape[2]), np.zeros(sides[0].shape[2])
    for values in sides:
        n_seeds = len(values)
        if n_seeds < 2 or n_clusters < 2:
            seeds, interaction = np.full_like(seeds, np.nan), np.full_like(interaction, np.nan)
            break
        of_seed, of_cluster = values.mean(axis=1, keepdims=True), values.mean(axis=0, keepdims=True)
        residual = values - of_seed - of_cluster + values.mean(axis=(0, 1), keepdims=True)
        within = (residual**2).sum(axis=(0, 1)) / ((n_seeds - 1) * (n_clusters - 1)) / (n_seeds * n_clusters)
        seeds += np.maximum(of_seed[:, 0].var(axis=0, ddof=1) / n_seeds - within, 0)
        interaction += within
    of_clusters = sides[0].mean(axis=0) - (sides[1].mean(axis=0) if len(sides) > 1 else 0)
    total = of_clusters.var(axis=0, ddof=1) / n_clusters if n_clusters > 1 else np.full_like(seeds, np.nan)
    return VarianceParts(seeds, np.maximum(total - np.nan_to_num(interaction), 0), interaction)


LEAST_GAIN = 0.01
"""Gain from layer 0 to the last cumulative mix below which the expected layer is undefined, in scores of 0…1."""


def difference(a: Bootstrap, b: Bootstrap, *, metric: str) -> Bootstrap:
    """``a − b`` layer by layer with a paired interval, as a metric called ``metric``; see :func:`check_paired`."""
    check_paired((a, b))
    values, replicates, jackknife = a.values - b.values, a.replicates - b.replicates, a.jackknife - b.jackknife
    return summarised(metric, values, replicates, jackknife, level=a.level, seed=a.seed, bounds="none")


def selectivity(task: Bootstrap, control: Bootstrap) -> Bootstrap:
    """Accuracy on a task less that on its control task, of the same items and clusters (Hewitt & Liang 2019, §2)."""
    return difference(task, control, metric="selectivity")


def over_runs(runs: Sequence[Bootstrap], *, draws_runs: bool = True) -> Bootstrap:
    """The mean over runs, with its interval for other runs and other sentences.

    The multi-bootstrap of Sellam et al. (2022): a replicate draws as many runs as there are with replacement, and
    clusters too, the same clusters for all runs; two means over runs of equal number and ``seed`` draw the same runs,
    so that their replicates are paired. As the variance of so few runs drawn with replacement is too small by
    (n − 1) / n, their deviation from the mean is enlarged by the root of the inverse. The intervals are those of the
    replicates (BCa), enlarged by the quotient of two quantiles of Student's t, with the degrees of freedom of
    :func:`freedom` and with those of the clusters: two or three runs are a poor estimate of the spread between runs.

    Args:
        runs: over the same resamples of clusters; a single one is returned as it is.
        draws_runs: whether runs are resampled too; without, intervals leave out the spread between runs.

    Raises:
        ValueError: no runs, or runs not bootstrapped over the same resamples.
    """
    check_paired(runs)
    first, n_runs = runs[0], len(runs)
    if n_runs == 1 and draws_runs:
        return first
    by_run = np.stack([run.values for run in runs])
    replicates, jackknife = (
        np.mean([getattr(run, name) for run in runs], axis=0) for name in ("replicates", "jackknife")
    )
    settings: dict[str, Any] = {"level": first.level, "seed": first.seed, "bounds": first.bounds}
    if not draws_runs:
        return summarised(first.metric, np.mean(by_run, axis=0), replicates, jackknife, **settings)
    enlarged = drawn_deviations(n_runs, len(replicates), (first.seed, n_runs), rescaled=True)
    deviation = np.zeros_like(replicates)
    for number, run in enumerate(runs):
        deviation += enlarged[:, [number]] * run.replicates
    return summarised(first.metric, by_run.mean(axis=0), replicates + deviation, jackknife, by_run=by_run, **settings)


@dataclass(frozen=True)
class Comparison:
    """A paired difference between two columns (layers) ``a`` and ``b`` of one family."""

    a: int
    b: int
    n_pairs: int
    """Number of clusters (sentences) that both were measured on."""
    diff: float
    """Value of ``a`` less value of ``b``."""
    ci_low: float
    ci_high: float
    p_raw: float
    """Two-sided p-value of no difference."""
    p_adj: float
    """The p-value adjusted for the whole family (Benjamini–Hochberg)."""


def compare(
    values: ArrayLike,
    replicates: NDArray[Any],
    *,
    n_clusters: int | NDArray[np.int64],
    by_run: Floats | None = None,
    level: float = 0.95,
    pairs: Sequence[tuple[int, int]] | None = None,
) -> list[Comparison]:
    """Compare columns measured on the same clusters; all comparisons made in one call are one family.

    The standard error of a difference is that of its paired bootstrap replicates, with the small-sample factor
    √(n/(n−1)); p-value and interval take the difference over its standard error as Student-t with n−1 degrees of
    freedom, n clusters; of means over runs with those of :func:`freedom`. (A p-value counted from 10,000 resamples
    cannot fall below 1/10001, too coarse for a family of hundreds.) Where all clusters show the very same difference
    there is no standard error: then no difference has p = 1, and any other that of a sign-flip test, 2^(1−n).

    Args:
        values: ``[column]``; an undefined one makes NaN with p = 1.
        replicates: ``[resample, column]`` on the same resamples, as in :class:`Bootstrap`.
        n_clusters: number of clusters that were resampled; or ``[pair]`` how many of these contribute to each pair,
            where others, such as sentences without a word of a rare relation, add nothing to either column. A pair
            with fewer than two has no interval.
        by_run: ``[run, column]`` of means over several runs, whose replicates are over runs and clusters.
        level: of the intervals.
        pairs: the pairs to compare, one comparison each; all pairs ``a < b`` when left out.
    """
    values = np.asarray(values, dtype=np.float64)
    chosen = list(itertools.combinations(range(len(values)), 2)) if pairs is None else list(pairs)
    if not chosen:
        return []
    a, b = np.array(chosen, dtype=np.int64).T
    diff = values[a] - values[b]
    stderr = np.full(len(chosen), np.nan)
    for place, (i, j) in enumerate(chosen):
        column = replicates[:, i] - replicates[:, j]
        column = column[np.isfinite(column)]  # the resamples in which the difference is defined
        stderr[place] = column.std(ddof=1) if len(column) > 1 else np.nan
    n = np.broadcast_to(np.asarray(n_clusters, dtype=np.int64), len(chosen))
    rest = np.maximum(1, n - 1)
    stderr *= np.sqrt(n / rest)
    degrees: Any = rest if by_run is None else freedom(stderr, by_run[:, a] - by_run[:, b], n)
    steady = ~(stderr > 1e-12)
    with np.errstate(invalid="ignore", divide="ignore"):
        p_raw = 2 * scipy.special.stdtr(degrees, -np.abs(diff) / stderr)
    p_raw = np.where(steady, np.where(np.abs(diff) > 1e-12, 2.0 ** (1.0 - np.maximum(1, n)), 1.0), p_raw)
    p_raw = np.where(np.isfinite(diff) & np.isfinite(p_raw), p_raw, 1.0)
    reach = np.where(n > 1, scipy.special.stdtrit(degrees, (1 + level) / 2) * stderr, np.nan)
    # adjusted so that those below q keep the false discovery rate at q (Benjamini & Hochberg 1995)
    order, p_adj = np.argsort(p_raw, kind="stable")[::-1], np.empty_like(p_raw)
    adjusted = np.minimum.accumulate(p_raw[order] * len(chosen) / np.arange(len(chosen), 0, -1))
    p_adj[order] = np.minimum(1.0, adjusted)
    columns = zip(chosen, n.tolist(), diff, diff - reach, diff + reach, p_raw, p_adj, strict=True)
    return [
        Comparison(i, j, n_pairs, float(d), float(low), float(high), float(p), float(q))
        for (i, j), n_pairs, d, low, high, p, q in columns
    ]


def best_set(
    values: ArrayLike, pairs: Iterable[tuple[int, int, float]], *, q: float = 0.05, higher_is_better: bool = True
) -> NDArray[np.bool_]:
    """``bool [column]`` which columns are not separable from the best one.

    A column leaves the set only if its comparison with the best has ``p_adj < q``; one that was never compared with
    it, or has the same value, stays. Columns without a value are never in it.

    Args:
        values: ``[column]``.
        pairs: two columns that were compared, by :func:`compare`, and their ``p_adj``.
        q: the false discovery rate at which columns are told apart.
        higher_is_better: whether the best is the highest.
    """
    values = np.asarray(values, dtype=np.float64)
    inside: NDArray[np.bool_] = np.isfinite(values)
    if not inside.any():
        return inside
    best = int(np.nanargmax(values) if higher_is_better else np.nanargmin(values))
    for a, b, p_adj in pairs:
        if best in (a, b) and p_adj < q:
            inside[b if a == best else a] = False
    return inside


def expected_layer(scores: ArrayLike, layers: Sequence[int]) -> Floats:
    """The layer at which a task is solved on average: Σ ℓ·Δ_ℓ / Σ Δ_ℓ over ℓ ≥ 1 (Tenney et al. 2019b, section 3.2).

    Scores are ``[…, layer]`` of the mixes, such as micro F1 in 0…1, ``layers`` their numbers; Δ_ℓ is what the mix of
    layers 0…ℓ scores above that of 0…ℓ−1. Where the mixes gain less than ``LEAST_GAIN`` over layer 0, the ratio is one
    of noise by noise, and NaN.
    """
    gains = np.diff(np.asarray(scores, dtype=np.float64), axis=-1)
    total = np.asarray(gains.sum(axis=-1))
    value = np.full(total.shape, np.nan)
    np.divide(gains @ np.asarray(layers, dtype=np.float64)[1:], total, out=value, where=total >= LEAST_GAIN)
    return value


def over_layers(scores: Bootstrap, function: Callable[[Floats], Floats], *, metric: str) -> Bootstrap:
    """A function of ``[…, layer]`` scores, called ``metric``, with the interval from their replicates."""
    values = np.atleast_1d(function(scores.values))
    replicates, jackknife = (function(part)[:, None] for part in (scores.replicates, scores.jackknife))
    return summarised(metric, values, replicates, jackknife, level=scores.level, seed=scores.seed, bounds="none")


def step_reached(scores: ArrayLike, steps: Sequence[int], share: float) -> Floats:
    """The first checkpoint that has a share of the gain of the last one over the first (cf. Liu et al. 2021).

    Scores are ``[…, step]``, higher ones better, steps the rising updates of checkpoints, the share over 0 and at most
    1. The result ``[…]`` is a step by which the score was reached, and not yet at the checkpoint before. Where the last
    checkpoint is no better than the first there is no gain to reach, and it is the last step.

    Raises:
        ValueError: fewer than two steps, steps that do not rise, or a share outside of its bounds.
    """
    values, at = _checked_steps(scores, steps)
    if not 0 < share <= 1:
        raise ValueError(f"share is {share}; it should be over 0 and at most 1")
    gain = values - values[..., :1]
    has_it = gain >= share * gain[..., -1:]
    first = np.where(gain[..., -1] > 0, has_it.argmax(axis=-1), len(at) - 1)
    return np.asarray(at[first], dtype=np.float64)


def mean_over_steps(scores: ArrayLike, steps: Sequence[int]) -> Floats:
    """The area under ``[…, step]`` scores by the trapezoid rule, divided by the number of updates between first and
    last step: ``[…]`` the mean score over the training. Raises as :func:`step_reached`."""
    values, at = _checked_steps(scores, steps)
    widths = np.diff(at)
    return np.asarray(((values[..., 1:] + values[..., :-1]) / 2 * widths).sum(axis=-1) / widths.sum())


def before(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """Shares of ``[resample]`` pairs in which the first step comes before the second, and in which both are equal."""
    a, b = np.asarray(first), np.asarray(second)
    return float((a < b).mean()), float((a == b).mean())


def _checked_steps(scores: ArrayLike, steps: Sequence[int]) -> tuple[Floats, NDArray[np.int64]]:
    values, at = np.asarray(scores, dtype=np.float64), np.asarray(steps, dtype=np.int64)
    if values.shape[-1:] != at.shape or len(at) < 2 or (np.diff(at) <= 0).any():
        raise ValueError(f"scores of shape {values.shape} for steps {list(steps)}: give two or more rising steps")
    return values, at
