"""Sources of vectors that readouts are fitted to, one vector an item or the words of its spans; and items of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._machine import vectors_at_once
from bertology.activations import SpanChunk, WordVectors, check_spans, memory_of
from bertology.errors import FitError
from bertology.readouts._base import Integers, Targets

_WINDOW_BYTES = 256 << 20  # vectors that are shuffled among each other before they are cut into batches
_SPAN_WINDOW_BYTES = 128 << 20  # bytes of words in spans that are shuffled among each other
_CHUNK_BYTES = 512 << 20  # vectors handed out at once on an accelerator, which needs larger products to be busy
_SCORE_BYTES = 256 << 20  # scores of classes that are computed at once
_MOST_ORDERED = 1 << 22  # items that are all put in order to draw a sample of them
_RESIDENT_PART = 0.4  # part of an accelerator's free memory that the vectors of one split may take
PlainPooling = Literal["first", "last", "mean", "max", "endpoints"]
"""Poolings of a span without parameters; ``max`` is taken in each dimension, ``endpoints`` is the
first word's vector followed by the last word's."""


class Shaped(Protocol):
    """The same items in several layers, whose numbers in their model are ``layers``; ``at`` gives some, by place."""

    @property
    def n_layers(self) -> int: ...
    @property
    def n_items(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def layers(self) -> Sequence[int]: ...
    def at(self, places: Sequence[int]) -> Any: ...
    def chunks(self) -> Iterator[Any]: ...


class FeatureSource(Shaped, Protocol):
    """Vectors of the same items in several layers, handed out in chunks as often as they are asked for.

    ``dtype`` is the type that the vectors have been converted from, so that they can be kept in it without loss.
    ``chunks`` gives all items once, in an order that is the same from pass to pass: ``[m]`` int64 item numbers and
    their ``[layer, m, dim]`` float32 vectors, which must not be changed.
    """

    @property
    def dtype(self) -> torch.dtype: ...


@runtime_checkable
class SpanSource(Shaped, Protocol):
    """Items of one or two spans of words (``n_spans``), in several layers, in chunks that are :class:`SpanChunk`."""

    @property
    def n_spans(self) -> int: ...


AnySource = FeatureSource | SpanSource
"""Items with a vector each, or with spans of words."""


@dataclass
class Items:
    """Labels and weights of every training item in every problem."""

    labels: Tensor  # [problem, item] class; of an item that a problem does not use, any class that it has
    weights: Tensor  # [problem, item] float32, 0 where a problem does not use an item
    frequency: Tensor  # [problem, class] part of the training items' weight that the class has

    @classmethod
    def of(cls, targets: Targets, device: torch.device) -> Items:
        by_class = torch.from_numpy(targets.class_weights()).to(device)
        labels = torch.from_numpy(targets.labels).to(device)
        usable = (labels >= 0) & (by_class.gather(1, labels.clamp(min=0)) > 0)
        labels = torch.where(usable, labels, by_class.argmax(1)[:, None])
        weights = torch.from_numpy(targets.item_weights()).to(device)
        return cls(labels, weights, (by_class / by_class.sum(1, keepdim=True)).float())

    def __post_init__(self) -> None:
        self.total = self.weights.sum(1, dtype=torch.float64)
        self.are_equal = bool((self.weights == 1).all())
        self.used = (self.weights > 0).any(0).cpu()
        """``[item]`` whether some problem uses an item; on the processor, where sources are read."""

    def at(self, items: Tensor) -> Items:
        items = items.to(self.labels.device)
        return Items(self.labels[:, items], self.weights[:, items], self.frequency)

    def only(self, problems: Tensor) -> Items:
        return Items(self.labels[problems], self.weights[problems], self.frequency[problems])


@dataclass(frozen=True)
class ShardedSource:
    """Training items in shards, of which a fit reads sums alone. The targets of the fit are of one item a class, whose
    weight is the number of its items. ``shard.open(layers, chosen)`` are the vectors and targets of a shard."""

    shards: Sequence[Any]
    over: Callable[..., tuple[Any, ...]]  # adds up what a function returns for each shard, as :func:`sum_over`
    size: int  # number of items in all shards
    n_items: int  # number of classes, which are the items of the targets
    dim: int
    dtype: torch.dtype
    layers: Sequence[int]

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    def at(self, places: Sequence[int]) -> Self:
        return replace(self, layers=[self.layers[place] for place in places])

    def sums(self, function: Callable[..., tuple[Tensor, ...]], *args: Tensor) -> tuple[Tensor, ...]:
        return self.over(_of_shard, self.shards, function, self.layers, *args)

    def survey(self, frequency: Tensor, n: int, *, seed: int) -> tuple[Items, Moments, Sample]:
        """As :func:`survey` of the n items that :func:`choose_items` chooses, and these items."""
        chosen, first, parts = np.sort(draw_order(self.size, n, seed=seed)[:n]).astype(np.int64), 0, list[Any]()
        for shard in self.shards:
            end = first + shard.open(self.layers)[1].labels.shape[1]
            vectors, targets = shard.open(self.layers, chosen[(chosen >= first) & (chosen < end)] - first)
            labels, first = torch.from_numpy(targets.labels), end
            parts += [(of_chunk.to(self.dtype), labels[:, items]) for items, of_chunk in vectors.chunks()]
        kept, labels = (torch.cat(part, dim=1).to(frequency.device) for part in zip(*parts, strict=True))
        origin = kept[:, :1].float()
        moments = _moments(self, origin, *self.sums(moment_sums, origin))
        sample = Sample(torch.arange(len(chosen)), ArrayFeatures(kept, layers=self.layers), len(chosen) == self.size)
        return Items(labels, torch.ones(labels.shape, device=labels.device), frequency), moments, sample


def _of_shard(shard: Any, function: Callable[..., Any], layers: Sequence[int], *args: Tensor) -> Any:
    vectors, targets = shard.open(layers)
    return function(vectors, Items.of(targets, args[0].device), *args)


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of the vectors of each layer under each weighting of the items."""

    mean: Tensor  # [weighting, layer, dim] float64
    std: Tensor  # [weighting, layer, dim] float64, infinite where a feature is constant, which leaves 0 of it


