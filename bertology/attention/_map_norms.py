"""Lengths of what units add to each other in one layer, of which no more is computed than a statistic asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bertology.attention._texts import Inputs


@dataclass(frozen=True, eq=False)
class MapNorms:
    """‖αf(x)‖ of one layer for a few texts (Kobayashi et al. 2020), merged to words as the maps are: what is added *to*
    a word is averaged over its pieces, what comes *from* a word summed."""

    maps: Tensor
    """``[sentence, head, piece, piece]`` α as the model gives it."""
    lengths: Tensor
    """``[sentence, head, piece]`` ‖f(x)‖."""
    inputs: Inputs
    """How pieces become units."""

    @cached_property
    def between(self) -> Tensor:
        """``[sentence, head, unit, unit]`` to (rows) each unit from (columns) each unit."""
        return self.inputs.merged(self.maps.float() * self.lengths[:, :, None])

    @cached_property
    def given(self) -> Tensor:
        """``[sentence, head, unit]`` what each unit adds to all words whose rows count, summed: the maps are read once,
        and no second table of their size is made."""
        weights = self.inputs.row_shares[:, None, None]  # [sentence, 1, 1, piece]
        by_piece = (weights @ self.maps.float()).squeeze(2) * self.lengths
        member = self.inputs.member
        return by_piece if member is None else by_piece @ member.transpose(1, 2)

    @cached_property
    def kept(self) -> Tensor:
        """``[sentence, head]`` what the words whose rows count add to themselves, summed."""
        rows, columns, weights = self.inputs.own_cells
        n_pieces = self.maps.shape[-1]
        cells = (rows * n_pieces + columns)[:, None].expand(-1, self.maps.shape[1], -1)
        lengths = self.lengths.gather(2, columns[:, None].expand_as(cells))
        weighed = self.maps.flatten(2).gather(2, cells).float() * lengths
        return torch.einsum("shc,sc->sh", weighed, weights)
