from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy

from bertology.measures import center_of_gravity, differential_scores, expected_layer, kl_from_uniform


def test_center_of_gravity_by_hand() -> None:
    assert center_of_gravity([0.25, 0.25, 0.5]) == pytest.approx(1.25)
    assert center_of_gravity([0.25, 0.25, 0.5], layers=[0, 6, 12]) == pytest.approx(7.5)
    np.testing.assert_allclose(center_of_gravity(np.eye(4)), [0, 1, 2, 3])


def test_kl_from_uniform_is_scipys_in_bits() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(13), size=(5, 2))
    expected = entropy(weights, np.full(13, 1 / 13), base=2, axis=-1)
    np.testing.assert_allclose(kl_from_uniform(weights), expected)
    assert kl_from_uniform(np.full(8, 1 / 8)) == pytest.approx(0)
    assert kl_from_uniform([0, 0, 1, 0]) == pytest.approx(2)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [-0.5, 1.5], [np.nan, 1], []])
def test_what_is_no_share_is_refused(weights: list[float]) -> None:
    for measure in (center_of_gravity, kl_from_uniform):
        with pytest.raises(ValueError, match="weights of"):
            measure(weights)


def test_expected_layer_by_hand() -> None:
    scores = [0.5, 0.7, 0.8, 0.8]
    np.testing.assert_allclose(differential_scores(scores), [0.2, 0.1, 0.0])
    found = expected_layer(scores)
    assert found.value == pytest.approx((1 * 0.2 + 2 * 0.1) / 0.3)
    assert found.gain == pytest.approx(0.3)
    assert found.reason is None
    assert expected_layer(scores, layers=[0, 2, 4, 6]).value == pytest.approx((2 * 0.2 + 4 * 0.1) / 0.3)


@pytest.mark.parametrize("scores", [[0.9, 0.9, 0.9], [0.9, 0.95, 0.902], [0.9, 0.5, 0.6]])
def test_no_layer_is_expected_where_nothing_is_gained(scores: list[float]) -> None:
    found = expected_layer(scores)
    assert np.isnan(found.value)
    assert found.reason == "the mixes gain less than 0.01 over layer 0: no layer can be expected"


def test_replicates_keep_their_axis() -> None:
    random = np.random.default_rng(1)
    scores = np.array([0.5, 0.6, 0.8]) + random.normal(scale=0.005, size=(200, 3))
    scores[7] = 0.5
    found = expected_layer(scores)
    assert found.value.shape == (200,)
    assert np.isnan(found.value).sum() == 1
    assert found.reason == "1 of 200 replicates gain less than 0.01 over layer 0: no layer can be expected"
    one_by_one = [float(expected_layer(row).value) for row in scores]
    np.testing.assert_allclose(found.value, one_by_one)
    assert np.nanmean(found.value) == pytest.approx(5 / 3, abs=0.02)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="two layers or more"):
        differential_scores([0.5])
    with pytest.raises(ValueError, match="2 layer numbers for 3 scores"):
        expected_layer([0.1, 0.2, 0.3], layers=[0, 1])
    with pytest.raises(ValueError, match="least is 0"):
        expected_layer([0.1, 0.2], least=0)
