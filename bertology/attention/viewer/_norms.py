"""Norms of transformed values, caught as a model reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from bertology.attention._norms import check_norms, value_norms
from bertology.encoders.interventions import value_projection

if TYPE_CHECKING:
    from bertology.encoders import Encoder


@contextlib.contextmanager
def watching_values(encoder: Encoder) -> Iterator[dict[int, Tensor]]:
    """Norms ‖f(x)‖ of what each head makes of each piece, ``[head, piece]`` by layer, after a pass inside the block.

    Raises:
        ModelError: it is not known how norms come about in this family.
    """
    check_norms(encoder)
    norms: dict[int, Tensor] = {}

    def keep(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        layer = len(norms) + 1
        norms[layer] = value_norms(output, layer, encoder)[0]

    # ALBERT's blocks share their modules, so that one hook serves several layers.
    modules = dict.fromkeys(value_projection(block, encoder.family) for block in encoder.model.blocks)
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(keep).remove)
        yield norms
