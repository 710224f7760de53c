"""Whether vectors tell the senses of a word apart, and kinds of spans such as chunks: neighbours, clusters, pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.activations.layers import Floats32, LayerVectors, span_means, unit_vectors
from bertology.measures.sums import (
    Bools,
    Floats,
    Integers,
    Layers,
    LayerSums,
    cluster_sums,
    item_jackknife,
    jackknife_sums,
    mean_sums,
)

NEIGHBOURS = tuple(range(1, 11))
"""Numbers of neighbours that are tried on dev (Wiedemann et al. 2019)."""


@dataclass(frozen=True, eq=False)
class SenseItems:
    """Occurrences of words with senses, in one split of a corpus."""

    spans: Integers
    """``[item, 2]`` the first word of each and the one after the last, numbered in the split."""
    words: Integers
    """``[item]`` which word of the lexicon it is."""
    senses: Integers
    """``[item]`` which of its word's senses, the most frequent in training first; −1 for one that training lacks."""
    clusters: Integers
    """``[item]`` its sentence."""

    def __len__(self) -> int:
        return len(self.words)

    def of(self, chosen: Any) -> SenseItems:
        """Some of them."""
        return SenseItems(self.spans[chosen], self.words[chosen], self.senses[chosen], self.clusters[chosen])

    @property
    def every_word(self) -> NDArray[np.int64]:
        """Numbers of all words of all spans, ascending."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(np.arange(*span) for span in self.spans)]))

    def readable(self, words: NDArray[np.int64]) -> SenseItems:
        """Those of which every word is among ``words``, ascending."""
        inside = np.searchsorted(words, self.spans)
        return self.of(np.diff(inside, axis=1)[:, 0] == np.diff(self.spans, axis=1)[:, 0])

    def means(self, vectors: Floats32, words: NDArray[np.int64]) -> Floats32:
        """``[item, dim]`` means over spans of the vectors of ``words``, which hold all of them."""
        return span_means(vectors, np.searchsorted(words, self.spans))


def nearest_centroids(train: Any, senses: Integers, other: Any) -> Integers:
    """``[item]`` the sense whose centroid has the largest cosine, the lowest number of equals.

    A centroid is the mean of the training vectors of a sense (Loureiro et al. 2021). Vectors have length 1; they may be
    sparse.

    Args:
        train: ``[item, dim]`` training vectors.
        senses: ``[item]`` their senses.
        other: ``[item, dim]`` vectors of unknown sense.
    """
    known = np.unique(senses)
    means = (known[:, None] == senses).astype(np.float32) @ train
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    cosines = other @ np.divide(means, lengths, out=np.zeros_like(means), where=lengths > 0).T
    return np.asarray(known[_rounded(cosines).argmax(axis=1)])


def nearest_neighbours(train: Any, senses: Integers, other: Any, numbers: Sequence[int] = NEIGHBOURS) -> Integers:
    """``[number, item]`` the most frequent sense of as many nearest training vectors, the lowest number of equals.

    The arguments are those of :func:`nearest_centroids`, and the numbers of neighbours.
    """
    similar = other @ train.T
    cosines = _rounded(similar.toarray() if hasattr(similar, "toarray") else similar)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, : max(numbers)]
    votes = (senses[order][:, :, None] == np.arange(senses.max() + 1)).cumsum(axis=1)  # [item, neighbour, sense]
    return np.stack([votes[:, min(number, order.shape[1]) - 1].argmax(axis=1) for number in numbers])


def _rounded(cosines: Any) -> Floats:
    """Cosines without the last digits, so that vectors which are the same are equally near."""
    return np.asarray(np.round(np.asarray(cosines, dtype=np.float64), 6), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class SensePredictions:
    """Senses predicted for the test items in one layer."""

    centroid: Integers
    """``[item]``."""
    neighbours: Integers
    """``[item]``, of as many neighbours as do best on dev."""
    n_neighbours: int | None
    """None where none are looked at."""


def predict_senses(vectors: Mapping[str, Any], items: Mapping[str, SenseItems]) -> SensePredictions:
    """Senses of test items by those of training items of the same word, among the word's own senses.

    The number of neighbours is that of 1 to 10 with the best mean accuracy over words on dev, the smallest of equals.

    Args:
        vectors: by split ``[item, dim]``, of length 1, for train, dev and test.
        items: by split.
    """
    train, test = items["train"], items["test"]
    centroid = np.full(len(test), -1)
    neighbours = {split: np.full((len(NEIGHBOURS), len(items[split])), -1) for split in ("dev", "test")}
    for word in np.unique(test.words):
        known = np.flatnonzero(train.words == word)
        for split, predicted in neighbours.items():
            asked = np.flatnonzero(items[split].words == word)
            if len(asked):
                some = vectors["train"][known], train.senses[known], vectors[split][asked]
                predicted[:, asked] = nearest_neighbours(*some)
                if split == "test":
                    centroid[asked] = nearest_centroids(*some)
    best = 0
    if len(items["dev"]):
        weights = _word_weights(items["dev"].words)
        accuracies = ((neighbours["dev"] == items["dev"].senses) * weights).sum(axis=1) / weights.sum()
        best = int(np.round(accuracies, 9).argmax())
    return SensePredictions(centroid, neighbours["test"][best], NEIGHBOURS[best])


def _word_weights(words: Integers) -> Floats:
    """``[item]`` one divided by the number of items of the word: words are weighted alike."""
    _, inverse, counts = np.unique(words, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[inverse])


def sense_scores(
    layers: Layers, predicted: Sequence[SensePredictions], test: SenseItems, names: Sequence[str]
) -> Iterator[LayerSums]:
    """Accuracies and macro-F1 of predicted senses, as means over words; accuracies of single words.

    Args:
        layers: the layers; (None,) of what reads none.
        predicted: by layer.
        test: the items.
        names: names of the words.
    """
    _, clusters = np.unique(test.clusters, return_inverse=True)
    weights = _word_weights(test.words)
    for which, rule in (("centroid", "centroid"), ("neighbours", "occurrences")):
        labels = np.stack([getattr(one, which) for one in predicted])
        right = (labels == test.senses).astype(np.float64)
        yield mean_sums(f"accuracy_by_{rule}", layers, right, clusters, weights=weights)
        found = [mean_macro_f1(test.words, test.senses, of_layer) for of_layer in labels]
        yield item_jackknife(f"macro_f1_by_{rule}", layers, found, clusters)
        yield mean_sums(f"micro_accuracy_by_{rule}", layers, right, clusters)
        for word in np.unique(test.words):
            own = test.words == word
            yield mean_sums(f"accuracy_by_{rule}", layers, right, clusters, weights=own, group=names[word])
    numbers = [[one.n_neighbours] for one in predicted if one.n_neighbours is not None]
    if numbers:
        under = np.ones((1, clusters.max() + 1))
        yield LayerSums("chosen_neighbours", layers, np.array(numbers) * under, under, "sentences")


def mean_macro_f1(words: Integers, gold: Integers, predicted: Integers) -> tuple[float, Floats]:
    """Macro-F1 of each word's senses, mean over words; and its derivative by the weight of each item.

    A word's senses are those that occur among its items or are predicted for them.

    Args:
        words: ``[item]`` the word of each.
        gold: ``[item]``.
        predicted: ``[item]``.

    Returns:
        The score, and ``[item]`` the derivatives.
    """
    values, influences = [], np.zeros(len(words))
    for word in np.unique(words):
        here = np.flatnonzero(words == word)
        senses = np.unique(np.concatenate([gold[here], predicted[here]]))[:, None]
        is_gold, is_predicted = senses == gold[here], senses == predicted[here]
        right, sizes = is_gold & is_predicted, is_gold.astype(np.float64) + is_predicted
        total = sizes.sum(axis=1)
        f1 = 2 * right.sum(axis=1) / total
        values.append(f1.mean())
        influences[here] = ((2 * right - f1[:, None] * sizes) / total[:, None]).mean(axis=0)
    return float(np.mean(values)), influences / len(values)


def v_measure(table: Floats) -> float:
    """Harmonic mean of homogeneity and completeness of weights ``[sense, cluster]`` (Rosenberg & Hirschberg 2007)."""
    n, rows, columns = table.sum(), table.sum(axis=1), table.sum(axis=0)

    def entropy(weights: Floats) -> float:
        shares = weights[weights > 0] / n
        return float(-(shares * np.log(shares)).sum())

    of_senses, of_clusters, joint = entropy(rows), entropy(columns), entropy(table.ravel())
    shared = of_senses + of_clusters - joint
    homogeneity = shared / of_senses if of_senses > 0 else 1.0
    completeness = shared / of_clusters if of_clusters > 0 else 1.0
    both = homogeneity + completeness
    return max(0.0, 2 * homogeneity * completeness / both) if both > 1e-12 else 0.0


def adjusted_rand(table: Floats) -> float:
    """Adjusted Rand index of weights ``[sense, cluster]`` (Hubert & Arabie 1985): 0 in expectation at random."""

    def pairs(weights: Any) -> float:
        return float((weights * (weights - 1) / 2).sum())

    rows, columns, every = pairs(table.sum(axis=1)), pairs(table.sum(axis=0)), pairs(table.sum())
    expected, most = rows * columns / every, (rows + columns) / 2
    return (pairs(table) - expected) / (most - expected) if most != expected else 1.0


def of_partition(
    score: Callable[[Floats], float], senses: Integers, labels: Integers, *, step: float = 1e-4
) -> tuple[float, Floats]:
    """A score of a clustering, and ``[item]`` its derivative by the weight of each item, clusters held fixed."""
    table = np.zeros((senses.max() + 1, labels.max() + 1))
    np.add.at(table, (senses, labels), 1.0)
    derivatives = np.zeros_like(table)
    for cell in zip(*np.nonzero(table), strict=True):
        moved = [table.copy(), table.copy()]
        moved[0][cell] -= step
        moved[1][cell] += step
        derivatives[cell] = (score(moved[1]) - score(moved[0])) / (2 * step)
    return score(table), derivatives[senses, labels]


_MOST_CLUSTERS = 8


def sense_clusters(
    vectors: LayerVectors, items: SenseItems, *, seed: int = 0, names: Sequence[str] = ()
) -> Iterator[LayerSums]:
    """How well k-means on unit vectors finds the senses of each word, as means over words.

    With as many clusters as the word has senses among the items, and with the number of 2 to 8 of the highest mean
    silhouette. Clusters are held fixed where sentences are resampled.

    Args:
        vectors: vectors of the words of the items.
        items: items whose words have two senses or more among them.
        seed: random seed of the starts of k-means, ten of each.
        names: names of the words.
    """
    _, clusters = np.unique(items.clusters, return_inverse=True)
    kinds = np.unique(items.words)
    shape = len(vectors.layers), len(items)
    found: dict[str, tuple[Floats, Floats]] = {}
    for row, layer in enumerate(vectors.layers):
        unit = unit_vectors(items.means(vectors.of(layer), vectors.words), layer)
        for column, word in enumerate(kinds):
            here = np.flatnonzero(items.words == word)
            senses = np.unique(items.senses[here], return_inverse=True)[1]
            for name, (value, influences) in _clustered(unit[here], senses, seed).items():
                by_item, values = found.setdefault(name, (np.zeros(shape), np.zeros((shape[0], len(kinds)))))
                by_item[row, here], values[row, column] = influences, value
    for name, (by_item, values) in found.items():
        influences = cluster_sums(by_item / len(kinds), clusters)
        yield jackknife_sums(name, vectors.layers, values.mean(axis=1), influences, "sentences")
        for column, word in enumerate(kinds):
            own = items.words == word
            of_word = list(zip(values[:, column], by_item[:, own], strict=True))
            numbers = np.unique(clusters[own], return_inverse=True)[1]
            yield item_jackknife(name, vectors.layers, of_word, numbers, group=names[word])


def _clustered(unit: Floats32, senses: Integers, seed: int) -> dict[str, tuple[float, Floats]]:
    """The scores of one word in one layer, each with its derivatives by the weights of items."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_samples

    n_different = len(np.unique(unit, axis=0))

    def fitted(number: int) -> Integers:
        return np.asarray(KMeans(min(number, n_different), n_init=10, random_state=seed).fit_predict(unit))

    def silhouettes(labels: Integers) -> Floats:
        n_labels = len(np.unique(labels))
        return np.asarray(silhouette_samples(unit, labels)) if 1 < n_labels < len(unit) else np.zeros(len(unit))

    labels = fitted(senses.max() + 1)
    tried = [fitted(number) for number in range(2, min(_MOST_CLUSTERS, n_different - 1) + 1)] or [labels]
    chosen = max(tried, key=lambda some: float(np.round(silhouettes(some).mean(), 9)))
    own = silhouettes(labels)
    return {
        "v_measure": of_partition(v_measure, senses, labels),
        "adjusted_rand": of_partition(adjusted_rand, senses, labels),
        "silhouette": (float(own.mean()), (own - own.mean()) / len(own)),
        "v_measure_chosen": of_partition(v_measure, senses, chosen),
        "adjusted_rand_chosen": of_partition(adjusted_rand, senses, chosen),
        "chosen_clusters": (float(chosen.max() + 1), np.zeros(len(unit))),
    }


