"""The rows and columns of attention maps, and how maps between pieces become maps between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._ratios import Integers

_UNITS_IN_BAND = 64

Bands = tuple[tuple[slice, slice], ...]


@dataclass(frozen=True, eq=False)
class Units:
    """The rows and columns of a batch's maps: words, or pieces, and special tokens where they stand in the text.

    All tensors are ``[sentence, unit]``. A sentence that is read in windows has several rows, one a window.
    """

    sentences: Integers
    """``[sentence]`` number of each in the text that is read."""
    windows: Integers
    """``[sentence]`` number of the window that shows it."""
    lengths: Integers
    """``[sentence]`` number of units, without padding."""
    word: Tensor
    """Number of the word through all sentences; −1 for special tokens, padding and pieces of no word."""
    position: Tensor
    """Place in the sentence, in words; at piece level in the window, in pieces. Differences are offsets."""
    form: Tensor
    """Code of the word's form, the same for forms that differ in case alone; −1 where there is no word."""
    is_word: Tensor
    """Words, or pieces of words."""
    is_cls: Tensor
    """The special tokens that open a text: ``[CLS]``, ``<s>``."""
    is_sep: Tensor
    """The special tokens that close a text: ``[SEP]``, ``</s>``."""
    is_punctuation: Tensor
    """Words of nothing but punctuation (all characters of Unicode category P)."""
    counts: Tensor
    """Units whose rows are counted: all but padding and, in windows, words that are read from another window."""

    @cached_property
    def word_rows(self) -> Tensor:
        """Words, or pieces of words, whose rows are counted."""
        return self.is_word & self.counts

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True, eq=False)
class Inputs:
    """A batch of windows as the model takes it, and how pieces become units."""

    ids: Tensor
    """``[sentence, piece]``"""
    mask: Tensor | None
    """``[sentence, piece]`` None where nothing is padded."""
    types: Tensor | None
    """``[sentence, piece]`` token types; None where all are 0."""
    member: Tensor | None
    """``[sentence, unit, piece]`` 1 where a piece belongs to a unit; None at piece level."""
    units: Units
    bands: Bands
    """Runs of units, and the pieces that belong to any of them: in long texts ``member`` is nothing but a band of ones,
    and a product with all of it would take longer than the model does."""

    def merged(self, maps: Tensor) -> Tensor:
        """Maps between pieces ``[sentence, head, piece, piece]`` as maps between units."""
        maps = maps.float()
        if self.member is None:
            return maps
        n_heads, n_pieces = maps.shape[1:3]
        flat, turned = maps.flatten(1, 2), self.member.transpose(1, 2)
        columns = [torch.bmm(flat[..., pieces], turned[:, pieces, units]) for units, pieces in self.bands]
        to_units = _joined(columns, dim=-1).view(len(maps), n_heads, n_pieces, -1)
        shares = self._shares[:, None]
        return _joined([shares[:, :, units, pieces] @ to_units[:, :, pieces] for units, pieces in self.bands], dim=2)

    @cached_property
    def row_shares(self) -> Tensor:
        """``[sentence, piece]`` how much the row of a piece counts in a sum over the words whose rows count."""
        rows = self.units.word_rows.float()
        return rows if self.member is None else torch.einsum("su,sup->sp", rows, self._shares)

    @cached_property
    def own_cells(self) -> tuple[Tensor, Tensor, Tensor]:
        """``[sentence, cell]`` row and column of the cells that lie within a word whose row counts, and how much each
        adds to what that word keeps; 0 where a sentence has fewer such cells than another."""
        rows = self.units.word_rows.float()
        if self.member is None:
            within = torch.diag_embed(rows)
        else:
            within = (rows[:, :, None] * self._shares).transpose(1, 2) @ self.member  # [sentence, piece, piece]
        n_cells = int((within > 0).flatten(1).sum(1).max())
        weights, cells = within.flatten(1).topk(n_cells, dim=1)
        return cells // within.shape[-1], cells % within.shape[-1], weights

    @cached_property
    def _shares(self) -> Tensor:
        """``[sentence, unit, piece]`` how much each piece counts in a mean over those of its unit."""
        if self.member is None:
            raise ValueError("pieces are units of their own")
        return self.member / self.member.sum(-1, keepdim=True).clamp_min(1)


def _joined(parts: list[Tensor], *, dim: int) -> Tensor:
    """Bands as one; a single one, as short texts have, is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def bands_of(member: NDArray[np.float32]) -> Bands:
    """Cut ``[sentence, unit, piece]`` into runs of units and the range of pieces that each needs."""
    needed = np.asarray(member.any(axis=0))  # [unit, piece]
    found = []
    for start in range(0, len(needed), _UNITS_IN_BAND):
        pieces = np.flatnonzero(needed[start : start + _UNITS_IN_BAND].any(0))
        found.append((slice(start, start + _UNITS_IN_BAND), slice(int(pieces[0]), int(pieces[-1]) + 1)))
    return tuple(found)
