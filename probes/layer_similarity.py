"""Likeness of layers: which of them hold the same geometry, and where does it change?

Linear centred kernel alignment (Kornblith et al. 2019), debiased, of all pairs of layers, over the words of a text
without special tokens, which the store does not keep; with the setting ``measures`` also orthogonal Procrustes,
representational similarity (Abnar et al. 2019), mutual nearest neighbours (Huh et al. 2024), canonical correlations
(SVCCA, Raghu et al. 2017; PWCCA, Morcos et al. 2018), CKA with Gaussian kernels, and the best match of single
dimensions (Wu et al. 2020). Beside each is what it shows of words in random order. ``identity`` is the share of words
that their vector still tells among the words of layer 0 (after Voita et al. 2019). The main score is likeness with the
layer before, of those that are read; the table by group has all pairs. Lan et al. (2020), figure 1: by what angle and
how far a word moves from one layer to the next.

A high likeness of two layers does not mean that the same can be read off them, nor does a low one mean that it cannot:
CKA follows the few directions of largest variance (Davari et al. 2023; Ding et al. 2021).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bertology.families.request import parse_names
from bertology.geometry import GeometryProbe, layer_similarity
from bertology.geometry.probes import TextItems
from bertology.geometry.similarity import identity, likeness_metrics
from bertology.measures import Metric, share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import Splits
from bertology.probing.items import SplitVectors


@dataclass(frozen=True)
class LayerSimilarity(GeometryProbe):
    """Which layers hold the same geometry, and where does it change?"""

    most_words: int = 50_000
    """Words of running text that are read at most: random sentences of a larger text."""
    measures: str = "cka"
    """Some of ``cka``, ``procrustes``, ``rsa``, ``mutual_neighbours``, ``svcca``, ``pwcca``, ``rbf`` and
    ``neuron_matching``, with commas between."""
    task = "layer_similarity"
    reference = "Kornblith et al. 2019"
    compares_layers = True

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Likeness with the layer before and with each other one, by every measure; and how far words move."""
        about = "with the layer read before or that of the group", "words of one layer in random order"
        return (
            *likeness_metrics(parse_names(self.measures), *about),
            share_metric("identity", "share of words nearest to the mean vector that their type has in layer 0"),
            sum_metric("cosine_previous", "mean cosine of a word's vectors in this layer and the one read before"),
            sum_metric("moved_previous", "mean ‖x − y‖ / ‖y‖, x a word's vector in this layer, y in the one before"),
        )

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Likenesses of all pairs of the layers that are read, and of each with layer 0."""
        read, text = vectors["test"], sentences["test"]
        of_sentence = text.sentence_of_word[read.words]
        yield from layer_similarity(read, of_sentence, measures=parse_names(self.measures))
        yield from identity(read, text.forms.codes[read.words], of_sentence)


PROBE = LayerSimilarity()
