"""What holds of every readout of labels: fits side by side are fits apart, seeds decide, probabilities are such."""

from typing import Any

import numpy as np
import pytest

from bertology.errors import FitError
from bertology.readouts import ArrayFeatures, EdgeReadout, FittedReadout, LinearReadout, Targets
from bertology.readouts._neural import BayesReadout, LowRankReadout, MlpReadout
from bertology.readouts._sources import subset
from tests.readouts.conftest import Split

READOUTS: dict[str, Any] = {
    "linear": LinearReadout(strengths=(0.01, 0.3), extensions=0, tolerance=2e-6),
    "mlp": MlpReadout(hidden=8, learning_rate=1e-2, batch_items=64, max_epochs=5),
    "lowrank": LowRankReadout(rank=3, learning_rate=3e-2, batch_items=128, max_epochs=5),
    "bayes": BayesReadout(hidden=5, steps=60, batch_items=64),
    "edge": EdgeReadout(projection=6, hidden=8, learning_rate=1e-2, batch_items=64, max_epochs=4, round_steps=10),
}
N_PARAMS = {
    "linear": 4 * (12 + 1),
    "mlp": 12 * 8 + 8 + 8 * 4 + 4,
    "lowrank": 12 * 3 + 3 * 4 + 4,
    "bayes": (12 * 5 + 5 + 12) + (5 * 4 + 4 + 5),
    "edge": (12 * 6 + 6 + 6) + (6 * 8 + 8) + 2 * 8 + (8 * 4 + 4),
}
READS_PROBABILITIES = pytest.mark.parametrize("name", ["linear", "mlp", "bayes", "edge"])
EVERY = pytest.mark.parametrize("name", READOUTS)


def fit(name: str, train: Split, dev: Split, seed: int = 0) -> FittedReadout:
    found: FittedReadout = READOUTS[name].fit(
        train.source, train.targets, dev=dev.source, dev_targets=dev.targets, seed=seed
    )
    return found


@EVERY
def test_layers_and_problems_together_are_layers_and_problems_apart(
    name: str, train: Split, dev: Split, test: Split
) -> None:
    fitted = fit(name, train, dev)
    assert fitted.n_params == N_PARAMS[name]
    together = fitted.predict(test.source)
    for layer in (0, 2):
        alone = fit(name, train.layers(layer).problems(0), dev.layers(layer).problems(0))
        np.testing.assert_array_equal(fitted.report.iterations[:1, layer] > 0, alone.report.iterations[:, 0] > 0)
        one = alone.predict(test.layers(layer).source)
        np.testing.assert_allclose(together.log_prob[0, layer], one.log_prob[0, 0], atol=2e-3)


@pytest.mark.parametrize("name", [name for name in READOUTS if name != "linear"])
def test_seed_decides(name: str, train: Split, dev: Split, test: Split) -> None:
    few = train.layers(1).problems(0), dev.layers(1).problems(0)
    once, again, other = (fit(name, *few, seed=seed).predict(test.layers(1).source).log_prob for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


@EVERY
def test_dev_accuracy_is_that_of_the_predictions(name: str, train: Split, dev: Split) -> None:
    fitted = fit(name, train, dev)
    accuracy = (fitted.predict(dev.source).labels == dev.labels[:, None]).mean(2)
    np.testing.assert_allclose(accuracy, np.nanmax(fitted.report.dev_accuracy, axis=2))


@EVERY
def test_unused_items_do_not_enter(name: str, train: Split, dev: Split, test: Split) -> None:
    used = np.random.default_rng(0).random(900) < 0.5
    broken = np.where(used[:, None], train.vectors, np.nan).astype(np.float32)
    labels = np.where(used, train.labels, -1)
    one, other = (
        fit(name, Split(vectors, labels, 4), dev).predict(test.source).log_prob for vectors in (train.vectors, broken)
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["mlp", "edge"])
def test_weights_weigh(name: str) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, size=(1, 2000))  # nothing to learn but the prior
    source = ArrayFeatures(random.normal(size=(1, 2000, 3)).astype(np.float32))
    targets = Targets(labels, 2, np.where(labels == 1, 3.0, 1.0).astype(np.float32))
    found = READOUTS[name].fit(source, targets, dev=source, dev_targets=targets).predict(source)
    assert (found.labels == 1).mean() > 0.95
    assert 0.65 < np.exp(found.log_prob).mean() < 0.8


@READS_PROBABILITIES
def test_probabilities_of_all_classes_sum_to_one(name: str, train: Split, dev: Split, test: Split) -> None:
    fitted = fit(name, train, dev)
    each = [fitted.log_probs(test.source, np.full_like(test.labels, label)) for label in range(train.n_classes)]
    np.testing.assert_allclose(np.exp(each).sum(0), 1, rtol=1e-5)
    found = fitted.predict(test.source)
    np.testing.assert_array_equal(np.argmax(each, axis=0), found.labels)
    np.testing.assert_allclose(np.max(each, axis=0), found.log_prob, atol=1e-5)


@pytest.mark.parametrize("name", ["linear", "mlp", "edge"])
def test_an_unseen_class_has_no_probability_and_nobody_asks_about_minus_one(
    name: str, train: Split, dev: Split, test: Split
) -> None:
    fitted = fit(name, Split(train.vectors, train.labels, 5), Split(dev.vectors, dev.labels, 5))
    labels = test.labels.copy()
    labels[0, ::2], labels[1, ::3] = -1, 4
    found = fitted.log_probs(test.source, labels)
    assert np.isnan(found[0, :, ::2]).all()
    assert (found[1, :, ::3] == -np.inf).all()
    assert np.isfinite(found[0, :, 1::2]).all()
    assert fitted.predict(test.source).labels.max() == 3
    with pytest.raises(FitError, match="labels run from"):
        fitted.log_probs(test.source, test.labels + 4)
    with pytest.raises(FitError, match="fitted on 3 layers"):
        fitted.log_probs(test.layers(0).source, test.labels)


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_questions_that_do_not_fit(name: str, train: Split, dev: Split, test: Split) -> None:
    fitted = fit(name, train, dev)
    with pytest.raises(FitError, match="1 problems: the readout was fitted to 2"):
        fitted.log_probs(test.source, test.labels[:1])
    with pytest.raises(FitError, match="700 items and 30 labels"):
        fitted.log_probs(test.source, test.labels[:, :30])


def test_a_subset_is_a_source(train: Split, dev: Split, test: Split) -> None:
    fitted = fit("linear", train, dev)
    chosen = np.random.default_rng(0).random(700) < 0.3
    whole = fitted.log_probs(test.source, test.labels)
    some = fitted.log_probs(subset(test.source, chosen), test.labels[:, chosen])
    np.testing.assert_allclose(some, whole[:, :, chosen], rtol=1e-6, atol=1e-6)
    first, targets = np.arange(900) < 300, Targets(train.labels[:, :300], 4)
    half = READOUTS["linear"].fit(subset(train.source, first), targets, dev=dev.source, dev_targets=dev.targets)
    part = Split(train.vectors[:, :300], train.labels[:, :300], 4)
    expected = fit("linear", part, dev).log_probs(test.source, test.labels)
    np.testing.assert_allclose(half.log_probs(test.source, test.labels), expected, atol=1e-4)
