"""Which workers the dask engine gives its work to, as a person chooses them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bertology._inputs import NotJson, exists, given_path, parsed_json, read_text
from bertology.errors import BertologyError, cut_path

_INSTALL = "pip install 'bertology[distributed]'"
_ADDRESS = re.compile(r"(?:[a-z]+://)?[^/\s]+:\d+")
_REMEDY = "give the address of a dask scheduler, such as tcp://host:8786, or the file it was told to write"
PATIENCE_S = 120.0
_CONNECT_S = 10.0


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

    @property
    def connect_s(self) -> float:
        """How long a scheduler may take to answer."""
        return min(_CONNECT_S, self.patience_s or _CONNECT_S)

    def check(self, engine: str) -> None:
        """Find what is wrong with the choice before anything is done.

        Raises:
            BertologyError: it does not go with the engine, cannot be read, or something is not installed.
        """
        if engine != "dask":
            for option, given in (("scheduler", self.scheduler), ("slurm", self.slurm)):
                if given is not None:
                    raise BertologyError(f"--{option} {given} is for the dask engine: add --engine dask")
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
            from bertology.runner.engines._slurm import read_profile

            read_profile(self.slurm)

    def address(self) -> str:
        """The address of the scheduler that was named.

        Raises:
            BertologyError: it is neither an address nor a scheduler's file.
        """
        given = self.scheduler or ""
        path = given_path(given)
        if not path.is_file() and _ADDRESS.fullmatch(given):
            return given if "://" in given else f"tcp://{given}"
        if not exists(path):
            raise BertologyError(f"--scheduler {cut_path(given)}: no such file, and no address: {_REMEDY}")
        try:
            address = parsed_json(read_text(path))["address"]
        except (BertologyError, NotJson, TypeError, KeyError):
            raise BertologyError(f"--scheduler {cut_path(given)}: not a scheduler's file: {_REMEDY}") from None
        return str(address)
