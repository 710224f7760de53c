"""Hidden states changed between two blocks, so that what follows works with what is left of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from bertology.encoders._blocks import watching
from bertology.errors import ModelError

Change = Callable[[Tensor], Tensor]
"""From hidden states ``[batch, piece, dim]`` of one layer to other ones of the same shape and type."""


@contextlib.contextmanager
def changing(body: nn.Module, blocks: list[nn.Module], layer: int, change: Change) -> Iterator[None]:
    """Let ``change`` stand between a layer and whatever reads it, in every forward pass inside the block.

    Args:
        body: the module whose forward pass runs all blocks once, in order.
        blocks: its blocks in that order.
        layer: 0 for the embeddings, then the blocks; the last one is what the body returns, its final norm included.
        change: is given the hidden states of all pieces, special ones and padding among them.
    """

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if watch.current != layer + 1:
            return None
        if args:
            return (_changed(change, args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": _changed(change, kwargs["hidden_states"])}

    def after(module: nn.Module, args: Any, output: Any) -> Any:
        if watch.current != len(blocks):  # a body that only hands states to the masked-LM head runs no block
            return None
        output.last_hidden_state = _changed(change, output.last_hidden_state)
        return output

    with watching(body, blocks) as watch, contextlib.ExitStack() as stack:
        if layer == len(blocks):
            stack.callback(body.register_forward_hook(after).remove)
        for block in dict.fromkeys(blocks):
            stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
        yield


def _changed(change: Change, state: Tensor) -> Tensor:
    found = change(state)
    if found.shape != state.shape or found.dtype != state.dtype:
        raise ModelError(
            f"a change of hidden states made {list(found.shape)} of {found.dtype} "
            f"from {list(state.shape)} of {state.dtype}: give one that keeps shape and type"
        )
    return found
