"""Chosen words of a store entry as features for a readout: chunk by chunk through the memory map."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._names import name_not_found
from bertology.activations._entry import Entry
from bertology.activations._shards import OpenShard

CHUNK_WORDS = 2048
DEFAULT_MEMORY = 2 << 30
_GAP = 64
"""Rows between two words above which they are read apart."""


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
            entry: where the vectors are.
            words: ``[item]`` numbers of the words; each must have a vector (see ``Entry.place``).
            layers: which layers, in this order (all that the entry holds when left out).
            memory: bytes of converted chunks to keep.
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
        """Item numbers ``[m]`` and their vectors ``[layer, m, dim]``, each item once, in one order for ever."""
        kept_bytes = sum(vectors.nbytes for _, vectors in self._kept.values())
        for number, (first, last) in enumerate(self._cuts()):
            if number not in self._kept:
                chunk = torch.from_numpy(self._order[first:last]), self._reader.read(self._place[first:last])
                if kept_bytes + chunk[1].nbytes > self._memory:
                    yield chunk
                    continue
                self._kept[number] = chunk
                kept_bytes += chunk[1].nbytes
            yield self._kept[number]

    def array(self) -> NDArray[np.float32]:
        """All features at once, ``[layer, item, dim]``, in the order the words were given."""
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


class WordReader:
    """Reads words of an entry in any order, whatever shards they are in.

    Args:
        entry: where the vectors are.
        layers: which layers, in this order.

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
