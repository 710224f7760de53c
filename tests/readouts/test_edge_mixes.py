"""Mixes find the layer in which something is planted; cumulative ones gain from it on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertology.errors import FitError
from bertology.measures import differential_scores, expected_layer
from bertology.readouts import ArraySpans
from bertology.readouts._edge import EdgeCatReadout, EdgeCumulativeReadout, EdgeMixReadout
from tests.readouts.conftest import chance_interval
from tests.readouts.spans import Spans, accuracy, fit, planted

SETTINGS = {
    "projection": 12,
    "hidden": 24,
    "learning_rate": 1e-2,
    "batch_items": 64,
    "max_epochs": 14,
    "round_steps": 25,
}
MIX = EdgeMixReadout(**SETTINGS)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def splits() -> tuple[Spans, Spans, Spans]:
    return tuple(planted(n, seed, n_layers=4, layer=2) for seed, n in ((1, 1600), (2, 400), (3, 800)))  # type: ignore[return-value]


def test_weight_goes_to_the_planted_layer(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = splits
    fitted = fit(MIX, train, dev)
    assert fitted.columns == ((0, 1, 2, 3),)
    details = fitted.details(0, 0)
    weights = np.array(details["mix_weights"])
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert weights.argmax() == 2
    assert weights[2] > 0.6
    assert details["center_of_gravity"] == pytest.approx(weights @ np.arange(4), abs=1e-4)
    assert details["kl_from_uniform_bits"] == pytest.approx(2 + (weights * np.log2(weights)).sum(), abs=1e-3)
    assert accuracy(fitted, test)[0] > 0.8


def test_lower_temperature_parts_sooner(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, _ = splits
    warm, cold = (
        fit(replace(MIX, temperature=temperature, max_epochs=2), train, dev).details(0, 0)["kl_from_uniform_bits"]
        for temperature in (1.0, 0.2)
    )
    assert cold > warm > 0


def test_layer_dropout_leaves_a_usable_mix(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, _ = splits
    plain, dropped = (
        fit(replace(MIX, layer_dropout=rate, max_epochs=4), train, dev).details(0, 0)["mix_weights"]
        for rate in (0.0, 0.3)
    )
    assert plain != dropped
    assert np.isfinite(dropped).all()
    assert np.argmax(dropped) == 2


def test_cumulative_mixes_gain_in_the_planted_layer(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = splits
    fitted = fit(EdgeCumulativeReadout(**SETTINGS, layer_dropout=0.1), train, dev)  # type: ignore[arg-type]
    assert fitted.columns == ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3))
    scores = accuracy(fitted, test)
    low, high = chance_interval(np.asarray(test.labels), 3)
    assert ((low <= scores[:2]) & (scores[:2] <= high)).all()
    assert differential_scores(scores).argmax() + 1 == 2
    assert expected_layer(scores).value == pytest.approx(2, abs=0.25)
    assert fitted.details(0, 0)["mix_weights"] == [1.0]
    assert fitted.details(0, 1)["layers"] == [0, 1]


def test_the_last_cumulative_mix_is_the_mix(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = splits
    brief = replace(MIX, max_epochs=3)
    columns = fit(EdgeCumulativeReadout(**{**SETTINGS, "max_epochs": 3}), train, dev)  # type: ignore[arg-type]
    np.testing.assert_allclose(
        columns.predict(test.source).log_prob[:, -1],
        fit(brief, train, dev).predict(test.source).log_prob[:, 0],
        atol=1e-3,
    )


def test_cat_reads_the_first_and_the_last_layer(splits: tuple[Spans, Spans, Spans]) -> None:
    cat = EdgeCatReadout(**SETTINGS)  # type: ignore[arg-type]
    train, dev, test = (part.layers(0, 1, 2) for part in splits)
    fitted = fit(cat, train, dev)
    assert fitted.columns == ((0, 2),)
    assert fitted.details(0, 0) == {"layers": [0, 2]}
    assert accuracy(fitted, test)[0] > 0.8
    train, dev, test = splits  # what is planted is in neither end
    low, high = chance_interval(np.asarray(test.labels), 3)
    assert low <= accuracy(fit(replace(cat, max_epochs=3), train, dev), test)[0] <= high
    with pytest.raises(FitError, match=r"edge_cat\.v1 joins the first and the last layer, and only 1 is there"):
        fit(cat, train.layers(0), dev.layers(0))


def test_columns_are_named_by_the_layers_of_the_model(splits: tuple[Spans, Spans, Spans]) -> None:
    train = splits[0]
    source = ArraySpans(torch.from_numpy(train.words[:3]), train.spans, layers=(0, 4, 8))
    fitted = replace(MIX, max_epochs=1).fit(source, train.targets, dev=source, dev_targets=train.targets)
    details = fitted.details(0, 0)
    assert details["layers"] == [0, 4, 8]
    assert details["center_of_gravity"] == pytest.approx(np.dot(details["mix_weights"], [0, 4, 8]), abs=1e-4)
