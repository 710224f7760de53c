"""From pieces to words: vectors of words, and attention between words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from bertology.encoders.alignment.pieces import Pooling


@dataclass(frozen=True)
class WordPooling:
    """Vectors of words from those of their pieces; made once a batch, applied to every layer.

    The pieces of word ``i`` are ``first[i] … last[i] − 1`` of the flattened batch ``[batch · piece]``.
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
        for longer, pieces in self._further_pieces:
            words[longer] += flat[pieces].float()
        return words.div_((self.last - self.first).unsqueeze(1))

    @cached_property
    def _further_pieces(self) -> list[tuple[Tensor, Tensor]]:
        """The words that have a second, third … piece, and those pieces.

        Added one position at a time, not by scatter-add: the order of additions is then fixed on every device.
        """
        lengths = self.last - self.first
        steps = []
        for offset in range(1, int(lengths.max()) if len(lengths) else 0):
            longer = (lengths > offset).nonzero().squeeze(1)
            steps.append((longer, self.first[longer] + offset))
        return steps


def word_attentions(maps: Tensor, first: ArrayLike, last: ArrayLike, *, specials: Sequence[int] = ()) -> Tensor:
    """Attention maps over words: *to* a word is the sum over its pieces, *from* a word the mean over them.

    Attention to a piece that several words share is divided equally among them. So rows sum to 1 where every piece
    belongs to a word or is among ``specials``; attention to others is cropped.

    Args:
        maps: ``[..., piece, piece]`` attention from (rows) each piece to (columns) each piece of one window.
        first: ``[word]`` first piece of each word in the window.
        last: ``[word]`` end of its pieces, exclusive; every word has at least one.
        specials: pieces (``[CLS]``, ``[SEP]``) to keep as rows and columns of their own after the words, in this
            order; others are cropped.

    Returns:
        ``[..., word + special, word + special]``

    Raises:
        ValueError: a word has no pieces, or pieces outside the map.
    """
    n_pieces = maps.shape[-1]
    kept = torch.tensor(list(specials), dtype=torch.long)
    starts = torch.cat([torch.as_tensor(first).long(), kept])
    ends = torch.cat([torch.as_tensor(last).long(), kept + 1])
    if bool((ends <= starts).any()) or bool((starts < 0).any()) or bool((ends > n_pieces).any()):
        raise ValueError(f"every word needs at least one piece, all of them in 0…{n_pieces - 1}")
    places = torch.arange(n_pieces)
    member = ((places >= starts[:, None]) & (places < ends[:, None])).to(maps)  # [unit, piece]
    return row_weights(member) @ maps @ column_weights(member).mT


def row_weights(member: Tensor) -> Tensor:
    """``[..., unit, piece]`` weight of each piece in the mean over those of its unit; ``member`` is 1 for these."""
    return member / member.sum(-1, keepdim=True).clamp_min(1)


def column_weights(member: Tensor) -> Tensor:
    """``[..., unit, piece]`` share of each piece that counts for a unit: a shared piece is divided equally."""
    return member / member.sum(-2, keepdim=True).clamp_min(1)
