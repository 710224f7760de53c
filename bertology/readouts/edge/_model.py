"""The shape of edge probes, and the windows and batches of spans that go through them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from bertology.readouts._fitting import moved
from bertology.readouts._moments import JoinedChunks
from bertology.readouts._sources import SpanSource, span_rows

Pooling = Literal["attention", "first", "last", "mean", "endpoints"]
Reads = Literal["one", "mix", "cat"]
Parameters = Mapping[str, Tensor]
"""By name, each with the fits (or problems and columns) first."""


MIX_PACE = 20.0
"""What the learned numbers of a mix are multiplied by before the softmax. Adam moves every number by about the learning
rate a step, which is much for weights of words and next to nothing for these, of which differences of 1 and more
matter: without it, mixes are still equal when the probe is done."""


@dataclass(frozen=True)
class Rows:
    """The words of one span of each item of a batch."""

    words: Tensor
    """``[row]`` places of the words, span after span."""
    items: Tensor | None
    """``[row]`` which item of the batch each row belongs to; None where every span has one word."""


@dataclass(frozen=True)
class SpanBatch:
    """Items that go through the probes together; the words they are made of are those of their window."""

    items: Tensor
    """``[m]`` their numbers."""
    rows: tuple[Rows, ...]
    """By part (see :attr:`Design.parts`)."""
    dropout: Tensor | None = None
    """``[m, hidden]`` what hidden units are multiplied by: 0, or more than 1. The same in every fit."""
    dropped_layers: Tensor | None = None
    """``[layer]`` layers that mixes leave out this time."""


@dataclass(frozen=True)
class Design:
    """The shape of the probes: all that is the same in every problem and column."""

    columns: tuple[tuple[int, ...], ...]
    """Places of the layers that each column reads."""
    reads: Reads
    """How a column reads them: the only one; their mix under learned weights; one vector after the other."""
    dim: int
    """How wide a word's vector is in one layer."""
    parts: tuple[int, ...]
    """For each pooled vector of an item the span it comes from: ``(0, 1)`` for two spans, ``(0, 0, 1, 1)`` for their
    endpoints. Vectors of one span share its projection."""
    n_classes: int
    pooling: Pooling
    projection: int
    hidden: int
    """Width of the hidden layer, 0 for a linear classifier."""
    temperature: float = 1.0

    @property
    def width(self) -> int:
        """How wide a word's vector is as a column reads it."""
        return self.dim * (len(self.columns[0]) if self.reads == "cat" else 1)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        pooled = self.projection or self.width
        if self.reads == "mix":
            shapes |= {"mix": (max(max(column) for column in self.columns) + 1,), "gamma": (1,)}
        for span in sorted(set(self.parts)):
            if self.projection:
                shapes |= {f"project_{span}": (self.width, pooled), f"project_{span}_bias": (1, pooled)}
            if self.pooling == "attention":
                shapes[f"attend_{span}"] = (pooled, 1)
        last = pooled * len(self.parts)
        if self.hidden:
            shapes |= {"hidden": (last, self.hidden), "hidden_bias": (1, self.hidden)}
            shapes |= {"norm": (1, self.hidden), "norm_bias": (1, self.hidden)}
            last = self.hidden
        return shapes | {"out": (last, self.n_classes), "out_bias": (1, self.n_classes)}

    def start(self, n_problems: int, seed: int) -> dict[str, Tensor]:
        """Initial parameters ``[problem, column, …]``: each problem has its own, in which every column begins alike.

        Uniform within ±1/√inputs, as torch's own linear layers and the authors' begin; mixes with equal weights.
        """
        parameters: dict[str, list[Tensor]] = {}
        for problem in range(n_problems):
            random = torch.Generator().manual_seed(seed * 1_000_003 + problem)
            for name, shape in self.shapes().items():
                if name in ("mix", "norm_bias"):
                    value = torch.zeros(shape)
                elif name in ("gamma", "norm"):
                    value = torch.ones(shape)
                else:
                    inputs = self.shapes()[name.removesuffix("_bias")][0]
                    value = (2 * torch.rand(shape, generator=random) - 1) * inputs**-0.5
                parameters.setdefault(name, []).append(value)
        n_columns = len(self.columns)
        return {
            name: torch.stack(values)[:, None].repeat(1, n_columns, *[1] * values[0].ndim)
            for name, values in parameters.items()
        }

    def weights(self, parameters: Parameters, columns: Tensor, dropped: Tensor | None = None) -> Tensor:
        """``[fit, layer]`` the weights of mixes: softmax over the layers that a column reads."""
        mix = parameters["mix"]
        places = torch.arange(mix.shape[-1], device=mix.device)
        read = torch.stack([torch.isin(places, torch.tensor(c, device=mix.device)) for c in self.columns])[columns]
        if dropped is not None:
            kept = read & ~dropped[: len(places)]
            read = torch.where(kept.any(-1, keepdim=True), kept, read)  # a column of one layer cannot do without it
        return (mix * MIX_PACE / self.temperature).masked_fill(~read, -torch.inf).softmax(-1)


