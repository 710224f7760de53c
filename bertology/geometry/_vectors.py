"""The vectors of some words of a text in every layer, read from the store layer by layer or in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from bertology.activations import Entry
from bertology.errors import CorpusError, ModelError

Floats32 = NDArray[np.float32]
Result = TypeVar("Result")
_CHUNK = 2048
_MOST_THREADS = 4
"""Each has the vectors of a layer in memory."""


class LayerVectors:
    """Vectors ``[layer, word, dim]`` of chosen words, of which no more is in memory than is read at a time.

    Args:
        layers: numbers of the layers, 0 for the embeddings.
        words: ``[word]`` numbers of the words in their text.
        dim: width of a vector.
        read: gives the vectors ``[layer, word, dim]`` of some layers, in chunks with the places ``[word]`` of their
            words.
        n_threads: on which layers may be computed side by side; what is computed does not depend on it.
    """

    def __init__(
        self,
        layers: Sequence[int],
        words: NDArray[np.int64],
        dim: int,
        read: Callable[[tuple[int, ...]], Iterator[tuple[NDArray[np.int64], Floats32]]],
        *,
        n_threads: int = 1,
    ) -> None:
        self.layers, self.words, self.dim = tuple(layers), words, dim
        self._read, self._n_threads = read, min(n_threads, _MOST_THREADS, len(self.layers))

    @classmethod
    def stored(
        cls, entry: Entry, words: NDArray[np.int64], layers: Sequence[int], *, n_threads: int = 1
    ) -> LayerVectors:
        """Of an entry of the store; words without a vector are left out of :attr:`words`."""
        from bertology.activations import WordVectors  # imports torch, which naming the statistics need not

        words = words[entry.place[words, 0] >= 0]

        def read(chosen: tuple[int, ...]) -> Iterator[tuple[NDArray[np.int64], Floats32]]:
            for items, vectors in WordVectors(entry, words, layers=chosen, memory=0).chunks():
                yield items.numpy(), vectors.numpy()

        return cls(layers, words, entry.manifest.dim, read, n_threads=n_threads)

    @classmethod
    def of_arrays(cls, vectors: ArrayLike, *, layers: Sequence[int] | None = None) -> LayerVectors:
        """Of vectors ``[layer, word, dim]`` in memory; layers are numbered from 0 unless they are named.

        Raises:
            ValueError: another number of axes, or of layers.
        """
        array = np.asarray(vectors, dtype=np.float32)
        numbers = range(len(array)) if layers is None else layers
        if array.ndim != 3 or len(numbers) != len(array):
            raise ValueError(f"vectors should be [layer, word, dim], with {len(numbers)} layers; not {array.shape}")
        place = {layer: number for number, layer in enumerate(numbers)}

        def read(chosen: tuple[int, ...]) -> Iterator[tuple[NDArray[np.int64], Floats32]]:
            places = [place[layer] for layer in chosen]
            for first in range(0, array.shape[1], _CHUNK):
                part = array[places, first : first + _CHUNK]
                yield np.arange(first, first + part.shape[1]), part

        return cls(tuple(numbers), np.arange(array.shape[1]), array.shape[2], read)

    def beside(self, other: LayerVectors) -> LayerVectors:
        """The layers of two models as those of one: first these, numbered from 0, then those of the other.

        The narrower vectors end in zeros, which changes no product, cosine or distance of two vectors.

        Raises:
            CorpusError: they are of other words.
        """
        if not np.array_equal(self.words, other.words):
            sizes = f"{len(self)} and {len(other)}"
            raise CorpusError(f"vectors of other words ({sizes}) cannot be compared: give those of the same words")
        n_own, dim = len(self.layers), max(self.dim, other.dim)

        def read(chosen: tuple[int, ...]) -> Iterator[tuple[NDArray[np.int64], Floats32]]:
            own = tuple(self.layers[place] for place in chosen if place < n_own)
            others = tuple(other.layers[place - n_own] for place in chosen if place >= n_own)
            order = np.argsort(np.argsort([place >= n_own for place in chosen], kind="stable"), kind="stable")
            for items, parts in _in_step(*(one._read(some) for one, some in ((self, own), (other, others)) if some)):
                filled = [np.pad(part, ((0, 0), (0, 0), (0, dim - part.shape[2]))) for part in parts]
                yield items, np.concatenate(filled)[order]

        return LayerVectors(range(n_own + len(other.layers)), self.words, dim, read)

    def __len__(self) -> int:
        """Number of words."""
        return len(self.words)

    def of(self, layer: int) -> Floats32:
        """``[word, dim]`` vectors of one layer.

        Raises:
            ModelError: one of them is not finite.
        """
        whole = np.empty((len(self), self.dim), dtype=np.float32)
        for items, vectors in self._read((layer,)):
            whole[items] = vectors[0]
        if not np.isfinite(whole).all():
            n_words = int((~np.isfinite(whole).all(axis=1)).sum())
            raise ModelError(
                f"layer {layer}: vectors of {n_words} words are not finite; give a model that computes them"
            )
        return whole

    def each(self, job: Callable[[int, Floats32], Result]) -> list[Result]:
        """``[layer]`` what a job makes of the number of a layer and of its vectors ``[word, dim]``."""
        if self._n_threads <= 1:
            return [job(layer, self.of(layer)) for layer in self.layers]
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(self._n_threads) as pool:
            return list(pool.map(lambda layer: job(layer, self.of(layer)), self.layers))

    def chunks(self) -> Iterator[tuple[NDArray[np.int64], Floats32]]:
        """All words once, in chunks: their places ``[m]`` and their vectors ``[layer, m, dim]``."""
        return self._read(self.layers)


def _in_step(
    *streams: Iterator[tuple[NDArray[np.int64], Floats32]],
) -> Iterator[tuple[NDArray[np.int64], list[Floats32]]]:
    """The same words of streams whose chunks, of words in a row, end at other places."""
    chunks = [next(stream, None) for stream in streams]
    while all(chunk is not None for chunk in chunks):
        n = min(len(items) for items, _ in filter(None, chunks))
        items = next(items[:n] for items, _ in filter(None, chunks))
        yield items, [vectors[:, :n] for _, vectors in filter(None, chunks)]
        for place, (stream, chunk) in enumerate(zip(streams, chunks, strict=True)):
            assert chunk is not None
            rest = chunk[0][n:], chunk[1][:, n:]
            chunks[place] = rest if len(rest[0]) else next(stream, None)


def unit_vectors(vectors: Floats32, layer: int, *, may_vanish: bool = False) -> Floats32:
    """Vectors of length 1.

    Raises:
        ModelError: a vector is zero, unless it may be; then it stays so.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not may_vanish and not (lengths > 0).all():
        n_zero = int((lengths == 0).sum())
        raise ModelError(f"layer {layer}: vectors of {n_zero} words are zero: they have no direction to compare")
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))
