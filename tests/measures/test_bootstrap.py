"""The cluster bootstrap: its arithmetic, its coverage on data of known truth, and its degenerate cases."""

import time

import numpy as np
import pytest
from scipy import stats

from bertology.measures import (
    METRICS,
    bootstrap,
    count_labels,
    over_runs,
    selectivity,
)
from bertology.measures._comparisons import difference


def counts_of(correct, cluster, n_clusters):
    """Counts of a two-label task in which every item has label 0: ``correct [layer, item]``."""
    pred = np.where(correct, 0, 1)
    return count_labels(np.zeros(len(cluster), dtype=int), pred, cluster, n_labels=2, n_clusters=n_clusters)


def clustered(rng, n_layers, n_clusters, *, rho=3.0, mean=0.9, size=8):
    """Items right with a probability of their cluster's own: ``correct [layer, item]``, ``cluster [item]``."""
    cluster = np.repeat(np.arange(n_clusters), rng.poisson(size, n_clusters) + 1)
    rate = rng.beta(mean * rho, (1 - mean) * rho, size=(n_layers, n_clusters))
    return rng.random((n_layers, len(cluster))) < rate[:, cluster], cluster


def ewt_like():
    rng = np.random.default_rng(0)
    n_items, n_clusters, n_labels = 25_094, 2_077, 17
    cluster = np.sort(np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, n_items - n_clusters)]))
    gold = rng.integers(0, n_labels, n_items)
    pred = np.where(rng.random((7, n_items)) < 0.93, gold, rng.integers(0, n_labels, (7, n_items)))
    return count_labels(gold, pred, cluster, n_labels=n_labels, n_clusters=n_clusters)


def test_replicates_are_the_metric_of_resampled_items():
    """Redo some resamples item by item from the drawn clusters."""
    rng = np.random.default_rng(1)
    correct, cluster = clustered(rng, 2, 20)
    found = bootstrap(counts_of(correct, cluster, 20), ["accuracy", "macro_f1"], n_resamples=5, seed=7)
    drawn = np.random.default_rng(7).integers(0, 20, size=(5, 20))
    for row, clusters in enumerate(drawn):
        items = np.concatenate([np.flatnonzero(cluster == c) for c in clusters])
        np.testing.assert_allclose(found["accuracy"].replicates[row], correct[:, items].mean(axis=1))
        hits = correct[:, items].sum(axis=1)
        np.testing.assert_allclose(found["macro_f1"].replicates[row], 2 * hits / (len(items) + hits))


def test_standard_error_is_that_of_a_ratio_estimator():
    """The linearised (delta-method) standard error of a ratio of cluster totals."""
    rng = np.random.default_rng(2)
    correct, cluster = clustered(rng, 1, 400)
    counts = counts_of(correct, cluster, 400)
    found = bootstrap(counts, ["accuracy"], seed=1)["accuracy"]
    hits, sizes = counts[0, :, 0, 0], counts[0, :, 0].sum(axis=1)
    residual = hits - found.values[0] * sizes
    assert found.stderr[0] == pytest.approx(np.sqrt((residual**2).sum()) / sizes.sum(), rel=0.06)


def test_interval_equals_scipy_bca():
    """A skewed ratio over few clusters of very different sizes, where bias and acceleration both matter."""
    rng = np.random.default_rng(3)
    sizes = np.ceil(rng.lognormal(3, 1.2, 40)).astype(int)
    hits = rng.binomial(sizes, np.clip(0.95 - sizes / 400, 0.1, 1))
    counts = np.zeros((1, 40, 1, 3), dtype=np.int32)
    counts[0, :, 0, 0], counts[0, :, 0, 2] = hits, sizes - hits
    found = bootstrap(counts, ["accuracy"], n_resamples=20_000)["accuracy"]
    reference = stats.bootstrap(
        (hits, sizes),
        lambda hits, sizes, axis: hits.sum(axis=axis) / sizes.sum(axis=axis),
        paired=True,
        n_resamples=20_000,
        method="BCa",
        rng=np.random.default_rng(0),
    )
    bounds = np.array([found.ci_low[0], found.ci_high[0]])
    close = 0.07 * reference.standard_error
    np.testing.assert_allclose(bounds, reference.confidence_interval, atol=close)
    assert found.stderr[0] == pytest.approx(reference.standard_error, rel=0.03)
    assert found.ci_methods == ("cluster-bootstrap-bca-20000",)
    percentiles = np.quantile(found.replicates[:, 0], [0.025, 0.975])
    assert np.abs(bounds - percentiles).min() > 2 * close