@dataclass(frozen=True)
class Group:
    """Some of the fits of a design, computed in the same products."""

    design: Design
    problems: tuple[int, ...]
    """``[fit]`` the problem of each."""
    columns: tuple[int, ...]
    """``[fit]`` the column of each."""

    @classmethod
    def of(cls, design: Design, fits: Sequence[int]) -> Group:
        n_columns = len(design.columns)
        return cls(design, tuple(fit // n_columns for fit in fits), tuple(fit % n_columns for fit in fits))

    def scores(self, parameters: Parameters, words: Tensor, batch: SpanBatch) -> Tensor:
        """``[fit, m, class]`` scores of the items of a batch, from ``[layer, word, dim]`` words of its window."""
        design, pooled = self.design, []
        weights = None
        if design.reads == "mix":
            columns = torch.tensor(self.columns, device=words.device)
            weights = parameters["gamma"] * design.weights(parameters, columns, batch.dropped_layers)
        for span, rows in zip(design.parts, batch.rows, strict=True):
            vectors = self._read(words, rows.words, weights)  # [fit, row, width]
            if design.projection:
                bias = parameters[f"project_{span}_bias"]
                vectors = torch.baddbmm(bias, vectors, parameters[f"project_{span}"])
            if rows.items is not None:
                vectors = _attend(vectors, parameters[f"attend_{span}"], rows.items, len(batch.items))
            pooled.append(vectors)
        hidden = torch.cat(pooled, dim=2) if len(pooled) > 1 else pooled[0]
        if design.hidden:
            hidden = torch.baddbmm(parameters["hidden_bias"], hidden, parameters["hidden"]).tanh()
            hidden = functional.layer_norm(hidden, (design.hidden,))
            hidden = torch.addcmul(parameters["norm_bias"], hidden, parameters["norm"])
            if batch.dropout is not None:
                hidden = hidden * batch.dropout
        return torch.baddbmm(parameters["out_bias"], hidden, parameters["out"])

    def _read(self, words: Tensor, rows: Tensor, weights: Tensor | None) -> Tensor:
        """``[fit, row, width]`` the vectors of some words as the columns of the fits read them."""
        design = self.design
        if weights is not None:
            part = words[: weights.shape[1], rows]
            return (weights @ part.flatten(1)).view(len(weights), *part.shape[1:])
        if design.reads == "cat":
            return torch.stack([torch.cat([words[at, rows] for at in design.columns[c]], dim=1) for c in self.columns])
        layers = [design.columns[column][0] for column in self.columns]
        if layers == list(range(layers[0], layers[-1] + 1)):
            return words[layers[0] : layers[-1] + 1].index_select(1, rows)
        distinct = sorted(set(layers))
        part = torch.stack([words[layer].index_select(0, rows) for layer in distinct])
        return part[[distinct.index(layer) for layer in layers]]


def _attend(vectors: Tensor, query: Tensor, items: Tensor, n_items: int) -> Tensor:
    """Self-attentive pooling (Lee et al. 2017, section 4): ``[fit, item, dim]`` from ``[fit, row, dim]``."""
    scores = torch.bmm(vectors, query).squeeze(2)  # [fit, row]
    where = items.expand_as(scores)
    most = scores.new_full((len(scores), n_items), -torch.inf).scatter_reduce_(1, where, scores.detach(), "amax")
    grown = (scores - most[:, items]).exp()
    totals = grown.new_zeros(len(scores), n_items).index_add(1, items, grown)
    shares = grown / totals[:, items]
    pooled = vectors.new_zeros(len(vectors), n_items, vectors.shape[2])
    return pooled.index_add(1, items, vectors * shares[:, :, None])


def log_probs(scores: Tensor, labels: Tensor, *, is_sigmoid: bool) -> Tensor:
    """``[fit, m]`` natural logarithm of the probability of given classes.

    Scores are ``[fit, m, class]``, labels ``[fit, m]`` one class or ``[fit, m, class]`` the whole set of them. If
    ``is_sigmoid``, each class is judged on its own: of one class it is then the probability of that and no other.
    """
    if not is_sigmoid:
        flat = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
        return -flat.view(labels.shape)
    truth = labels if labels.ndim == 3 else functional.one_hot(labels, scores.shape[2])
    return -functional.binary_cross_entropy_with_logits(scores, truth.float(), reduction="none").sum(2)


_SCORED_AT_ONCE = 1024
_SCORED_ON_ACCELERATOR = 1 << 14


@dataclass(frozen=True)
class SpanWindow:
    """Neighbouring chunks, their items in batches."""

    words: Tensor
    """``[layer, word, dim]``; behind the last word of a batch there may be room left, with nothing in it."""
    batches: list[SpanBatch]


@dataclass(frozen=True)
class Shuffle:
    """How training items are mixed and what is left out of the probes at random."""

    batch_items: int
    random: torch.Generator
    hidden: int = 0
    """Width of the hidden layer that dropout is for."""
    dropout: float = 0.0
    layer_dropout: float = 0.0

    def cut(self, spans: Tensor, items: Tensor, n_layers: int) -> list[SpanBatch]:
        """Batches of all items of a window, of sizes as equal as can be, in random order."""
        order = torch.randperm(len(items), generator=self.random)
        n_batches = -(-len(order) // self.batch_items)
        masks: list[Tensor | None] = [None] * n_batches
        if self.hidden and self.dropout:
            kept = torch.rand(len(order), self.hidden, generator=self.random).ge_(self.dropout)
            masks = list(kept.div_(1 - self.dropout).tensor_split(n_batches))
        layers: list[Tensor | None] = [None] * n_batches
        if self.layer_dropout:
            layers = list(torch.rand(n_batches, n_layers, generator=self.random) < self.layer_dropout)
        parts = zip(order.tensor_split(n_batches), masks, layers, strict=True)
        return [SpanBatch(items[part], _rows(spans[part]), mask, layer) for part, mask, layer in parts]


class TrainingWindows:
    """The ``used`` ``[item]`` items once in each pass, in shuffled batches; a window holds until the next is asked for.

    Items that fit into one window are read in the first pass, and only shuffled anew in those after it.
    """

    def __init__(
        self, source: SpanSource, used: Tensor, shuffle: Shuffle, *, device: torch.device | None = None
    ) -> None:
        self._joined, self._shuffle = JoinedChunks(source, used, device=device), shuffle

    def __iter__(self) -> Iterator[SpanWindow]:
        for joined in self._joined:
            yield SpanWindow(joined.words, self._shuffle.cut(joined.spans, joined.items, len(joined.words)))


def scoring_windows(source: SpanSource, device: torch.device) -> Iterator[SpanWindow]:
    """All items once, in the order of the source, on a device, in batches of a size that suits it."""
    most = _SCORED_AT_ONCE if device.type == "cpu" else _SCORED_ON_ACCELERATOR
    for chunk in source.chunks():
        parts = zip(torch.split(chunk.items, most), torch.split(chunk.spans, most), strict=True)
        yield moved(SpanWindow(chunk.words, [SpanBatch(items, _rows(spans)) for items, spans in parts]), device)


def _rows(spans: Tensor) -> tuple[Rows, ...]:
    """By part, the words of ``[m, part, 2]`` spans."""
    if bool((spans[:, :, 1] - spans[:, :, 0] == 1).all()):
        return tuple(Rows(spans[:, part, 0], None) for part in range(spans.shape[1]))
    return tuple(Rows(*span_rows(spans[:, part])) for part in range(spans.shape[1]))
