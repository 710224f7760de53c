"""Clusters of senses: does k-means find the senses of a word among its occurrences?

Of each word with several senses in the test, its occurrences are clustered by k-means on unit vectors, with as many
clusters as senses, and with the number of 2 to 8 of the highest silhouette. V-measure (Rosenberg & Hirschberg 2007) has
no fixed value at random and grows with the number of clusters; the adjusted Rand index (Hubert & Arabie 1985) is 0 at
random. A high silhouette says that there are clusters, not that they are senses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology import geometry
from bertology.corpora import Sentences
from bertology.measures import share_metric, sum_metric
from bertology.probing import GeometryCounts, GeometryProbe

from ._sense_items import sense_data

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors


@dataclass(frozen=True)
class SenseClusters(GeometryProbe):
    """Does k-means find the senses of a word?"""

    task = "senses:clusters"
    version = 1
    subject = "meaning"
    question = "Do the occurrences of a word form clusters, and are these its senses?"
    reference = "Wiedemann et al. 2019"
    metrics = (
        sum_metric("adjusted_rand", "agreement of clusters with senses, 0 at random, mean over words"),
        share_metric("v_measure", "harmonic mean of homogeneity and completeness, mean over words"),
        sum_metric("silhouette", "mean silhouette of the clusters, mean over words"),
        sum_metric("adjusted_rand_chosen", "adjusted Rand index with the number of clusters that silhouette chooses"),
        share_metric("v_measure_chosen", "V-measure with the number of clusters that silhouette chooses"),
        sum_metric("chosen_clusters", "number of clusters that silhouette chooses, mean over words"),
    )
    reads = ("test",)

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """All words with several senses."""
        return {"test": sense_data(sentences, known="test").items["test"].every_word}

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> GeometryCounts:
        """Occurrences, and senses of all words."""
        data = sense_data(sentences, known="test")
        items = data.items["test"].readable(words["test"])
        return GeometryCounts(len(items), n_classes=data.n_senses, skipped=data.skipped)

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """By word, and means over words."""
        data, read = sense_data(sentences, known="test"), vectors["test"]
        return geometry.sense_clusters(read, data.items["test"].readable(read.words), names=data.words)
