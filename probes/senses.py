"""Word senses: do the occurrences of a word lie apart by sense, and in which layer?

- ``senses``: nearest neighbours after Wiedemann et al. (2019), *Does BERT Make Any Sense?*, and nearest centroids after
  Loureiro et al. (2021), *Analysis and Evaluation of Language Models for Word Sense Disambiguation*. The sense of an
  occurrence is that of the nearest mean of training vectors of its word, or of most of the k nearest, by cosine, among
  the word's own senses; k is 1 to 10, as does best on dev. Scores are means over words; the table by group has each
  word. A sense of the test that training lacks is always mistaken, and counted. Words with one sense in training are
  left out. With ``layers_summed=4`` a row is the sum of a layer and the three read before it.
- ``senses:clusters``: the occurrences of each word with several senses in the test are clustered by k-means on unit
  vectors, with as many clusters as senses, and with the number of 2 to 8 of the highest silhouette. V-measure
  (Rosenberg & Hirschberg 2007) has no fixed value at random; the adjusted Rand index (Hubert & Arabie 1985) is 0 then.
  A high silhouette states that there are clusters, not that they are senses.
- ``senses:pairs``: WiC (Pilehvar & Camacho-Collados 2019). The cosine of a word's vectors in two contexts is compared
  with the threshold that does best on train; the area under the curve needs none. ``_standardised`` scores are of
  dimensions with mean 0 and variance 1 over training occurrences, since few dimensions dominate raw cosines (Timkey &
  van Schijndel 2021). A pair is read as one text; ``apart:CORPUS`` has each text read by itself, as in the paper.
- ``senses:concatenation``: Reif et al. (2019), *Visualizing and Measuring the Geometry of BERT*. The ratio of a word's
  cosine to the centroid of its own sense over that to another sense's, with its sentence alone, and followed by *and*
  with a sentence that has the word in the other sense, or in the same one, since a longer text alone may change the
  ratio. Over 1 the word is nearer to its own sense. The corpus is ``concatenated:CORPUS``, such as CoarseWSD-20.

What to compare with: the most frequent sense or answer (``majority``), the same rules on TF-IDF of the other words
(``lexical``), layer 0, and random weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bertology.activations.layers import unit_vectors
from bertology.errors import CorpusError, FitError
from bertology.geometry import GeometryProbe, senses
from bertology.geometry.probes import TextItems
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums, by_layer
from bertology.probing import ControlNote, GeometryCounts, ProbeFamily, Splits
from bertology.probing.items import SplitVectors, SplitWords


@dataclass(frozen=True)
class Senses(GeometryProbe):
    """Which of its senses does a word have, by the nearest centroid and by its nearest occurrences?"""

    layers_summed: int = 1
    """A layer and so many less one of those read before it are summed."""
    task = "senses"
    subject = "meaning"
    reference = "Loureiro et al. 2021; Wiedemann et al. 2019"
    metrics = (
        share_metric("accuracy_by_centroid", "share of occurrences nearest to their sense's centroid, mean over words"),
        share_metric("macro_f1_by_centroid", "F1 of senses by nearest centroid, mean over senses, then over words"),
        share_metric("micro_accuracy_by_centroid", "share of all occurrences nearest to their sense's centroid"),
        share_metric("accuracy_by_occurrences", "share of occurrences right by nearest neighbours, mean over words"),
        share_metric("macro_f1_by_occurrences", "F1 of senses by nearest neighbours, mean over senses, then words"),
        share_metric("micro_accuracy_by_occurrences", "share of all occurrences right by nearest neighbours"),
        sum_metric("chosen_neighbours", "number of nearest neighbours that scored best on dev"),
    )
    reads = ("train", "dev", "test")
    fits = "centroids of senses, and nearest occurrences"
    baselines = (
        ControlNote("majority", "majority", "the sense that the word has most often in train"),
        ControlNote("lexical", "lexical baseline", "the same rules on the words of the context (TF-IDF)"),
    )

    @property
    def compares_layers(self) -> bool:
        """Whether layers are summed."""
        return self.layers_summed > 1

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words with senses."""
        if self.layers_summed < 1:
            raise FitError(f"layers_summed={self.layers_summed}: give 1 layer or more")
        return _sense_items(senses.sense_data(sentences, known="train", words=words))

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Predictions by nearest centroid and by nearest neighbours."""
        data, layers = items.data, vectors["test"].layers

        def measure(place: int, layer: int) -> Iterator[LayerSums]:
            of_layer = {}
            for split, items in data.items.items():
                read, summed = vectors[split], layers[max(0, place + 1 - self.layers_summed) : place + 1]
                whole = np.sum([items.means(read.of(one), read.words)[:, 0] for one in summed], axis=0)
                of_layer[split] = unit_vectors(whole, layer)
            return senses.sense_scores(senses.predict_senses(of_layer, data.items), data.items["test"], data.words)

        return by_layer((layer, measure(place, layer)) for place, layer in enumerate(layers))

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The word's most frequent sense, or both rules on the words of the context."""
        data, test = items.data, items.data.items["test"]
        if name == "majority":
            always = np.zeros(len(test), dtype=np.int64)
            predicted = senses.SensePredictions(always, always, None)
        else:
            predicted = senses.predict_senses(senses.context_vectors(data.items, sentences), data.items)
        return senses.sense_scores(predicted, test, data.words)


