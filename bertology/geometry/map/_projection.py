"""Vectors of every layer in two dimensions, turned so that a layer lies as the one before it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from bertology.errors import ModelError
from bertology.geometry._vectors import Floats32

Floats = NDArray[np.float64]
Block = tuple[NDArray[np.int64], Floats32]
"""Numbers ``[m]`` of points and their vectors ``[layer, m, dim]``."""
MOST_TSNE = 5000
"""Points that t-SNE takes: time grows faster than their number, to half a minute a layer and more for so many."""
_PERPLEXITY = 30.0


@dataclass(frozen=True, eq=False)
class Planes:
    """Points of every layer in two dimensions."""

    places: Floats32
    """``[layer, point, 2]``, centred; the root mean square of the distances from the centre is 1 in every layer."""
    shares: Floats | None
    """``[layer]`` share of the variance that the two dimensions hold; None where these are not linear."""


def principal_planes(blocks: Callable[[], Iterable[Block]], n_points: int) -> Planes:
    """The two principal components of each layer, from covariances summed over blocks.

    Blocks are read twice, once for the covariances and once for the places, and none is kept, so that memory grows with
    two numbers a point and layer, not with the vectors. The coefficient of largest absolute value of each component is
    positive, and the plane of each layer is turned (or mirrored) onto the one before by orthogonal Procrustes, so that
    points move as little as they can from layer to layer.

    Args:
        blocks: gives the blocks of vectors, every point in exactly one of them, the same ones at each call.
        n_points: number of points.

    Raises:
        ModelError: a vector is not finite.
    """
    mean, covariance = _moments(blocks, n_points)
    directions, shares = [], []
    for of_layer in covariance:
        dim = len(of_layer)
        values, vectors = eigh(of_layer, subset_by_index=[dim - 2, dim - 1])
        first_two = vectors[:, ::-1]
        largest = np.abs(first_two).argmax(axis=0)
        directions.append(first_two * np.sign(first_two[largest, [0, 1]]))
        total = float(np.trace(of_layer))
        shares.append(float(np.clip(values, 0, None).sum()) / total if total > 0 else 1.0)
    axes = np.stack(directions)
    places = np.empty((len(axes), n_points, 2))
    for items, vectors in blocks():
        places[:, items] = (vectors - mean) @ axes
    return Planes(_aligned(places), np.array(shares))


def _moments(blocks: Callable[[], Iterable[Block]], n_points: int) -> tuple[Floats, Floats]:
    """``[layer, 1, dim]`` means and ``[layer, dim, dim]`` covariances."""
    shift: Floats32 | None = None
    sums: Floats | float = 0.0
    products: Floats | float = 0.0
    for _, vectors in blocks():
        if not np.isfinite(vectors).all():
            raise ModelError("vectors of words are not finite; give a model that computes them")
        # Products of single precision are exact enough near the mean, which the first block is.
        shift = vectors.mean(axis=1, keepdims=True) if shift is None else shift
        near = vectors - shift
        sums = sums + near.sum(axis=1, dtype=np.float64)
        products = products + np.matmul(near.swapaxes(1, 2), near).astype(np.float64)
    assert shift is not None
    off = np.asarray(sums) / n_points
    covariance = np.asarray(products) / n_points - off[:, :, None] * off[:, None, :]
    return shift + off[:, None, :], covariance


def tsne_planes(blocks: Callable[[], Iterable[Block]], n_points: int, *, seed: int = 0) -> Planes:
    """t-SNE of each layer (van der Maaten and Hinton 2008) by scikit-learn, which starts at the layer before.

    The first layer starts at its principal components, each further one at the places of the layer before it.

    Args:
        blocks: as of :func:`principal_planes`.
        n_points: number of points.
        seed: of what t-SNE draws.

    Raises:
        ModelError: a vector is not finite.
    """
    from sklearn.manifold import TSNE

    start = principal_planes(blocks, n_points).places[0]
    found: list[Floats] = []
    for layer in range(next(len(vectors) for _, vectors in blocks())):
        # One layer at a time, for all its points are in memory.
        parts = [(items, vectors[layer]) for items, vectors in blocks()]
        whole = np.empty((n_points, parts[0][1].shape[1]), dtype=np.float32)
        for items, vectors in parts:
            whole[items] = vectors
        perplexity = min(_PERPLEXITY, (n_points - 1) / 3)
        # As wide as scikit-learn's own start by principal components.
        near = (start / max(float(start[:, 0].std()), 1e-12) * 1e-4).astype(np.float32)
        tsne = TSNE(perplexity=perplexity, init=near, random_state=seed)
        places = np.asarray(tsne.fit_transform(whole), dtype=np.float64)
        found.append(places - places.mean(axis=0))
        start = found[-1].astype(np.float32)
    return Planes(_aligned(np.stack(found)), None)


def _aligned(places: Floats) -> Floats32:
    """Places ``[layer, point, 2]`` of one size, each layer turned onto the one before."""
    sizes = np.sqrt((places**2).sum(axis=2).mean(axis=1))
    places = places / np.where(sizes > 0, sizes, 1.0)[:, None, None]
    for before, now in pairwise(places):
        left, _, right = np.linalg.svd(now.T @ before)
        now[:] = now @ (left @ right)
    return np.asarray(places, dtype=np.float32)
