"""A readout of another package is listed, planned, run, resumed and reported as ours are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertology.results import read_results
from tests.commands import Commands, assert_same, commands, scores
from tests.toy_readout import install

EXPERIMENT = """
name: toy-readout
models: ["{model}"]
corpora: [{{name: "{corpus}", id: tiny}}]
tasks: [{{name: pos, readout: {{name: toy, settings: {{shrink: [0.0, 0.5]}}}}}}]
layers: "0-1"
seeds: 2
controls: [majority, control_task]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands of an environment in which the toy readout is installed."""
    folder = install(tmp_path_factory.mktemp("site"))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    with commands({**os.environ, "PYTHONPATH": path}) as started:
        yield started


@pytest.fixture(scope="module")
def arguments(tiny_bert: Path, tiny_corpus: Path) -> list[object]:
    return [
        "probe",
        "--task",
        "pos",
        "--readout",
        "toy",
        "--layers",
        "0-1",
        "--model",
        tiny_bert,
        "--corpus",
        tiny_corpus,
    ]


@pytest.fixture(scope="module")
def whole(installed: Commands, arguments: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody kills."""
    folder = tmp_path_factory.mktemp("whole")
    run = installed.start(folder, *arguments, "--out", folder / "out")
    assert run.wait() == 0, run.errors
    return folder / "out"


def test_its_rows_are_those_of_any_readout(whole: Path) -> None:
    rows = read_results(whole).to_pandas().query("readout == 'toy'")
    assert {"none", "control_task"} <= set(rows["control"])
    assert set(rows["readout_version"]) == {"v1"}
    assert set(rows["n_params"]) == {rows["n_classes"].iloc[0] * 32}
    assert "largest_mean" in rows["params_json"].iloc[0]
    assert "toy" in (whole / "layers.md").read_text()


def test_killed_and_resumed(installed: Commands, arguments: list[object], whole: Path, tmp_path: Path) -> None:
    killed = installed.start(tmp_path, *arguments, "--out", tmp_path / "out", die_at_write=12)
    assert killed.wait() == -signal.SIGKILL
    assert installed.run(tmp_path, *arguments, "--out", tmp_path / "out") == 0
    assert_same(tmp_path / "out", whole)


def test_an_experiment_has_the_same_scores_however_it_is_run(
    installed: Commands, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path
) -> None:
    file = tmp_path / "toy.yaml"
    file.write_text(EXPERIMENT.format(model=tiny_bert, corpus=tiny_corpus))

    def run(name: str, *options: str) -> Path:
        out = tmp_path / name
        command = installed.start(tmp_path, "run", file, "--out", out, *options)
        assert command.wait() == 0, command.errors
        return out

    assert installed.run(tmp_path, "plan", file) == 0
    serial, joblib = run("serial", "--engine", "serial"), run("joblib", "--engine", "joblib", "--jobs", "2")
    parts = [run(f"part{part}", "--engine", "serial", "--shard", f"{part}/2") for part in (1, 2)]
    assert installed.run(tmp_path, "merge", *parts, "--out", tmp_path / "merged") == 0
    assert {name for (name,) in scores(serial).select(["readout"]).to_pandas().dropna().to_numpy()} == {"toy"}
    for other in (joblib, tmp_path / "merged"):
        assert_same(other, serial)
    assert installed.run(tmp_path, "report", serial) == 0
    assert "toy" in (serial / "report.html").read_text()


def test_its_own_check_of_settings_is_part_of_planning(
    installed: Commands, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path
) -> None:
    file = tmp_path / "toy.yaml"
    file.write_text(EXPERIMENT.format(model=tiny_bert, corpus=tiny_corpus).replace("0.5", "2"))
    command = installed.start(tmp_path, "plan", file)
    assert command.wait() == 2
    assert "shrink is 2: give at most 1" in command.errors
