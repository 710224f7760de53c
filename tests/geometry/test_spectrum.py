from __future__ import annotations

import numpy as np
import pytest

from bertology.errors import CorpusError, ModelError
from bertology.geometry import LayerVectors, effective_rank, iso_score, matrix_entropy, spectrum


def test_scores_of_known_spectra() -> None:
    half = [1.0] * 5 + [0.0] * 5
    assert iso_score(np.ones(10)) == pytest.approx(1)
    assert iso_score([1.0] + [0.0] * 9) == pytest.approx(0, abs=1e-12)
    assert iso_score(half) == pytest.approx(4 / 9)  # as five of ten dimensions: φ (d − 1) + 1 = 5
    assert effective_rank(half) == pytest.approx(5)
    assert matrix_entropy(half) == pytest.approx(np.log2(5))


def values_of(vectors, sentences):
    return {one.metric: one for one in spectrum(LayerVectors.of_arrays(vectors), sentences)}


def test_spectrum_is_that_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2, 600, 12)) * np.arange(1, 13) + 3
    found = values_of(vectors, np.repeat(np.arange(60), 10))
    for layer in range(2):
        spectrum_ = np.linalg.eigvalsh(np.cov(vectors[layer], rowvar=False))
        assert found["iso_score"].values[layer] == pytest.approx(iso_score(spectrum_), rel=1e-4)
        assert found["effective_rank_dimensions"].values[layer] == pytest.approx(effective_rank(spectrum_), rel=1e-4)
    unit = vectors[0] / np.linalg.norm(vectors[0], axis=1, keepdims=True)
    products = np.array([(unit[i] * unit[j]) for i in range(0, 600, 7) for j in range(600) if i != j]).mean(axis=0)
    assert found["rogue_share"].values[0] == pytest.approx(np.sort(products)[-3:].sum() / products.sum(), abs=0.02)


def test_a_rogue_dimension_is_seen() -> None:
    vectors = np.random.default_rng(1).normal(size=(1, 400, 32))
    vectors[:, :, 7] += 20
    found = values_of(vectors, np.repeat(np.arange(40), 10))
    assert found["rogue_share"].values[0] > 0.99


def test_intervals_are_those_of_other_samples() -> None:
    """The spread of leave-one-out influences is the spread over fresh samples of the same text."""
    rng = np.random.default_rng(2)
    scale, sentences = np.arange(1, 9), np.repeat(np.arange(100), 5)

    def sample():
        return rng.normal(size=(1, 500, 8)) * scale

    fresh = [values_of(sample(), sentences)["effective_rank_dimensions"].values[0] for _ in range(60)]
    errors = []
    for _ in range(20):
        one = values_of(sample(), sentences)["effective_rank_dimensions"]
        errors.append(one.over[0].std(ddof=1) / np.sqrt(one.over.shape[1]))
    assert np.mean(errors) == pytest.approx(np.std(fresh, ddof=1), rel=0.3)


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(CorpusError, match="give 20 or more"):
        values_of(np.ones((1, 30, 4)), np.repeat(np.arange(10), 3))
    with pytest.raises(ModelError, match="layer 0: all words have the same vector"):
        values_of(np.ones((1, 60, 4)), np.repeat(np.arange(30), 2))


def test_entropies_without_a_block_are_those_of_its_words() -> None:
    """To first order: what leaving a block out changes is small beside the whole."""
    rng = np.random.default_rng(3)
    vectors = (rng.normal(size=(1, 2000, 12)) * np.arange(1, 13)).astype(np.float32)
    sentences = np.repeat(np.arange(200), 10)
    one = values_of(vectors, sentences)["matrix_entropy_bits"]
    influences = (one.over[0] - one.values[0]) / 20
    blocks = sentences * 20 // 200
    covariances = [np.cov(vectors[0, blocks != block], rowvar=False) for block in range(20)]
    without = np.array([matrix_entropy(np.linalg.eigvalsh(covariance)) for covariance in covariances])
    assert influences == pytest.approx(without.mean() - without, abs=0.1 * np.std(without))
