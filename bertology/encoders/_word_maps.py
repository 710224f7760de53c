"""Attention between words, from attention between pieces (Clark et al. 2019, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor


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
    starts = torch.cat([torch.as_tensor(first).long(), torch.tensor(list(specials), dtype=torch.long)])
    ends = torch.cat([torch.as_tensor(last).long(), torch.tensor(list(specials), dtype=torch.long) + 1])
    if bool((ends <= starts).any()) or bool((starts < 0).any()) or bool((ends > n_pieces).any()):
        raise ValueError(f"every word needs at least one piece, all of them in 0…{n_pieces - 1}")
    places = torch.arange(n_pieces)
    member = (places >= starts[:, None]) & (places < ends[:, None])  # [word, piece]
    member[:, list(gaps)] = False
    member = member.to(maps)
    return (member / member.sum(-1, keepdim=True)) @ maps @ member.T
