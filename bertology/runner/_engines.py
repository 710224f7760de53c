"""Engines that compute units: in this process, in its threads or in several processes; and the choice of a cluster."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import re
import signal
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertology._files import digest
from bertology._inputs import NotJson, exists, given_path, parsed_json, read_text
from bertology._settings import Text, Truth, Whole, checked, read_yaml
from bertology._temporary import end_with_parent, temporary_folder
from bertology.activations.progress import Progress
from bertology.corpora import Corpus, Sentences
from bertology.errors import BertologyError, cut_path
from bertology.families.model_corpus import ModelCorpus, Splits, StoredSignal
from bertology.runner._compute import (
    Context,
    Numbered,
    Outcome,
    ProgressFor,
    all_threads,
    compute_units,
    extract_splits,
    one_thread,
    together,
)
from bertology.runner._folder import write_failure
from bertology.runner._plan import Plan, Unit

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
    """Bounds of the number of jobs; a number stands for exactly that many."""

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


_NOTHING = Sentences()


def loaded(unit: Unit, splits: Splits) -> Unit:
    """A unit whose plan was made :meth:`Transport.light`, with the sentences of the plan."""
    return replace(unit, plan=replace(unit.plan, pair=unit.plan.pair.on(unit.plan.pair.corpus, splits)))


class Transport:
    """The corpora of many plans, each serialised once however many models read it."""

    def __init__(self) -> None:
        self._packed: dict[tuple[int, ...], tuple[Splits, str]] = {}
        self._light: dict[int, tuple[Plan, Plan]] = {}

    def light(self, plan: Plan) -> Plan:
        """The plan without a sentence in it, to be sent many times; :func:`loaded` makes it whole."""
        # The plan itself is kept, so that no other can come to have its id.
        if id(plan) not in self._light:
            # What has been worked out of a plan stays behind as well, and so do the corpus's other splits.
            splits = Splits(_NOTHING, _NOTHING, _NOTHING, plan.pair.splits.notes)
            pair = _placed(plan.pair.on(Corpus(plan.pair.corpus.name, {}), splits))
            self._light[id(plan)] = plan, replace(plan, pair=pair)
        return self._light[id(plan)][1]

    def name(self, splits: Splits, keep: Callable[[str, bytes], object]) -> str:
        """A name for the content of ``splits``; ``keep`` is given name and content when it is asked for first."""
        key = tuple(id(read) for read in (*splits.by_name.values(), *splits.items.values(), *splits.folds))
        if key not in self._packed:
            content = pickle.dumps(splits, protocol=pickle.HIGHEST_PROTOCOL)
            name = digest([content])
            keep(name, content)
            self._packed[key] = splits, name
        return self._packed[key][1]


def _placed(pair: ModelCorpus) -> ModelCorpus:
    """Models by the absolute paths of their folders."""
    reference = None if pair.reference is None else _placed(pair.reference)
    return replace(pair, source=replace(pair.source, folder=pair.source.folder.absolute()), reference=reference)


Sent = tuple[Unit, Path]
"""A unit as it is sent to a process of this machine, without its sentences, and the file that has them."""


@lru_cache(maxsize=1)
def splits_in(file: Path) -> Splits:
    """The splits in a file of :func:`sending`."""
    return unpack(file.read_bytes())


def unpack(content: bytes) -> Splits:
    splits = pickle.loads(content)
    assert isinstance(splits, Splits)
    return splits


@contextlib.contextmanager
def sending(run: Path) -> Iterator[Callable[[Unit], Sent]]:
    """Make units ready for processes of this machine, which can unpack them while in the ``with`` block."""
    transport = Transport()
    with temporary_folder(run, "corpora") as folder:

        def send(unit: Unit) -> Sent:
            name = transport.name(unit.plan.pair.splits, lambda name, content: (folder / name).write_bytes(content))
            return replace(unit, plan=transport.light(unit.plan)), folder / name

        yield send


Note = tuple[Progress, str]
"""A note, and the display that shows it."""
Outcomes = Generator[tuple[int, Outcome | Exception], None, None]
Engine = Callable[[Sequence[Unit], Context], Outcomes]
"""Units in; the number and outcome of each as they come, vectors and all. Those no longer pending do not come."""


def local_engine(name: Literal["joblib", "threads", "serial"], n_jobs: int) -> Engine:
    """The engine of that name on this machine; whichever is asked for, one job is done in this process."""
    engine = _joblib if name == "joblib" else _threads
    return serial if name == "serial" or n_jobs == 1 else partial(engine, n_jobs)


def serial(units: Sequence[Unit], context: Context) -> Outcomes:
    """One unit after the other, in this process."""
    for portion in portions(units):
        ready = yield from _with_vectors(portion, context)
        for load in together(ready):
            yield from _computed(load, context)


def _threads(n_threads: int, units: Sequence[Unit], context: Context) -> Outcomes:
    """Fits side by side in threads of this process, each computing on one thread; everything else one by one.

    Threads start at once, where processes would take longer to start than many a fit to compute. What a person learns
    of fits comes in the order of the units, whichever ends first.
    """
    for portion in portions(units):
        loads = together((yield from _with_vectors(portion, context)))
        # Hooks and gates belong to the one model that is open, so that its passes do not run side by side.
        fits = [load for load in loads if load[0][1].reads]
        for load in [load for load in loads if not load[0][1].reads]:
            with all_threads() if load[0][1].draws else contextlib.nullcontext():
                outcomes_of_load = _computed(load, context)
            yield from outcomes_of_load
        parts = [part for load in fits for part in _draw_by_draw(load)]
        n_fits = sum(bool(unit.draws) for ((_, unit), *_) in parts)
        sharing = replace(context, side_by_side=max(1, min(n_threads, n_fits)))
        stopped, notes = Event(), [list[Note]() for _ in parts]
        # One fit may spread its layers over all threads.
        with ThreadPoolExecutor(n_threads) as pool, one_thread() if len(parts) > 1 else contextlib.nullcontext():
            displays = [_in_thread(context.progress, stopped, kept) for kept in notes]
            jobs = [replace(sharing, progress=display) for display in displays]
            futures = [pool.submit(_computed, *job) for job in zip(parts, jobs, strict=True)]
            ended = zip(futures, notes, strict=True)
            try:
                for load in fits:
                    outcomes: dict[int, list[Outcome | Exception]] = {number: [] for number, _ in load}
                    for future, kept in itertools.islice(ended, len(_draw_by_draw(load))):
                        for number, outcome in future.result():
                            outcomes[number].append(outcome)
                        for display, text in kept:
                            display.note(text)
                    yield from ((number, _of_all(of_unit)) for number, of_unit in outcomes.items())
            finally:
                stopped.set()
                for future in futures:
                    future.cancel()


def _draw_by_draw(load: list[Numbered]) -> list[list[Numbered]]:
    """A unit as one unit for each draw of its weights; units that share a pass as they are."""
    number, unit = load[0]
    return [load] if len(load) > 1 else [[(number, replace(unit, part=(group,)))] for group in unit.draws]


_BY_WEIGHT: tuple[Outcome, ...] = ("busy", "computed", "found")


def _of_all(outcomes: Sequence[Outcome | Exception]) -> Outcome | Exception:
    """The outcome of a unit from those of its draws: a failure, else what is left to do, else what was done."""
    failures = (outcome for outcome in outcomes if isinstance(outcome, Exception))
    return next(failures, None) or next(outcome for outcome in _BY_WEIGHT if outcome in outcomes)


class _Stopped(BaseException):
    """Ends a fit in a thread, when the run ends before it."""


def _in_thread(progress: ProgressFor, stopped: Event, notes: list[Note]) -> ProgressFor:
    return lambda label: _InThread(progress(label), stopped, notes)


class _InThread(Progress):
    """The progress display of a job in a thread: it keeps notes for later, and ends the job once it is stopped."""

    def __init__(self, display: Progress, stopped: Event, notes: list[Note]) -> None:
        self._display, self._stopped, self._notes = display, stopped, notes

    def _shown(self) -> Progress:
        if self._stopped.is_set():
            raise _Stopped
        return self._display

    def start(self, total: int, *, unit: str) -> None:
        self._shown().start(total, unit=unit)

    def advance(self, amount: int) -> None:
        self._shown().advance(amount)

    def skip(self, amount: int) -> None:
        self._shown().skip(amount)

    def finish(self) -> None:
        self._shown().finish()

    def say(self, text: str) -> None:
        self._shown().say(text)

    def note(self, text: str) -> None:
        self._notes.append((self._shown(), text))


def _joblib(n_jobs: int, units: Sequence[Unit], context: Context) -> Outcomes:
    from joblib import Parallel, delayed

    with sending(context.run) as send, _explained_ends():
        for portion in portions(units):
            loads = together((yield from _with_vectors(portion, context)))
            if len(loads) < 2:
                # Starting processes takes longer than many a fit.
                for load in loads:
                    yield from _computed(load, context)
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
            where = (context.run, context.device, context.wait, min(n_jobs, len(loads)))
            with _no_interrupt():
                results = parallel(delayed(_unpacked)(load, *where) for load in sent)
            with contextlib.closing(results):
                for outcomes in results:
                    yield from outcomes


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back while processes are started: they inherit that, and are ended by this one alone, in order."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def portions(units: Sequence[Unit]) -> Iterator[list[Numbered]]:
    """Numbered units by plan: what one model reads of one corpus is read once, for all its tasks."""
    return (list(portion) for _, portion in groupby(enumerate(units), key=lambda numbered: id(numbered[1].plan)))


def _with_vectors(
    portion: Sequence[Numbered], context: Context
) -> Generator[tuple[int, Exception], None, list[Numbered]]:
    """Read what units need that are still pending, and return them; those whose model cannot be read are yielded."""
    errors: dict[StoredSignal, Exception | None] = {}
    ready = []
    for number, unit in [(number, unit) for number, unit in portion if context.is_pending(unit)]:
        for read in unit.reads:
            if read not in errors:
                errors[read] = None
                try:
                    pair = read.pair(unit.plan.pair)
                    extract_splits(pair, read.weights, context.device, context.progress, read.signal)
                except Exception as error:  # a model that cannot be read is no bar to the others
                    errors[read] = error
        failure = next((failure for each in unit.reads if (failure := errors[each]) is not None), None)
        if failure is not None:
            write_failure(context.run, unit, failure)
            yield number, failure
        else:
            ready.append((number, unit))
    return ready


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


def _computed(load: Sequence[Numbered], context: Context) -> list[tuple[int, Outcome | Exception]]:
    return in_telling_order(load, compute_units([unit for _, unit in load], context))


def in_telling_order(
    load: Sequence[Numbered], outcomes: Iterable[Outcome | Exception]
) -> list[tuple[int, Outcome | Exception]]:
    """Outcomes with failures last, since a failure may end the run."""
    numbered = zip((number for number, _ in load), outcomes, strict=True)
    return sorted(numbered, key=lambda outcome: isinstance(outcome[1], Exception))


def _unpacked(
    load: Sequence[tuple[int, Sent]], run: Path, device: str, wait: bool, side_by_side: int
) -> list[tuple[int, Outcome | Exception]]:
    units = [(number, loaded(unit, splits_in(file))) for number, (unit, file) in load]
    return _computed(units, Context(run, device, wait, side_by_side=side_by_side))
