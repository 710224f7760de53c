"""How long the vectors are that attention weighs (Kobayashi et al. 2020, section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bertology.encoders.interventions import head_projection
from bertology.errors import ModelError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

# Families in which a head's output is α (x W_V + b_V) W_O and nothing else.
_FAMILIES = ("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")


def knows_norms(family: str) -> bool:
    """Whether norms can be had of a family of models."""
    return family in _FAMILIES


def check_norms(encoder: Encoder) -> None:
    """Refuse norms where it is not known how they come about.

    Raises:
        ModelError: the family is not one of those.
    """
    if not knows_norms(encoder.family):
        raise ModelError(
            f"model {encoder.name}: norms of transformed values are known for {', '.join(_FAMILIES)}, "
            f"not for {encoder.family}: take raw weights"
        )


def value_norms(values: Tensor, layer: int, encoder: Encoder) -> Tensor:
    """‖f(x)‖ of every piece and head, f(x) = (x W_V + b_V) W_O with the rows of W_O that are the head's own (eq. 5).

    Attention weighs f(x) by α, which is one number, so ‖α f(x)‖ = α ‖f(x)‖.

    Args:
        values: ``[batch, piece, dim]`` what the block's value projection gives.
        layer: whose they are, from 1.
        encoder: whose layer it is.

    Returns:
        ``[batch, head, piece]``

    Raises:
        SignalError: norms that are not finite.
    """
    n_heads = encoder.n_heads
    own = values.float().view(*values.shape[:2], n_heads, -1)  # [batch, piece, head, value]
    projection: Any = head_projection(encoder.model.blocks[layer - 1], encoder.family)
    weight: Tensor = projection.weight.float().view(-1, n_heads, own.shape[-1])  # [dim, head, value]
    # Of the squared length v W Wᵀ v the middle is the same for all pieces.
    gram = torch.einsum("dhv,dhw->hvw", weight, weight)
    squared = (torch.einsum("bphv,hvw->bphw", own, gram) * own).sum(-1)
    lengths: Tensor = squared.clamp_min(0).sqrt().transpose(1, 2)
    encoder.check_finite("norms of transformed values", {layer: lengths}, by_head=True)
    return lengths
