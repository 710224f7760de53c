from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.stats import ortho_group
from sklearn.cross_decomposition import CCA
from sklearn.neighbors import NearestNeighbors

from bertology.errors import CorpusError, FitError, ModelError, NameNotFoundError
from bertology.geometry import (
    LayerVectors,
    layer_similarity,
    linear_cka,
    mutual_neighbours,
    neuron_matching,
    procrustes,
    pwcca,
    rsa,
    svcca,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 20)) * np.linspace(0.2, 2, 20)
Y = X @ RNG.normal(size=(20, 15)) * 0.3 + RNG.normal(size=(300, 15))
ROTATED = 3 * X @ ortho_group.rvs(20, random_state=1) + 5


def hsic_of_grams(x, y):
    """HSIC₁ of Song et al. (2007) with Gram matrices."""
    n = len(x)
    k, m = x @ x.T, y @ y.T
    np.fill_diagonal(k, 0)
    np.fill_diagonal(m, 0)
    ones = np.ones(n)
    return (
        np.trace(k @ m)
        + (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
        - 2 / (n - 2) * ones @ k @ m @ ones
    ) / (n * (n - 3))


def test_debiased_cka_is_that_of_gram_matrices() -> None:
    expected = hsic_of_grams(X, Y) / np.sqrt(hsic_of_grams(X, X) * hsic_of_grams(Y, Y))
    assert linear_cka(X, Y) == pytest.approx(expected, abs=1e-10)


def test_plain_cka_by_its_formula() -> None:
    a, b = X - X.mean(axis=0), Y - Y.mean(axis=0)
    expected = np.linalg.norm(b.T @ a) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    assert linear_cka(X, Y, debiased=False) == pytest.approx(expected)


def test_independent_vectors_are_not_alike_without_bias() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 400, 400))
    assert linear_cka(a, b) == pytest.approx(0, abs=0.02)
    assert linear_cka(a, b, debiased=False) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("measure", [linear_cka, procrustes])
def test_rotation_and_scale_change_nothing(measure) -> None:
    assert measure(X, ROTATED) == pytest.approx(1, abs=1e-9)


def test_procrustes_is_what_the_best_rotation_leaves() -> None:
    a, b = (part - part.mean(axis=0) for part in (X[:, :15], Y))
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    rotation, _ = orthogonal_procrustes(a, b)
    distance = np.linalg.norm(a @ rotation - b) ** 2
    assert procrustes(X[:, :15], Y) == pytest.approx(1 - distance / 2)


def test_canonical_correlations_are_those_of_scikit_learn() -> None:
    from_cca = CCA(n_components=15, max_iter=5000, tol=1e-12).fit(X, Y)
    scores = from_cca.transform(X, Y)
    expected = np.mean([np.corrcoef(scores[0][:, i], scores[1][:, i])[0, 1] for i in range(15)])
    assert svcca(X, Y, variance=1.0) == pytest.approx(expected, abs=1e-3)
    assert pwcca(X, X @ RNG.normal(size=(20, 20))) == pytest.approx(1)
    with pytest.raises(FitError, match="give 200 words or more"):
        svcca(X[:150], Y[:150], variance=1.0)


def test_neighbours_are_those_of_scikit_learn() -> None:
    def neighbours(vectors):
        found = NearestNeighbors(n_neighbors=6, metric="cosine").fit(vectors).kneighbors(return_distance=False)[:, :5]
        return [set(row) for row in found]

    shared = [len(a & b) / 5 for a, b in zip(neighbours(X), neighbours(Y), strict=True)]
    assert mutual_neighbours(X, Y, k=5) == pytest.approx(np.mean(shared))


def test_dimensions_that_only_change_places_match() -> None:
    order = np.random.default_rng(4).permutation(20)
    assert neuron_matching(X, -2 * X[:, order] + 1) == pytest.approx(1)
    assert neuron_matching(X, ROTATED) < 0.9


def test_rsa_is_a_correlation_of_cosines() -> None:
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (X, Y)]
    above = np.triu_indices(300, 1)
    expected = np.corrcoef(*((part @ part.T)[above] for part in unit))[0, 1]
    assert rsa(X, Y) == pytest.approx(expected)


