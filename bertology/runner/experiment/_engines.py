"""Where units are computed: here, one after the other, in several processes of this machine, or on a cluster."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from bertology._temporary import end_with_parent
from bertology.activations import silent
from bertology.errors import BertologyError
from bertology.runner._draws import Weights
from bertology.runner._plan import Group
from bertology.runner._run import ProgressFor, check_components, extract_splits, opener
from bertology.runner.experiment._cluster import ClusterChoice
from bertology.runner.experiment._compute import Numbered, Outcome, compute_units, together
from bertology.runner.experiment._folder import write_failure
from bertology.runner.experiment._sending import Sent, sending
from bertology.runner.experiment._work import Unit

EngineName = Literal["joblib", "serial", "dask"]
Outcomes = Generator[tuple[int, Outcome | Exception], None, None]


@dataclass(frozen=True)
class Job:
    """What holds for all units of a run."""

    run: Path
    """The run's folder."""
    device: str
    """Where fits are computed and models read."""
    wait: bool = False
    """Wait for other processes that are at a unit; otherwise it is ``busy``."""
    is_pending: Callable[[Unit], bool] = lambda _: True
    """Whether a unit is still to be computed: another process may have done it in the meantime."""
    progress: ProgressFor = lambda _: silent


Engine = Callable[[Sequence[Unit], Job], Outcomes]
"""Units in; the number and outcome of each as they come, vectors and all. Those no longer pending do not come."""


def choose_device(name: EngineName, groups: Sequence[Group], *, device: str, cluster: ClusterChoice) -> str:
    """The device that an engine computes on; raises where it, or a readout, is not there."""
    if name == "dask" and not cluster.is_local:
        # What the workers have is not for this machine to say.
        check_components(groups, device="cpu")
        return device
    return check_components(groups, device=device)


@contextlib.contextmanager
def open_engine(
    name: EngineName, *, jobs: int | None, device: str, cluster: ClusterChoice, run: Path, echo: Callable[[str], None]
) -> Iterator[Engine]:
    """The engine of that name, while in the ``with`` block.

    Args:
        name: ``joblib``; ``serial`` to see a failure where it happens; ``dask`` for the workers of a cluster.
        jobs: processes on this machine; as many as processors when left out, one where a GPU computes.
        device: where fits run.
        cluster: which workers ``dask`` gives its work to.
        run: the run's folder.
        echo: told what a person waits for.
    """
    n_jobs = jobs or (_processors() if device == "cpu" else 1)
    if name == "dask":
        from bertology.runner.experiment._dask import dask_engine
        from bertology.runner.experiment._dask_pool import open_pool

        with open_pool(cluster, jobs=n_jobs, run=run, echo=echo) as pool:
            yield dask_engine(pool)
    else:
        yield serial if name == "serial" or n_jobs == 1 else _joblib(n_jobs)


def serial(units: Sequence[Unit], job: Job) -> Outcomes:
    """One unit after the other, in this process."""
    for portion in portions(units):
        ready = yield from _with_vectors(portion, job)
        for load in together(ready):
            yield from _computed(load, job.run, device=job.device, wait=job.wait)


def _joblib(n_jobs: int) -> Engine:
    def engine(units: Sequence[Unit], job: Job) -> Outcomes:
        from joblib import Parallel, delayed

        with sending(job.run) as send, _explained_ends():
            for portion in portions(units):
                loads = together((yield from _with_vectors(portion, job)))
                if len(loads) < 2:
                    # Starting processes takes longer than many a fit.
                    for load in loads:
                        yield from _computed(load, job.run, device=job.device, wait=job.wait)
                    continue
                parallel = Parallel(
                    n_jobs=min(n_jobs, len(loads)),
                    return_as="generator_unordered",
                    pre_dispatch="all",
                    initializer=end_with_parent,
                    initargs=(os.getpid(),),
                    # What is sent is small: nothing is put into files, for which a folder would be made elsewhere.
                    max_nbytes=None,
                    temp_folder=tempfile.gettempdir(),
                )
                sent = ([(number, send(unit)) for number, unit in load] for load in loads)
                found = parallel(delayed(_unpacked)(load, job.run, device=job.device, wait=job.wait) for load in sent)
                with contextlib.closing(found):
                    for outcomes in found:
                        yield from outcomes

    return engine


def portions(units: Sequence[Unit]) -> Iterator[list[Numbered]]:
    """Numbered units by plan: what one model reads of one corpus is read once, for all its tasks."""
    for _, portion in groupby(enumerate(units), key=lambda numbered: id(numbered[1].plan)):
        yield list(portion)


def _with_vectors(portion: Sequence[Numbered], job: Job) -> Generator[tuple[int, Exception], None, list[Numbered]]:
    """Read what units need that are still pending, and return them; those whose model cannot be read are yielded."""
    errors: dict[Weights, Exception | None] = {}
    ready = []
    for number, unit in [(number, unit) for number, unit in portion if job.is_pending(unit)]:
        if isinstance(unit.part, Group) and unit.reads_vectors:
            for weights in unit.weights:
                if weights not in errors:
                    errors[weights] = _extract(unit, weights, job)
            error = next((error for weights in unit.weights if (error := errors[weights]) is not None), None)
            if error is not None:
                write_failure(job.run, unit, error)
                yield number, error
                continue
        ready.append((number, unit))
    return ready


def _extract(unit: Unit, weights: Weights, job: Job) -> Exception | None:
    try:
        extract_splits(unit.plan, weights, opener(unit.plan, weights, job.device), job.progress)
    except Exception as error:
        # A model that cannot be read is no bar to the others.
        return error
    return None


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


def _computed(load: Sequence[Numbered], run: Path, *, device: str, wait: bool) -> list[tuple[int, Outcome | Exception]]:
    outcomes = compute_units([unit for _, unit in load], run, device=device, wait=wait)
    return in_telling_order(load, outcomes)


def in_telling_order(
    load: Sequence[Numbered], outcomes: Iterable[Outcome | Exception]
) -> list[tuple[int, Outcome | Exception]]:
    """What is done first: a failure may end the run."""
    numbered = zip((number for number, _ in load), outcomes, strict=True)
    return sorted(numbered, key=lambda found: isinstance(found[1], Exception))


def _unpacked(
    load: Sequence[tuple[int, Sent]], run: Path, *, device: str, wait: bool
) -> list[tuple[int, Outcome | Exception]]:
    return _computed([(number, unit.unpacked()) for number, unit in load], run, device=device, wait=wait)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
