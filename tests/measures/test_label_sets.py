"""Items with any number of labels, metrics of groups of labels, and their baselines, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from bertology.measures import (
    bootstrap,
    count_labels,
    grouped_macro_f1,
    label_scores,
    majority,
    micro_f1,
    word_majority,
)

N_ITEMS, N_LABELS = 300, 5


@pytest.fixture
def drawn():
    rng = np.random.default_rng(4)
    gold = rng.random((N_ITEMS, N_LABELS)) < [0.5, 0.3, 0.1, 0.7, 0.02]
    pred = np.stack([gold ^ (rng.random(gold.shape) < share) for share in (0.1, 0.3)])
    return gold, pred, rng.integers(0, 20, N_ITEMS)


def as_sets(gold, pred):
    members, codes = np.unique(np.concatenate([gold, *pred]), axis=0, return_inverse=True)
    codes = codes.reshape(3, -1)
    return members, codes[0], codes[1:]


def test_counts_of_sets_are_those_of_each_label_as_a_yes_or_no(drawn):
    gold, pred, cluster = drawn
    members, gold_sets, pred_sets = as_sets(gold, pred)
    counts = count_labels(gold_sets, pred_sets, cluster, members=members, n_labels=members.shape[1], n_clusters=20)
    for layer in range(2):
        for label in range(N_LABELS):
            yes_no = count_labels(
                gold[:, label].astype(int), pred[layer, :, label].astype(int)[None], cluster, n_labels=2, n_clusters=20
            )
            np.testing.assert_array_equal(counts[layer, :, label], yes_no[0, :, 1])


def test_micro_f1_of_sets_equals_scikit_learn(drawn):
    gold, pred, cluster = drawn
    members, gold_sets, pred_sets = as_sets(gold, pred)
    counts = count_labels(gold_sets, pred_sets, cluster, members=members, n_labels=members.shape[1], n_clusters=20)
    found = bootstrap(counts, ["micro_f1", "macro_f1"], labels=tuple("abcde"), n_resamples=50)
    for layer in range(2):
        assert found["micro_f1"].values[layer] == pytest.approx(f1_score(gold, pred[layer], average="micro"))
        assert found["macro_f1"].values[layer] == pytest.approx(f1_score(gold, pred[layer], average="macro"))
    each = label_scores(counts[0].sum(axis=0))
    np.testing.assert_allclose(each.f1, f1_score(gold, pred[0], average=None))


def test_sets_out_of_range_are_refused(drawn):
    gold, pred, cluster = drawn
    members, gold_sets, pred_sets = as_sets(gold, pred)
    with pytest.raises(ValueError, match="gold has numbers outside"):
        count_labels(
            gold_sets + len(members), pred_sets, cluster, members=members, n_labels=members.shape[1], n_clusters=20
        )
    with pytest.raises(ValueError, match="shapes do not fit"):
        count_labels(gold_sets[:-1], pred_sets, cluster, members=members, n_labels=members.shape[1], n_clusters=20)


def test_a_label_left_out_of_micro_f1_earns_nothing():
    gold, pred = np.array([0, 0, 0, 1, 1, 0]), np.array([[0, 0, 1, 1, 0, 0]])
    counts = count_labels(gold, pred, np.zeros(6, dtype=int), n_labels=2, n_clusters=1)[:, 0]
    metric = micro_f1(without=("0",))
    assert metric.name == "micro_f1"
    assert metric(counts, ("0", "1"))[0] == pytest.approx(f1_score(gold, pred[0], pos_label=1))


def test_directions_of_a_relation_are_scored_together_but_must_be_right():
    names = ("A(e1,e2)", "A(e2,e1)", "B(e1,e2)", "Other")
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 4, 200)
    pred = np.where(rng.random(200) < 0.6, gold, rng.integers(0, 4, 200))
    metric = grouped_macro_f1("macro_f1", "by relation", group=lambda n: None if n == "Other" else n[0])
    counts = count_labels(gold, pred[None], np.zeros(200, dtype=int), n_labels=4, n_clusters=1)[:, 0]
    scores = []
    for members in ((0, 1), (2,)):
        right = sum(int(((gold == m) & (pred == m)).sum()) for m in members)
        claimed, there = np.isin(pred, members).sum(), np.isin(gold, members).sum()
        scores.append(2 * right / (claimed + there))
    assert metric(counts, names)[0] == pytest.approx(np.mean(scores))


def test_majority_of_sets_is_label_by_label():
    labels = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [1, 1, 0]], dtype=bool)
    assert majority(labels).tolist() == [True, False, False]
    words = np.array([0, 0, 1, 1])
    found = word_majority(words, labels, np.array([0, 1, -1]), n_words=2)
    assert found.tolist() == [[True, False, False], [False, False, False], [True, False, False]]
    with pytest.raises(ValueError, match="no training labels"):
        majority(labels[:0])
