"""Scores by label and confusions, against scikit-learn."""

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from bertology.errors import ResultsError
from bertology.results import Predictions
from bertology.results._items import confusion, per_label_scores


def some(n_items=500):
    rng = np.random.default_rng(0)
    gold = rng.choice(4, n_items, p=[0.1, 0.5, 0.3, 0.1])
    pred = np.where(rng.random(n_items) < 0.6, gold, rng.integers(0, 5, n_items))
    return Predictions(
        item_ids=[str(i) for i in range(n_items)],
        cluster=np.zeros(n_items, dtype=int),
        cluster_ids=["s"],
        gold=gold,
        pred=pred,
        score=np.zeros(n_items),
        labels=("DET", "NOUN", "VERB", "ADJ", "X", "never"),
    )


def test_per_label_scores_equal_scikit_learn():
    kept = some()
    frame = per_label_scores(kept)
    names = np.array(kept.labels)
    precision, recall, f1, support = precision_recall_fscore_support(
        names[kept.gold], names[kept.pred], labels=frame.index, zero_division=np.nan
    )
    np.testing.assert_allclose(frame["precision"], precision)
    np.testing.assert_allclose(frame["recall"], recall)
    np.testing.assert_allclose(frame["f1"], np.where(support > 0, f1, 0))
    np.testing.assert_array_equal(frame["support"], support)
    assert frame["support"].is_monotonic_decreasing
    assert "never" not in frame.index
    assert frame.loc["X", "support"] == 0 < frame.loc["X", "predicted"]


def test_confusion_equals_scikit_learn():
    kept = some()
    frame = confusion(kept)
    names = np.array(kept.labels)
    np.testing.assert_array_equal(frame, confusion_matrix(names[kept.gold], names[kept.pred], labels=list(frame.index)))
    assert list(frame.index) == list(frame.columns)
    assert (frame.index.name, frame.columns.name) == ("gold", "pred")


def test_results_find_the_predictions_of_a_layer(two_tasks):
    expected = per_label_scores(two_tasks.kept["ner-0-4"])
    assert two_tasks.per_label("ner", 4).equals(expected)
    other = two_tasks.per_label("ner", 4, seed=1)
    assert other.equals(per_label_scores(two_tasks.kept["ner-1-4"]))
    assert not other.equals(expected)
    assert two_tasks.confusion("pos", 0).equals(confusion(two_tasks.kept["pos-0-0"]))


def test_missing_predictions_are_one_line(pos):
    with pytest.raises(ResultsError, match="no predictions kept of cell pos-0-2"):
        dataclasses.replace(pos, kept={}).per_label("pos", 2)
    with pytest.raises(ResultsError, match="no results with task 'pos', layer 9"):
        pos.per_label("pos", 9)
