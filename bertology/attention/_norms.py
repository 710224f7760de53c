"""Lengths of what units add to each other through a head, ‖αf(x)‖ (Kobayashi et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bertology.attention._texts import Inputs
from bertology.encoders.interventions import head_projection, is_plain_linear
from bertology.errors import ModelError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

# Families in which a head's output is α (x W_V + b_V) W_O and nothing else.
_FAMILIES = ("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")


def knows_norms(encoder: Encoder) -> bool:
    """Whether it is known how a model transforms values: by its family, unless these parts of it were changed."""
    if encoder.family not in _FAMILIES or encoder.model.is_stock:
        return encoder.family in _FAMILIES
    return all(is_plain_linear(head_projection(block, encoder.family)) for block in encoder.model.blocks)


def check_norms(encoder: Encoder) -> None:
    """Raise a ``ModelError`` where it is not known how the family transforms values."""
    if not knows_norms(encoder):
        raise ModelError(
            f"model {encoder.name}: norms of transformed values are known for {', '.join(_FAMILIES)}, "
            f"not for {encoder.family if encoder.family not in _FAMILIES else 'changed projections'}: take raw weights"
        )


def value_norms(values: Tensor, layer: int, encoder: Encoder) -> Tensor:
    """‖f(x)‖ of every piece and head, f(x) = (x W_V + b_V) W_O with the rows of W_O that are the head's own (eq. 5).

    Attention weighs f(x) by α, which is one number, so ‖α f(x)‖ = α ‖f(x)‖. Of ``[batch, piece, dim]`` output of the
    block's value projection, ``[batch, head, piece]``; a :class:`SignalError` where they are not finite.
    """
    n_heads = encoder.n_heads
    by_head = values.float().view(*values.shape[:2], n_heads, -1)  # [batch, piece, head, value]
    projection: Any = head_projection(encoder.model.blocks[layer - 1], encoder.family)
    weight: Tensor = projection.weight.float().view(-1, n_heads, by_head.shape[-1])  # [dim, head, value]
    # Of the squared length v W Wᵀ v the middle is the same for all pieces.
    gram = torch.einsum("dhv,dhw->hvw", weight, weight)
    squared = (torch.einsum("bphv,hvw->bphw", by_head, gram) * by_head).sum(-1)
    lengths: Tensor = squared.clamp_min(0).sqrt().transpose(1, 2)
    encoder.check_finite("norms of transformed values", {layer: lengths}, by_head=True)
    return lengths


@dataclass(frozen=True, eq=False)
class MapNorms:
    """‖αf(x)‖ of one layer for a few texts, computed only as far as a statistic needs it.

    Norms are merged to words as maps are: what is added *to* a word is averaged over its pieces, what comes *from* a
    word is summed.
    """

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
        return by_piece if self.inputs.member is None else by_piece @ self.inputs.columns.transpose(1, 2)

    @cached_property
    def kept(self) -> Tensor:
        """``[sentence, head]`` what the words whose rows count add to themselves, summed."""
        rows, columns, weights = self.inputs.own_cells
        n_pieces = self.maps.shape[-1]
        cells = (rows * n_pieces + columns)[:, None].expand(-1, self.maps.shape[1], -1)
        lengths = self.lengths.gather(2, columns[:, None].expand_as(cells))
        weighed = self.maps.flatten(2).gather(2, cells).float() * lengths
        return torch.einsum("shc,sc->sh", weighed, weights)
