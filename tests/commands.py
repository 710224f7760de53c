"""The command line in processes of their own, which start at once and can be killed.

Starting Python and importing torch takes longer than most commands on tiny data. They are forked from one process that
has imported what they need: each runs the command line from its arguments on, and ends as any other.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NOT_SCORES = ["wall_s", "started_utc"]
MARK = "BERTOLOGY_TEST_COMMANDS"
"""A variable in the environment of all commands, and of all processes that they start."""

# Reads its jobs, one a line (JSON): to start a command, or to wait for one. Answers with process id and exit status.
_FORKING = """
import gc, json, os, signal, sys, tempfile

import joblib.externals.loky.process_executor, pyarrow.dataset, pyarrow.parquet, torch, sklearn.linear_model
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM, BertModel
import bertology.runner, bertology.readouts, bertology.encoders.loading, bertology.activations._extract
import bertology.cli.ask, bertology.cli.keep, bertology.cli.lookup
import bertology.pocket._pretrain, bertology_probes.words, bertology_probes.pos
import bertology.results._results
from bertology.cli import main

# What stays as it is need not be copied by every child.
gc.collect()
gc.freeze()
os.dup2(os.dup(1), 3)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

def die_at_write(left):
    real = os.replace
    def replace(path, target):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(path, target)
    os.replace = replace

def be(job):
    os.close(3)
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, number in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(job[stream], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.update(job["environment"])
    tempfile.tempdir = None
    sys.path[:0] = job["packages"]
    if job["die_at_write"]:
        die_at_write(job["die_at_write"])
    if not job["figures"]:
        bertology.results._results.View.figures = lambda view: {}
    sys.argv = ["bertology", *job["arguments"]]
    main()

for line in sys.stdin:
    job = json.loads(line)
    if "wait" in job:
        answer = os.waitstatus_to_exitcode(os.waitpid(job["wait"], 0)[1])
    else:
        answer = os.fork()
        if answer == 0:
            be(job)
    os.write(3, (json.dumps(answer) + "\\n").encode())
"""


@dataclass
class Running:
    """A command that was started."""

    commands: Commands
    pid: int
    folder: Path
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    """How long it took, once it has ended."""

    def wait(self, *, die_after: float | None = None, by: int = signal.SIGKILL) -> int:
        """Wait until it has ended, or let it die after so many seconds; its exit status, negative for a signal's."""
        # Its id remains its own until it is waited for.
        # Ctrl-C of a terminal goes to all processes of a command.
        kill = os.killpg if by == signal.SIGINT else os.kill
        timer = threading.Timer(1e6 if die_after is None else die_after, kill, (self.pid, by))
        timer.start()
        status = self.commands.ask({"wait": self.pid})
        timer.cancel()
        timer.join()
        self.seconds = time.monotonic() - self.began
        return status

    @property
    def output(self) -> str:
        """What it wrote to standard output."""
        return (self.folder / "stdout").read_text()

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        return (self.folder / "stderr").read_text()


class Commands:
    """Starts commands, each in a folder for its cache, temporary files and standard error."""

    def __init__(self, process: subprocess.Popen[str], mark: str) -> None:
        self._process, self._mark = process, f"{MARK}={mark}".encode()

    def start(
        self,
        folder: Path,
        *arguments: object,
        die_at_write: int = 0,
        packages: Sequence[Path] = (),
        figures: bool = False,
    ) -> Running:
        """Start a command.

        Args:
            folder: has its cache, ``cache``, and its temporary files, ``tmp``.
            arguments: those of the command line.
            die_at_write: kill it when it puts so manyeth a file in its place.
            packages: folders with packages that are installed for this command.
            figures: whether it draws them, which takes longer than many a run.
        """
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        environment = {"BERTOLOGY_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
        if packages:  # for processes that it starts, too
            environment["PYTHONPATH"] = os.pathsep.join(map(str, packages))
        job = {
            "arguments": [str(argument) for argument in arguments],
            "environment": environment,
            "packages": [str(package) for package in packages],
            "figures": figures,
            "stdout": str(folder / "stdout"),
            "stderr": str(folder / "stderr"),
            "die_at_write": die_at_write,
        }
        return Running(self, self.ask(job), folder)

    def run(self, folder: Path, *arguments: object, **options: Any) -> int:
        """Start a command, and wait until it has ended; its exit status."""
        return self.start(folder, *arguments, **options).wait()

    def ask(self, job: dict[str, Any]) -> int:
        """Send a job, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline()))

    def left(self) -> dict[int, str]:
        """Processes of commands that still run, by id with their command lines; on Linux only."""
        found: dict[int, str] = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) != self._process.pid:
                # Others' processes, and those that end right now.
                with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):
                    if self._mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                        line = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ")
                        found[int(entry.name)] = line.decode(errors="replace")[-100:]
        return found


@contextlib.contextmanager
def commands() -> Iterator[Commands]:
    """A process to fork commands from, while in the ``with`` block."""
    own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", MARK: secrets.token_hex(8)}
    with subprocess.Popen(
        [sys.executable, "-c", _FORKING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **own},
    ) as process:
        yield Commands(process, own[MARK])
        process.stdin.close()  # type: ignore[union-attr]


def scores(run: Path) -> pa.Table:
    """The table of a run's folder without what differs between two runs of the same: when, and how long."""
    return pq.ParquetFile(run / "results.parquet").read().drop_columns(NOT_SCORES)


def assert_same(run: Path, other: Path) -> None:
    """The same scores, byte for byte, and the same predictions."""
    first, second = scores(run), scores(other)
    assert first.num_rows > 15
    assert first.equals(second)
    assert _serialised(first) == _serialised(second)
    predictions = {path.name: path.read_bytes() for path in (other / "predictions").iterdir()}
    assert {path.name: path.read_bytes() for path in (run / "predictions").glob("*.parquet")} == predictions
    assert (run / "comparisons.parquet").read_bytes() == (other / "comparisons.parquet").read_bytes()


def _serialised(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def write_noisy(source: Path, folder: Path) -> Path:
    """A masked language model of BERT's kind with another last block; its folder."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model: Any = AutoModelForMaskedLM.from_pretrained(source)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        for parameter in model.bert.encoder.layer[-1].parameters():
            parameter.add_(torch.randn_like(parameter))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder
