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
        return np.asarray(self.vectors.mean(axis=0, dtype=np.float64), dtype=np.float32)

    def centred(self, places: Integers) -> Floats32:
        """``[item, dim]`` vectors of some words less the mean of all; kept for the next that wants the same words."""
        if self._chosen is None or self._chosen[0] is not places:
            chosen = self.vectors[places]
            chosen -= self.mean
            self._chosen = places, chosen
        return self._chosen[1]

    @cached_property
    def products(self) -> Floats32:
        """``[block, dim, dim]`` sums over each block of the products of dimensions, all less the mean."""
        dim = self.vectors.shape[1]
        products = np.zeros((len(self.bounds) - 1, dim, dim), dtype=np.float32)
        for block, (start, end) in enumerate(itertools.pairwise(self.bounds)):
            for first in range(start, end, ROWS):
                centred = self.vectors[first : min(end, first + ROWS)] - self.mean
                products[block] += centred.T @ centred
        return products

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
    """``[group, dim]`` sums of the vectors ``[vector, dim]`` of each group.

    Args:
        vectors: of all groups.
        starts: ``[group + 1]`` where each group begins, and where the last one ends.
        order: ``[item]`` the vector at each of these places; the vectors as they stand when left out.
        weights: ``[vector]``
    """
    from scipy.sparse import csr_matrix

    order = np.arange(starts[-1]) if order is None else order
    factors = np.ones(len(order), dtype=np.float32) if weights is None else weights[order]
    return np.asarray(csr_matrix((factors, order, starts), shape=(len(starts) - 1, len(vectors))) @ vectors)


def group_means(vectors: Floats32, groups: Integers) -> tuple[Floats32, Integers]:
    """``[group, dim]`` the mean vector of each group, and ``[vector]`` the groups numbered from 0."""
    _, numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(numbers, kind="stable")
    sums = group_sums(vectors, np.append(0, counts.cumsum()), order=order)
    return np.asarray(sums / counts[:, None].astype(np.float32)), numbers


def squared_distances(vectors: Floats32, means: Floats32, groups: Integers) -> Floats32:
    """``[vector]`` squared distances of vectors ``[vector, dim]`` from the means ``[group, dim]`` of their groups."""
    squares = np.empty(len(vectors), dtype=np.float32)
    for first in range(0, len(vectors), ROWS):
        rows = slice(first, first + ROWS)
        rest = vectors[rows] - means[groups[rows]]
        squares[rows] = np.einsum("wd,wd->w", rest, rest)
    return squares
