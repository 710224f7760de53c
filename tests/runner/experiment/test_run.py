"""A run: what it computes and keeps, what it does not do twice, and what becomes of what fails."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bertology.activations import store
from bertology.errors import BertologyError
from bertology.families import labels
from bertology.results import read_results
from bertology.runner import RunOptions, run_experiment
from bertology.runner.estimate import estimate
from bertology.runner.experiment import experiment_of, load_experiment
from bertology.runner.plan import resolve_work
from bertology.runner.run import RunSummary

Scores = Callable[[Path], pa.Table]
SERIAL = RunOptions(engine="serial")


@pytest.fixture
def mine(trial: tuple[Path, RunSummary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The finished run in a folder of one's own: its file and its folder."""
    path, summary = trial
    monkeypatch.setenv("BERTOLOGY_CACHE", str(path.parent / "cache"))
    return path, shutil.copytree(summary.folder, tmp_path / "run")


def predictions(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "predictions").iterdir()}


def test_the_grid_is_what_was_asked(trial: tuple[Path, RunSummary]) -> None:
    path, summary = trial
    work = resolve_work(load_experiment(path))
    frame = read_results(summary.folder).to_pandas()
    kinds = frame[frame.layer.notna()].groupby(["model", "init", "task", "readout", "control"]).layer.unique()
    assert {key: sorted(layers) for key, layers in kinds.items()} == {
        (model, init, task, readout, control): [0, 1]
        for model, init in (("tiny", "pretrained"), ("fresh", "random"))
        for task, readout in (("pos", "linear"), ("chunk", "ridge"))
        for control in ("none", "control_task")
    }
    assert set(frame[frame.layer.isna()].control) == {"majority", "word_majority"}
    # The baselines of a corpus are there once, whatever the number of models.
    assert not frame.duplicated(["cell_id", "metric", "control"]).any()
    assert frame.cell_id.nunique() == work.n_cells == summary.n_cells == summary.n_computed
    assert set(frame.experiment) == {"trial"}
    assert set(frame.corpus) == {"small"}
    comparisons = read_results(summary.folder).comparisons_to_pandas()
    assert comparisons.groupby("family").size().tolist() == [1, 1, 1, 1]


