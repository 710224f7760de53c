"""Faster forward passes with the same result up to rounding: only the places that are read, and packed weights.

*At few places.* A masked-LM head reads few places of a text. Of the last block a place needs its own query and the
hidden states that it attends to; this takes an eighth off the time of prompts with one mask in a model of six blocks.

*Packed weights.* oneDNN, which comes with PyTorch, packs a float32 weight once into the blocks its kernels read; on AMD
processors its products take about three quarters of the time, and an exact GELU behind a linear map is computed while
the result is still in the cache. Sums are in another order, so that the last digits differ, as they do between
processors. No other module uses private operators of PyTorch; ``benchmarks/extraction.py`` shows what these are worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bertology.encoders._modules import LoadedModel, run_to_layers

_MOST_PLACES_A_ROW = 4
_LEAST_PIECES_A_PLACE = 4


@dataclass(frozen=True)
class _Parts:
    """The parts of a block."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    rest: Callable[[Tensor, Tensor], Tensor]
    """Function from the heads' outputs side by side and the block's input, ``[place, dim]`` both, to its output."""


def states_at(
    model: LoadedModel,
    inputs: dict[str, Tensor],
    layers: frozenset[int],
    positions: Tensor,
    *,
    family: str,
    n_heads: int,
) -> dict[int, Tensor]:
    """``[place, dim]`` hidden states of ``layers`` at some places, running no more of the deepest block than needed.

    Where that block cannot be taken apart (:func:`_can_be_narrow`) it is run at all pieces, with the same result up to
    rounding. ``positions [place, 2]`` are row and piece.
    """
    deepest, n_places, ids = max(layers), len(positions), inputs["input_ids"]
    rows, columns = positions.unbind(-1)
    # Few enough for each to have a copy of its row's hidden states, and to gain by it.
    are_few = n_places <= _MOST_PLACES_A_ROW * len(ids) and n_places * _LEAST_PIECES_A_PLACE <= ids.numel()
    if not (are_few and _can_be_narrow(model, deepest, family)):
        states = run_to_layers(model.body, model.blocks, inputs, layers)
        return {layer: state[rows, columns] for layer, state in states.items()}
    states = run_to_layers(model.body, model.blocks, inputs, layers - {deepest} | {deepest - 1})
    at_places = {layer: states[layer][rows, columns] for layer in sorted(layers - {deepest})}
    parts = _PARTS[family](model.blocks[deepest - 1])
    mask = inputs.get("attention_mask")
    return at_places | {deepest: _block_at(parts, states[deepest - 1], mask, positions, n_heads)}


def _can_be_narrow(model: LoadedModel, deepest: int, family: str) -> bool:
    """Whether the deepest block's output at a place is a function of known parts alone.

    Half precision is left to the model itself, since its rounding depends on the order of products.
    """
    config = model.body.config
    # Attention that looks both ways, and at nothing but hidden states: no decoder, no relative positions.
    is_decoder = getattr(config, "is_decoder", False)
    if not model.is_stock or is_decoder or getattr(config, "position_embedding_type", "absolute") != "absolute":
        return False
    if deepest == 0 or family not in _PARTS:
        return False
    block = model.blocks[deepest - 1]
    if not type(block).__module__.startswith("transformers.") or _is_hooked(model.body, block):
        return False
    parts = _PARTS[family](block)
    linears = (parts.query, parts.key, parts.value)
    return all(type(linear) is nn.Linear and linear.weight.dtype == torch.float32 for linear in linears)


