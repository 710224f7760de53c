"""Scores of cloze probes against counting by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bertology.measures import (
    Grouped,
    bootstrap,
    find_metric,
    mean_over_groups,
)


def of_groups(group: list[int], cluster: list[int] | None = None) -> Grouped:
    cluster = list(range(len(group))) if cluster is None else cluster
    return Grouped(np.array(cluster), np.array(group), max(cluster) + 1, max(group) + 1)


def score(name: str, counts: np.ndarray) -> float:
    return float(find_metric(name)(counts.sum(axis=1))[0])


def test_places_of_answers_by_group_and_over_all() -> None:
    ranks = np.array([[1, 3, 7, 1, 0, 101]])
    counts = of_groups([0, 0, 0, 1, 1, 2]).count_answers(ranks)
    assert score("p_at_1", counts) == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert score("p_at_5", counts) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert score("p_at_10", counts) == pytest.approx((1 + 1 + 0) / 3)
    assert score("p_at_100", counts) == pytest.approx((1 + 1 + 0) / 3)
    assert score("micro_p_at_1", counts) == pytest.approx(2 / 5)
    assert score("mrr", counts) == pytest.approx(((1 + 1 / 3 + 1 / 7) / 3 + 1 + 1 / 101) / 3)
    assert score("micro_mrr", counts) == pytest.approx((1 + 1 / 3 + 1 / 7 + 1 + 1 / 101) / 5)


def test_a_group_without_a_scored_item_is_no_zero() -> None:
    counts = of_groups([0, 1]).count_answers(np.array([[1, 0]]))
    assert score("p_at_1", counts) == 1.0


def test_ties_and_what_was_not_scored_are_no_choices() -> None:
    scores, rivals = np.log([[0.5, 0.2, 0.3, 0.105]]), np.log([[0.1, 0.4, 0.3, 0.1]])
    scores[0, 1] = np.nan
    counts = of_groups([0, 0, 0, 1]).count_choices(scores, rivals)
    assert score("choice_accuracy", counts) == 1.0
    assert score("micro_choice_accuracy", counts) == 1.0
    # of the first group two were scored, one of them by a clear lead; half a per cent is no clear lead
    assert score("sensitivity", counts) == pytest.approx((1 / 2 + 0) / 2)
    wrong = of_groups([0, 0, 0, 1]).count_choices(rivals, scores)
    assert score("choice_accuracy", wrong) == 0.0


def test_what_a_change_moves() -> None:
    ranks = np.array([[1, 2, 0, 9]])
    before, after = np.log([[0.5, 0.6, 0.9, 0.4]]), np.log([[0.4, 0.1, 0.9, 0.2]])
    counts = of_groups([0, 0, 0, 1]).count_changes(ranks, after, before)
    assert score("moved", counts) == pytest.approx((1 / 2 + 1) / 2)
    assert score("probability_lost", counts) == pytest.approx(((0.1 + 0.5) / 2 + 0.2) / 2)


def test_agreement_within_clusters_equals_counting_pairs() -> None:
    random = np.random.default_rng(0)
    cluster, group = random.integers(0, 6, 40), np.zeros(40, dtype=int)
    pred, ranks = random.integers(0, 3, (2, 40)), random.integers(0, 3, (2, 40))
    counts = Grouped(cluster, group, 6, 1).count_agreement(pred, ranks)
    for cell in range(2):
        pairs = [
            (a, b) for a, b in itertools.combinations(np.flatnonzero(ranks[cell] > 0), 2) if cluster[a] == cluster[b]
        ]
        alike = sum(pred[cell, a] == pred[cell, b] for a, b in pairs)
        assert counts[cell, :, 0, 0].sum() == len(pairs)
        assert counts[cell, :, 0, 1].sum() == alike
        right = [set(ranks[cell, (cluster == c) & (ranks[cell] > 0)]) == {1} for c in range(6)]
        assert counts[cell, :, 0, 3].tolist() == right
    summed = counts.sum(axis=1)
    assert find_metric("consistency")(summed)[0] == pytest.approx(summed[0, 0, 1] / summed[0, 0, 0])


def test_intervals_narrow_where_items_are_their_own_clusters() -> None:
    right = np.tile([1, 2], 200)[None]
    alone = bootstrap(of_groups([0] * 400).count_answers(right), ["p_at_1"])["p_at_1"]
    together = bootstrap(
        of_groups([0] * 400, np.repeat(np.arange(8), 50).tolist()).count_answers(np.sort(right)), ["p_at_1"]
    )
    assert alone.values[0] == together["p_at_1"].values[0] == 0.5
    assert alone.stderr[0] == pytest.approx(0.025, rel=0.1)
    assert together["p_at_1"].stderr[0] > 5 * alone.stderr[0]


def test_a_mean_over_some_groups() -> None:
    counts = of_groups([0, 0, 1, 1, 2, 2]).count_answers(np.array([[1, 2, 1, 2, 2, 1]])).sum(axis=1)
    some = mean_over_groups("some", "of a", of=find_metric("p_at_1"), which=lambda name: name.startswith("a"))
    counts[0, 1, 1] = 2
    assert some(counts, ("a1", "a2", "b")) == pytest.approx([(1 / 2 + 1) / 2])
    assert np.isnan(some(counts, ("c", "d", "e"))).all()