def test_a_second_run_computes_nothing(mine: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path, run = mine
    before = {file: file.stat().st_mtime_ns for file in run.rglob("*.*") if file.suffix != ".lock"}
    monkeypatch.setattr("bertology.runner.engines.compute_load", lambda *_, **__: pytest.fail("computed again"))
    again = run_experiment(load_experiment(path), run, options=SERIAL)
    assert (again.n_computed, again.failures) == (0, ())
    after = {file: file.stat().st_mtime_ns for file in run.rglob("*.*") if file.suffix != ".lock"}
    changed = {file.name for file in after if after[file] != before.get(file)}
    assert changed <= {"experiment.yaml"}


def test_engines_give_the_same_bytes(trial: tuple[Path, RunSummary], tmp_path: Path, scores: Scores) -> None:
    run_experiment(load_experiment(trial[0]), tmp_path / "run", options=RunOptions(engine="joblib", jobs=2))
    assert scores(tmp_path / "run").equals(scores(trial[1].folder))
    assert predictions(tmp_path / "run") == predictions(trial[1].folder)


def test_vectors_that_are_not_stored_are_gone(
    trial: tuple[Path, RunSummary], tmp_path: Path, scores: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_IN_MEMORY", tmp_path)
    write = store.write_shard
    written = list[Path]()
    monkeypatch.setattr(store, "write_shard", lambda path, *rest: written.append(path) or write(path, *rest))
    for engine in ("serial", "threads", "joblib"):
        assert not written, "vectors of one process are no files"
        options = RunOptions(engine=engine, jobs=2, store=False)
        run_experiment(load_experiment(trial[0]), tmp_path / engine, options=options)
        assert scores(tmp_path / engine).equals(scores(trial[1].folder))
    assert written
    assert not [*tmp_path.rglob("shard-*"), *tmp_path.glob(".vectors*")]
    assert not (tmp_path / "cache" / "activations").exists()


# What fails


def test_a_failure_is_recorded_and_stops_nothing_else(
    write_experiment: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, run = write_experiment(tmp_path, "- pos", '- pos\n  - "feats:Nummer"'), tmp_path / "run"
    first = run_experiment(load_experiment(path), run, options=SERIAL)
    assert len(first.failures) == 3  # the baselines, and a group for each model
    assert all("no word has the feature 'Nummer'" in line for line in first.failures)
    assert first.n_computed == first.n_cells * 2 // 3
    frame = read_results(run).to_pandas()
    failed = frame[frame.status == "failed"]
    assert set(failed.task) == {"feats:Nummer"}
    assert failed.value.isna().all()
    assert "cells without a score" in (run / "layers.md").read_text()
    record = json.loads(next((run / "cells").glob("*.failed.json")).read_text())
    assert record["status"] == "failed"
    assert "Traceback" in record["error"]["traceback"]
    # They are not tried again unless asked to be.
    tried: list[Any] = []
    from bertology.runner import engines

    real = engines.compute_load
    monkeypatch.setattr(engines, "compute_load", lambda load, *a: tried.append(load) or real(load, *a))
    assert run_experiment(load_experiment(path), run, options=SERIAL).failures == first.failures
    assert tried == []
    again = run_experiment(load_experiment(path), run, options=RunOptions(engine="serial", retry_failed=True))
    assert (len(tried), again.failures) == (3, first.failures)


def test_what_is_mended_is_computed(
    write_experiment: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by nought")

    path, run = write_experiment(tmp_path), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(labels, "fit", fails)
        broken = run_experiment(load_experiment(path), run, options=SERIAL)
        assert len(broken.failures) == 4
        assert broken.failures[0].endswith("ZeroDivisionError: by nought")
        # To see it where it happens:
        options = RunOptions(engine="serial", fail_fast=True, retry_failed=True)
        with pytest.raises(ZeroDivisionError, match="by nought"):
            run_experiment(load_experiment(path), run, options=options)
    mended = run_experiment(load_experiment(path), run, options=RunOptions(engine="serial", retry_failed=True))
    assert mended.failures == ()
    assert not list((run / "cells").glob("*.failed.json"))
    assert set(read_results(run).to_pandas().status) == {"ok"}


def test_a_process_that_is_killed_is_told_in_one_line(
    write_experiment: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import signal

    from bertology.runner import engines

    def deadly(*_: Any, **__: Any) -> None:  # inside of the test, so that it reaches the processes by value
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(engines, "_unpacked", deadly)
    experiment = load_experiment(write_experiment(tmp_path))
    with pytest.raises(BertologyError, match="a process of the run was killed, perhaps as memory ran out"):
        run_experiment(experiment, tmp_path / "run", options=RunOptions(jobs=2))


def test_want_of_memory_in_a_fit_is_a_failure_in_one_line(
    write_experiment: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bertology.readouts import LinearReadout

    def full(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 3.20 GiB for an array with shape (7, 8)")

    monkeypatch.setattr(LinearReadout, "fit", full)
    run = tmp_path / "run"
    summary = run_experiment(load_experiment(write_experiment(tmp_path)), run, options=SERIAL)
    assert len(summary.failures) == 2
    for line in summary.failures:
        assert "not enough memory (3.20 GiB asked for at once, " in line
        assert line.endswith("compute in bfloat16 (--dtype), or run fewer processes (--jobs)")
        assert "\n" not in line
    record = json.loads(next((run / "cells").glob("*.failed.json")).read_text())
    assert record["error"]["type"] == "MemoryError"
    assert "Unable to allocate" in record["error"]["traceback"]


def test_fail_fast_stops(write_experiment: Callable[..., Path], tmp_path: Path) -> None:
    path = write_experiment(tmp_path, "- pos", '- "feats:Nummer"\n  - pos')
    summary = run_experiment(
        load_experiment(path), tmp_path / "run", options=RunOptions(engine="serial", fail_fast=True)
    )
    assert (summary.n_computed, len(summary.failures)) == (0, 1)


# Folders


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not the folder of a run"),
        ("{", "not readable as the record of a run"),
        ("{}", "written by bertology something else in another format: run it again"),
        ('{"format": 1, "bertology": "0.1.0"}', "written by bertology 0.1.0 in another format: run it again"),
        ('{"format": 3, "bertology": "0.0.1"}', "experiment: Field required"),
    ],
)
def test_folders_that_are_no_run_of_ours(
    write_experiment: Callable[..., Path], tmp_path: Path, content: str | None, message: str
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "note.txt").write_text("mine")
    if content is not None:
        (tmp_path / "run" / "run.json").write_text(content)
    with pytest.raises(BertologyError, match=message):
        run_experiment(load_experiment(write_experiment(tmp_path)), tmp_path / "run")
    assert (tmp_path / "run" / "note.txt").read_text() == "mine"


# Estimates


def test_an_estimate_before_and_after(mine: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, run = mine
    work = resolve_work(load_experiment(path))
    done = estimate(work, run)
    assert sum(pair.n_finished for pair in done.pairs) == done.n_cells == work.n_cells
    assert "nothing is left to do" in done.to_text()
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "empty"))
    before = estimate(work, tmp_path / "elsewhere")
    n_words = sum(split.n_words for split in work.plans[0].pair.splits.by_name.values())
    for pair in before.pairs:
        assert pair.vectors == pair.vectors_missing == n_words * 2 * 32 * 2  # layers, width, bytes
    assert before.seconds > 0
    assert "0 finished" in before.to_text()


def test_an_estimate_of_a_probe_of_trees(tmp_path: Path) -> None:
    some = {"name": "some", "models": ["pocket"], "corpora": [{"name": "pocket", "sentences": 40}], "layers": "0"}
    work = resolve_work(experiment_of({**some, "tasks": ["structural_distance"]}, where="test"))
    assert [pair.flops > 0 and pair.problems == () for pair in estimate(work, tmp_path).pairs] == [True]


def test_a_task_may_name_its_models_and_a_readout_its_fits_and_controls() -> None:
    plain = {"name": "some", "models": [{"name": "pocket", "id": "a"}, {"name": "pocket", "id": "b", "init": "random"}]}
    corpora = [{"name": "pocket", "sentences": 40}]
    readouts = [{"name": "mlp", "seeds": 2}, {"name": "linear", "random": False}]
    tasks = [{"name": "pos", "models": ["b"]}, {"name": "deprel", "models": ["a"], "readout": readouts}]
    work = resolve_work(
        experiment_of({**plain, "corpora": corpora, "tasks": tasks, "controls": ["random"]}, where="test")
    )
    named = [(unit.probe.task, unit.plan.pair.source.name, unit.is_random_control) for unit in work.units]
    assert named == [*[("deprel", "a", False)] * 2, ("deprel", "a", True), ("pos", "b", False)]
    n_cells = {unit.draws[0][0].config.readout: len(unit.cells) for unit in work.units[:2]}
    assert n_cells["mlp.v1"] == 2 * n_cells["linear.v1"]
    with pytest.raises(BertologyError, match="task pos asks for model 'c': there is a, b, pocket"):
        experiment_of({**plain, "corpora": corpora, "tasks": [{"name": "pos", "models": ["c"]}]}, where="test")
