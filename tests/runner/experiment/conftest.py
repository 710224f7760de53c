"""A small experiment in a file, the run of it that many tests read, and a dask cluster to kill one by one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import load_experiment
from bertology.runner.run import RunSummary

Write = Callable[..., Path]

TEXT = """\
name: trial
models:
  - {{name: {model}, id: tiny}}
  - {{name: {model}, id: fresh, init: random}}
corpora:
  - {{name: {corpus}, id: small}}
tasks:
  - pos
  - {{name: chunk, readout: ridge}}
layers: 0-1
controls: [majority, word_majority, control_task]
statistics: {{resamples: 200}}
outputs: {{plots: []}}
"""


@pytest.fixture(scope="session")
def write_experiment(tiny_bert: Path) -> Write:
    """Write the experiment into a folder, with a text in it replaced by another."""

    def write(folder: Path, old: str = "", new: str = "", *, corpus: str = "pocket") -> Path:
        text = TEXT.format(model=tiny_bert, corpus=corpus).replace("id: small", "sentences: 40, id: small")
        assert old in text
        path = folder / "trial.yaml"
        path.write_text(text.replace(old, new) if old else text)
        return path

    return write


@pytest.fixture(scope="session")
def trial(write_experiment: Write, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunSummary]:
    """The experiment run in this process: its file, and what it came to."""
    folder = tmp_path_factory.mktemp("trial")
    path = write_experiment(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        summary = run_experiment(load_experiment(path), folder / "run", options=RunOptions(engine="serial"))
    return path, summary


# A cluster

# All processes of a cluster are forked from one that has imported what they need, since importing torch takes longer
# than the tests themselves. Each is a process of its own: a scheduler, or a worker with one thread, as the `dask`
# command starts them. Hooks make sure that what a test does to a worker meets it at work.
FORKING = '''
import asyncio, gc, json, os, sys, time
from pathlib import Path

import distributed, pyarrow.dataset, pyarrow.parquet, torch, sklearn.linear_model
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM, BertModel
import bertology.readouts, bertology.encoders.loading
from bertology.activations import _extract
from bertology.families import labels
from bertology.families.vectors import VectorFamily
from bertology.runner import _dask
import bertology_probes.words, bertology_probes.pos

# What stays as it is need not be copied by every child.
gc.collect()
gc.freeze()

os.dup2(os.dup(1), 3)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

def log(folder, name):
    with open(folder / name, "a") as file:
        file.write(f"{os.getpid()}\\n")

def hang_once(folder, name):
    """The first to come here says who it is and never goes on."""
    try:
        with open(folder / name, "x") as file:
            pass
    except FileExistsError:
        return
    (folder / f"{name}.new").write_text(str(os.getpid()))
    os.replace(folder / f"{name}.new", folder / name)
    time.sleep(600)

def wait_for_another(path):
    """Wait until a second worker has come here as well."""
    deadline = time.monotonic() + 30
    while len(set(path.read_text().split())) < 2:
        if time.monotonic() > deadline:
            raise TimeoutError("no other worker came")
        time.sleep(0.02)

def install(hooks, folder):
    real_fit, real_baselines = labels.fit, VectorFamily.compute_baselines
    real_read = _extract.Extraction.read
    def fit(*args, **options):
        log(folder, "fits")
        if "hang_in_fit" in hooks:
            hang_once(folder, "hanging")
        if "fit_together" in hooks and (folder / "together").exists():
            wait_for_another(folder / "fits")
        return real_fit(*args, **options)
    def read(self, number):
        log(folder, "shards")
        if "hang_in_shard" in hooks:
            hang_once(folder, "hanging")
        if "slow_shards" in hooks:
            time.sleep(0.1)
        return real_read(self, number)
    def write_baselines(*args, **options):
        log(folder, "baselines")
        return real_baselines(*args, **options)
    labels.fit, VectorFamily.compute_baselines, _extract.Extraction.read = fit, write_baselines, read
    if "small_shards" in hooks:
        _extract.SHARD_BYTES, _extract.PIECES_IN_BATCH = 8_000, 128

async def scheduler(job):
    async with distributed.Scheduler(host="127.0.0.1", port=job["port"], dashboard_address=":0") as found:
        os.write(3, (json.dumps(found.address) + "\\n").encode())
        await found.finished()

async def worker(job):
    os.environ.pop("BERTOLOGY_CACHE", None)  # the run says where it is
    install(job["hooks"], Path(job["folder"]))
    async with distributed.Worker(job["address"], nthreads=1, resources=job["resources"], death_timeout=20,
                                  dashboard_address=":0") as found:
        os.write(3, (json.dumps(found.address) + "\\n").encode())
        await found.finished()

for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            asyncio.run(scheduler(job) if job["what"] == "scheduler" else worker(job))
        except Exception as error:
            os.write(3, (json.dumps({"failed": repr(error)}) + "\\n").encode())
        os._exit(0)
    os.write(3, (json.dumps(child) + "\\n").encode())
'''


class Cluster:
    """Processes that forks start; those still there are killed at the end."""

    def __init__(self, forks: subprocess.Popen[str], folder: Path) -> None:
        self._forks, self.folder = forks, folder
        self._pids: list[int] = []
        self.address = ""

    def start_scheduler(self, port: int = 0) -> int:
        """Start a scheduler, and its process id."""
        pid, self.address = self._start({"what": "scheduler", "port": port})
        return pid

    def start_worker(self, *hooks: str, gpus: int = 0, address: str | None = None) -> int:
        """Start a worker, and its process id."""
        job = {"what": "worker", "address": address or self.address, "hooks": hooks, "folder": str(self.folder)}
        pid, _ = self._start({**job, "resources": {"GPU": gpus} if gpus else {}})
        return pid

    def kill(self, *pids: int) -> None:
        """Kill processes as if the power went."""
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            self._pids.remove(pid)

    def stop(self) -> None:
        """Kill what is left."""
        self.kill(*self._pids.copy())

    def logged(self, name: str) -> list[int]:
        """The process ids of workers that did what is called ``name``, as often as they did it."""
        path = self.folder / name
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def hanging(self) -> int:
        """Wait until a worker hangs in the middle of its work; its process id."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            path = self.folder / "hanging"
            if path.exists() and path.read_text():
                return int(path.read_text())
            time.sleep(0.02)
        raise AssertionError("no worker came to the place where it was to hang")

    def _start(self, job: dict[str, Any]) -> tuple[int, str]:
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps(job) + "\n")
        self._forks.stdin.flush()
        answers = [json.loads(self._forks.stdout.readline()) for _ in range(2)]
        assert not any(isinstance(answer, dict) for answer in answers), answers
        pid = next(answer for answer in answers if isinstance(answer, int))
        self._pids.append(pid)
        return pid, next(answer for answer in answers if isinstance(answer, str))


@pytest.fixture(scope="session")
def forks() -> Iterator[subprocess.Popen[str]]:
    """The process that those of all clusters are forked from."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def cluster(forks: subprocess.Popen[str], tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler, without workers yet."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    found = Cluster(forks, folder)
    found.start_scheduler()
    yield found
    found.stop()
