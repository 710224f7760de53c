"""Sources of spans of words, spans pooled into single vectors, and windows of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._spans import SpanChunk, check_spans
from bertology.errors import FitError
from bertology.readouts._features import (
    FeatureSource,
    Integers,
    Shaped,
    SubsetFeatures,
    check_choice,
    in_memory,
    numbered,
)

CHUNK_SPANS = 2048
"""Items handed out at once by :class:`ArraySpans`."""
PlainPooling = Literal["first", "last", "mean", "endpoints"]
"""Poolings of a span without parameters; ``endpoints`` is the first word's vector followed by the last word's."""


@runtime_checkable
class SpanSource(Shaped, Protocol):
    """Items of one or two spans of words, in several layers, handed out in chunks as often as they are asked for."""

    @property
    def n_spans(self) -> int:
        """Number of spans of an item: 1 or 2."""
        ...

    def chunks(self) -> Iterator[SpanChunk]:
        """All items once, in an order that is the same from pass to pass."""
        ...


class ArraySpans:
    """Spans over words held in one array.

    Args:
        values: ``[layer, word, dim]``, any floating type.
        spans: ``[item, span, 2]`` words of each span, end exclusive; one or two spans an item.
        layers: the number of each layer in its model, ``0 … layer − 1`` when left out.
        chunk_items: how many items a chunk holds.

    Raises:
        FitError: an array has another shape, or a span is empty, reversed or outside the words.
    """

    def __init__(
        self,
        values: Tensor | NDArray[np.floating[Any]],
        spans: Tensor | Integers,
        *,
        layers: Sequence[int] | None = None,
        chunk_items: int = CHUNK_SPANS,
    ) -> None:
        self._values = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
        if self._values.ndim != 3 or not self._values.is_floating_point():
            raise FitError(f"vectors have shape {list(values.shape)} of {values.dtype}: give floats [layer, word, dim]")
        self._spans = torch.as_tensor(spans).long()
        self.n_layers, n_words, self.dim = self._values.shape
        check_spans(self._spans.numpy(), n_words)
        self.n_items, self.n_spans = self._spans.shape[:2]
        self.layers: Sequence[int] = numbered(layers, self.n_layers)
        self._chunk_items = chunk_items
        self._views: dict[int, SpanChunk] = {}

    def chunks(self) -> Iterator[SpanChunk]:
        """All items in order, with the words of their spans alone."""
        for first in range(0, self.n_items, self._chunk_items):
            if first not in self._views:
                chunk, is_view = self._chunk(first)
                if not is_view:
                    yield chunk
                    continue
                self._views[first] = chunk
            yield self._views[first]

    def _chunk(self, first: int) -> tuple[SpanChunk, bool]:
        """A chunk, and whether its words are a view of the array, which takes no memory."""
        spans = self._spans[first : first + self._chunk_items]
        words, renumbered = _words_of(spans)
        low, high = int(words[0]), int(words[-1]) + 1
        are_neighbours = high - low == len(words)
        vectors = (self._values[:, low:high] if are_neighbours else self._values[:, words]).float()
        is_view = are_neighbours and self._values.dtype == torch.float32
        return SpanChunk(torch.arange(first, first + len(spans)), vectors, renumbered), is_view


class WordSpans:
    """Items of one word each, as spans of that word: a :class:`SpanSource` over any source of features.

    Args:
        source: one vector an item.
    """

    n_spans = 1

    def __init__(self, source: FeatureSource) -> None:
        self._source = source
        self.n_layers, self.n_items, self.dim = source.n_layers, source.n_items, source.dim
        self.layers = source.layers

    def chunks(self) -> Iterator[SpanChunk]:
        """The same chunks; every item's span is its own vector."""
        for items, vectors in self._source.chunks():
            starts = torch.arange(len(items))
            yield SpanChunk(items, vectors, torch.stack([starts, starts + 1], dim=1)[:, None])


