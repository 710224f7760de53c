"""Several scores on the same clusters: differences, means over runs, which layers differ, and which set is best."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.measures._bootstrap import Bootstrap, check_paired, freedom, summarised
from bertology.measures._metric import Floats


def difference(a: Bootstrap, b: Bootstrap, *, metric: str) -> Bootstrap:
    """``a − b`` layer by layer with a paired interval, as a metric called ``metric``.

    Raises:
        ValueError: the two were not bootstrapped over the same resamples, so that they are not paired.
    """
    check_paired((a, b))
    values, replicates, jackknife = a.values - b.values, a.replicates - b.replicates, a.jackknife - b.jackknife
    return summarised(metric, values, replicates, jackknife, level=a.level, seed=a.seed, bounded=False)


def selectivity(task: Bootstrap, control: Bootstrap) -> Bootstrap:
    """Selectivity of a probe: accuracy on its task less accuracy on its control task (Hewitt & Liang 2019, §2).

    Args:
        task: accuracy on the linguistic task.
        control: accuracy on the control task, of the same items and clusters.
    """
    return difference(task, control, metric="selectivity")


def seed_spread(values: NDArray[Any]) -> Floats:
    """Standard deviation over seeds of values ``[seed, layer]``, as ``[layer]``; NaN with fewer than two seeds."""
    if len(values) < 2:
        return np.full(np.shape(values)[1:], np.nan)
    return np.asarray(np.std(values, axis=0, ddof=1), dtype=np.float64)


def over_runs(runs: Sequence[Bootstrap]) -> Bootstrap:
    """The mean over runs, with its interval for other runs and other sentences.

    The multi-bootstrap of Sellam et al. (2022): a replicate draws as many runs as there are with replacement, and
    clusters too, the same clusters for all runs; two means over runs of equal number and ``seed`` draw the same runs,
    so that their replicates are paired. As the variance of so few runs drawn with replacement is too small by
    (n − 1) / n, their deviation from the mean is enlarged by the root of the inverse. The intervals are those of the
    replicates (BCa), enlarged by the quotient of two quantiles of Student's t, with the degrees of freedom of
    :func:`freedom` and with those of the clusters: two or three runs are a poor estimate of the spread between runs.

    Args:
        runs: over the same resamples of clusters; a single one is returned as it is.

    Raises:
        ValueError: no runs, or runs not bootstrapped over the same resamples.
    """
    check_paired(runs)
    first, n_runs = runs[0], len(runs)
    if n_runs == 1:
        return first
    by_run = np.stack([run.values for run in runs])
    replicates, jackknife = (_mean([getattr(run, name) for run in runs]) for name in ("replicates", "jackknife"))
    # Not the generator that draws the clusters: which runs are drawn must not depend on them.
    drawn = np.random.default_rng((first.seed, n_runs)).multinomial(n_runs, [1 / n_runs] * n_runs, len(replicates))
    enlarged = (drawn / n_runs - 1 / n_runs) * np.sqrt(n_runs / (n_runs - 1))
    deviation = np.zeros_like(replicates)
    for number, run in enumerate(runs):
        deviation += enlarged[:, [number]] * run.replicates
    # Correlations and differences may be negative; shares, of which no run and no resample is, may not.
    is_share = all(np.nanmin(run.replicates) >= 0 for run in runs)
    return summarised(
        first.metric,
        by_run.mean(axis=0),
        replicates + deviation,
        jackknife,
        level=first.level,
        seed=first.seed,
        bounded=first.bounded,
        by_run=by_run,
        least=0.0 if is_share else -1.0,
    )


def mean_over_seeds(runs: Sequence[Bootstrap]) -> Bootstrap:
    """The mean over seeds with its interval over clusters only, without the spread between seeds.

    Raises:
        ValueError: no runs, or runs not bootstrapped over the same resamples.
    """
    check_paired(runs)
    first = runs[0]
    values, replicates, jackknife = (
        _mean([getattr(run, name) for run in runs]) for name in ("values", "replicates", "jackknife")
    )
    return summarised(
        first.metric, values, replicates, jackknife, level=first.level, seed=first.seed, bounded=first.bounded
    )


def _mean(arrays: Sequence[Floats]) -> Floats:
    return np.asarray(np.mean(arrays, axis=0))


@dataclass(frozen=True)
class Comparison:
    """A paired difference between two columns (layers) ``a`` and ``b`` of one family."""

    a: int
    b: int
    n_pairs: int
    """Number of clusters (sentences) that both were measured on and that were resampled."""
    diff: float
    """Value of ``a`` less value of ``b``."""
    ci_low: float
    ci_high: float
    p_raw: float
    """Two-sided p-value of no difference."""
    p_adj: float
    """The same, adjusted for the whole family (Benjamini–Hochberg)."""


def compare(
    values: ArrayLike,
    replicates: NDArray[Any],
    *,
    n_clusters: int,
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
        values: ``[column]``.
        replicates: ``[resample, column]`` on the same resamples, as in :class:`Bootstrap`.
        n_clusters: number of clusters that were resampled.
        by_run: ``[run, column]`` of means over several runs, whose replicates are over runs and clusters.
        level: of the intervals.
        pairs: the pairs to compare; all pairs ``a < b`` when left out.

    Returns:
        One comparison for each pair, in order. An undefined value makes NaN with p = 1.
    """
    from scipy.special import stdtr, stdtrit

    values = np.asarray(values, dtype=np.float64)
    chosen = list(itertools.combinations(range(len(values)), 2)) if pairs is None else list(pairs)
    if not chosen:
        return []
    a, b = np.array(chosen, dtype=np.int64).T
    diff = values[a] - values[b]
    stderr = np.array([_spread(replicates[:, i] - replicates[:, j]) for i, j in chosen])
    stderr *= np.sqrt(n_clusters / max(1, n_clusters - 1))
    degrees: Any = max(1, n_clusters - 1)
    if by_run is not None:
        degrees = freedom(stderr, by_run[:, a] - by_run[:, b], n_clusters)
    steady = ~(stderr > 1e-12)
    with np.errstate(invalid="ignore", divide="ignore"):
        p_raw = 2 * stdtr(degrees, -np.abs(diff) / stderr)
    p_raw = np.where(steady, np.where(np.abs(diff) > 1e-12, 2.0 ** (1 - max(1, n_clusters)), 1.0), p_raw)
    p_raw = np.where(np.isfinite(diff) & np.isfinite(p_raw), p_raw, 1.0)
    reach = stdtrit(degrees, (1 + level) / 2) * stderr
    p_adj = benjamini_hochberg(p_raw)
    columns = zip(chosen, diff, diff - reach, diff + reach, p_raw, p_adj, strict=True)
    return [
        Comparison(i, j, n_clusters, float(d), float(low), float(high), float(p), float(q))
        for (i, j), d, low, high, p, q in columns
    ]


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """P-values ``[test]`` adjusted so that those below q keep the false discovery rate at q.

    Benjamini & Hochberg (1995).
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")[::-1]
    ranks = np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(p_values[order] * len(p_values) / ranks))
    return adjusted


def best_set(
    values: ArrayLike, comparisons: Sequence[Comparison], *, q: float = 0.05, higher_is_better: bool = True
) -> NDArray[np.bool_]:
    """The columns that are not separable from the best one, ``bool [column]``.

    A column leaves the set only if its comparison with the best has ``p_adj < q``; one that was never compared with
    it, or has the same value, stays. Columns without a value are never in it.

    Args:
        values: ``[column]``.
        comparisons: from :func:`compare` on the same columns.
        q: the false discovery rate at which columns are told apart.
        higher_is_better: whether the best is the highest.
    """
    values = np.asarray(values, dtype=np.float64)
    inside: NDArray[np.bool_] = np.isfinite(values)
    if not inside.any():
        return inside
    best = int(np.nanargmax(values) if higher_is_better else np.nanargmin(values))
    for comparison in comparisons:
        if best in (comparison.a, comparison.b) and comparison.p_adj < q:
            inside[comparison.b if comparison.a == best else comparison.a] = False
    return inside


def _spread(column: Floats) -> float:
    """Standard deviation over the resamples in which the difference is defined."""
    column = column[np.isfinite(column)]
    return float(column.std(ddof=1)) if len(column) > 1 else float("nan")
