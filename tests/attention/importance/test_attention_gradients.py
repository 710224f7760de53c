"""Gradients at attention weights, against moving each weight by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from bertology.attention.importance import MaskedWords, attention_gradients
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder

STEP = 0.02
PUNCTUATION = {".", ",", "?", "!", ";", ":", "'", '"', "-"}


def test_equals_finite_differences(
    own: Encoder, changed_maps: Callable[..., Any], total_loss: Callable[[MaskedWords], float]
) -> None:
    """One short sentence, every weight of two heads moved on its own."""
    sentence = Sentence.from_words(["dog", ",", "that", "sees", "."], id="s0")
    task = MaskedWords(own, Sentences([sentence]), share=0.2)
    gradient, effect = attention_gradients(task)
    kinds = [kind_of(own, number) for number in task.batches[0].ids[0].tolist()]
    assert set(kinds) == {"[CLS]", "[SEP]", "[MASK]", "punctuation", "other"}

    def loss_with(layer: int, head: int, place: tuple[int, int], step: float) -> float:
        def move(here: int, maps: Tensor, mask: Tensor | None) -> Tensor:
            if here == layer:
                maps = maps.clone()
                maps[0, head - 1, *place] += step
            return maps

        with changed_maps(own, move):
            return total_loss(task)

    pieces = range(len(kinds))
    for layer, head in ((1, 2), (3, 4)):
        slopes = np.array([[loss_with(layer, head, (i, j), STEP) for j in pieces] for i in pieces])
        slopes -= [[loss_with(layer, head, (i, j), -STEP) for j in pieces] for i in pieces]
        slopes /= 2 * STEP
        weights = own.attentions(task.batches[0].ids, layers=[layer])[layer][0, head - 1].double().numpy()
        for kind in set(kinds):
            columns = [place for place, other in enumerate(kinds) if other == kind]
            mean = np.abs(slopes[:, columns]).mean()
            assert gradient.of(kind)[layer - 1, head - 1] == pytest.approx(mean, rel=0.03, abs=2e-4)
            summed = abs((weights * slopes)[:, columns].sum())
            assert effect.of(kind)[layer - 1, head - 1] == pytest.approx(summed, rel=0.03, abs=1e-4)


def kind_of(own: Encoder, number: int) -> str:
    form = own.tokenizer.convert_ids_to_tokens(number)
    if form in {"[CLS]", "[SEP]", "[MASK]"}:
        return str(form)
    return "punctuation" if form in PUNCTUATION else "other"