def pair_scores(
    layers: Layers,
    cosines: Mapping[str, Floats],
    same: Mapping[str, Bools],
    clusters: Integers,
    *,
    suffix: str = "",
    groups: Mapping[str, Bools],
) -> Iterator[LayerSums]:
    """Whether the cosine of two occurrences tells that they have the same sense (Pilehvar & Camacho-Collados 2019).

    Accuracy is that of the threshold that does best on train; the area under the curve needs none.

    Args:
        layers: the layers; (None,) of what reads none.
        cosines: for train and test ``[layer, pair]``.
        same: for train and test ``[pair]`` whether the senses are the same.
        clusters: ``[pair]`` the sentence of each test pair.
        suffix: suffix of the names of the statistics.
        groups: ``[pair]`` masks of test pairs by name, for which there is an accuracy too.
    """
    _, clusters = np.unique(clusters, return_inverse=True)
    thresholds = np.array([[best_threshold(of_layer, same["train"])] for of_layer in cosines["train"]])
    right = ((cosines["test"] >= thresholds) == same["test"]).astype(np.float64)
    for name, which in {"": None, **groups}.items():
        yield mean_sums(f"accuracy{suffix}", layers, right, clusters, weights=which, group=name)
    areas = [area_under_curve(of_layer, same["test"]) for of_layer in cosines["test"]]
    yield item_jackknife(f"area_under_curve{suffix}", layers, areas, clusters)


