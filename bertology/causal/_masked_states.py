"""Hidden states of the pieces of words in a text of which some words are masked: what erasures are fitted to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong
from bertology.encoders.masked_loss import MaskedBatch, MaskedText
from bertology.readouts import ArrayFeatures, FeatureSource

Kind = Literal["masked", "visible"]
KINDS: tuple[Kind, ...] = ("masked", "visible")
"""What a mask knows of its word lies elsewhere than what a word knows of itself: each kind has an erasure."""


@dataclass(frozen=True)
class WordBatch:
    """A batch of a text with masked words, and what its pieces belong to."""

    input: MaskedBatch
    words: NDArray[np.int64]
    """``[place]`` the word of each subword; a subword that words share is a place of each of them."""
    positions: Tensor
    """``[place, 2]`` row in the batch and subword in the row."""
    kinds: Mapping[Kind, Tensor]
    """``[window, piece]`` by kind which subwords of words are of it; special tokens and padding are of neither."""

    def states(self, state: Tensor, kind: Kind) -> tuple[Tensor, NDArray[np.int64]]:
        """``[place, dim]`` states of the places of a kind, and ``[place]`` their words."""
        rows, columns = self.positions.unbind(1)
        chosen = self.kinds[kind][rows, columns]
        return state[rows[chosen].to(state.device), columns[chosen].to(state.device)], self.words[chosen.numpy()]


def word_batches(text: MaskedText) -> Iterator[WordBatch]:
    """The batches of a text, with the words of its subwords."""
    every = text.pieces.places_of(np.flatnonzero(text.pieces.word_window >= 0))
    for batch in text.batches():
        places, positions = every.inside(batch.windows)
        masked, is_word = torch.zeros((2, *batch.ids.shape), dtype=torch.bool)
        masked[tuple(batch.positions.unbind(1))] = True
        is_word[tuple(positions.T)] = True
        kinds: dict[Kind, Tensor] = {"masked": masked, "visible": is_word & ~masked}
        yield WordBatch(batch, every.word[places], torch.from_numpy(positions), kinds)


@dataclass(frozen=True)
class States:
    """Hidden states of the subwords of words; one that words share is an item of each."""

    vectors: FeatureSource
    words: NDArray[np.int64]
    """``[item]``"""


def states_of_words(
    encoder: Encoder,
    sentences: Sentences,
    *,
    layers: Sequence[int],
    share: float,
    n_maskings: int,
    seed: int,
    on_long: OnLong,
) -> dict[Kind, States]:
    """States of all pieces of words, by whether they are masked: in float32, all in memory.

    Args:
        encoder: a masked language model.
        sentences: the text.
        layers: whose states.
        share: of the words of a sentence that are masked at once.
        n_maskings: how often the text is read, with other words masked; visible words are kept of the first time.
        seed: of the choices.
        on_long: as in :meth:`Encoder.tokenize`.
    """
    vectors: dict[Kind, list[Tensor]] = {kind: [] for kind in KINDS}
    words: dict[Kind, list[NDArray[np.int64]]] = {kind: [] for kind in KINDS}
    for masking in range(n_maskings):
        text = MaskedText(encoder, sentences, share=share, seed=seed + masking, on_long=on_long)
        for batch in word_batches(text):
            states = encoder.hidden_states(batch.input.ids, batch.input.mask, layers=layers)
            for kind in KINDS if masking == 0 else ("masked",):
                of_kind = [batch.states(states[layer], kind) for layer in layers]
                vectors[kind].append(torch.stack([state.float() for state, _ in of_kind]).cpu())
                words[kind].append(of_kind[0][1])
    return {
        kind: States(ArrayFeatures(torch.cat(vectors[kind], dim=1), layers=layers), np.concatenate(words[kind]))
        for kind in KINDS
    }
