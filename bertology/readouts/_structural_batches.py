"""Whole sentences in windows of bounded size, shuffled and cut into batches, with the trees that are true of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts._span_windows import JoinedChunks
from bertology.readouts._spans import SpanSource, check_finite, span_rows

Asks = Literal["distances", "depths"]
_LIKE_LENGTH = 0.5
"""Sentences are padded together that are at least this part of the longest of them."""
_BLOCK_SENTENCES = 64
"""How many are padded together at most."""


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
    """``[sentence × n]`` places of their words in the batch; where padded that of a sentence's first."""
    places: Tensor
    """``[word]`` where each of their words stands among the padded ones."""
    first: int
    """Words of the batch that come before theirs; they are neighbours."""
    gold: Tensor
    """``[sentence, n, n]`` distances, or ``[sentence, n]`` depths."""
    share: Tensor
    """Shaped as ``gold``: 1 over the number of the sentence's pairs (or words), 0 where padded."""
    weights: Tensor | None
    """``[problem, sentence]``"""

    def to(self, device: torch.device) -> Block:
        """The same on another device."""
        rows, places, gold, share = (part.to(device) for part in (self.rows, self.places, self.gold, self.share))
        return Block(rows, places, self.first, gold, share, None if self.weights is None else self.weights.to(device))


@dataclass(frozen=True)
class Batch:
    """Sentences that go through the probes together."""

    rows: Tensor
    """``[word]`` places of their words in the window."""
    n_sentences: int
    blocks: tuple[Block, ...]

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(self.rows.to(device), self.n_sentences, tuple(block.to(device) for block in self.blocks))


class Batches:
    """Batches in order, each made when the first who reads them comes to it, for all who read them beside each other.

    Whoever has least to compute is ahead of the others, and so makes them while those compute.

    Args:
        n: how many there are.
        make: makes one.
    """

    def __init__(self, n: int, make: Callable[[int], Batch]) -> None:
        self._n, self._make = n, make
        self._made: list[Batch] = []
        self._lock = Lock()

    def __iter__(self) -> Iterator[Batch]:
        """All of them, whoever else is at it."""
        for place in range(self._n):
            with self._lock:
                if place == len(self._made):
                    self._made.append(self._make(place))
            yield self._made[place]


@dataclass(frozen=True)
class Window:
    """Sentences with their vectors, batch after batch."""

    words: Tensor
    """``[layer, word, dim]``, one layer after the other in memory; behind the last word there may be room left."""
    batches: Iterable[Batch]

    def gathered(self, batch: Batch, layers: Sequence[int]) -> Tensor:
        """``[layer, word, dim]`` the words of a batch in some layers."""
        n_words, dim = self.words.shape[1:]
        # One selection of whole rows, so that no more of the window is touched than the batch needs.
        starts = torch.tensor(layers, device=self.words.device)[:, None] * n_words
        found = self.words.view(-1, dim).index_select(0, (starts + batch.rows).flatten())
        return found.view(len(layers), -1, dim)

    def to(self, device: torch.device) -> Window:
        """The same on another device."""
        if self.words.device == device:
            return self
        return Window(self.words.to(device), tuple(batch.to(device) for batch in self.batches))


class Windows:
    """The sentences of a source that count in some problem, window after window, as often as they are asked for.

    Args:
        source: one span an item, the whole sentence.
        targets: what is true of them.
        batch_sentences: how many a batch has at most.
    """

    def __init__(self, source: SpanSource, targets: TreeTargets, *, batch_sentences: int) -> None:
        self._targets, self._batch_sentences = targets, batch_sentences
        used = torch.ones(len(targets.values), dtype=torch.bool)
        if targets.weights is not None:
            used = torch.from_numpy((targets.weights > 0).any(axis=0))
        self._joined = JoinedChunks(source, used)

    def all(self, random: torch.Generator | None = None) -> Iterator[Window]:
        """All of them once; each window holds until the next is asked for.

        Args:
            random: shuffles the sentences of a window; as they come when left out.

        Raises:
            FitError: a layer has vectors that are not finite, or a sentence another number of words than its tree.
        """
        for joined in self._joined:
            items, spans = joined.items.numpy(), joined.spans[:, 0].numpy()
            _check_lengths(items, spans, self._targets)
            order = np.arange(len(items)) if random is None else torch.randperm(len(items), generator=random).numpy()
            cuts = [order[at : at + self._batch_sentences] for at in range(0, len(order), self._batch_sentences)]
            yield Window(joined.words.contiguous(), Batches(len(cuts), partial(self._cut, items, spans, cuts)))

    def _cut(
        self, items: NDArray[np.int64], spans: NDArray[np.int64], cuts: Sequence[NDArray[np.int64]], place: int
    ) -> Batch:
        return _batch(items[cuts[place]], spans[cuts[place]], self._targets)


def held_out(source: SpanSource, targets: TreeTargets) -> Iterator[Window]:
    """All sentences of a source once, chunk by chunk; no chunk is needed when the next is asked for.

    Raises:
        FitError: a layer has vectors that are not finite, or a sentence another number of words than its tree.
    """
    for chunk in source.chunks():
        check_finite(source, chunk.words)
        items, spans = chunk.items.numpy(), chunk.spans[:, 0].numpy()
        _check_lengths(items, spans, targets)
        yield Window(chunk.words.contiguous(), (_batch(items, spans, targets),))
        del chunk  # or it would be held while the next is read


def _batch(items: NDArray[np.int64], spans: NDArray[np.int64], targets: TreeTargets) -> Batch:
    lengths = spans[:, 1] - spans[:, 0]
    # The longest come first, so that sentences of like length are neighbours.
    order = np.argsort(-lengths, kind="stable")
    items, spans, lengths = items[order], spans[order], lengths[order]
    blocks, first = [], 0
    ends = lengths.cumsum()
    while first < len(items):
        n_like = int(np.searchsorted(-lengths, -_LIKE_LENGTH * lengths[first], side="right")) - first
        part = slice(first, first + min(n_like, _BLOCK_SENTENCES))
        blocks.append(_block(items[part], lengths[part], targets, int(ends[first] - lengths[first])))
        first = part.stop
    return Batch(span_rows(torch.from_numpy(spans))[0], len(items), tuple(blocks))


def _block(items: NDArray[np.int64], lengths: NDArray[np.int64], targets: TreeTargets, before: int) -> Block:
    places = np.arange(lengths[0])
    inside = places < lengths[:, None]  # [sentence, n]
    starts = before + lengths.cumsum() - lengths
    share = (inside / lengths[:, None]).astype(np.float32)
    if targets.asks == "distances":
        share = share[:, :, None] * share[:, None]
    gold = np.zeros_like(share)
    for own, item, length in zip(gold, items.tolist(), lengths.tolist(), strict=True):
        own[(slice(length),) * own.ndim] = targets.values[item]
    weights = None if targets.weights is None else torch.from_numpy(targets.weights[:, items])
    rows = torch.from_numpy((starts[:, None] + places * inside).ravel())
    kept = torch.from_numpy(np.flatnonzero(inside))
    return Block(rows, kept, before, torch.from_numpy(gold), torch.from_numpy(share), weights)


def _check_lengths(items: NDArray[np.int64], spans: NDArray[np.int64], targets: TreeTargets) -> None:
    for item, (start, end) in zip(items.tolist(), spans.tolist(), strict=True):
        if len(targets.values[item]) != end - start:
            raise FitError(
                f"sentence {item} has {end - start} words and {targets.asks} of {len(targets.values[item])}: "
                "give one tree over all of its words"
            )
