"""From piece vectors to word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Pooling = Literal["mean", "first", "last"]


@dataclass(frozen=True)
class WordPooling:
    """Which pieces of a flattened batch make up each word; made once a batch, applied to every layer.

    A word's pieces are the range ``first[i] … last[i] − 1`` of the flattened batch ``[batch · piece]``.
    """

    first: Tensor
    """``[word]``"""
    last: Tensor
    """``[word]``, end exclusive"""
    how: Pooling = "mean"

    def __call__(self, hidden: Tensor) -> Tensor:
        """Pool ``hidden [batch, piece, dim]`` into ``[word, dim]``, in at least float32."""
        flat = hidden.flatten(0, 1)
        if self.how == "first":
            return flat[self.first].float()
        if self.how == "last":
            return flat[self.last - 1].float()
        words = flat[self.first].float()
        lengths = self.last - self.first
        # One step a piece position, not a scatter-add: the order of additions is then fixed on every device.
        for offset in range(1, int(lengths.max()) if len(lengths) else 0):
            longer = (lengths > offset).nonzero().squeeze(1)
            words[longer] += flat[self.first[longer] + offset].float()
        return words.div_(lengths.unsqueeze(1))
