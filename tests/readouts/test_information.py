"""Usable information, against mutual information and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score

from bertology.errors import FitError
from bertology.readouts import ArrayFeatures, LinearReadout, Targets, form_features, make_readout, usable_information

SIZES = {"train": 2000, "dev": 1000, "test": 1000}
READOUT = LinearReadout(strengths=(1.0,))


def draw(seed: int = 0, *, informative: float = 0.8) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """One of four values by split as a one-hot vector, noise as large, and labels that mostly are the value."""
    dice, values, noise, labels = np.random.default_rng(seed), {}, {}, {}
    for split, size in SIZES.items():
        drawn = dice.integers(0, 4, size)
        values[split], noise[split] = np.eye(4)[drawn], dice.normal(size=(size, 4))
        labels[split] = np.where(dice.random(size) < informative, drawn, dice.integers(0, 4, size))
    return values, noise, labels


def measure(values: dict[str, Any], labels: dict[str, Any], *, given: dict[str, Any] | None = None, **how: Any) -> Any:
    sources = {split: ArrayFeatures(of[None].astype(np.float32)) for split, of in values.items()}
    known = (
        None if given is None else {split: ArrayFeatures(of[None].astype(np.float32)) for split, of in given.items()}
    )
    targets = {split: Targets(of[None], 4) for split, of in labels.items()}
    return usable_information(how.pop("readout", READOUT), sources, targets, given=known, **how)


def mean(found: NDArray[np.float64]) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(np.nanmean(found)), float(np.nanstd(found) / np.sqrt(found.size))


def test_of_one_hot_vectors_is_mutual_information() -> None:
    """A linear readout of one-hot vectors is every function of them, so that the two are the same but for sampling."""
    values, _, labels = draw()
    found, error = mean(measure(values, labels).bits)
    mutual = mutual_info_score(values["test"].argmax(1), labels["test"]) / np.log(2)
    assert mutual > 0.8
    assert found == pytest.approx(mutual, abs=3 * error)


def test_agrees_with_scikit_learn() -> None:
    values, noise, labels = draw()
    both = {split: np.hstack([values[split], noise[split]]) for split in SIZES}
    found = measure(both, labels)
    train = both["train"]
    shift, scale = train.mean(0), train.std(0)
    model = LogisticRegression(C=1.0, tol=1e-8, max_iter=2000).fit((train - shift) / scale, labels["train"])
    rows, shares = np.arange(SIZES["test"]), np.bincount(labels["train"]) / SIZES["train"]
    by_model = model.predict_proba((both["test"] - shift) / scale)[rows, labels["test"]]
    part, of_label = found.left_to_given[0, 0], shares[labels["test"]]
    by_hand = np.log2((1 - part) * by_model + part * of_label) - np.log2(of_label)
    np.testing.assert_allclose(found.bits[0, 0], by_hand, atol=5e-3)
    np.testing.assert_allclose(found.given_bits[0], -np.log2(of_label), rtol=1e-6)


def test_noise_has_none() -> None:
    """What is fitted to noise is left to the shares of the labels, so that nothing is lost by being too sure."""
    _, noise, labels = draw()
    found, error = mean(measure(noise, labels, readout=LinearReadout(strengths=(1e4,))).bits)
    assert abs(found) <= max(3 * error, 0.005)


def test_what_is_given_already_adds_nothing_and_the_rest_adds_up() -> None:
    values, noise, labels = draw()
    again, error = mean(measure(values, labels, given=values).bits)
    assert abs(again) <= max(3 * error, 0.002)
    beyond_noise, _ = mean(measure(values, labels, given=noise).bits)
    of_noise, _ = mean(measure(noise, labels).bits)
    both = {split: np.hstack([values[split], noise[split]]) for split in SIZES}
    whole, _ = mean(measure(both, labels).bits)
    assert of_noise + beyond_noise == pytest.approx(whole, abs=0.01)  # the chain rule


def test_labels_that_train_lacks_have_no_information() -> None:
    values, _, labels = draw()
    labels["test"][:10] = -1
    found = measure(values, labels)
    assert np.isnan(found.bits[0, 0, :10]).all()
    assert np.isfinite(found.bits[0, 0, 10:]).all()


def test_forms_tell_what_the_other_items_of_train_show() -> None:
    forms = {"train": np.array([0, 0, 0, 1]), "test": np.array([0, 1, -1])}
    features = form_features(forms, np.array([0, 0, 1, 1]), 2)
    np.testing.assert_allclose(
        np.exp(features["test"]), [[2.5 / 4, 1.5 / 4], [0.5 / 2, 1.5 / 2], [0.5, 0.5]], rtol=1e-6
    )
    # The first item of train sees one 0 and one 1 of its form, the last one no other item.
    np.testing.assert_allclose(np.exp(features["train"][[0, 3]]), [[1.5 / 3, 1.5 / 3], [0.5, 0.5]], rtol=1e-6)


def test_refuses_what_has_no_information() -> None:
    values, _, labels = draw()
    with pytest.raises(FitError, match="gives no probabilities: choose one that does"):
        measure(values, labels, readout=make_readout("ridge"))
    sets = {split: Targets(np.eye(4, dtype=bool)[of][None], 4) for split, of in labels.items()}
    sources = {split: ArrayFeatures(of[None].astype(np.float32)) for split, of in values.items()}
    with pytest.raises(FitError, match="one label each"):
        usable_information(READOUT, sources, sets)
