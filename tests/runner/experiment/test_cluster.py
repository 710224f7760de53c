"""Which cluster is meant: what a person may get wrong, and what Slurm would be asked."""

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology.errors import BertologyError
from bertology.runner import RunOptions, run_experiment
from bertology.runner.engines import ClusterChoice
from bertology.runner.experiment import load_experiment
from bertology.runner.run import RunSummary

PROFILE = """\
jobs: 2
cores: 4
memory: 8GB
queue: short
walltime: '00:30:00'
job_extra_directives: ['--gres=gpu:1']
job_script_prologue: [source env/bin/activate]
worker_extra_args: [--resources, GPU=1]
"""

Write = Callable[..., Path]


@pytest.fixture
def profile(tmp_path: Path) -> Write:
    """Write the profile into a file, with a text in it replaced by another."""

    def write(old: str = "", new: str = "") -> Path:
        assert old in PROFILE
        path = tmp_path / "slurm.yaml"
        path.write_text(PROFILE.replace(old, new) if old else PROFILE)
        return path

    return write


def test_the_job_that_slurm_is_given(profile: Write) -> None:
    from bertology.runner.engines import read_profile

    found = read_profile(profile())
    assert found.most_workers == 8
    with found.cluster() as cluster:
        script = cluster.job_script()
        assert cluster.scheduler_address in script
    for line in (
        *("#SBATCH -p short", "#SBATCH -n 1", "#SBATCH --cpus-per-task=4", "#SBATCH -t 00:30:00"),
        *("#SBATCH --gres=gpu:1", "source env/bin/activate"),
    ):
        assert line in script.splitlines()
    # A worker for each core, one thread each, as fits are pinned to one.
    assert re.search(r"dask_worker .*--nthreads 1 .*--nworkers 4 .*--resources GPU=1", script)


def test_one_worker_for_a_gpu(profile: Write) -> None:
    from bertology.runner.engines import read_profile

    found = read_profile(profile("jobs: 2", "jobs: {minimum: 1, maximum: 20}\nprocesses: 1"))
    assert found.most_workers == 20
    with found.cluster() as cluster:
        assert re.search(r"dask_worker .*--nthreads 4 ", cluster.job_script())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("queue: short", "que: short", ":4: unknown key 'que': did you mean queue?"),
        ("cores: 4", "cores: many", ":2: cores: should be a whole number, not 'many'"),
        ("jobs: 2", "jobs: {maximum: 2, minimum: 3}", ":1: jobs: minimum is 3 and maximum 2"),
        ("['--gres=gpu:1']", "--gres=gpu:1", ":6: job_extra_directives: should be a list, such as [a, b]"),
        (PROFILE, "[]", ":1: a profile of Slurm jobs is a mapping of keys to values"),
    ],
)
def test_profiles_that_are_none(profile: Write, old: str, new: str, message: str) -> None:
    path = profile(old, new)
    with pytest.raises(BertologyError) as raised:
        ClusterChoice(slurm=path).check("dask")
    assert str(raised.value).startswith(f"{path}{message}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("engine", "scheduler", "slurm", "message"),
    [
        ("joblib", "tcp://here:1", None, "--scheduler tcp://here:1 is for the dask engine: add --engine dask"),
        ("serial", None, "s.yaml", "--slurm s.yaml is for the dask engine: add --engine dask"),
        ("dask", "tcp://here:1", "s.yaml", "--scheduler names workers that run, --slurm starts some: give one"),
        ("dask", "here", None, "--scheduler here: no such file, and no address: give the address of a dask"),
        ("dask", None, "none.yaml", "none.yaml: no such file; it should be a profile of Slurm jobs in YAML"),
    ],
)
def test_choices_that_are_none(engine: Any, scheduler: str | None, slurm: str | None, message: str) -> None:
    with pytest.raises(BertologyError, match=f"^{re.escape(message)}"):
        RunOptions(engine=engine, cluster=ClusterChoice(scheduler, Path(slurm) if slurm else None))
    with pytest.raises(BertologyError, match=r"^workers of dask share vectors through the cache"):
        RunOptions(engine="dask", store=False)


@pytest.mark.parametrize("content", ["", "[]", "{}", "\0"])
def test_files_that_are_no_schedulers(tmp_path: Path, content: str) -> None:
    path = tmp_path / "scheduler.json"
    path.write_text(content)
    with pytest.raises(BertologyError, match=r"scheduler\.json: not a scheduler's file: give the address"):
        ClusterChoice(str(path)).check("dask")


def test_addresses() -> None:
    assert ClusterChoice("tls://here:8786").address() == "tls://here:8786"
    assert ClusterChoice("here:8786").address() == "tcp://here:8786"


@pytest.mark.parametrize("package", ["distributed", "dask_jobqueue"])
def test_what_is_not_installed_is_told(profile: Write, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    from bertology.runner import engines as _cluster

    monkeypatch.setattr(_cluster, "find_spec", lambda name: None if name == package else name)
    with pytest.raises(BertologyError, match=r"which is not installed: pip install 'bertology\[distributed\]'"):
        ClusterChoice(slurm=profile()).check("dask")


def test_nobody_at_the_address(trial: tuple[Path, RunSummary], tmp_path: Path) -> None:
    options = RunOptions(engine="dask", cluster=ClusterChoice("tcp://127.0.0.1:9", patience_s=0.2))
    with pytest.raises(BertologyError, match=r"no dask scheduler answers at tcp://127.0.0.1:9 \(.*\): start one by"):
        run_experiment(load_experiment(trial[0]), tmp_path / "run", options=options)


def test_a_machine_that_submits_no_jobs(trial: tuple[Path, RunSummary], tmp_path: Path, profile: Write) -> None:
    options = RunOptions(engine="dask", cluster=ClusterChoice(slurm=profile()))
    with pytest.raises(BertologyError, match=r"slurm.yaml: no sbatch here; run this command where jobs are submitted"):
        run_experiment(load_experiment(trial[0]), tmp_path / "run", options=options)


def test_a_run_on_jobs(
    trial: tuple[Path, RunSummary], tmp_path: Path, cluster: Any, profile: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Slurm as far as dask-jobqueue knows it: a command that takes a script and says the number of the job.
    commands, scripts = tmp_path / "bin", tmp_path / "scripts"
    commands.mkdir()
    scripts.mkdir()
    for name, body in (
        ("sbatch", f'file=$(mktemp {scripts}/XXXXXX)\ncp "$1" "$file.new" && mv "$file.new" "$file.sh"\necho 7'),
        ("scancel", f'echo "$@" > {scripts}/cancelled'),
    ):
        (commands / name).write_text(f"#!/bin/sh\n{body}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=":")

    def start() -> None:
        while not (submitted := list(scripts.glob("*.sh"))):
            time.sleep(0.05)
        address = re.search(r"tcp://\S+", submitted[0].read_text())
        assert address
        cluster.start_worker(address=address[0])

    node = threading.Thread(target=start)
    node.start()
    said: list[str] = []
    options = RunOptions(
        engine="dask", cluster=ClusterChoice(slurm=profile("jobs: 2\ncores: 4", "jobs: 1\ncores: 1")), echo=said.append
    )
    experiment = load_experiment(trial[0], changes=["models=[pocket]", "tasks=[pos]", "layers=0"])
    summary = run_experiment(experiment, tmp_path / "run", options=options)
    node.join()
    assert (summary.n_computed, summary.failures) == (summary.n_cells, ())
    assert said[0] == f"waiting for workers of Slurm ({tmp_path / 'slurm.yaml'})"
    assert (scripts / "cancelled").read_text() == "7\n"
