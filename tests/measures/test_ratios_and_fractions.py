"""Intervals of ratios of sums, and portions of the training data that lie inside each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest

from bertology.measures import bootstrap, bootstrap_ratio, count_labels, fraction_mask
from bertology.measures._comparisons import difference


def test_accuracy_as_a_ratio_is_accuracy_by_counts() -> None:
    random = np.random.default_rng(0)
    cluster = random.integers(0, 40, 600)
    gold = random.integers(0, 3, 600)
    pred = np.where(random.random((2, 600)) < [[0.3], [0.6]], gold, random.integers(0, 3, 600))
    counts = count_labels(gold, pred, cluster, n_labels=3, n_clusters=40)
    expected = bootstrap(counts, ["accuracy"], n_resamples=500)["accuracy"]
    right = np.stack([np.bincount(cluster, weights=row == gold, minlength=40) for row in pred])
    found = bootstrap_ratio(right, np.bincount(cluster, minlength=40), metric="accuracy", n_resamples=500)
    for field in ("values", "stderr", "ci_low", "ci_high", "replicates", "jackknife"):
        np.testing.assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-12)
    assert difference(found, expected, metric="nothing").values == pytest.approx([0, 0])


def test_interval_holds_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        items = random.integers(1, 20, 60)
        bits = items * random.gamma(4, 0.5, 60)  # 2 bits an item, sentences differ
        one = bootstrap_ratio(bits, items, metric="bits", n_resamples=300)
        held += bool(one.ci_low[0] <= 2 <= one.ci_high[0])
    assert 0.89 <= held / 200 <= 0.99


def test_a_sum_is_a_ratio_too() -> None:
    bits = np.random.default_rng(2).random((3, 50))
    found = bootstrap_ratio(bits, np.full(50, 1 / 50), metric="codelength_bits")
    np.testing.assert_allclose(found.values, bits.sum(1))
    assert found.metric == "codelength_bits"
    assert (found.ci_low < found.values).all()
    assert (found.values < found.ci_high).all()


def test_ratios_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="shapes do not fit"):
        bootstrap_ratio(np.ones((2, 3)), np.ones(4), metric="x")
    with pytest.raises(ValueError, match="at least one resample"):
        bootstrap_ratio(np.ones(4), np.ones(4), metric="x", n_resamples=0)
    assert np.isnan(bootstrap_ratio(np.ones(4), np.zeros(4), metric="x").values).all()


def test_portions_are_nested_whole_sentences() -> None:
    clusters = np.repeat(np.arange(200), np.random.default_rng(0).integers(1, 30, 200))
    n_items = len(clusters)
    masks = [fraction_mask(clusters, fraction, seed=4) for fraction in (1e-9, 0.01, 0.1, 0.5, 1.0)]
    for smaller, larger in itertools.pairwise(masks):
        assert not (smaller & ~larger).any()
    for mask, wanted in zip(masks, (1e-9, 0.01, 0.1, 0.5, 1.0), strict=True):
        assert all(len(set(mask[clusters == one].tolist())) == 1 for one in range(200))
        assert wanted * n_items <= mask.sum() < wanted * n_items + 30
    assert masks[-1].all()
    assert (fraction_mask(clusters, 0.1, seed=5) != masks[2]).any()
    np.testing.assert_array_equal(fraction_mask(clusters, 0.1, seed=4), masks[2])


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, float("nan")])
def test_fractions_that_are_none(fraction: float) -> None:
    with pytest.raises(ValueError, match="above 0, at most 1"):
        fraction_mask([0, 1], fraction, seed=0)


def test_a_share_of_all_items_has_an_exact_interval_and_other_ratios_have_not() -> None:
    items = np.array([3.0, 1, 4, 0, 2] * 8)
    share = bootstrap_ratio(np.stack([items, 0 * items]), items, metric="share", bounds="share", n_resamples=200)
    exact = [binomtest(right, 32).proportion_ci(0.95, method="exact") for right in (32, 0)]
    assert share.ci_low == pytest.approx([one.low for one in exact])
    assert share.ci_high == pytest.approx([one.high for one in exact])
    assert share.ci_methods == ("exact-over-clusters",) * 2
    # Influences of clusters on a share, whose sums in resamples pass 1, where the share cannot.
    near = bootstrap_ratio([1.03] * 55 + [0.65] * 5, np.ones(60), metric="share", bounds="share", n_resamples=200)
    assert near.replicates.max() > 1
    assert near.ci_high == 1
    length = bootstrap_ratio(items, items, metric="length", n_resamples=200)
    assert (length.ci_low, length.ci_high) == (1, 1)
