"""Runs that are killed, and runs that meet in one folder, end in the tables of a run left alone."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Commands, Running, assert_same

N_MOMENTS = 2

Start = Callable[[Path], Running]
Alone = tuple[Path, float]


@pytest.fixture(scope="module")
def start(write_experiment: Callable[..., Path], forked: Commands, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Start the experiment in a folder."""
    file = write_experiment(tmp_path_factory.mktemp("experiment"), "sentences: 40", "sentences: 12")
    return lambda folder: forked.start(folder, "run", file, "--engine", "serial", "--out", folder / "run")


@pytest.fixture(scope="module")
def alone(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """The folder and duration of a run that nobody disturbs."""
    run = start(tmp_path_factory.mktemp("alone"))
    assert run.wait() == 0
    return run.folder / "run", run.seconds


def test_killed_at_random_moments(start: Start, alone: Alone, tmp_path: Path) -> None:
    whole, seconds = alone
    draw = random.Random(7)
    killed = attempts = 0
    while killed < N_MOMENTS:
        attempts += 1
        assert attempts <= 3 * N_MOMENTS, "runs keep ending before they can be killed"
        run = start(tmp_path / str(attempts))
        status = run.wait(die_after=(killed + draw.random()) / (N_MOMENTS + 1) * seconds)
        if status == 0:
            # The run left alone met a busier machine: this one says better how long a run takes.
            seconds = min(seconds, run.seconds)
            continue
        assert status == -signal.SIGKILL
        killed += 1
        assert start(run.folder).wait() == 0
        assert_same(run.folder / "run", whole)


def test_two_at_once_share_the_work(start: Start, alone: Alone, tmp_path: Path) -> None:
    whole, _ = alone
    both = start(tmp_path), start(tmp_path)
    assert [run.wait() for run in both] == [0, 0]
    assert_same(tmp_path / "run", whole)
    sessions = json.loads((tmp_path / "run" / "run.json").read_text())["sessions"]
    n_cells = len(list((tmp_path / "run" / "cells").glob("*.json")))
    assert sum(session["cells_computed"] for session in sessions) == n_cells
