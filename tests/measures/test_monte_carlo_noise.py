"""Bounds of intervals do not depend on which resamples were drawn, beyond a twentieth of a standard error."""

from __future__ import annotations

import numpy as np
import pytest

from bertology.measures import bootstrap, bootstrap_ratio, count_labels, ratio_intervals

SEEDS = range(40)


def noise(bounds: list[np.ndarray], stderr: np.ndarray) -> float:
    """The largest standard deviation of a bound over bootstrap seeds, in standard errors of the score."""
    return float((np.std(bounds, axis=0, ddof=1) / stderr).max())


@pytest.mark.parametrize(
    ("metric", "n_labels", "accuracy"), [("accuracy", 12, 0.97), ("accuracy", 12, 0.6), ("macro_f1", 30, 0.9)]
)
def test_bounds_of_counts(metric: str, n_labels: int, accuracy: float) -> None:
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(300), rng.poisson(9, 300) + 1)
    # Rare labels and clusters of unequal size: skewed replicates, so that bias and acceleration matter.
    gold = np.minimum(rng.zipf(1.6, len(cluster)) - 1, n_labels - 1)
    pred = np.where(rng.random((1, len(gold))) < accuracy, gold, rng.integers(0, n_labels, len(gold)))
    counts = count_labels(gold, pred, cluster, n_labels=n_labels, n_clusters=300)
    found = [bootstrap(counts, [metric], seed=seed)[metric] for seed in SEEDS]
    bounds = [np.concatenate([one.ci_low, one.ci_high]) for one in found]
    assert noise(bounds, found[0].stderr) < 0.05


def test_bounds_of_ratios() -> None:
    rng = np.random.default_rng(4)
    under = rng.poisson(4, (5, 400)) + 1.0
    over = under * rng.beta(8, 2, under.shape)
    alone = [bootstrap_ratio(over, under, metric="compression", seed=seed) for seed in SEEDS[:24]]
    many = [ratio_intervals(over, under, seed=seed) for seed in SEEDS[:24]]
    for found in (alone, many):
        bounds = [np.stack([one.ci_low, one.ci_high]) for one in found]
        assert noise(bounds, found[0].stderr) < 0.05


def test_the_number_of_resamples_is_part_of_the_method() -> None:
    under = np.arange(1.0, 41)[None]
    for n_resamples, method in ((None, "cluster-bootstrap-bca-10000"), (500, "cluster-bootstrap-bca-500")):
        chosen = {} if n_resamples is None else {"n_resamples": n_resamples}
        assert bootstrap_ratio(under % 7, under, metric="share", **chosen).ci_methods == (method,)
        assert ratio_intervals(under % 7, under, **chosen).ci_methods == (method,)
