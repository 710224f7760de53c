"""Words of a store entry, alone or in spans, as features of a readout: chunk by chunk through the memory map."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._names import name_not_found
from bertology._spans import SpanChunk, check_spans
from bertology.activations._store import Entry, OpenShard

CHUNK_WORDS = 2048
DEFAULT_MEMORY = 2 << 30
_GAP = 64
"""Two words with more rows than these between them are read apart."""

Chunk = TypeVar("Chunk")


class WordVectors:
    """Features ``[layer, item, dim]`` of chosen words, for readouts.

    Items come in the order of the store, in chunks. Chunks already converted to float32 stay in memory up to
    ``memory`` bytes, so that passes after the first are faster and memory does not grow with the corpus.
    """

    def __init__(
        self,
        entry: Entry,
        words: NDArray[np.int64],
        *,
        layers: Sequence[int] | None = None,
        memory: int = DEFAULT_MEMORY,
    ) -> None:
        """Choose words.

        Args:
            entry: the stored vectors.
            words: ``[item]`` numbers of the words; each must have a vector (see ``Entry.place``).
            layers: those to read, in this order; all that the entry holds when left out.
            memory: bytes of converted chunks to keep.

        Raises:
            NameNotFoundError: the entry has no such layer.
            ValueError: a word has no vector.
        """
        self._reader = WordReader(entry, layers)
        self.layers = self._reader.layers
        self.n_layers, self.n_items, self.dim = len(self.layers), len(words), entry.manifest.dim
        self._memory = memory
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}
        place = entry.place[words]
        if (place < 0).any():
            raise ValueError("words without vectors were chosen; leave them out by Entry.place")
        self._order = np.lexsort((place[:, 1], place[:, 0]))
        self._place = place[self._order]

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Item numbers ``[m]`` and their vectors ``[layer, m, dim]``; each item once, in the same order every time."""
        return _through(self._kept, self._cuts(), self._read, size=lambda chunk: chunk[1].nbytes, memory=self._memory)

    def _read(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self._order[first:last]), self._reader.read(self._place[first:last])

    def array(self) -> NDArray[np.float32]:
        """All features at once, ``[layer, item, dim]``, in the order in which words were chosen."""
        whole = np.empty((self.n_layers, self.n_items, self.dim), dtype=np.float32)
        for items, vectors in self.chunks():
            whole[:, items.numpy()] = vectors.numpy()
        return whole

    def _cuts(self) -> Iterator[tuple[int, int]]:
        shards = self._place[:, 0]
        edges = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)]
        for start, end in itertools.pairwise(edges):
            for first in range(start, end, CHUNK_WORDS):
                yield first, min(first + CHUNK_WORDS, end)


class SpanVectors:
    """Items of one or two spans of words, with the vectors of the words in these spans.

    Items come in the order of the store by their first word, in chunks of a bounded number of words. A sentence that
    was read in windows may have its words in several shards; a chunk then takes them from each. Chunks already
    converted to float32 stay in memory up to ``memory`` bytes, so that passes after the first are faster and memory
    does not grow with the corpus.
    """

    def __init__(
        self,
        entry: Entry,
        spans: NDArray[np.int64],
        *,
        layers: Sequence[int] | None = None,
        memory: int = DEFAULT_MEMORY,
        only_read: bool = False,
    ) -> None:
        """Choose spans.

        Args:
            entry: the stored vectors.
            spans: ``[item, span, 2]`` numbers of words through the split, end exclusive, one or two spans an item;
                each word must have a vector (see ``Entry.place``).
            layers: those to read, in this order; all that the entry holds when left out.
            memory: bytes of converted chunks to keep.
            only_read: leave words without a vector out of their spans, each of which must have a word that has one.

        Raises:
            NameNotFoundError: the entry has no such layer.
            FitError: a span is empty, reversed or outside the split.
            ValueError: a word has no vector.
        """
        spans = np.asarray(spans, dtype=np.int64)
        check_spans(spans, len(entry.place))
        self._entry, self._memory = entry, memory
        self._reader = WordReader(entry, layers)
        self.layers = self._reader.layers
        self.n_layers, self.dim = len(self.layers), entry.manifest.dim
        self.n_items, self.n_spans = spans.shape[:2]
        self._is_read = entry.place[:, 0] >= 0
        n_read = np.append(0, np.cumsum(self._is_read))
        readable = n_read[spans[:, :, 1]] - n_read[spans[:, :, 0]]
        if (readable < (1 if only_read else spans[:, :, 1] - spans[:, :, 0])).any():
            raise ValueError("spans of words without vectors were chosen; leave them out by Entry.place")
        # The first word of each item that has a vector.
        first = entry.place[np.flatnonzero(self._is_read)[n_read[spans[:, 0, 0]]]]
        self._order = np.lexsort((first[:, 1], first[:, 0]))
        self._spans = spans[self._order]
        self._kept: dict[int, SpanChunk] = {}
        self._cuts = list(self._cut())

    def chunks(self) -> Iterator[SpanChunk]:
        """All items once, in the same order every time."""
        return _through(self._kept, self._cuts, self._read, size=lambda chunk: chunk.words.nbytes, memory=self._memory)

    def _cut(self) -> Iterator[tuple[int, int]]:
        """Where chunks begin and end: at ``CHUNK_WORDS`` words at most, unless one item has more."""
        words = (self._spans[:, :, 1] - self._spans[:, :, 0]).sum(axis=1).cumsum()
        first = 0
        while first < len(words):
            before = words[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(words, before + CHUNK_WORDS, side="right")))
            yield first, last
            first = last

    def _read(self, first: int, last: int) -> SpanChunk:
        spans = self._spans[first:last]
        lengths = (spans[:, :, 1] - spans[:, :, 0]).ravel()
        inside = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
        words = np.unique(np.repeat(spans[:, :, 0].ravel(), lengths) + inside)
        words = words[self._is_read[words]]
        vectors = self._reader.read(self._entry.place[words])
        places = np.searchsorted(words, spans)
        return SpanChunk(torch.from_numpy(self._order[first:last]), vectors, torch.from_numpy(places))


