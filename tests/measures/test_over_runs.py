"""Intervals of a mean over runs: they cover other runs and other sentences."""

from __future__ import annotations

import numpy as np
import pytest

from bertology.measures import bootstrap, bootstrap_ratio, compare, count_labels, over_runs
from bertology.measures._comparisons import difference

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


def test_one_run_is_as_it_is() -> None:
    (only,) = measured(simulated(np.random.default_rng(0), 1, run_sd=0))
    assert over_runs([only]) is only
    assert only.by_run is None


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


@pytest.mark.parametrize(("n_runs", "run_sd"), [(2, 0.01), (3, 0.005), (3, 0.03), (5, 0.03)])
def test_coverage(n_runs: int, run_sd: float) -> None:
    """The truth, which has neither these runs nor these sentences, lies in about 95 % of the intervals.

    Intervals over sentences alone miss it: with three runs that differ by 3 points they hold it in half of the cases.
    """
    rng = np.random.default_rng(7)
    inside = np.zeros((200, 2), dtype=bool)
    for row in inside:
        runs = measured(simulated(rng, n_runs, run_sd=run_sd), n_resamples=400)
        for place, found in enumerate((over_runs(runs), runs[0])):
            row[place] = found.ci_low[0] <= 0.7 <= found.ci_high[0]
    assert 0.91 <= inside[:, 0].mean() <= 0.995
    if run_sd == 0.03:
        assert inside[:, 1].mean() < 0.75


def test_layers_are_drawn_together() -> None:
    """Layers that differ by the same amount in all runs and sentences are told apart, however much runs differ."""
    rng = np.random.default_rng(3)
    lower = np.minimum(simulated(rng, 4, run_sd=0.08), SIZE - 1)
    right = np.concatenate([lower, lower + 1], axis=1)
    right[..., :3] = lower[..., :3]  # a difference without any spread has no standard error
    found = over_runs(measured(right))
    assert found.stderr[0] > 0.02
    (pair,) = compare(found.values, found.replicates, n_clusters=found.n_clusters, by_run=found.by_run)
    assert pair.ci_high < 0
    assert pair.p_adj < 1e-4
    assert pair.ci_high - pair.ci_low < 0.01


def test_a_difference_of_two_runs_is_no_certain_one() -> None:
    """Two layers whose order is the other way round in the other run, each sharply measured."""
    rng = np.random.default_rng(4)
    rate = np.array([[0.60, 0.70], [0.68, 0.62]])[:, :, None]
    right = rng.binomial(SIZE, np.broadcast_to(rate, (2, 2, 400)))
    runs = measured(right)
    found = over_runs(runs)
    (pair,) = compare(found.values, found.replicates, n_clusters=400, by_run=found.by_run)
    assert pair.p_raw > 0.3
    (alone,) = compare(runs[0].values, runs[0].replicates, n_clusters=400)
    assert alone.p_raw < 1e-6


def test_differences_are_taken_run_by_run() -> None:
    right = simulated(np.random.default_rng(5), 3, run_sd=0.1, layers=1)
    task, control = measured(right), measured(np.maximum(right - 2, 0))
    each = [difference(a, b, metric="selectivity") for a, b in zip(task, control, strict=True)]
    found = over_runs(each)
    # Both sides move together from run to run.
    assert found.stderr[0] < 0.2 * over_runs(task).stderr[0]


def test_bounds_stay_in_what_a_metric_can_be() -> None:
    runs = measured(np.array([[[SIZE] * 40], [[SIZE] * 39 + [SIZE - 4]]]))
    found = over_runs(runs)
    assert found.ci_low[0] < found.values[0] < found.ci_high[0] <= 1
    all_right = over_runs(measured(np.full((3, 1, 40), SIZE)))
    assert all_right.ci_methods == ("exact-over-clusters",)
    bits = [bootstrap_ratio(np.full(40, 12.0) + run, np.ones(40), metric="compression") for run in (0.0, 1.0)]
    assert over_runs(bits).ci_high[0] > 13


def test_a_share_of_runs_far_apart_is_not_below_zero() -> None:
    right = np.random.default_rng(5).binomial(SIZE, np.array([0.02, 0.05, 0.75])[:, None, None], (3, 1, 60))
    found = over_runs(measured(right))
    assert found.ci_low[0] == 0.0
    assert found.ci_high[0] <= 1.0


def test_runs_over_other_sentences_are_refused() -> None:
    rng = np.random.default_rng(6)
    runs = [
        *measured(simulated(rng, 1, run_sd=0)),
        *measured(simulated(rng, 1, run_sd=0, n_clusters=20)),
    ]
    with pytest.raises(ValueError, match="same resamples"):
        over_runs(runs)


def test_counts_of_labels_have_the_same_replicates_for_all_runs() -> None:
    """Two runs that are alike give the interval of one of them."""
    rng = np.random.default_rng(8)
    gold, cluster = rng.integers(0, 4, 600), np.repeat(np.arange(60), 10)
    pred = np.where(rng.random((1, 600)) < 0.8, gold, 0)
    counts = count_labels(gold, pred, cluster, n_labels=4, n_clusters=60)
    runs = [bootstrap(counts, ["macro_f1"])["macro_f1"] for _ in range(2)]
    found = over_runs(runs)
    assert found.ci_low[0] == pytest.approx(runs[0].ci_low[0], rel=1e-4)
    assert found.ci_high[0] == pytest.approx(runs[0].ci_high[0], rel=1e-4)
