"""Words of a store entry, alone or in spans, as features of a readout: chunk by chunk through the memory map."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._machine import vectors_at_once
from bertology._names import name_not_found
from bertology.activations.store import Entry, shard_reader
from bertology.encoders.alignment import numbers_in
from bertology.errors import FitError

DEFAULT_MEMORY = 2 << 30
_GAP = 64  # two words with more rows than these between them are read apart

Chunk = TypeVar("Chunk")


@dataclass(frozen=True)
class SpanChunk:
    """Some items and the vectors of the words in their spans; not to be modified."""

    items: Tensor
    """``[m]`` int64 numbers of the items."""
    words: Tensor
    """``[layer, w, dim]`` float32 vectors, each word once, however many spans contain it."""
    spans: Tensor
    """``[m, span, 2]`` int64 positions in ``words``, end exclusive."""


def check_spans(spans: NDArray[np.int64], n_words: int) -> None:
    """Raise :class:`FitError` unless ``spans`` is ``[item, 1 or 2, 2]`` and every span has words among ``n_words``."""
    if spans.ndim != 3 or spans.shape[1] not in (1, 2) or spans.shape[2] != 2:
        raise FitError(f"spans have shape {list(spans.shape)}: give [item, span, 2] with one or two spans an item")
    wrong = (spans[:, :, 0] < 0) | (spans[:, :, 0] >= spans[:, :, 1]) | (spans[:, :, 1] > n_words)
    if wrong.any():
        item, span = np.argwhere(wrong)[0].tolist()
        start, end = spans[item, span].tolist()
        raise FitError(
            f"item {item}: span {span + 1} is [{start}, {end}): give a start below its end, between 0 and {n_words}"
        )


class _StoredItems(ABC, Generic[Chunk]):
    """Items with the vectors of a store entry, in float32 chunks, of which up to ``memory`` bytes are kept.

    They are kept in float32 or else in the type in which they are stored; ``are_kept_whole`` if only all of them are,
    since passes would be little faster for a part.
    """

    n_items: int
    are_kept_whole = False

    def __init__(self, entry: Entry, layers: Sequence[int] | None, memory: int) -> None:
        self.layers = tuple(entry.manifest.layers if layers is None else layers)
        for layer in self.layers:
            if layer not in entry.manifest.layers:
                raise name_not_found("layer of the stored vectors", str(layer), map(str, entry.manifest.layers))
        self.n_layers, self.dim = len(self.layers), entry.manifest.dim
        self.dtype: torch.dtype = getattr(torch, entry.manifest.recipe.stored_dtype)
        self._entry, self._memory, self._chunk_items = entry, memory, vectors_at_once(self.dim)
        self._kept: dict[int, Chunk] = {}
        self._kept_bytes = 0

    def at(self, places: Sequence[int]) -> Self:
        """The same items in a subset of layers, given by indices into ``layers``; the other layers are not read."""
        chosen = copy(self)
        chosen.layers, chosen.n_layers = tuple(self.layers[place] for place in places), len(places)
        chosen._kept, chosen._kept_bytes = {}, 0
        chosen._memory = self._memory * len(places) // self.n_layers
        return chosen

    def chunks(self) -> Iterator[Chunk]:
        """All items once, in the same order every time."""
        for number, (first, last) in enumerate(self._cuts()):
            # A chunk with a name here would be held while the next is read.
            yield _in_float32(self._stored(number, first, last))

    def _stored(self, number: int, first: int, last: int) -> Chunk:
        if number in self._kept:
            return self._kept[number]
        chunk, n_bytes = self._read(first, last)
        needed = self._kept_bytes + n_bytes
        if self.are_kept_whole:
            needed = self.n_layers * self.n_items * self.dim * self.dtype.itemsize
        if needed <= self._memory:
            fits_converted = self.are_kept_whole and needed * 4 // self.dtype.itemsize <= self._memory
            chunk = self._kept[number] = _in_float32(chunk) if fits_converted else chunk
            self._kept_bytes += n_bytes
        return chunk

    @abstractmethod
    def _cuts(self) -> Iterator[tuple[int, int]]:
        """The first item of each chunk and the end of its items."""

    @abstractmethod
    def _read(self, first: int, last: int) -> tuple[Chunk, int]:
        """A chunk of items in the type in which it is kept, and the bytes of its vectors."""

    def _vectors(self, place: NDArray[np.int32]) -> Tensor:
        """Vectors ``[layer, word, dim]`` of the words at ``place`` ``[word, 2]`` (shard and row), in any order."""
        order = np.lexsort((place[:, 1], place[:, 0]))
        ordered = place[order].astype(np.int64)
        is_sorted = bool((order[1:] > order[:-1]).all())
        vectors = torch.empty(self.n_layers, len(place), self.dim, dtype=self.dtype)
        # A shard is open for one chunk: what is read of a map counts as memory of the process until the map is closed.
        paths = {number: self._entry.shard_path(number) for number in set(ordered[:, 0].tolist())}
        shards = {number: shard_reader(path) for number, path in paths.items()}
        # Rows far apart are read apart, so that no more is read than is needed.
        far = (np.diff(ordered[:, 0]) != 0) | (np.diff(ordered[:, 1]) > _GAP)
        for first, last in itertools.pairwise([0, *(np.flatnonzero(far) + 1).tolist(), len(ordered)]):
            read, rows = shards[int(ordered[first, 0])], ordered[first:last, 1]
            low, high = int(rows[0]), int(rows[-1]) + 1
            into = slice(first, last) if is_sorted else torch.from_numpy(order[first:last])
            for layer_vectors, layer in zip(vectors, self.layers, strict=True):
                stored = read(layer, low, high).cpu()
                layer_vectors[into] = stored if high - low == last - first else stored[rows - low]
        return vectors


def _in_float32(chunk: Any) -> Any:
    if isinstance(chunk, SpanChunk):
        return replace(chunk, words=chunk.words.float())
    return chunk[0], chunk[1].float()


class WordVectors(_StoredItems[tuple[Tensor, Tensor]]):
    """Features ``[layer, item, dim]`` of chosen words, for readouts.

    Items come in the order of the store, in chunks of their numbers ``[m]`` and their vectors ``[layer, m, dim]``, in
    float32. If all of them take no more than ``memory`` bytes they stay in memory, so that passes after the first are
    faster and memory does not grow with the corpus. Some of the layers (:meth:`at`) have their share of ``memory``.

    Args:
        entry: the stored vectors.
        words: ``[item]`` numbers of the words; a ValueError is raised for one without a vector (see ``Entry.place``).
        layers: those to read, in this order; all that the entry holds when left out, a NameNotFoundError for others.
        memory: bytes of chunks to keep.
    """

    are_kept_whole = True

    def __init__(
        self,
        entry: Entry,
        words: NDArray[np.int64],
        *,
        layers: Sequence[int] | None = None,
        memory: int = DEFAULT_MEMORY,
    ) -> None:
        super().__init__(entry, layers, memory)
        self.n_items, place = len(words), entry.place[words]
        if (place < 0).any():
            raise ValueError("words without vectors were chosen; leave them out by Entry.place")
        self._order = np.lexsort((place[:, 1], place[:, 0]))
        self._place = place[self._order]

    def array(self) -> NDArray[np.float32]:
        """All features at once, ``[layer, item, dim]``, in the order in which words were chosen."""
        whole = np.empty((self.n_layers, self.n_items, self.dim), dtype=np.float32)
        for items, vectors in self.chunks():
            whole[:, items.numpy()] = vectors.numpy()
        return whole

    def on(self, device: torch.device) -> Tensor:
        """All features at once on a device, ``[layer, item, dim]`` in float32, in the order in which words were chosen.

        The rows of a shard go there together, as they are stored, and are put in order there.
        """
        whole = torch.empty(self.n_layers, self.n_items, self.dim, device=device)
        for start, end in self._shards():
            read = shard_reader(self._entry.shard_path(int(self._place[start, 0])))
            low, high = int(self._place[start, 1]), int(self._place[end - 1, 1]) + 1
            rows = torch.from_numpy(self._place[start:end, 1].astype(np.int64) - low).to(device)
            items = torch.from_numpy(self._order[start:end]).to(device)
            for vectors, layer in zip(whole, self.layers, strict=True):
                vectors[items] = read(layer, low, high).to(device)[rows].float()
        return whole

    def _shards(self) -> Iterator[tuple[int, int]]:
        """The first item of each shard and the end of its items."""
        shards = self._place[:, 0]
        return itertools.pairwise([0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)])

    def _cuts(self) -> Iterator[tuple[int, int]]:
        for start, end in self._shards():
            for first in range(start, end, self._chunk_items):
                yield first, min(first + self._chunk_items, end)

    def _read(self, first: int, last: int) -> tuple[tuple[Tensor, Tensor], int]:
        vectors = self._vectors(self._place[first:last])
        return (torch.from_numpy(self._order[first:last]), vectors), vectors.nbytes


class SpanVectors(_StoredItems[SpanChunk]):
    """Items of one or two spans of words, with the vectors of the words in these spans.

    Items come in the order of the store by their first word, in chunks of a bounded number of words. A sentence that
    was read in windows may have its words in several shards; a chunk then takes them from each. Arguments and errors
    are those of :class:`WordVectors`, except that chunks are kept as they are stored, as many as ``memory`` holds.

    Args:
        entry: the stored vectors.
        spans: ``[item, span, 2]`` numbers of words through the split, end exclusive, one or two spans an item; a
            FitError is raised for one that is empty, reversed or outside the split.
        layers: those to read.
        memory: bytes of chunks to keep.
        read: ``[word]`` which words to read; the others are left out of their spans, each of which must have one that
            is read and has a vector.
    """

    def __init__(
        self,
        entry: Entry,
        spans: NDArray[np.int64],
        *,
        layers: Sequence[int] | None = None,
        memory: int = DEFAULT_MEMORY,
        read: NDArray[np.bool_] | None = None,
    ) -> None:
        spans = np.asarray(spans, dtype=np.int64)
        check_spans(spans, len(entry.place))
        super().__init__(entry, layers, memory)
        self.n_items, self.n_spans = spans.shape[:2]
        self._is_read = (entry.place[:, 0] >= 0) & (True if read is None else read)
        n_read = np.append(0, np.cumsum(self._is_read))
        readable = n_read[spans[:, :, 1]] - n_read[spans[:, :, 0]]
        if (readable < (spans[:, :, 1] - spans[:, :, 0] if read is None else 1)).any():
            raise ValueError("spans of words without vectors were chosen; leave them out by Entry.place")
        # The first word of each item that has a vector.
        first = entry.place[np.flatnonzero(self._is_read)[n_read[spans[:, 0, 0]]]]
        self._order = np.lexsort((first[:, 1], first[:, 0]))
        self._spans = spans[self._order]

    def _cuts(self) -> Iterator[tuple[int, int]]:
        """As many words as a chunk has at most, unless one item has more."""
        words = (self._spans[:, :, 1] - self._spans[:, :, 0]).sum(axis=1).cumsum()
        first = 0
        while first < len(words):
            before = words[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(words, before + self._chunk_items, side="right")))
            yield first, last
            first = last

    def _read(self, first: int, last: int) -> tuple[SpanChunk, int]:
        spans = self._spans[first:last]
        _, inside = numbers_in(spans[:, :, 0].ravel(), spans[:, :, 1].ravel())
        words = np.unique(inside)
        words = words[self._is_read[words]]
        vectors, places = self._vectors(self._entry.place[words]), np.searchsorted(words, spans)
        return SpanChunk(torch.from_numpy(self._order[first:last]), vectors, torch.from_numpy(places)), vectors.nbytes