def best_threshold(scores: Floats, positive: Bools) -> float:
    """The threshold from which on scores are taken for positive that makes fewest mistakes, the lowest of equals.

    It lies half-way between two scores, or below or above all.
    """
    order = np.argsort(scores, kind="stable")
    ordered, is_positive = np.asarray(scores, dtype=np.float64)[order], positive[order]
    n_right = np.append(0, (~is_positive).cumsum()) + np.append(is_positive[::-1].cumsum()[::-1], 0)
    bounds = np.concatenate([[-np.inf], ordered, [np.inf]])
    n_right[bounds[1:] == bounds[:-1]] = -1  # equal scores cannot be parted
    place = int(n_right.argmax())
    return float((bounds[place] + bounds[place + 1]) / 2)


def area_under_curve(scores: Floats, positive: Bools) -> tuple[float, Floats]:
    """The share of pairs of a positive and a negative item that scores put in order, ties as half; and ``[item]`` its
    derivative by the weight of each item; NaN unless there are items of both kinds."""
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    if not (len(above) and len(below)):
        return float("nan"), np.zeros(len(scores))

    def share_below(values: Floats, others: Floats) -> Floats:
        ranks = np.searchsorted(others, values, side="left") + np.searchsorted(others, values, side="right")
        return np.asarray(ranks / (2 * len(others)))

    shares = np.where(positive, share_below(scores, below), 1 - share_below(scores, above))
    area = float(shares[positive].mean())
    return area, (shares - area) / np.where(positive, len(above), len(below))


