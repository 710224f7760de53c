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
    """``[window, piece]`` the word of each piece; −1 of special tokens and padding."""
    kinds: Mapping[Kind, Tensor]
    """``[window, piece]`` by kind which pieces are of it."""


def word_batches(text: MaskedText) -> Iterator[WordBatch]:
    """The batches of a text, with the words of its pieces."""
    for batch in text.batches():
        places, is_piece = text.pieces.rows(batch.windows, batch.ids.shape[1])
        words = np.where(is_piece, text.pieces.word_of_piece[places], -1)
        masked = torch.zeros(words.shape, dtype=torch.bool)
        masked[tuple(batch.positions.unbind(1))] = True
        yield WordBatch(batch, words, {"masked": masked, "visible": torch.from_numpy(words >= 0) & ~masked})


@dataclass(frozen=True)
class States:
    """Hidden states of pieces, and the word of each."""

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
                chosen = batch.kinds[kind]
                on_device = chosen.to(states[layers[0]].device)
                vectors[kind].append(torch.stack([states[layer][on_device].float() for layer in layers]).cpu())
                words[kind].append(batch.words[chosen.numpy()])
    return {
        kind: States(ArrayFeatures(torch.cat(vectors[kind], dim=1), layers=layers), np.concatenate(words[kind]))
        for kind in KINDS
    }
