"""Whole sentences in windows of bounded size, shuffled and cut into batches, with the trees that are true of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._spans import SpanChunk
from bertology.errors import FitError
from bertology.readouts._spans import SpanSource, check_finite, span_rows

Asks = Literal["distances", "depths"]
WINDOW_BYTES = 128 << 20
"""Vectors whose sentences are shuffled among each other before they are cut into batches."""
_LIKE_LENGTH = 0.6
"""Sentences are padded together that are at least this part of the longest of them."""


@dataclass(frozen=True)
class TreeTargets:
    """What is true of the sentences of a source.

    Raises:
        FitError: shapes that do not fit, or weights that are negative or not finite.
    """

    asks: Asks
    values: Sequence[NDArray[np.integer[Any]]]
    """For each sentence ``[word, word]`` distances, or ``[word]`` depths."""
    weights: NDArray[np.float32] | None = None
    """``[problem, sentence]`` how often each counts in each problem (resampling by seed); one problem in which each
    counts once when left out."""

    def __post_init__(self) -> None:
        if self.asks not in ("distances", "depths"):
            raise FitError(f"asks is {self.asks!r}: give distances or depths")
        wanted = 2 if self.asks == "distances" else 1
        wrong = next((n for n, value in enumerate(self.values) if value.ndim != wanted or not value.size), None)
        if wrong is not None:
            kind = "[word, word]" if wanted == 2 else "[word]"
            raise FitError(f"sentence {wrong}: {self.asks} of shape {list(self.values[wrong].shape)}: give {kind}")
        if self.weights is not None:
            if self.weights.ndim != 2 or self.weights.shape[1] != len(self.values):
                raise FitError(f"weights have shape {list(self.weights.shape)}: give [problem, {len(self.values)}]")
            if not (np.isfinite(self.weights).all() and (self.weights >= 0).all()):
                raise FitError("some weights are negative or not finite: give finite weights of 0 or more")

    @property
    def n_problems(self) -> int:
        """How many problems there are."""
        return 1 if self.weights is None else len(self.weights)


@dataclass(frozen=True)
class Block:
    """Sentences of like length, padded to the longest."""

    rows: Tensor
    """``[sentence, n]`` places of their words in the batch; of what is padded any."""
    places: Tensor
    """``[word]`` where each of their words stands among the padded ones, flat."""
    first: int
    """Words of the batch that come before theirs; they are neighbours."""
    gold: Tensor
    """``[sentence, n, n]`` distances, or ``[sentence, n]`` depths."""
    share: Tensor
    """Shaped as ``gold``: 1 over the number of the sentence's pairs (or words), 0 where padded."""
    weights: Tensor | None
    """``[problem, sentence]``"""


@dataclass(frozen=True)
class Batch:
    """Sentences that go through the probes together."""

    rows: Tensor
    """``[word]`` places of their words in the window."""
    n_sentences: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Window:
    """Sentences with their vectors, batch after batch."""

    words: Tensor
    """``[layer, word, dim]``, one layer after the other in memory."""
    batches: tuple[Batch, ...]

    def gathered(self, batch: Batch, layers: Sequence[int]) -> Tensor:
        """``[layer, word, dim]`` the words of a batch in some layers."""
        n_words = self.words.shape[1]
        # One selection of whole rows, so that no more of the window is touched than the batch needs.
        starts = torch.tensor(layers, device=batch.rows.device)[:, None] * n_words
        found = self.words.view(-1, self.words.shape[2]).index_select(0, (starts + batch.rows).flatten())
        return found.view(len(layers), -1, self.words.shape[2])

    def to(self, device: torch.device) -> Window:
        """The same on another device."""
        if device.type == "cpu":
            return self
        batches = tuple(
            Batch(b.rows.to(device), b.n_sentences, tuple(_moved(block, device) for block in b.blocks))
            for b in self.batches
        )
        return Window(self.words.to(device), batches)


def _moved(block: Block, device: torch.device) -> Block:
    weights = None if block.weights is None else block.weights.to(device)
    gold, share = block.gold.to(device), block.share.to(device)
    return Block(block.rows.to(device), block.places.to(device), block.first, gold, share, weights)


