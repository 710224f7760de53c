"""Word senses: do the occurrences of a word lie apart by sense, and in which layer?

Nearest neighbours after Wiedemann et al. (2019), *Does BERT Make Any Sense?*, and nearest centroids after Loureiro et
al. (2021), *Analysis and Evaluation of Language Models for Word Sense Disambiguation*: the sense of an occurrence is
that of the nearest mean of training vectors of its word, or of most of the k nearest, by cosine, among the word's own
senses; k is 1 to 10, as does best on dev. Scores are means over words, so that frequent words count no more than
others; the table by group has each word. What to compare with: the word's most frequent sense (``majority``), the same
two rules on TF-IDF of the other words of the sentence (``lexical``), layer 0, and random weights.

A sense of the test that training lacks is always mistaken, and counted. Words with one sense in training are left out.
With the setting ``layers_summed=4`` a row is the sum of a layer and the three read before it, as the last of Loureiro
et al. ``senses:clusters``, ``senses:pairs`` and ``senses:concatenation`` ask other questions
of the same vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology import geometry
from bertology.corpora import Sentences
from bertology.errors import FitError, NameNotFoundError, listed, quoted
from bertology.measures import share_metric, sum_metric
from bertology.probing import ControlNote, GeometryBaseline, GeometryCounts, GeometryProbe, Probe, ProbeFamily

from ._sense_clusters import SenseClusters
from ._sense_concatenation import SenseConcatenation
from ._sense_items import SenseData, context, context_vectors, sense_data
from ._sense_pairs import SensePairs

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors

_QUESTION = "Which of its senses does a word have, by the nearest centroid and by its nearest occurrences?"
_REFERENCE = "Loureiro et al. 2021; Wiedemann et al. 2019"


@dataclass(frozen=True)
class Senses(GeometryProbe):
    """Which of its senses does a word have?"""

    layers_summed: int = 1
    """A layer and so many less one of those read before it are summed."""
    task = "senses"
    version = 1
    subject = "meaning"
    question = _QUESTION
    reference = _REFERENCE
    metrics = (
        share_metric("accuracy_by_centroid", "share of occurrences nearest to their sense's centroid, mean over words"),
        share_metric("macro_f1_by_centroid", "F1 of senses by nearest centroid, mean over senses, then over words"),
        share_metric("micro_accuracy_by_centroid", "share of occurrences nearest to their sense's centroid, of all"),
        share_metric("accuracy_by_occurrences", "share of occurrences with most neighbours' sense, mean over words"),
        share_metric(
            "macro_f1_by_occurrences", "F1 of senses by nearest neighbours, mean over senses, then over words"
        ),
        share_metric("micro_accuracy_by_occurrences", "share of occurrences with most neighbours' sense, of all"),
        sum_metric("chosen_neighbours", "number of neighbours that did best on dev"),
    )
    reads = ("train", "dev", "test")
    fits = "centroids of senses, and nearest occurrences"
    baselines = (
        ControlNote("majority", "majority", "the sense that the word has most often in train"),
        ControlNote("lexical", "words alone", "the same rules on the words of the context (TF-IDF)"),
    )

    @property
    def compares_layers(self) -> bool:
        """Where layers are summed."""
        return self.layers_summed > 1

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """All words with senses."""
        if self.layers_summed < 1:
            raise FitError(f"layers_summed={self.layers_summed}: give 1 layer or more")
        data = sense_data(sentences, known="train")
        return {split: items.every_word for split, items in data.items.items()}

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> GeometryCounts:
        """Occurrences, and senses of all words."""
        data = _readable(sentences, words)
        test, n_train = data.items["test"], len(data.items["train"])
        return GeometryCounts(len(test), n_train, data.n_senses, int((test.senses < 0).sum()), data.skipped)

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """By nearest centroid and by nearest neighbours."""
        data = _readable(sentences, {split: of_split.words for split, of_split in vectors.items()})
        layers, predicted = vectors["test"].layers, []
        for place, layer in enumerate(layers):
            summed = layers[max(0, place + 1 - self.layers_summed) : place + 1]
            of_layer = {}
            for split, items in data.items.items():
                read = vectors[split]
                whole = np.sum([items.means(read.of(one), read.words) for one in summed], axis=0)
                of_layer[split] = geometry.unit_vectors(whole, layer)
            predicted.append(geometry.predict_senses(of_layer, data.items))
        return geometry.sense_scores(layers, predicted, data.items["test"], data.words)

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[LayerSums]:
        """The word's most frequent sense, or both rules on the words of the context."""
        data = _readable(sentences, words)
        test = data.items["test"]
        if name == "majority":
            always = np.zeros(len(test), dtype=np.int64)
            predicted = geometry.SensePredictions(always, always, None)
        else:
            contexts = {}
            for split, items in data.items.items():
                text = sentences[split]
                bounds = [(int(text.starts[number]), int(text.starts[number + 1])) for number in items.clusters]
                contexts[split] = [context(text, *both) for both in zip(bounds, items.spans.tolist(), strict=True)]
            predicted = geometry.predict_senses(context_vectors(contexts), data.items)
        return geometry.sense_scores((None,), [predicted], test, data.words)


def _readable(sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> SenseData:
    data = sense_data(sentences, known="train")
    return replace(data, items={split: items.readable(words[split]) for split, items in data.items.items()})


def _probe(name: str) -> Probe:
    kinds = {"clusters": SenseClusters(), "pairs": SensePairs(), "concatenation": SenseConcatenation()}
    if name not in kinds:
        raise NameNotFoundError(f"unknown question about senses {quoted(name)}: there are {listed(kinds)}")
    return kinds[name]


PROBE = ProbeFamily(
    argument="question about senses",
    instances=("clusters", "pairs", "concatenation"),
    question=_QUESTION,
    reference=_REFERENCE,
    make=_probe,
    default=Senses(),
)
