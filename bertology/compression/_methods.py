"""Methods that compress a model in memory: they change its weights, or take out heads, neurons and layers."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology._names import layer_number
from bertology.activations.progress import Progress, silent
from bertology.attention.importance import MaskedWords, head_importance
from bertology.attention.viewer import parse_heads
from bertology.corpora import load_corpus
from bertology.encoders import Encoder, ModelSource, load_encoder
from bertology.encoders.interventions import check_gates, head_projection
from bertology.encoders.loading import WholeModel, blocks_of, load_whole
from bertology.encoders.sources import save_model
from bertology.errors import ModelError, quoted

_FULL_BITS = 32
_CLOSE = 1e-4


@dataclass(frozen=True)
class Storage:
    """How the values of a tensor could be stored."""

    bits: int = _FULL_BITS
    """Bits of each value; below 32 each row has a scale of 32 bits as well."""
    rank: int | None = None
    """Rank of the product of two matrices of 32 bits; None where the tensor is no such product."""

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
    """Device that sentences are read and students are trained on."""
    storage: dict[int, Storage] = field(default_factory=dict)
    """Storage by the ``id`` of a parameter, where it is not the default."""

    def __post_init__(self) -> None:
        self.adopt(self.whole.model)

    def adopt(self, model: Any) -> None:
        """Go on with this model of the same family, in the present one's place."""
        if model is not self.whole.model:
            self.whole = replace(self.whole, model=model, absent=frozenset())
        self.model, self.family = model, self.whole.family
        self.blocks: list[nn.Module] = blocks_of(model, model.config.num_hidden_layers, self.family)
        """Blocks in the order in which they run; ALBERT's once for every time it runs."""
        self.distinct_blocks = list(dict.fromkeys(self.blocks))
        self.n_heads = int(model.config.num_attention_heads)

    def matrices(self, *, embeddings: bool) -> dict[str, nn.Parameter]:
        """The weights of all linear layers by name; with ``embeddings`` those of embedding tables as well.

        A projection onto the vocabulary counts as an embedding, tied or not. What is shared is there once.

        Raises:
            ModelError: blocks hold matrices that are no linear layers.
        """
        modules, last = dict(self.model.named_modules()), self.model.get_output_embeddings()
        tables = {
            f"{name}.weight": module.weight
            for name, module in modules.items()
            if isinstance(module, nn.Embedding) or module is last
        }
        known = {id(table) for table in tables.values()}
        linear = {
            f"{name}.weight": module.weight
            for name, module in modules.items()
            if isinstance(module, nn.Linear) and id(module.weight) not in known
        }
        known = {id(weight) for weight in linear.values()}
        for name, weight in (named for block in self.distinct_blocks for named in block.named_parameters()):
            if weight.ndim > 1 and id(weight) not in known:
                raise ModelError(
                    f"model {self.source.name}: {name} in the blocks of {self.family} is no linear layer: only "
                    "encoders like BERT can be compressed"
                )
        chosen = {**linear, **(tables if embeddings else {})}
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
            kept = nn.ModuleList([blocks[layer - 1] for layer in keep])
            lists = (name for name, one in self.whole.body.named_modules() if isinstance(one, nn.ModuleList))
            name = next((name for name in lists if list(self.whole.body.get_submodule(name)) == blocks), None)
            if name is None:
                raise ModelError(
                    f"model {self.source.name}: its {self.family} blocks are not in one list: not supported"
                )
            parent, _, last = name.rpartition(".")
            setattr(self.whole.body.get_submodule(parent), last, kept)
            kinds = getattr(config, "layer_types", None)
            if kinds:
                config.layer_types = [kinds[layer - 1] for layer in keep]
            config.num_hidden_layers = len(keep)
        self.adopt(self.model)

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
        """Possible storage of each weight, by name, where it is not the default."""
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


