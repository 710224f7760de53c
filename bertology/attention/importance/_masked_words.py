"""The masked-LM loss as a scored task."""

from __future__ import annotations

import numpy as np
import torch

from bertology.attention.importance._task import Answers, ScoredTask, TaskBatch
from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong
from bertology.encoders.masked_loss import SHARE, MaskedBatch, MaskedText


class MaskedWords(ScoredTask):
    """Restore masked words: an item is a word, all its pieces masked at once.

    Its loss is −ln of the probability of all its pieces, and it is right where each of them is the most probable one.
    In each sentence the same words are masked as by :func:`masked_lm_loss`.

    Args:
        encoder: a masked language model.
        sentences: what to read; of many sentences some neighbours share a cluster.
        share: of a sentence's words that are masked, at least one.
        seed: of the choice of words.
        on_long: what to do with a sentence longer than the model takes, as in :meth:`Encoder.tokenize`.

    Raises:
        ModelError: no masked-LM head, a share outside 0…1, or no word to mask.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        share: float = SHARE,
        seed: int = 0,
        on_long: OnLong = "window",
    ) -> None:
        super().__init__(encoder, len(sentences))
        self._text = MaskedText(encoder, sentences, share=share, seed=seed, on_long=on_long)
        self._batches = tuple(self._batch(masked) for masked in self._text.batches())

    @property
    def name(self) -> str:
        """``masked_words``."""
        return "masked_words"

    @property
    def batches(self) -> tuple[TaskBatch, ...]:
        """Windows in which words are masked."""
        return self._batches

    def _batch(self, masked: MaskedBatch) -> TaskBatch:
        words, first, of_piece = np.unique(
            self._text.places.word[masked.places], return_index=True, return_inverse=True
        )
        item = torch.from_numpy(of_piece.astype(np.int64))
        rows = masked.positions[torch.from_numpy(first), 0]

        def ask(encoder: Encoder) -> Answers:
            nats, best = masked.ask(encoder)
            by_word = item.to(nats.device)
            wrong = torch.bincount(by_word, weights=(~best).double(), minlength=len(words))
            summed = nats.new_zeros(len(words)).index_add(0, by_word, nats)
            return Answers(summed, wrong == 0, rows.to(nats.device))

        sentences = self._text.pieces.window_sentence[masked.windows].astype(np.int64)
        return TaskBatch(masked.ids, masked.mask, self._scope.clusters(sentences), ask)
