"""``edge.v2`` reaches what ``edge.v1`` stops short of, and ``edge.v1`` stays what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bertology._workers import Workers
from bertology.readouts import SpanReadout, get_readout
from bertology.readouts._edge_model import Design
from bertology.readouts._edge_training import Goals, Schedule, Trainer
from bertology.readouts._edge_windows import Shuffle, TrainingWindows
from tests.readouts.spans import accuracy, fit, planted

NAMES = ("edge", "edge_mix", "edge_cumulative", "edge_cat")
FIRST = {
    "pooling": "attention",
    "projection": 256,
    "classifier": "mlp",
    "hidden": 256,
    "dropout": 0.2,
    "loss": "auto",
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
    "batch_items": 64,
    "max_epochs": 40,
    "patience": 3,
    "watch": "score",
    "round_steps": 100,
}
"""Settings of version 1."""
NO_SCHEDULE = {"schedule": "constant", "warm_up": 0.0, "max_steps": 0, "least_batch": 64}


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_name_is_version_2_and_version_1_has_its_settings(name: str) -> None:
    first, second = get_readout(f"{name}.v1"), get_readout(name)
    assert (first.name, second.name) == (f"{name}.v1", f"{name}.v2")
    mixing = {"temperature": 1.0, "layer_dropout": 0.0} if name in ("edge_mix", "edge_cumulative") else {}
    assert first.params == {**FIRST, **NO_SCHEDULE, **mixing}
    for readout in (first, second, get_readout(name, pooling="mean", projection=0)):
        assert get_readout(readout.name, **readout.params) == readout


@pytest.mark.parametrize(
    ("name", "dev_scores", "log_probs"),
    [
        ("edge", [0.4375, 0.775], [[-0.8282, -0.9322, -0.921], [-0.1626, -0.1443, -0.0843]]),
        ("edge_mix", [0.825], [[-0.2589, -0.0513, -0.1033]]),
        ("edge_cumulative", [0.425, 0.825], [[-0.8251, -0.9336, -0.9142], [-0.2589, -0.0513, -0.1033]]),
        ("edge_cat", [0.75], [[-0.0855, -0.0674, -0.1262]]),
    ],
)
def test_version_1_fits_as_before_there_was_another(
    name: str, dev_scores: list[float], log_probs: list[list[float]]
) -> None:
    train, dev = planted(200, 1, n_layers=2), planted(80, 2, n_layers=2)
    few = {"projection": 5, "hidden": 6, "learning_rate": 1e-2, "max_epochs": 7, "round_steps": 4, "batch_items": 16}
    readout = get_readout(f"{name}.v1", **few)
    assert isinstance(readout, SpanReadout)
    fitted = fit(readout, train, dev, seed=3)
    assert fitted.name == f"{name}.v1"
    np.testing.assert_allclose(fitted.report.dev_accuracy[0, :, 0], dev_scores)
    np.testing.assert_allclose(fitted.predict(dev.source).log_prob[0, :, :3], log_probs, atol=2e-3)
    assert not fitted.report.converged.any()


def test_a_falling_learning_rate_reaches_more_than_three_patient_rounds() -> None:
    train, dev, test = (planted(n, seed, n_layers=1, layer=0) for seed, n in ((1, 2000), (2, 300), (3, 3000)))
    found = {}
    for name in ("edge.v1", "edge"):
        readout = get_readout(name, projection=32, hidden=64)
        assert isinstance(readout, SpanReadout)
        fitted = fit(readout, train, dev)
        found[name] = accuracy(fitted, test)[0]
        # of version 2, because its learning rate has gone down to 0
        assert fitted.report.all_converged
    assert found["edge"] > found["edge.v1"] + 0.005


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (Schedule(), [1, 1, 1, 1, 1, 1]),
        (Schedule("cosine", 0.0, 100), [1, 0.9045, 0.5, 0.0955, 0, 0]),
        (Schedule("cosine", 0.2, 100), [0, 1, 0.6913, 0.1464, 0, 0]),
        (Schedule("constant", 0.4, 100), [0, 0.5, 1, 1, 1, 1]),
    ],
)
def test_the_learning_rate_rises_and_falls(schedule: Schedule, factors: list[float]) -> None:
    seen = (0, 20, 50, 80, 100, 130)
    np.testing.assert_allclose([schedule.factor(n) for n in seen], factors, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "n_rounds", "n_steps"),
    [
        ({}, 5, 50),
        ({"max_steps": 20}, 2, 20),
        ({"max_steps": 21}, 3, 30),
        ({"max_steps": 1}, 1, 10),
        ({"round_steps": 25}, 5, 150),
        ({"round_steps": 25, "max_steps": 60}, 2, 60),
        # of few items batches are smaller
        ({"round_steps": 20, "batch_items": 64, "least_batch": 1}, 5, 100),
        ({"round_steps": 20, "batch_items": 64, "least_batch": 20}, 5, 100),
        ({"round_steps": 1, "batch_items": 64}, 5, 10),
    ],
)
def test_steps_are_bounded_in_whole_rounds_and_the_rate_ends_with_them(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], n_rounds: int, n_steps: int
) -> None:
    rates: list[float] = []
    factor = Schedule.factor

    def noted(self: Schedule, n_seen: float) -> float:
        rates.append(factor(self, n_seen))
        return rates[-1]

    monkeypatch.setattr(Schedule, "factor", noted)
    train, dev = (planted(n, seed, n_layers=1, layer=0) for seed, n in ((1, 100), (2, 40)))
    given = {"projection": 3, "hidden": 3, "batch_items": 10, "max_epochs": 5, "round_steps": 1, "warm_up": 0.25}
    readout = get_readout("edge", **{**given, **settings})
    assert isinstance(readout, SpanReadout)
    assert fit(readout, train, dev).report.iterations.max() == n_rounds
    assert len(rates) == n_steps
    assert rates[0] < 0.3
    assert max(rates) > 0.9
    assert 0 < rates[-1] < 0.02


def test_steps_follow_the_schedule() -> None:
    train = planted(60, 5, n_layers=1, layer=0)
    design = Design(((0,),), "one", 8, (0, 1), 3, "attention", projection=4, hidden=4)
    start = design.start(1, seed=3)
    goals = Goals.of(train.targets, is_sigmoid=False, device=torch.device("cpu"))
    (window,) = TrainingWindows(
        train.source, torch.ones(60, dtype=torch.bool), Shuffle(20, torch.Generator().manual_seed(0))
    )
    found = {}
    with Workers(torch.device("cpu")) as workers:
        for name, rate, schedule in (
            ("plain", 1e-2, Schedule()),
            ("half", 1e-2, Schedule("constant", 0.999999, 60)),
            ("over", 1e-2, Schedule("cosine", 0.0, 1)),
        ):
            trainer = Trainer(design, start, goals, workers, learning_rate=rate, weight_decay=0.0, schedule=schedule)
            trainer.learn(window)
            found[name] = {key: torch.empty_like(value) for key, value in start.items()}
            trainer.copy([0], found[name])
    moved = {name: float((value["out"] - start["out"]).abs().sum()) for name, value in found.items()}
    # rates of 1/6, 1/2 and 5/6; and none of what comes after the end
    assert moved["half"] == pytest.approx(moved["plain"] / 2, rel=0.25)
    assert moved["over"] < 1e-7
