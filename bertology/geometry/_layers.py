"""Several statistics of a layer in one reading of its vectors; what they share is computed once."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from bertology.errors import ModelError
from bertology.geometry._sums import Floats, Integers, LayerSums
from bertology.geometry._vectors import Floats32, LayerVectors

ROWS = 2048
"""Vectors that are taken at a time, so that what is made of them stays in the processor's cache."""


class OneLayer:
    """The vectors of one layer.

    Args:
        number: of the layer.
        vectors: ``[word, dim]``.
        bounds: ``[block + 1]`` the first word of each block that products are summed over, and the number of words.
    """

    def __init__(self, number: int, vectors: Floats32, bounds: Integers | None = None) -> None:
        self.number, self.vectors = number, vectors
        self.bounds = np.array([0, len(vectors)]) if bounds is None else bounds
        self._chosen: tuple[Integers, Floats32] | None = None

    @cached_property
    def lengths(self) -> Floats32:
        """``[word]`` Euclidean lengths.

        Raises:
            ModelError: a vector is zero.
        """
        lengths = np.sqrt(np.einsum("wd,wd->w", self.vectors, self.vectors))
        if not (lengths > 0).all():
            n_zero = int((lengths == 0).sum())
            raise ModelError(f"layer {self.number}: vectors of {n_zero} words are zero: they have no direction")
        return np.asarray(lengths)

    @cached_property
    def mean(self) -> Floats32:
        """``[dim]`` of all words."""
        total = np.zeros(self.vectors.shape[1])
        for first in range(0, len(self.vectors), ROWS):
            part = self.vectors[first : first + ROWS]
            total += np.ones(len(part), dtype=np.float32) @ part
        return np.asarray(total / len(self.vectors), dtype=np.float32)

    def centred(self, places: Integers) -> Floats32:
        """``[item, dim]`` vectors of some words less the mean of all; kept for the next that wants the same words."""
        if self._chosen is None or self._chosen[0] is not places:
            chosen = self.vectors[places]
            chosen -= self.mean
            self._chosen = places, chosen
        return self._chosen[1]

    @property
    def products(self) -> Floats32:
        """``[block, dim, dim]`` sums over each block of the products of dimensions, all less the mean."""
        return self._of_blocks[0]

    @property
    def block_sums(self) -> Floats:
        """``[block, dim]`` sums over each block of the vectors less the mean."""
        return self._of_blocks[1]

    @cached_property
    def _of_blocks(self) -> tuple[Floats32, Floats]:
        dim, n_blocks = self.vectors.shape[1], len(self.bounds) - 1
        products, sums = np.zeros((n_blocks, dim, dim), dtype=np.float32), np.zeros((n_blocks, dim))
        for block, (start, end) in enumerate(itertools.pairwise(self.bounds)):
            for first in range(start, end, ROWS):
                centred = self.vectors[first : min(end, first + ROWS)] - self.mean
                products[block] += centred.T @ centred
                sums[block] += np.ones(len(centred), dtype=np.float32) @ centred
        return products, sums

    @cached_property
    def principal(self) -> tuple[Floats, Floats]:
        """``[dim]`` sums of squares on principal components, the largest first, and ``[dim, dim]`` the components."""
        squares, directions = np.linalg.eigh(self.products.sum(axis=0, dtype=np.float64))
        return squares[::-1], np.ascontiguousarray(directions.T[::-1])

    def top_directions(self, n: int) -> Floats32:
        """``[n, dim]`` the principal components of largest variance."""
        return self.principal[1][:n].astype(np.float32)


class LayerStatistic(ABC):
    """What is computed of each layer by itself."""

    @abstractmethod
    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """By name, of one layer."""

    @abstractmethod
    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """Of all layers; values have the layers as their first axis."""


def read_layers(
    vectors: LayerVectors, statistics: Sequence[LayerStatistic], bounds: Integers | None = None
) -> Iterator[LayerSums]:
    """Statistics of all layers, each of which is read once; of ``bounds`` see :class:`OneLayer`."""

    def of_layer(number: int, array: Floats32) -> list[dict[str, Floats]]:
        layer = OneLayer(number, array, bounds)
        return [statistic.of_layer(layer) for statistic in statistics]

    by_layer = vectors.each(of_layer)
    for statistic, of_layers in zip(statistics, zip(*by_layer, strict=True), strict=True):
        yield from statistic.sums(
            vectors.layers, {name: np.stack([one[name] for one in of_layers]) for name in of_layers[0]}
        )


def group_sums(
    vectors: Floats32, starts: Integers, *, order: Integers | None = None, weights: Floats32 | None = None
) -> Floats32:
    """``[group, dim]`` sums of the vectors ``[vector, dim]`` of each group, or ``[group, kind, dim]``.

    Args:
        vectors: of all groups.
        starts: ``[group + 1]`` where each group begins, and where the last one ends.
        order: ``[item]`` the vector at each of these places; the vectors as they stand when left out.
        weights: ``[vector]``, or ``[vector, kind]`` for several sums of each group, which are formed together while
            its vectors are in the processor's cache.
    """
    from scipy.sparse import csr_matrix

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
    sums = np.asarray(csr_matrix((factors.ravel(), order, starts), shape=(n_groups * n_kinds, len(vectors))) @ vectors)
    return sums if weights is None or weights.ndim == 1 else sums.reshape(n_groups, n_kinds, -1)


class Groups:
    """Groups of vectors, whose order is found once for all layers.

    Args:
        groups: ``[vector]`` the group of each.
    """

    def __init__(self, groups: Integers) -> None:
        _, self._numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)
        self._order = np.argsort(self._numbers, kind="stable")
        self._starts, self._counts = np.append(0, counts.cumsum()), counts[:, None].astype(np.float32)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self._counts)

    def squared_distances(self, vectors: Floats32) -> Floats32:
        """``[vector]`` squared distances of vectors ``[vector, dim]`` from the means of their groups."""
        means = group_sums(vectors, self._starts, order=self._order) / self._counts
        squares = np.empty(len(vectors), dtype=np.float32)
        for first in range(0, len(vectors), ROWS):
            rows = slice(first, first + ROWS)
            rest = vectors[rows] - means[self._numbers[rows]]
            squares[rows] = np.einsum("wd,wd->w", rest, rest)
        return squares
