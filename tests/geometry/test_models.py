"""Vectors of two models: the same but for a rotation, partly noise, of other widths, with a layer less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group, spearmanr

from bertology.errors import CorpusError
from bertology.geometry import (
    LayerSums,
    LayerVectors,
    anisotropy_change,
    cosine_to_reference,
    linear_cka,
    model_similarity,
    most_alike,
    mutual_neighbours,
    procrustes,
    rsa,
    rsa_spearman,
)

RNG = np.random.default_rng(8)
SENTENCES = np.repeat(np.arange(60), 5)
LAYERS = [
    RNG.normal(size=(300, 10)).astype(np.float32) * np.linspace(0.3, 2, 10, dtype=np.float32) + 0.5 for _ in "abc"
]
NARROW = [(layer[:, :6] + RNG.normal(size=(300, 6))).astype(np.float32) for layer in LAYERS]
MEASURES = ("cka", "rsa", "rsa_spearman", "procrustes", "mutual_neighbours", "rbf")
SAME = [(0, 0), (1, 1), (2, 2)]


def vectors(*layers: Any) -> LayerVectors:
    return LayerVectors.of_arrays(np.stack(layers))


def by_name(sums: Any) -> dict[tuple[str, str], LayerSums]:
    return {(one.metric, one.group): one for one in sums}


def in_other_order(layers: LayerVectors) -> LayerVectors:
    """The same vectors, stored in another order of words."""
    order = np.random.default_rng(4).permutation(len(layers))
    return LayerVectors(layers.layers, layers.words, layers.dim, layers._take, order=order)


def test_each_measure_is_that_of_its_function() -> None:
    a, b = vectors(*LAYERS), vectors(*NARROW)
    pairs = [(0, 2), (1, 1), (2, 0)]
    found = by_name(model_similarity(in_other_order(a), b, SENTENCES, layers=pairs, measures=MEASURES))
    for name, function in (("cka", linear_cka), ("rsa", rsa), ("mutual_neighbours", mutual_neighbours)):
        expected = [function(a.of(own), b.of(other)) for own, other in pairs]
        assert found[name, ""].values == pytest.approx(expected, abs=1e-5)
    distances = [1 - procrustes(a.of(own), b.of(other)) for own, other in pairs]
    assert found["procrustes_distance", ""].values == pytest.approx(distances, abs=1e-5)
    above = np.triu_indices(300, 1)
    cosines = [(u := x / np.linalg.norm(x, axis=1, keepdims=True)) @ u.T for x in (LAYERS[0], NARROW[2])]
    spearman = spearmanr(*(one[above] for one in cosines)).statistic
    assert found["rsa_spearman", ""].values[0] == pytest.approx(spearman, abs=1e-5)
    assert rsa_spearman(LAYERS[0], NARROW[2]) == pytest.approx(spearman, abs=1e-5)
    assert found["cka", "reference layer 2"].values[0] == found["cka", ""].values[0]
    assert abs(found["cka_null", ""].values).max() < 0.1 < found["procrustes_distance_null", ""].values.min()


def test_a_rotation_changes_nothing_but_single_words() -> None:
    rotation = ortho_group.rvs(10, random_state=2).astype(np.float32)
    a, b = vectors(*LAYERS), vectors(*(2 * layer @ rotation for layer in LAYERS))
    found = by_name(model_similarity(a, b, SENTENCES, layers=SAME, measures=MEASURES))
    assert {name for (name, group), one in found.items() if not group and np.allclose(one.values, 1, atol=1e-4)} == {
        *("cka", "rsa", "rsa_spearman", "mutual_neighbours", "rbf")
    }
    assert found["procrustes_distance", ""].values == pytest.approx(np.zeros(3), abs=1e-5)
    moved = by_name(cosine_to_reference(a, b, SENTENCES, layers=SAME))
    assert moved["cosine_reference", ""].values.max() < 0.9
    same = by_name(cosine_to_reference(a, a, SENTENCES, layers=SAME))
    assert same["cosine_reference", ""].values == pytest.approx(np.ones(3))
    assert not list(cosine_to_reference(a, vectors(*NARROW), SENTENCES, layers=SAME))


def test_the_layer_that_is_left_out_is_found() -> None:
    """Without its middle layer a model's last one is still most like the last of the other."""
    a = vectors(LAYERS[0], LAYERS[2])
    assert most_alike(a, vectors(*LAYERS)) == ((0, 0), (1, 2))


def test_anisotropy_is_the_mean_cosine_of_all_pairs() -> None:
    a, b = vectors(*LAYERS), vectors(*NARROW)
    found = by_name(anisotropy_change(a, b, SENTENCES, layers=SAME))

    def mean_cosine(x: Any) -> float:
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        return float((unit @ unit.T)[np.triu_indices(len(x), 1)].mean())

    change = [mean_cosine(LAYERS[place]) - mean_cosine(NARROW[place]) for place in range(3)]
    assert found["anisotropy_change", ""].values == pytest.approx(change, abs=1e-6)
    without = mean_cosine(LAYERS[1][SENTENCES != 7])
    every = found["anisotropy", ""].over[1]
    difference = (every[7] - every[8]) / 60
    expected = mean_cosine(LAYERS[1][SENTENCES != 8]) - without
    assert difference == pytest.approx(expected, abs=1e-6)


def test_other_words_cannot_be_compared() -> None:
    a = vectors(*LAYERS)
    b = vectors(*(layer[:-1] for layer in LAYERS))
    with pytest.raises(CorpusError, match="other words"):
        list(model_similarity(a, b, SENTENCES, layers=SAME))
