"""Spans in windows of bounded size, shuffled and cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bertology._spans import SpanChunk
from bertology.readouts._edge_model import Batch, Rows
from bertology.readouts._spans import SpanSource, check_finite, span_rows

WINDOW_BYTES = 128 << 20
"""Vectors whose items are shuffled among each other before they are cut into batches."""
_SCORED_AT_ONCE = 1024


@dataclass(frozen=True)
class Window:
    """Neighbouring chunks, their items in batches."""

    words: Tensor
    """``[layer, word, dim]``; behind the last word of a batch there may be room left, with nothing in it."""
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
            kept = torch.rand(len(order), self.hidden, generator=self.random).ge_(self.dropout)
            masks = list(kept.div_(1 - self.dropout).tensor_split(n_batches))
        layers: list[Tensor | None] = [None] * n_batches
        if self.layer_dropout:
            layers = list(torch.rand(n_batches, n_layers, generator=self.random) < self.layer_dropout)
        parts = zip(order.tensor_split(n_batches), masks, layers, strict=True)
        return [Batch(items[part], _rows(spans[part]), mask, layer) for part, mask, layer in parts]


class TrainingWindows:
    """The ``used`` ``[item]`` items once in each pass, in shuffled batches.

    A window's words are copied to where those of the last one were, so that a window is done with before the next is
    asked for. Items that fit into one window are read in the first pass, and only shuffled anew in those after it.
    """

    def __init__(self, source: SpanSource, used: Tensor, shuffle: Shuffle) -> None:
        self._source, self._used, self._shuffle = source, used, shuffle
        self._room: Tensor | None = None  # [layer, word, dim]
        self._only: SpanChunk | None = None

    def __iter__(self) -> Iterator[Window]:
        """One pass.

        Raises:
            FitError: a layer has vectors that are not finite.
        """
        if self._only is not None:
            yield self._cut(self._only)
            return
        found: list[SpanChunk] = []
        for joined in self._joined():
            found = [*found[:1], joined]
            yield self._cut(joined)
        if len(found) == 1:
            self._only = found[0]

    def _cut(self, joined: SpanChunk) -> Window:
        return Window(joined.words, self._shuffle.cut(joined.spans, joined.items, len(joined.words)))

    def _joined(self) -> Iterator[SpanChunk]:
        """Neighbouring chunks as one, as many as there is room for; a chunk too large for it comes alone."""
        held: list[SpanChunk] = []
        filled = 0
        for chunk in self._source.chunks():
            chunk = _without_unused(chunk, self._used)
            if not len(chunk.items):
                continue
            check_finite(self._source, chunk.words)
            n_layers, n_words, dim = chunk.words.shape
            most = WINDOW_BYTES // (chunk.words.nbytes // n_words)
            if held and filled + n_words > most:
                yield self._one(held)
                held, filled = [], 0
            if n_words > most:
                yield chunk
                continue
            if self._room is None:
                self._room = torch.empty(n_layers, most, dim)
            words = self._room[:, filled : filled + n_words]
            held.append(SpanChunk(chunk.items, words.copy_(chunk.words), chunk.spans + filled))
            filled += n_words
        if held:
            yield self._one(held)

    def _one(self, held: list[SpanChunk]) -> SpanChunk:
        assert self._room is not None, "what is held was copied there"
        # all of the room: a part of it would be copied whenever words are taken from it
        return SpanChunk(torch.cat([c.items for c in held]), self._room, torch.cat([c.spans for c in held]))


def scoring_windows(source: SpanSource) -> Iterator[Window]:
    """All items once, in the order of the source, in batches that are large but bounded."""
    for chunk in source.chunks():
        parts = zip(torch.split(chunk.items, _SCORED_AT_ONCE), torch.split(chunk.spans, _SCORED_AT_ONCE), strict=True)
        yield Window(chunk.words, [Batch(items, _rows(spans)) for items, spans in parts])


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
