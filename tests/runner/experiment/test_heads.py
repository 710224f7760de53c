"""Tasks of attention heads in an experiment: maps are read once for all of them, and each stays a unit of its own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import attention
from bertology.attention.arcs import heads as head_statistics
from bertology.results import predictions
from bertology.results.cells import all_finished
from bertology.runner import RunOptions, run_experiment
from bertology.runner._folder import RunFolder
from bertology.runner.engines import Context, compute_load, together
from bertology.runner.experiment import Experiment
from bertology.runner.plan import resolve_work

Asked = Callable[..., Experiment]
SERIAL = RunOptions(engine="serial")
TASKS = ("head_statistics", "head_syntax", "head_roles")
"""All of maps between words; the second and the third choose heads on dev."""


@pytest.fixture
def asked(tiny_bert: Path) -> Asked:
    """Some tasks of a small model and text."""

    def experiment(*tasks: object, **settings: object) -> Experiment:
        plain = {
            "name": "heads",
            "models": [str(tiny_bert)],
            "corpora": [{"name": "pocket", "sentences": 30}],
            "tasks": list(tasks or TASKS),
            "controls": ["offset"],
            "statistics": {"resamples": 100},
            "outputs": {"plots": []},
        }
        return Experiment.model_validate({**plain, **settings})

    return experiment


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Of every pass over a text its level, and how many statistics it is for."""
    found: list[tuple[str, int]] = []
    once = attention.stream_maps

    def counted(encoder: Any, sentences: Any, statistics: Any, **chosen: Any) -> Any:
        found.append((chosen["level"], len(statistics)))
        return once(encoder, sentences, statistics, **chosen)

    monkeypatch.setattr(attention, "stream_maps", counted)
    return found


def kept(run: Path) -> dict[str, bytes]:
    """What a run's cells hold."""
    found = {path.name: path.read_bytes() for path in (run / "predictions").iterdir()}
    assert found
    return found


@pytest.fixture
def apart(asked: Asked, tmp_path: Path) -> dict[str, bytes]:
    """The cells of the three tasks, each computed in a run of its own."""
    for task in TASKS:
        assert not run_experiment(asked(task), tmp_path / "apart" / task, options=SERIAL).failures
    return {name: content for task in TASKS for name, content in kept(tmp_path / "apart" / task).items()}


def test_maps_are_read_once_for_all_tasks(
    asked: Asked, apart: dict[str, bytes], tmp_path: Path, passes: list[tuple[str, int]]
) -> None:
    passes.clear()
    told: list[str] = []
    summary = run_experiment(asked(), tmp_path / "run", options=RunOptions(engine="serial", echo=told.append))
    # Of dev relations, and for roles neighbours, relations and rare words; of test three more statistics.
    assert passes == [("word", 4), ("word", 7)]
    assert kept(tmp_path / "run") == apart
    assert summary.n_computed == summary.n_cells
    assert [line.split()[1] for line in told if line.startswith("done")].count("head_roles") == 2, "and its baselines"


# What goes wrong


def test_a_task_with_a_mistake_in_it_is_found_by_asking_each_alone(
    asked: Asked, tmp_path: Path, passes: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = ("head_statistics", "head_syntax:trees", "head_roles")
    good = run_experiment(asked("head_statistics", "head_roles", controls=[]), tmp_path / "good", options=SERIAL)
    passes.clear()

    def mistaken(self: Any, batch: Any) -> None:
        raise ZeroDivisionError("by nought")

    with monkeypatch.context() as patch:
        patch.setattr(head_statistics.TreeHits, "update", mistaken)
        summary = run_experiment(asked(*tasks, controls=[]), tmp_path / "run", options=SERIAL)
    assert [line.partition(" on ")[0] for line in summary.failures] == ["head_syntax:trees"]
    assert summary.failures[0].endswith("ZeroDivisionError: by nought")
    assert kept(summary.folder).items() >= kept(good.folder).items()
    (record, *_) = [json.loads(path.read_text()) for path in (summary.folder / "cells").glob("*.failed.json")]
    assert record["identity"]["task"] == "head_syntax:trees"
    assert len(passes) == 1 + 1 + 1 + 2, "all together, and each alone, which ends at once or reads one split or two"
    passes.clear()
    mended = run_experiment(
        asked(*tasks, controls=[]), tmp_path / "run", options=RunOptions(engine="serial", retry_failed=True)
    )
    assert (mended.failures, len(passes)) == ((), 2)
    assert not list((tmp_path / "run" / "cells").glob("*.failed.json"))


# Several processes


@pytest.fixture
def opened(asked: Asked, tmp_path: Path) -> tuple[list[Any], Path]:
    """The three units of the tasks, none of them computed, and the run's folder."""
    work, run = resolve_work(asked(controls=[])), tmp_path / "opened"
    RunFolder(run).open(work)
    ((*load,),) = together(enumerate(work.units))
    return load, run


def test_what_another_process_is_at_is_left_to_it(
    opened: tuple[list[Any], Path], passes: list[tuple[str, int]]
) -> None:
    load, run = opened
    with RunFolder(run).lock(load[1][1].key):
        assert compute_load(load, Context(run, "cpu")) == [(0, "computed"), (1, "busy"), (2, "computed")]
    assert passes == [("word", 3), ("word", 6)]
    assert compute_load(load, Context(run, "cpu", wait=True)) == [(0, "found"), (1, "computed"), (2, "found")]
    assert all(all_finished(run, unit.cells) for _, unit in load)


def test_a_run_that_is_broken_off_goes_on(
    asked: Asked,
    apart: dict[str, bytes],
    tmp_path: Path,
    passes: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[Any] = []
    real = predictions.CellFiles.add

    def breaks_off(files: Any, cell: Any, *given: Any, **more: Any) -> None:
        if cell.identity["task"] == "head_syntax" and cell.identity.get("layer") == 2:
            raise KeyboardInterrupt
        real(files, cell, *given, **more)
        written.append(cell)

    with monkeypatch.context() as patch:
        patch.setattr(predictions.CellFiles, "add", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(asked(), tmp_path / "run", options=SERIAL)
    assert {cell.identity["task"] for cell in written} >= {"head_statistics", "head_syntax"}
    passes.clear()
    run_experiment(asked(), tmp_path / "run", options=SERIAL)
    assert passes == [("word", 4), ("word", 4)], "what was finished is not asked again"
    assert kept(tmp_path / "run") == apart
