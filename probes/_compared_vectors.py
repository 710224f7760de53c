"""Vectors of the same words in a model and in its reference: how alike are they, in which layer?

Linear centred kernel alignment (Kornblith et al. 2019), debiased, with the matched layer of the reference and by group
with each other one; representational similarity (Merchant et al. 2020, §4, by Pearson's r; also of ranks), orthogonal
Procrustes distance (Ding et al. 2021, who find that it follows what models do most closely), mutual nearest neighbours
(Huh et al. 2024). Beside each is what words in random order give. The mean cosine of pairs of words in both models
(Ethayarajh 2019), and, of models of one width, how far single words have moved (Merchant et al. 2020).

A high likeness does not mean that the same can be read off both, nor does a low one mean that it cannot: CKA follows
the few directions of largest variance (Davari et al. 2023). ``frozen_probe`` asks what a readout still finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology import geometry
from bertology.corpora import Sentences
from bertology.measures import Metric, sum_metric
from bertology.probing import LayerPair, VectorComparison

from ._text_sample import words_of_sentences

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors

_ABOUT = {
    "procrustes": "half the squared distance after the best rotation, of vectors of length 1 in all",
    "mutual_neighbours": "share of a word's ten nearest words that are the same in both",
}


@dataclass(frozen=True)
class ComparedVectors(VectorComparison):
    """How alike are a model's vectors and those of its reference?"""

    most_words: int = 10_000
    """Words of running text that are read at most: random sentences of a larger text."""
    measures: str = "cka,rsa,rsa_spearman,procrustes,mutual_neighbours"
    """Some of these, and of ``svcca``, ``pwcca``, ``rbf`` and ``neuron_matching``, with commas between."""
    asks_random_weights = True
    task = "comparison:vectors"
    version = 1
    question = "How alike are a model's vectors and those of its reference, layer by layer?"
    reference = "Kornblith et al. 2019; Merchant et al. 2020"
    reads = ("dev", "test")

    @property
    def compares_layers(self) -> bool:
        """CKA is with every layer of the reference."""
        return "cka" in self._names

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Likeness by every measure, anisotropy of both, and how far words have moved."""
        shown = [(f"{name}_distance" if name == "procrustes" else name, name) for name in self._names]
        return (
            *(
                sum_metric(
                    metric,
                    _ABOUT.get(name, f"{name} with the reference"),
                    higher_is_better=name != "procrustes",
                    bounds="share" if name == "mutual_neighbours" else "none",
                )
                for metric, name in shown
            ),
            *(sum_metric(f"{metric}_null", f"{metric} with words in random order") for metric, _ in shown),
            sum_metric("anisotropy", "mean cosine of two words, of all pairs of words"),
            sum_metric("anisotropy_reference", "the same of the reference"),
            sum_metric("anisotropy_change", "the former less the latter"),
            sum_metric("cosine_reference", "mean cosine of a word's vector with that of the reference"),
            sum_metric("moved_reference", "mean distance of both, over the length of that of the reference"),
        )

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """All words of random sentences."""
        return {name: words_of_sentences(text, self.most_words) for name, text in sentences.items()}

    def statistics(
        self,
        model: Mapping[str, LayerVectors],
        reference: Mapping[str, LayerVectors],
        sentences: Mapping[str, Sentences],
        *,
        layers: Sequence[LayerPair],
    ) -> Iterator[LayerSums]:
        """Of the words of test; those of dev are what layers are matched by."""
        both = model["test"], reference["test"]
        of_sentence = sentences["test"].sentence_of_word[both[0].words]
        yield from geometry.model_similarity(*both, of_sentence, layers=layers, measures=self._names)
        yield from geometry.anisotropy_change(*both, of_sentence, layers=layers)
        yield from geometry.cosine_to_reference(*both, of_sentence, layers=layers)

    @property
    def _names(self) -> list[str]:
        return self.measures.replace(" ", "").split(",")
