"""The clusters that the vectors of a layer fall into, by k-means for all numbers of clusters at once."""

from __future__ import annotations

import itertools

import numpy as np

from bertology.geometry._layers import ROWS, OneLayer
from bertology.geometry._sums import Integers
from bertology.geometry._vectors import Floats32

_MOST_CLUSTERS = 15
_CLUSTERED, _SILHOUETTE_WORDS = 2000, 1000
"""Words that are clustered, and those of them that silhouettes compare."""
_DIMENSIONS = 32
"""Principal components on which they are clustered: clusters far apart differ in large ones."""
_LEAST_SILHOUETTE = 0.1
"""Below it vectors are one cluster."""
_ITERATIONS, _TOLERANCE = 100, 1e-4
"""At most; and what share of the variance of a dimension centres may still move by, as in scikit-learn."""


def cluster_means(layer: OneLayer, *, seed: int = 0) -> tuple[Floats32, Integers]:
    """The means of the clusters of a layer's vectors, less the mean of all, and the cluster of each word.

    Clusters are those of k-means on the 32 largest principal components of 2,000 words at random, k from 2 to 15 by the
    largest silhouette of 1,000 of them in all dimensions; where none reaches 0.1 all vectors are one cluster.

    Returns:
        ``[cluster, dim]`` and ``[word]``.
    """
    rng = np.random.default_rng(seed)
    vectors = layer.vectors
    some: Floats32 = vectors[rng.permutation(len(vectors))[:_CLUSTERED]] - layer.mean
    directions = layer.top_directions(_DIMENSIONS)
    reduced: Floats32 = np.asarray(some @ directions.T)
    compared = some[:_SILHOUETTE_WORDS]
    best, centres = _LEAST_SILHOUETTE, reduced[:0]
    found = k_means(reduced, _first_centres(reduced, _MOST_CLUSTERS, rng))
    nearest = [_nearest(reduced[: len(compared)], of_k) for of_k in found]
    for of_k, silhouette in zip(found, silhouettes(compared, nearest), strict=True):
        if silhouette > best:
            best, centres = silhouette, of_k
    labels = np.zeros(len(vectors), dtype=np.int64)
    if not len(centres):
        return np.zeros((1, vectors.shape[1]), dtype=np.float32), labels
    sums, of_mean = np.zeros((len(centres), vectors.shape[1])), layer.mean @ directions.T
    for first in range(0, len(vectors), ROWS):
        part = vectors[first : first + ROWS]
        labels[first : first + ROWS] = found_here = _nearest(np.asarray(part @ directions.T - of_mean), centres)
        is_in = np.asarray(found_here == np.arange(len(centres))[:, None], dtype=np.float32)
        sums += is_in @ part
    counts = np.bincount(labels, minlength=len(centres))[:, None]
    means = np.where(counts > 0, sums / np.maximum(counts, 1) - layer.mean, 0)
    return means.astype(np.float32), labels


def _first_centres(vectors: Floats32, most: int, rng: np.random.Generator) -> Floats32:
    """``[centre, dim]`` by greedy k-means++ (Arthur & Vassilvitskii 2007), as many as differ.

    The first k of them are the first centres of k clusters.
    """
    chosen = [int(rng.integers(len(vectors)))]
    squares = ((vectors - vectors[chosen[0]]) ** 2).sum(axis=1)
    n_trials = 2 + int(np.log(most))
    while len(chosen) < most and squares.sum() > 0:
        picked = np.searchsorted(
            np.cumsum(squares, dtype=np.float64), rng.random(n_trials) * squares.sum(dtype=np.float64)
        )
        picked = np.minimum(picked, len(vectors) - 1)
        after = np.minimum(squares, _squares(vectors, vectors[picked]))
        best = int(after.sum(axis=1, dtype=np.float64).argmin())
        chosen.append(int(picked[best]))
        squares = after[best]
        squares[chosen] = 0
    return vectors[chosen]


def k_means(vectors: Floats32, first: Floats32) -> list[Floats32]:
    """Lloyd's algorithm for 2, 3, … clusters side by side.

    Args:
        vectors: ``[vector, dim]``
        first: ``[centre, dim]`` of which the first k are the first centres of k clusters.

    Returns:
        For each k from 2 to the number of first centres, ``[k, dim]`` centres; one without vectors stays where it was.
    """
    sizes = range(2, len(first) + 1)
    bounds = np.cumsum([0, *sizes])
    centres = np.concatenate([first[:k] for k in sizes]) if len(first) > 1 else first[:0]
    tolerance = _TOLERANCE * float(vectors.var(axis=0).mean())
    is_moving = np.ones(len(sizes), dtype=bool)
    for _ in range(_ITERATIONS):
        moving = np.flatnonzero(is_moving)
        if not len(moving):
            break
        columns = np.concatenate([np.arange(bounds[k], bounds[k + 1]) for k in moving])
        starts = np.cumsum([0, *(sizes[k] for k in moving)])
        squares = _squares(vectors, centres[columns])  # [centre, vector]
        least = np.minimum.reduceat(squares, starts[:-1], axis=0)
        is_in = (squares == np.repeat(least, np.diff(starts), axis=0)).astype(np.float32)
        counts = is_in.sum(axis=1)[:, None]
        means = np.where(counts > 0, (is_in @ vectors) / np.maximum(counts, 1), centres[columns])
        shifts = np.add.reduceat(((means - centres[columns]) ** 2).sum(axis=1), starts[:-1])
        centres[columns] = means
        is_moving[moving] = shifts > tolerance
    return [centres[start:end] for start, end in itertools.pairwise(bounds)]


def silhouettes(vectors: Floats32, clusterings: list[Integers]) -> list[float]:
    """The mean silhouette of each clustering of the vectors ``[vector, dim]`` (Rousseeuw 1987); −1 of a single cluster.

    A vector that is a cluster by itself has the silhouette 0.
    """
    norms = np.einsum("wd,wd->w", vectors, vectors)
    distances = np.sqrt(np.maximum(norms[:, None] + norms - 2 * (vectors @ vectors.T), 0))
    np.fill_diagonal(distances, 0)
    found = []
    for labels in clusterings:
        kinds, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if not 1 < len(kinds) < len(labels):
            found.append(-1.0)
            continue
        sums = np.asarray(distances @ np.eye(len(kinds), dtype=np.float32)[numbers], dtype=np.float64)
        own = (np.arange(len(labels)), numbers)
        inside = sums[own] / np.maximum(counts[numbers] - 1, 1)
        outside = sums / counts
        outside[own] = np.inf
        nearest = outside.min(axis=1)
        scores = (nearest - inside) / np.maximum(np.maximum(nearest, inside), np.finfo(np.float64).tiny)
        found.append(float(np.where(counts[numbers] > 1, scores, 0).mean()))
    return found


def _squares(vectors: Floats32, centres: Floats32) -> Floats32:
    """``[centre, vector]`` squared distances."""
    norms = np.einsum("vd,vd->v", vectors, vectors)
    own = np.einsum("cd,cd->c", centres, centres)
    return np.asarray(np.maximum(norms - 2 * (centres @ vectors.T) + own[:, None], 0))


def _nearest(vectors: Floats32, centres: Floats32) -> Integers:
    """``[vector]`` the number of the nearest centre."""
    return np.asarray(_squares(vectors, centres).argmin(axis=0))