def _is_hooked(body: nn.Module, block: nn.Module) -> bool:
    """Whether hooks change what this block computes, as gates do, or look at it.

    Hooks of transformers do not count: they record outputs for its own forward pass, and stay once they have been used.
    """
    hooks = [*body._forward_hooks.values(), *block._forward_hooks.values()]
    for module in block.modules():
        if module is not block:
            hooks += [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
    return not all(getattr(hook, "__module__", "").startswith("transformers.") for hook in hooks)


def _block_at(parts: _Parts, hidden: Tensor, mask: Tensor | None, positions: Tensor, n_heads: int) -> Tensor:
    """``[place, dim]`` output of a block at some places, of its input ``hidden [row, piece, dim]``.

    Neither keys nor values are formed: a head's key map is applied to the query and its value map to the weighted mean
    of the hidden states, one product a place instead of one a piece. Biases of keys add the same to all scores of a
    query, so drop out of the softmax; biases of values pass through it unchanged, since weights sum to 1.
    """
    rows, columns = positions.unbind(-1)
    inputs, pieces = hidden[rows, columns], hidden[rows]  # [place, dim], [place, piece, dim]
    queries = parts.query(inputs).unflatten(-1, (n_heads, -1)).transpose(0, 1)  # [head, place, dim / head]
    to_keys = parts.key.weight.reshape(n_heads, -1, inputs.shape[-1])  # [head, dim / head, dim]
    to_values = parts.value.weight.reshape(n_heads, -1, inputs.shape[-1])
    mapped = torch.bmm(queries * queries.shape[-1] ** -0.5, to_keys).transpose(0, 1)  # [place, head, dim]
    scores = torch.bmm(mapped, pieces.transpose(1, 2))  # [place, head, piece]
    if mask is not None:
        scores = scores.masked_fill(mask[rows, None] == 0, torch.finfo(scores.dtype).min)
    means = torch.bmm(scores.softmax(-1), pieces).transpose(0, 1)  # [head, place, dim]
    values = torch.bmm(means, to_values.transpose(1, 2)).transpose(0, 1).flatten(1)
    return parts.rest(values if parts.value.bias is None else values + parts.value.bias, inputs)


def _bert_parts(block: Any) -> _Parts:
    attention = block.attention

    def rest(values: Tensor, inputs: Tensor) -> Any:
        attended = attention.output(values, inputs)
        return block.output(block.intermediate(attended), attended)

    return _Parts(attention.self.query, attention.self.key, attention.self.value, rest)


def _distilbert_parts(block: Any) -> _Parts:
    attention = block.attention

    def rest(values: Tensor, inputs: Tensor) -> Any:
        attended = block.sa_layer_norm(attention.out_lin(values) + inputs)
        return block.output_layer_norm(block.ffn.ff_chunk(attended) + attended)

    return _Parts(attention.q_lin, attention.k_lin, attention.v_lin, rest)


_PARTS: dict[str, Callable[[Any], _Parts]] = {
    **dict.fromkeys(("bert", "camembert", "electra", "roberta", "xlm-roberta"), _bert_parts),
    "distilbert": _distilbert_parts,
}


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether packed weights are known to be faster: in float32, on x86 processors, where PyTorch has oneDNN."""
    has_one_dnn: Callable[[], bool] = torch.backends.mkldnn.is_available
    return (
        device.type == "cpu"
        and dtype == torch.float32
        and has_one_dnn()
        and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def pack(body: nn.Module) -> None:
    """Pack the weights of all linear maps in ``body``, which must share no module with another encoder.

    The weights themselves stay as they are; packed copies take as much memory again. Gradients do not pass.
    """
    for module in body.modules():
        dense, activation = getattr(module, "dense", None), getattr(module, "intermediate_act_fn", None)
        if type(dense) is nn.Linear and _is_exact_gelu(activation):
            dense.__dict__["forward"] = _packed(dense, "gelu")
            module.intermediate_act_fn = nn.Identity()
    for module in body.modules():
        if type(module) is nn.Linear and "forward" not in module.__dict__:
            module.__dict__["forward"] = _packed(module, "none")


def _packed(linear: nn.Linear, after: Literal["none", "gelu"]) -> Callable[[Tensor], Tensor]:
    """``linear`` as a function that holds only tensors, so that copies of the module share it."""
    multiply: Any = torch.ops.mkldnn._linear_pointwise
    with torch.inference_mode(mode=False):
        weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().contiguous())
    bias = None if linear.bias is None else linear.bias.detach()

    def forward(values: Tensor) -> Any:
        """``[…, out]`` of ``[…, in]``."""
        return multiply(values, weight, bias, after, [], "none")

    return forward


def _is_exact_gelu(activation: object) -> bool:
    """Whether ``activation`` is the GELU by the error function, not an approximation."""
    if isinstance(activation, nn.GELU):
        return activation.approximate == "none"
    return type(activation).__name__ == "GELUActivation" and getattr(activation, "act", None) is nn.functional.gelu