class PooledSpans:
    """Spans pooled without parameters into one vector an item, so that any readout of single vectors can read them.

    Args:
        source: the spans.
        pooling: ``mean`` over a span's words, its ``first`` or ``last`` word, or both ``endpoints``.

    The vectors of the two spans follow each other: ``dim`` is the width of a word times the number of spans, twice
    that for ``endpoints``.
    """

    def __init__(self, source: SpanSource, *, pooling: PlainPooling = "mean") -> None:
        if pooling not in get_args(PlainPooling):
            raise FitError(f"pooling is {pooling!r}: give {', '.join(get_args(PlainPooling))}")
        self._source, self._pooling = source, pooling
        self.n_layers, self.n_items, self.layers = source.n_layers, source.n_items, source.layers
        self.dim = source.dim * source.n_spans * (2 if pooling == "endpoints" else 1)

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Item numbers ``[m]`` and pooled vectors ``[layer, m, dim]``."""
        for chunk in self._source.chunks():
            yield chunk.items, pooled_words(chunk, self._pooling).flatten(2)


class PooledParts:
    """The same pooling, with every pooled vector as a span of one word of its own.

    Args:
        source: the spans.
        pooling: as in :class:`PooledSpans`; ``endpoints`` makes two spans of one.
    """

    def __init__(self, source: SpanSource, *, pooling: PlainPooling) -> None:
        self._source, self._pooling = source, pooling
        self.n_layers, self.n_items, self.dim, self.layers = source.n_layers, source.n_items, source.dim, source.layers
        self.n_spans = source.n_spans * (2 if pooling == "endpoints" else 1)

    def chunks(self) -> Iterator[SpanChunk]:
        """Chunks in which no span has more than one word."""
        for chunk in self._source.chunks():
            starts = torch.arange(len(chunk.items) * self.n_spans).view(-1, self.n_spans)
            words = pooled_words(chunk, self._pooling).flatten(1, 2)
            yield SpanChunk(chunk.items, words, torch.stack([starts, starts + 1], dim=2))


def pooled_words(chunk: SpanChunk, pooling: PlainPooling) -> Tensor:
    """``[layer, m, part, dim]`` the spans of a chunk pooled; a span has two parts for ``endpoints``, else one."""
    starts, ends = chunk.spans[:, :, 0], chunk.spans[:, :, 1]
    if pooling == "endpoints":
        return chunk.words[:, torch.stack([starts, ends - 1], dim=2).flatten(1)]
    if pooling == "first" or bool((ends - starts == 1).all()):
        return chunk.words[:, starts]
    if pooling == "last":
        return chunk.words[:, ends - 1]
    rows, owners = span_rows(chunk.spans.flatten(0, 1))
    sums = chunk.words.new_zeros(len(chunk.words), starts.numel(), chunk.words.shape[2])
    sums.index_add_(1, owners, chunk.words[:, rows])
    means = sums / (ends - starts).view(1, -1, 1)
    return means.view(len(sums), *starts.shape, -1)


def span_rows(spans: Tensor) -> tuple[Tensor, Tensor]:
    """The words of ``[n, 2]`` spans one after the other, ``[row]``, and which span each is in, ``[row]``."""
    lengths = spans[:, 1] - spans[:, 0]
    owners = torch.repeat_interleave(torch.arange(len(spans)), lengths)
    inside = torch.arange(len(owners)) - (lengths.cumsum(0) - lengths)[owners]
    return spans[owners, 0] + inside, owners


def as_spans(source: FeatureSource | SpanSource) -> SpanSource:
    """``source`` itself if it has spans, else its items as spans of one word."""
    return source if isinstance(source, SpanSource) else WordSpans(source)


def check_finite(source: SpanSource, words: Tensor) -> None:
    """Raise :class:`FitError` where ``words`` ``[layer, word, dim]`` of ``source`` are not all finite."""
    damaged = ~words.sum(dim=(1, 2)).isfinite()  # [layer]; far cheaper than a look at every number
    if damaged.any():
        layer = source.layers[int(damaged.nonzero()[0])]
        raise FitError(f"layer {layer} has vectors that are not finite (NaN or infinite): extract it in float32")


WINDOW_BYTES = 128 << 20
"""Vectors whose items are shuffled among each other before they are cut into batches."""


class JoinedChunks:
    """The ``used`` ``[item]`` items once in each pass, in neighbouring chunks joined to as many as there is room for.

    Each chunk is copied as it comes to where those of the last window were, so that a window is done with before the
    next is asked for, and no more is held than a window and a chunk. Items that fit into one window are read in the
    first pass alone.

    Args:
        source: the spans.
        used: ``[item]`` bool.
        device: where windows are held, so that an accelerator reads them from its own memory; the processor when left
            out. A chunk larger than a window stays where it is.
    """

    def __init__(self, source: SpanSource, used: Tensor, *, device: torch.device | None = None) -> None:
        self._source, self._used, self._device = source, used, device
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
        windows: list[SpanChunk] = []
        for joined in self._joined():
            windows = [*windows[:1], joined]
            yield joined
        if len(windows) == 1:
            self._only = windows[0]

    def _joined(self) -> Iterator[SpanChunk]:
        """Neighbouring chunks as one, as many as there is room for; a chunk too large for it comes alone."""
        held: list[SpanChunk] = []
        filled = 0
        for chunk in self._source.chunks():
            chunk = _only(chunk, self._used[chunk.items])
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
                self._room = torch.empty(n_layers, most, dim, device=self._device)
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


def _only(chunk: SpanChunk, wanted: Tensor) -> SpanChunk:
    """The ``wanted`` ``[m]`` items of a chunk, with the words of their spans alone."""
    if wanted.all():
        return chunk
    words, spans = _words_of(chunk.spans[wanted])
    return SpanChunk(chunk.items[wanted], chunk.words[:, words], spans)


def _words_of(spans: Tensor) -> tuple[Tensor, Tensor]:
    """The words of ``[m, span, 2]`` spans, each once and in order, and the spans by the places of their words there."""
    words = span_rows(spans.flatten(0, 1))[0].unique()  # type: ignore[no-untyped-call]
    place_of = torch.zeros(int(words[-1]) + 1 if len(words) else 1, dtype=torch.int64)
    place_of[words] = torch.arange(len(words))
    starts = place_of[spans[:, :, 0]]
    return words, torch.stack([starts, starts + spans[:, :, 1] - spans[:, :, 0]], dim=2)


Items = FeatureSource | SpanSource
"""Items with a vector each, or with spans of words."""


class SubsetSpans:
    """The chosen items of a source of spans, numbered anew in their order.

    Args:
        source: the spans.
        chosen: ``[item]`` bool.

    Raises:
        FitError: there is not one choice for each item.
    """

    def __init__(self, source: SpanSource, chosen: NDArray[np.bool_]) -> None:
        check_choice(source, chosen)
        self._source = source
        self._chosen = torch.from_numpy(chosen)
        self._numbers = self._chosen.cumsum(0) - 1
        self.n_layers, self.dim, self.layers = source.n_layers, source.dim, source.layers
        self.n_spans, self.n_items = source.n_spans, int(np.count_nonzero(chosen))

    def chunks(self) -> Iterator[SpanChunk]:
        """The chosen items, chunk by chunk of the source, with the words of their spans alone."""
        for chunk in self._source.chunks():
            chunk = _only(chunk, self._chosen[chunk.items])
            if len(chunk.items):
                yield replace(chunk, items=self._numbers[chunk.items])


def subset(source: Items, chosen: NDArray[np.bool_]) -> Items:
    """Some of the items of a source of either kind."""
    return SubsetSpans(source, chosen) if isinstance(source, SpanSource) else SubsetFeatures(source, chosen)


def held(source: Items, *, memory: int) -> Items:
    """The same vectors in memory if they take no more than ``memory`` bytes, or else the source itself.

    Spans stay where they are: their readouts keep what they need.
    """
    if isinstance(source, SpanSource):
        return source
    return in_memory(source, device=torch.device("cpu"), memory=memory)
