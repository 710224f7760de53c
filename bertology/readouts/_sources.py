"""Sources of vectors that readouts are fitted to: one vector an item, or the words of its spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self, get_args, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._spans import SpanChunk, check_spans
from bertology.activations import SpanVectors
from bertology.errors import FitError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
PlainPooling = Literal["first", "last", "mean", "max", "endpoints"]
"""Poolings of a span without parameters; ``max`` is taken in each dimension, ``endpoints`` is the
first word's vector followed by the last word's."""

CHUNK_ITEMS = 2048
"""Items handed out at once: a few megabytes a layer, which stay in the processor's cache."""
_CHUNK_ON_ACCELERATOR = 1 << 14  # items handed out at once on an accelerator, which needs larger products to be busy
_RESIDENT_PART = 0.4  # part of an accelerator's free memory that the vectors of one split may take


class Shaped(Protocol):
    """The shape of a source: numbers of layers and items, width of a vector, numbers of the layers in their model.

    ``at`` gives the same items in some of the layers, by their places; the others are not read.
    """

    @property
    def n_layers(self) -> int: ...
    @property
    def n_items(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def layers(self) -> Sequence[int]: ...
    def at(self, places: Sequence[int]) -> Any: ...


class FeatureSource(Shaped, Protocol):
    """Vectors of the same items in several layers, handed out in chunks as often as they are asked for.

    ``dtype`` is the type that the vectors have been converted from, so that they can be kept in it without loss.
    ``chunks`` gives all items once, in an order that is the same from pass to pass: ``[m]`` int64 item numbers and
    their ``[layer, m, dim]`` float32 vectors, which must not be changed.
    """

    @property
    def dtype(self) -> torch.dtype: ...
    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]: ...


@runtime_checkable
class SpanSource(Shaped, Protocol):
    """Items of one or two spans of words (``n_spans``), in several layers, in chunks as of a :class:`FeatureSource`."""

    @property
    def n_spans(self) -> int: ...
    def chunks(self) -> Iterator[SpanChunk]: ...


AnySource = FeatureSource | SpanSource
"""Items with a vector each, or with spans of words."""


@dataclass(frozen=True)
class Derived:
    """A source of vectors whose chunks are made from those of another source."""

    of: AnySource
    change: Callable[..., Any]
    """Makes a chunk from a chunk of the other source and the arrays ``by_layer``; None leaves the chunk out."""
    n_items: int
    dim: int
    dtype: torch.dtype = torch.float32
    by_layer: tuple[Tensor, ...] = ()  # [layer, …]

    @property
    def n_layers(self) -> int:
        return self.of.n_layers

    @property
    def layers(self) -> Sequence[int]:
        return self.of.layers

    def at(self, places: Sequence[int]) -> Self:
        return replace(self, of=self.of.at(places), by_layer=tuple(part[list(places)] for part in self.by_layer))

    def chunks(self) -> Iterator[Any]:
        for chunk in self.of.chunks():
            made = self.change(chunk, *self.by_layer)
            del chunk  # or it would be held while the next is read
            if made is not None:
                yield made
            del made


@dataclass(frozen=True)
class DerivedSpans(Derived):
    """A source of spans whose chunks are made from those of another source."""

    n_spans: int = 1


class ArrayFeatures:
    """Features held in one array.

    Args:
        values: ``[layer, item, dim]``, any floating type (kept as it is, converted chunk by chunk).
        layers: the number of each layer in its model, ``0 … layer − 1`` when left out.
        chunk_items: how many items a chunk holds; as many as suit the array's device when left out.
    """

    def __init__(
        self,
        values: Tensor | NDArray[np.floating[Any]],
        *,
        layers: Sequence[int] | None = None,
        chunk_items: int | None = None,
    ) -> None:
        self._values = values
        _check_vectors(values, "item")
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
        _check_vectors(self._values, "word")
        self._spans = torch.as_tensor(spans).long()
        self.n_layers, n_words, self.dim = self._values.shape
        check_spans(self._spans.numpy(), n_words)
        self.n_items, self.n_spans = self._spans.shape[:2]
        self.layers = _numbered(layers, self.n_layers)
        self._chunk_items = chunk_items

    def at(self, places: Sequence[int]) -> ArraySpans:
        """The same items in some of the layers."""
        layers = [self.layers[place] for place in places]
        return ArraySpans(self._values[list(places)], self._spans, layers=layers, chunk_items=self._chunk_items)

    def chunks(self) -> Iterator[SpanChunk]:
        for first in range(0, self.n_items, self._chunk_items):
            spans = self._spans[first : first + self._chunk_items]
            words, renumbered = _words_of(spans)
            low, high = int(words[0]), int(words[-1]) + 1
            vectors = self._values[:, low:high] if high - low == len(words) else self._values[:, words]
            yield SpanChunk(torch.arange(first, first + len(spans)), vectors.float(), renumbered)


