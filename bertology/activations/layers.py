"""The vectors of some words of a text in every layer, read from the store layer by layer or in chunks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from bertology._lazy import scipy
from bertology.activations import Entry
from bertology.errors import CorpusError, ModelError
from bertology.measures.sums import Integers, LayerSums, by_layer

Floats32 = NDArray[np.float32]
Result = TypeVar("Result")
ROWS = 2048
"""Vectors that are taken at a time, so that results stay in the processor's cache."""
_MOST_THREADS = 4  # each has the vectors of a layer in memory


class LayerVectors:
    """Vectors ``[layer, word, dim]`` of chosen words, of which no more is in memory than is read at a time.

    Args:
        layers: numbers of the layers, 0 for the embeddings.
        words: ``[word]`` numbers of the words in their text.
        dim: width of a vector.
        take: gives the vectors ``[layer, item, dim]`` of some layers, of the words at places ``[item]`` of ``words``.
        order: ``[word]`` places of the words in the order in which they are read fastest.
        text: fingerprint of the text that the words are of; empty where it is not known.
        n_threads: on which layers may be computed side by side; what is computed does not depend on it.
    """

    def __init__(
        self,
        layers: Sequence[int],
        words: NDArray[np.int64],
        dim: int,
        take: Callable[[tuple[int, ...], NDArray[np.int64]], Floats32],
        *,
        order: NDArray[np.int64] | None = None,
        text: str = "",
        n_threads: int = 1,
    ) -> None:
        self.layers, self.words, self.dim, self.text = tuple(layers), words, dim, text
        self._take, self._order = take, np.arange(len(words)) if order is None else order
        self._n_threads = min(n_threads, _MOST_THREADS, len(self.layers))

    @classmethod
    def stored(
        cls, entry: Entry, words: NDArray[np.int64], layers: Sequence[int], *, n_threads: int = 1
    ) -> "LayerVectors":
        """The vectors of an entry of the store; words without a vector are left out of :attr:`words`."""
        from bertology.activations import WordVectors  # imports torch, which naming the statistics need not

        words = words[entry.place[words, 0] >= 0]

        def take(chosen: tuple[int, ...], items: NDArray[np.int64]) -> Floats32:
            return WordVectors(entry, words[items], layers=chosen, memory=0).array()

        # The order of the store, which is that of the windows of a tokenizer.
        shards, rows = entry.place[words].T
        text, dim = entry.manifest.recipe.text_fingerprint, entry.manifest.dim
        return cls(layers, words, dim, take, order=np.lexsort((rows, shards)), text=text, n_threads=n_threads)

    @classmethod
    def of_arrays(
        cls, vectors: ArrayLike, *, layers: Sequence[int] | None = None, words: NDArray[np.int64] | None = None
    ) -> "LayerVectors":
        """Vectors ``[layer, word, dim]`` in memory; layers and words are numbered from 0 unless they are named.

        A ValueError is raised for another number of axes, of layers or of words.
        """
        array = np.asarray(vectors, dtype=np.float32)
        numbers = tuple(range(len(array)) if layers is None else layers)
        if array.ndim != 3 or len(numbers) != len(array):
            raise ValueError(f"vectors should be [layer, word, dim], with {len(numbers)} layers; not {array.shape}")
        if words is not None and len(words) != array.shape[1]:
            raise ValueError(f"{len(words)} words have {array.shape[1]} vectors: give one vector a word")

        def take(chosen: tuple[int, ...], items: NDArray[np.int64]) -> Floats32:
            return np.asarray(array[np.array([numbers.index(layer) for layer in chosen])[:, None], items])

        return cls(numbers, np.arange(array.shape[1]) if words is None else words, array.shape[2], take)

    def check_same_words(self, other: "LayerVectors") -> None:
        """Raise a CorpusError where another model's vectors are not of the same words of the same text."""
        if not np.array_equal(self.words, other.words) or (self.text and other.text and self.text != other.text):
            sizes = f"{len(self)} and {len(other)}"
            raise CorpusError(f"vectors of other words ({sizes}) cannot be compared: give those of the same words")

    def beside(self, other: "LayerVectors") -> "LayerVectors":
        """The layers of two models as those of one: first these, numbered from 0, then those of the other.

        The narrower vectors end in zeros, which changes no product, cosine or distance of two vectors. A CorpusError is
        raised where they are of other words.
        """
        self.check_same_words(other)
        n_own, dim = len(self.layers), max(self.dim, other.dim)

        def take(chosen: tuple[int, ...], items: NDArray[np.int64]) -> Floats32:
            both = np.zeros((len(chosen), len(items), dim), dtype=np.float32)
            for one, first in ((self, 0), (other, n_own)):
                rows = [row for row, place in enumerate(chosen) if first <= place < first + len(one.layers)]
                if rows:
                    layers = tuple(one.layers[chosen[row] - first] for row in rows)
                    both[rows, :, : one.dim] = one._take(layers, items)
            return both

        layers = range(n_own + len(other.layers))
        return LayerVectors(layers, self.words, dim, take, order=self._order, text=self.text)

    def __len__(self) -> int:
        return len(self.words)

    def of(self, layer: int) -> Floats32:
        """``[word, dim]`` vectors of one layer; a ModelError where one of them is not finite."""
        whole = np.empty((len(self), self.dim), dtype=np.float32)
        for items, vectors in self.chunks((layer,)):
            whole[items] = vectors[0]
        if n_words := int((~np.isfinite(whole).all(axis=1)).sum()):
            why = f"vectors of {n_words} words are not finite"
            raise ModelError(f"layer {layer}: {why}; give a model that computes them")
        return whole

    def each(self, job: Callable[[int, Floats32], Result]) -> list[Result]:
        """Results, one for each layer, of a function of each layer's number and vectors ``[word, dim]``."""
        if self._n_threads <= 1:
            return [job(layer, self.of(layer)) for layer in self.layers]
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(self._n_threads) as pool:
            return list(pool.map(lambda layer: job(layer, self.of(layer)), self.layers))

    def statistics(self, measure: Callable[[int, Floats32], Iterable[LayerSums]]) -> Iterator[LayerSums]:
        """Statistics of all layers, from a function of the number of a layer and its vectors ``[word, dim]``.

        The function returns the statistics of one layer, without naming it: see :func:`by_layer`.
        """
        return by_layer(self.each(lambda layer, vectors: (layer, list(measure(layer, vectors)))))

    def chunks(self, layers: tuple[int, ...] | None = None) -> Iterator[tuple[NDArray[np.int64], Floats32]]:
        """All words once, in chunks: their places ``[m]`` and vectors ``[layer, m, dim]``, of all layers or some."""
        for first in range(0, len(self), ROWS):
            items = self._order[first : first + ROWS]
            yield items, self._take(self.layers if layers is None else layers, items)


