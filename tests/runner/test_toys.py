"""A task family and a readout of another package are listed, planned, run, resumed, reported and drawn as ours are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertology.results import read_results
from tests import toy_family, toy_readout
from tests.commands import Commands, assert_same, commands

EXPERIMENT = """
name: toys
models: ["{model}"]
corpora: [{{name: "{corpus}", id: tiny}}]
tasks:
  - {{name: toy_norms, readout: {{name: norms, settings: {{power: [1.0, 2.0]}}}}}}
  - {{name: pos, readout: {{name: toy, settings: {{shrink: [0.0, 0.5]}}}}}}
layers: "0-1"
seeds: 2
controls: [majority, control_task, random]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands of an environment in which both are installed."""
    folders = [str(toy.install(tmp_path_factory.mktemp("site"))) for toy in (toy_family, toy_readout)]
    path = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
    with commands({**os.environ, "PYTHONPATH": path}) as started:
        yield started


@pytest.fixture(scope="module")
def experiment(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("experiment") / "toys.yaml"
    file.write_text(EXPERIMENT.format(model=tiny_bert, corpus=tiny_corpus))
    return file


@pytest.fixture(scope="module")
def serial(installed: Commands, experiment: Path) -> Path:
    """The folder of a run in one process, which nobody kills."""
    run = installed.start(
        experiment.parent, "run", experiment, "--out", experiment.parent / "serial", "--engine", "serial"
    )
    assert run.wait() == 0, run.errors
    return experiment.parent / "serial"


def test_they_are_listed_and_planned(installed: Commands, experiment: Path, tmp_path: Path) -> None:
    listed = installed.start(tmp_path, "tasks")
    assert listed.wait() == 0
    assert "How long are the vectors of words?" in listed.output
    planned = installed.start(tmp_path, "plan", experiment)
    assert planned.wait() == 0, planned.errors
    assert "toys" in planned.output


def test_settings_of_the_readout_are_checked_by_itself_when_planning(
    installed: Commands, experiment: Path, tmp_path: Path
) -> None:
    file = tmp_path / "toys.yaml"
    file.write_text(experiment.read_text().replace("0.5", "2"))
    command = installed.start(tmp_path, "plan", file)
    assert command.wait() == 2
    assert "shrink is 2: give at most 1" in command.errors


def test_rows_of_the_family_stand_beside_those_of_others(serial: Path) -> None:
    rows = read_results(serial).to_pandas()
    norms = rows[rows.task == "toy_norms"]
    assert set(norms.metric) == {"mean_norm"}
    assert set(norms.init) == {"pretrained", "random"}
    assert len(norms) == 2 * 2 * 2  # powers, layers, initialisations
    assert (norms.ci_low < norms.value).all()
    assert "pos" in set(rows.task)


def test_rows_of_the_readout_are_those_of_any(serial: Path) -> None:
    rows = read_results(serial).to_pandas().query("readout == 'toy'")
    assert {"none", "control_task"} <= set(rows["control"])
    assert set(rows["readout_version"]) == {"v1"}
    assert set(rows["n_params"]) == {rows["n_classes"].iloc[0] * 32}
    assert "largest_mean" in rows["params_json"].iloc[0]


def test_joblib_and_merged_shards_are_the_same(
    installed: Commands, experiment: Path, serial: Path, tmp_path: Path
) -> None:
    def run(name: str, *options: str) -> Path:
        command = installed.start(tmp_path, "run", experiment, "--out", tmp_path / name, *options)
        assert command.wait() == 0, command.errors
        return tmp_path / name

    joblib = run("joblib", "--engine", "joblib", "--jobs", "2")
    parts = [run(f"part{part}", "--engine", "serial", "--shard", f"{part}/2") for part in (1, 2)]
    assert installed.run(tmp_path, "merge", *parts, "--out", tmp_path / "merged") == 0
    for other in (joblib, tmp_path / "merged"):
        assert_same(other, serial)


def test_killed_and_resumed(installed: Commands, experiment: Path, serial: Path, tmp_path: Path) -> None:
    arguments = ["run", experiment, "--out", tmp_path / "out", "--engine", "serial"]
    killed = installed.start(tmp_path, *arguments, die_at_write=20)
    assert killed.wait() == -signal.SIGKILL
    assert installed.run(tmp_path, *arguments) == 0
    assert_same(tmp_path / "out", serial)


def test_they_are_reported_and_drawn(installed: Commands, serial: Path) -> None:
    assert installed.run(serial.parent, "report", serial) == 0
    page = (serial / "report.html").read_text()
    assert "toy_norms" in page
    assert "toy" in (serial / "layers.md").read_text()
    assert (serial / "layers.png").stat().st_size > 0
