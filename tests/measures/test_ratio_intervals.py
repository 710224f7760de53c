"""Very many ratios at once are as each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from bertology.measures import bootstrap_ratio, intervals_over_clusters, ratio_intervals


def test_many_ratios_are_as_each_by_itself() -> None:
    rng = np.random.default_rng(0)
    under = rng.integers(0, 4, size=(1500, 40)).astype(np.float64)
    over = under * rng.random(under.shape)
    # A ratio of which most resamples hold nothing, one of nothing at all, one that never varies, one cluster only.
    under[3], under[4], over[5] = 0, 0, under[5]
    under[3, 7], over[3, 7] = 2, 1
    over[4] = 0
    found = ratio_intervals(over, under, n_resamples=300, seed=1)
    assert found.values[5] == 1
    assert found.ci_methods[5] == "exact-over-clusters"
    n_used = np.count_nonzero(under[5])
    assert (found.ci_low[5], found.ci_high[5]) == (pytest.approx(0.025 ** (1 / n_used)), 1)
    for column in (0, 3, 4, 700, 1499):
        alone = bootstrap_ratio(over[column], under[column], metric="m", n_resamples=300, seed=1)
        for many, one in (
            (found.values, alone.values),
            (found.stderr, alone.stderr),
            (found.ci_low, alone.ci_low),
            (found.ci_high, alone.ci_high),
        ):
            np.testing.assert_allclose(many[column], one[0], rtol=1e-10, equal_nan=True)
        assert found.ci_methods[column] == alone.ci_methods[0]
    assert np.isnan(found.values[4])


def test_one_cluster_has_no_interval() -> None:
    found = ratio_intervals(np.array([[1.0]]), np.array([[2.0]]), n_resamples=100)
    assert found.values[0] == pytest.approx(0.5)
    assert np.isnan(found.ci_low[0])
    assert found.ci_methods == ("none",)


def test_a_loss_of_exactly_nothing_is_certain_and_a_share_of_nothing_is_not() -> None:
    zeros, ones = np.zeros((2, 30)), np.ones((2, 30))
    found = ratio_intervals(zeros, ones, are_shares=[True, False], n_resamples=100)
    assert found.values.tolist() == found.ci_low.tolist() == [0, 0]
    assert found.ci_high.tolist() == [pytest.approx(1 - 0.025 ** (1 / 30)), 0]


def test_items_of_one_cluster_are_resampled_together() -> None:
    rng = np.random.default_rng(0)
    over, under, clusters = rng.random((2, 3, 90)), rng.random((2, 3, 90)), [f"text {n // 3:02}" for n in range(90)]
    low, high = intervals_over_clusters(over, under, clusters)
    sums = (part[1, 2].reshape(30, 3).sum(axis=1) for part in (over, under))
    alone = bootstrap_ratio(*sums, metric="m")
    assert low.shape == high.shape == (2, 3)
    assert (low[1, 2], high[1, 2]) == (pytest.approx(alone.ci_low[0]), pytest.approx(alone.ci_high[0]))
    low, high = intervals_over_clusters(over, under, ["one text"] * 90)
    assert np.isnan(low).all()
    assert np.isnan(high).all()
