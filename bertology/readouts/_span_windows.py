"""Neighbouring chunks of spans joined in windows of bounded size, which items are shuffled and cut in."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bertology._spans import SpanChunk
from bertology.readouts._spans import SpanSource, check_finite, span_rows

WINDOW_BYTES = 128 << 20
"""Vectors whose items are shuffled among each other before they are cut into batches."""


class JoinedChunks:
    """The ``used`` ``[item]`` items once in each pass, in neighbouring chunks joined to as many as there is room for.

    Each chunk is copied as it comes to where those of the last window were, so that a window is done with before the
    next is asked for, and no more is held than a window and a chunk. Items that fit into one window are read in the
    first pass alone.
    """

    def __init__(self, source: SpanSource, used: Tensor) -> None:
        self._source, self._used = source, used
        self._room: Tensor | None = None  # [layer, word, dim]
        self._only: SpanChunk | None = None

    def __iter__(self) -> Iterator[SpanChunk]:
        """One pass. Behind the last word of a window there may be room left, with nothing in it.

        Raises:
            FitError: a layer has vectors that are not finite.
        """
        if self._only is not None:
            yield self._only
            return
        found: list[SpanChunk] = []
        for joined in self._joined():
            found = [*found[:1], joined]
            yield joined
        if len(found) == 1:
            self._only = found[0]

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
            del chunk  # or it would be held while the next is read
        if held:
            yield self._one(held)

    def _one(self, held: list[SpanChunk]) -> SpanChunk:
        assert self._room is not None, "what is held was copied there"
        # all of the room: a part of it would be copied whenever words are taken from it
        return SpanChunk(torch.cat([c.items for c in held]), self._room, torch.cat([c.spans for c in held]))


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
