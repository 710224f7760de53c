"""How long edge probes are trained: rounds, patience, and a learning rate that falls to 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from bertology._workers import Workers
from bertology.readouts import get_readout
from bertology.readouts._edge import Design, EdgeLoop, FitShard, Shuffle, SpanReadout, TrainingWindows
from tests.readouts.spans import accuracy, edge_loop, fit, planted

PLAIN = {"learning_rate": 1e-3, "batch_items": 64, "least_batch": 64, "max_steps": 0, "patience": 3, "cool_down": 0}
"""Patience alone ends a fit, and no batch is small."""


@pytest.mark.parametrize(
    ("name", "dev_scores", "log_probs"),
    [
        ("edge", [0.4375, 0.775], [[-0.8282, -0.9322, -0.921], [-0.1626, -0.1443, -0.0843]]),
        ("edge_mix", [0.825], [[-0.2589, -0.0513, -0.1033]]),
        ("edge_cumulative", [0.425, 0.825], [[-0.8251, -0.9336, -0.9142], [-0.2589, -0.0513, -0.1033]]),
        ("edge_cat", [0.75], [[-0.0855, -0.0674, -0.1262]]),
    ],
)
def test_without_cooling_down_a_fit_is_that_of_patience_alone(
    name: str, dev_scores: list[float], log_probs: list[list[float]]
) -> None:
    train, dev = planted(200, 1, n_layers=2), planted(80, 2, n_layers=2)
    few = {"projection": 5, "hidden": 6, "learning_rate": 1e-2, "max_epochs": 7, "round_steps": 4, "batch_items": 16}
    fitted = fit(made(name, **{**PLAIN, **few}), train, dev, seed=3)
    assert fitted.name == f"{name}.v1"
    np.testing.assert_allclose(fitted.report.dev_accuracy[0, :, 0], dev_scores)
    np.testing.assert_allclose(fitted.predict(dev.source).log_prob[0, :, :3], log_probs, atol=2e-3)
    assert not fitted.report.converged.any()


def test_cooling_down_reaches_more_than_patience_alone() -> None:
    train, dev, test = (planted(n, seed, n_layers=1, layer=0) for seed, n in ((1, 2000), (2, 300), (3, 3000)))
    found = {}
    for name, settings in (("plain", PLAIN), ("cooled", {})):
        fitted = fit(made("edge", projection=32, hidden=64, **settings), train, dev)
        found[name] = accuracy(fitted, test)[0]
        assert fitted.report.all_converged
    assert found["cooled"] > found["plain"] + 0.004


@pytest.mark.parametrize(
    ("settings", "n_rounds", "n_cooling", "n_steps"),
    [
        ({}, 5, 2, 50),
        ({"cool_down": 1}, 5, 1, 50),
        ({"cool_down": 0}, 5, 0, 50),
        ({"max_epochs": 1}, 1, 0, 10),
        ({"max_steps": 20}, 2, 1, 20),
        ({"max_steps": 21}, 3, 1, 30),
        ({"max_steps": 1}, 1, 0, 10),
        ({"round_steps": 25}, 5, 2, 150),
        ({"round_steps": 25, "max_steps": 60}, 2, 1, 60),
        # of few items batches are smaller
        ({"round_steps": 20, "batch_items": 64, "least_batch": 1}, 5, 2, 100),
        ({"round_steps": 20, "batch_items": 64, "least_batch": 20}, 5, 2, 100),
        ({"round_steps": 1, "batch_items": 64}, 5, 2, 10),
    ],
)
def test_steps_are_bounded_in_whole_rounds_and_the_learning_rate_ends_with_them(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], n_rounds: int, n_cooling: int, n_steps: int
) -> None:
    rates: list[float] = []
    learn = FitShard.learn

    def noted(
        self: FitShard, words: Any, batch: Any, goals: Any, learning_rates: Sequence[float], decay: float
    ) -> None:
        rates.extend(learning_rates)
        learn(self, words, batch, goals, learning_rates, decay)

    monkeypatch.setattr(FitShard, "learn", noted)
    train, dev = (planted(n, seed, n_layers=1, layer=0) for seed, n in ((1, 100), (2, 40)))
    few = {"projection": 3, "hidden": 3, "batch_items": 10, "max_epochs": 5, "round_steps": 1, "patience": 9}
    readout = made("edge", **{**few, **settings})
    report = fit(readout, train, dev).report
    assert report.iterations.max() == n_rounds
    assert report.all_converged == (n_cooling > 0)
    batch = min(readout.batch_items, max(readout.least_batch, 100 // readout.round_steps))
    n_cooled = n_steps * n_cooling // n_rounds
    whole = readout.learning_rate * (batch / readout.batch_items) ** 0.5
    expected = np.r_[np.ones(n_steps - n_cooled), 1 - (np.arange(n_cooled) + 0.5) / max(n_cooled, 1)]
    np.testing.assert_allclose(rates, whole * expected, rtol=1e-6)


def test_a_fit_cools_down_from_its_best_round_and_the_others_go_on() -> None:
    train = planted(60, 5)
    design = Design(((0,), (1,), (2,)), "one", 8, (0, 1), 3, "attention", projection=4, hidden=4)
    shuffle = Shuffle(20, torch.Generator().manual_seed(0))
    (window,) = TrainingWindows(train.source, torch.ones(60, dtype=torch.bool), shuffle)
    start, found = design.start(1, seed=3), []
    with Workers(torch.device("cpu")) as workers:
        for cools in (True, False):
            loop = edge_loop(train, design, workers, batch_items=20)
            loop.learn_window(window)
            if cools:
                loop.cool([1])
            before = parameters(loop)
            for _ in range(2):
                loop.learn_window(window)
            found.append((before, parameters(loop)))
    (before, cooled), (_, plain) = found
    assert (before["out"][0, 1] == start["out"][0, 1]).all()
    for name, value in cooled.items():
        for layer in (0, 2):
            torch.testing.assert_close(value[0, layer], plain[name][0, layer])
    # three steps at rates that fall to 0, and none behind them
    moved = (cooled["out"] - before["out"]).abs().mean(dim=(2, 3))[0]
    assert 0 < moved[1] < moved[[0, 2]].min()


def made(name: str, **settings: Any) -> SpanReadout:
    """An edge readout."""
    readout = get_readout(name, **settings)
    assert isinstance(readout, SpanReadout)
    return readout


def parameters(loop: EdgeLoop) -> dict[str, torch.Tensor]:
    """The probes as they are now."""
    return {name: value.clone()[None] for name, value in loop._state.parameters.items()}
