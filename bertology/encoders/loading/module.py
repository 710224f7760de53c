"""PyTorch modules of one's own: what has to be known of one to read its hidden states layer by layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from bertology._files import digest
from bertology.encoders._encoder import Encoder
from bertology.encoders._modules import LoadedModel, no_parameters_learn, run_to_layers
from bertology.encoders.alignment.pieces import PieceReader
from bertology.encoders.loading.description import Init, MemorySource, ModelShape, version_of
from bertology.encoders.loading.resolve import keep_source
from bertology.encoders.loading.tokenizer import piece_reader
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


class _Body(nn.Module):
    """A module behind the interface that transformers models have."""

    def __init__(self, module: nn.Module, adapter: ModuleAdapter) -> None:
        super().__init__()
        self.module, self.adapter = module, adapter
        self.config = SimpleNamespace(max_position_embeddings=adapter.max_pieces, _attn_implementation="none")

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of piece embeddings."""
        return self.adapter.embeddings(self.module)

    def set_attn_implementation(self, name: str) -> None:
        """Raises, as of a module of one's own no maps are known."""
        raise NotImplementedError("maps of a module of one's own are not known")

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> SimpleNamespace:
        """The last hidden states."""
        return SimpleNamespace(last_hidden_state=self.adapter.forward(self.module, input_ids, attention_mask))

    def __deepcopy__(self, memo: dict[int, Any]) -> _Body:
        return _Body(copy.deepcopy(self.module, memo), self.adapter)  # functions of the adapter are shared


@dataclass(frozen=True)
class ModuleSource(MemorySource):
    """A module in memory: it has no files, and is found by its name in the process that holds it."""

    module: Any = field(default=None, repr=False, compare=False)
    tokenizer: Any = field(default=None, repr=False, compare=False)
    adapter: Any = field(default=None, repr=False, compare=False)
    content: str = ""
    """Hash of weights and tokenizer."""

    def shape(self) -> ModelShape:
        """The size of the encoder."""
        width = self.adapter.embeddings(self.module).embedding_dim
        return ModelShape(len(self.adapter.blocks(self.module)), width, self.adapter.n_heads, _FAMILY)

    def fingerprint(self, init: Init, seed: int) -> str:
        """Hash of what decides the hidden states; of random weights, of what draws them."""
        if init == "pretrained":
            return self.content
        self._drawn(init, seed)
        return digest([self.content.encode(), init.encode(), str(seed).encode(), version_of("torch")])

    def reader(self, max_pieces: int | None) -> PieceReader:
        """The tokenizer, ready to align words to pieces."""
        return piece_reader(self, self.tokenizer, _Body(self.module, self.adapter), max_pieces=max_pieces)

    def encoder(self, *, init: Init, seed: int, dtype: str, device: str, max_pieces: int | None) -> Encoder:
        """An encoder around a copy of the module, in evaluation mode."""
        module = self._drawn(init, seed) if init != "pretrained" else copy.deepcopy(self.module)
        body = _Body(module, self.adapter).to(device=device, dtype=getattr(torch, dtype))
        no_parameters_learn(body)
        shape, blocks = self.shape(), list(self.adapter.blocks(body.module))
        encoder = Encoder(
            self,
            shape,
            LoadedModel(body, blocks, None),
            tokenizer=self.tokenizer,
            reader=self.reader(max_pieces),
            init=init,
            seed=seed,
            dtype=dtype,
            eager=False,
        )
        _try(encoder)
        return encoder

    def _drawn(self, init: Init, seed: int) -> nn.Module:
        if init != "random" or self.adapter.fresh is None:
            raise ModelError(
                f"model {self.name}: no {init.replace('_', ' ')} weights can be drawn of a module of one's own without "
                "ModuleAdapter(fresh=…), which makes them random; give it, or leave the control random out"
            )
        fresh: Callable[[int], nn.Module] = self.adapter.fresh
        return fresh(seed)


def module_source(module: nn.Module, tokenizer: Any, adapter: ModuleAdapter, *, name: str) -> ModuleSource:
    """A module of one's own as a model that is known by ``name`` in this process.

    Raises:
        ModelError: the adapter does not fit the module, or the tokenizer the embeddings.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"model {name}: its tokenizer gives no character offsets; give a fast one of transformers")
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    parts = [type(module).__qualname__.encode(), tokenizer.backend_tokenizer.to_str().encode()]
    for key, value in sorted(module.state_dict().items()):
        tensor = value.detach().cpu().contiguous()
        parts += [key.encode(), str(tensor.dtype).encode(), str(tuple(tensor.shape)).encode()]
        parts.append(tensor.flatten().view(torch.uint8).numpy().data if tensor.numel() else b"")
    source = ModuleSource(
        name, Path(name), module=module, tokenizer=tokenizer, adapter=adapter, content=digest([b"module", *parts])
    )
    source.encoder(init="pretrained", seed=0, dtype="float32", device="cpu", max_pieces=None)
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
