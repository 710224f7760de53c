"""From piece vectors to word vectors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bertology.encoders._pieces import Pooling


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
    gaps: Tensor | None = None
    """``[batch · piece]`` bool: pieces inside a range that belong to no word, left out of the mean; None for none."""

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
        counts = lengths.clone()
        for offset in range(1, int(lengths.max()) if len(lengths) else 0):
            longer = (lengths > offset).nonzero().squeeze(1)
            if self.gaps is not None:
                is_gap = self.gaps[self.first[longer] + offset]
                counts[longer[is_gap]] -= 1
                longer = longer[~is_gap]
            words[longer] += flat[self.first[longer] + offset].float()
        return words.div_(counts.unsqueeze(1))
