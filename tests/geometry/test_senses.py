"""Nearest centroids and neighbours, clusters and pairs of occurrences, against scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn import metrics
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from bertology.activations.layers import LayerVectors
from bertology.corpora import Sentence, Sentences
from bertology.geometry import senses as scored
from bertology.measures import bootstrap_ratio

DICE = np.random.default_rng(3)


def unit(vectors: Any) -> Any:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def two_senses(n: int, *, apart: float, dim: int = 12, seed: int = 5) -> tuple[Any, NDArray[np.int64]]:
    dice = np.random.default_rng(seed)
    senses = dice.integers(0, 2, n)
    return unit(dice.normal(size=(n, dim)) + apart * np.where(senses, 1, -1)[:, None] * np.eye(dim)[0]), senses


def items(words: Any, senses: Any) -> scored.SpanItems:
    places = np.arange(len(words))
    spans = np.stack([places, places + 1], axis=1)[:, None]
    return scored.SpanItems(spans, np.asarray(senses), places, words=np.asarray(words))


def test_nearest_centroids_are_those_of_scikit_learn_on_unit_vectors() -> None:
    (train, senses), (other, _) = two_senses(80, apart=1), two_senses(60, apart=1, seed=6)
    centroids = unit(np.stack([train[senses == sense].mean(axis=0) for sense in (0, 1)]))
    around = np.concatenate([centroids + 0.25, centroids - 0.25])  # of which the means are the centroids
    expected = NearestCentroid().fit(around, [0, 1, 0, 1]).predict(other)
    assert (scored.nearest_centroids(train, senses, other) == expected).all()
    assert (scored.nearest_centroids(sparse.csr_matrix(train), senses, sparse.csr_matrix(other)) == expected).all()


@pytest.mark.parametrize(("n", "kinds"), [(7, 7), (19, 4), (21, 21), (300, 300), (300, 12)])
def test_equally_near_neighbours_come_in_the_order_of_the_text(n: int, kinds: int) -> None:
    """As by a stable sort of all cosines; of few ``kinds`` of vectors many are equal."""
    rng = np.random.default_rng(n + kinds)
    train = unit(rng.standard_normal((kinds, 16)).astype(np.float32)[rng.integers(0, kinds, n)])
    other, senses = unit(rng.standard_normal((300, 16)).astype(np.float32)), rng.integers(0, 5, n)
    order = np.argsort(-np.round(other.astype(np.float64) @ train.T, 6), axis=1, kind="stable")
    found = scored.nearest_neighbours(train, senses, other)
    for row, number in enumerate(scored.NEIGHBOURS):
        votes = (senses[order[:, :number]][:, :, None] == np.arange(5)).sum(axis=1)
        assert (found[row] == votes.argmax(axis=1)).all()


@pytest.mark.parametrize("number", [1, 2, 5, 10])
def test_nearest_neighbours_are_those_of_scikit_learn(number: int) -> None:
    train, senses = unit(DICE.normal(size=(70, 8))), DICE.integers(0, 3, 70)
    other = unit(DICE.normal(size=(50, 8)))
    expected = KNeighborsClassifier(number).fit(train, senses).predict(other)
    assert (scored.nearest_neighbours(train, senses, other, [number])[0] == expected).all()


def test_senses_are_told_apart_among_those_of_the_word_alone() -> None:
    """Two words whose senses lie at the same places, the other way round."""
    places, senses = two_senses(200, apart=4)
    words = DICE.integers(0, 2, 200)
    own = np.where(words == 1, 1 - senses, senses)
    parts = {"train": slice(0, 100), "dev": slice(100, 140), "test": slice(140, 200)}
    of_split = {split: items(words[part], own[part]) for split, part in parts.items()}
    found = scored.predict_senses({split: places[part] for split, part in parts.items()}, of_split)
    assert (found.centroid == of_split["test"].labels).all()
    assert (found.occurrences == of_split["test"].labels).all()
    assert found.n_neighbours == 1


def test_two_distributions_are_told_apart_and_one_split_by_a_coin_is_not() -> None:
    parts = {"train": slice(0, 600), "dev": slice(600, 700), "test": slice(700, 1300)}
    for apart, low, high in ((4.0, 1.0, 1.0), (0.0, 0.5, 0.5)):
        vectors, senses = two_senses(1300, apart=apart)
        of_split = {split: items(np.zeros_like(senses[part]), senses[part]) for split, part in parts.items()}
        found = scored.predict_senses({split: vectors[part] for split, part in parts.items()}, of_split)
        for sums in scored.sense_scores(found, of_split["test"], ["word"]):
            if "accuracy" in sums.metric:  # of two equal shares F1 may be lower
                interval = bootstrap_ratio(sums.over, sums.under, metric=sums.metric, n_resamples=500, seed=0)
                assert interval.ci_low[0] <= low + 1e-9, sums.metric
                assert interval.ci_high[0] >= high - 1e-9, sums.metric


def test_scores_are_means_over_words() -> None:
    words, gold = np.array([0] * 6 + [1] * 2), np.array([0, 0, 1, 1, 1, 2, 0, 1])
    predicted = np.array([0, 1, 1, 1, 0, 0, 0, 0])
    of_words = [(gold[words == word], predicted[words == word]) for word in (0, 1)]
    expected = {
        "accuracy": np.mean([metrics.accuracy_score(*both) for both in of_words]),
        "macro_f1": np.mean([metrics.f1_score(*both, average="macro") for both in of_words]),
        "micro_accuracy": metrics.accuracy_score(gold, predicted),
    }
    one = scored.SensePredictions(predicted, gold, 3)
    sums = {(of.metric, of.group): of for of in scored.sense_scores(one, items(words, gold), ["a", "b"])}
    assert {name: sums[f"{name}_by_centroid", ""].values[0] for name in expected} == pytest.approx(expected)
    assert sums["accuracy_by_centroid", "b"].values[0] == 0.5
    assert {sums[f"{name}_by_occurrences", ""].values[0] for name in expected} == {1.0}
    assert sums["chosen_neighbours", ""].values[0] == 3


def by_weights(score: Callable[[Any], float], n: int, step: float = 1e-5) -> NDArray[np.float64]:
    """Derivatives of a score of weighted items."""
    return np.array([(score(1 + step * np.eye(n)[i]) - score(1 - step * np.eye(n)[i])) / (2 * step) for i in range(n)])


def test_derivatives_of_macro_f1_and_of_the_area_under_the_curve() -> None:
    gold, predicted, scores = DICE.integers(0, 3, 30), DICE.integers(0, 3, 30), DICE.normal(size=30)
    value, influences = scored.mean_macro_f1(np.zeros(30, int), gold, predicted)
    f1: Any = lambda weights: metrics.f1_score(gold, predicted, average="macro", sample_weight=weights)  # noqa: E731
    assert value == pytest.approx(f1(np.ones(30)))
    np.testing.assert_allclose(influences, by_weights(f1, 30), atol=1e-6)
    positive = gold > 0
    scores[3] = scores[7]
    area, influences = scored.area_under_curve(scores, positive)
    auc: Any = lambda weights: metrics.roc_auc_score(positive, scores, sample_weight=weights)  # noqa: E731
    assert area == pytest.approx(auc(np.ones(30)))
    np.testing.assert_allclose(influences, by_weights(auc, 30), atol=1e-6)


def test_clusters_of_senses() -> None:
    (first, senses), (second, drawn) = two_senses(60, apart=4), two_senses(60, apart=0, seed=6)
    vectors = np.concatenate([first, second])
    every = items([0] * 60 + [1] * 60, np.concatenate([senses, drawn]))
    sums = {
        (of.metric, of.group): of.values[0]
        for of in scored.sense_clusters(LayerVectors.of_arrays(vectors[None]), every, ("x", "y"))
    }
    labels = KMeans(2, n_init=10, random_state=0).fit_predict(first)
    assert sums["adjusted_rand", "x"] == pytest.approx(metrics.adjusted_rand_score(senses, labels)) == 1
    assert sums["silhouette", "x"] == pytest.approx(silhouette_score(first, labels), abs=1e-5)
    assert sums["chosen_clusters", "x"] == 2
    assert abs(sums["adjusted_rand", "y"]) < 0.15
    assert sums["adjusted_rand", ""] == pytest.approx((sums["adjusted_rand", "x"] + sums["adjusted_rand", "y"]) / 2)


def test_the_threshold_is_the_best_there_is() -> None:
    scores, positive = np.round(DICE.normal(size=40), 1), DICE.random(40) < 0.5
    tried = [*(np.unique(scores) - 0.01), 9]
    best = max(((scores >= threshold) == positive).mean() for threshold in tried)
    threshold = scored.best_threshold(scores, positive)
    assert ((scores >= threshold) == positive).mean() == best
    assert scored.best_threshold(np.zeros(3), np.array([True, True, False])) == -np.inf


def test_the_threshold_of_pairs_comes_from_train() -> None:
    same = {"train": np.array([True, False, False]), "test": np.array([True, False, True])}
    cosines = {"train": np.array([0.9, 0.5, 0.4]), "test": np.array([0.8, 0.75, 0.6])}
    spans = np.array([[[n, n + 1], [n + 1, n + 2]] for n in (0, 2, 4)])
    pairs = {split: scored.SpanItems(spans, of_split, np.arange(3)) for split, of_split in same.items()}
    text = Sentences([Sentence.from_words(["a", "A", "b", "B", "c", "d"])])
    values = {(of.metric, of.group): of.values[0] for of in scored.pair_scores(cosines, pairs, text)}
    assert values["accuracy", ""] == pytest.approx(1 / 3)  # the threshold is 0.7
    assert values["accuracy", "same form"] == 0.5
    assert values["area_under_curve", ""] == 0.5
