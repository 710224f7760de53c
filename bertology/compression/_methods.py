"""Methods that compress a model in memory: they change its weights, take out parts of it, or distil it."""

import contextlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from bertology._folder import own_folder
from bertology._names import layer_number
from bertology._settings import Checked, Count, Positive, Share
from bertology._training import train, weight_groups
from bertology.activations.progress import Progress, silent
from bertology.attention.importance import MaskedWords, head_importance
from bertology.attention.viewer import parse_heads
from bertology.corpora import Sentences, load_corpus
from bertology.encoders import Encoder, ModelSource, Pieces, load_encoder
from bertology.encoders.batching import Batch, plan_batches
from bertology.encoders.interventions import check_gates, find_part, forward_replaced
from bertology.encoders.loading import WholeModel, blocks_of
from bertology.encoders.sources import save_model
from bertology.errors import CorpusError, ModelError
from bertology.families.model_corpus import choose_splits

_FULL_BITS = 32
_CLOSE = 1e-4


@dataclass(frozen=True)
class Storage:
    """Storage of the values of a tensor."""

    bits: int = _FULL_BITS
    """Bits of each value; below 32 each row has a scale of 32 bits as well."""
    rank: int | None = None
    """Rank of the product of two matrices of 32 bits; None where the tensor is no such product."""

    def n_bytes(self, tensor: Tensor) -> int:
        """The least of three: all values; those that are not zero, and a bit a value that marks them; two factors."""
        n_values, n_rows = tensor.numel(), len(tensor)
        if tensor.ndim < 2:  # biases and norms, which no method changes
            return n_values * _FULL_BITS // 8
        nonzero = int(torch.count_nonzero(tensor))
        scales = _FULL_BITS * n_rows if self.bits < _FULL_BITS else 0
        options = [n_values * self.bits + scales, nonzero * self.bits + n_values + scales]
        if self.rank is not None:
            options.append(self.rank * (n_rows + n_values // n_rows) * _FULL_BITS)
        return -(-min(options) // 8)


@dataclass
class CompressedModel:
    """A model in memory that methods change one after the other; made by :func:`compress`."""

    source: ModelSource
    whole: WholeModel
    work: Path
    """A folder for temporary files, which is deleted afterwards."""
    state: Path
    """A folder for the state of training, from which a stopped run goes on."""
    progress: Progress = silent
    device: str = "auto"
    """Device that sentences are read and students are trained on."""
    stored_before: Mapping[str, Storage] = field(default_factory=dict)
    """Storage of the weights by name, where it is not the default: that of an earlier compression."""

    def __post_init__(self) -> None:
        self.adopt(self.whole.model)
        weights = self.model.named_parameters()
        self.storage = {id(weight): self.stored_before[name] for name, weight in weights if name in self.stored_before}
        """Storage by the ``id`` of a parameter."""

    def adopt(self, model: Any) -> None:
        """Replace the current model by another one of the same family."""
        if model is not self.whole.model:
            self.whole = replace(self.whole, model=model, absent=frozenset())
        self.model, self.family = model, self.whole.family
        self.blocks: list[nn.Module] = blocks_of(model, model.config.num_hidden_layers, self.family)
        """Blocks in the order in which they run; ALBERT's once for every time it runs."""
        self.distinct_blocks = list(dict.fromkeys(self.blocks))
        self.n_heads = int(model.config.num_attention_heads)

    def matrices(self, *, embeddings: bool) -> list[nn.Parameter]:
        """The weights of all linear layers, shared ones once; with ``embeddings`` those of embedding tables as well.

        A projection onto the vocabulary counts as an embedding, tied or not. ModelError where blocks hold other
        matrices.
        """
        modules, last = dict(self.model.named_modules()), self.model.get_output_embeddings()
        tables = [name for name, one in modules.items() if isinstance(one, nn.Embedding) or one is last]
        known = {id(modules[name].weight) for name in tables}
        linear = [name for name, one in modules.items() if isinstance(one, nn.Linear) and id(one.weight) not in known]
        known = {id(modules[name].weight) for name in linear}
        for name, weight in (named for block in self.distinct_blocks for named in block.named_parameters()):
            if weight.ndim > 1 and id(weight) not in known:
                what = f"{name} in the blocks of {self.family} is no linear layer"
                raise ModelError(f"model {self.source.name}: {what}: only encoders like BERT can be compressed")
        chosen = [modules[name].weight for name in [*linear, *(tables if embeddings else [])]]
        return list({id(weight): weight for weight in chosen}.values())

    def replace(self, module: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
        """Give a linear layer other weights, of another shape."""
        before = self.storage.pop(id(module.weight), Storage())
        module.weight = nn.Parameter(weight.clone(), requires_grad=False)
        self.storage[id(module.weight)] = before
        if bias is not None:
            module.bias = nn.Parameter(bias.clone(), requires_grad=False)
        module.out_features, module.in_features = weight.shape

    def keep_layers(self, keep: Sequence[int]) -> None:
        """Keep only these layers (from 1, ascending); ModelError where layers cannot be taken out in this way."""
        config, blocks, n_layers = self.model.config, self.blocks, len(self.blocks)
        if list(keep) == list(range(1, n_layers + 1)):
            return
        if len(self.distinct_blocks) == 1 and n_layers > 1:
            # One block that runs several times: it runs less often, whichever layers are named.
            config.num_hidden_layers = len(keep)
        else:
            if self.family == "modernbert" and keep[0] != 1:
                raise ModelError(f"model {self.source.name}: keep layer 1, the only one without a norm before it")
            lists = (name for name, one in self.whole.body.named_modules() if isinstance(one, nn.ModuleList))
            name = next((name for name in lists if list(self.whole.body.get_submodule(name)) == blocks), None)
            if name is None or not isinstance(config.num_hidden_layers, int):
                what = f"its {self.family} blocks are not in one list of their own"
                raise ModelError(f"model {self.source.name}: {what}, so that layers cannot be taken out")
            parent, _, last = name.rpartition(".")
            kept = nn.ModuleList([blocks[layer - 1] for layer in keep])
            setattr(self.whole.body.get_submodule(parent), last, kept)
            if kinds := getattr(config, "layer_types", None):
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
        """Raise :class:`ModelError` unless a saved model computes what the one in memory does."""
        saved = load_encoder(ModelSource(self.source.name, folder), device="cpu")
        ids = torch.arange(saved.model.body.get_input_embeddings().num_embeddings)[-7:][None]  # type: ignore[operator]
        with torch.inference_mode():
            expected = self.whole.body.to("cpu")(input_ids=ids, return_dict=True).last_hidden_state
        found = saved.hidden_states(ids, layers=[saved.n_layers])[saved.n_layers]
        if not torch.allclose(expected, found, rtol=_CLOSE, atol=_CLOSE):
            other = "once saved and loaded it computes something else"
            remedy = f"so {self.family} models cannot be compressed in this way; choose another method"
            raise ModelError(f"model {self.source.name}: {other}, {remedy}")

    def sizes(self) -> tuple[int, int, int]:
        """Number of weights, number that are not zero, and the bytes that they could be stored in."""
        kept = [value for name, value in self.model.named_parameters() if name not in self.whole.absent]
        n_bytes = sum(self.storage.get(id(value), Storage()).n_bytes(value) for value in kept)
        return sum(value.numel() for value in kept), sum(int(torch.count_nonzero(value)) for value in kept), n_bytes

    def stored(self) -> dict[str, Storage]:
        """Possible storage of each weight, by name, where it is not the default."""
        named = {name: self.storage.get(id(value), Storage()) for name, value in self.model.named_parameters()}
        return {name: storage for name, storage in named.items() if storage != Storage()}


Fraction = Annotated[float, Field(gt=0, lt=1)]


class Method(Checked, ABC):
    """A way to compress a model; its fields are its settings.

    In every method that has a ``share``, this is the share of something that is taken away: 0 changes nothing.
    """

    kind: ClassVar[str] = "method"

    @abstractmethod
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """Change a model in memory; returns what was done in values of JSON, or raises where it cannot be done."""


def smallest_weights(matrices: Sequence[Tensor], share: float) -> list[Tensor]:
    """Bool masks of some matrices that mark their weights of smallest magnitude, compared across all of them.

    Exactly the nearest whole number to ``share`` × weights is marked; of equal magnitudes the first ones.
    """
    magnitudes = torch.cat([matrix.detach().abs().flatten() for matrix in matrices])
    chosen = torch.zeros_like(magnitudes, dtype=torch.bool)
    if n := round(share * len(magnitudes)):
        threshold = magnitudes.kthvalue(n).values
        chosen = magnitudes < threshold
        equal = (magnitudes == threshold).nonzero()[:, 0]
        chosen[equal[: n - int(chosen.sum())]] = True
    parts = torch.split(chosen, [matrix.numel() for matrix in matrices])
    return [part.view_as(matrix) for part, matrix in zip(parts, matrices, strict=True)]


@dataclass(frozen=True)
class Magnitude(Method):
    """Set the weights of smallest magnitude to zero (Han et al. 2015; of BERT, Gordon et al. 2020).

    Weights are those of the linear layers; biases and norms stay as they are. Exactly the nearest whole number to
    ``share`` × weights is zero afterwards, those that were zero before among them; of equal magnitudes the first ones.
    """

    name = "magnitude"

    share: Share
    """Share of the weights that is set to zero."""
    scope: Literal["global", "tensor"] = "global"
    """Whether magnitudes are compared across all matrices, or each matrix loses the same share."""
    embeddings: bool = False
    """Whether embedding tables are pruned as well, and with them the projection onto the vocabulary, tied or not."""

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        matrices = compressed.matrices(embeddings=self.embeddings)
        n_zero = 0
        for group in [matrices] if self.scope == "global" else [[matrix] for matrix in matrices]:
            for matrix, smallest in zip(group, smallest_weights(group, self.share), strict=True):
                matrix.masked_fill_(smallest, 0.0)
                n_zero += int(smallest.sum())
        for matrix in matrices if n_zero else []:  # no longer the product of two smaller ones
            compressed.storage[id(matrix)] = Storage(compressed.storage.get(id(matrix), Storage()).bits)
        return {"zero_weights": n_zero, "of_weights": sum(matrix.numel() for matrix in matrices)}


@dataclass(frozen=True)
class LowRank(Method):
    """Replace each linear layer's matrix by the nearest one of lower rank: its truncated singular value decomposition.

    The matrix keeps its shape, so that plain transformers loads it; the size estimate is that of the two factors.
    """

    name = "low_rank"

    share: Share
    """Share of the singular values of each matrix, the smallest, that is set to zero; one at least stays."""
    embeddings: bool = False
    """Whether embedding tables, and the projection onto the vocabulary, are replaced as well."""

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        lost = total = 0.0
        matrices = compressed.matrices(embeddings=self.embeddings)
        for matrix in matrices:
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
        squared = total = 0.0
        matrices = compressed.matrices(embeddings=self.embeddings)
        for matrix in matrices:
            most = 2 ** (self.bits - 1) - 1
            scale = matrix.abs().amax(1, keepdim=True) / most
            scale = torch.where(scale == 0, 1.0, scale)  # a row of zeros
            rounded = (matrix / scale).round().clamp(-most, most) * scale
            squared += float((rounded - matrix).square().sum())
            total += float(matrix.square().sum())
            matrix.copy_(rounded)
            compressed.storage[id(matrix)] = Storage(self.bits)
        return {"matrices": len(matrices), "relative_error": math.sqrt(squared / total) if total else 0.0}


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

    share: Share | None = None
    """Share of all heads of the model that is closed; left out where they are named."""
    by: Literal["importance", "random"] | tuple[str, ...] = "importance"
    """The order: the expected gradient of the masked-LM loss at a gate on the head, normalised by layer (Michel et al.
    2019, eq. 2), smallest first; at random; or the heads themselves, such as ``[L1H2, L3H4]``."""
    corpus: str = "pocket"
    """Text that importance is measured on: the first sentences of its first split."""
    sentences: Count = 200
    """Their number."""
    seed: int = 0
    """Seed of masked words, and of a random order."""

    def __post_init__(self) -> None:
        named = not isinstance(self.by, str)
        if named == (self.share is not None):
            raise ModelError("heads: give share, or the heads by name (by=[L1H2,L3H4]), not both and not neither")
        super().__post_init__()

    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        compressed.matrices(embeddings=False)  # refuses what has no linear layers
        blocks, n_heads, family = compressed.distinct_blocks, compressed.n_heads, compressed.family
        n_closed, outcome = round((self.share or 0) * len(blocks) * n_heads), {}
        if not isinstance(self.by, str):
            named = parse_heads(self.by)
            check_gates(dict.fromkeys(named, 0.0), n_layers=len(blocks), n_heads=n_heads)
            closed = [(layer - 1, head - 1) for layer, head in named]  # numbers of blocks and heads, both from 0
        else:
            order: Any = range(0)
            if n_closed and self.by == "random":
                order = np.random.default_rng(self.seed).permutation(len(blocks) * n_heads)
            elif n_closed:
                corpus = load_corpus(self.corpus)
                text = corpus[next(iter(corpus.splits))][: self.sentences]
                with compressed.encoder() as encoder:
                    words = MaskedWords(encoder, text, seed=self.seed)
                    by_layer = head_importance(words, progress=compressed.progress).of("importance")
                importance = np.zeros((len(blocks), n_heads))  # summed over the layers that a block is
                np.add.at(importance, [blocks.index(block) for block in compressed.blocks], by_layer)
                order, outcome["text_fingerprint"] = importance.ravel().argsort(kind="stable"), text.text_fingerprint
            closed = [divmod(int(place), n_heads) for place in order[:n_closed]]
        for unit, head in closed:
            output: Any = find_part(blocks[unit], family, "head")
            parts: list[tuple[Any, int]] = [(output.weight, 1)]
            parts += [(blocks[unit].get_submodule(path).weight, 0) for path in _INPUTS.get(family, ())]
            for weight, axis in parts:  # the columns or rows that belong to a head
                size = weight.shape[axis] // n_heads
                weight.narrow(axis, head * size, size).zero_()
        names = [f"L{unit + 1}H{head + 1}" for unit, head in sorted(closed)]
        return {"closed": names, "of_heads": len(blocks) * n_heads, **outcome}


@dataclass(frozen=True)
class Neurons(Method):
    """Take neurons out of the feed-forward layers, the same share of every block, so that its matrices get smaller.

    The folder has a smaller ``intermediate_size`` and is loaded, and runs faster, like any other model.
    """

    name = "neurons"

    share: Share
    """Share of the neurons of each block that is taken out; one at least stays."""
    by: Literal["norm", "random"] = "norm"
    """The order: the norm of a neuron's incoming weights times that of its outgoing ones, smallest first (of a gated
    layer, those of its input and its gate together); or at random."""
    seed: int = 0
    """Seed of a random order."""

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        family = compressed.family
        if family not in _FEED_FORWARD:
            known = ", ".join(sorted(_FEED_FORWARD))
            raise ModelError(f"neurons of {family} models cannot be taken out: it is known for {known}")
        blocks, paths = compressed.distinct_blocks, _FEED_FORWARD[family]
        layers: list[list[Any]] = [[block.get_submodule(path) for path in paths] for block in blocks]
        n_neurons = layers[0][1].in_features
        n_kept = max(1, n_neurons - round(self.share * n_neurons))
        if n_kept < n_neurons:
            chance = np.random.default_rng(self.seed)
            for wide, narrow in layers:
                if self.by == "random":
                    kept = torch.from_numpy(np.sort(chance.permutation(n_neurons)[:n_kept]))
                else:
                    incoming = wide.weight.square().sum(1).view(-1, n_neurons).sum(0)
                    outgoing = narrow.weight.square().sum(0)
                    order = torch.argsort(incoming * outgoing, descending=True, stable=True)
                    kept = torch.sort(order[:n_kept]).values
                parts = wide.out_features // n_neurons  # two of a gated layer
                rows = torch.cat([kept + part * n_neurons for part in range(parts)])
                compressed.replace(wide, wide.weight[rows], None if wide.bias is None else wide.bias[rows])
                compressed.replace(narrow, narrow.weight[:, kept], None)
            config = compressed.model.config
            setattr(config, "hidden_dim" if family == "distilbert" else "intermediate_size", n_kept)
        return {"neurons": n_kept, "of_neurons": n_neurons}


@dataclass(frozen=True)
class Layers(Method):
    """Take out whole layers (Sajjad et al. 2023): the model has fewer blocks, and is loaded like any other.

    The hidden states of the remaining layers up to the first that is taken out are those of the full model. In ALBERT,
    whose layers share one block, only their number counts.
    """

    name = "layers"

    keep: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    """Layers that stay, from 1, in rising order; -1 is the last."""
    drop_top: int | None = None
    """Number of layers taken out from the top, instead."""

    def __post_init__(self) -> None:
        if (self.keep is None) == (self.drop_top is None):
            raise ModelError("layers: give keep (such as keep=[1,2,5]) or drop_top (such as drop_top=2)")
        super().__post_init__()

    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
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


_HELD_OUT_SENTENCES = 200
_MASKED, _SHOWN = 0.8, 0.9
Rows = dict[str, Tensor]
"""A batch with some of its pieces masked, ``[row, piece]``: ``input_ids``, ``attention_mask`` (0 at padding),
``places``, bool, the pieces to predict, and ``wanted``, the pieces before they were masked."""


@dataclass(frozen=True)
class Student(Method):
    """A way to train a student of fewer layers on text; the teacher is the model as it is.

    Pieces are masked as by Devlin et al. (2019), nothing is dropped out; AdamW with a linear warm-up over a tenth of
    the steps and a linear decay. A stopped run goes on from its last state.
    """

    layers: Count
    """Layers of the student."""
    steps: Count = 2000
    """Optimisation steps."""
    corpus: str = "pocket"
    """Text to train on, its first split; losses before and after are of its split ``dev``, where it has one, else of
    every tenth sentence, which is not trained on."""
    lr: Fraction = 5e-4
    """Highest learning rate."""
    batch_pieces: Count = 1024
    """Pieces in a batch, padding included."""
    mask_rate: Fraction = 0.15
    """Share of pieces that are predicted."""
    checkpoint_every: Count = 200
    """Steps between states from which a stopped run goes on."""
    seed: int = 0
    """Decides batches and masks."""

    @abstractmethod
    def first_layers(self, n_layers: int) -> list[int]:
        """The layers of the teacher, of so many, that the student begins as."""

    @abstractmethod
    def trained(self, teacher: Encoder, student: Encoder) -> Sequence[nn.Module]:
        """The modules of a student that are trained; ModelError where this teacher cannot be learned."""

    @abstractmethod
    def loss(self, teacher: Encoder, student: Encoder, rows: Rows) -> Tensor:
        """The loss of one batch, with gradients for what is trained unless these are off."""

    def drawn(self, examples: "Examples", step: int) -> Rows:
        """The batch of a step."""
        return examples.drawn(step)

    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        n_layers = len(compressed.blocks)
        if self.layers > n_layers:
            raise ModelError(f"{self.name}: the model has {n_layers} layers, so a student cannot have {self.layers}")
        corpus = load_corpus(self.corpus)
        splits = choose_splits(corpus, train=next(iter(corpus.splits)), test=None)
        text, held_out = splits.train, splits.dev[:_HELD_OUT_SENTENCES]
        with compressed.encoder() as teacher:
            if not teacher.has_masked_lm_head:
                remedy = "choose a masked language model, or methods such as layers and neurons"
                lacking = "no masked-LM head in its weights, which distillation needs"
                raise ModelError(f"model {teacher.name}: {lacking}; {remedy}")
            keep = self.first_layers(n_layers)
            compressed.keep_layers(keep)
            identity = {"settings": asdict(self), "teacher": teacher.fingerprint, "text": text.text_fingerprint}
            plain = json.loads(json.dumps(identity))
            with compressed.encoder() as student, own_folder(compressed.state, "trains here", plain):
                before, after = self._train(teacher, student, text, held_out, compressed)
        compressed.adopt(cast(Any, student.model.with_head).to("cpu").requires_grad_(False))
        compressed.storage.clear()
        outcome = {"started_from_layers": keep, "loss_before": before, "loss_after": after}
        return {**outcome, "sentences": len(text), "text_fingerprint": text.text_fingerprint}

    def _train(
        self, teacher: Encoder, student: Encoder, text: Sentences, held_out: Sentences, compressed: CompressedModel
    ) -> tuple[float, float]:
        """Train a student, from the last checkpoint where there is one; its mean losses before and after."""
        model, warm = cast(Any, student.model.with_head), max(1, self.steps // 10)
        trained = self.trained(teacher, student)
        examples, others = (Examples(self, teacher, one) for one in (text, held_out))

        def loss(rows: Rows) -> Tensor:
            model.eval()  # nothing is dropped out
            return self.loss(teacher, student, rows)

        def mean_loss() -> float:
            with torch.no_grad():
                return float(np.mean([float(loss(rows)) for rows in others.each()]))

        before = mean_loss()
        for module in trained:
            module.requires_grad_(True)
        train(
            model,
            range(self.steps),
            lambda steps: self.drawn(examples, steps[0]),
            torch.optim.AdamW(weight_groups(model, 0.01)),
            folder=compressed.state,
            device=student.device,
            clip_norm=1.0,
            checkpoint_every=self.checkpoint_every,
            remedy="lower lr or hidden_weight",
            loss=loss,
            rate=lambda step: self.lr * min((step + 1) / warm, (self.steps - step) / max(1, self.steps - warm)),
            progress=compressed.progress,
            max_steps=self.steps,
            save_total_limit=1,
        )
        return before, mean_loss()


@dataclass(frozen=True)
class Distil(Student):
    """Train a student of fewer layers on what its teacher, the model as it is, predicts (Sanh et al. 2019).

    The student begins as the teacher's embeddings, head and layers at even distances (1, 3, 5, 8, 10 and 12 for six of
    twelve, as DistilBERT). Its loss is KL(teacher ‖ student) of the masked-LM predictions at masked pieces, at a
    temperature T and times T², plus ``hidden_weight`` times the mean squared difference of hidden states, and
    ``attention_weight`` times that of attention scores: of its layer i of n and the teacher's layer round(i · L / n).
    """

    name = "distil"

    temperature: Positive = 2.0
    """Both distributions are those of logits divided by it."""
    hidden_weight: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the difference of hidden states in the loss; 0 leaves it out."""
    attention_weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the difference of attention scores, before the softmax, in the loss (Jiao et al. 2020, eq. 7)."""

    def first_layers(self, n_layers: int) -> list[int]:
        return [int(layer) for layer in np.linspace(1, n_layers, self.layers).round()]

    def trained(self, teacher: Encoder, student: Encoder) -> Sequence[nn.Module]:
        if self.attention_weight and teacher.family not in _SCORED:
            raise ModelError(
                f"distil: attention_weight is known for {', '.join(_SCORED)} models, not {teacher.family}: leave it out"
            )
        return [cast(nn.Module, student.model.with_head)]

    def loss(self, teacher: Encoder, student: Encoder, rows: Rows) -> Tensor:
        with torch.no_grad(), self._scores(teacher) as wanted_scores:
            wanted, target = _outputs(teacher, rows, states=True)
        with self._scores(student) as scores:
            (states, logits), heat = _outputs(student, rows, states=True), self.temperature
        own, other = ((one / heat).log_softmax(-1) for one in (logits, target))
        loss = heat**2 * functional.kl_div(own, other, reduction="batchmean", log_target=True)
        real, size = rows["attention_mask"].bool(), student.n_layers
        pairs = [(i, round(i * teacher.n_layers / size)) for i in range(1, size + 1)]
        if self.hidden_weight:
            parts = [functional.mse_loss(states[i][real], wanted[j][real]) for i, j in pairs]
            loss = loss + self.hidden_weight * torch.stack(parts).mean()
        if self.attention_weight:
            both = (real[:, :, None] & real[:, None, :])[:, None]  # [row, 1, piece, piece]
            squares = [(scores[i - 1] - wanted_scores[j - 1]).square() for i, j in pairs]
            means = [(one * both).sum() / (both.sum() * one.shape[1]) for one in squares]
            loss = loss + self.attention_weight * torch.stack(means).mean()
        return loss

    @contextlib.contextmanager
    def _scores(self, encoder: Encoder) -> Iterator[list[Tensor]]:
        """Attention scores ``[row, head, piece, piece]`` by layer of the pass inside, where the loss needs them."""
        found: list[Tensor] = []
        queries: list[Tensor] = []

        def keep(is_key: bool, module: Any, args: Any, output: Any) -> None:
            heads = output.unflatten(-1, (encoder.n_heads, -1)).transpose(1, 2)
            if is_key:
                found.append(queries.pop() @ heads.transpose(2, 3) * heads.shape[-1] ** -0.5)
            else:
                queries.append(heads)

        with contextlib.ExitStack() as stack:
            for block in dict.fromkeys(encoder.model.blocks) if self.attention_weight else ():
                for is_key, path in enumerate(_INPUTS[encoder.family][:2]):
                    hook = partial(keep, bool(is_key))
                    stack.callback(block.get_submodule(path).register_forward_hook(hook).remove)
            yield found


@dataclass(frozen=True)
class Theseus(Student):
    """Replace groups of layers by single ones that learn to do the same in their place (Xu et al. 2020).

    The student begins as the teacher's embeddings, head and lowest layers. In each step each of its layers stands in
    for its group of the teacher's with some probability, one at least, and the loss is that of the masked pieces that
    this mixed model predicts; only the student's layers are trained. The probability rises linearly from ``rate`` to 1
    over half of the steps, and the student is trained alone in the other half (their sections 3.2 and 3.3).
    """

    name = "theseus"

    rate: Fraction = 0.5
    """Probability of a replacement at first."""

    def first_layers(self, n_layers: int) -> list[int]:
        return list(range(1, self.layers + 1))

    def trained(self, teacher: Encoder, student: Encoder) -> Sequence[nn.Module]:
        if teacher.family == "albert" or getattr(teacher.model.body.config, "layer_types", None):
            what = "share weights" if teacher.family == "albert" else "are of several kinds"
            raise ModelError(f"theseus: the layers of {teacher.family} models {what}; choose distil")
        return student.model.blocks

    def drawn(self, examples: "Examples", step: int) -> Rows:
        share = min(1.0, self.rate + (1 - self.rate) * 2 * step / self.steps)
        chance = np.random.default_rng([self.seed, 2, step])
        replaced = chance.random(self.layers) < share
        replaced[chance.integers(self.layers)] |= not replaced.any()
        return {**examples.drawn(step), "replaced": torch.from_numpy(replaced)}

    def loss(self, teacher: Encoder, student: Encoder, rows: Rows) -> Tensor:
        groups = np.array_split(np.arange(teacher.n_layers), self.layers)
        replaced = rows["replaced"].tolist() if "replaced" in rows else [True] * self.layers
        with contextlib.ExitStack() as stack:
            for own, group, is_replaced in zip(student.model.blocks, groups, replaced, strict=True):
                if not is_replaced:
                    in_turn = partial(_in_turn, [teacher.model.blocks[number] for number in group])
                    stack.enter_context(forward_replaced(own, in_turn))
            _, logits = _outputs(student, rows, states=False)
        return functional.cross_entropy(logits, rows["wanted"][rows["places"]])


class Examples:
    """Batches of a text with masked pieces; each depends on the seed and its number alone."""

    def __init__(self, method: Student, encoder: Encoder, sentences: Sentences) -> None:
        self._method, self._encoder = method, encoder
        self._pieces: Pieces = encoder.tokenize(sentences)
        if not self._pieces.n_windows:
            raise CorpusError(f"{method.name}: there is no text that the model can read; give another corpus")
        self.batches = plan_batches(self._pieces.window_lengths, pieces=method.batch_pieces)
        special = set(encoder.tokenizer.all_special_ids)
        self._ordinary = np.array([i for i in range(len(encoder.tokenizer)) if i not in special])

    def drawn(self, step: int) -> Rows:
        """The batch of a step, drawn at random."""
        chance = np.random.default_rng([self._method.seed, 0, step])
        return self._masked(self.batches[chance.integers(len(self.batches))], chance)

    def each(self) -> list[Rows]:
        """All batches, once, with masks of their own."""
        seed = self._method.seed
        return [self._masked(one, np.random.default_rng([seed, 1, n])) for n, one in enumerate(self.batches)]

    def _masked(self, batch: Batch, chance: np.random.Generator) -> Rows:
        encoder = self._encoder
        rows: dict[str, Any] = {**self._pieces.inputs(batch.windows, batch.length, is_padded=True)}
        ids = wanted = rows["input_ids"]
        lengths = self._pieces.window_lengths[batch.windows][:, None]
        column = np.arange(batch.length)
        text = (column >= encoder.n_prefix) & (column < lengths - encoder.n_suffix)
        places = text & (chance.random(ids.shape) < self._method.mask_rate)
        row = int(chance.integers(len(ids)))
        places[row, encoder.n_prefix] = text[row, encoder.n_prefix]  # one place at least
        kind = chance.random(ids.shape)
        other = self._ordinary[chance.integers(len(self._ordinary), size=ids.shape)]
        ids = np.where(places & (kind < _MASKED), encoder.mask_id, ids)
        ids = np.where(places & (kind >= _MASKED) & (kind < _SHOWN), other, ids)
        rows |= {"input_ids": ids, "places": places, "wanted": wanted}
        return {name: torch.from_numpy(values).to(encoder.device) for name, values in rows.items()}


def _outputs(encoder: Encoder, rows: Rows, *, states: bool) -> tuple[tuple[Tensor, ...], Tensor]:
    """``[row, piece, dim]`` by layer from 0 (the last as the head reads it, alone without ``states``); and ``[place,
    piece]`` logits."""
    body, head, mask = cast(Any, encoder.model.body), encoder.masked_head, rows["attention_mask"]
    # Attention without a mask is faster.
    inputs = {"input_ids": rows["input_ids"]} | ({} if bool(mask.all()) else {"attention_mask": mask})
    output = body(**inputs, output_hidden_states=states, return_dict=True)
    last = output.last_hidden_state
    logits = head.logits(head.features(last[rows["places"]]))
    return (*(output.hidden_states[: encoder.n_layers] if states else ()), last), logits


def _in_turn(blocks: Sequence[nn.Module], hidden: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The output of the last of some blocks, run one after the other on hidden states ``[row, piece, dim]``."""
    output: Any = hidden
    for block in blocks:
        output = block(output[0] if isinstance(output, tuple) else output, *args, **kwargs)
    return output


_SCORED = tuple(family for family in _INPUTS if family not in ("deberta-v2", "mpnet"))
"""Families whose attention scores are products of queries and keys alone."""
_KINDS: tuple[type[Method], ...] = (Magnitude, Heads, Neurons, Layers, LowRank, Quantise, Distil, Theseus)
METHODS: Mapping[str, type[Method]] = {kind.name: kind for kind in _KINDS}
"""Ways to compress a model, by name."""
