"""What a fitted readout gives to a class that one asks about."""

from __future__ import annotations

import numpy as np
import pytest

from bertology.errors import FitError
from bertology.readouts import FittedReadout, LinearReadout, Readout, Targets
from bertology.readouts._linear import RidgeReadout
from bertology.readouts._neural import MlpReadout
from bertology.readouts._sources import subset
from tests.readouts.conftest import Split

SMALL = {
    "linear": LinearReadout(strengths=(1e-2, 1.0)),
    "mlp": MlpReadout(hidden=8, learning_rate=1e-2, max_epochs=5),
}


def fit(readout: Readout, train: Split, dev: Split) -> FittedReadout:
    return readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)


@pytest.mark.parametrize("name", SMALL)
def test_probabilities_of_all_classes_sum_to_one(name: str, train: Split, dev: Split, test: Split) -> None:
    fitted = fit(SMALL[name], train, dev)
    each = [fitted.log_probs(test.source, np.full_like(test.labels, label)) for label in range(train.n_classes)]
    np.testing.assert_allclose(np.exp(each).sum(0), 1, rtol=1e-9)
    found = fitted.predict(test.source)
    np.testing.assert_array_equal(np.argmax(each, axis=0), found.labels)
    np.testing.assert_allclose(np.max(each, axis=0), found.log_prob, atol=2e-6)


@pytest.mark.parametrize("name", SMALL)
def test_an_unseen_class_has_no_probability_and_nobody_asks_about_minus_one(
    name: str, train: Split, dev: Split, test: Split
) -> None:
    wider = Split(train.vectors, train.labels, 5), Split(dev.vectors, dev.labels, 5)
    fitted = fit(SMALL[name], *wider)
    labels = test.labels.copy()
    labels[0, ::2], labels[1, ::3] = -1, 4
    found = fitted.log_probs(test.source, labels)
    assert np.isnan(found[0, :, ::2]).all()
    assert (found[1, :, ::3] == -np.inf).all()
    assert np.isfinite(found[0, :, 1::2]).all()


def test_ridge_gives_none(train: Split, dev: Split, test: Split) -> None:
    assert np.isnan(fit(RidgeReadout(), train, dev).log_probs(test.source, test.labels)).all()


@pytest.mark.parametrize("name", SMALL)
def test_questions_that_do_not_fit(name: str, train: Split, dev: Split, test: Split) -> None:
    fitted = fit(SMALL[name], train, dev)
    with pytest.raises(FitError, match="1 problems: the readout was fitted to 2"):
        fitted.log_probs(test.source, test.labels[:1])
    with pytest.raises(FitError, match="700 items and 30 labels"):
        fitted.log_probs(test.source, test.labels[:, :30])
    with pytest.raises(FitError, match="labels run from"):
        fitted.log_probs(test.source, test.labels + 4)
    with pytest.raises(FitError, match="fitted on 3 layers"):
        fitted.log_probs(test.layers(0).source, test.labels)


def test_a_subset_is_a_source(train: Split, dev: Split, test: Split) -> None:
    fitted = fit(SMALL["linear"], train, dev)
    chosen = np.random.default_rng(0).random(700) < 0.3
    some = subset(test.source, chosen)
    whole = fitted.log_probs(test.source, test.labels)
    np.testing.assert_allclose(
        fitted.log_probs(some, test.labels[:, chosen]), whole[:, :, chosen], rtol=1e-6, atol=1e-6
    )
    part = Split(train.vectors[:, :300], train.labels[:, :300], 4)
    half = SMALL["linear"].fit(
        subset(train.source, np.arange(900) < 300),
        Targets(train.labels[:, :300], 4),
        dev=dev.source,
        dev_targets=dev.targets,
    )
    expected = fit(SMALL["linear"], part, dev).log_probs(test.source, test.labels)
    np.testing.assert_allclose(half.log_probs(test.source, test.labels), expected, atol=1e-4)
    with pytest.raises(FitError, match="one for each item"):
        subset(test.source, chosen[:5])
