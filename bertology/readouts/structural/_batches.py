"""Whole sentences in windows of bounded size, shuffled and cut into batches, with the trees that are true of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts._base import check_weights
from bertology.readouts._moments import JoinedChunks
from bertology.readouts._sources import Integers, SpanSource, check_finite

Asks = Literal["distances", "depths"]
_BLOCK_WORDS = 2048
"""How many words are computed in the same products, at most (but for a single sentence)."""


@dataclass(frozen=True)
class TreeTargets:
    """Distances or depths in the trees of the sentences of a source.

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
            check_weights(self.weights)

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return 1 if self.weights is None else len(self.weights)


@dataclass(frozen=True)
class Block:
    """Sentences in rows of ``n`` words, as long as the longest of them; short ones stand in a row one after another.

    Where pairs of words are asked about, what is computed of two words in different sentences is for nothing; but
    operations are few, and where batches are small that saves more than it costs.
    """

    first: int
    """Words of the batch that come before theirs, those that fill rows up counted."""
    gold: Tensor
    """``[row, n, n]`` distances, or ``[row, n]`` depths; 0 between sentences and where rows are filled up."""
    share: Tensor
    """Shaped as ``gold``: 1 over the number of a sentence's pairs (or words), 0 between sentences and where filled."""
    weights: Tensor | None
    """``[problem, row, n]`` how often the sentence that a word is in counts."""

    @property
    def words(self) -> slice:
        """Which words of the batch are theirs, row after row."""
        n_rows, n = self.gold.shape[:2]
        return slice(self.first, self.first + n_rows * n)


@dataclass(frozen=True)
class TreeBatch:
    """Sentences that go through the probes together."""

    words: Tensor
    """``[word]`` places of their words in the window, block after block and row after row; where a row is filled up,
    that of any word."""
    n_sentences: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class TreeWindow:
    """Sentences with their vectors, batch after batch."""

    words: Tensor
    """``[layer, word, dim]``, one layer after the other in memory; behind the last word there may be room left."""
    batches: Sequence[TreeBatch]

    def gathered(self, batch: TreeBatch, layers: Sequence[int]) -> Tensor:
        """``[layer, word, dim]`` the words of a batch in some layers."""
        n_words, dim = self.words.shape[1:]
        # One selection of whole rows, so that no more of the window is touched than the batch needs.
        starts = torch.tensor(layers, device=self.words.device)[:, None] * n_words
        places = (starts + batch.words).flatten()
        return self.words.view(-1, dim).index_select(0, places).view(len(layers), -1, dim)


class TreeWindows:
    """The sentences of a source (one span each) that count in some problem, window after window."""

    def __init__(
        self, source: SpanSource, targets: TreeTargets, *, batch_sentences: int, device: torch.device | None = None
    ) -> None:
        self._targets, self._batch_sentences = targets, batch_sentences
        used = torch.ones(len(targets.values), dtype=torch.bool)
        if targets.weights is not None:
            used = torch.from_numpy((targets.weights > 0).any(axis=0))
        self._joined = JoinedChunks(source, used, device=device)

    def all(self, random: torch.Generator | None = None) -> Iterator[TreeWindow]:
        """All of them once, shuffled within a window if by ``random``; each window holds until the next is asked for.

        Raises:
            FitError: a layer has vectors that are not finite, or a sentence another number of words than its tree.
        """
        for joined in self._joined:
            items, spans = joined.items.numpy(), joined.spans[:, 0].numpy()
            _check_lengths(items, spans, self._targets)
            order = np.arange(len(items)) if random is None else torch.randperm(len(items), generator=random).numpy()
            cuts = [order[at : at + self._batch_sentences] for at in range(0, len(order), self._batch_sentences)]
            batches = [_batch(items[cut], spans[cut], self._targets) for cut in cuts]
            yield TreeWindow(joined.words.contiguous(), batches)


