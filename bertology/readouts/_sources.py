"""Sources of vectors that readouts are fitted to: one vector an item, or the words of its spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._spans import SpanChunk, check_spans
from bertology.activations import SpanVectors
from bertology.errors import FitError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Chunk = TypeVar("Chunk")
PlainPooling = Literal["first", "last", "mean", "max", "endpoints"]
"""Poolings of a span without parameters; ``max`` is taken in each dimension, ``endpoints`` is the
first word's vector followed by the last word's."""

CHUNK_ITEMS = 2048
"""Items handed out at once: a few megabytes a layer, which stay in the processor's cache."""
_CHUNK_ON_ACCELERATOR = 1 << 14
"""Items handed out at once on an accelerator, which needs larger products to be busy."""
_RESIDENT_PART = 0.4
"""Part of an accelerator's free memory that the vectors of one split may take."""


class Shaped(Protocol):
    """How many vectors there are, and of which layers."""

    @property
    def n_layers(self) -> int:
        """Number of layers."""

    @property
    def n_items(self) -> int:
        """Number of items."""

    @property
    def dim(self) -> int:
        """Width of a vector."""

    @property
    def layers(self) -> Sequence[int]:
        """``[layer]`` the number of each layer in its model, to name it in messages."""

    def at(self, places: Sequence[int]) -> Any:
        """The same items in some of the layers, by their places; the others are not read."""


