"""How long the vectors are that attention weighs (Kobayashi et al. 2020, section 3)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bertology.encoders._gates import head_projection
from bertology.errors import ModelError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

# Where the projection that makes the values lies inside a block, by family.
_VALUES = {
    "albert": "attention.value",
    "bert": "attention.self.value",
    "camembert": "attention.self.value",
    "distilbert": "attention.v_lin",
    "electra": "attention.self.value",
    "mpnet": "attention.attn.v",
    "roberta": "attention.self.value",
    "xlm-roberta": "attention.self.value",
}


def knows_norms(family: str) -> bool:
    """Whether :func:`watching_values` can be asked of a family."""
    return family in _VALUES


@contextlib.contextmanager
def watching_values(encoder: Encoder) -> Iterator[dict[int, Tensor]]:
    """Norms ‖f(x)‖ of what each head makes of each piece, ``[head, piece]`` by layer, after a pass inside the block.

    f(x) = (x W_V + b_V) W_O, with the rows of W_O that are the head's own. Attention weighs f(x) by α, which is one
    number, so ‖α f(x)‖ = α ‖f(x)‖.

    Raises:
        ModelError: it is not known where this family has its values.
    """
    if not knows_norms(encoder.family):
        raise ModelError(
            f"norm-weighted attention of {encoder.family} models is not known how to compute, "
            f"but of {', '.join(sorted(_VALUES))}: take raw weights"
        )
    blocks = encoder.model.blocks
    norms: dict[int, Tensor] = {}

    def keep(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        layer = len(norms) + 1
        values = output[0].reshape(output.shape[1], encoder.n_heads, -1)  # [piece, head, dim / head]
        weight = head_projection(blocks[layer - 1], encoder.family).get_parameter("weight")  # [dim, head · dim / head]
        own = weight.reshape(len(weight), encoder.n_heads, -1)  # [dim, head, dim / head]
        vectors = torch.einsum("phi,dhi->hpd", values.float(), own.float())
        norms[layer] = vectors.norm(dim=-1)

    # ALBERT's blocks share their modules, so that one hook serves several layers.
    modules = dict.fromkeys(block.get_submodule(_VALUES[encoder.family]) for block in blocks)
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(keep).remove)
        yield norms
