"""Runs that are killed, and runs that meet in one folder, end in the tables of a run left alone.

All runs are forked from one process that has imported what they need, since starting Python and importing torch takes
longer than the run itself; each is a process of its own that runs the command line from its arguments on.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

N_MOMENTS = 10

# Reads its jobs (JSON): lists of runs that start together, each with the moment after which it is killed, if any.
FORKING = """
import gc, json, os, signal, sys, threading, time

import pyarrow.dataset, pyarrow.parquet, torch, sklearn.linear_model
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM, BertModel
import bertology.runner.experiment, bertology.readouts, bertology.encoders._load, bertology.activations._extract
import bertology.cli._app, probes.chunk, probes.pos
from bertology.cli import main

# What stays as it is need not be copied by every child.
gc.collect()
gc.freeze()

os.dup2(os.dup(1), 3)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

def start(run):
    child = os.fork()
    if child:
        return child
    os.environ["BERTOLOGY_CACHE"] = run["cache"]
    sys.argv = ["bertology", "run", *run["arguments"]]
    try:
        main()
    except SystemExit as ended:
        os._exit(ended.code)

for line in sys.stdin:
    began = time.monotonic()
    runs = [(start(run), run) for run in json.loads(line)]
    timers = [threading.Timer(run["die_after"], os.kill, (child, signal.SIGKILL)) for child, run in runs
              if run.get("die_after")]
    for timer in timers:
        timer.start()
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, _ in runs]
    for timer in timers:
        timer.cancel()
        timer.join()
    os.write(3, (json.dumps({"codes": codes, "seconds": time.monotonic() - began}) + "\\n").encode())
"""

Start = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def start(one_thread: dict[str, str]) -> Any:
    """Run the command in these folders at once, and say how each ended."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=one_thread
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(*runs: tuple[Path, Path, Path], die_after: float | None = None) -> dict[str, Any]:
            jobs = [
                {
                    "arguments": [str(file), "--engine", "serial", "--out", str(out)],
                    "cache": str(cache),
                    "die_after": die_after,
                }
                for file, out, cache in runs
            ]
            stdin.write(json.dumps(jobs) + "\n")
            stdin.flush()
            answer: dict[str, Any] = json.loads(stdout.readline())
            return answer

        yield run
        stdin.close()


@pytest.fixture(scope="module")
def alone(start: Start, write_experiment: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The file, and the folder and duration of a run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("alone")
    file = write_experiment(folder, "sentences: 40", "sentences: 12")
    ended = start((file, folder / "run", folder / "cache"))
    assert ended["codes"] == [0]
    return file, folder / "run", ended["seconds"]


def assert_same(run: Path, other: Path, scores: Callable[[Path], pa.Table]) -> None:
    assert scores(run).equals(scores(other))
    assert (run / "comparisons.parquet").read_bytes() == (other / "comparisons.parquet").read_bytes()
    kept = {path.name: path.read_bytes() for path in (other / "predictions").iterdir()}
    assert {path.name: path.read_bytes() for path in (run / "predictions").glob("*.parquet")} == kept


def test_killed_at_random_moments(start: Start, alone: Any, tmp_path: Path, scores: Callable[[Path], pa.Table]) -> None:
    file, whole, seconds = alone
    draw = random.Random(7)
    killed = attempts = 0
    while killed < N_MOMENTS:
        attempts += 1
        assert attempts <= 3 * N_MOMENTS, "runs keep ending before they can be killed"
        folder = tmp_path / str(attempts)
        place = (file, folder / "run", folder / "cache")
        ended = start(place, die_after=(killed + draw.random()) / (N_MOMENTS + 1) * seconds)
        if ended["codes"] == [0]:
            # The run left alone met a busier machine: this one says better how long a run takes.
            seconds = min(seconds, ended["seconds"])
            continue
        assert ended["codes"] == [-signal.SIGKILL]
        killed += 1
        assert start(place)["codes"] == [0]
        assert_same(folder / "run", whole, scores)


def test_two_at_once_share_the_work(
    start: Start, alone: Any, tmp_path: Path, scores: Callable[[Path], pa.Table]
) -> None:
    file, whole, _ = alone
    place = (file, tmp_path / "run", tmp_path / "cache")
    assert start(place, place)["codes"] == [0, 0]
    assert_same(tmp_path / "run", whole, scores)
    sessions = json.loads((tmp_path / "run" / "run.json").read_text())["sessions"]
    n_cells = len(list((tmp_path / "run" / "cells").glob("*.json")))
    assert sum(session["cells_computed"] for session in sessions) == n_cells
