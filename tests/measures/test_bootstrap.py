"""Bootstraps over clusters, runs and seeds, against scipy and simulations."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import binomtest

from bertology.measures import bootstrap, bootstrap_ratio, count_labels, multibootstrap, over_runs, sum_metric
from bertology.measures.baselines import fraction_mask
from bertology.measures.intervals import (
    Bootstrap,
    difference,
    drawn_deviations,
    intervals_over_clusters,
    quantiles,
    ratio_intervals,
    selectivity,
    weight_blocks,
)


def counts_of(correct, cluster, n_clusters):
    """Counts of a two-label task in which every item has label 0: ``correct [layer, item]``."""
    pred = np.where(correct, 0, 1)
    return count_labels(np.zeros(len(cluster), dtype=int), pred, cluster, n_labels=2, n_clusters=n_clusters)


def clustered(rng, n_layers, n_clusters, *, rho=3.0, mean=0.9, size=8):
    """Items right with a probability of their cluster's own: ``correct [layer, item]``, ``cluster [item]``."""
    cluster = np.repeat(np.arange(n_clusters), rng.poisson(size, n_clusters) + 1)
    rate = rng.beta(mean * rho, (1 - mean) * rho, size=(n_layers, n_clusters))
    return rng.random((n_layers, len(cluster))) < rate[:, cluster], cluster


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


@pytest.mark.parametrize("n", [2, 7, 2000])
def test_quantiles_of_rows_are_those_of_numpy(n: int) -> None:
    random = np.random.default_rng(n)
    rows, shares = random.normal(size=(40, n)).round(1), random.random((40, 2))  # many are equal
    shares[:2] = (0, 1), (1, 1)
    alone = [np.quantile(row, of_row) for row, of_row in zip(rows, shares, strict=True)]
    np.testing.assert_array_equal(quantiles(rows, shares), alone)


def test_columns_with_undefined_resamples_change_no_other() -> None:
    """Those of a rare label, of which some resamples have none, are summarised beside others of which all do."""
    counts = np.random.default_rng(4).integers(1, 5, (3, 40, 1, 3))
    counts[..., 0] = np.minimum(counts[..., 0], counts[..., 1:].min(axis=-1))
    counts[1, 2:] = 0
    together = bootstrap(counts, ["macro_f1"])["macro_f1"]
    assert np.isnan(together.replicates[:, 1]).any()
    assert np.isfinite(together.replicates[:, [0, 2]]).all()
    for layer in range(3):
        alone = bootstrap(counts[[layer]], ["macro_f1"])["macro_f1"]
        for name in ("values", "stderr", "ci_low", "ci_high", "ci_methods"):
            np.testing.assert_array_equal(getattr(together, name)[layer], getattr(alone, name)[0])


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


def test_a_loss_of_exactly_nothing_is_certain_and_a_share_of_nothing_is_not() -> None:
    zeros, ones = np.zeros((2, 30)), np.ones((2, 30))
    found = ratio_intervals(zeros, ones, are_shares=[True, False], n_resamples=100)
    assert found.values.tolist() == found.ci_low.tolist() == [0, 0]
    assert found.ci_high.tolist() == [pytest.approx(1 - 0.025 ** (1 / 30)), 0]


@pytest.mark.parametrize("scale", [1.0, 0.1, 1e6])
def test_replicates_of_ratios_are_ratios_of_resampled_sums(scale: float) -> None:
    """Sums of counts are exact."""
    random = np.random.default_rng(4)
    above, below = random.integers(0, 40, size=(3, 50)) * scale, random.integers(1, 90, size=(1, 50)) * scale
    found = bootstrap_ratio(above, below, metric="ratio", n_resamples=300, seed=0)
    weights = np.concatenate([block for _, block in weight_blocks(50, 300, 0, np.float64)])
    expected = np.einsum("rc,kc->rk", weights, above) / (weights @ below[0])[:, None]
    np.testing.assert_allclose(found.replicates, expected, rtol=0 if scale == 1 else 1e-13)


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


SIZE = 12


def measured(right: np.ndarray, *, n_resamples: int = 1000, seed: int = 0):
    """The bootstrap of each run: ``right [run, layer, cluster]`` of ``SIZE`` items."""
    counts = np.zeros((*right.shape, 1, 3), dtype=np.int32)
    counts[..., 0, 0], counts[..., 0, 2] = right, SIZE - right
    return [bootstrap(of_run, ["accuracy"], n_resamples=n_resamples, seed=seed)["accuracy"] for of_run in counts]


