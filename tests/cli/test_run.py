"""``bertology run``, ``plan`` and ``schema`` as a person meets them."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Command = Callable[..., Any]


@pytest.fixture
def file(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small experiment, in the folder that commands are given in."""
    monkeypatch.chdir(tmp_path)
    content = {
        "name": "trial",
        "models": [{"name": str(tiny_bert), "id": "tiny"}],
        "corpora": [{"name": "pocket", "sentences": 30}],
        "tasks": ["pos"],
        "layers": 0,
        "controls": ["majority"],
        "outputs": {"plots": []},
    }
    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_run_and_run_again(bertology: Command, file: Path, tmp_path: Path) -> None:
    first = bertology("run", file, "--engine", "serial")
    assert first.status == 0, first.err
    assert first.out.startswith("2 of 2 cells computed now (")
    assert first.err.splitlines() == ["done    pos on pocket, baselines", "done    pos on pocket, tiny"]
    assert (tmp_path / "runs" / "trial" / "results.parquet").exists()
    again = bertology("run", file)
    assert again.status == 0
    assert again.out.startswith("0 of 2 cells computed now (")
    assert again.out.count("\n") == 1
    assert again.err == ""
    more = bertology("run", file, "--quiet", "--set", "seeds=2", "--engine", "serial")
    assert more.out.startswith("2 of 3 cells computed now (")
    assert more.err == ""


def test_a_run_before_and_after_says_what_differs(
    bertology: Command, file: Path, tiny_bert: Path, noisy_bert: Path, tmp_path: Path
) -> None:
    for name, folder in (("before", tiny_bert), ("after", noisy_bert)):
        shutil.copytree(folder, tmp_path / name / "seed-1")
    models = "models=[./before/seed-1, {name: ./after/seed-1, reference: ./before/seed-1}]"
    ran = bertology("run", file, "--engine", "serial", "--set", models)
    assert ran.status == 0, ran.err
    assert [line.rpartition(", ")[2] for line in ran.err.splitlines()] == ["baselines", "before/seed-1", "after/seed-1"]
    assert "\npos on pocket, accuracy, after/seed-1: " in ran.out


def test_plan_before_anything_is_computed(bertology: Command, file: Path, tmp_path: Path) -> None:
    planned = bertology("plan", file)
    assert planned.status == 0, planned.err
    assert planned.out.startswith("trial: 2 cells, 0 finished, in runs/trial\n  tiny on pocket: 1 layers, 2 cells")
    assert {line.split()[0] for line in planned.out.splitlines()[2:]} == {"time", "memory", "disk"}
    assert not (tmp_path / "runs").exists()


def test_failures_are_told_at_the_end(bertology: Command, file: Path) -> None:
    ended = bertology("run", file, "--engine", "serial", "--quiet", "--set", 'tasks=[pos, "feats:Nummer"]')
    assert ended.status == 1
    lines = ended.err.splitlines()
    assert [line.partition(": task")[0] for line in lines] == [
        "failed: feats:Nummer on pocket, baselines",
        "failed: feats:Nummer on pocket, tiny",
    ]
    assert ended.out.startswith("2 of 4 cells computed now (")
    assert "; some failed, --retry-failed tries them again; tables" in ended.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "seeds=1000000"], "fits of each layer; if that is meant, say so with --yes"),
        (["--set", "seeds=40000", "--set", "layers=all"], "fits of each layer; if that is meant, say so with --yes"),
        (["--shard", "3/2"], "--shard 3/2: write which of how many"),
        (["--engine", "dusk"], "Invalid value for '--engine'"),
        (["--out", "trial.yaml"], "trial.yaml is a file: name another folder with --out"),
        (["--out", "."], "is not the folder of a run (it has no run.json)"),
    ],
)
def test_mistakes(bertology: Command, file: Path, arguments: list[str], message: str) -> None:
    assert message in bertology("run", file, *arguments).one_line()


def test_a_file_that_is_not_there(bertology: Command) -> None:
    assert bertology("run", "none.yaml").one_line().startswith("none.yaml: no such file")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_large_grid_is_only_asked_about_where_it_would_run(
    bertology: Command, file: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    outcome = bertology(command, file, "--set", "seeds=1000000") if command == "run" else bertology("plan", file)
    assert outcome.status == (130 if command == "run" else 0)
    assert ("fits of each layer: go on?" in outcome.err) == (command == "run")


def test_schema(bertology: Command) -> None:
    schema = json.loads(bertology("schema").out)
    assert schema["title"] == "bertology experiment"
    assert {"models", "corpora", "tasks", "include"} <= set(schema["properties"])
    assert json.loads(bertology("schema", "finetune").out)["title"] == "bertology fine-tunings"
    assert bertology("schema", "compress").one_line().startswith("Invalid value for 'command'")


def test_dask_as_it_is_asked_for(bertology: Command, file: Path) -> None:
    for arguments, message in (
        (["--scheduler", "here:1"], "--scheduler here:1 is for the dask engine: add --engine dask"),
        (["--slurm", "s.yaml"], "--slurm s.yaml is for the dask engine: add --engine dask"),
        (["--engine", "dask", "--scheduler", "nowhere"], "--scheduler nowhere: no such file, and no address"),
        (["--engine", "dask", "--slurm", "s.yaml"], "s.yaml: no such file; it should be a profile of Slurm jobs"),
        (
            ["--engine", "dask", "--scheduler", "127.0.0.1:9", "--patience", "1"],
            "no dask scheduler answers at tcp://127",
        ),
    ):
        assert bertology("run", file, *arguments).one_line().startswith(message)