class Method(ABC):
    """A way to compress a model; its fields are its settings.

    In every method that has a ``share``, this is the share of something that is taken away: 0 changes nothing.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        share = getattr(self, "share", None)
        if share is not None and not 0 <= share <= 1:
            raise ModelError(
                f"{self.name}: share is {quoted(share)}; give a number from 0 (nothing is taken away) to 1"
            )

    @abstractmethod
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """Change a model in memory; returns what was done, in values of JSON.

        Raises:
            BertologyError: it cannot be done to this model.
        """


@dataclass(frozen=True)
class Magnitude(Method):
    """Set the weights of smallest magnitude to zero (Han et al. 2015; of BERT, Gordon et al. 2020).

    Weights are those of the linear layers; biases and norms stay as they are. Exactly the nearest whole number to
    ``share`` × weights is zero afterwards, those that were zero before among them; of equal magnitudes the first ones.
    """

    name = "magnitude"

    share: float
    """Share of the weights that is set to zero."""
    scope: Literal["global", "tensor"] = "global"
    """Whether magnitudes are compared across all matrices, or each matrix loses the same share."""
    embeddings: bool = False
    """Whether embedding tables are pruned as well, and with them the projection onto the vocabulary, tied or not."""

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        matrices = list(compressed.matrices(embeddings=self.embeddings).values())
        groups = [matrices] if self.scope == "global" else [[matrix] for matrix in matrices]
        n_zero = sum(zero_smallest(group, self.share) for group in groups)
        if n_zero:
            compressed.no_longer_factors(matrices)
        return {"zero_weights": n_zero, "of_weights": sum(matrix.numel() for matrix in matrices)}


def zero_smallest(tensors: Sequence[Tensor], share: float) -> int:
    """Set a share of all values, those of smallest magnitude, to zero in place; returns their number."""
    magnitudes = torch.cat([tensor.detach().abs().flatten() for tensor in tensors])
    n_zero = round(share * len(magnitudes))
    if not n_zero:
        return 0
    threshold = magnitudes.kthvalue(n_zero).values
    chosen = magnitudes < threshold
    equal = (magnitudes == threshold).nonzero()[:, 0]
    chosen[equal[: n_zero - int(chosen.sum())]] = True
    for tensor, part in zip(tensors, torch.split(chosen, [tensor.numel() for tensor in tensors]), strict=True):
        tensor.masked_fill_(part.view_as(tensor), 0.0)
    return n_zero


@dataclass(frozen=True)
class LowRank(Method):
    """Replace each linear layer's matrix by the nearest one of lower rank: its truncated singular value decomposition.

    The matrix keeps its shape, so that plain transformers loads it; the size estimate is that of the two factors.
    """

    name = "low_rank"

    share: float
    """Share of the singular values of each matrix, the smallest, that is set to zero; one at least stays."""
    embeddings: bool = False
    """Whether embedding tables, and the projection onto the vocabulary, are replaced as well."""

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        lost = total = 0.0
        matrices = compressed.matrices(embeddings=self.embeddings)
        for matrix in matrices.values():
            full = min(matrix.shape)
            rank = max(1, full - round(self.share * full))
            if rank < full:
                left, values, right = torch.linalg.svd(matrix, full_matrices=False)
                matrix.copy_((left[:, :rank] * values[:rank]) @ right[:rank])
                compressed.storage[id(matrix)] = Storage(rank=rank)
                lost += float(values[rank:].square().sum())
                total += float(values.square().sum())
        return {"matrices": len(matrices), "lost_energy": lost / total if total else 0.0}


@dataclass(frozen=True)
class Quantise(Method):
    """Round each weight to one of 2^bits − 1 values, symmetric around 0, as integer inference would store it.

    With s = max|row| / (2^(bits−1) − 1), 127 or 7 for 8 or 4 bits, a weight w becomes round(w / s) · s: a scale for
    each output of a linear layer and each row of an embedding table. Weights stay float32, so that this shows what is
    lost and not how fast it gets; activations are not quantised. With 16 bits no weight moves by more than
    max|row| / 65,534, and what the rounding of float32 adds (max|row| · 2^−22).
    """

    name = "quantise"

    bits: Literal[4, 8, 16] = 8
    """Bits of a weight."""
    embeddings: bool = True
    """Whether embedding tables, and the projection onto the vocabulary, are quantised as well."""

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        squared = total = 0.0
        matrices = compressed.matrices(embeddings=self.embeddings)
        for matrix in matrices.values():
            rounded = quantised(matrix, self.bits)
            squared += float((rounded - matrix).square().sum())
            total += float(matrix.square().sum())
            matrix.copy_(rounded)
            compressed.storage[id(matrix)] = Storage(self.bits)
        return {"matrices": len(matrices), "relative_error": math.sqrt(squared / total) if total else 0.0}


def quantised(matrix: Tensor, bits: int) -> Tensor:
    """``[row, column]`` values rounded to multiples of a scale of their row, symmetric around 0."""
    most = 2 ** (bits - 1) - 1
    scale = matrix.abs().amax(1, keepdim=True) / most
    scale = torch.where(scale == 0, 1.0, scale)  # a row of zeros
    return (matrix / scale).round().clamp(-most, most) * scale


# Where a block computes the queries, keys and values of its heads, head 1 first; and the two layers of its feed-forward
# part, of which the first is the wider one. By family.
_LIKE_BERT = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
_INPUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_LIKE_BERT, ("attention.self.query", "attention.self.key", "attention.self.value")),
    "albert": ("attention.query", "attention.key", "attention.value"),
    "deberta-v2": ("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
    "distilbert": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    "mpnet": ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
}
_FEED_FORWARD: dict[str, tuple[str, str]] = {
    **dict.fromkeys((*_LIKE_BERT, "deberta", "deberta-v2", "mpnet"), ("intermediate.dense", "output.dense")),
    "albert": ("ffn", "ffn_output"),
    "distilbert": ("ffn.lin1", "ffn.lin2"),
    "modernbert": ("mlp.Wi", "mlp.Wo"),
}


@dataclass(frozen=True)
class Heads(Method):
    """Close attention heads for good, the least important ones first (Michel et al. 2019).

    What a head adds to its layer becomes 0, exactly as with a gate of 0, since the columns of the output projection
    that read it are set to zero. In families where they are known apart, so are the rows of its queries, keys and
    values, all biases staying: a closed head attends to all pieces alike. Shapes stay, since plain transformers cannot
    load layers with heads missing. In ALBERT, whose layers share one block, a head is closed in every layer, and called
    ``L1H…``.
    """

    name = "heads"

    share: float | None = None
    """Share of all heads of the model that is closed; left out where they are named."""
    by: Literal["importance", "random"] | tuple[str, ...] = "importance"
    """The order: the expected gradient of the masked-LM loss at a gate on the head, normalised by layer (Michel et al.
    2019, eq. 2), smallest first; at random; or the heads themselves, such as ``[L1H2, L3H4]``."""
    corpus: str = "pocket"
    """Text that importance is measured on: the first sentences of its first split."""
    sentences: int = 200
    """How many."""
    seed: int = 0
    """Seed of masked words, and of a random order."""

    def __post_init__(self) -> None:
        named = not isinstance(self.by, str)
        if named == (self.share is not None):
            raise ModelError("heads: give share, or the heads by name (by=[L1H2,L3H4]), not both and not neither")
        super().__post_init__()
        if self.sentences < 1:
            raise ModelError(f"heads: sentences is {self.sentences}; give 1 or more")

    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        compressed.matrices(embeddings=False)  # refuses what has no linear layers
        closed, outcome = self._chosen(compressed)
        blocks, n_heads = compressed.distinct_blocks, compressed.n_heads
        for unit, head in closed:
            block, family = blocks[unit], compressed.family
            output: Any = head_projection(block, family)
            _part(output.weight, 1, head, n_heads).zero_()
            for path in _INPUTS.get(family, ()):
                inputs: Any = block.get_submodule(path)
                _part(inputs.weight, 0, head, n_heads).zero_()
        names = [f"L{unit + 1}H{head + 1}" for unit, head in sorted(closed)]
        return {"closed": names, "of_heads": len(blocks) * n_heads, **outcome}

    def _chosen(self, compressed: CompressedModel) -> tuple[list[tuple[int, int]], dict[str, Any]]:
        """Numbers of blocks and heads, both from 0, and what they were chosen by."""
        n_units, n_heads = len(compressed.distinct_blocks), compressed.n_heads
        if not isinstance(self.by, str):
            named = parse_heads(self.by)
            check_gates(dict.fromkeys(named, 0.0), n_layers=n_units, n_heads=n_heads)
            return [(layer - 1, head - 1) for layer, head in named], {}
        n_closed = round((self.share or 0) * n_units * n_heads)
        if not n_closed:
            return [], {}
        if self.by == "random":
            order, outcome = np.random.default_rng(self.seed).permutation(n_units * n_heads), {}
        else:
            importance, fingerprint = self._importance(compressed)
            order, outcome = importance.ravel().argsort(kind="stable"), {"text_fingerprint": fingerprint}
        return [(int(place) // n_heads, int(place) % n_heads) for place in order[:n_closed]], outcome

    def _importance(self, compressed: CompressedModel) -> tuple[NDArray[np.float64], str]:
        """``[block, head]`` importance, summed over the layers that a block is, and the fingerprint of the text."""
        corpus = load_corpus(self.corpus)
        text = corpus[next(iter(corpus.splits))][: self.sentences]
        with compressed.encoder() as encoder:
            words = MaskedWords(encoder, text, seed=self.seed)
            by_layer = head_importance(words, progress=compressed.progress).of("importance")
        blocks = compressed.distinct_blocks
        importance = np.zeros((len(blocks), compressed.n_heads))
        np.add.at(importance, [blocks.index(block) for block in compressed.blocks], by_layer)
        return importance, text.text_fingerprint


def _part(weight: Tensor, axis: int, head: int, n_heads: int) -> Tensor:
    """The rows (axis 0) or columns (axis 1) of a matrix that belong to a head."""
    size = weight.shape[axis] // n_heads
    return weight.narrow(axis, head * size, size)


@dataclass(frozen=True)
class Neurons(Method):
    """Take neurons out of the feed-forward layers, the same share of every block, so that its matrices get smaller.

    The folder has a smaller ``intermediate_size`` and is loaded, and runs faster, like any other model.
    """

    name = "neurons"

    share: float
    """Share of the neurons of each block that is taken out; one at least stays."""
    by: Literal["norm", "random"] = "norm"
    """The order: the norm of a neuron's incoming weights times that of its outgoing ones, smallest first (of a gated
    layer, those of its input and its gate together); or at random."""
    seed: int = 0
    """Seed of a random order."""

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        layers = [_feed_forward(block, compressed.family) for block in compressed.distinct_blocks]
        n_neurons = layers[0][1].in_features
        n_kept = max(1, n_neurons - round(self.share * n_neurons))
        if n_kept < n_neurons:
            chance = np.random.default_rng(self.seed)
            for wide, narrow in layers:
                kept = self._kept(wide, narrow, n_kept, chance)
                parts = wide.out_features // n_neurons  # two of a gated layer
                rows = torch.cat([kept + part * n_neurons for part in range(parts)])
                compressed.replace(wide, wide.weight[rows], None if wide.bias is None else wide.bias[rows])
                compressed.replace(narrow, narrow.weight[:, kept], None)
            config = compressed.model.config
            setattr(config, "hidden_dim" if compressed.family == "distilbert" else "intermediate_size", n_kept)
        return {"neurons": n_kept, "of_neurons": n_neurons}

    def _kept(self, wide: nn.Linear, narrow: nn.Linear, n_kept: int, chance: np.random.Generator) -> Tensor:
        n_neurons = narrow.in_features
        if self.by == "random":
            return torch.from_numpy(np.sort(chance.permutation(n_neurons)[:n_kept]))
        incoming = wide.weight.square().sum(1).view(-1, n_neurons).sum(0)
        outgoing = narrow.weight.square().sum(0)
        order = torch.argsort(incoming * outgoing, descending=True, stable=True)
        return torch.sort(order[:n_kept]).values


def _feed_forward(block: nn.Module, family: str) -> tuple[nn.Linear, nn.Linear]:
    """The wide and the narrow layer of a block's feed-forward part."""
    if family not in _FEED_FORWARD:
        known = ", ".join(sorted(_FEED_FORWARD))
        raise ModelError(f"neurons of {family} models cannot be taken out: it is known for {known}")
    wide, narrow = (block.get_submodule(path) for path in _FEED_FORWARD[family])
    assert isinstance(wide, nn.Linear)
    assert isinstance(narrow, nn.Linear)
    return wide, narrow