class FeatureSource(Shaped, Protocol):
    """Vectors of the same items in several layers, handed out in chunks as often as they are asked for."""

    @property
    def dtype(self) -> torch.dtype:
        """The type that the vectors have been converted from, so that they can be kept in it without loss."""

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All items once, in an order that is the same from pass to pass.

        Yields:
            ``[m]`` int64 item numbers and their ``[layer, m, dim]`` float32 vectors. They must not be changed.
        """


@runtime_checkable
class SpanSource(Shaped, Protocol):
    """Items of one or two spans of words, in several layers, handed out in chunks as often as they are asked for."""

    @property
    def n_spans(self) -> int:
        """Number of spans of an item: 1 or 2."""

    def chunks(self) -> Iterator[SpanChunk]:
        """All items once, in an order that is the same from pass to pass."""


AnySource = FeatureSource | SpanSource
"""Items with a vector each, or with spans of words."""
Source = TypeVar("Source", bound=Shaped)


@dataclass(frozen=True)
class Derived(Generic[Chunk]):
    """A source whose chunks are made from those of another."""

    n_layers: int
    n_items: int
    dim: int
    layers: Sequence[int]
    chunks: Callable[[], Iterator[Chunk]]
    dtype: torch.dtype = field(default=torch.float32, kw_only=True)
    at: Callable[[Sequence[int]], Any] = field(kw_only=True)
    """Gives the source of some of the layers, by their places."""


@dataclass(frozen=True)
class DerivedSpans(Derived[SpanChunk]):
    """A source of spans whose chunks are made from those of another."""

    n_spans: int


class ArrayFeatures:
    """Features held in one array.

    Args:
        values: ``[layer, item, dim]``, any floating type (kept as it is, converted chunk by chunk).
        layers: the number of each layer in its model, ``0 … layer − 1`` when left out.
        chunk_items: how many items a chunk holds; as many as suit the array's device when left out.

    Raises:
        FitError: the array has another shape.
    """

    def __init__(
        self,
        values: Tensor | NDArray[np.floating[Any]],
        *,
        layers: Sequence[int] | None = None,
        chunk_items: int | None = None,
    ) -> None:
        self._values = values
        is_float = values.is_floating_point() if isinstance(values, Tensor) else values.dtype.kind == "f"
        if values.ndim != 3 or not is_float:
            raise FitError(
                f"features have shape {list(values.shape)} of {values.dtype}: give floats [layer, item, dim]"
            )
        self.n_layers, self.n_items, self.dim = map(int, values.shape)
        self.layers = _numbered(layers, self.n_layers)
        self.dtype = torch.float16 if values.dtype in (np.float16, torch.float16) else torch.float32
        is_near = not isinstance(values, Tensor) or values.device.type == "cpu"
        self._chunk_items = chunk_items or (CHUNK_ITEMS if is_near else _CHUNK_ON_ACCELERATOR)
        self._places: Sequence[int] = range(self.n_layers)

    def at(self, places: Sequence[int]) -> ArrayFeatures:
        """The same items in some of the layers; the vectors are not copied."""
        chosen = copy(self)
        chosen._places = [self._places[place] for place in places]
        chosen.n_layers, chosen.layers = len(places), tuple(self.layers[place] for place in places)
        return chosen

    def layer(self, place: int) -> Tensor:
        """A copy of the vectors of one layer, ``[item, dim]`` in float32."""
        return torch.as_tensor(self._values[self._places[place]]).to(torch.float32, copy=True)

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All items in order, as ``[m]`` item numbers and ``[layer, m, dim]`` float32 vectors."""
        for first in range(0, self.n_items, self._chunk_items):
            layers: Any = slice(None) if isinstance(self._places, range) else self._places  # a list makes a copy
            part = self._values[layers, first : first + self._chunk_items]
            if not isinstance(part, Tensor):  # torch wants to be able to write, which a memory map may refuse
                part = torch.from_numpy(part.astype(np.float32, copy=not part.flags.writeable))
            yield torch.arange(first, first + part.shape[1]), part.float()


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
        chunk_items: int = CHUNK_ITEMS,
    ) -> None:
        self._values = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
        if self._values.ndim != 3 or not self._values.is_floating_point():
            raise FitError(f"vectors have shape {list(values.shape)} of {values.dtype}: give floats [layer, word, dim]")
        self._spans = torch.as_tensor(spans).long()
        self.n_layers, n_words, self.dim = self._values.shape
        check_spans(self._spans.numpy(), n_words)
        self.n_items, self.n_spans = self._spans.shape[:2]
        self.layers = _numbered(layers, self.n_layers)
        self._chunk_items = chunk_items
        self._views: dict[int, SpanChunk] = {}

    def at(self, places: Sequence[int]) -> ArraySpans:
        """The same items in some of the layers."""
        layers = [self.layers[place] for place in places]
        return ArraySpans(self._values[list(places)], self._spans, layers=layers, chunk_items=self._chunk_items)

    def chunks(self) -> Iterator[SpanChunk]:
        for first in range(0, self.n_items, self._chunk_items):
            yield self._views.get(first) or self._chunk(first)

    def _chunk(self, first: int) -> SpanChunk:
        """A chunk, which is kept if its words are a view of the array: that takes no memory."""
        spans = self._spans[first : first + self._chunk_items]
        words, renumbered = _words_of(spans)
        low, high = int(words[0]), int(words[-1]) + 1
        are_neighbours = high - low == len(words)
        vectors = (self._values[:, low:high] if are_neighbours else self._values[:, words]).float()
        chunk = SpanChunk(torch.arange(first, first + len(spans)), vectors, renumbered)
        if are_neighbours and self._values.dtype == torch.float32:
            self._views[first] = chunk
        return chunk


def _numbered(layers: Sequence[int] | None, n_layers: int) -> Sequence[int]:
    numbers = tuple(range(n_layers)) if layers is None else tuple(layers)
    if len(numbers) != n_layers:
        raise FitError(f"{len(numbers)} layer numbers for {n_layers} layers: give one for each")
    return numbers


