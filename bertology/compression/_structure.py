"""Methods that take out whole parts: attention heads, neurons of the feed-forward layers, layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology._names import layer_number
from bertology.attention import parse_heads
from bertology.attention.importance import MaskedWords, head_importance
from bertology.compression._methods import Method, check_share
from bertology.compression._model import CompressedModel
from bertology.corpora import load_corpus
from bertology.encoders.interventions import check_gates, head_projection
from bertology.errors import ModelError

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
    """Of all heads of the model, closed; left out where they are named."""
    by: Literal["importance", "random"] | tuple[str, ...] = "importance"
    """The order: the expected gradient of the masked-LM loss at a gate on the head, normalised by layer (Michel et al.
    2019, eq. 2), smallest first; at random; or the heads themselves, such as ``[L1H2, L3H4]``."""
    corpus: str = "pocket"
    """Text that importance is measured on: the first sentences of its first split."""
    sentences: int = 200
    """How many."""
    seed: int = 0
    """Of masked words, and of a random order."""

    def __post_init__(self) -> None:
        named = not isinstance(self.by, str)
        if named == (self.share is not None):
            raise ModelError("heads: give share, or the heads by name (by=[L1H2,L3H4]), not both and not neither")
        if self.share is not None:
            check_share(self.share, method=self.name)
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
    """Of the neurons of each block, taken out; one at least stays."""
    by: Literal["norm", "random"] = "norm"
    """The order: the norm of a neuron's incoming weights times that of its outgoing ones, smallest first (of a gated
    layer, those of its input and its gate together); or at random."""
    seed: int = 0
    """Of a random order."""

    def __post_init__(self) -> None:
        check_share(self.share, method=self.name)

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
