"""Ridge regression of numbers against scikit-learn's, and what it finds where there is nothing to find."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bertology.errors import FitError
from bertology.readouts import ArrayFeatures
from bertology.readouts.linear import NumberTargets, RidgeRegression

Array = NDArray[np.float32]


def vectors(n: int, *, seed: int, dim: int = 12) -> Array:
    """``[2, n, dim]`` features far from zero, of very different spread, one constant, the second layer noise."""
    rng = np.random.default_rng(seed)
    features = 5 + rng.normal(size=(2, n, dim)) * np.geomspace(1e-2, 10, dim)
    features[:, :, 3] = 2.5
    return features.astype(np.float32)


def numbers(features: Array, *, seed: int, noise: float = 0.5) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    slopes = np.linspace(-1, 1, features.shape[2]) / np.geomspace(1e-2, 10, features.shape[2])
    return np.asarray(100 + features[0] @ slopes + noise * rng.normal(size=features.shape[1]))


TRAIN, DEV, TEST = (vectors(n, seed=n) for n in (500, 200, 300))
Y_TRAIN, Y_DEV, Y_TEST = (numbers(part, seed=9 + place) for place, part in enumerate((TRAIN, DEV, TEST)))


def fit(readout: RidgeRegression, targets: NumberTargets, dev_values: NDArray[np.float64]):  # type: ignore[no-untyped-def]
    return readout.fit(ArrayFeatures(TRAIN), targets, dev=ArrayFeatures(DEV), dev_values=dev_values, device="cpu")


@pytest.mark.parametrize("strength", [1.0, 0.01, 1e-4])
@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_are_those_of_scikit_learn(strength: float, weighted: bool) -> None:
    weights = np.random.default_rng(3).integers(0, 3, size=500).astype(np.float64) if weighted else np.ones(500)
    fitted = fit(RidgeRegression((strength,)), NumberTargets(Y_TRAIN[None], weights[None]), Y_DEV[None])
    predicted = fitted.predict(ArrayFeatures(TEST))
    for layer in range(2):
        peer = make_pipeline(StandardScaler(), Ridge(alpha=strength * weights.sum()))
        rows = np.repeat(np.arange(500), weights.astype(int))
        peer.fit(TRAIN[layer, rows].astype(np.float64), Y_TRAIN[rows])
        np.testing.assert_allclose(
            predicted[0, layer], peer.predict(TEST[layer].astype(np.float64)), rtol=1e-5, atol=1e-4
        )


def test_the_strength_is_chosen_on_dev_and_shared_with_the_control() -> None:
    rng = np.random.default_rng(5)
    shuffled = [rng.permutation(values) for values in (Y_TRAIN, Y_DEV)]
    targets = NumberTargets(np.stack([Y_TRAIN, shuffled[0]]), strength_sources=(0, 0))
    fitted = fit(RidgeRegression(), targets, np.stack([Y_DEV, shuffled[1]]))
    assert (fitted.chosen == fitted.dev_r2[0].argmax(axis=1)).all()
    predicted = fitted.predict(ArrayFeatures(TEST))
    # What is there is found, what is not is not: noise in the second layer, shuffled numbers in both.
    assert r2_score(Y_TEST, predicted[0, 0]) > 0.9
    assert abs(r2_score(Y_TEST, predicted[0, 1])) < 0.1
    assert r2_score(rng.permutation(Y_TEST), predicted[1, 0]) < 0.1


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(FitError, match="not finite"):
        NumberTargets(np.array([[1.0, np.nan]]))
    damaged = TRAIN.copy()
    damaged[1, 7, 2] = np.inf
    with pytest.raises(FitError, match="layer 1 has vectors that are not finite"):
        RidgeRegression().fit(
            ArrayFeatures(damaged),
            NumberTargets(Y_TRAIN[None]),
            dev=ArrayFeatures(DEV),
            dev_values=Y_DEV[None],
            device="cpu",
        )
