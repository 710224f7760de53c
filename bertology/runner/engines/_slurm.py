"""How Slurm jobs with workers are submitted: a profile in YAML, handed to dask-jobqueue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertology._settings import Text, Truth, Whole, checked
from bertology._yaml import read_yaml
from bertology.errors import BertologyError

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster

_Count = Annotated[Whole, Field(ge=1)]
_WHAT = "a profile of Slurm jobs"


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
        """How many workers there can be."""
        return self.jobs.maximum * (self.processes or self.cores)

    def cluster(self) -> SLURMCluster:
        """The cluster, its scheduler in this process, no job submitted yet."""
        from dask_jobqueue import SLURMCluster

        given = self.model_dump(exclude_none=True, exclude={"jobs", "processes"})
        # dask-jobqueue adds to some of them, which have to be lists.
        plain: dict[str, Any] = {
            key: list(value) if isinstance(value, tuple) else value for key, value in given.items()
        }
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
    """The profile that a YAML file holds.

    Raises:
        BertologyError: no such file, or something in it is not as it should be; names file, line and key.
    """
    written = read_yaml(path, what=_WHAT)
    if not isinstance(written.value, dict):
        raise BertologyError(f"{written.place}: {_WHAT} is a mapping of keys to values, such as 'cores: 4'")
    return checked(SlurmProfile, written, known=lambda path: list((Bounds if path[1:] else SlurmProfile).model_fields))