@dataclass(frozen=True, eq=False)
class SpanItems:
    """Spans of words with a label."""

    first: Integers
    """``[item]`` number of the first word in its text."""
    last: Integers
    """``[item]`` number of the last word."""
    labels: Integers
    """``[item]`` place of the label among all labels."""
    sentences: Integers
    """``[item]`` the sentence of each."""

    def __len__(self) -> int:
        """Number of spans."""
        return len(self.first)

    def take(self, chosen: Integers) -> SpanItems:
        """Some of the spans, by their places."""
        return SpanItems(self.first[chosen], self.last[chosen], self.labels[chosen], self.sentences[chosen])

    def readable(self, words: Integers) -> SpanItems:
        """Those of which both ends are among ``words``."""
        return self.take(np.flatnonzero(np.isin(self.first, words) & np.isin(self.last, words)))

    def vectors(self, of_words: Floats32, words: Integers) -> Floats32:
        """``[item, 4 · dim]`` of each span: its first and last word, their product and their difference.

        Args:
            of_words: ``[word, dim]``
            words: ``[word]`` the numbers of these words, ascending.
        """
        first, last = (of_words[np.searchsorted(words, ends)] for ends in (self.first, self.last))
        return np.concatenate([first, last, first * last, first - last], axis=1)


def span_clusters(
    vectors: Mapping[str, LayerVectors], items: Mapping[str, SpanItems], *, seed: int = 0
) -> Iterator[LayerSums]:
    """How clusters of the vectors of spans agree with their labels (Jawahar et al. 2019, §3).

    k-means with as many clusters as labels is fitted to the spans of train; those of the test belong to the nearest
    centre. V-measure is what the paper calls normalised mutual information. Intervals hold the clusters fixed.

    Args:
        vectors: for train and test, of the words at the ends of spans.
        items: for train and test, spans of which both ends have vectors.
        seed: random seed of the first centres.

    Yields:
        ``v_measure`` and ``adjusted_rand`` of all layers.
    """
    from sklearn.cluster import KMeans

    train, test = items["train"], items["test"]
    _, clusters = np.unique(test.sentences, return_inverse=True)
    n_labels = len(np.unique(train.labels))
    scores = {"v_measure": v_measure, "adjusted_rand": adjusted_rand}
    found: dict[str, list[tuple[float, Floats]]] = {name: [] for name in scores}
    for layer in vectors["train"].layers:
        of_train, of_test = (
            items[split].vectors(vectors[split].of(layer), vectors[split].words) for split in ("train", "test")
        )
        labels = KMeans(n_labels, n_init=10, random_state=seed).fit(of_train).predict(of_test)
        for name, score in scores.items():
            found[name].append(of_partition(score, test.labels, labels))
    for name, of_layers in found.items():
        yield item_jackknife(name, vectors["test"].layers, of_layers, clusters)
