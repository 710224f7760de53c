"""Metrics of fine-tuned models: equal to scikit-learn, scipy, and examples worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import f1_score, matthews_corrcoef

from bertology.measures import (
    ANSWER_F1,
    ENTITY_F1,
    EXACT_MATCH,
    PEARSON,
    binary_f1,
    bootstrap,
    count_answers,
    count_correlation,
    count_entities,
    count_labels,
    find_metric,
)

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("n_labels", [2, 4])
def test_matthews_and_binary_f1_are_those_of_scikit_learn(n_labels: int) -> None:
    gold, pred = RANDOM.integers(0, n_labels, 200), RANDOM.integers(0, n_labels, 200)
    pred[:120] = gold[:120]
    counts = count_labels(gold, pred[None], np.arange(200), n_labels=n_labels, n_clusters=200).sum(axis=1)[0]
    labels = [str(number) for number in range(n_labels)]
    assert find_metric("matthews")(counts, labels) == pytest.approx(matthews_corrcoef(gold, pred))
    assert binary_f1("1")(counts, labels) == pytest.approx(f1_score(gold == 1, pred == 1))
    assert np.isnan(binary_f1("yes")(counts, labels))


def test_matthews_of_one_predicted_label_is_zero() -> None:
    counts = count_labels([0, 1, 1], [[1, 1, 1]], [0, 1, 2], n_labels=2, n_clusters=3).sum(axis=1)[0]
    assert find_metric("matthews")(counts) == matthews_corrcoef([0, 1, 1], [1, 1, 1]) == 0


def test_pearson_is_that_of_scipy_and_its_interval_holds_it() -> None:
    gold = RANDOM.normal(size=150) + 1000
    pred = gold + RANDOM.normal(size=150)
    counts = count_correlation(gold, pred, np.arange(150) // 3, n_clusters=50)
    found = bootstrap(counts, [PEARSON], n_resamples=500)["pearson"]
    assert found.values[0] == pytest.approx(pearsonr(gold, pred).statistic)
    assert found.ci_low[0] < found.values[0] < found.ci_high[0] <= 1


def test_entities_are_counted_as_conlleval_does() -> None:
    gold = ["O", "B-PER", "I-PER", "O", "B-LOC", "B-LOC", "O", "B-ORG"]
    pred = ["O", "B-PER", "I-PER", "O", "I-LOC", "I-LOC", "O", "I-PER"]
    # The two places run together into one, an I- of another type begins an entity, a sentence ends one.
    counts, types = count_entities(gold, pred, [0, 0, 0, 0, 0, 0, 1, 1], n_clusters=2)
    assert types == ("LOC", "ORG", "PER")
    assert counts[0, 0].tolist() == [[0, 1, 2], [0, 0, 0], [1, 0, 0]]
    assert counts[0, 1].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert ENTITY_F1(counts[0].sum(axis=0)) == pytest.approx(2 / (2 + 2 + 3))


def test_an_entity_ends_with_its_sentence() -> None:
    tags = ["B-PER", "I-PER"]
    assert count_entities(tags, tags, [0, 1], n_clusters=2)[0][0, :, 0, 0].tolist() == [1, 1]


def test_answers_are_compared_as_by_the_script_of_squad() -> None:
    gold = [["The Eiffel Tower", "Eiffel"], ["in 1990"], [], ["a cat"]]
    pred = ["eiffel tower!", "1990", "", ""]
    counts = count_answers(gold, pred, [0, 1, 2, 2], n_clusters=3)
    assert counts[0, :, 0].tolist() == [[1, 1, 1], [0, 2 / 3, 1], [1, 1, 2]]
    totals = counts.sum(axis=1)[0]
    assert EXACT_MATCH(totals) == 2 / 4
    assert ANSWER_F1(totals) == pytest.approx((1 + 2 / 3 + 1) / 4)
