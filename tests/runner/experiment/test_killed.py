"""Runs that are killed, and runs that meet in one folder, end in the tables of a run left alone."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cell_files import records_in
from tests.commands import Commands, Running, assert_same

Start = Callable[[Path], Running]


@pytest.fixture(scope="module")
def start(write_experiment: Callable[..., Path], forked: Commands, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Start the experiment in a folder."""
    file = write_experiment(tmp_path_factory.mktemp("experiment"), "sentences: 40", "sentences: 12")
    return lambda folder: forked.start(folder, "run", file, "--engine", "serial", "--out", folder / "run")


@pytest.fixture(scope="module")
def alone(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody disturbs."""
    run = start(tmp_path_factory.mktemp("alone"))
    assert run.wait() == 0
    return run.folder / "run"


def test_two_at_once_share_the_work(start: Start, alone: Path, tmp_path: Path) -> None:
    both = start(tmp_path), start(tmp_path)
    assert [run.wait() for run in both] == [0, 0]
    assert_same(tmp_path / "run", alone)
    sessions = json.loads((tmp_path / "run" / "run.json").read_text())["sessions"]
    n_cells = len(records_in(tmp_path / "run"))
    assert sum(session["cells_computed"] for session in sessions) == n_cells
