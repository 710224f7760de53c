"""Which workers the dask engine gives its work to, as a person chooses them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertology._inputs import NotJson, exists, given_path, parsed_json, read_text
from bertology._settings import Text, Truth, Whole, checked, read_yaml
from bertology.errors import BertologyError, cut_path

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster

_INSTALL = "pip install 'bertology[distributed]'"
_ADDRESS = re.compile(r"(?:[a-z]+://)?[^/\s]+:\d+")
_REMEDY = "give the address of a dask scheduler, such as tcp://host:8786, or the file it was told to write"
PATIENCE_S = 120.0
CONNECT_S = 10.0


@dataclass(frozen=True)
class ClusterChoice:
    """A scheduler that runs, jobs that Slurm is to start, or, where nothing is named, processes of this machine."""

    scheduler: str | None = None
    """Address of a dask scheduler, or the file that ``dask scheduler --scheduler-file`` writes."""
    slurm: Path | None = None
    """A YAML file that says how Slurm jobs with workers are submitted."""
    patience_s: float | None = None
    """Give up after so many seconds without any worker. When left out two minutes; without end for the first workers of
    Slurm, which may have to stand in a queue."""

    @property
    def is_local(self) -> bool:
        """Whether the workers are processes of this machine that are started for the run."""
        return self.scheduler is None and self.slurm is None

    def check(self, engine: str | None) -> None:
        """Raise what is wrong with the choice, or not installed, before anything is done."""
        if engine != "dask":
            for option in ("scheduler", "slurm"):
                if (value := getattr(self, option)) is not None:
                    raise BertologyError(f"--{option} {value} is for the dask engine: add --engine dask")
            return
        if self.scheduler is not None and self.slurm is not None:
            raise BertologyError("--scheduler names workers that run, --slurm starts some: give one of the two")
        if find_spec("distributed") is None:
            raise BertologyError(f"--engine dask needs dask.distributed, which is not installed: {_INSTALL}")
        if self.scheduler is not None:
            self.address()
        if self.slurm is not None:
            if find_spec("dask_jobqueue") is None:
                raise BertologyError(f"--slurm needs dask-jobqueue, which is not installed: {_INSTALL}")
            read_profile(self.slurm)

    def address(self) -> str:
        """The address of the scheduler that was named, by itself or by the scheduler's file."""
        given = self.scheduler or ""
        path = given_path(given)
        if not path.is_file() and _ADDRESS.fullmatch(given):
            return given if "://" in given else f"tcp://{given}"
        problem = "not a scheduler's file" if exists(path) else "no such file, and no address"
        try:
            return str(parsed_json(read_text(path))["address"])
        except (BertologyError, NotJson, TypeError, KeyError):
            raise BertologyError(f"--scheduler {cut_path(given)}: {problem}: {_REMEDY}") from None


_Count = Annotated[Whole, Field(ge=1)]


class _Profile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Bounds(_Profile):
    """How many jobs there may be, as work comes and goes; a number stands for just so many."""

    minimum: Annotated[Whole, Field(ge=0)] = 0
    """Never fewer."""
    maximum: _Count
    """Never more."""

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, given: Any) -> Any:
        is_number = isinstance(given, int) and not isinstance(given, bool)
        return {"minimum": given, "maximum": given} if is_number else given

    @model_validator(mode="after")
    def _ordered(self) -> Bounds:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum is {self.minimum} and maximum {self.maximum}: the first should be the smaller")
        return self


class SlurmProfile(_Profile):
    """Keyword arguments of dask-jobqueue's ``SLURMCluster``, by their names there, and the number of jobs."""

    jobs: Bounds
    """How many jobs to submit: a number, or `{minimum: 1, maximum: 20}` to follow the work there is."""
    cores: _Count
    """Cores of a job."""
    memory: Text
    """Memory of a job, such as `16GB`."""
    processes: _Count | None = None
    """Workers of a job; as many as cores when left out. One where the job has one GPU."""
    queue: Text | None = None
    """Partition."""
    account: Text | None = None
    walltime: Text | None = None
    """Such as `'02:00:00'`."""
    job_name: Text | None = None
    job_cpu: _Count | None = None
    """Cores to ask Slurm for, where they are not those of the workers."""
    job_mem: Text | None = None
    job_extra_directives: tuple[Text, ...] | None = None
    """Further lines of `#SBATCH`: `--gres=gpu:1`."""
    job_directives_skip: tuple[Text, ...] | None = None
    job_script_prologue: tuple[Text, ...] | None = None
    """Commands before the worker starts: `source venv/bin/activate`."""
    worker_extra_args: tuple[Text, ...] | None = None
    """Further arguments of `dask worker`: `--resources`, `GPU=1`."""
    local_directory: Text | None = None
    """A fast folder of the node for what workers spill."""
    shared_temp_directory: Text | None = None
    log_directory: Text | None = None
    interface: Text | None = None
    """Network interface, such as `ib0`."""
    protocol: Text | None = None
    python: Text | None = None
    shebang: Text | None = None
    nanny: Truth | None = None
    death_timeout: _Count | None = None
    scheduler_options: dict[str, Any] | None = None

    @property
    def most_workers(self) -> int:
        return self.jobs.maximum * (self.processes or self.cores)

    def cluster(self) -> SLURMCluster:
        """The cluster, its scheduler in this process, no job submitted yet."""
        from dask_jobqueue import SLURMCluster

        # In the form of JSON, as dask-jobqueue adds to some sequences, which have to be lists.
        plain = self.model_dump(mode="json", exclude_none=True, exclude={"jobs", "processes"})
        # Nobody asked for a dashboard: any port will do.
        plain["scheduler_options"] = {"dashboard_address": ":0", **plain.get("scheduler_options", {})}
        return SLURMCluster(processes=self.processes or self.cores, **plain)

    def submit(self, cluster: SLURMCluster) -> None:
        """Submit the jobs, or let them follow the work."""
        if self.jobs.minimum < self.jobs.maximum:
            cluster.adapt(minimum_jobs=self.jobs.minimum, maximum_jobs=self.jobs.maximum)
        else:
            cluster.scale(jobs=self.jobs.maximum)


def read_profile(path: Path) -> SlurmProfile:
    """The profile that a YAML file holds; errors name file, line and key."""
    what = "a profile of Slurm jobs"
    written = read_yaml(path, what=what)
    if not isinstance(written.value, dict):
        raise BertologyError(f"{written.place}: {what} is a mapping of keys to values, such as 'cores: 4'")
    return checked(SlurmProfile, written, known=lambda path: list((Bounds if path[1:] else SlurmProfile).model_fields))
