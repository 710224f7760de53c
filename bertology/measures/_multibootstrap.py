"""Scores over pretraining seeds: the multi-bootstrap of Sellam et al. (2022), and what the variance is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from bertology.measures._bootstrap import Bootstrap, check_paired
from bertology.measures._metric import Floats

Seeds = Sequence[Bootstrap | Sequence[Bootstrap]]
"""By pretraining seed its run, or its runs (fine-tunings, seeds of a probe), over the same resamples of clusters."""


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
        total = parts.sum(axis=0)
        shares: Floats = np.divide(parts, total, out=np.full_like(parts, np.nan), where=total > 0)
        return shares


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
    """Of the first side."""
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
    draws of clusters, and the metric on them, are those of :func:`bootstrap`, so that a metric that is a ratio of sums
    (accuracy, F1) is computed anew from the drawn counts. Runs of one pretraining seed are averaged inside the seed
    first.

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
    sides = [_inside_seeds(side) for side in (seeds, *([] if other is None else [other]))]
    first = _checked(seeds, other)
    if other is not None and is_paired:
        if len(sides[0]) != len(sides[1]):
            raise ValueError(f"paired sides of {len(sides[0])} and {len(sides[1])} seeds: give the same seeds of both")
        sides = [[_less(a, b) for a, b in zip(*sides, strict=True)]]
    sign, values, replicates = 1, np.zeros(len(first.values)), np.zeros(first.replicates.shape)
    for number, side in enumerate(sides):
        drawn = _drawn_shares(len(side), len(replicates), (first.seed, len(side), number), rescaled=rescaled)
        values += sign * np.mean([run.values for run in side], axis=0)
        for place, run in enumerate(side):
            replicates += sign * drawn[:, [place]] * run.replicates
        sign = -1
    tails = (1 - level) / 2, (1 + level) / 2
    low, high = np.quantile(replicates, tails, axis=0)
    p = np.maximum((replicates <= null).mean(axis=0), 1 / len(replicates))
    variance = _variance_parts([np.stack([run.pseudo for run in side]) for side in sides])
    return MultiBootstrap(values, low, high, p, replicates, variance, len(sides[0]), first.n_clusters)


@dataclass(frozen=True)
class _Seed:
    """One pretraining seed: the mean over its runs."""

    values: Floats
    replicates: Floats
    pseudo: Floats
    """``[cluster, column]`` what each cluster adds to the value, to first order: pseudo-values of the jackknife."""


def _less(a: _Seed, b: _Seed) -> _Seed:
    return _Seed(a.values - b.values, a.replicates - b.replicates, a.pseudo - b.pseudo)


def _runs(of_seed: Bootstrap | Sequence[Bootstrap]) -> Sequence[Bootstrap]:
    return [of_seed] if isinstance(of_seed, Bootstrap) else of_seed


def _checked(seeds: Seeds, other: Seeds | None) -> Bootstrap:
    every = list(chain.from_iterable(_runs(of_seed) for of_seed in (*seeds, *(other or ()))))
    check_paired(every)
    return every[0]


def _inside_seeds(seeds: Seeds) -> list[_Seed]:
    if not seeds or not all(_runs(of_seed) for of_seed in seeds):
        raise ValueError("there is nothing to average: give a run of each seed")

    def mean(runs: Sequence[Bootstrap], of: Callable[[Bootstrap], Floats]) -> Floats:
        total = of(runs[0]).copy()
        for run in runs[1:]:
            total += of(run)
        return total / len(runs)

    return [
        _Seed(mean(runs, lambda run: run.values), mean(runs, lambda run: run.replicates), mean(runs, _pseudo_values))
        for runs in map(_runs, seeds)
    ]


def _pseudo_values(run: Bootstrap) -> Floats:
    return run.n_clusters * run.values - (run.n_clusters - 1) * run.jackknife


def _drawn_shares(n: int, n_resamples: int, seed: tuple[int, ...], *, rescaled: bool) -> Floats:
    """``[resample, seed]`` how much of each replicate's mean every seed is, as often as it is drawn."""
    # Not the generator that draws the clusters: which seeds are drawn must not depend on them.
    drawn = np.random.default_rng(seed).multinomial(n, [1 / n] * n, n_resamples) / n
    return 1 / n + (drawn - 1 / n) * np.sqrt(n / (n - 1)) if rescaled and n > 1 else drawn


def _variance_parts(sides: Sequence[Floats]) -> VarianceParts:
    """Of one side, or of two with seeds of their own, given the pseudo-values ``[seed, cluster, column]`` of each."""
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
