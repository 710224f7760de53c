from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.decomposition import PCA

from bertology.geometry._explained import explainable_variance, largest_eigenvalues

RNG = np.random.default_rng


@pytest.mark.parametrize("rank", [1, 3, 60])
def test_shares_are_those_of_principal_components_whatever_the_size(rank: int) -> None:
    """Groups that are decomposed whole, and those that are filled up and iterated, in order and shuffled."""
    rng, sizes = RNG(0), (2, 5, 32, 33, 40, 64, 65, 200)
    starts = np.cumsum([0, *sizes])
    vectors = (rng.normal(size=(starts[-1], rank)) @ rng.normal(size=(rank, 80)) + 3).astype(np.float32)
    expected = [
        PCA(1, svd_solver="full").fit(vectors[first:last].astype(np.float64)).explained_variance_ratio_[0]
        for first, last in itertools.pairwise(starts)
    ]
    assert explainable_variance(vectors, starts) == pytest.approx(np.array(expected), abs=1e-5)
    order = rng.permutation(len(vectors))
    assert explainable_variance(vectors[np.argsort(order)], starts, order) == pytest.approx(
        np.array(expected), abs=1e-5
    )


def test_the_largest_eigenvalue_needs_no_gap() -> None:
    """Of spectra that fall slowly, and of one with two equal largest eigenvalues."""
    rng, n = RNG(1), 200
    spectra = np.stack([1 / np.arange(1, n + 1) ** 0.3, np.linspace(1, 0, n), np.repeat([1.0, 0.1], [2, n - 2])])
    axes = np.linalg.qr(rng.normal(size=(3, n, n)))[0]
    matrices = (axes * spectra[:, None]) @ axes.transpose(0, 2, 1)
    assert largest_eigenvalues(matrices) == pytest.approx(1, abs=2e-3)
    assert largest_eigenvalues(matrices[2:]) == pytest.approx(1, abs=1e-9)


def test_vectors_that_are_the_same_are_explained_by_one() -> None:
    vectors = np.repeat(RNG(2).normal(size=(2, 16)).astype(np.float32), [40, 3], axis=0)
    assert explainable_variance(vectors, np.array([0, 40, 43])).tolist() == [1, 1]
