from __future__ import annotations

import numpy as np
import pytest
import scipy.spatial
from scipy.stats import ortho_group
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel

from bertology.errors import CorpusError, FitError, NameNotFoundError
from bertology.geometry import (
    LayerVectors,
    compare_layers,
    identity,
    layer_similarity,
    linear_cka,
    neuron_matching,
    procrustes,
    pwcca,
    rbf_cka,
    svcca,
)

RNG = np.random.default_rng(6)
X = (RNG.normal(size=(400, 12)) * np.linspace(0.3, 2, 12)).astype(np.float32)
Y = (X @ RNG.normal(size=(12, 8)) * 0.4 + RNG.normal(size=(400, 8))).astype(np.float32)
SENTENCES = np.repeat(np.arange(80), 5)
ROTATED = (2 * X @ ortho_group.rvs(12, random_state=3) + 1).astype(np.float32)
ALL = ("cka", "procrustes", "rsa", "mutual_neighbours", "svcca", "pwcca", "rbf", "neuron_matching")


def vectors(*layers: np.ndarray) -> LayerVectors:
    return LayerVectors.of_arrays(np.stack(layers))


def test_kernels_are_those_of_scikit_learn() -> None:
    def gram(x: np.ndarray) -> np.ndarray:
        median = np.median(pairwise_distances(x)[np.triu_indices(len(x), 1)])
        return np.asarray(rbf_kernel(x, gamma=1 / (2 * (0.8 * median) ** 2)))

    def hsic(k: np.ndarray, m: np.ndarray) -> float:
        n, ones = len(k), np.ones(len(k))
        k, m = k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
        middle = (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
        return float((np.trace(k @ m) + middle - 2 / (n - 2) * ones @ k @ m @ ones) / (n * (n - 3)))

    k, m = gram(X), gram(Y)
    assert rbf_cka(X, Y) == pytest.approx(hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m)), abs=1e-4)
    assert rbf_cka(X, ROTATED) == pytest.approx(1, abs=1e-4)
    assert rbf_cka(X, RNG.normal(size=(400, 12))) == pytest.approx(0, abs=0.02)
    with pytest.raises(FitError, match="most words have the same vector"):
        rbf_cka(X, X * 0)


def test_procrustes_is_that_of_scipy() -> None:
    disparity = scipy.spatial.procrustes(X[:, :8].astype(float), Y.astype(float))[2]
    assert procrustes(X[:, :8], Y) == pytest.approx(np.sqrt(1 - disparity), abs=1e-6)


def test_matching_is_the_largest_correlation() -> None:
    r = np.abs(np.corrcoef(X.T, Y.T)[:12, 12:])
    assert neuron_matching(X, Y) == pytest.approx(r.max(axis=1).mean(), abs=1e-5)


def test_canonical_correlations_are_eigenvalues() -> None:
    a, b = (part.astype(float) - part.mean(axis=0) for part in (X, Y))
    inner = np.linalg.solve(a.T @ a, a.T @ b) @ np.linalg.solve(b.T @ b, b.T @ a)
    expected = np.sqrt(np.sort(np.linalg.eigvals(inner).real)[::-1][:8])
    assert svcca(X, Y, variance=1.0) == pytest.approx(expected.mean(), abs=1e-5)
    with pytest.raises(FitError, match="100 words are too few for canonical correlations of 12 dimensions: give 120"):
        pwcca(X[:100], Y[:100])