class Windows:
    """The sentences of a source that count in some problem, window after window, as often as they are asked for.

    Args:
        source: one span an item, the whole sentence.
        targets: what is true of them.
        batch_sentences: how many a batch has at most.
    """

    def __init__(self, source: SpanSource, targets: TreeTargets, *, batch_sentences: int) -> None:
        self._source, self._targets, self._batch_sentences = source, targets, batch_sentences
        self._used: NDArray[np.bool_] = np.ones(len(targets.values), dtype=np.bool_)
        if targets.weights is not None:
            self._used = np.any(targets.weights > 0, axis=0)
        self._joined: list[Tensor] = []
        self._words = self._room = torch.empty(0)

    def all(self, random: torch.Generator | None = None) -> Iterator[Window]:
        """All of them once; each window holds until the next is asked for.

        Args:
            random: shuffles the sentences of a window; as they come when left out.

        Raises:
            FitError: a layer has vectors that are not finite, or a sentence another number of words than its tree.
        """
        held: list[SpanChunk] = []
        size = 0
        for chunk in self._source.chunks():
            if held and size + chunk.words.nbytes > WINDOW_BYTES:
                yield self._window(held, random)
                held, size = [], 0
            held.append(chunk)
            size += chunk.words.nbytes
        if held:
            yield self._window(held, random)

    def _window(self, held: Sequence[SpanChunk], random: torch.Generator | None) -> Window:
        words = self._together([chunk.words for chunk in held])
        firsts = np.cumsum([0, *(chunk.words.shape[1] for chunk in held[:-1])])
        spans = np.concatenate([chunk.spans[:, 0].numpy() + first for chunk, first in zip(held, firsts, strict=True)])
        items = np.concatenate([chunk.items.numpy() for chunk in held])
        _check_lengths(items, spans, self._targets)
        order = np.flatnonzero(self._used[items])
        if random is not None:
            order = order[torch.randperm(len(order), generator=random).numpy()]
        lengths, size = spans[:, 1] - spans[:, 0], self._batch_sentences
        cuts = [order[at : at + size] for at in range(0, len(order), size)]
        # Within a batch the longest come first, so that sentences of like length are neighbours.
        cuts = [cut[np.argsort(-lengths[cut], kind="stable")] for cut in cuts]
        return Window(words, tuple(_batch(items[cut], spans[cut], self._targets) for cut in cuts))

    def _together(self, chunks: list[Tensor]) -> Tensor:
        """``[layer, word, dim]`` the words of several chunks, always in the same memory: fresh memory costs more."""
        if len(chunks) == len(self._joined) and all(a is b for a, b in zip(chunks, self._joined, strict=True)):
            return self._words
        for words in chunks:
            check_finite(self._source, words)
        n_words = sum(words.shape[1] for words in chunks)
        shape = (self._source.n_layers, n_words, self._source.dim)
        if self._room.numel() < math.prod(shape):
            self._room = torch.empty(math.prod(shape))
        joined = self._room[: math.prod(shape)].view(shape)
        torch.cat(chunks, dim=1, out=joined)
        self._joined, self._words = chunks, joined
        return joined


def _batch(items: NDArray[np.int64], spans: NDArray[np.int64], targets: TreeTargets) -> Batch:
    lengths = spans[:, 1] - spans[:, 0]
    blocks, start, before = [], 0, 0
    while start < len(items):
        end = start + 1
        while end < len(items) and lengths[end] >= _LIKE_LENGTH * lengths[start]:
            end += 1
        blocks.append(_block(items[start:end], lengths[start:end], targets, before))
        before += int(lengths[start:end].sum())
        start = end
    return Batch(span_rows(torch.from_numpy(spans))[0], len(items), tuple(blocks))


def _block(items: NDArray[np.int64], lengths: NDArray[np.int64], targets: TreeTargets, before: int) -> Block:
    n, m = int(lengths[0]), len(items)
    starts = np.cumsum(lengths) - lengths
    inside = np.arange(n) < lengths[:, None]  # [sentence, n]
    rows = np.where(inside, before + starts[:, None] + np.arange(n), before)
    shape = (m, n, n) if targets.asks == "distances" else (m, n)
    gold, share = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for place, (item, length) in enumerate(zip(items.tolist(), lengths.tolist(), strict=True)):
        value = targets.values[item]
        part: Any = (place, *[slice(length)] * value.ndim)
        gold[part], share[part] = value, 1.0 / value.size
    weights = None if targets.weights is None else torch.from_numpy(np.ascontiguousarray(targets.weights[:, items]))
    return Block(
        torch.from_numpy(rows),
        torch.from_numpy(np.flatnonzero(inside)),
        before,
        torch.from_numpy(gold),
        torch.from_numpy(share),
        weights,
    )


def _check_lengths(items: NDArray[np.int64], spans: NDArray[np.int64], targets: TreeTargets) -> None:
    for item, (start, end) in zip(items.tolist(), spans.tolist(), strict=True):
        if len(targets.values[item]) != end - start:
            raise FitError(
                f"sentence {item} has {end - start} words and {targets.asks} of {len(targets.values[item])}: "
                "give one tree over all of its words"
            )
