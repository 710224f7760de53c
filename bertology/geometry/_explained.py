"""How much of the variance of a word's vectors a single vector explains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.geometry._sums import Floats, Integers
from bertology.geometry._vectors import Floats32

_MOST = 200
"""Vectors of a group that are looked at: products of all of them are formed."""
_STEP = 32
"""Groups larger than this are filled up with zeros to a multiple of it, and their eigenvalue is found by iteration."""
_ROWS = 2048
"""Vectors that are decomposed together."""
_ITERATIONS = 24


def explainable_variance(vectors: Floats32, starts: Integers, order: Integers | None = None) -> Floats:
    """``[group]`` the share of the variance of each group of vectors on its first principal component.

    Of a group in which all vectors are the same it is 1: a single vector explains all of it. Of groups of more than 200
    these are the first 200.

    Args:
        vectors: of all groups.
        starts: ``[group + 1]`` the boundaries of the groups, each of two vectors or more.
        order: ``[item]`` the vector at each of these places; the vectors as they stand when left out.
    """
    sizes = np.minimum(np.diff(starts), _MOST)
    shares = np.ones(len(sizes))
    for which, width in _batches(sizes):
        inside = np.arange(width) < sizes[which, None]
        rows = np.where(inside, starts[which, None] + np.arange(width), starts[which, None])
        groups = vectors[rows if order is None else order[rows]]  # [group, vector, dim]
        scale = (groups[:, 0].astype(np.float64) ** 2).sum(axis=1)
        groups[~inside] = 0
        groups -= groups.sum(axis=1, keepdims=True) / sizes[which, None, None].astype(np.float32)
        groups[~inside] = 0
        turned = groups.transpose(0, 2, 1)
        products = groups @ turned if width <= groups.shape[2] else turned @ groups
        total = products.trace(axis1=1, axis2=2, dtype=np.float64)
        varies = total > 1e-12 * scale * sizes[which]
        shares[which[varies]] = largest_eigenvalues(products[varies]) / total[varies]
    return shares


def _batches(sizes: Integers) -> Iterator[tuple[Integers, int]]:
    """Groups that are decomposed together, and how many vectors each of them is filled up to."""
    widths = np.where(sizes <= _STEP, sizes, -(-sizes // _STEP) * _STEP)
    for width in np.unique(widths).tolist():
        which = np.flatnonzero(widths == width)
        n_parts = -(-len(which) * width // _ROWS)
        yield from ((part, width) for part in np.array_split(which, n_parts))


def largest_eigenvalues(matrices: NDArray[np.floating[Any]]) -> Floats:
    """``[matrix]`` the largest eigenvalue of symmetric positive matrices ``[matrix, n, n]`` that are not zero.

    Of those larger than 32 by the method of Lanczos with 24 steps: its error is far below what single precision leaves,
    where all other eigenvalues take a fifth of the time.
    """
    n_matrices, n, _ = matrices.shape
    if n <= _STEP or not n_matrices:
        return np.asarray(np.linalg.eigvalsh(matrices.astype(np.float64))[:, -1]) if n_matrices else np.empty(0)
    bases = np.zeros((n_matrices, _ITERATIONS, n), dtype=matrices.dtype)
    reduced = np.zeros((n_matrices, _ITERATIONS, _ITERATIONS))
    # The column of the vector of the largest length is not orthogonal to the component sought but by accident.
    longest = matrices.diagonal(axis1=1, axis2=2).argmax(axis=1)
    following = matrices[np.arange(n_matrices), longest]
    least = 16 * np.finfo(matrices.dtype).eps * matrices.trace(axis1=1, axis2=2)
    for step in range(_ITERATIONS):
        length = np.linalg.norm(following, axis=1)
        # Where nothing but rounding is left to follow, the rest of the matrix stays zero.
        length = np.where(length > least, length, 0)
        if step:
            reduced[:, step, step - 1] = reduced[:, step - 1, step] = length
        current = np.divide(following, length[:, None], out=np.zeros_like(following), where=length[:, None] > 0)
        bases[:, step] = current
        following = (matrices @ current[:, :, None])[:, :, 0]
        reduced[:, step, step] = np.einsum("mn,mn->m", current, following)
        known = bases[:, : step + 1]
        for _ in range(2):  # once would leave what rounding brings back
            following = following - (known.transpose(0, 2, 1) @ (known @ following[:, :, None]))[:, :, 0]
    return np.asarray(np.linalg.eigvalsh(reduced)[:, -1])
