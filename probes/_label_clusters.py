"""Clusters of labels in a model and in its reference: are they farther apart, and in the same layout?

After Zhou & Srikumar (2022), *A Closer Look at How Fine-tuning Changes BERT*: fine-tuning moves clusters of labels
apart and mostly keeps how they lie to each other. Distances are of centroids, over the spread of words around them, and
of convex hulls (twice the margin of a linear support-vector machine with C = 10⁶), over those of the same words with
shuffled labels: in many dimensions any few words are separable. ``layout`` is the Pearson correlation of the distances
of centroids of all pairs of labels in both models. Of the hulls there are no intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology import comparison
from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed
from bertology.measures import sum_metric
from bertology.probing import LayerPair, VectorComparison

from ._text_sample import words_of_sentences

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors


@dataclass(frozen=True)
class ClustersOfLabels(VectorComparison):
    """Do the clusters of labels lie as they did?"""

    labels: str = "upos"
    """The layer of labels of words."""
    most_words: int = 10_000
    """Words of running text that are read at most: random sentences of a larger text."""
    most_labels: int = 10
    """Labels, the most frequent ones."""
    per_label: int = 100
    """Words of each label, drawn at random, whose hulls are compared."""
    task = "comparison:label_clusters"
    version = 1
    question = "Do the clusters of labels lie to each other as in the reference, layer by layer?"
    reference = "Zhou & Srikumar 2022"
    metrics = (
        sum_metric("layout", "correlation with the reference of distances between labels"),
        sum_metric("layout_hulls", "the same of distances of hulls"),
        sum_metric("centroids_model", "mean distance of the centroids of two labels, over the spread of their words"),
        sum_metric("centroids_reference", "the same of the reference"),
        sum_metric("centroids_change", "the former less the latter"),
        sum_metric("hulls_model", "mean distance of the hulls of two labels, over that with shuffled labels"),
        sum_metric("hulls_reference", "the same of the reference"),
        sum_metric("separable_model", "share of pairs of labels that a hyperplane separates"),
        sum_metric("separable_reference", "the same of the reference"),
        sum_metric("separable_shuffled", "the same of the model with shuffled labels"),
    )

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The test split; dev as well where layers are matched by content."""
        return ("test",) if self.match == "depth" else ("dev", "test")

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """The labelled words of random sentences."""
        found = {}
        for name, text in sentences.items():
            if self.labels not in text.layers:
                known = listed(tuple(text.layers)) if text.layers else "none"
                raise CorpusError(f"no layer {self.labels} of labels of words in the text; there is {known}")
            words = words_of_sentences(text, self.most_words)
            found[name] = words[text.layers[self.labels].codes[words] >= 0]
        return found

    def statistics(
        self,
        model: Mapping[str, LayerVectors],
        reference: Mapping[str, LayerVectors],
        sentences: Mapping[str, Sentences],
        *,
        layers: Sequence[LayerPair],
    ) -> Iterator[LayerSums]:
        """Of the words of test."""
        text, words = sentences["test"], model["test"].words
        layer = text.layers[self.labels]
        yield from comparison.label_clusters(
            model["test"],
            reference["test"],
            [layer.values[code] for code in layer.codes[words].tolist()],
            text.sentence_of_word[words].astype(np.int64),
            layers=layers,
            most_labels=self.most_labels,
            per_label=self.per_label,
        ).statistics()
