"""Spans in windows of bounded size, shuffled and cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bertology._spans import SpanChunk
from bertology.errors import FitError
from bertology.readouts._edge_model import Batch, Rows
from bertology.readouts._spans import SpanSource, span_rows

WINDOW_BYTES = 128 << 20
"""Vectors whose items are shuffled among each other before they are cut into batches."""
_SCORED_AT_ONCE = 1024


@dataclass(frozen=True)
class Window:
    """Neighbouring chunks, their items in batches."""

    words: Tensor
    """``[layer, word, dim]``"""
    batches: list[Batch]

    def to(self, device: torch.device) -> Window:
        """The same on another device."""
        if self.words.device == device:
            return self
        return Window(self.words.to(device), [batch.to(device) for batch in self.batches])


@dataclass(frozen=True)
class Shuffle:
    """How training items are mixed and what is left out of the probes at random."""

    batch_items: int
    random: torch.Generator
    hidden: int = 0
    """Width of the hidden layer that dropout is for."""
    dropout: float = 0.0
    layer_dropout: float = 0.0

    def cut(self, spans: Tensor, items: Tensor, n_layers: int) -> list[Batch]:
        """Batches of all items of a window, of sizes as equal as can be, in random order."""
        order = torch.randperm(len(items), generator=self.random)
        n_batches = -(-len(order) // self.batch_items)
        masks: list[Tensor | None] = [None] * n_batches
        if self.hidden and self.dropout:
            kept = torch.rand(len(order), self.hidden, generator=self.random) >= self.dropout
            masks = list((kept / (1 - self.dropout)).tensor_split(n_batches))
        layers: list[Tensor | None] = [None] * n_batches
        if self.layer_dropout:
            layers = list(torch.rand(n_batches, n_layers, generator=self.random) < self.layer_dropout)
        parts = zip(order.tensor_split(n_batches), masks, layers, strict=True)
        return [Batch(items[part], _rows(spans[part]), mask, layer) for part, mask, layer in parts]


class TrainingWindows:
    """The ``used`` ``[item]`` items once in each pass, in shuffled batches.

    Items that fit into one window are put together in the first pass, and only shuffled anew in those after it.

    Raises:
        FitError: while they are read: a layer has vectors that are not finite.
    """

    def __init__(self, source: SpanSource, used: Tensor, shuffle: Shuffle) -> None:
        self._source, self._used, self._shuffle = source, used, shuffle
        self._only: SpanChunk | None = None

    def __iter__(self) -> Iterator[Window]:
        """One pass."""
        if self._only is not None:
            yield self._cut(self._only)
            return
        held: list[SpanChunk] = []
        size, is_only = 0, True
        for chunk in self._source.chunks():
            chunk = _without_unused(chunk, self._used)
            if not len(chunk.items):
                continue
            if held and size + chunk.words.nbytes > WINDOW_BYTES:
                yield self._cut(_joined(self._source, held))
                held, size, is_only = [], 0, False
            held.append(chunk)
            size += chunk.words.nbytes
        if held:
            last = _joined(self._source, held)
            if is_only:
                self._only = last
            yield self._cut(last)

    def _cut(self, joined: SpanChunk) -> Window:
        return Window(joined.words, self._shuffle.cut(joined.spans, joined.items, len(joined.words)))


def scoring_windows(source: SpanSource) -> Iterator[Window]:
    """All items once, in the order of the source, in batches that are large but bounded."""
    for chunk in source.chunks():
        parts = zip(torch.split(chunk.items, _SCORED_AT_ONCE), torch.split(chunk.spans, _SCORED_AT_ONCE), strict=True)
        yield Window(chunk.words, [Batch(items, _rows(spans)) for items, spans in parts])


def _joined(source: SpanSource, held: list[SpanChunk]) -> SpanChunk:
    """Chunks as one."""
    words = torch.cat([chunk.words for chunk in held], dim=1) if len(held) > 1 else held[0].words
    _check_finite(source, words)
    firsts = torch.tensor([0, *(chunk.words.shape[1] for chunk in held[:-1])]).cumsum(0).tolist()
    spans = torch.cat([chunk.spans + first for chunk, first in zip(held, firsts, strict=True)])
    return SpanChunk(torch.cat([chunk.items for chunk in held]), words, spans)


def _rows(spans: Tensor) -> tuple[Rows, ...]:
    """By part, the words of ``[m, part, 2]`` spans."""
    if bool((spans[:, :, 1] - spans[:, :, 0] == 1).all()):
        return tuple(Rows(spans[:, part, 0], None) for part in range(spans.shape[1]))
    return tuple(Rows(*span_rows(spans[:, part])) for part in range(spans.shape[1]))


def _without_unused(chunk: SpanChunk, used: Tensor) -> SpanChunk:
    """The chunk without items that nobody uses, and without the words that only they have."""
    wanted = used[chunk.items]
    if wanted.all():
        return chunk
    spans = chunk.spans[wanted]
    words = span_rows(spans.flatten(0, 1))[0].unique()  # type: ignore[no-untyped-call]
    place_of = torch.zeros(chunk.words.shape[1], dtype=torch.int64)
    place_of[words] = torch.arange(len(words))
    starts = place_of[spans[:, :, 0]]
    ends = starts + spans[:, :, 1] - spans[:, :, 0]
    return SpanChunk(chunk.items[wanted], chunk.words[:, words], torch.stack([starts, ends], dim=2))


def _check_finite(source: SpanSource, words: Tensor) -> None:
    damaged = ~words.sum(dim=(1, 2)).isfinite()  # [layer]; far cheaper than a look at every number
    if damaged.any():
        layer = source.layers[int(damaged.nonzero()[0])]
        raise FitError(f"layer {layer} has vectors that are not finite (NaN or infinite): extract it in float32")