@dataclass(frozen=True)
class Layers(Method):
    """Take out whole layers (Sajjad et al. 2023): the model has fewer blocks, and is loaded like any other.

    The hidden states of the remaining layers up to the first that is taken out are those of the full model. In ALBERT,
    whose layers share one block, only their number counts.
    """

    name = "layers"

    keep: tuple[int, ...] | None = None
    """Layers that stay, from 1, in rising order; -1 is the last."""
    drop_top: int | None = None
    """Number of layers taken out from the top, instead."""

    def __post_init__(self) -> None:
        if (self.keep is None) == (self.drop_top is None):
            raise ModelError("layers: give keep (such as keep=[1,2,5]) or drop_top (such as drop_top=2)")
        if self.keep is not None and not self.keep:
            raise ModelError("layers: keep is []; give layers in rising order, each once")

    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        n_layers = len(compressed.blocks)
        if self.drop_top is not None and not 0 <= self.drop_top < n_layers:
            raise ModelError(f"layers: drop_top is {self.drop_top}; the model has {n_layers}, and one has to stay")
        kept = self.keep or range(1, n_layers - (self.drop_top or 0) + 1)
        keep = [layer_number(layer, n_layers) for layer in kept]
        if keep != sorted(set(keep)):
            raise ModelError(f"layers: keep is {list(kept)}; give layers in rising order, each once")
        wrong = next((layer for layer in keep if not 1 <= layer <= n_layers), None)
        if wrong is not None:
            raise ModelError(f"layers: there is no layer {wrong}; the model has 1…{n_layers}")
        compressed.keep_layers(keep)
        return {"kept": list(keep), "of_layers": n_layers}
