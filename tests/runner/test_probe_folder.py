"""``probe --out`` leaves the folder of a run, as an experiment leaves it."""

import json
from pathlib import Path

import pytest

from bertology.families.request import ReadoutConfig
from bertology.runner import ProbeRequest, RunOptions, rerun, run_experiment, run_probes, verify_run
from bertology.runner.experiment import load_experiment
from tests.runner.requests import but

ABOUT = ("experiment.yaml", "run.json", "checksums.json")


@pytest.fixture
def request_(tiny_bert: Path, tiny_corpus: Path) -> ProbeRequest:
    configs = {"pos": (ReadoutConfig("ridge"), ReadoutConfig("linear", {"strengths": [0.1, 1.0]}, 0.5))}
    return ProbeRequest(
        tasks=("pos", "feats:Number"),
        model=str(tiny_bert),
        corpus=str(tiny_corpus),
        layers="0-1",
        controls=("majority",),
        configs=configs,
    )


def test_it_is_verified_and_repeated_as_a_run_of_an_experiment(request_: ProbeRequest, tmp_path: Path) -> None:
    run = tmp_path / "run"
    results = run_probes(request_, out=run)
    assert all((run / name).is_file() for name in ABOUT)
    assert verify_run(run) == ()
    (session,) = json.loads((run / "run.json").read_text())["sessions"]
    assert session["cells_computed"] == results.to_pandas().cell_id.nunique()
    again = rerun(run, tmp_path / "again", options=RunOptions(engine="serial"))
    assert (again.moved, again.n_scores) == ((), len(results.rows))
    summary = run_experiment(load_experiment(run / "experiment.yaml"), run, options=RunOptions(engine="serial"))
    assert (summary.n_computed, summary.failures) == (0, ())
    (run / "layers.md").write_text("better numbers")
    assert verify_run(run) == ("layers.md: altered",)


def test_the_version_of_a_task_that_was_asked_for_is_kept(request_: ProbeRequest, tmp_path: Path) -> None:
    run_probes(but(request_, tasks=("pos.v1",), configs={}, layers="0"), out=tmp_path / "run")
    assert [task.name for task in load_experiment(tmp_path / "run" / "experiment.yaml").tasks] == ["pos.v1"]