def unit_vectors(vectors: Floats32, layer: int = 0, *, may_vanish: bool = False) -> Floats32:
    """Vectors of length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not may_vanish and not (lengths > 0).all():
        n_zero = int((lengths == 0).sum())
        raise ModelError(f"layer {layer}: vectors of {n_zero} words are zero: they have no direction to compare")
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))


def span_means(vectors: Floats32, spans: Integers) -> Floats32:
    """``[span, dim]`` means of vectors ``[word, dim]`` over spans of places, none of them empty."""
    lengths = spans[:, 1] - spans[:, 0]
    if (lengths == 1).all():
        return vectors[spans[:, 0]]
    places = np.concatenate([np.arange(first, last) for first, last in spans])
    sums = np.add.reduceat(vectors[places], np.append(0, lengths.cumsum()[:-1]), axis=0)
    return np.asarray(sums / lengths[:, None], dtype=np.float32)


def type_directions(vectors: Floats32, types: Integers) -> Floats32:
    """``[type, dim]`` unit vectors of the mean of each type's vectors ``[word, dim]``; types are numbered from 0."""
    order = np.argsort(types, kind="stable")
    starts = np.searchsorted(types[order], np.arange(types.max() + 1))
    # The direction of a sum is that of the mean.
    return unit_vectors(np.add.reduceat(vectors[order], starts, axis=0), may_vanish=True)


def group_sums(
    vectors: Floats32, starts: Integers, *, order: Integers | None = None, weights: Floats32 | None = None
) -> Floats32:
    """``[group, dim]`` sums of the vectors ``[vector, dim]`` of each group, or ``[group, kind, dim]``.

    ``starts [group + 1]`` are where each group begins, and where the last one ends, among the vectors as they stand or
    those at places ``order [item]``. With ``weights [vector, kind]`` in place of ``[vector]``, several sums of each
    group are formed together while its vectors are in the processor's cache.
    """
    order = np.arange(starts[-1]) if order is None else order
    factors = np.ones(len(order), dtype=np.float32) if weights is None else weights[order]
    n_groups, n_kinds = len(starts) - 1, factors.shape[1] if factors.ndim == 2 else 1
    if n_kinds > 1:
        sizes = np.diff(starts)
        # One row of the matrix for each kind, those of a group in a row.
        first = np.arange(len(order)) + np.repeat(starts[:-1] * (n_kinds - 1), sizes)
        places = first[:, None] + np.repeat(sizes, sizes)[:, None] * np.arange(n_kinds)
        spread, columns = np.empty(factors.size, dtype=np.float32), np.empty(factors.size, dtype=np.int64)
        spread[places], columns[places] = factors, order[:, None]
        factors, order, starts = spread, columns, np.append(0, np.repeat(sizes, n_kinds).cumsum())
    shape = n_groups * n_kinds, len(vectors)
    sums = np.asarray(scipy.sparse.csr_matrix((factors.ravel(), order, starts), shape=shape) @ vectors)
    return sums if weights is None or weights.ndim == 1 else sums.reshape(n_groups, n_kinds, -1)


class Groups:
    """Groups of vectors, whose order is found once for all layers.

    Args:
        groups: ``[vector]`` the group of each.
    """

    def __init__(self, groups: Integers) -> None:
        self.names, self.numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)
        self._order = np.argsort(self.numbers, kind="stable")
        self._starts, self._counts = np.append(0, counts.cumsum()), counts[:, None].astype(np.float32)

    def __len__(self) -> int:
        return len(self._counts)

    def means(self, vectors: Floats32) -> Floats32:
        """``[group, dim]`` the mean of the vectors ``[vector, dim]`` of each group."""
        return np.asarray(group_sums(vectors, self._starts, order=self._order) / self._counts)

    def centred(self, vectors: Floats32) -> Floats32:
        """Vectors ``[vector, dim]`` less the means of their groups."""
        return np.asarray(vectors - self.means(vectors)[self.numbers])

    def squared_distances(self, vectors: Floats32) -> Floats32:
        """``[vector]`` squared distances of vectors ``[vector, dim]`` from the means of their groups."""
        means, squares = self.means(vectors), np.empty(len(vectors), dtype=np.float32)
        for first in range(0, len(vectors), ROWS):
            rows = slice(first, first + ROWS)
            rest = vectors[rows] - means[self.numbers[rows]]
            squares[rows] = np.einsum("wd,wd->w", rest, rest)
        return squares