def changed(
    source: AnySource, change: Callable[[Tensor], Tensor], at: Callable[[Sequence[int]], AnySource]
) -> AnySource:
    """The vectors of a source, or the words of its spans, after a change that keeps their shape.

    Args:
        source: the vectors.
        change: takes and returns ``[layer, m, dim]`` vectors.
        at: gives the same in some of the layers, by their places.
    """
    shape = source.n_layers, source.n_items, source.dim, source.layers
    if isinstance(source, SpanSource):
        spans = source.chunks
        return DerivedSpans(
            *shape, lambda: (replace(one, words=change(one.words)) for one in spans()), source.n_spans, at=at
        )
    chunks = source.chunks
    return Derived(*shape, lambda: ((items, change(vectors)) for items, vectors in chunks()), at=at)


def subset(source: AnySource, chosen: NDArray[np.bool_]) -> AnySource:
    """The ``chosen`` ``[item]`` items of a source of either kind, numbered anew in their order.

    Raises:
        FitError: there is not one choice for each item.
    """
    if chosen.shape != (source.n_items,):
        raise FitError(f"{source.n_items} items and choices of shape {list(chosen.shape)}: give one for each item")
    wanted = torch.from_numpy(chosen)
    numbers = wanted.cumsum(0) - 1
    shape = source.n_layers, int(np.count_nonzero(chosen)), source.dim, source.layers

    def at(places: Sequence[int]) -> AnySource:
        return subset(source.at(places), chosen)

    if isinstance(source, SpanSource):

        def span_chunks() -> Iterator[SpanChunk]:
            for chunk in source.chunks():
                chunk = only_items(chunk, wanted[chunk.items])
                if len(chunk.items):
                    yield replace(chunk, items=numbers[chunk.items])

        return DerivedSpans(*shape, span_chunks, source.n_spans, at=at)

    def chunks() -> Iterator[tuple[Tensor, Tensor]]:
        return ((numbers[items], vectors) for items, vectors in used_chunks(source, wanted))

    return Derived(*shape, chunks, dtype=source.dtype, at=at)


def as_spans(source: AnySource) -> SpanSource:
    """``source`` itself if it has spans, else its items as spans of one word."""
    if isinstance(source, SpanSource):
        return source

    shape = source.n_layers, source.n_items, source.dim, source.layers
    chunks = source.chunks
    return DerivedSpans(
        *shape,
        lambda: (_of_single_words(*chunk) for chunk in chunks()),
        1,
        at=lambda places: as_spans(source.at(places)),
    )


def _of_single_words(items: Tensor, words: Tensor, n_spans: int = 1) -> SpanChunk:
    """Items of one or two spans of one word each, from the words ``[layer, m × span, dim]`` one after the other."""
    starts = torch.arange(words.shape[1]).view(-1, n_spans)
    return SpanChunk(items, words, torch.stack([starts, starts + 1], dim=2))


def pooled(
    source: SpanSource, *, pooling: PlainPooling = "mean", compare: bool = False, memory: int = 0
) -> FeatureSource:
    """Spans pooled without parameters into one vector an item, so that any readout of single vectors can read them.

    Args:
        source: the spans; the vectors of two spans follow each other.
        pooling: ``mean`` or ``max`` over a span's words, its ``first`` or ``last``, or both ``endpoints`` in a row.
        compare: of two spans u and v, put |u − v| and u · v, by dimension, after them (Conneau et al. 2017, §3.1);
            without these a linear readout cannot tell whether they are alike.
        memory: bytes of pooled vectors of stored spans that are kept between passes.

    Raises:
        FitError: there is no such pooling.
    """
    if pooling not in get_args(PlainPooling):
        raise FitError(f"pooling is {pooling!r}: give {', '.join(get_args(PlainPooling))}")

    def pool(chunk: SpanChunk) -> Tensor:
        vectors = _pooled_words(chunk, pooling).flatten(2)
        if not compare:
            return vectors
        one, other = vectors.chunk(2, dim=2)
        return torch.cat([vectors, (one - other).abs(), one * other], dim=2)

    n_parts = 2 if pooling == "endpoints" else 1
    dim = source.dim * n_parts * (4 if compare else source.n_spans)
    if memory and isinstance(source, SpanVectors) and n_parts == 1:
        return source.pooled(pool, dim=dim, memory=memory)
    shape = source.n_layers, source.n_items, dim, source.layers
    return Derived(
        *shape,
        lambda: ((chunk.items, pool(chunk)) for chunk in source.chunks()),
        at=lambda places: pooled(source.at(places), pooling=pooling, compare=compare, memory=memory),
    )


