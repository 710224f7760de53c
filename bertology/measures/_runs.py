"""The mean over runs (fits from several seeds, draws of random weights) and its interval over runs × clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertology.measures._bootstrap import Bootstrap, check_paired, summarised
from bertology.measures._metric import Floats


def over_runs(runs: Sequence[Bootstrap]) -> Bootstrap:
    """The mean over runs, with its interval for other runs and other sentences.

    The multi-bootstrap of Sellam et al. (2022): a replicate draws as many runs as there are with replacement, and
    clusters too, the same clusters for all runs; two means over runs of equal number and ``seed`` draw the same runs,
    so that their replicates are paired. As the variance of so few runs drawn with replacement is too small by
    (n − 1) / n, their deviation from the mean is enlarged by the root of the inverse. The intervals are those of the
    replicates (BCa), enlarged by the quotient of two quantiles of Student's t, with the degrees of freedom of
    :func:`freedom` and with those of the clusters: two or three runs say little of the spread between runs.

    Args:
        runs: over the same resamples of clusters; one alone is returned as it is.

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
    """The mean over seeds with its interval over clusters alone; the spread between seeds does not enter.

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
