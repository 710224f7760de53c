"""``ridge`` is scikit-learn's ``Ridge`` on one-hot labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bertology.errors import FitError
from bertology.readouts import Targets
from bertology.readouts._linear import RidgeReadout
from tests.readouts.conftest import Split, chance_interval, standardised


@pytest.mark.parametrize("strength", [0.1, 30.0, 1e4])
def test_coefficients_are_those_of_scikit_learn(train: Split, dev: Split, strength: float) -> None:
    random = np.random.default_rng(0)
    weights = random.integers(0, 3, size=(2, 900)).astype(np.float32)
    labels = np.where(random.random((2, 900)) < 0.1, -1, train.labels)
    fitted = RidgeReadout(strengths=(strength,)).fit(
        train.source, Targets(labels, 4, weights), dev=dev.source, dev_targets=dev.targets
    )
    assert fitted.report.all_converged
    for problem, layer in np.ndindex(2, 3):
        mine = weights[problem] * (labels[problem] >= 0)
        features = standardised(train.vectors[layer], train.vectors[layer], mine)
        peer = Ridge(alpha=strength).fit(features, np.eye(4)[labels[problem]], sample_weight=mine)
        mean = np.average(train.vectors[layer].astype(np.float64), axis=0, weights=mine)
        std = np.sqrt(np.average((train.vectors[layer] - mean) ** 2, axis=0, weights=mine))
        coefficients = fitted.model.coefficients[problem, layer, 0].double().numpy()
        np.testing.assert_allclose(coefficients * std, peer.coef_, atol=5e-4)
        intercepts = fitted.model.intercepts[problem, layer, 0].double().numpy() + coefficients @ mean
        np.testing.assert_allclose(intercepts, peer.intercept_, atol=5e-4)


def test_signal_and_no_signal(train: Split, dev: Split, test: Split) -> None:
    fitted = RidgeReadout().fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
    accuracy = (fitted.predict(test.source).labels == test.labels[:, None]).mean(2)
    for problem in range(2):
        low, high = chance_interval(test.labels[problem], 4)
        assert low <= accuracy[problem, 0] <= high
        assert (accuracy[problem, 1:] > high + 0.2).all()


def test_path_together_is_each_strength_alone(train: Split, dev: Split, test: Split) -> None:
    path = RidgeReadout(strengths=(1.0, 1e3, 1e5), extensions=0).fit(
        train.source, train.targets, dev=dev.source, dev_targets=dev.targets
    )
    assert path.report.strengths == (1e5, 1e3, 1.0)
    for place, strength in enumerate(path.report.strengths):
        alone = RidgeReadout(strengths=(strength,)).fit(
            train.source, train.targets, dev=dev.source, dev_targets=dev.targets
        )
        np.testing.assert_array_equal(alone.report.dev_accuracy[..., 0], path.report.dev_accuracy[..., place])


def test_scores_are_no_probabilities(train: Split, dev: Split, test: Split) -> None:
    fitted = RidgeReadout().fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
    assert np.isnan(fitted.predict(test.source).log_prob).all()
    assert fitted.name == "ridge.v1"
    assert fitted.n_params == 13 * 4


def test_absent_class_is_never_predicted(train: Split, dev: Split, test: Split) -> None:
    labels = np.where(train.labels == 1, -1, train.labels)
    fitted = RidgeReadout().fit(train.source, Targets(labels, 5), dev=dev.source, dev_targets=Targets(dev.labels, 5))
    assert not np.isin(fitted.predict(test.source).labels, [1, 4]).any()


def test_strengths_must_be_positive(train: Split, dev: Split) -> None:
    with pytest.raises(FitError, match="all above 0"):
        RidgeReadout(strengths=(0.0,)).fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
