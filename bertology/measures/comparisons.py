"""Several scores on the same clusters: differences, means over runs, and scores over layers and training steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.measures.intervals import Bootstrap, check_paired, drawn_deviations, freedom, summarised
from bertology.measures.metrics import Floats

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
    from scipy.special import stdtr, stdtrit

    values = np.asarray(values, dtype=np.float64)
    chosen = list(itertools.combinations(range(len(values)), 2)) if pairs is None else list(pairs)
    if not chosen:
        return []
    a, b = np.array(chosen, dtype=np.int64).T
    diff = values[a] - values[b]
    stderr = np.array([_spread(replicates[:, i] - replicates[:, j]) for i, j in chosen])
    n = np.broadcast_to(np.asarray(n_clusters, dtype=np.int64), len(chosen))
    rest = np.maximum(1, n - 1)
    stderr *= np.sqrt(n / rest)
    degrees: Any = rest if by_run is None else freedom(stderr, by_run[:, a] - by_run[:, b], n)
    steady = ~(stderr > 1e-12)
    with np.errstate(invalid="ignore", divide="ignore"):
        p_raw = 2 * stdtr(degrees, -np.abs(diff) / stderr)
    p_raw = np.where(steady, np.where(np.abs(diff) > 1e-12, 2.0 ** (1.0 - np.maximum(1, n)), 1.0), p_raw)
    p_raw = np.where(np.isfinite(diff) & np.isfinite(p_raw), p_raw, 1.0)
    reach = np.where(n > 1, stdtrit(degrees, (1 + level) / 2) * stderr, np.nan)
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
    values: ArrayLike, comparisons: Sequence[Comparison], *, q: float = 0.05, higher_is_better: bool = True
) -> NDArray[np.bool_]:
    """``bool [column]`` which columns are not separable from the best one.

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


def expected_layer(scores: ArrayLike, layers: Sequence[int]) -> Floats:
    """The layer at which a task is solved on average: Σ ℓ·Δ_ℓ / Σ Δ_ℓ over ℓ ≥ 1 (Tenney et al. 2019b, section 3.2).

    Δ_ℓ is what the cumulative mix of layers 0…ℓ scores above that of 0…ℓ−1. Where the mixes gain less than
    ``LEAST_GAIN`` over layer 0, the ratio is one of noise by noise, and NaN.

    Args:
        scores: ``[…, layer]`` of the mixes, such as micro F1 in 0…1.
        layers: ``[layer]`` the number of each layer.

    Returns:
        ``[…]`` in layers.
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

    Where the last checkpoint is no better than the first there is no gain to reach, and the result is the last step.

    Args:
        scores: ``[…, step]``, higher ones better.
        steps: ``[step]`` updates of each checkpoint, rising.
        share: of the gain, over 0 and at most 1.

    Returns:
        ``[…]`` a step: the score was reached by then, and not yet at the checkpoint before.

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
    """In which share of ``[resample]`` pairs the first step comes before the second, and in which both are the same."""
    a, b = np.asarray(first), np.asarray(second)
    return float((a < b).mean()), float((a == b).mean())


def _checked_steps(scores: ArrayLike, steps: Sequence[int]) -> tuple[Floats, NDArray[np.int64]]:
    values, at = np.asarray(scores, dtype=np.float64), np.asarray(steps, dtype=np.int64)
    if values.shape[-1:] != at.shape or len(at) < 2 or (np.diff(at) <= 0).any():
        raise ValueError(f"scores of shape {values.shape} for steps {list(steps)}: give two or more rising steps")
    return values, at
