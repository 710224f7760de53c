"""Where units are computed: here, one after the other, or in several processes of this machine."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from bertology.errors import BertologyError
from bertology.runner.experiment._compute import Outcome, compute_unit
from bertology.runner.experiment._work import Unit

EngineName = Literal["joblib", "serial"]
Engine = Callable[[Sequence[Unit], Path, str, bool], Iterator[tuple[int, Outcome | Exception]]]
"""Units, folder, device and whether to wait for others in; the number and outcome of each as they come."""


def choose_engine(name: EngineName, *, jobs: int | None, device: str) -> Engine:
    """The engine of that name.

    Args:
        name: ``joblib``, or ``serial`` to see a failure where it happens.
        jobs: processes of ``joblib``; as many as processors when left out, one where a GPU computes.
        device: where fits run.
    """
    n_jobs = jobs or (_processors() if device == "cpu" else 1)
    return serial if name == "serial" or n_jobs == 1 else _joblib(n_jobs)


def serial(units: Sequence[Unit], run: Path, device: str, wait: bool) -> Iterator[tuple[int, Outcome | Exception]]:
    """One unit after the other, in this process."""
    for number, unit in enumerate(units):
        yield number, compute_unit(unit, run, device=device, wait=wait)


def _joblib(n_jobs: int) -> Engine:
    def engine(units: Sequence[Unit], run: Path, device: str, wait: bool) -> Iterator[tuple[int, Outcome | Exception]]:
        from joblib import Parallel, delayed

        if len(units) < 2:
            # Starting processes takes longer than many a fit.
            yield from serial(units, run, device, wait)
            return
        parallel = Parallel(n_jobs=min(n_jobs, len(units)), return_as="generator_unordered", pre_dispatch="all")
        jobs = (delayed(_numbered)(number, unit, run, device=device, wait=wait) for number, unit in enumerate(units))
        with _explained_ends():
            yield from parallel(jobs)

    return engine


@contextlib.contextmanager
def _explained_ends() -> Iterator[None]:
    """Processes that end: some are meant to, and of those that were killed a person learns what to do."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    with warnings.catch_warnings():
        # Work that is given up after a failure, and a process that was replaced since its memory had grown.
        for expected in (r"\d+ tasks which were still being processed", "A worker stopped while some jobs were given"):
            warnings.filterwarnings("ignore", message=expected, category=UserWarning)
        try:
            yield
        except TerminatedWorkerError as error:
            raise BertologyError(
                "a process of the run was killed, perhaps as memory ran out: give fewer by --jobs; "
                "what is finished is kept, the same command goes on from here"
            ) from error


def _numbered(number: int, unit: Unit, run: Path, *, device: str, wait: bool) -> tuple[int, Outcome | Exception]:
    return number, compute_unit(unit, run, device=device, wait=wait)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