def pooled_parts(source: SpanSource, pooling: PlainPooling) -> SpanSource:
    """Spans pooled as by :func:`pooled`, every pooled vector a span of one word; ``endpoints`` makes two of one."""
    n_spans = source.n_spans * (2 if pooling == "endpoints" else 1)

    def chunks() -> Iterator[SpanChunk]:
        for chunk in source.chunks():
            yield _of_single_words(chunk.items, _pooled_words(chunk, pooling).flatten(1, 2), n_spans)

    shape = source.n_layers, source.n_items, source.dim, source.layers
    return DerivedSpans(*shape, chunks, n_spans, at=lambda places: pooled_parts(source.at(places), pooling))


def _pooled_words(chunk: SpanChunk, pooling: str) -> Tensor:
    """``[layer, m, part, dim]`` the spans of a chunk pooled; a span has two parts for ``endpoints``, else one."""
    starts, ends = chunk.spans[:, :, 0], chunk.spans[:, :, 1]
    if pooling == "endpoints":
        return chunk.words[:, torch.stack([starts, ends - 1], dim=2).flatten(1)]
    if pooling == "first" or bool((ends - starts == 1).all()):
        return chunk.words[:, starts]
    if pooling == "last":
        return chunk.words[:, ends - 1]
    rows, owners = span_rows(chunk.spans.flatten(0, 1))
    if pooling == "max":
        lengths: list[int] = (ends - starts).flatten().tolist()
        highest = [words.amax(1) for words in torch.split(chunk.words[:, rows], lengths, dim=1)]
        return torch.stack(highest, dim=1).view(len(chunk.words), *starts.shape, -1)
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


def only_items(chunk: SpanChunk, wanted: Tensor) -> SpanChunk:
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


def in_memory(source: FeatureSource, *, device: torch.device, memory: int) -> FeatureSource:
    """The vectors of a source held on ``device`` if they take no more than ``memory`` bytes, else the source itself."""
    if 4 * source.n_layers * source.n_items * source.dim > memory:
        return source
    values = torch.empty(source.n_layers, source.n_items, source.dim, device=device)
    for items, vectors in source.chunks():
        values[:, items.to(device)] = vectors.to(device)
    return ArrayFeatures(values, layers=source.layers)


def resident(source: FeatureSource, device: torch.device) -> FeatureSource:
    """A source for many passes: on CUDA, vectors that fit are copied to the device once."""
    if device.type != "cuda":
        return source
    free, _ = torch.cuda.mem_get_info(device)
    return in_memory(source, device=device, memory=int(_RESIDENT_PART * free))


def used_chunks(source: FeatureSource, used: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of ``source`` with ``used`` ``[item]`` items alone; none is held while the next is made."""
    for chunk in source.chunks():
        chunk = without_unused(*chunk, used)
        if len(chunk[0]):
            yield chunk
        del chunk


def without_unused(items: Tensor, vectors: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """A chunk without the items that are not ``used`` ``[item]``."""
    wanted = used[items]
    return (items, vectors) if wanted.all() else (items[wanted], vectors[:, wanted])


def check_finite(source: Shaped, sums: Tensor) -> None:
    """Raise :class:`FitError` unless ``[layer, …]`` sums over the vectors of ``source`` are finite."""
    damaged = ~sums.reshape(len(sums), -1).isfinite().all(1)  # [layer]
    if damaged.any():
        layer = source.layers[int(damaged.nonzero()[0])]
        raise FitError(f"layer {layer} has vectors that are not finite (NaN or infinite): extract it in float32")