def simulated(rng: np.random.Generator, n_runs: int, *, run_sd: float, n_clusters: int = 150, layers: int = 1):
    """Right items ``[run, layer, cluster]`` where runs and clusters differ; layers share both."""
    of_cluster = rng.normal(0, 0.12, n_clusters)
    of_run = rng.normal(0, run_sd, (n_runs, 1, 1))
    rate = np.clip(0.7 + of_cluster + of_run + np.zeros((1, layers, 1)), 0, 1)
    return rng.binomial(SIZE, rate)


def test_values_and_errors_of_both_sources() -> None:
    """The variance is that of runs over their number and that of sentences, which are common to all runs."""
    right = simulated(np.random.default_rng(1), 8, run_sd=0.03)
    runs = measured(right, n_resamples=8000)
    found = over_runs(runs)
    values = right.sum(axis=2) / (SIZE * right.shape[2])
    assert found.values == pytest.approx(values.mean(axis=0))
    by_cluster = right.mean(axis=0)[0] / SIZE
    of_clusters, of_runs = by_cluster.var(ddof=1) / len(by_cluster), values[:, 0].var(ddof=1) / 8
    assert found.stderr[0] ** 2 == pytest.approx(of_clusters + of_runs, rel=0.08)
    assert found.by_run is not None
    assert found.by_run == pytest.approx(values)
    assert found.ci_methods == ("run-by-cluster-bootstrap-bca-8000",)


def test_coverage() -> None:
    """The truth, which has neither these runs nor these sentences, lies in about 95 % of the intervals.

    Intervals over sentences alone miss it: with three runs that differ by 3 points they hold it in half of the cases.
    """
    rng = np.random.default_rng(7)
    inside = np.zeros((200, 2), dtype=bool)
    for row in inside:
        runs = measured(simulated(rng, 3, run_sd=0.03), n_resamples=400)
        for place, found in enumerate((over_runs(runs), runs[0])):
            row[place] = found.ci_low[0] <= 0.7 <= found.ci_high[0]
    assert 0.91 <= inside[:, 0].mean() <= 0.995
    assert inside[:, 1].mean() < 0.75


def test_bounds_stay_in_what_a_metric_can_be() -> None:
    runs = measured(np.array([[[SIZE] * 40], [[SIZE] * 39 + [SIZE - 4]]]))
    found = over_runs(runs)
    assert found.ci_low[0] < found.values[0] < found.ci_high[0] <= 1
    all_right = over_runs(measured(np.full((3, 1, 40), SIZE)))
    assert all_right.ci_methods == ("exact-over-clusters",)
    bits = [bootstrap_ratio(np.full(40, 12.0) + run, np.ones(40), metric="compression") for run in (0.0, 1.0)]
    assert over_runs(bits).ci_high[0] > 13


DICE = np.random.default_rng(5)


def labelled(n_clusters: int, correct: NDArray[np.floating]) -> NDArray[np.int64]:
    """Counts ``[column, cluster, label, kind]`` of clusters of different sizes, right with these probabilities."""
    sizes = 1 + np.arange(n_clusters) % 3
    right = DICE.binomial(sizes, np.broadcast_to(correct, (1, n_clusters)))
    counts = np.zeros((1, n_clusters, 2, 3), dtype=np.int64)
    counts[0, :, 0] = np.stack([right[0], sizes - right[0], sizes - right[0]], axis=-1)
    counts[0, :, 1, 0] = sizes // 2  # a second label, always right, so that F1 is not accuracy
    return counts


def run(counts: NDArray[np.int64], metric: str = "micro_f1", **settings: int) -> Bootstrap:
    return bootstrap(counts, [metric], labels=("a", "b"), **{"n_resamples": 300, **settings})[metric]


