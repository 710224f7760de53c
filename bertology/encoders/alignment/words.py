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
        for longer, pieces in self._further_pieces:
            words[longer] += flat[pieces].float()
        return words.div_(self._counts)

    @cached_property
    def _further_pieces(self) -> list[tuple[Tensor, Tensor]]:
        """The words that have a second, third … piece, and those pieces.

        Added one position at a time, not by scatter-add: the order of additions is then fixed on every device.
        """
        lengths = self.last - self.first
        steps = []
        for offset in range(1, int(lengths.max()) if len(lengths) else 0):
            longer = (lengths > offset).nonzero().squeeze(1)
            pieces = self.first[longer] + offset
            if self.gaps is not None:
                is_piece = ~self.gaps[pieces]
                longer, pieces = longer[is_piece], pieces[is_piece]
            steps.append((longer, pieces))
        return steps

    @cached_property
    def _counts(self) -> Tensor:
        """``[word, 1]`` how many pieces each has."""
        counts = torch.ones_like(self.first)
        for longer, _ in self._further_pieces:
            counts[longer] += 1
        return counts.unsqueeze(1)


def word_attentions(
    maps: Tensor, first: ArrayLike, last: ArrayLike, *, specials: Sequence[int] = (), gaps: Sequence[int] = ()
) -> Tensor:
    """Attention maps over words: *to* a word is the sum over its pieces, *from* a word the mean over them.

    Rows keep summing to 1 as far as every piece belongs to exactly one word or special: attention to pieces that
    belong to none is cropped, attention to a piece that two words share counts for both.

    Args:
        maps: ``[..., piece, piece]`` attention from (rows) each piece to (columns) each piece of one window.
        first: ``[word]`` first piece of each word in the window.
        last: ``[word]`` end of its pieces, exclusive; every word has at least one.
        specials: pieces (``[CLS]``, ``[SEP]``) to keep as rows and columns of their own after the words, in this
            order; others are cropped.
        gaps: pieces between those of one word that belong to none (white space): cropped as well.

    Returns:
        ``[..., word + special, word + special]``

    Raises:
        ValueError: a word has no pieces, or pieces outside the map.
    """
    n_pieces = maps.shape[-1]
    kept = torch.tensor(list(specials), dtype=torch.long)
    starts, ends = torch.cat([torch.as_tensor(first).long(), kept]), torch.cat([torch.as_tensor(last).long(), kept + 1])
    if bool((ends <= starts).any()) or bool((starts < 0).any()) or bool((ends > n_pieces).any()):
        raise ValueError(f"every word needs at least one piece, all of them in 0…{n_pieces - 1}")
    places = torch.arange(n_pieces)
    member = (places >= starts[:, None]) & (places < ends[:, None])  # [word, piece]
    member[:, list(gaps)] = False
    member = member.to(maps)
    return (member / member.sum(-1, keepdim=True)) @ maps @ member.T
