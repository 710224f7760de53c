"""Whether the spans of a text, such as chunks, form clusters by what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bertology.geometry._senses import adjusted_rand, of_partition, summed, v_measure
from bertology.geometry._sums import Integers, LayerSums, jackknife_sums
from bertology.geometry._vectors import Floats32, LayerVectors


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
        """``[item, 4 · dim]`` of each span first and last word, their product and their difference.

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
        seed: of the first centres.

    Yields:
        ``v_measure`` and ``adjusted_rand`` of all layers.
    """
    from sklearn.cluster import KMeans

    train, test = items["train"], items["test"]
    _, clusters = np.unique(test.sentences, return_inverse=True)
    n_labels = len(np.unique(train.labels))
    scores = {"v_measure": v_measure, "adjusted_rand": adjusted_rand}
    found: dict[str, list[tuple[float, np.ndarray]]] = {name: [] for name in scores}
    for layer in vectors["train"].layers:
        fitted = KMeans(n_labels, n_init=10, random_state=seed).fit(
            train.vectors(vectors["train"].of(layer), vectors["train"].words)
        )
        labels = fitted.predict(test.vectors(vectors["test"].of(layer), vectors["test"].words))
        for name, score in scores.items():
            found[name].append(of_partition(score, test.labels, labels))
    for name, of_layers in found.items():
        values = np.array([value for value, _ in of_layers])
        influences = summed(np.stack([by_item for _, by_item in of_layers]), clusters)
        yield jackknife_sums(name, vectors["test"].layers, values, influences, "sentences")
