"""Chunk clusters: do noun, verb and prepositional phrases lie apart, without training to tell them?

Jawahar et al. (2019), *What Does BERT Learn about the Structure of Language?*, section 3: the vector of a chunk is its
first and its last word, their product and their difference; k-means with as many clusters as there are kinds of chunks
is fitted to 3,000 chunks of train (CoNLL-2000; Tjong Kim Sang & Buchholz 2000), and the clusters of others are compared
with their kinds by normalised mutual information, which is V-measure. The adjusted Rand index is 0 at random.

Clusters follow the largest differences of vectors. Where they are not the kinds of chunks, a readout may still tell
these apart: see the task ``chunk``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.geometry import GeometryProbe
from bertology.geometry.probes import TextItems
from bertology.geometry.senses import SpanItems, span_clusters, words_of_spans
from bertology.measures import sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, Splits
from bertology.probing.items import SplitVectors, SplitWords


@dataclass(frozen=True)
class ChunkClusters(GeometryProbe):
    """Do the kinds of shallow phrases form clusters?"""

    most_chunks: int = 3000
    """Chunks of each split at most, drawn at random."""
    task = "chunk_clusters"
    reference = "Jawahar et al. 2019, §3"
    metrics = (
        sum_metric("v_measure", "V-measure: normalised mutual information of clusters and kinds of chunks"),
        sum_metric("adjusted_rand", "adjusted Rand index of clusters and kinds of chunks, 0 at random"),
    )
    reads = ("train", "test")
    fits = "k-means of spans"

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """The first and last words of chunks."""
        kinds: dict[str, int] = {}
        items = {split: _chunks(text, kinds) for split, text in sentences.items()}
        if len(set(items["train"].labels.tolist())) < 2 or not len(items["test"]):
            raise CorpusError("no chunks of two kinds in train, or none in test: give text with a layer 'chunk' (IOB2)")
        rng = np.random.default_rng(0)
        for split, some in items.items():
            items[split] = some.take(np.sort(rng.permutation(len(some))[: self.most_chunks]))
            items[split] = items[split] if words is None else items[split].readable(words[split])
        n_kinds = len(np.unique(items["train"].labels))
        counts = GeometryCounts(len(items["test"]), n_train=len(items["train"]), n_classes=n_kinds)
        return TextItems(words_of_spans(items), counts, items)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Clusters of all chunks of test."""
        return span_clusters(vectors, items.data)


def _chunks(text: Sentences, kinds: dict[str, int]) -> SpanItems:
    """All chunks of a text; ``kinds`` gives each kind a number and takes up new ones."""
    if "chunk" not in text.layers:
        raise CorpusError("no word has a label in layer 'chunk': give text with chunks in IOB2, as CoNLL-2000 has")
    tags = text.layers["chunk"]
    begins = np.array([value.startswith("B-") for value in tags.values] + [False])[tags.codes]
    inside = np.array([value.startswith("I-") for value in tags.values] + [False])[tags.codes]
    first = np.flatnonzero(begins)
    # The last word is the one before the next that does not continue a chunk.
    stops = np.append(np.flatnonzero(~inside), text.n_words)
    last = stops[np.searchsorted(stops, first, side="right")] - 1
    names = [tags.values[code].removeprefix("B-") for code in tags.codes[first]]
    labels = np.array([kinds.setdefault(name, len(kinds)) for name in names], dtype=np.int64)
    ends = np.stack([first, last], axis=1)
    return SpanItems(np.stack([ends, ends + 1], axis=2), labels, text.sentence_of_word[first])


PROBE = ChunkClusters()
