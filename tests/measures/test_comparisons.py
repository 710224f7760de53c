"""Comparisons of scores, and scores over layers and steps."""

import numpy as np
import pytest
from scipy import stats

from bertology.measures import bootstrap, compare, count_labels
from bertology.measures.intervals import before, best_set, expected_layer, mean_over_steps, step_reached


def measured(correct, cluster, **options):
    """A bootstrap of accuracy of ``correct [layer, item]``."""
    n_clusters = int(np.max(cluster)) + 1
    gold = np.zeros(len(cluster), dtype=int)
    counts = count_labels(gold, np.where(correct, 0, 1), cluster, n_labels=2, n_clusters=n_clusters)
    return bootstrap(counts, ["accuracy"], **options)["accuracy"]


def compared(run, **options):
    return compare(run.values, run.replicates, n_clusters=run.n_clusters, **options)


def test_p_values_equal_a_paired_t_test_where_every_cluster_is_one_item():
    rng = np.random.default_rng(1)
    correct = rng.random((3, 300)) < np.array([[0.9], [0.84], [0.7]])
    run = measured(correct, np.arange(300), n_resamples=4000)
    for comparison in compared(run):
        test = stats.ttest_rel(correct[comparison.a].astype(float), correct[comparison.b].astype(float))
        assert comparison.diff == pytest.approx(correct[comparison.a].mean() - correct[comparison.b].mean())
        assert np.log(comparison.p_raw) == pytest.approx(np.log(test.pvalue), rel=0.15)
        interval = test.confidence_interval(0.95)
        assert (comparison.ci_low, comparison.ci_high) == pytest.approx((interval.low, interval.high), abs=0.004)
        assert comparison.n_pairs == 300


def test_identical_predictions_do_not_differ():
    rng = np.random.default_rng(3)
    one = rng.random(300) < 0.8
    comparison = compared(measured(np.array([one, one]), np.arange(300) // 3))[0]
    assert (comparison.diff, comparison.p_raw, comparison.p_adj) == (0, 1, 1)
    assert (comparison.ci_low, comparison.ci_high) == (0, 0)


def test_a_constant_difference_is_a_sign_flip_test():
    """Every sentence goes the same way: one of 2^n sign patterns, two-sided."""
    correct = np.array([[True] * 6, [False] * 6])
    assert compared(measured(correct, np.arange(6)))[0].p_raw == 2**-5
    assert compared(measured(correct, np.zeros(6, dtype=int)))[0].p_raw == 1


def test_discoveries_keep_the_false_discovery_rate():
    """Three layers at 80 %, three at 88 %: few of the pairs told apart are pairs of equals."""
    rng = np.random.default_rng(5)
    cluster = np.arange(150 * 5) // 5
    rates = np.array([0.8, 0.8, 0.8, 0.88, 0.88, 0.88])
    correct = rng.random((150, 6, 750)) < rates[:, None]
    run = measured(correct.reshape(-1, 750), cluster, n_resamples=400)
    shares, power = [], []
    for family in range(150):
        layers = slice(6 * family, 6 * family + 6)
        told = [c for c in compare(run.values[layers], run.replicates[:, layers], n_clusters=150) if c.p_adj < 0.05]
        false = sum(rates[c.a] == rates[c.b] for c in told)
        shares.append(false / max(1, len(told)))
        power.append((len(told) - false) / 9)
    assert np.mean(shares) < 0.06
    assert np.mean(power) > 0.8


def pairs_of(run):
    return [(one.a, one.b, one.p_adj) for one in compared(run)]


def test_best_set_holds_the_truly_best_and_leaves_out_the_clearly_worse():
    rng = np.random.default_rng(6)
    correct = rng.random((4, 6000)) < np.array([[0.80], [0.93], [0.93], [0.90]])
    run = measured(correct, np.arange(6000) // 10)
    np.testing.assert_array_equal(best_set(run.values, pairs_of(run)), [False, True, True, False])


def test_best_set_by_hand():
    rng = np.random.default_rng(7)
    run = measured(rng.random((3, 4000)) < np.array([[0.7], [0.9], [0.2]]), np.arange(4000))
    assert best_set(run.values, pairs_of(run), higher_is_better=False).tolist() == [False, False, True]
    assert best_set(run.values, []).tolist() == [True, True, True]
    assert best_set([0.5, np.nan], []).tolist() == [True, False]
    assert best_set([np.nan], []).tolist() == [False]


def test_an_undefined_value_is_never_told_apart():
    replicates = np.random.default_rng(8).normal(size=(100, 2))
    replicates[:, 1] = np.nan
    comparison = compare([0.1, np.nan], replicates, n_clusters=10)[0]
    assert np.isnan(comparison.diff)
    assert comparison.p_raw == comparison.p_adj == 1


def test_expected_layer_by_hand() -> None:
    scores = [0.5, 0.7, 0.8, 0.8]
    assert expected_layer(scores, [0, 1, 2, 3]) == pytest.approx((1 * 0.2 + 2 * 0.1) / 0.3)
    assert expected_layer(scores, [0, 2, 4, 6]) == pytest.approx((2 * 0.2 + 4 * 0.1) / 0.3)


@pytest.mark.parametrize("scores", [[0.9, 0.9, 0.9], [0.9, 0.95, 0.902], [0.9, 0.5, 0.6]])
def test_no_layer_is_expected_where_nothing_is_gained(scores: list[float]) -> None:
    assert np.isnan(expected_layer(scores, [0, 1, 2]))


STEPS = [0, 10, 100, 1000]


def test_first_checkpoint_with_a_share_of_the_gain() -> None:
    scores = [[0.2, 0.3, 0.9, 1.0], [0.2, 0.95, 0.5, 1.0], [0.5, 0.7, 0.9, 0.5]]
    assert step_reached(scores, STEPS, 0.8).tolist() == [100, 10, 1000]
    assert step_reached(scores, STEPS, 0.9).tolist() == [1000, 10, 1000]


def test_mean_is_the_area_by_the_trapezoid_rule() -> None:
    scores = np.random.default_rng(0).random((5, 4))
    np.testing.assert_allclose(mean_over_steps(scores, STEPS), np.trapezoid(scores, STEPS, axis=-1) / 1000)
    assert mean_over_steps([0.7, 0.7, 0.7, 0.7], STEPS) == pytest.approx(0.7)


def test_order_counts_what_is_reached_together_apart() -> None:
    assert before([10, 10, 100, 1000], [100, 10, 10, 1000]) == (0.25, 0.5)


def test_mistakes_over_steps() -> None:
    with pytest.raises(ValueError, match="two or more rising steps"):
        mean_over_steps([0.1, 0.2], [5, 5])
    with pytest.raises(ValueError, match=r"share is 1\.5"):
        step_reached([0.1, 0.2], [0, 5], 1.5)


def test_pairs_are_all_pairs_in_order_and_one_family():
    rng = np.random.default_rng(2)
    run = measured(rng.random((4, 200)) < 0.8, np.arange(200) // 4)
    comparisons = compared(run)
    assert [(c.a, c.b) for c in comparisons] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    raw = [c.p_raw for c in comparisons]
    np.testing.assert_allclose([c.p_adj for c in comparisons], stats.false_discovery_control(raw))
    assert [(c.a, c.b) for c in compared(run, pairs=[(3, 0)])] == [(3, 0)]
    assert compared(run, pairs=[]) == []
