"""Paths of strengths: an end that is best is not the last word, and where it stays best, that is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from bertology.errors import FitError
from bertology.readouts import LinearReadout, Readout, Targets
from bertology.readouts._base import rising_ends
from bertology.readouts._linear import RidgeReadout, StrengthPath
from tests.readouts.conftest import Split, World, standardised

NAN = np.nan
# Paths that end, each on one side, long before the strength that is best in the informative layers. A smaller tolerance
# is below the rounding errors of weak regularisation, and takes all iterations.
LINEAR = LinearReadout(strengths=(1e-3, 1e-2), tolerance=1e-5, max_iter=1000)
RIDGE = RidgeReadout(strengths=(1e4, 1e3))


def accuracies(*rows: list[float]) -> NDArray[np.float64]:
    """``[problem, layer, strength]`` of one problem."""
    return np.array([rows])


@pytest.mark.parametrize(
    ("row", "end", "following"),
    [
        ([NAN, 0.5, 0.6, 0.7, NAN], 1, 4),
        ([NAN, 0.7, 0.6, 0.5, NAN], -1, 0),
        ([NAN, 0.5, 0.7, 0.6, NAN], 0, -1),
        ([NAN, 0.5, 0.7, 0.7, NAN], 0, -1),  # of equals the strongest, which is no end
        ([NAN, 0.7, 0.7, 0.7, NAN], 0, -1),  # an end, but one among equals
        ([NAN, 0.5, 0.6, 0.7, 0.8], 1, -1),  # nothing beyond it is left
        ([0.8, 0.7, 0.6, 0.5, NAN], -1, -1),
        ([NAN, 0.5, 0.6, 0.7, 0.7], 0, -1),
        ([NAN, 0.7, NAN, NAN, NAN], 0, -1),  # a strength that was given
    ],
)
def test_what_is_tried_next(row: list[float], end: int, following: int) -> None:
    path = StrengthPath((1e-2, 1e-1, 1.0, 10.0, 100.0), range(1, 4))
    assert rising_ends(accuracies(row)).tolist() == [[end]]
    assert path.next_places(accuracies(row)).tolist() == [[following]]


@pytest.mark.parametrize(
    ("strengths", "large_is_strong", "expected", "given"),
    [
        ((0.1, 1.0), False, (0.001, 0.01, 0.1, 1.0, 10.0, 100.0), range(2, 4)),
        ((1.0, 100.0, 1.0), True, (10000.0, 1000.0, 100.0, 1.0, 0.1, 0.01), range(2, 4)),
        ((0.3,), False, (0.3,), range(1)),
    ],
)
def test_paths_go_on_in_steps_of_ten(
    strengths: tuple[float, ...], large_is_strong: bool, expected: tuple[float, ...], given: range
) -> None:
    path = StrengthPath.of(strengths, extensions=2, large_is_strong=large_is_strong)
    assert path.strengths == pytest.approx(expected)
    assert path.given == given


def test_negative_extensions_are_refused() -> None:
    with pytest.raises(FitError, match="extensions is -1: give 0 or more"):
        StrengthPath.of((1.0,), extensions=-1, large_is_strong=False)


def fitted(readout: Readout, train: Split, dev: Split, targets: Targets | None = None) -> Any:
    return readout.fit(train.source, targets or train.targets, dev=dev.source, dev_targets=dev.targets)


@pytest.mark.parametrize("readout", [LINEAR, RIDGE], ids=["linear", "ridge"])
def test_an_end_that_is_best_is_passed(readout: Any, train: Split, dev: Split, test: Split) -> None:
    short, found = (fitted(replace(readout, extensions=n), train, dev) for n in (0, 6))
    whole = StrengthPath.of(readout.strengths, extensions=6, large_is_strong=readout is RIDGE)
    for problem, layer in np.ndindex(2, 3):
        on_dev = found.report.dev_accuracy[problem, layer]
        place = int(np.nanargmax(on_dev))
        assert found.report.strengths[place] == found.report.chosen[problem, layer]
        if layer:  # layer 0 says nothing, and regularisation is no help there
            assert short.report.end(problem, layer) == "weakest"
            assert found.report.chosen[problem, layer] not in readout.strengths
    assert found.report.end(0, 1) is None
    assert set(found.report.strengths) <= set(whole.strengths)
    # What is found beyond an end is what a path of that strength alone finds.
    predictions = found.predict(test.source)
    for layer, strength in enumerate(found.report.chosen[0]):
        one = fitted(replace(readout, strengths=(strength,)), train.layers(layer), dev.layers(layer))
        expected = one.predict(test.layers(layer).source)
        if readout is RIDGE:
            np.testing.assert_array_equal(predictions.labels[0, layer], expected.labels[0, 0])
        else:
            np.testing.assert_allclose(predictions.log_prob[0, layer], expected.log_prob[0, 0], atol=2e-3)


def test_beyond_an_end_it_is_scikit_learn() -> None:
    world = World(seed=5, n_problems=1, n_layers=2)
    train, dev = world.split(700, 1), world.split(300, 2)
    found = fitted(replace(LINEAR, tolerance=1e-6, extensions=4), train, dev)
    strength = found.report.chosen[0, 1]
    assert strength > 1e-2
    features = standardised(train.vectors[1], train.vectors[1])
    peer = LogisticRegression(C=strength, tol=1e-9, max_iter=5000).fit(features, train.labels[0])
    coefficients = found.model.coefficients[0, 1, 0].double().numpy() * train.vectors[1].astype(np.float64).std(0)
    np.testing.assert_allclose(coefficients, peer.coef_, atol=2e-3)


def test_an_end_that_stays_best_is_told(train: Split, dev: Split) -> None:
    report = fitted(replace(LINEAR, extensions=1), train, dev).report
    assert {report.end(problem, layer) for problem, layer in np.ndindex(2, 3) if layer} == {"weakest"}
    assert report.chosen[:, 1:] == pytest.approx(0.1)


@pytest.mark.parametrize("readout", [LINEAR, RIDGE], ids=["linear", "ridge"])
def test_followers_go_where_their_leader_goes(readout: Any, train: Split, dev: Split) -> None:
    targets = Targets(train.labels, 4, strength_sources=(1, 1))
    report = fitted(replace(readout, extensions=6), train, dev, targets).report
    np.testing.assert_array_equal(report.chosen[0], report.chosen[1])
    assert (report.chosen[:, 1:] != readout.strengths[-1]).all()
    chosen = np.array(report.strengths)[:, None, None] == report.chosen
    assert np.isfinite(np.moveaxis(report.dev_accuracy, 2, 0)[chosen]).all()
