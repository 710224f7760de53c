"""Words in spans of a store entry, for readouts of spans: chunk by chunk through the memory map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bertology._spans import SpanChunk, check_spans
from bertology.activations._entry import Entry
from bertology.activations._vectors import CHUNK_WORDS, DEFAULT_MEMORY, WordReader


class SpanVectors:
    """Items of one or two spans of words, with the vectors of the words in them alone.

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
            entry: where the vectors are.
            spans: ``[item, span, 2]`` numbers of words through the split, end exclusive, one or two spans an item;
                each word must have a vector (see ``Entry.place``).
            layers: which layers, in this order (all that the entry holds when left out).
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
        found = n_read[spans[:, :, 1]] - n_read[spans[:, :, 0]]
        if (found < (1 if only_read else spans[:, :, 1] - spans[:, :, 0])).any():
            raise ValueError("spans of words without vectors were chosen; leave them out by Entry.place")
        # Of each item the first word that has a vector.
        first = entry.place[np.flatnonzero(self._is_read)[n_read[spans[:, 0, 0]]]]
        self._order = np.lexsort((first[:, 1], first[:, 0]))
        self._spans = spans[self._order]
        self._kept: dict[int, SpanChunk] = {}
        self._cuts = list(self._cut())

    def chunks(self) -> Iterator[SpanChunk]:
        """All items once, in one order for ever."""
        kept_bytes = sum(chunk.words.nbytes for chunk in self._kept.values())
        for number, (first, last) in enumerate(self._cuts):
            if number not in self._kept:
                chunk = self._read(first, last)
                if kept_bytes + chunk.words.nbytes > self._memory:
                    yield chunk
                    del chunk  # or it would be held while the next is read
                    continue
                self._kept[number] = chunk
                kept_bytes += chunk.words.nbytes
            yield self._kept[number]

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