@dataclass(frozen=True)
class Sample:
    """Some of the items, or all that are used, held in memory."""

    items: Tensor  # [place] their numbers in the source
    source: ArrayFeatures  # their vectors, on the device, in the type that they have in the source
    is_everything: bool  # whether no used item was left out


def choose_items(weights: Tensor, size: int, *, seed: int = 0) -> Tensor:
    """``[item]`` whether an item is in a sample of about ``size``, which has items of every problem."""
    used = (weights > 0).cpu().numpy()
    chosen = used.any(axis=0)
    if np.count_nonzero(chosen) > size:
        supports = {row.tobytes(): row for row in used}
        order = draw_order(used.shape[1], size, seed=seed)
        chosen = np.zeros(used.shape[1], dtype=bool)
        for row in supports.values():
            chosen[order[row[order]][: max(1, size // len(supports))]] = True
    return torch.from_numpy(chosen)


def draw_order(n_items: int, size: int, *, seed: int) -> NDArray[Any]:
    """A random order of items from which a sample of about ``size`` is taken: of very many, the beginning of one."""
    random = np.random.default_rng(seed)
    if n_items > _MOST_ORDERED:
        return random.choice(n_items, min(n_items // 50, 4 * size), replace=False)  # in memory for these alone
    return random.permutation(np.arange(n_items, dtype=np.uint32))


def survey(source: FeatureSource, weights: Tensor, in_sample: Tensor | None = None) -> tuple[Moments, Sample]:
    """Moments of every feature under ``weights [problem, item]``, and the vectors of the items ``in_sample [item]``.

    Sums are over differences from each layer's first vector, so that a feature far from zero keeps its digits, and a
    constant one is exactly constant.
    """
    used = (weights > 0).any(dim=0).cpu()
    if in_sample is None:
        in_sample = torch.zeros(source.n_items, dtype=torch.bool)
    size, n_kept = int(in_sample.sum()), 0
    kept_items = torch.empty(size, dtype=torch.int64)
    kept = torch.empty(source.n_layers, size, source.dim, dtype=source.dtype, device=weights.device)
    origin: Tensor | None = None  # [layer, 1, dim]
    first = torch.zeros(source.n_layers, len(weights), source.dim, dtype=torch.float64, device=weights.device)
    second = torch.zeros_like(first)
    for items, vectors in used_chunks(source, used):
        inside = in_sample[items]
        places = slice(n_kept, n_kept + int(inside.sum()))
        kept_items[places] = items[inside]
        kept[:, places] = vectors if inside.all() else vectors[:, inside]
        n_kept = places.stop
        if origin is None:
            origin = vectors[:, :1].to(weights.device, copy=True)
        of_chunk = weights[:, items.to(weights.device)]  # [problem, m]
        offsets = vectors.to(weights.device) - origin
        first += torch.matmul(of_chunk, offsets)
        second += torch.matmul(of_chunk, offsets.square_())
        del vectors, offsets  # or they would be held while the next are read
    if origin is None:
        raise FitError("there are no vectors to fit on: give at least one item")
    moments = _moments(source, origin, weights.sum(dim=1, dtype=torch.float64), first, second)
    return moments, Sample(kept_items, ArrayFeatures(kept), bool(in_sample[used].all()))


def moment_sums(source: FeatureSource, items: Items, origin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weight ``[problem]``, and sums ``[layer, problem, dim]`` of differences from ``origin`` and of their squares."""
    first = torch.zeros(source.n_layers, len(items.weights), source.dim, dtype=torch.float64, device=origin.device)
    second = torch.zeros_like(first)
    for numbers, vectors in used_chunks(source, items.used):
        weights, offsets = items.weights[:, numbers.to(origin.device)], vectors.to(origin.device) - origin
        first += torch.matmul(weights, offsets)
        second += torch.matmul(weights, offsets.square_())
    return items.total, first, second


def _moments(source: Any, origin: Tensor, total: Tensor, first: Tensor, second: Tensor) -> Moments:
    check_finite(source, second)
    offset_mean = (first / total[:, None]).transpose(0, 1)  # [problem, layer, dim]
    variance = (second / total[:, None]).transpose(0, 1) - offset_mean.square()
    std = variance.clamp_(min=0).sqrt_()
    constant = std <= 1e-6 * offset_mean.abs()  # float32 sums cannot tell a smaller spread from none
    return Moments(offset_mean + origin.squeeze(1), torch.where(constant, torch.inf, std))


def shuffled_batches(
    train: FeatureSource, items: Items, size: int, random: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Used items in batches of ``size``, shuffled inside windows; what is left of a window goes into the next one."""
    device = items.weights.device
    most = max(size, _WINDOW_BYTES // (4 * train.n_layers * train.dim))
    window: list[tuple[Tensor, Tensor]] = []

    def cut(*, last: bool) -> Iterator[tuple[Tensor, Tensor]]:
        numbers = torch.cat([part for part, _ in window])
        vectors = torch.cat([part for _, part in window], dim=1)
        order = torch.randperm(len(numbers), generator=random).to(device)
        end = len(order) if last else len(order) - len(order) % size
        for first in range(0, end, size):
            chosen = order[first : min(first + size, end)]
            yield numbers[chosen], vectors[:, chosen]
        window[:] = [(numbers[order[end:]], vectors[:, order[end:]])]

    for numbers, vectors in used_chunks(train, items.used):
        window.append((numbers.to(device), vectors.to(device)))
        if sum(len(part) for part, _ in window) >= most:
            yield from cut(last=False)
    if sum(len(part) for part, _ in window):
        yield from cut(last=True)


class JoinedChunks:
    """The ``used`` ``[item]`` items once in each pass, in neighbouring chunks joined to windows.

    Each chunk is copied as it comes to where those of the last window were: no more is held than a window and a chunk.
    Items that fit into one window are read in the first pass alone; a chunk larger than a window stays where it is.
    Behind the last word of a window there may be room left, with nothing in it.
    """

    def __init__(self, source: SpanSource, used: Tensor, *, device: torch.device | None = None) -> None:
        self._source, self._used, self._device = source, used, device
        self._room: Tensor | None = None  # [layer, word, dim]
        self._only: SpanChunk | None = None

    def __iter__(self) -> Iterator[SpanChunk]:
        if self._only is not None:
            yield self._only
            return
        n_windows = 0
        for joined in self._joined():
            n_windows += 1
            yield joined
        if n_windows == 1:
            self._only = joined

    def _joined(self) -> Iterator[SpanChunk]:
        held: list[SpanChunk] = []
        filled = 0

        def one() -> SpanChunk:
            assert self._room is not None, "what is held was copied there"
            # all of the room: a part of it would be copied whenever words are taken from it
            return SpanChunk(torch.cat([c.items for c in held]), self._room, torch.cat([c.spans for c in held]))

        for chunk in self._source.chunks():
            chunk = only_items(chunk, self._used[chunk.items])
            if not len(chunk.items):
                continue
            # A sum is far cheaper than a look at every number.
            check_finite(self._source, chunk.words.sum(dim=(1, 2)))
            n_layers, n_words, dim = chunk.words.shape
            most = _SPAN_WINDOW_BYTES // (chunk.words.nbytes // n_words)
            if held and filled + n_words > most:
                yield one()
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
            yield one()


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
    memory: int = 0  # chunks are kept from the first pass on if all of them take no more bytes
    kept: list[Any] = field(default_factory=list, repr=False)

    @property
    def n_layers(self) -> int:
        return self.of.n_layers

    @property
    def layers(self) -> Sequence[int]:
        return self.of.layers

    def at(self, places: Sequence[int]) -> Self:
        by_layer, memory = (part[list(places)] for part in self.by_layer), self.memory * len(places) // self.n_layers
        return replace(self, of=self.of.at(places), by_layer=tuple(by_layer), memory=memory, kept=[])

    def chunks(self) -> Iterator[Any]:
        if self.kept:
            yield from self.kept
            return
        kept, are_kept = list[Any](), 4 * self.n_layers * self.n_items * self.dim <= self.memory
        for chunk in self.of.chunks():
            made = self.change(chunk, *self.by_layer)
            del chunk  # or it would be held while the next is read
            if made is not None:
                kept += [made] if are_kept else []
                yield made
            del made
        self.kept[:] = kept


@dataclass(frozen=True)
class DerivedSpans(Derived):
    """A source of spans whose chunks are made from those of another source."""

    n_spans: int = 1


class _Array:
    """Vectors ``[layer, …, dim]`` in one array."""

    def __init__(self, values: Any, what: str, layers: Sequence[int] | None) -> None:
        is_float = values.is_floating_point() if isinstance(values, Tensor) else values.dtype.kind == "f"
        if values.ndim != 3 or not is_float:
            shape = f"shape {list(values.shape)} of {values.dtype}"
            raise FitError(f"vectors have {shape}: give floats [layer, {what}, dim]")
        self._values: Any = values
        self.n_layers, self._n, self.dim = map(int, values.shape)
        self.layers: Sequence[int] = tuple(range(self.n_layers)) if layers is None else tuple(layers)
        if (n := len(self.layers)) != self.n_layers:
            raise FitError(f"{n} layer numbers for {self.n_layers} layers: give one for each")

    def _some(self, places: Sequence[int]) -> tuple[Any, list[int]]:
        """The vectors of some layers, not copied where they are neighbours, and the layers' numbers."""
        run = range(places[0], places[-1] + 1) if places else ()
        values = self._values[run.start : run.stop] if run and [*places] == [*run] else self._values[list(places)]
        return values, [self.layers[place] for place in places]


class ArrayFeatures(_Array):
    """Features ``[layer, item, dim]`` held in one array of any floating type, converted chunk by chunk.

    The ``layers`` are the numbers of layers in their model, ``0 … layer − 1`` when left out.
    """

    def __init__(
        self,
        values: Tensor | NDArray[np.floating[Any]],
        *,
        layers: Sequence[int] | None = None,
        chunk_items: int | None = None,
    ) -> None:
        super().__init__(values, "item", layers)
        self.n_items = self._n
        self.dtype = torch.float16 if values.dtype in (np.float16, torch.float16) else torch.float32
        is_near = not isinstance(values, Tensor) or values.device.type == "cpu"
        at_once = max(vectors_at_once(self.dim), 0 if is_near else _CHUNK_BYTES // max(1, 4 * self.n_layers * self.dim))
        self._wanted, self._chunk_items = chunk_items, chunk_items or at_once

    def at(self, places: Sequence[int]) -> ArrayFeatures:
        """The same items in some of the layers; the vectors of neighbouring layers are not copied."""
        values, layers = self._some(places)
        return type(self)(values, layers=layers, chunk_items=self._wanted)

    def held(self, place: int) -> Tensor:
        """The vectors of one layer, ``[item, dim]``, as they are held: not to be changed."""
        return torch.as_tensor(self._values[place])

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All items in order, as ``[m]`` item numbers and ``[layer, m, dim]`` float32 vectors."""
        for first in range(0, self.n_items, self._chunk_items):
            part = self._values[:, first : first + self._chunk_items]
            if not isinstance(part, Tensor):  # torch wants to be able to write, which a memory map may refuse
                part = torch.from_numpy(part.astype(np.float32, copy=not part.flags.writeable))
            yield torch.arange(first, first + part.shape[1]), part.float()


class ArraySpans(_Array):
    """Spans over words ``[layer, word, dim]`` in one array, ``[item, span, 2]``: one or two an item, end exclusive.

    Raises:
        FitError: an array has another shape, or a span is empty, reversed or outside the words.
    """

    def __init__(
        self,
        values: Tensor | NDArray[np.floating[Any]],
        spans: Tensor | Integers,
        *,
        layers: Sequence[int] | None = None,
        chunk_items: int | None = None,
    ) -> None:
        super().__init__(values if isinstance(values, Tensor) else torch.from_numpy(np.array(values)), "word", layers)
        self._spans, self._chunk_items = torch.as_tensor(spans).long(), chunk_items or vectors_at_once(self.dim)
        check_spans(self._spans.numpy(), self._n)
        self.n_items, self.n_spans = self._spans.shape[:2]

    def at(self, places: Sequence[int]) -> ArraySpans:
        """The same items in some of the layers."""
        values, layers = self._some(places)
        return ArraySpans(values, self._spans, layers=layers, chunk_items=self._chunk_items)

    def chunks(self) -> Iterator[SpanChunk]:
        for first in range(0, self.n_items, self._chunk_items):
            spans = self._spans[first : first + self._chunk_items]
            words, renumbered = _words_of(spans)
            low, high = int(words[0]), int(words[-1]) + 1
            vectors = self._values[:, low:high] if high - low == len(words) else self._values[:, words]
            yield SpanChunk(torch.arange(first, first + len(spans)), vectors.float(), renumbered)


def changed(source: AnySource, change: Callable[..., Tensor], *by_layer: Tensor) -> AnySource:
    """The vectors of a source, or the words of its spans, after a change that keeps their shape.

    It takes ``[layer, m, dim]`` vectors and the arrays ``by_layer [layer, …]``, and returns such vectors.
    """
    size: Any = {"n_items": source.n_items, "dim": source.dim, "by_layer": by_layer}
    if not isinstance(source, SpanSource):
        return Derived(source, lambda chunk, *parts: (chunk[0], change(chunk[1], *parts)), **size)

    def of_words(chunk: SpanChunk, *parts: Tensor) -> SpanChunk:
        return replace(chunk, words=change(chunk.words, *parts))

    return DerivedSpans(source, of_words, n_spans=source.n_spans, **size)


def features_of(source: FeatureSource, features: NDArray[np.float32]) -> FeatureSource:
    """``[item, dim]`` features in one layer, in the order in which ``source``, of one layer, has the same items."""
    whole = torch.from_numpy(features)
    return Derived(source, lambda chunk: (chunk[0], whole[chunk[0]][None]), *features.shape)


def joined(source: FeatureSource, other: FeatureSource, *, memory: int = 0) -> FeatureSource:
    """The vectors of a source, each followed by that of the same item in ``other``, which has one layer and is held.

    As many bytes of ``memory`` may be kept between passes over them.
    """
    whole = torch.empty(other.n_items, other.dim, dtype=other.dtype)
    for items, vectors in other.chunks():
        whole[items] = vectors[0].to(whole)

    def join(chunk: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        items, vectors = chunk
        return items, torch.cat([vectors, whole[items].to(vectors).expand(len(vectors), -1, -1)], dim=2)

    return Derived(source, join, source.n_items, source.dim + other.dim, memory=memory)


def subset(source: Any, chosen: NDArray[np.bool_]) -> Any:
    """The ``chosen`` ``[item]`` items of a source of either kind, numbered anew in their order."""
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
        memory: bytes of pooled vectors that are kept between passes, if all of them take no more.
    """

    def pool(chunk: SpanChunk) -> Tensor:
        vectors = _pooled_words(chunk, pooling).flatten(2)
        if not compare:
            return vectors
        one, other = vectors.chunk(2, dim=2)
        return torch.cat([vectors, (one - other).abs(), one * other], dim=2)

    n_parts = 2 if pooling == "endpoints" else 1
    dim = source.dim * n_parts * (4 if compare else source.n_spans)
    return Derived(source, lambda chunk: (chunk.items, pool(chunk)), source.n_items, dim, memory=memory)


def pooled_parts(source: SpanSource, pooling: str) -> SpanSource:
    """Every pooled vector as a span of one word, two for ``endpoints``; spans as they are for ``attention``."""
    if pooling == "attention":
        return source
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
    if device.type != "cuda" or isinstance(source, ShardedSource):
        return source
    memory = int(_RESIDENT_PART * (memory_of(str(device)) or 0))
    if isinstance(source, WordVectors) and 4 * source.n_layers * source.n_items * source.dim <= memory:
        return ArrayFeatures(source.on(device), layers=source.layers)
    return in_memory(source, device=device, memory=memory)


def used_chunks(source: FeatureSource, used: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of ``source`` with ``used`` ``[item]`` items alone; none is held while the next is made."""
    for chunk in source.chunks():
        chunk = without_unused(chunk[0], chunk[1], used)
        if len(chunk[0]):
            yield chunk
        del chunk


def small_chunks(source: FeatureSource, n_scores: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of a source, in parts of so many items that ``n_scores`` of each can be held at once."""
    size = max(1, _SCORE_BYTES // (4 * n_scores))
    for items, vectors in source.chunks():
        for first in range(0, len(items), size):
            yield items[first : first + size], vectors[:, first : first + size]
        del items, vectors  # or they would be held while the next are read


def without_unused(items: Tensor, vectors: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """A chunk without the items that are not ``used`` ``[item]``."""
    if used.all():
        return items, vectors
    wanted = used[items]
    return (items, vectors) if wanted.all() else (items[wanted], vectors[:, wanted])


def check_finite(source: Any, sums: Tensor) -> None:
    """Raise :class:`FitError` unless ``[layer, …]`` sums over the vectors of ``source`` are finite."""
    damaged = ~sums.reshape(len(sums), -1).isfinite().all(1)  # [layer]
    if damaged.any():
        layer = source.layers[int(damaged.nonzero()[0])]
        raise FitError(f"layer {layer} has vectors that are not finite (NaN or infinite): extract it in float32")
