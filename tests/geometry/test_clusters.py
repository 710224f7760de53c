from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from bertology.geometry._clusters import k_means, silhouettes

RNG = np.random.default_rng


def test_k_means_is_that_of_scikit_learn_for_every_k_at_once() -> None:
    rng = RNG(0)
    vectors = (rng.normal(size=(600, 6)) + 3 * rng.normal(size=(5, 6))[rng.integers(0, 5, 600)]).astype(np.float32)
    first = vectors[rng.permutation(600)[:6]]
    for of_k in k_means(vectors, first):
        other = KMeans(len(of_k), init=first[: len(of_k)], n_init=1).fit(vectors)
        assert of_k == pytest.approx(other.cluster_centers_, abs=0.05)
        inertia = ((vectors[:, None] - of_k) ** 2).sum(axis=2).min(axis=1).sum()
        assert inertia == pytest.approx(other.inertia_, rel=1e-3)


def test_fewer_vectors_than_clusters_and_one_without_any() -> None:
    vectors = np.array([[0.0], [0.0], [1.0], [1.0]], dtype=np.float32)
    assert k_means(vectors, vectors[:1]) == []
    far = np.array([[0.0], [1.0], [50.0]], dtype=np.float32)
    assert k_means(vectors, far)[1].tolist() == far.tolist()


def test_silhouettes_are_those_of_scikit_learn() -> None:
    rng = RNG(1)
    vectors = rng.normal(size=(80, 5)).astype(np.float32)
    labels = [rng.integers(0, k, 80) for k in (2, 7, 40)]
    expected = [silhouette_score(vectors, one) for one in labels]
    assert silhouettes(vectors, [*labels, np.zeros(80, dtype=int)]) == pytest.approx([*expected, -1], abs=1e-5)