SENTENCES = np.repeat(np.arange(60), 5)
LAYERS = np.stack([X, ROTATED, X @ RNG.normal(size=(20, 20)) + RNG.normal(size=(300, 20))]).astype(np.float32)


def found(vectors=LAYERS, sentences=SENTENCES, layers=(0, 2, 3), **settings):
    sums = layer_similarity(LayerVectors.of_arrays(vectors, layers=layers), sentences, **settings)
    return {(one.metric, one.group): one for one in sums}


def test_all_pairs_are_what_two_arrays_give() -> None:
    functions = {"cka": linear_cka, "procrustes": procrustes, "rsa": rsa, "mutual_neighbours": mutual_neighbours}
    sums = found(measures=tuple(functions))
    for name, function in functions.items():
        assert sums[name, ""].layers == (2, 3)
        assert sums[name, ""].values[1] == pytest.approx(function(LAYERS[1], LAYERS[2]), abs=1e-4)
        assert sums[name, "layer 3"].layers == (0, 2)
        assert sums[name, "layer 3"].values[0] == pytest.approx(function(LAYERS[0], LAYERS[2]), abs=1e-4)
    unit = LAYERS / np.linalg.norm(LAYERS, axis=2, keepdims=True)
    assert sums["cosine_previous", ""].values[0] == pytest.approx((unit[0] * unit[1]).sum(axis=1).mean(), abs=1e-4)
    moved = np.linalg.norm(LAYERS[1] - LAYERS[0], axis=1) / np.linalg.norm(LAYERS[0], axis=1)
    assert sums["moved_previous", ""].values[0] == pytest.approx(moved.mean(), rel=1e-4)


@pytest.mark.parametrize("measure", ["cka", "procrustes", "rsa"])
def test_influences_are_the_change_without_a_sentence(measure: str) -> None:
    whole = found(measures=(measure,))[measure, ""]
    influences = (whole.over[1] - whole.values[1]) / whole.over.shape[1]
    for sentence in (0, 7, 31):
        kept = sentence != SENTENCES
        without = found(LAYERS[:, kept], SENTENCES[kept], measures=(measure,))[measure, ""].values[1]
        assert whole.values[1] - without == pytest.approx(influences[sentence], abs=3e-3 * abs(whole.values[1]))
    removed = [
        whole.values[1]
        - found(LAYERS[:, s != SENTENCES], SENTENCES[s != SENTENCES], measures=(measure,))[measure, ""].values[1]
        for s in range(60)
    ]
    assert np.corrcoef(removed, influences)[0, 1] > 0.95


def test_independent_layers_are_alike_by_nothing_but_chance() -> None:
    """The interval of debiased CKA of independent Gaussians covers 0."""
    from bertology.measures import bootstrap_ratio

    vectors = np.random.default_rng(5).normal(size=(2, 300, 20))
    cka = found(vectors, layers=(0, 1))["cka", ""]
    interval = bootstrap_ratio(cka.over, np.broadcast_to(cka.under, cka.over.shape), metric="cka", n_resamples=2000)
    assert interval.ci_low[0] < 0 < interval.ci_high[0]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(NameNotFoundError, match="procrustes"):
        found(measures=("procrustus",))
    with pytest.raises(ModelError, match="layer 2: words do not differ"):
        found(np.stack([X, X * 0 + 1, Y @ np.ones((15, 20))]))
    with pytest.raises(ModelError, match="layer 2: vectors are not finite"):
        found(np.stack([X, X * np.nan, X]))
    with pytest.raises(CorpusError, match="one sentence"):
        found(sentences=np.zeros(300, dtype=int))
    with pytest.raises(FitError, match="300 and 299 words"):
        linear_cka(X, Y[1:])
    with pytest.raises(FitError, match="give 4 or more"):
        linear_cka(X[:3], Y[:3])
    with pytest.raises(FitError, match="do not vary"):
        procrustes(X * 0, Y)
