"""PyTorch modules of one's own: what has to be known of one to read its hidden states layer by layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from bertology._files import digest
from bertology.encoders._encoder import Encoder
from bertology.encoders._modules import LoadedModel, run_to_layers
from bertology.encoders.loading.contents import Description, content_digest, tensor_content, tokenizer_content
from bertology.encoders.loading.description import Init, ModelShape
from bertology.encoders.loading.held import HeldSource, checked, own_tokenizer, returned_by, snapshot
from bertology.encoders.loading.resolve import keep_source
from bertology.errors import ModelError

_FAMILY = "module"


@dataclass(frozen=True)
class ModuleAdapter:
    """How to read a PyTorch module: an encoder whose blocks pass hidden states ``[batch, piece, dim]`` on.

    Layer 0 is what goes into the first block, layer l what goes into block l + 1, and the last layer what ``forward``
    returns, a final norm included.
    """

    blocks: Callable[[Any], Sequence[nn.Module]]
    """The blocks of the module in the order in which they run; the hidden states are the first argument of each."""
    embeddings: Callable[[Any], nn.Embedding]
    """The table of piece embeddings of the module."""
    forward: Callable[[Any, Tensor, Tensor | None], Tensor] = lambda module, ids, mask: module(ids, mask)
    """From the module, piece numbers ``[batch, piece]`` and a mask (1 for pieces, 0 for padding; None where nothing is
    padded) to the last hidden states ``[batch, piece, dim]``."""
    n_heads: int = 1
    """Attention heads in each block, for the record: attention maps of such a module cannot be read."""
    max_pieces: int = 512
    """The most pieces that the module reads at once, special tokens included."""
    fresh: Callable[[int], nn.Module] | None = None
    """From a seed to a module of the same shape with random weights, for the control ``random``."""


class ModuleBody(nn.Module):
    """A module behind the interface that transformers models have."""

    def __init__(self, module: nn.Module, adapter: ModuleAdapter) -> None:
        super().__init__()
        self.module, self.adapter = module, adapter
        self.config = SimpleNamespace(max_position_embeddings=adapter.max_pieces, _attn_implementation="sdpa")

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of piece embeddings."""
        return self.adapter.embeddings(self.module)

    def set_attn_implementation(self, name: str) -> None:
        """Raises, as of a module of one's own no maps are known."""
        raise NotImplementedError("maps of a module of one's own are not known")

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> SimpleNamespace:
        """The last hidden states."""
        return SimpleNamespace(last_hidden_state=self.adapter.forward(self.module, input_ids, attention_mask))

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleBody:
        return ModuleBody(copy.deepcopy(self.module, memo), self.adapter)  # functions of the adapter are shared

    def loaded(self) -> LoadedModel:
        """The module as the parts of a model."""
        return LoadedModel(self, list(self.adapter.blocks(self.module)), None, whole=self)


def module_source(module: nn.Module, tokenizer: Any, adapter: ModuleAdapter, *, name: str) -> HeldSource:
    """A module of one's own as a model that is known by ``name`` in this process.

    Raises:
        ModelError: the adapter does not fit the module, or the tokenizer the embeddings.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"model {name}: its tokenizer gives no character offsets; give a fast one of transformers")
    width = adapter.embeddings(module).embedding_dim
    size = ModelShape(len(adapter.blocks(module)), width, adapter.n_heads, _FAMILY)
    body = ModuleBody(module, adapter)
    held, read = snapshot(body.loaded()), own_tokenizer(tokenizer)

    def fresh(init: Init, seed: int) -> LoadedModel:
        if init != "random" or adapter.fresh is None:
            raise ModelError(
                f"model {name}: no {init.replace('_', ' ')} weights can be drawn of a module of one's own without "
                "ModuleAdapter(fresh=…), which makes them random; give it, or leave the control random out"
            )
        return ModuleBody(adapter.fresh(seed), adapter).loaded()

    source = HeldSource(name, Path(name), held=held, tokenizer=read, size=size, fresh=fresh)
    _try(source.encoder(init="pretrained", seed=0, dtype=None, device="cpu", max_pieces=None))
    returned = returned_by(body, body.loaded(), read, name=name)
    checked(source, returned, list(body.modules()))
    # Classes and functions of one's own are known by their names alone, so that what was returned belongs to it.
    content = [Description(is_strict=False).of_module(module), tokenizer_content(read)]
    parts = [content_digest(content), *(repr(tensor_content(values)) for values in returned.values())]
    source = replace(source, content=digest([b"module", *(part.encode() for part in parts)]))
    keep_source(source)
    return source


def _try(encoder: Encoder) -> None:
    """Check on a few pieces that every layer is passed and has the width of the embeddings."""
    body: Any = encoder.model.body
    try:
        ids = torch.arange(min(7, body.get_input_embeddings().num_embeddings), device=encoder.device)[None]
        with torch.inference_mode():
            layers = frozenset(range(encoder.n_layers + 1))
            states = run_to_layers(body, encoder.model.blocks, {"input_ids": ids}, layers)
    except ModelError:
        raise
    except Exception as error:
        # Whatever a module of a person's own raises.
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise ModelError(f"model {encoder.name}: a trial reading failed ({reason}); check the ModuleAdapter") from error
    wanted = (*ids.shape, encoder.dim)
    for layer, state in states.items():
        if tuple(state.shape) != wanted:
            raise ModelError(
                f"model {encoder.name}: layer {layer} of {ids.shape[1]} pieces is of shape {tuple(state.shape)}, which "
                f"should be {wanted}; check blocks and forward of the ModuleAdapter"
            )
