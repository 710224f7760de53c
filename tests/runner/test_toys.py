"""A task family and a readout of another package are listed, planned, run, resumed, reported and drawn as ours are."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bertology.results import read_results
from tests import toy_family, toy_readout
from tests.commands import Commands, Running, assert_same

EXPERIMENT = """
name: toys
models: ["{model}"]
corpora: [{{name: "{corpus}", id: tiny}}]
tasks:
  - {{name: toy_norms, readout: {{name: vectors, settings: {{power: [1.0, 2.0]}}}}}}
  - {{name: pos, readout: {{name: toy, settings: {{shrink: [0.0, 0.5]}}}}}}
layers: "0-1"
seeds: 2
controls: [majority, control_task, random]
random_draws: 1
statistics: {{resamples: 200}}
"""

Start = Callable[..., Running]


@pytest.fixture(scope="module")
def start(forked: Commands, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Start a command in an environment in which both are installed."""
    packages = [toy.install(tmp_path_factory.mktemp("site")) for toy in (toy_family, toy_readout)]
    return partial(forked.start, packages=packages)


@pytest.fixture(scope="module")
def experiment(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("experiment") / "toys.yaml"
    file.write_text(EXPERIMENT.format(model=tiny_bert, corpus=tiny_corpus))
    return file


@pytest.fixture(scope="module")
def serial(start: Start, experiment: Path) -> Path:
    """The folder of a run in one process, which nobody kills."""
    folder = experiment.parent
    run = start(folder, "run", experiment, "--out", folder / "serial", "--engine", "serial", figures=True)
    assert run.wait() == 0, run.errors
    return experiment.parent / "serial"


def test_they_are_listed_and_planned(start: Start, experiment: Path, tmp_path: Path) -> None:
    listed = start(tmp_path, "tasks")
    assert listed.wait() == 0
    assert "How long are the vectors of words?" in listed.output
    planned = start(tmp_path, "plan", experiment)
    assert planned.wait() == 0, planned.errors
    assert "toys" in planned.output


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


def test_joblib_and_merged_shards_are_the_same(start: Start, experiment: Path, serial: Path, tmp_path: Path) -> None:
    def run(name: str, *options: str) -> Path:
        command = start(tmp_path, "run", experiment, "--out", tmp_path / name, *options)
        assert command.wait() == 0, command.errors
        return tmp_path / name

    joblib = run("joblib", "--engine", "joblib", "--jobs", "2")
    parts = [run(f"part{part}", "--engine", "serial", "--shard", f"{part}/2") for part in (1, 2)]
    assert start(tmp_path, "merge", *parts, "--out", tmp_path / "merged").wait() == 0
    for other in (joblib, tmp_path / "merged"):
        assert_same(other, serial)


def test_they_are_reported_and_drawn(start: Start, serial: Path) -> None:
    assert start(serial.parent, "report", serial).wait() == 0
    page = (serial / "report.html").read_text()
    assert "toy_norms" in page
    assert "toy" in (serial / "layers.md").read_text()
    assert (serial / "layers.png").stat().st_size > 0
