"""Likeness of vectors and of layers, against scikit-learn, scipy and definitions; of two models as of one."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group, spearmanr
from sklearn.cross_decomposition import CCA
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors

from bertology.activations.layers import LayerVectors
from bertology.errors import CorpusError, FitError, ModelError, NameNotFoundError
from bertology.geometry.similarity import (
    MEASURES,
    compare_layers,
    identity,
    layer_similarity,
    likeness,
    linear_cka,
    model_similarity,
)
from bertology.measures import bootstrap_ratio
from bertology.measures.sums import LayerSums

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(300, 12)) * np.linspace(0.3, 2, 12)).astype(np.float32)
Y = (X @ RNG.normal(size=(12, 8)) * 0.4 + RNG.normal(size=(300, 8))).astype(np.float32)
ROTATED = (2 * X @ ortho_group.rvs(12, random_state=3) + 1).astype(np.float32)
SENTENCES = np.repeat(np.arange(60), 5)
LAYERS = np.stack([X, ROTATED, np.pad(Y, ((0, 0), (0, 4))) + 0.1 * X])
ALL = tuple(MEASURES)
OTHERS = [RNG.normal(size=(300, 10)) * np.linspace(0.3, 2, 10) + 0.5 for _ in "abc"]


def vectors(*layers: Any) -> LayerVectors:
    return LayerVectors.of_arrays(np.stack(layers))


def by_name(sums: Any) -> dict[tuple[str, str], LayerSums]:
    return {(one.metric, one.group): one for one in sums}


def found(some: Any = LAYERS, sentences: Any = SENTENCES, layers: Any = (0, 2, 3), **settings: Any) -> Any:
    return by_name(layer_similarity(LayerVectors.of_arrays(some, layers=layers), sentences, **settings))


def hsic_of_grams(k: Any, m: Any) -> float:
    """HSIC₁ of Song et al. (2007) with Gram matrices."""
    n, ones = len(k), np.ones(len(k))
    k, m = k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
    middle = (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
    return float((np.trace(k @ m) + middle - 2 / (n - 2) * ones @ k @ m @ ones) / (n * (n - 3)))


def gaussian(x: Any) -> Any:
    median = np.median(pairwise_distances(x)[np.triu_indices(len(x), 1)])
    return rbf_kernel(x, gamma=1 / (2 * (0.8 * median) ** 2))


@pytest.mark.parametrize(("measure", "gram"), [("cka", lambda x: x @ x.T), ("rbf", gaussian)])
def test_debiased_cka_is_that_of_gram_matrices(measure: str, gram: Any) -> None:
    k, m = (gram(part.astype(np.float64)) for part in (X, Y))
    expected = hsic_of_grams(k, m) / np.sqrt(hsic_of_grams(k, k) * hsic_of_grams(m, m))
    assert likeness(X, Y, measure=measure) == pytest.approx(expected, abs=1e-4)
    assert likeness(X, RNG.normal(size=(300, 12)), measure=measure) == pytest.approx(0, abs=0.03)


def test_plain_cka_by_its_formula_and_its_bias() -> None:
    a, b = X - X.mean(axis=0), Y - Y.mean(axis=0)
    expected = np.linalg.norm(b.T @ a) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    assert linear_cka(X, Y, debiased=False) == pytest.approx(expected, rel=1e-5)
    a, b = np.random.default_rng(3).normal(size=(2, 400, 400))
    assert linear_cka(a, b) == pytest.approx(0, abs=0.02)
    assert linear_cka(a, b, debiased=False) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("measure", ["cka", "procrustes", "rbf", "svcca", "pwcca"])
def test_rotation_and_scale_change_nothing(measure: str) -> None:
    assert likeness(X, ROTATED, measure=measure) == pytest.approx(1, abs=1e-4)


def test_matching_is_the_largest_correlation() -> None:
    r = np.abs(np.corrcoef(X.T, Y.T)[:12, 12:])
    expected = (r.max(axis=1).mean() + r.max(axis=0).mean()) / 2
    assert likeness(X, Y, measure="neuron_matching") == pytest.approx(expected, abs=1e-5)
    order = np.random.default_rng(4).permutation(12)
    assert likeness(X, -2 * X[:, order] + 1, measure="neuron_matching") == pytest.approx(1)
    assert likeness(X, ROTATED, measure="neuron_matching") < 0.9


def test_canonical_correlations_are_eigenvalues_and_those_of_scikit_learn() -> None:
    a, b = (part.astype(float) - part.mean(axis=0) for part in (X, Y))
    inner = np.linalg.solve(a.T @ a, a.T @ b) @ np.linalg.solve(b.T @ b, b.T @ a)
    expected = np.sqrt(np.sort(np.linalg.eigvals(inner).real)[::-1][:8])
    assert likeness(X, Y, measure="svcca", variance=1.0) == pytest.approx(expected.mean(), abs=1e-5)
    scores = CCA(n_components=8, max_iter=5000, tol=1e-12).fit(X, Y).transform(X, Y)
    of_scores = np.mean([np.corrcoef(scores[0][:, i], scores[1][:, i])[0, 1] for i in range(8)])
    assert likeness(X, Y, measure="svcca", variance=1.0) == pytest.approx(of_scores, abs=1e-3)
    for measure, settings in (("svcca", {"variance": 1.0}), ("pwcca", {})):
        with pytest.raises(FitError, match="100 words are too few for canonical correlations of 12 dimensions: give 1"):
            likeness(X[:100], Y[:100], measure=measure, **settings)


def test_neighbours_are_those_of_scikit_learn() -> None:
    def neighbours(some: Any) -> list[set[int]]:
        near = NearestNeighbors(n_neighbors=11, metric="cosine").fit(some).kneighbors(return_distance=False)
        return [set(row[:10].tolist()) for row in near]

    shared = [len(a & b) / 10 for a, b in zip(neighbours(X), neighbours(Y), strict=True)]
    assert likeness(X, Y, measure="mutual_neighbours") == pytest.approx(np.mean(shared))


def test_rsa_is_a_correlation_of_cosines() -> None:
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (X, Y)]
    cosines = [(part @ part.T)[np.triu_indices(300, 1)] for part in unit]
    assert likeness(X, Y, measure="rsa") == pytest.approx(np.corrcoef(*cosines)[0, 1], abs=1e-5)
    assert likeness(X, Y, measure="rsa_spearman") == pytest.approx(spearmanr(*cosines).statistic, abs=1e-5)


def test_layers_are_compared_as_two_arrays_are_with_chance_beside() -> None:
    sums = found(measures=ALL)
    for name in ALL:
        expected = [likeness(LAYERS[a], LAYERS[b], measure=name) for a, b in ((0, 1), (1, 2), (0, 2))]
        assert sums[name, ""].layers == (2, 3)
        assert sums[name, ""].values == pytest.approx(expected[:2], abs=1e-4)
        assert sums[name, "layer 3"].layers == (0, 2)
        assert sums[name, "layer 3"].values == pytest.approx(expected[:0:-1], abs=1e-4)
        assert sums[f"{name}_null", ""].values[1] < sums[name, ""].values[1]
    assert sums["svcca", ""].clusters == "blocks"
    assert sums["svcca", ""].over.shape == (2, 10)
    assert abs(sums["cka_null", ""].values[0]) < 0.05
    assert abs(sums["rbf_null", ""].values[0]) < 0.05
    assert sums["svcca_null", ""].values[0] > 0.05  # never 0: there are few words for each dimension
    unit = LAYERS / np.linalg.norm(LAYERS, axis=2, keepdims=True)
    assert sums["cosine_previous", ""].values[0] == pytest.approx((unit[0] * unit[1]).sum(axis=1).mean(), abs=1e-4)
    moved = np.linalg.norm(LAYERS[1] - LAYERS[0], axis=1) / np.linalg.norm(LAYERS[0], axis=1)
    assert sums["moved_previous", ""].values[0] == pytest.approx(moved.mean(), rel=1e-4)


@pytest.mark.parametrize("measure", ["cka", "procrustes", "rsa"])
def test_influences_are_the_change_without_a_sentence(measure: str) -> None:
    whole = found(measures=(measure,))[measure, ""]
    influences = (whole.over[1] - whole.values[1]) / whole.over.shape[1]
    removed = []
    for sentence in range(60):
        kept = sentence != SENTENCES
        without = found(LAYERS[:, kept], SENTENCES[kept], measures=(measure,))[measure, ""].values[1]
        removed.append(whole.values[1] - without)
    assert removed[7] == pytest.approx(influences[7], abs=3e-3 * abs(whole.values[1]))
    assert np.corrcoef(removed, influences)[0, 1] > 0.95


def test_independent_layers_are_alike_by_nothing_but_chance() -> None:
    """The interval of debiased CKA of independent Gaussians covers 0."""
    cka = found(np.random.default_rng(5).normal(size=(2, 300, 20)), layers=(0, 1))["cka", ""]
    interval = bootstrap_ratio(cka.over, np.broadcast_to(cka.under, cka.over.shape), metric="cka", n_resamples=2000)
    assert interval.ci_low[0] < 0 < interval.ci_high[0]
    draws = [np.random.default_rng(seed).normal(size=(2, 1, 300, 12)) for seed in range(40)]
    of_models = [compare_layers(vectors(*x), vectors(*y), SENTENCES) for x, y in draws]
    assert np.mean([float(one.ci_low[0, 0]) < 0 < float(one.ci_high[0, 0]) for one in of_models]) > 0.85


@pytest.mark.parametrize("measure", ALL)
def test_two_models_are_compared_layer_by_layer(measure: str) -> None:
    a, b = vectors(X, RNG.normal(size=X.shape)), vectors(ROTATED, X + RNG.normal(size=X.shape), X)
    matrix = compare_layers(a, b, SENTENCES, measure=measure)
    assert matrix.values.shape == matrix.null.shape == (2, 3)
    assert matrix.values[0, 2] == pytest.approx(1, abs=1e-4)
    assert matrix.values[0, 1] > matrix.null[0].max() + 0.05
    assert (matrix.ci_low <= matrix.values).all()
    assert (matrix.values <= matrix.ci_high).all()
    frame = matrix.to_pandas()
    assert list(frame.columns) == ["layer_a", "layer_b", "value", "ci_low", "ci_high", "null"]
    assert frame.query("layer_a == 1 and layer_b == 2").value.item() == matrix.values[1, 2]


def test_the_matrix_is_drawn(tmp_path: Any) -> None:
    a = vectors(X, ROTATED, X + RNG.normal(size=X.shape))
    matrix = compare_layers(a, a, SENTENCES)
    np.testing.assert_allclose(np.diag(matrix.values), 1)
    np.testing.assert_allclose(matrix.values, matrix.values.T)
    assert matrix.values[0, 2] == pytest.approx(linear_cka(a.of(0), a.of(2)))
    assert matrix.plot(title="one model").save(tmp_path / "layers.svg").stat().st_size > 1000


def test_identity_is_the_nearest_type_of_layer_0() -> None:
    types = np.tile(np.arange(30), 10)
    centres = RNG.normal(size=(30, 12))
    words = centres[types] + 0.05 * RNG.normal(size=(300, 12))
    layers = np.stack([words, 3 * words + 7, centres[(types + 1) % 30], RNG.normal(size=(300, 12))])
    (shares,) = identity(LayerVectors.of_arrays(layers), types, SENTENCES)
    assert shares.values[:3] == pytest.approx([1, 1, 0])
    assert shares.values[3] < 0.1
    assert not list(identity(LayerVectors.of_arrays(layers, layers=(1, 2, 3, 4)), types, SENTENCES))


def test_what_cannot_be_compared_is_refused() -> None:
    one = vectors(X)
    for compared, error, message in (
        (partial(found, measures=("procrustus",)), NameNotFoundError, "procrustes"),
        (partial(compare_layers, one, one, SENTENCES, measure="svca"), NameNotFoundError, "svcca"),
        (partial(found, np.stack([X, X * 0 + 1, ROTATED])), ModelError, "layer 2: words do not differ"),
        (partial(found, np.stack([X, X * np.nan, X])), ModelError, "layer 2: vectors are not finite"),
        (partial(found, sentences=np.zeros(300, dtype=int)), CorpusError, "one sentence"),
        (partial(found, LAYERS[:, :60], SENTENCES[:60], measures=("svcca",)), FitError, "canonical correlations"),
        (partial(compare_layers, one, vectors(X[1:]), SENTENCES), CorpusError, "300 and 299"),
        (partial(compare_layers, one, one, np.repeat([0, 1], 150)), CorpusError, "fewer than three sentences"),
        (partial(likeness, X, Y[1:]), FitError, "300 and 299 words"),
        (partial(linear_cka, X[:3], Y[:3]), FitError, "give 4 or more"),
        (partial(likeness, X * 0, Y, measure="procrustes"), FitError, "do not vary"),
        (partial(likeness, X, X * 0, measure="rbf"), FitError, "most words have the same vector"),
    ):
        with pytest.raises(error, match=message):
            compared()
    with pytest.raises(CorpusError, match="other words"):
        list(model_similarity(one, vectors(X[1:]), SENTENCES, layers=[(0, 0)]))


def test_settings_of_a_measure() -> None:
    def of(x: np.ndarray) -> list[set[int]]:
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        return [set(np.argsort(-row)[1:4].tolist()) for row in unit @ unit.T]

    expected = np.mean([len(one & other) / 3 for one, other in zip(of(X), of(Y), strict=True)])
    assert likeness(X, Y, measure="mutual_neighbours", k=3) == pytest.approx(expected)
    assert likeness(X, Y, measure="rbf", bandwidth=0.8) == likeness(X, Y, measure="rbf")
    assert likeness(X, Y, measure="rbf", bandwidth=0.2) < likeness(X, Y, measure="rbf")
    assert likeness(X, Y, measure="svcca", variance=0.5) != likeness(X, Y, measure="svcca")
    with pytest.raises(NameNotFoundError, match="variance"):
        likeness(X, Y, measure="svcca", varience=0.5)