class WordReader:
    """Reads words of an entry in any order, from whatever shards they are in.

    Args:
        entry: the stored vectors.
        layers: those to read, in this order; all that the entry holds for None.

    Raises:
        NameNotFoundError: the entry has no such layer.
    """

    def __init__(self, entry: Entry, layers: Sequence[int] | None) -> None:
        self.layers = tuple(entry.manifest.layers if layers is None else layers)
        for layer in self.layers:
            if layer not in entry.manifest.layers:
                raise name_not_found("layer of the stored vectors", str(layer), map(str, entry.manifest.layers))
        self._entry = entry
        self._open: tuple[int, OpenShard] | None = None

    def read(self, place: NDArray[np.int32]) -> Tensor:
        """Vectors ``[layer, word, dim]`` of the words at ``place`` ``[word, 2]`` (shard and row)."""
        order = np.lexsort((place[:, 1], place[:, 0]))
        ordered = place[order].astype(np.int64)
        is_sorted = bool((order[1:] > order[:-1]).all())
        vectors = torch.empty(len(self.layers), len(place), self._entry.manifest.dim)
        # rows far apart are read apart, so that no more is read than is needed
        far = (np.diff(ordered[:, 0]) != 0) | (np.diff(ordered[:, 1]) > _GAP)
        for first, last in itertools.pairwise([0, *(np.flatnonzero(far) + 1).tolist(), len(ordered)]):
            shard = self._shard(int(ordered[first, 0]))
            rows = ordered[first:last, 1]
            low, high = int(rows[0]), int(rows[-1]) + 1
            into = slice(first, last) if is_sorted else torch.from_numpy(order[first:last])
            for number, layer in enumerate(self.layers):
                stored = torch.from_numpy(shard.rows(layer, low, high))
                vectors[number, into] = (stored if high - low == last - first else stored[rows - low]).float()
        return vectors

    def _shard(self, number: int) -> OpenShard:
        if self._open is None or self._open[0] != number:
            self._open = number, OpenShard(self._entry.shard_path(number))
        return self._open[1]


def _through(
    kept: dict[int, Chunk],
    cuts: Iterable[tuple[int, int]],
    read: Callable[[int, int], Chunk],
    *,
    size: Callable[[Chunk], int],
    memory: int,
) -> Iterator[Chunk]:
    """The chunk between each pair of ``cuts``, from ``kept`` or read and kept there up to ``memory`` bytes in all."""
    kept_bytes = sum(map(size, kept.values()))
    for number, (first, last) in enumerate(cuts):
        if number not in kept:
            chunk = read(first, last)
            if kept_bytes + size(chunk) > memory:
                yield chunk
                del chunk  # or it would be held while the next is read
                continue
            kept[number] = chunk
            kept_bytes += size(chunk)
        yield kept[number]
