"""Passes that begin above the blocks which nothing has changed: what those gave before is given again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from bertology.encoders._blocks import watching

if TYPE_CHECKING:
    from bertology.encoders._encoder import Encoder


class Replay:
    """What each block of an encoder gave in one pass, for later passes over the same input.

    The model's own forward runs every time, so that whatever stands between its blocks stays as it is in every family;
    only blocks that could give nothing new do not compute. Not for passes of which a backward pass is asked.

    Args:
        encoder: whose blocks they are.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._given: dict[int, Any] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Keep what the blocks give in the pass inside the block."""
        self._given = {}
        blocks = self._encoder.model.blocks

        def keep(module: nn.Module, args: Any, output: Any) -> None:
            self._given[watch.current] = output

        with watching(self._encoder.model.body, blocks) as watch, contextlib.ExitStack() as stack:
            for block in dict.fromkeys(blocks):
                stack.callback(block.register_forward_hook(keep).remove)
            yield

    @contextlib.contextmanager
    def from_layer(self, layer: int) -> Iterator[None]:
        """Compute nothing in blocks below ``layer`` (from 1), in passes inside the block over the input recorded."""
        blocks = self._encoder.model.blocks
        with watching(self._encoder.model.body, blocks) as watch, contextlib.ExitStack() as stack:

            def given_again(block: nn.Module) -> None:
                own = block.forward

                def forward(*args: Any, **kwargs: Any) -> Any:
                    return self._given[watch.current] if watch.current < layer else own(*args, **kwargs)

                block.__dict__["forward"] = forward
                stack.callback(block.__dict__.pop, "forward")

            for block in dict.fromkeys(blocks[: layer - 1]):
                given_again(block)
            yield
