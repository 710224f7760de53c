"""Vectors of a few sentences, without the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bertology.activations._forward import WindowReader
from bertology.corpora import Sentences
from bertology.encoders.batching import plan_batches
from bertology.errors import ModelError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder


def read_words(encoder: Encoder, sentences: Sentences, *, layers: Sequence[int], pooling: str = "mean") -> Tensor:
    """The vectors of all words of some sentences, read now and kept nowhere.

    Args:
        encoder: what reads them.
        sentences: read in windows where they are too long.
        layers: 0 is the embedding output.
        pooling: of a word's pieces: ``mean``, ``first`` or ``last``.

    Returns:
        ``[layer, word, dim]`` float32.

    Raises:
        ModelError: a word has no pieces, and so no vector.
    """
    reader = WindowReader(encoder, sentences, pooling=pooling)
    if reader.skipped:
        _, _, form, reason = reader.skipped[0]
        raise ModelError(f"word {quoted(form)} has no vector ({reason}): leave it out, or take another model")
    vectors = torch.empty(len(layers), sentences.n_words, encoder.dim)
    for batch in plan_batches(reader.lengths):
        words = reader.words_in(batch)
        found = torch.empty(len(layers), len(words), encoder.dim)
        reader.read(batch, layers, into=found)
        vectors[:, torch.from_numpy(words)] = found
    return vectors
