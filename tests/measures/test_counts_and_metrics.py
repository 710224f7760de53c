"""Label counts and metrics, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from bertology.errors import NameNotFoundError
from bertology.measures import METRICS, count_labels, find_metric, label_scores

OF_LABELS = [metric for metric in METRICS.values() if metric.count_kind == "labels"]
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "never")


def made_up(seed=0, *, n_items=400, n_labels=4, n_layers=3, n_clusters=37):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, n_labels, n_items)
    pred = np.where(rng.random((n_layers, n_items)) < 0.7, gold, rng.integers(0, n_labels, (n_layers, n_items)))
    return gold, pred, rng.integers(0, n_clusters, n_items)


def test_counts_are_what_a_loop_counts():
    gold, pred, cluster = made_up(n_items=120)
    expected = np.zeros((3, 37, 4, 3), dtype=int)
    for layer in range(3):
        for g, p, c in zip(gold, pred[layer], cluster, strict=True):
            if g == p:
                expected[layer, c, g, 0] += 1
            else:
                expected[layer, c, p, 1] += 1
                expected[layer, c, g, 2] += 1
    counts = count_labels(gold, pred, cluster, n_labels=4, n_clusters=37)
    assert counts.dtype == np.int32
    np.testing.assert_array_equal(counts, expected)


def test_metrics_equal_scikit_learn():
    gold, pred, cluster = made_up(3)
    pred[0, gold == 2] = 1  # a label never found
    pred[1, :20] = 4  # a label that does not occur, yet is predicted
    totals = count_labels(gold, pred, cluster, n_labels=5, n_clusters=37).sum(axis=1)
    present = np.unique(gold)
    for layer in range(3):
        assert METRICS["accuracy"](totals)[layer] == pytest.approx(accuracy_score(gold, pred[layer]), abs=1e-12)
        macro = f1_score(gold, pred[layer], average="macro", labels=present, zero_division=0)
        assert METRICS["macro_f1"](totals)[layer] == pytest.approx(macro, abs=1e-12)
        micro = f1_score(gold, pred[layer], average="micro", labels=[1, 2, 3, 4], zero_division=0)
        assert METRICS["micro_f1"](totals, LABELS)[layer] == pytest.approx(micro, abs=1e-12)


def test_micro_f1_without_an_outside_label_is_accuracy():
    gold, pred, cluster = made_up(4)
    totals = count_labels(gold, pred, cluster, n_labels=4, n_clusters=37).sum(axis=1)
    np.testing.assert_allclose(METRICS["micro_f1"](totals, ("A", "B", "C", "D")), METRICS["accuracy"](totals))


def test_metrics_broadcast_over_leading_axes():
    gold, pred, cluster = made_up(5)
    counts = count_labels(gold, pred, cluster, n_labels=4, n_clusters=37)
    for metric in OF_LABELS:
        by_cluster = metric(counts, LABELS[:4])
        assert by_cluster.shape == (3, 37)
        assert by_cluster[1, 5] == pytest.approx(float(metric(counts[1, 5], LABELS[:4])), nan_ok=True)


def test_a_metric_of_nothing_is_undefined():
    nothing = np.zeros((2, 3), dtype=np.int32)
    assert all(np.isnan(metric(nothing)) for metric in OF_LABELS)


def test_a_label_training_never_saw_counts_as_missed():
    counts = count_labels([0, 2], [[0, 1]], [0, 0], n_labels=3, n_clusters=1)[0, 0]
    np.testing.assert_array_equal(counts, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert METRICS["accuracy"](counts) == 0.5
    assert METRICS["macro_f1"](counts) == 0.5


def test_label_scores_equal_scikit_learn():
    gold, pred, cluster = made_up(6)
    scores = label_scores(count_labels(gold, pred, cluster, n_labels=4, n_clusters=37).sum(axis=1))
    precision, recall, f1, support = precision_recall_fscore_support(gold, pred[1], labels=range(4))
    np.testing.assert_allclose(scores.precision[1], precision)
    np.testing.assert_allclose(scores.recall[1], recall)
    np.testing.assert_allclose(scores.f1[1], f1)
    np.testing.assert_array_equal(scores.support[1], support)
    np.testing.assert_array_equal(scores.predicted[1], np.bincount(pred[1], minlength=4))


def test_an_unknown_metric_is_answered_with_the_nearest():
    with pytest.raises(NameNotFoundError, match="did you mean macro_f1"):
        find_metric("macro-f1")


@pytest.mark.parametrize(
    ("gold", "pred", "cluster", "message"),
    [
        ([0, 1], [[0]], [0, 0], "shapes do not fit"),
        ([0, 3], [[0, 1]], [0, 0], "gold has numbers outside 0…2"),
        ([0, 1], [[0, -1]], [0, 0], "pred has numbers outside 0…2"),
        ([0, 1], [[0, 1]], [0, 2], "cluster has numbers outside 0…1"),
    ],
)
def test_impossible_input_is_refused(gold, pred, cluster, message):
    with pytest.raises(ValueError, match=message):
        count_labels(gold, pred, cluster, n_labels=3, n_clusters=2)
