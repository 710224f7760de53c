"""A run that is killed and started again ends in the scores of a run that was not.

Starting Python and importing torch takes longer than the run itself, so the runs are forked from one process that has
run the command once and so imported all it takes: each is a process of its own that runs the command line from its
arguments on, and dies of SIGKILL like any other. One run is killed and started again as a plain command, too.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

SEED = 20190709
N_MOMENTS = 10
N_WRITES = 3

# Reads one job a line (JSON), does the first itself and forks for each other; answers how it ended and after how long.
FORKING = """
import gc, json, os, signal, sys, threading, time

from bertology.cli import main

os.dup2(os.dup(1), 3)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(1, 2)

def run(job):
    os.environ["BERTOLOGY_CACHE"] = job["cache"]
    sys.argv = ["bertology", *job["arguments"]]
    try:
        main()
    except SystemExit as ended:
        return ended.code

def die_at_write(left):
    real = os.replace
    def replace(path, target):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(path, target)
    os.replace = replace

first = True
for line in sys.stdin:
    job = json.loads(line)
    started = time.monotonic()
    if first:
        status = run(job)
        # What stays as it is need not be copied by every child.
        gc.collect()
        gc.freeze()
    else:
        child = os.fork()
        if child == 0:
            if job["die_at_write"]:
                die_at_write(job["die_at_write"])
            os._exit(run(job))
        killer = threading.Timer(job["die_after"] or 1e6, os.kill, (child, signal.SIGKILL))
        killer.start()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        killer.cancel()
        killer.join()
    first = False
    os.write(3, (json.dumps({"status": status, "seconds": time.monotonic() - started}) + "\\n").encode())
"""

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def arguments(tiny_bert: Path, tiny_corpus: Path) -> list[str]:
    options = {"--task": "pos", "--layers": "0-1", "--model": tiny_bert, "--corpus": tiny_corpus}
    return ["probe", *(str(part) for option in options.items() for part in option)]


@pytest.fixture(scope="module")
def run(arguments: list[str], one_thread: dict[str, str]) -> Iterator[Run]:
    """Run the command in a folder with a cache of its own, to its end or until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=one_thread,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def start(folder: Path, *, die_after: float | None = None, die_at_write: int = 0) -> dict[str, Any]:
            job = {"cache": str(folder / "cache"), "arguments": [*arguments, "--out", str(folder / "out")]}
            stdin.write(json.dumps({**job, "die_after": die_after, "die_at_write": die_at_write}) + "\n")
            stdin.flush()
            ended: dict[str, Any] = json.loads(stdout.readline())
            return ended

        yield start
        stdin.close()


@pytest.fixture(scope="module")
def undisturbed(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A run that nobody kills, and how long it took."""
    assert run(tmp_path_factory.mktemp("first"))["status"] == 0
    folder = tmp_path_factory.mktemp("undisturbed")
    ended = run(folder)
    assert ended["status"] == 0
    return folder / "out", ended["seconds"]


def assert_same(folder: Path, other: Path, scores: Callable[[Path], pa.Table]) -> None:
    """The same scores, byte for byte, and the same predictions."""
    first, second = scores(folder), scores(other)
    assert first.num_rows > 15
    assert first.equals(second)
    assert serialised(first) == serialised(second)
    predictions = {path.name: path.read_bytes() for path in (other / "predictions").iterdir()}
    assert {path.name: path.read_bytes() for path in (folder / "predictions").glob("*.parquet")} == predictions
    assert (folder / "comparisons.parquet").read_bytes() == (other / "comparisons.parquet").read_bytes()


def serialised(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def test_killed_at_ten_random_moments(
    run: Run, undisturbed: tuple[Path, float], tmp_path: Path, scores: Callable[[Path], pa.Table]
) -> None:
    whole, seconds = undisturbed
    draw = random.Random(SEED)
    # One moment in each tenth of the run, so that early and late ones are among them.
    moments = [(number + draw.random()) / N_MOMENTS for number in range(N_MOMENTS)]
    for attempt in range(3 * N_MOMENTS):
        folder = tmp_path / str(attempt)
        ended = run(folder, die_after=moments[-1] * seconds)
        if ended["status"] == 0:
            # The machine has become quicker, and the run ended before its moment came.
            seconds = 0.9 * ended["seconds"]
            continue
        assert ended["status"] == -signal.SIGKILL
        assert run(folder)["status"] == 0
        assert_same(folder / "out", whole, scores)
        moments.pop()
        if not moments:
            break
    assert not moments


def test_killed_while_a_file_is_put_in_its_place(
    run: Run, undisturbed: tuple[Path, float], tmp_path: Path, scores: Callable[[Path], pa.Table]
) -> None:
    whole, _ = undisturbed
    written = [path for path in whole.parent.rglob("*") if path.is_file() and path.suffix != ".lock"]
    tables_and_plots = 5
    for place in random.Random(SEED).sample(range(1, len(written) - tables_and_plots), N_WRITES):
        folder = tmp_path / str(place)
        assert run(folder, die_at_write=place)["status"] == -signal.SIGKILL
        assert not (folder / "out" / "results.parquet").exists()
        assert run(folder)["status"] == 0
        assert_same(folder / "out", whole, scores)


def test_a_plain_command_killed_from_outside(
    run: Run,
    arguments: list[str],
    undisturbed: tuple[Path, float],
    one_thread: dict[str, str],
    tmp_path: Path,
    scores: Callable[[Path], pa.Table],
) -> None:
    whole, _ = undisturbed
    command = [
        sys.executable,
        "-c",
        "from bertology.cli import main; main()",
        *arguments,
        "--out",
        str(tmp_path / "out"),
    ]
    environment = {**one_thread, "BERTOLOGY_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        while not list(tmp_path.glob("out/cells/*.json")):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / "results.parquet").exists()
    assert run(tmp_path)["status"] == 0
    assert_same(tmp_path / "out", whole, scores)