def _sense_items(data: senses.SenseData) -> TextItems:
    """Occurrences with senses; those of the test whose sense training lacks are counted."""
    test, n_train = data.items["test"], len(data.items.get("train", ()))
    unseen = int((test.labels < 0).sum())
    counts = GeometryCounts(len(test), n_train, data.n_senses, unseen, data.skipped)
    return TextItems(senses.words_of_spans(data.items), counts, data)


@dataclass(frozen=True)
class SenseClusters(GeometryProbe):
    """Do the occurrences of a word form clusters, and are these its senses?"""

    task = "senses:clusters"
    subject = "meaning"
    reference = "Wiedemann et al. 2019"
    metrics = (
        sum_metric("adjusted_rand", "adjusted Rand index of clusters and senses, 0 at random, mean over words"),
        share_metric("v_measure", "V-measure: agreement of clusters with senses, mean over words"),
        sum_metric("silhouette", "silhouette: how far the clusters lie apart, mean over words"),
        sum_metric("adjusted_rand_chosen", "adjusted Rand index with the number of clusters of highest silhouette"),
        share_metric("v_measure_chosen", "V-measure with the number of clusters of highest silhouette"),
        sum_metric("chosen_clusters", "number of clusters of highest silhouette, mean over words"),
    )

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words with several senses."""
        return _sense_items(senses.sense_data(sentences, known="test", words=words))

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Scores by word, and means over words."""
        data = items.data
        return senses.sense_clusters(vectors["test"], data.items["test"], data.words)


@dataclass(frozen=True)
class PairsOfSenses(GeometryProbe):
    """Does a word have the same sense in two contexts, by the cosine of its vectors?"""

    column: str = "label"
    """Column of the labels of pairs: ``T`` and ``F``, 1 and 0, ``same`` and ``different``."""
    task = "senses:pairs"
    subject = "meaning"
    reference = "Pilehvar & Camacho-Collados 2019"
    metrics = (
        share_metric("accuracy", "share of pairs that a threshold of cosines from train classifies correctly"),
        sum_metric("area_under_curve", "area under the ROC curve of cosines, for the same sense"),
        share_metric("accuracy_standardised", "accuracy with every dimension standardised"),
        sum_metric("area_under_curve_standardised", "area under the ROC curve, every dimension standardised"),
    )
    reads = ("train", "test")
    fits = "a threshold of cosines"
    baselines = (
        ControlNote("majority", "majority", "the more frequent answer of train"),
        ControlNote("lexical", "lexical baseline", "the same by the cosine of the words of both contexts (TF-IDF)"),
    )

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words of both spans of all pairs."""
        pairs = {split: senses.read_pairs(text, self.column) for split, text in sentences.items()}
        for split, of_split in pairs.items():
            if of_split.labels.all() or not of_split.labels.any():
                raise CorpusError(f"all pairs of {split} have the same label: give some of both")
            pairs[split] = of_split if words is None else of_split.readable(words[split])
        counts = GeometryCounts(len(pairs["test"]), len(pairs["train"]), n_classes=2)
        return TextItems(senses.words_of_spans(pairs), counts, pairs)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Scores of raw and of standardised vectors."""
        return senses.pair_statistics(vectors, items.data, sentences["test"])

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The more frequent answer of train, or the cosine of both contexts."""
        return senses.lexical_pair_statistics(sentences, items.data, by_context=name == "lexical")


@dataclass(frozen=True)
class SenseConcatenation(GeometryProbe):
    """What does a sentence with another sense of a word do to the vector of the word before it?"""

    task = "senses:concatenation"
    subject = "meaning"
    reference = "Reif et al. 2019"
    metrics = (
        sum_metric("fall", "fall of the ratio of cosines (own / other sense) when the other sense follows"),
        sum_metric("fall_beyond_same", "fall when the other sense follows minus fall when the same sense follows"),
        sum_metric("ratio_alone", "cosine to the own sense's centroid / to the other's, sentences alone"),
        sum_metric("ratio_other", "ratio of cosines (own / other sense), the other sense following"),
        sum_metric("ratio_same", "ratio of cosines (own / other sense), the same sense following"),
        share_metric("own_share_alone", "share of words nearer to their own sense, in sentences alone"),
        share_metric("own_share_other", "share of words nearer to their own sense, the other sense following"),
        share_metric("own_share_same", "share of words nearer to their own sense, the same sense following"),
    )
    reads = ("train", "test")
    fits = "centroids of senses"

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words with senses in train, and those of the test whose senses train has."""
        read = senses.concatenated(sentences, words)
        n_senses = int(read["train"].labels.max()) + 1
        counts = GeometryCounts(len(read["test"]), len(read["train"]), n_classes=n_senses)
        return TextItems(senses.words_of_spans(read), counts, read)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Ratios of cosines in each form of the sentence, and their differences."""
        return senses.concatenation_statistics(vectors, items.data)


PROBE = ProbeFamily.among(
    [SenseClusters(), PairsOfSenses(), SenseConcatenation()], argument="question about senses", default=Senses()
)