@pytest.mark.parametrize("design", ["one sample", "paired", "unpaired"])
def test_equals_a_loop_over_replicates(design: str) -> None:
    """Each replicate scores the drawn items of the drawn seeds anew, as a person would write it down."""
    n_clusters, metric = 12, "macro_f1"
    sides = [[[labelled(n_clusters, np.array(p)) for _ in range(2)] for p in (0.4, 0.6, 0.9)] for _ in range(2)]
    seeds, other = ([[run(counts, metric) for counts in of_seed] for of_seed in side] for side in sides)
    is_paired, chosen = design == "paired", None if design == "one sample" else other
    found = multibootstrap(seeds, chosen, is_paired=is_paired, null=0.5)

    def f1(counts: NDArray[np.int64], items: NDArray[np.floating]) -> float:
        tp, fp, fn = (counts[0] * items[:, None, None]).sum(axis=0).T
        return float(np.mean(2 * tp / (2 * tp + fp + fn)))

    weights = np.concatenate([block for _, block in weight_blocks(n_clusters, 300, 0, np.float64)])
    drawn = [drawn_deviations(3, 300, (0, 3, number), rescaled=False) + 1 / 3 for number in (0, 0 if is_paired else 1)]
    assert set(np.unique(drawn[0] * 3).round(9)) <= {0, 1, 2, 3}
    expected = []
    for b in range(300):
        means = [
            sum(
                share * np.mean([f1(counts, weights[b]) for counts in of_seed])
                for share, of_seed in zip(at[b], side, strict=True)
            )
            for at, side in zip(drawn, sides, strict=True)
        ]
        expected.append(means[0] - (0 if chosen is None else means[1]))
    np.testing.assert_allclose(found.replicates[:, 0], expected, atol=1e-6)
    assert found.p[0] == pytest.approx(max(np.mean(np.array(expected) <= 0.5), 1 / 300))
    np.testing.assert_allclose([found.ci_low[0], found.ci_high[0]], np.quantile(expected, [0.025, 0.975]), atol=1e-6)


def scores(n_seeds: int, n_items: int, spread: tuple[float, float, float]) -> NDArray[np.float64]:
    """``[seed, item]`` scores with these standard deviations of seeds, of items and of both."""
    of_seed, of_item, of_both = (
        sd * DICE.standard_normal(size)
        for sd, size in zip(spread, ((n_seeds, 1), (1, n_items), (n_seeds, n_items)), strict=True)
    )
    return np.asarray(of_seed + of_item + of_both)


def of_scores(values: NDArray[np.float64]) -> list[Bootstrap]:
    """Means of numbers, as bootstraps of a ratio of sums."""
    counts = np.stack([values, np.ones_like(values), np.zeros_like(values)], axis=-1)[:, :, None]
    every = bootstrap(counts, [sum_metric("mean_words", "a mean")], n_resamples=400)["mean_words"]
    columns = range(len(values))
    return [_column(every, place) for place in columns]


def _column(every: Bootstrap, place: int) -> Bootstrap:
    return replace(
        every,
        values=every.values[[place]],
        replicates=every.replicates[:, [place]],
        jackknife=every.jackknife[:, [place]],
    )


def test_variance_parts_are_those_that_were_planted() -> None:
    parts = multibootstrap(of_scores(scores(60, 400, (0.1, 1.0, 2.0)))).variance
    assert parts.seeds.item() * 60 == pytest.approx(0.1**2, rel=0.9)
    assert parts.clusters.item() * 400 == pytest.approx(1.0, rel=0.25)
    assert parts.interaction.item() * 400 * 60 == pytest.approx(4.0, rel=0.05)
    alone = multibootstrap(of_scores(scores(1, 50, (0.1, 1.0, 0.0)))).variance
    assert np.isnan(alone.seeds).all()
    assert np.isfinite(alone.clusters).all()


def test_mistakes() -> None:
    runs = [run(labelled(10, np.array(0.5))) for _ in range(2)]
    with pytest.raises(ValueError, match="same seeds of both"):
        multibootstrap(runs, runs[:1])
    with pytest.raises(ValueError, match="same resamples"):
        multibootstrap([*runs, run(labelled(10, np.array(0.5)), n_resamples=200)])
    with pytest.raises(ValueError, match="nothing to average"):
        multibootstrap([])


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


def test_intervals_cover_new_seeds_and_items_where_those_over_items_do_not() -> None:
    """20 seeds × 60 items of which seeds cause most of the variance: the true mean is 0."""
    hits, hits_of_items, n = 0, 0, 250
    for _ in range(n):
        values = scores(20, 60, (0.6, 1.0, 1.0))
        runs = of_scores(values)
        found = multibootstrap(runs, rescaled=True)
        hits += bool(found.ci_low[0] <= 0 <= found.ci_high[0])
        over_items = np.mean([one.replicates[:, 0] for one in runs], axis=0)
        low, high = np.quantile(over_items, [0.025, 0.975])
        hits_of_items += bool(low <= 0 <= high)
    assert 0.92 <= hits / n <= 0.98
    assert hits_of_items / n < 0.85
