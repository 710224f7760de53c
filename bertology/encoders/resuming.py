"""Passes that compute only the upper blocks of an encoder.

- :func:`starting_from` begins with hidden states of a layer that are given;
- :class:`Replay` repeats the outputs of lower blocks, where only blocks above them are changed;
- :func:`forward_replaced` puts a function in the place of a module's own.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from bertology.encoders.interventions import changing, watching


@contextlib.contextmanager
def forward_replaced(module: nn.Module, forward: Callable[..., Any], *, hooks: bool = True) -> Iterator[None]:
    """Let ``forward`` run in the place of a module's own, inside the context; without its ``hooks`` where so asked."""
    put: dict[str, Any] = {"forward": forward}
    if not hooks:
        put |= {"_forward_hooks": OrderedDict(), "_forward_pre_hooks": OrderedDict()}
    held = vars(module)
    before = {name: held[name] for name in put if name in held}
    held.update(put)
    try:
        yield
    finally:
        for name in put:
            del held[name]
        held.update(before)


def is_plain_linear(module: Any) -> bool:
    """Whether a module multiplies by its weight and adds its bias, and does nothing else."""
    has_hooks = type(module) is nn.Linear and (module._forward_hooks or module._forward_pre_hooks)
    return type(module) is nn.Linear and not has_hooks and "forward" not in vars(module)


@contextlib.contextmanager
def starting_from(body: nn.Module, blocks: list[nn.Module], layer: int, state: Tensor) -> Iterator[None]:
    """Begin passes inside the context with hidden states of a layer: blocks up to it do not compute.

    The model's own forward runs, on an input with as many rows and pieces as ``state``. Not for encoders whose blocks
    return more than hidden states (T5).

    Args:
        body: as in :func:`watching`.
        blocks: as in :func:`watching`.
        layer: 0 for the embeddings, then the blocks.
        state: ``[batch, piece, dim]`` hidden states of that layer.
    """
    with watching(body, blocks) as watch, contextlib.ExitStack() as stack:

        def replace_forward(block: nn.Module) -> None:
            compute = block.forward

            def forward(*args: Any, **kwargs: Any) -> Any:
                if watch.current > layer:
                    return compute(*args, **kwargs)
                return args[0] if args else kwargs["hidden_states"]

            stack.enter_context(forward_replaced(block, forward))

        for block in dict.fromkeys(blocks[:layer]):
            replace_forward(block)
        stack.enter_context(changing(body, blocks, layer, lambda _: state))
        yield


class Replay:
    """Outputs of the blocks of an encoder in one pass, for later passes over the same input.

    The model's own forward runs every time, with all that it does between blocks; only blocks whose output could not
    differ do not compute. Not for passes that a backward pass follows. Arguments are those of :func:`watching`.
    """

    def __init__(self, body: nn.Module, blocks: list[nn.Module]) -> None:
        self._body, self._blocks = body, blocks
        self._outputs: dict[int, Any] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Keep the outputs of the blocks in the pass inside the context."""
        self._outputs = {}

        def keep(module: nn.Module, args: Any, output: Any) -> None:
            self._outputs[watch.current] = output

        with watching(self._body, self._blocks) as watch, contextlib.ExitStack() as stack:
            for block in dict.fromkeys(self._blocks):
                # Before hooks of the model's own, which run again on what is repeated.
                stack.callback(block.register_forward_hook(keep, prepend=True).remove)
            yield

    @contextlib.contextmanager
    def from_layer(self, layer: int) -> Iterator[None]:
        """Compute nothing in blocks below ``layer`` (from 1), in passes inside the context over the input recorded."""
        with watching(self._body, self._blocks) as watch, contextlib.ExitStack() as stack:

            def replace_forward(block: nn.Module) -> None:
                compute = block.forward

                def forward(*args: Any, **kwargs: Any) -> Any:
                    return self._outputs[watch.current] if watch.current < layer else compute(*args, **kwargs)

                stack.enter_context(forward_replaced(block, forward))

            for block in dict.fromkeys(self._blocks[: layer - 1]):
                replace_forward(block)
            yield