def held_out(source: SpanSource, targets: TreeTargets) -> Iterator[TreeWindow]:
    """All sentences of a source once, chunk by chunk; no chunk is needed when the next is asked for."""
    for chunk in source.chunks():
        check_finite(source, chunk.words.sum(dim=(1, 2)))
        items, spans = chunk.items.numpy(), chunk.spans[:, 0].numpy()
        _check_lengths(items, spans, targets)
        yield TreeWindow(chunk.words.contiguous(), [_batch(items, spans, targets)])
        del chunk  # or it would be held while the next is read


def _batch(items: Integers, spans: Integers, targets: TreeTargets) -> TreeBatch:
    lengths = spans[:, 1] - spans[:, 0]
    # The longest come first, so that sentences of like length are neighbours.
    order = np.argsort(-lengths, kind="stable")
    items, spans, lengths = items[order], spans[order], lengths[order]
    words: list[Integers] = []
    blocks: list[Block] = []
    first = n_words = 0
    ends = lengths.cumsum()
    while first < len(items):
        before = int(ends[first] - lengths[first])
        last = max(first + 1, int(np.searchsorted(ends, before + _BLOCK_WORDS, side="right")))
        part = slice(first, last)
        places, block = _block(items[part], spans[part], targets, n_words)
        words.append(places)
        blocks.append(block)
        first, n_words = last, n_words + len(places)
    return TreeBatch(torch.from_numpy(np.concatenate(words)), len(items), tuple(blocks))


def _block(items: Integers, spans: Integers, targets: TreeTargets, before: int) -> tuple[Integers, Block]:
    """The places of the words of a block in the window, and the block; sentences come longest first."""
    lengths = (spans[:, 1] - spans[:, 0]).tolist()
    is_pairs = targets.asks == "distances"
    n = lengths[0] if is_pairs else sum(lengths)  # nothing is computed for words that are not asked about in pairs
    places, n_rows = _rows(lengths, n)
    words = np.full((n_rows, n), spans[0, 0])
    gold = np.zeros((n_rows, n, n) if is_pairs else (n_rows, n), np.float32)
    share = np.zeros_like(gold)
    weights = None if targets.weights is None else np.zeros((targets.n_problems, n_rows, n), np.float32)
    for item, start, length, (row, at) in zip(items.tolist(), spans[:, 0].tolist(), lengths, places, strict=True):
        inside = slice(at, at + length)
        area = (row, inside, inside) if is_pairs else (row, inside)
        words[row, inside] = np.arange(start, start + length)
        gold[area] = targets.values[item]
        share[area] = 1 / (length * length if is_pairs else length)
        if weights is not None and targets.weights is not None:
            weights[:, row, inside] = targets.weights[:, item, None]
    word_weights = None if weights is None else torch.from_numpy(weights)
    return words.ravel(), Block(before, torch.from_numpy(gold), torch.from_numpy(share), word_weights)


def _rows(lengths: Sequence[int], n: int) -> tuple[list[tuple[int, int]], int]:
    """Lay sentences, the longest first, into rows of ``n`` words: each where least room is left after it.

    Returns the row of each and where in it the sentence begins; and how many rows there are.
    """
    places: list[tuple[int, int]] = []
    rooms: list[tuple[int, int]] = []  # what is free in a row, and which row; in order
    n_rows = 0
    for length in lengths:
        best = bisect_left(rooms, (length, -1))
        if best == len(rooms):
            free, row = n, n_rows
            n_rows += 1
        else:
            free, row = rooms.pop(best)
        places.append((row, n - free))
        insort(rooms, (free - length, row))
    return places, n_rows


def _check_lengths(items: Integers, spans: Integers, targets: TreeTargets) -> None:
    for item, (start, end) in zip(items.tolist(), spans.tolist(), strict=True):
        if len(targets.values[item]) != end - start:
            raise FitError(
                f"sentence {item} has {end - start} words and {targets.asks} of {len(targets.values[item])}: "
                "give one tree over all of its words"
            )
