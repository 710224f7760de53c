"""What the rows and columns of a batch of maps between pieces are, as features and pictures of them need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._batch import Units
from bertology.attention.patterns._kinds import CLS, PADDING, PIECE, PUNCTUATION, SEP


@dataclass(frozen=True, eq=False)
class Layout:
    """The pieces of some texts, or pairs of texts."""

    kinds: Tensor
    """``[text, piece]`` :data:`PIECE`, :data:`CLS`, :data:`SEP`, :data:`PUNCTUATION`; :data:`PADDING` at the end."""

    @classmethod
    def of_units(cls, units: Units) -> Layout:
        """The layout of a batch at piece level."""
        lengths = torch.from_numpy(np.asarray(units.lengths)).to(units.word.device)
        inside = torch.arange(units.word.shape[1], device=units.word.device) < lengths[:, None]
        kinds = torch.where(inside, PIECE, PADDING)
        kinds = torch.where(units.is_punctuation, PUNCTUATION, kinds)
        return cls(torch.where(units.is_cls, CLS, torch.where(units.is_sep, SEP, kinds)))

    @classmethod
    def of_texts(cls, kinds: Sequence[NDArray[np.int8]]) -> Layout:
        """The layout of texts of any lengths."""
        table = torch.full((len(kinds), max(map(len, kinds))), PADDING)
        for row, own in enumerate(kinds):
            table[row, : len(own)] = torch.from_numpy(own.astype(np.int64))
        return cls(table)

    @cached_property
    def inside(self) -> Tensor:
        """``[text, piece]`` all but padding."""
        return self.kinds != PADDING

    @cached_property
    def lengths(self) -> Tensor:
        """``[text]`` as floating-point numbers."""
        return self.inside.sum(-1).float()

    @cached_property
    def rows(self) -> Tensor:
        """``[text, piece]`` pieces of words; special ones do not decide on a class."""
        return (self.kinds == PIECE) | (self.kinds == PUNCTUATION)

    @cached_property
    def is_second(self) -> Tensor:
        """``[text, piece]`` whether a piece stands after a ``[SEP]`` that is not the text's last."""
        is_sep = self.kinds == SEP
        before = is_sep.cumsum(-1) - is_sep.long()
        return (before > 0) & self.inside

    @cached_property
    def in_sentence(self) -> Tensor:
        """``[text, sentence, piece]`` rows of the first and of the second sentence; no row where there is none."""
        return torch.stack([self.rows & ~self.is_second, self.rows & self.is_second], dim=1)

    @cached_property
    def is_pair(self) -> Tensor:
        """``[text]`` whether a second sentence follows a ``[SEP]``."""
        return self.in_sentence[:, 1].any(-1)

    @cached_property
    def same_sentence(self) -> Tensor:
        """``[text, row, column]`` words of one sentence, in texts that are pairs."""
        own = (self.in_sentence[:, :, :, None] & self.in_sentence[:, :, None, :]).any(1)
        return own & self.is_pair[:, None, None]
