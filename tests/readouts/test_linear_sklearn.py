"""``linear`` is scikit-learn's ``LogisticRegression`` on standardised features, at every strength."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bertology.readouts import ArrayFeatures, FittedAffine, LinearReadout, Targets, _linear
from tests.readouts.conftest import Floats, Labels, Split, World, standardised


def ours(train: Split, dev: Split, strength: float, weights: Floats | None = None, **settings: Any) -> FittedAffine:
    readout = LinearReadout(strengths=(strength,), **settings)
    targets = Targets(train.labels, train.n_classes, weights)
    return readout.fit(train.source, targets, dev=dev.source, dev_targets=dev.targets)


def theirs(vectors: Floats, labels: Labels, strength: float, weights: Floats | None = None) -> LogisticRegression:
    features = standardised(vectors, vectors, weights)
    return LogisticRegression(C=strength, tol=1e-9, max_iter=5000).fit(features, labels, sample_weight=weights)


@pytest.mark.parametrize("strength", [1e-3, 0.03, 1.0])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_coefficients(strength: float, n_classes: int) -> None:
    world = World(n_classes=n_classes, seed=n_classes)
    train, dev = world.split(700, 1), world.split(100, 2)
    fitted = ours(train, dev, strength, tolerance=1e-6)
    assert fitted.report.all_converged
    for problem, layer in np.ndindex(2, 3):
        peer = theirs(train.vectors[layer], train.labels[problem], strength)
        std = train.vectors[layer].astype(np.float64).std(0)
        coefficients = fitted.model.coefficients[problem, layer, 0].double().numpy() * std
        if n_classes == 2:  # scikit-learn keeps the difference of the two
            coefficients = coefficients[1:] - coefficients[:1]
        np.testing.assert_allclose(coefficients, peer.coef_, atol=2e-3)


def test_weights() -> None:
    world = World(seed=7, n_problems=1)
    train, dev, test = (world.split(n, number) for number, n in enumerate((700, 100, 300)))
    weights = np.random.default_rng(0).integers(0, 4, size=(1, 700)).astype(np.float32)
    found = ours(train, dev, 0.1, weights, tolerance=1e-6).predict(test.source)
    for layer in range(3):
        peer = theirs(train.vectors[layer], train.labels[0], 0.1, weights[0])
        features = standardised(test.vectors[layer], train.vectors[layer], weights[0])
        np.testing.assert_allclose(found.log_prob[0, layer], peer.predict_log_proba(features).max(1), atol=2e-3)


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 1.0])
def test_accuracy_at_default_settings_within_three_tenths_of_a_point(
    strength: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_linear, "_SAMPLE_ITEMS", 1000)
    world = World(seed=1, n_layers=4, dim=40, n_classes=9, n_problems=1)
    train, dev, test = (world.split(n, number) for number, n in enumerate((4000, 500, 10000)))
    fitted = ours(train, dev, strength)
    assert fitted.report.all_converged
    accuracy = (fitted.predict(test.source).labels[0] == test.labels[0]).mean(1)
    for layer in range(4):
        peer = theirs(train.vectors[layer], train.labels[0], strength)
        score = peer.score(standardised(test.vectors[layer], train.vectors[layer]), test.labels[0])
        assert abs(accuracy[layer] - score) <= 0.003


def test_one_strength_beside_others_is_that_strength_alone() -> None:
    world = World(seed=2, n_problems=1)
    train, dev, test = (world.split(n, number) for number, n in enumerate((500, 200, 300)))
    path = LinearReadout(strengths=(1e-3, 1e-2, 1e-1), tolerance=1e-6).fit(
        ArrayFeatures(train.vectors), train.targets, dev=dev.source, dev_targets=dev.targets
    )
    for layer in range(3):
        alone = ours(train.layers(layer), dev.layers(layer), path.report.chosen[0, layer], tolerance=1e-6)
        expected = alone.predict(test.layers(layer).source).log_prob[0, 0]
        np.testing.assert_allclose(path.predict(test.source).log_prob[0, layer], expected, atol=2e-3)
