"""A model while it is compressed: its weight matrices, its blocks, how its weights could be stored, and its folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from bertology.activations import Progress, silent
from bertology.encoders import Encoder, ModelSource, load_encoder
from bertology.encoders.loading import WholeModel, blocks_of, load_whole
from bertology.encoders.sources import save_model
from bertology.errors import ModelError

_FULL_BITS = 32
_CLOSE = 1e-4


@dataclass(frozen=True)
class Storage:
    """How the values of a tensor could be stored."""

    bits: int = _FULL_BITS
    """Of each value; below 32 each row has a scale of 32 bits as well."""
    rank: int | None = None
    """Of a product of two matrices of 32 bits; None where the tensor is no such product."""

    def n_bytes(self, tensor: Tensor) -> int:
        """The least of three: all values; those that are not zero, and a bit a value that marks them; two factors.

        Biases and norms, which no method changes, count with all their values.
        """
        n_values, n_rows = tensor.numel(), len(tensor)
        if tensor.ndim < 2:
            return n_values * _FULL_BITS // 8
        nonzero = int(torch.count_nonzero(tensor))
        scales = _FULL_BITS * n_rows if self.bits < _FULL_BITS else 0
        options = [n_values * self.bits + scales, nonzero * self.bits + n_values + scales]
        if self.rank is not None:
            options.append(self.rank * (n_rows + n_values // n_rows) * _FULL_BITS)
        return -(-min(options) // 8)


@dataclass
class CompressedModel:
    """A model in memory that methods change one after the other; made by :func:`open_model`."""

    source: ModelSource
    whole: WholeModel
    work: Path
    """A folder for temporary files, which is deleted afterwards."""
    state: Path
    """A folder for the state of training, from which a stopped run goes on."""
    progress: Progress = silent
    device: str = "auto"
    """That sentences are read and students are trained on."""
    storage: dict[int, Storage] = field(default_factory=dict)
    """By the ``id`` of a parameter, where it is not the default."""

    @property
    def model(self) -> Any:
        """The model of transformers."""
        return self.whole.model

    @property
    def family(self) -> str:
        """The architecture, as its configuration names it."""
        return self.whole.family

    @property
    def blocks(self) -> list[nn.Module]:
        """Blocks in the order in which they run; ALBERT's once for every time it runs."""
        return self.whole.blocks

    @property
    def distinct_blocks(self) -> list[nn.Module]:
        """Each block once."""
        return list(dict.fromkeys(self.blocks))

    @property
    def n_heads(self) -> int:
        """Attention heads in each block."""
        return int(self.model.config.num_attention_heads)

    def matrices(self, *, embeddings: bool) -> dict[str, nn.Parameter]:
        """The weights of all linear layers by name; with ``embeddings`` those of embedding tables as well.

        A projection onto the vocabulary counts as an embedding, tied or not. What is shared is there once.

        Raises:
            ModelError: blocks hold matrices that are no linear layers.
        """
        tables, linear = {}, {}
        last = self.model.get_output_embeddings()
        for name, module in self.model.named_modules():
            if isinstance(module, nn.Embedding) or module is last:
                tables[name + ".weight"] = module.weight
            elif isinstance(module, nn.Linear):
                linear[name + ".weight"] = module.weight
        of_tables = {id(table) for table in tables.values()}
        linear = {name: weight for name, weight in linear.items() if id(weight) not in of_tables}
        known = {id(weight) for weight in linear.values()}
        for block in self.distinct_blocks:
            for name, weight in block.named_parameters():
                if weight.ndim > 1 and id(weight) not in known:
                    raise ModelError(
                        f"model {self.source.name}: {name} in the blocks of {self.family} is no linear layer: only "
                        "encoders like BERT can be compressed"
                    )
        chosen = {**linear, **tables} if embeddings else linear
        once = {id(weight): (name, weight) for name, weight in reversed(list(chosen.items()))}
        return dict(reversed(list(once.values())))

    def no_longer_factors(self, matrices: Sequence[nn.Parameter]) -> None:
        """Note that single values of these matrices were changed, so that they are no product of two smaller ones."""
        for matrix in matrices:
            self.storage[id(matrix)] = Storage(self.storage.get(id(matrix), Storage()).bits)

    def replace(self, module: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
        """Give a linear layer other weights, of another shape."""
        before = self.storage.pop(id(module.weight), Storage())
        module.weight = nn.Parameter(weight.clone(), requires_grad=False)
        self.storage[id(module.weight)] = before
        if bias is not None:
            module.bias = nn.Parameter(bias.clone(), requires_grad=False)
        module.out_features, module.in_features = weight.shape

    def keep_layers(self, keep: Sequence[int]) -> None:
        """Keep only these layers (from 1, rising), so that the model has so many blocks.

        Raises:
            ModelError: the model's layers cannot be taken out in this way.
        """
        config, blocks, n_layers = self.model.config, self.blocks, len(self.blocks)
        if list(keep) == list(range(1, n_layers + 1)):
            return
        if len(self.distinct_blocks) == 1 and n_layers > 1:
            # One block that runs several times: it runs less often, whichever layers are named.
            config.num_hidden_layers = len(keep)
        elif len(self.distinct_blocks) < n_layers or not isinstance(config.num_hidden_layers, int):
            raise ModelError(
                f"model {self.source.name}: its {self.family} layers share blocks in groups: not supported"
            )
        else:
            if self.family == "modernbert" and keep[0] != 1:
                raise ModelError(f"model {self.source.name}: keep layer 1, the only one without a norm before it")
            self._set_blocks([blocks[layer - 1] for layer in keep])
            kinds = getattr(config, "layer_types", None)
            if kinds:
                config.layer_types = [kinds[layer - 1] for layer in keep]
            config.num_hidden_layers = len(keep)
        self.adopt(self.model)

    def _set_blocks(self, blocks: list[nn.Module]) -> None:
        now = self.blocks
        for name, module in self.whole.body.named_modules():
            if isinstance(module, nn.ModuleList) and list(module) == now:
                parent, _, last = name.rpartition(".")
                setattr(self.whole.body.get_submodule(parent), last, nn.ModuleList(blocks))
                return
        raise ModelError(f"model {self.source.name}: its {self.family} blocks are not in one list: not supported")

    def adopt(self, model: Any) -> None:
        """Go on with this model of the same family, in the present one's place."""
        blocks = blocks_of(model, model.config.num_hidden_layers, self.family)
        absent = self.whole.absent if model is self.model else frozenset()
        self.whole = WholeModel(model, blocks, self.family, absent)

    def save(self, folder: Path) -> None:
        """Write a model folder: configuration, weights, and the tokenizer's files as they are."""
        save_model(self.model, folder, tokenizer=self.source.folder, left_out=self.whole.absent)

    @contextlib.contextmanager
    def encoder(self) -> Iterator[Encoder]:
        """An encoder with the present weights, loaded from a temporary folder."""
        with TemporaryDirectory(dir=self.work) as made:
            self.save(Path(made))
            yield load_encoder(ModelSource(self.source.name, Path(made)), device=self.device)

    def check_saved(self, folder: Path) -> None:
        """Check that a saved model computes what the one in memory does.

        Raises:
            ModelError: it does not: its architecture cannot be changed in this way.
        """
        saved = load_encoder(ModelSource(self.source.name, folder), device="cpu")
        ids = torch.arange(saved.model.body.get_input_embeddings().num_embeddings)[-7:][None]  # type: ignore[operator]
        with torch.inference_mode():
            expected = self.whole.body.to("cpu")(input_ids=ids, return_dict=True).last_hidden_state
        found = saved.hidden_states(ids, layers=[saved.n_layers])[saved.n_layers]
        if not torch.allclose(expected, found, rtol=_CLOSE, atol=_CLOSE):
            raise ModelError(
                f"model {self.source.name}: once saved and loaded it computes something else, so {self.family} models "
                "cannot be compressed in this way; choose another method"
            )

    def sizes(self) -> tuple[int, int, int]:
        """Number of weights, number that are not zero, and the bytes that they could be stored in."""
        kept = [value for name, value in self.model.named_parameters() if name not in self.whole.absent]
        n_bytes = sum(self.storage.get(id(value), Storage()).n_bytes(value) for value in kept)
        return sum(value.numel() for value in kept), sum(int(torch.count_nonzero(value)) for value in kept), n_bytes

    def stored(self) -> dict[str, Storage]:
        """By the name of a weight, how it could be stored, where it is not the default."""
        named = {name: self.storage.get(id(value), Storage()) for name, value in self.model.named_parameters()}
        return {name: storage for name, storage in named.items() if storage != Storage()}


def open_model(source: ModelSource, stored: Mapping[str, Storage], **places: Any) -> CompressedModel:
    """Load a model to compress it; ``stored`` is how its weights could be stored, where it was compressed already.

    ``places`` are further fields of :class:`CompressedModel`.
    """
    opened = CompressedModel(source, load_whole(source), **places)
    weights = opened.model.named_parameters()
    opened.storage = {id(weight): stored[name] for name, weight in weights if name in stored}
    return opened
