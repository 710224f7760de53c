"""One forward pass that hands over each layer's maps as they are made, and keeps none of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bertology.attention._norms import value_norms
from bertology.encoders import Encoder
from bertology.encoders.interventions import StopForward, value_projection, watching
from bertology.errors import ModelError

OnLayer = Callable[[int, Tensor, "Tensor | None"], None]
"""Called with a layer (from 1), its maps ``[batch, head, piece, piece]`` and, where asked for, the lengths of its
transformed values ``[batch, head, piece]``."""


class LayerMaps:
    """Forward passes of an encoder, whose maps go to a callback layer by layer.

    Hugging Face would gather the maps of all layers; here each is taken where its attention module returns it, so that
    one layer's are in memory at a time. The pass ends with the deepest layer asked for.
    """

    def __init__(self, encoder: Encoder, *, layers: frozenset[int], norms: bool) -> None:
        self._encoder, self._layers, self._norms = encoder, layers, norms
        self._on_layer: OnLayer | None = None
        self._given: set[int] = set()
        self._values: Tensor | None = None

    @contextlib.contextmanager
    def hooked(self) -> Iterator[None]:
        """Hooks on every block, and the plain attention, for the length of the block."""
        encoder, blocks = self._encoder, self._encoder.model.blocks
        with contextlib.ExitStack() as stack:
            stack.enter_context(encoder.plain_attention())
            self._watch = stack.enter_context(watching(encoder.model.body, blocks))
            for block in dict.fromkeys(blocks):
                for module in block.modules():
                    # Before the hooks by which transformers gathers them: it then finds nothing to gather.
                    stack.callback(module.register_forward_hook(self._take, prepend=True).remove)
                if self._norms:
                    projection = value_projection(block, encoder.family)
                    stack.callback(projection.register_forward_hook(self._keep_values).remove)
            yield

    def run(
        self, input_ids: Tensor, attention_mask: Tensor | None, on_layer: OnLayer, *, types: Tensor | None = None
    ) -> None:
        """One forward pass, inside :meth:`hooked`; ``types`` are those of tokens, all 0 when left out.

        Raises:
            ModelError: the model gives no maps.
            SignalError: maps or lengths that are not finite.
        """
        self._on_layer, self._given = on_layer, set()
        body, device = self._encoder.model.body, self._encoder.device
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": types}
        inputs = {name: value.to(device) for name, value in given.items() if value is not None}
        with torch.inference_mode(), contextlib.suppress(StopForward):
            body(**inputs, return_dict=True, output_attentions=True)
        if self._layers - self._given:
            raise ModelError(f"model {self._encoder.name}: {type(body).__name__} gives no attention maps")

    def _keep_values(self, module: nn.Module, args: Any, output: Tensor) -> None:
        self._values = output

    def _take(self, module: nn.Module, args: Any, output: Any) -> Any:
        layer = self._watch.current
        if layer in self._given or not isinstance(output, tuple):
            return None
        place = place_of_maps(output, self._encoder.n_heads)
        if place is None:
            return None
        self._given.add(layer)
        if layer in self._layers and self._on_layer is not None:
            self._encoder.check_finite("attention maps", {layer: output[place]}, by_head=True)
            norms = self._value_norms(layer) if self._norms else None
            self._on_layer(layer, output[place], norms)
        if layer == max(self._layers):
            raise StopForward
        return (*output[:place], None, *output[place + 1 :])

    def _value_norms(self, layer: int) -> Tensor:
        """‖f(x)‖ of every piece and head (Kobayashi et al. 2020, equation 5): ``[batch, head, piece]``."""
        if self._values is None:
            raise ModelError(f"model {self._encoder.name}: layer {layer} ran without projecting values: not supported")
        return value_norms(self._values, layer, self._encoder)


def place_of_maps(output: tuple[Any, ...], n_heads: int) -> int | None:
    """Where in what a module returns the maps are: last, since a bias of positions may have the same shape."""
    for place in reversed(range(len(output))):
        part = output[place]
        if isinstance(part, Tensor) and part.ndim == 4 and part.shape[1] == n_heads:
            return place if part.shape[2] == part.shape[3] else None
    return None
