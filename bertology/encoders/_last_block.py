"""The deepest block that is asked for, computed at the places that are read and nowhere else.

A masked-LM head reads few places of a text. All blocks but the last have to be run at every piece, since each piece of
the next attends to all of them; of the last, a place needs its own query and the hidden states that it attends to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bertology.encoders._blocks import run_to_layers

_MOST_PLACES_A_ROW = 4
_LEAST_PIECES_A_PLACE = 4


@dataclass(frozen=True)
class _Parts:
    """What a block is made of."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    rest: Callable[[Tensor, Tensor], Tensor]
    """From what the heads found and the block's input, ``[place, dim]`` both, to its output."""


def states_at(
    body: nn.Module,
    blocks: list[nn.Module],
    inputs: dict[str, Any],
    layers: frozenset[int],
    *,
    positions: Tensor,
    family: str,
    n_heads: int,
) -> dict[int, Tensor]:
    """Hidden states of ``layers`` at some places, running no more of the deepest block than these need.

    Where that block cannot be taken apart (:func:`_can_be_narrow`) it is run at all pieces, with the same result up to
    rounding.

    Args:
        body: the module whose forward pass runs all blocks once, in order.
        blocks: its blocks in that order.
        inputs: of the body; ``input_ids`` and ``attention_mask`` are ``[row, piece]``.
        layers: 0 for the embeddings, then the blocks.
        positions: ``[place, 2]`` row and piece.
        family: the architecture.
        n_heads: of each block.

    Returns:
        ``[place, dim]`` by layer.
    """
    deepest = max(layers)
    rows, columns = positions.unbind(-1)
    if not _can_be_narrow(body, blocks, deepest, family) or not _are_few(positions, inputs["input_ids"]):
        states = run_to_layers(body, blocks, inputs, layers)
        return {layer: state[rows, columns] for layer, state in states.items()}
    states = run_to_layers(body, blocks, inputs, layers - {deepest} | {deepest - 1})
    found = {layer: states[layer][rows, columns] for layer in sorted(layers - {deepest})}
    parts = _PARTS[family](blocks[deepest - 1])
    mask = inputs.get("attention_mask")
    return found | {deepest: _block_at(parts, states[deepest - 1], mask, positions, n_heads)}


def _can_be_narrow(body: Any, blocks: list[nn.Module], deepest: int, family: str) -> bool:
    """Whether the deepest block's output at a place is a function of known parts alone.

    Half precision is left to the model itself, whose own order of products its rounding depends on.
    """
    if deepest == 0 or family not in _PARTS or not _attends_to_all_alike(body.config):
        return False
    block = blocks[deepest - 1]
    if not type(block).__module__.startswith("transformers.") or _is_hooked(body, block):
        return False
    parts = _PARTS[family](block)
    linears = (parts.query, parts.key, parts.value)
    return all(type(linear) is nn.Linear and linear.weight.dtype == torch.float32 for linear in linears)


def _attends_to_all_alike(config: Any) -> bool:
    """Whether attention looks both ways, and at nothing but hidden states: no decoder, no relative positions."""
    is_encoder = not getattr(config, "is_decoder", False)
    return is_encoder and getattr(config, "position_embedding_type", "absolute") == "absolute"


def _is_hooked(body: nn.Module, block: nn.Module) -> bool:
    """Whether somebody changes (gates among them) or looks at what this block makes.

    transformers' hooks are not counted: they record for its own forward pass, and stay once they have been used.
    """
    hooks = [*body._forward_hooks.values(), *block._forward_hooks.values()]
    for module in block.modules():
        if module is not block:
            hooks += [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
    return not all(getattr(hook, "__module__", "").startswith("transformers.") for hook in hooks)


def _are_few(positions: Tensor, ids: Tensor) -> bool:
    """Whether places are few enough for each to have a copy of its row's hidden states, and to gain by it."""
    n_places = len(positions)
    return n_places <= _MOST_PLACES_A_ROW * len(ids) and n_places * _LEAST_PIECES_A_PLACE <= ids.numel()


def _block_at(parts: _Parts, hidden: Tensor, mask: Tensor | None, positions: Tensor, n_heads: int) -> Tensor:
    """A block at some places.

    Neither keys nor values are formed: a head's key map is put to the query and its value map to what the head found,
    one product a place instead of one a piece. Keys' biases add the same to all scores of a query, so drop out of the
    softmax; values' biases pass through it unchanged, since weights sum to 1.

    Args:
        parts: of the block.
        hidden: ``[row, piece, dim]`` its input.
        mask: ``[row, piece]`` 0 for padding; ``None`` where there is none.
        positions: ``[place, 2]``
        n_heads: of the block.

    Returns:
        ``[place, dim]``
    """
    rows, columns = positions.unbind(-1)
    own, pieces = hidden[rows, columns], hidden[rows]  # [place, dim], [place, piece, dim]
    queries = parts.query(own).unflatten(-1, (n_heads, -1)).transpose(0, 1)  # [head, place, dim / head]
    to_keys = parts.key.weight.reshape(n_heads, -1, own.shape[-1])  # [head, dim / head, dim]
    to_values = parts.value.weight.reshape(n_heads, -1, own.shape[-1])
    asked = torch.bmm(queries * queries.shape[-1] ** -0.5, to_keys).transpose(0, 1)  # [place, head, dim]
    scores = torch.bmm(asked, pieces.transpose(1, 2))  # [place, head, piece]
    if mask is not None:
        scores = scores.masked_fill(mask[rows, None] == 0, torch.finfo(scores.dtype).min)
    seen = torch.bmm(scores.softmax(-1), pieces).transpose(0, 1)  # [head, place, dim]
    found = torch.bmm(seen, to_values.transpose(1, 2)).transpose(0, 1).flatten(1)
    return parts.rest(found if parts.value.bias is None else found + parts.value.bias, own)


def _bert_parts(block: Any) -> _Parts:
    attention = block.attention

    def rest(found: Tensor, own: Tensor) -> Tensor:
        attended = attention.output(found, own)
        output: Tensor = block.output(block.intermediate(attended), attended)
        return output

    return _Parts(attention.self.query, attention.self.key, attention.self.value, rest)


def _distilbert_parts(block: Any) -> _Parts:
    attention = block.attention

    def rest(found: Tensor, own: Tensor) -> Tensor:
        attended = block.sa_layer_norm(attention.out_lin(found) + own)
        output: Tensor = block.output_layer_norm(block.ffn.ff_chunk(attended) + attended)
        return output

    return _Parts(attention.q_lin, attention.k_lin, attention.v_lin, rest)


_PARTS: dict[str, Callable[[Any], _Parts]] = {
    "bert": _bert_parts,
    "camembert": _bert_parts,
    "distilbert": _distilbert_parts,
    "electra": _bert_parts,
    "roberta": _bert_parts,
    "xlm-roberta": _bert_parts,
}
