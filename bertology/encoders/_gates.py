"""Head gates: scale what a head hands to its block's output projection (Michel et al. 2019)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bertology.encoders._blocks import watching
from bertology.errors import ModelError

Gates = Mapping[tuple[int, int], "float | Tensor"]
"""Gate by (layer, head), both from 1: one number, or ``[batch]`` one for each row of the batch."""

# Where the projection that mixes the heads lies inside a block, by family.
_PROJECTIONS = {
    "albert": "attention.dense",
    "bart": "self_attn.out_proj",
    "bert": "attention.output.dense",
    "camembert": "attention.output.dense",
    "deberta": "attention.output.dense",
    "deberta-v2": "attention.output.dense",
    "distilbert": "attention.out_lin",
    "electra": "attention.output.dense",
    "gpt2": "attn.c_proj",
    "mbart": "self_attn.out_proj",
    "modernbert": "attn.Wo",
    "mpnet": "attention.attn.o",
    "mt5": "layer.0.SelfAttention.o",
    "roberta": "attention.output.dense",
    "t5": "layer.0.SelfAttention.o",
    "xlm-roberta": "attention.output.dense",
}

# Where the projection that makes the values lies inside a block, by family: heads side by side, as in the other one.
_VALUES = {
    "albert": "attention.value",
    "bart": "self_attn.v_proj",
    "bert": "attention.self.value",
    "camembert": "attention.self.value",
    "deberta-v2": "attention.self.value_proj",
    "distilbert": "attention.v_lin",
    "electra": "attention.self.value",
    "mbart": "self_attn.v_proj",
    "mpnet": "attention.attn.v",
    "mt5": "layer.0.SelfAttention.v",
    "roberta": "attention.self.value",
    "t5": "layer.0.SelfAttention.v",
    "xlm-roberta": "attention.self.value",
}


def head_projection(block: nn.Module, family: str) -> nn.Module:
    """The attention output projection of a block; its input is all heads side by side, head 1 first.

    Raises:
        ModelError: it is not known where this family has it.
    """
    if family not in _PROJECTIONS:
        raise ModelError(f"heads of {family} models cannot be gated: it is known for {', '.join(sorted(_PROJECTIONS))}")
    return block.get_submodule(_PROJECTIONS[family])


def value_projection(block: nn.Module, family: str) -> nn.Module:
    """The projection of a block that makes the values; its output is all heads side by side, head 1 first.

    Raises:
        ModelError: it is not known where this family has it.
    """
    if family not in _VALUES:
        raise ModelError(
            f"heads of {family} models cannot be made to attend to everything alike: where values are projected is "
            f"known for {', '.join(sorted(_VALUES))}; gate them instead"
        )
    return block.get_submodule(_VALUES[family])


def check_gates(gates: Gates, *, n_layers: int, n_heads: int) -> None:
    """Refuse gates of heads that the model does not have.

    Raises:
        ModelError: a layer or head is out of range, or a gate is neither one number nor one for each row.
    """
    for (layer, head), gate in gates.items():
        name = f"L{layer}H{head}"
        if not 1 <= layer <= n_layers:
            raise ModelError(f"head {name}: the model has {n_layers} layers, so gates are of layers 1…{n_layers}")
        if not 1 <= head <= n_heads:
            raise ModelError(f"head {name}: each layer has {n_heads} heads, so heads are 1…{n_heads}")
        if isinstance(gate, Tensor) and gate.numel() != 1 and gate.ndim != 1:
            raise ModelError(
                f"head {name}: a gate is one number, or one for each row of the batch, "
                f"not a tensor of shape {tuple(gate.shape)}"
            )


def need_gradients(gates: Gates) -> bool:
    """Whether a backward pass is to reach any of the gates."""
    return any(isinstance(gate, Tensor) and gate.requires_grad for gate in gates.values())


@contextlib.contextmanager
def gating(body: nn.Module, blocks: list[nn.Module], gates: Gates, *, n_heads: int, family: str) -> Iterator[None]:
    """Multiply the heads of ``gates`` by their gate in every forward pass inside the block."""
    with watching(body, blocks) as watch, contextlib.ExitStack() as stack:

        def scale(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            factors = _factors(gates, watch.current, n_heads, args[0])
            if factors is None:
                return None
            heads = args[0].unflatten(-1, (n_heads, -1))  # [batch, piece, head, dim / head]
            return ((heads * factors[..., None, :, None]).flatten(-2), *args[1:])

        for projection in dict.fromkeys(head_projection(block, family) for block in blocks):
            stack.callback(projection.register_forward_pre_hook(scale).remove)
        yield


def _factors(gates: Gates, layer: int, n_heads: int, like: Tensor) -> Tensor | None:
    """``[head]`` or ``[batch, head]`` gates of one layer, 1 where none is set; ``None`` where the layer has none."""
    own = {head: gate for (of, head), gate in gates.items() if of == layer}
    if not own:
        return None
    one = like.new_ones(())
    values = [torch.as_tensor(own.get(head, one)).to(like) for head in range(1, n_heads + 1)]
    rows = {value.numel() for value in values if value.numel() != 1}
    if rows - {len(like)}:
        raise ModelError(f"layer {layer}: gates of {max(rows - {len(like)})} rows for a batch of {len(like)}")
    if not rows:
        return torch.stack([value.reshape(()) for value in values])
    return torch.stack([value.reshape(-1).expand(len(like)) for value in values], dim=1)