def test_all_measures_are_in_the_statistics_of_layers_with_chance_beside() -> None:
    text = vectors(X, ROTATED, np.pad(Y, ((0, 0), (0, 4))) + 0.1 * X)
    found = {(one.metric, one.group): one for one in layer_similarity(text, SENTENCES, measures=ALL)}
    for name in ALL:
        assert found[name, ""].layers == (1, 2)
        assert found[name, "layer 0"].values[0] == found[name, ""].values[0]
        assert found[f"{name}_null", ""].values[1] < found[name, ""].values[1]
    for name in ("cka", "procrustes", "rbf", "svcca", "pwcca"):
        assert found[name, ""].values[0] == pytest.approx(1, abs=1e-3)
    one, two = text.of(1), text.of(2)
    assert found["pwcca", ""].values[1] == pytest.approx((pwcca(one, two) + pwcca(two, one)) / 2, abs=1e-5)
    both = (neuron_matching(one, two) + neuron_matching(two, one)) / 2
    assert found["neuron_matching", ""].values[1] == pytest.approx(both, abs=1e-5)
    assert found["rbf", ""].values[1] == pytest.approx(rbf_cka(one, two), abs=1e-5)
    assert found["svcca", ""].clusters == "blocks"
    assert found["svcca", ""].over.shape == (2, 10)
    assert abs(found["cka_null", ""].values[0]) < 0.05
    assert abs(found["rbf_null", ""].values[0]) < 0.05
    assert found["svcca_null", ""].values[0] > 0.05  # never 0: there are few words for each dimension


@pytest.mark.parametrize("measure", ALL)
def test_two_models_are_compared_layer_by_layer(measure: str) -> None:
    a, b = vectors(X, RNG.normal(size=X.shape).astype(np.float32)), vectors(ROTATED, X + RNG.normal(size=X.shape), X)
    found = compare_layers(a, b, SENTENCES, measure=measure)
    assert found.values.shape == found.null.shape == (2, 3)
    assert found.values[0, 2] == pytest.approx(1, abs=1e-4)
    assert found.values[0, 1] > found.null[0].max() + 0.05
    assert (found.ci_low <= found.values).all()
    assert (found.values <= found.ci_high).all()
    frame = found.to_pandas()
    assert list(frame.columns) == ["layer_a", "layer_b", "value", "ci_low", "ci_high", "null"]
    assert frame.query("layer_a == 1 and layer_b == 2").value.item() == found.values[1, 2]


def test_intervals_of_independent_layers_cover_nothing() -> None:
    draws = [np.random.default_rng(seed).normal(size=(2, 1, 400, 12)) for seed in range(40)]
    found = [compare_layers(LayerVectors.of_arrays(x), LayerVectors.of_arrays(y), SENTENCES) for x, y in draws]
    covered = [float(one.ci_low[0, 0]) < 0 < float(one.ci_high[0, 0]) for one in found]
    assert np.mean(covered) > 0.85


def test_the_matrix_is_drawn(tmp_path) -> None:
    a = vectors(X, ROTATED, X + RNG.normal(size=X.shape))
    found = compare_layers(a, a, SENTENCES)
    np.testing.assert_allclose(np.diag(found.values), 1)
    np.testing.assert_allclose(found.values, found.values.T)
    assert found.values[0, 2] == pytest.approx(linear_cka(a.of(0), a.of(2)))
    assert found.plot(title="one model").save(tmp_path / "layers.svg").stat().st_size > 1000


def test_identity_is_the_nearest_type_of_layer_0() -> None:
    types = np.tile(np.arange(40), 10)
    centres = RNG.normal(size=(40, 12))
    words = centres[types] + 0.05 * RNG.normal(size=(400, 12))
    layers = np.stack([words, 3 * words + 7, centres[(types + 1) % 40], RNG.normal(size=(400, 12))])
    (found,) = identity(LayerVectors.of_arrays(layers), types, SENTENCES)
    assert found.values[:3] == pytest.approx([1, 1, 0])
    assert found.values[3] < 0.1
    assert not list(identity(LayerVectors.of_arrays(layers, layers=(1, 2, 3, 4)), types, SENTENCES))


def test_what_cannot_be_compared_is_refused() -> None:
    a = vectors(X)
    with pytest.raises(NameNotFoundError, match="svcca"):
        compare_layers(a, a, SENTENCES, measure="svca")
    with pytest.raises(CorpusError, match="400, 399 and 400 words"):
        compare_layers(a, vectors(X[1:]), SENTENCES)
    with pytest.raises(CorpusError, match="fewer than three sentences"):
        compare_layers(a, a, np.repeat([0, 1], 200))
    with pytest.raises(FitError, match="too few for canonical correlations"):
        list(layer_similarity(vectors(X[:60], ROTATED[:60]), SENTENCES[:60], measures=("svcca",)))
