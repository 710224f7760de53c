"""Attention of a model and of its reference, head by head: how far has each moved?

The Jensen–Shannon divergence of the distributions of a head's attention from each word, in bits: 0 where they are the
same, 1 where they have no word in common (Hao et al. 2020 take its mean over heads and words of a layer); and the
cosine of the flattened maps of a sentence (Kovaleva et al. 2019). Both are at word level, means over words and over
sentences. Sentences that a model reads in several windows are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology.measures import sum_metric
from bertology.probing import AttentionComparison

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ComparedAttention(AttentionComparison):
    """How far is a head's attention from that of the same head of the reference?"""

    task = "comparison:attention"
    version = 1
    question = "How far is the attention of each head from that of the reference?"
    reference = "Kovaleva et al. 2019; Hao et al. 2020"
    asks_random_weights = True
    metrics = (
        sum_metric("divergence_bits", "Jensen–Shannon divergence of attention from a word, mean over words"),
        sum_metric("map_cosine", "cosine of the maps of a sentence, mean over sentences", higher_is_better=False),
    )

    def of_sentence(self, model: Floats, reference: Floats) -> Mapping[str, tuple[Floats, float]]:
        """Sums over the words of a sentence, and the cosine of its maps."""
        mean = (model + reference) / 2
        divergence = _entropy(mean) - (_entropy(model) + _entropy(reference)) / 2
        lengths = [np.sqrt(np.einsum("lhwc,lhwc->lh", one, one)) for one in (model, reference)]
        cosine = np.einsum("lhwc,lhwc->lh", model, reference) / (lengths[0] * lengths[1])
        return {
            "divergence_bits": (divergence.sum(axis=-1), float(model.shape[2])),
            "map_cosine": (cosine, 1.0),
        }


def _entropy(distributions: Floats) -> Floats:
    """``[layer, head, word]`` in bits."""
    from scipy.special import entr

    return np.asarray(entr(distributions).sum(axis=-1) / np.log(2))