def _check_vectors(values: Tensor | NDArray[Any], what: str) -> None:
    if values.ndim != 3 or not (values.is_floating_point() if isinstance(values, Tensor) else values.dtype.kind == "f"):
        raise FitError(f"vectors have shape {list(values.shape)} of {values.dtype}: give floats [layer, {what}, dim]")


def _numbered(layers: Sequence[int] | None, n_layers: int) -> Sequence[int]:
    numbers = tuple(range(n_layers)) if layers is None else tuple(layers)
    if len(numbers) != n_layers:
        raise FitError(f"{len(numbers)} layer numbers for {n_layers} layers: give one for each")
    return numbers


def changed(source: AnySource, change: Callable[..., Tensor], *by_layer: Tensor) -> AnySource:
    """The vectors of a source, or the words of its spans, after a change that keeps their shape.

    Args:
        source: the vectors.
        change: takes ``[layer, m, dim]`` vectors and the arrays ``by_layer``, and returns such vectors.
        by_layer: ``[layer, …]``
    """
    size = source.n_items, source.dim
    if isinstance(source, SpanSource):
        return DerivedSpans(
            source,
            lambda chunk, *parts: replace(chunk, words=change(chunk.words, *parts)),
            *size,
            by_layer=by_layer,
            n_spans=source.n_spans,
        )
    return Derived(source, lambda chunk, *parts: (chunk[0], change(chunk[1], *parts)), *size, by_layer=by_layer)


def subset(source: AnySource, chosen: NDArray[np.bool_]) -> AnySource:
    """The ``chosen`` ``[item]`` items of a source of either kind, numbered anew in their order.

    Raises:
        FitError: there is not one choice for each item.
    """
    if chosen.shape != (source.n_items,):
        raise FitError(f"{source.n_items} items and choices of shape {list(chosen.shape)}: give one for each item")
    wanted = torch.from_numpy(chosen)
    numbers = wanted.cumsum(0) - 1
    size = int(np.count_nonzero(chosen)), source.dim
    if isinstance(source, SpanSource):

        def of_spans(chunk: SpanChunk) -> SpanChunk | None:
            chunk = only_items(chunk, wanted[chunk.items])
            return replace(chunk, items=numbers[chunk.items]) if len(chunk.items) else None

        return DerivedSpans(source, of_spans, *size, n_spans=source.n_spans)

    def of_vectors(chunk: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor] | None:
        items, vectors = without_unused(*chunk, wanted)
        return (numbers[items], vectors) if len(items) else None

    return Derived(source, of_vectors, *size, dtype=source.dtype)


def as_spans(source: AnySource) -> SpanSource:
    """``source`` itself if it has spans, else its items as spans of one word."""
    if isinstance(source, SpanSource):
        return source
    return DerivedSpans(source, lambda chunk: _of_single_words(*chunk), source.n_items, source.dim)


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
    return Derived(source, lambda chunk: (chunk.items, pool(chunk)), source.n_items, dim)


def pooled_parts(source: SpanSource, pooling: PlainPooling) -> SpanSource:
    """Spans pooled as by :func:`pooled`, every pooled vector a span of one word; ``endpoints`` makes two of one."""
    n_spans = source.n_spans * (2 if pooling == "endpoints" else 1)

    def pool(chunk: SpanChunk) -> SpanChunk:
        return _of_single_words(chunk.items, _pooled_words(chunk, pooling).flatten(1, 2), n_spans)

    return DerivedSpans(source, pool, source.n_items, source.dim, n_spans=n_spans)


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
    """The items of a chunk that the mask ``wanted`` ``[m]`` selects, with only the words of their spans."""
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
