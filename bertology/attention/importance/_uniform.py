"""Heads that attend to everything alike: another way to disable them (Kovaleva et al. 2019, section 4.4)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bertology.attention.importance._names import Head
from bertology.encoders import Encoder
from bertology.encoders.interventions import check_gates, head_projection, value_projection, watching


@contextlib.contextmanager
def uniform_heads(encoder: Encoder, heads: frozenset[Head]) -> Iterator[None]:
    """Replace the attention of some heads by the same weight for every piece but padding, in passes inside the block.

    What such a head hands to the output projection is the mean of its values, the same for every piece; so the values
    are read and their mean is put there. What the head would have computed is thrown away.

    Args:
        encoder: of a family that is built as BERT is.
        heads: by (layer, head), both from 1.

    Raises:
        ModelError: a head that the model does not have, or it is not known where the family has its values.
    """
    check_gates(dict.fromkeys(heads, 1.0), n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    blocks, n_heads = list(dict.fromkeys(encoder.model.blocks)), encoder.n_heads
    state: dict[str, Tensor | None] = {"mask": None, "values": None}

    def keep_mask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state["mask"] = args[1] if len(args) > 1 else kwargs.get("attention_mask")

    def keep_values(module: nn.Module, args: Any, output: Tensor) -> None:
        state["values"] = output

    def put_mean(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        own = [head for layer, head in heads if layer == watch.current]
        if not own:
            return None
        # [batch, 1, head, dim / head]
        mean = _mean(state["values"], state["mask"]).unflatten(-1, (n_heads, -1))  # type: ignore[no-untyped-call]
        chosen = torch.zeros(n_heads, dtype=torch.bool, device=mean.device)
        chosen[[head - 1 for head in own]] = True
        given = args[0].unflatten(-1, (n_heads, -1))
        return (torch.where(chosen[:, None], mean, given).flatten(-2), *args[1:])

    with watching(encoder.model.body, encoder.model.blocks) as watch, contextlib.ExitStack() as stack:
        stack.callback(encoder.model.body.register_forward_pre_hook(keep_mask, with_kwargs=True).remove)
        for block in blocks:
            values = value_projection(block, encoder.family)
            stack.callback(values.register_forward_hook(keep_values).remove)
            projection = head_projection(block, encoder.family)
            stack.callback(projection.register_forward_pre_hook(put_mean).remove)
        yield


def _mean(values: Tensor | None, mask: Tensor | None) -> Tensor:
    """``[batch, 1, dim]`` over the pieces that are not padding."""
    assert values is not None, "values are projected before the heads are mixed"
    if mask is None:
        return values.mean(1, keepdim=True)
    real = mask[:, :, None].to(values)
    return (values * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