def test_interval_of_a_biased_metric_equals_scipy_bca():
    """Macro-F1 over many rare labels: a resample lacks some of them, and scores otherwise than the whole."""
    rng = np.random.default_rng(4)
    gold = np.minimum(rng.zipf(1.5, 300) - 1, 29)
    pred = np.where(rng.random((1, 300)) < np.where(gold > 4, 0.5, 0.95), gold, rng.integers(0, 30, 300))
    counts = count_labels(gold, pred, np.arange(300) // 5, n_labels=30, n_clusters=60)
    found = bootstrap(counts, ["macro_f1"], n_resamples=10_000)["macro_f1"]
    reference = stats.bootstrap(
        (np.arange(60),),
        lambda drawn, axis: METRICS["macro_f1"](counts[0][drawn].sum(axis=-3)),
        n_resamples=5_000,
        batch=250,
        method="BCa",
        rng=np.random.default_rng(0),
    )
    bounds, close = np.array([found.ci_low[0], found.ci_high[0]]), 0.12 * reference.standard_error
    np.testing.assert_allclose(bounds, reference.confidence_interval, atol=close)
    percentiles = np.quantile(found.replicates[:, 0], [0.025, 0.975])
    assert np.abs(bounds - percentiles).min() > 2 * close


def test_intervals_of_scores_in_steps_equal_scipy_bca():
    """Forty data sets of fifty items: where many replicates equal the value, ties decide the bias."""
    correct = np.random.default_rng(5).random((40, 50)) < 0.85
    found = bootstrap(counts_of(correct, np.arange(50), 50), ["accuracy"], n_resamples=5_000)["accuracy"]
    reference = stats.bootstrap(
        (correct.astype(float),), np.mean, axis=1, n_resamples=5_000, batch=500, rng=np.random.default_rng(0)
    )
    same = np.isclose([found.ci_low, found.ci_high], reference.confidence_interval, atol=1e-6)
    assert same.mean() > 0.9


def test_intervals_cover_the_truth_as_often_as_they_say():
    """1,500 independent data sets at once, as the layers of one array; the mean rate is known to be 0.9."""
    rng = np.random.default_rng(4)
    correct, cluster = clustered(rng, 1500, 120, size=5)
    found = bootstrap(counts_of(correct, cluster, 120), ["accuracy"], n_resamples=600, seed=5)["accuracy"]
    covered = np.mean((found.ci_low <= 0.9) & (found.ci_high >= 0.9))
    assert 0.93 <= covered <= 0.97
    # Items of a cluster go together: intervals that ignore it claim far too much.
    as_items = np.sqrt(found.values * (1 - found.values) / len(cluster))
    naive = np.mean(np.abs(found.values - 0.9) <= 1.96 * as_items)
    assert naive < 0.85


def test_selectivity_covers_a_known_difference():
    rng = np.random.default_rng(6)
    cluster = np.repeat(np.arange(150), rng.poisson(5, 150) + 1)
    shared = rng.normal(0, 0.05, size=(800, 150))[:, cluster]
    task = rng.random(shared.shape) < 0.85 + shared
    control = rng.random(shared.shape) < 0.60 + shared
    runs = [bootstrap(counts_of(c, cluster, 150), ["accuracy"], n_resamples=500)["accuracy"] for c in (task, control)]
    found = selectivity(*runs)
    assert found.metric == "selectivity"
    np.testing.assert_allclose(found.values, task.mean(axis=1) - control.mean(axis=1))
    assert 0.93 <= np.mean((found.ci_low <= 0.25) & (found.ci_high >= 0.25)) <= 0.97


def test_pairing_narrows_a_difference_of_alike_layers():
    rng = np.random.default_rng(8)
    correct, cluster = clustered(rng, 2, 200)
    correct[1] = correct[0]
    correct[1, :10] = ~correct[0, :10]
    a, b = (bootstrap(counts_of(c[None], cluster, 200), ["accuracy"])["accuracy"] for c in correct)
    apart = np.hypot(a.stderr[0], b.stderr[0])
    assert difference(a, b, metric="gain").stderr[0] < apart / 2


def test_same_seed_same_resamples_whatever_is_measured():
    rng = np.random.default_rng(9)
    correct, cluster = clustered(rng, 3, 300)
    counts = counts_of(correct, cluster, 300)
    whole = bootstrap(counts, ["accuracy", "macro_f1"], n_resamples=700, seed=3)
    one = bootstrap(counts[1:2], ["macro_f1"], n_resamples=700, seed=3)["macro_f1"]
    np.testing.assert_array_equal(whole["macro_f1"].replicates[:, 1], one.replicates[:, 0])
    other = bootstrap(counts[1:2], ["macro_f1"], n_resamples=700, seed=4)["macro_f1"]
    assert not np.array_equal(one.replicates, other.replicates)
    with pytest.raises(ValueError, match="same resamples"):
        difference(one, other, metric="gain")


def test_large_counts_are_summed_exactly():
    counts = np.zeros((1, 3, 1, 3), dtype=np.int32)
    counts[0, :, 0, 0] = 2**24 + 1
    counts[0, :, 0, 2] = 1
    found = bootstrap(counts, ["accuracy"], n_resamples=50)["accuracy"]
    np.testing.assert_array_equal(found.replicates, found.values[0])


def test_one_cluster_says_nothing_about_spread():
    correct = np.array([[True, True, False, True]])
    found = bootstrap(counts_of(correct, np.zeros(4, dtype=int), 1), ["accuracy"])["accuracy"]
    assert found.values[0] == 0.75
    assert np.isnan([found.stderr[0], found.ci_low[0], found.ci_high[0]]).all()
    assert found.ci_methods == ("none",)


@pytest.mark.parametrize("value", [1.0, 0.0])
def test_all_right_or_all_wrong_is_not_certain(value):
    """The bound is Clopper–Pearson's over clusters, from scipy."""
    correct = np.full((1, 160), bool(value))
    found = bootstrap(counts_of(correct, np.arange(160) // 2, 80), ["accuracy"])["accuracy"]
    exact = stats.binomtest(80 if value else 0, 80).proportion_ci(0.95, method="exact")
    assert found.values[0] == value
    assert found.stderr[0] == 0
    assert (found.ci_low[0], found.ci_high[0]) == pytest.approx((exact.low, exact.high))
    assert found.ci_methods == ("exact-over-clusters",)


def test_resamples_without_the_thing_measured_are_left_out():
    """One sentence of forty has the only entity: a third of the resamples miss it."""
    gold = np.zeros(40, dtype=int)
    gold[0] = 1
    counts = count_labels(gold, gold[None], np.arange(40), n_labels=2, n_clusters=40)
    found = bootstrap(counts, ["micro_f1"], labels=("O", "B-LOC"), n_resamples=400)["micro_f1"]
    assert found.values[0] == 1
    assert 0.2 < np.isnan(found.replicates).mean() < 0.55
    assert 0 < found.ci_low[0] < found.ci_high[0] == 1


def test_mean_over_seeds_keeps_the_test_interval_only():
    rng = np.random.default_rng(10)
    correct, cluster = clustered(rng, 3, 200)
    runs = [bootstrap(counts_of(c[None], cluster, 200), ["accuracy"])["accuracy"] for c in correct]
    mean = over_runs(runs, draws_runs=False)
    assert mean.values[0] == pytest.approx(correct.mean())
    np.testing.assert_allclose(mean.replicates, np.mean([r.replicates for r in runs], axis=0))
    assert mean.ci_low[0] < mean.values[0] < mean.ci_high[0]


def test_a_treebank_takes_little_time():
    counts = ewt_like()
    started = time.process_time()
    found = bootstrap(counts, [metric for metric in METRICS.values() if metric.count_kind == "labels"])
    assert time.process_time() - started < 1.5
    assert found["accuracy"].replicates.shape == (10_000, 7)


@pytest.mark.parametrize(
    ("shape", "options"), [((2, 3, 4), {}), ((2, 3, 4, 2), {}), ((1, 2, 2, 3), {"n_resamples": 0})]
)
def test_impossible_input_is_refused(shape, options):
    with pytest.raises(ValueError, match=r"counts should be|at least one resample"):
        bootstrap(np.zeros(shape, dtype=np.int32), ["accuracy"], **options)


def test_a_constant_classifier_has_a_matthews_correlation_without_an_interval():
    """Of 0 by convention in every resample nothing follows about other data; it is no share of wrong items."""
    gold, cluster = np.tile([0, 1, 1, 0], 200), np.repeat(np.arange(400), 2)
    counts = count_labels(gold, np.ones((1, 800), dtype=int), cluster, n_labels=2, n_clusters=400)
    found = bootstrap(counts, ["matthews", "accuracy"], n_resamples=200)
    assert found["matthews"].values == [0]
    assert np.isnan([found["matthews"].ci_low, found["matthews"].ci_high]).all()
    assert found["matthews"].ci_methods == ("none",)
    mean = over_runs([found["matthews"], found["matthews"]])
    assert np.isnan(mean.ci_low).all()
    perfect = count_labels(gold, gold[None], cluster, n_labels=2, n_clusters=400)
    assert bootstrap(perfect, ["matthews"], n_resamples=200)["matthews"].ci_methods == ("none",)
    assert bootstrap(perfect, ["accuracy"], n_resamples=200)["accuracy"].ci_methods == ("exact-over-clusters",)


def test_clusters_without_items_make_no_exact_interval_narrower():
    """Of 400 sentences 20 have an item, all of which are right."""
    gold, cluster = np.zeros(20, dtype=int), np.arange(0, 400, 20)
    counts = count_labels(gold, gold[None], cluster, n_labels=2, n_clusters=400)
    (low,) = bootstrap(counts, ["accuracy"], n_resamples=200)["accuracy"].ci_low
    assert low == pytest.approx(stats.binomtest(20, 20).proportion_ci(0.95, method="exact").low)
