"""Engines that compute units: in this process, in its threads or in several processes; and the choice of a cluster."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
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
from bertology.corpora import Corpus
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
from bertology.runner.plan import Plan, Unit

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
        """Most workers that there will be."""
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


Sent = tuple[Unit, Path]
"""A unit as it is sent to another process, without its sentences, and the file that has them."""


class Sender:
    """Makes units ready for other processes, each corpus serialised once however many models read it.

    Corpora are in a folder of the run while in the ``with`` block.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._stack, self._folder = run, contextlib.ExitStack(), Path()
        # What is known by its id is kept, so that no other can come to have that id.
        self._files: dict[tuple[int, ...], tuple[Splits, Path]] = {}
        self._light: dict[int, tuple[Plan, Plan]] = {}

    def __enter__(self) -> Sender:
        self._folder = self._stack.enter_context(temporary_folder(self._run, "corpora")).absolute()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def file(self, splits: Splits) -> Path:
        """The file with the content of ``splits``."""
        key = tuple([id(read) for read in (*splits.by_name.values(), *splits.items.values(), *splits.folds)])
        if key not in self._files:
            content = pickle.dumps(splits, protocol=pickle.HIGHEST_PROTOCOL)
            path = self._folder / digest([content])
            path.write_bytes(content)
            self._files[key] = splits, path
        return self._files[key][1]

    def send(self, unit: Unit) -> Sent:
        """A unit without a sentence in it, to be sent many times; :func:`received` makes it whole."""
        plan = unit.plan
        if id(plan) not in self._light:
            # What has been worked out of a plan stays behind as well, and so do the corpus's other splits.
            pair = _placed(plan.pair.on(Corpus(plan.pair.corpus.name, {}), Splits(notes=plan.pair.splits.notes)))
            self._light[id(plan)] = plan, replace(plan, pair=pair)
        return replace(unit, plan=self._light[id(plan)][1]), self.file(plan.pair.splits)


def _placed(pair: ModelCorpus) -> ModelCorpus:
    """Models by the absolute paths of their folders."""
    reference = None if pair.reference is None else _placed(pair.reference)
    return replace(pair, source=replace(pair.source, folder=pair.source.folder.absolute()), reference=reference)


def received(sent: Sent) -> Unit:
    """The unit that was sent by a :class:`Sender`."""
    unit, file = sent
    return replace(unit, plan=replace(unit.plan, pair=unit.plan.pair.on(unit.plan.pair.corpus, _splits_in(file))))


@lru_cache(maxsize=1)
def _splits_in(file: Path) -> Splits:
    splits = pickle.loads(file.read_bytes())
    assert isinstance(splits, Splits)
    return splits


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
        for load in together((yield from _with_vectors(portion, context))):
            yield from _computed(load, context)


def _threads(n_threads: int, units: Sequence[Unit], context: Context) -> Outcomes:
    """Fits side by side in threads of this process, each computing on one thread; everything else one by one.

    Threads start at once, where processes would take longer to start than many a fit to compute. What a person learns
    of fits comes in the order of the units, whichever ends first.
    """
    for portion in portions(units):
        loads, parts = together((yield from _with_vectors(portion, context))), list[list[Numbered]]()
        for load in loads:
            number, unit = load[0]
            if not unit.reads:
                # Hooks and gates belong to the one model that is open, so that its passes do not run side by side.
                with all_threads() if unit.draws else contextlib.nullcontext():
                    outcomes = _computed(load, context)
                yield from outcomes
            else:  # each draw of weights is a fit of its own
                for draw in unit.draws if len(load) == 1 else ():
                    parts.append([(number, replace(unit, draws=(draw,)))])
                parts += [load] if len(load) > 1 else []
        if len(parts) > 1:
            sharing = replace(context, side_by_side=min(n_threads, len(parts)))
            yield from _side_by_side(n_threads, parts, sharing)
        for part in parts if len(parts) == 1 else ():
            yield from _computed(part, context)  # this fit may spread its layers over all threads


def _side_by_side(n_threads: int, parts: Sequence[list[Numbered]], context: Context) -> Outcomes:
    stopped, outcomes = Event(), dict[int, list[Outcome | Exception]]()
    left = [number for part in parts for number, _ in part]
    with ThreadPoolExecutor(n_threads) as pool, one_thread():
        notes: list[list[tuple[Progress, str]]] = [[] for _ in parts]
        displays = [partial(_InThread, context.progress, stopped, kept) for kept in notes]
        jobs = [(part, replace(context, progress=display)) for part, display in zip(parts, displays, strict=True)]
        futures = [pool.submit(_computed, *job) for job in jobs]
        try:
            for future, kept in zip(futures, notes, strict=True):
                ended = future.result()
                for display, text in kept:
                    display.note(text)
                for number, outcome in ended:
                    left.remove(number)
                    outcomes.setdefault(number, []).append(outcome)
                    if number not in left:
                        yield number, _of_all(outcomes[number])
        finally:
            stopped.set()
            for future in futures:
                future.cancel()


def _of_all(outcomes: Sequence[Outcome | Exception]) -> Outcome | Exception:
    """The outcome of a unit from those of its draws: a failure, else what is left to do, else what was done."""
    by_weight: tuple[Outcome, ...] = ("busy", "computed", "found")
    failures = (outcome for outcome in outcomes if isinstance(outcome, Exception))
    return next(failures, None) or next(outcome for outcome in by_weight if outcome in outcomes)


class _Stopped(BaseException):
    """Ends a fit in a thread, when the run ends before it."""


def _unless_stopped(name: str) -> Callable[..., None]:
    """The method of a display, which ends the job once it is stopped."""

    def show(self: _InThread, *args: Any, **options: Any) -> None:
        if self._stopped.is_set():
            raise _Stopped
        getattr(self._display, name)(*args, **options)

    return show


class _InThread(Progress):
    """The progress display of a job in a thread: it keeps notes for later, and ends the job once it is stopped."""

    def __init__(self, progress: ProgressFor, stopped: Event, notes: list[tuple[Progress, str]], label: str) -> None:
        self._display, self._stopped, self._notes = progress(label), stopped, notes

    def note(self, text: str) -> None:
        self._notes.append((self._display, text))

    start, advance, skip, finish, say = map(_unless_stopped, ("start", "advance", "skip", "finish", "say"))


def _joblib(n_jobs: int, units: Sequence[Unit], context: Context) -> Outcomes:
    from joblib import Parallel, delayed

    with Sender(context.run) as sender, _explained_ends():
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
            sent = ([(number, sender.send(unit)) for number, unit in load] for load in loads)
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
    for _, portion in groupby(enumerate(units), key=lambda numbered: id(numbered[1].plan)):
        yield list(portion)


def _with_vectors(
    portion: Sequence[Numbered], context: Context
) -> Generator[tuple[int, Exception], None, list[Numbered]]:
    """Read what units need that are still pending, and return them; those whose model cannot be read are yielded."""
    errors: dict[StoredSignal, Exception | None] = {}
    ready = []
    for number, unit in portion:
        if not context.is_pending(unit):
            continue
        failure = None
        for read in unit.reads:
            if read not in errors:
                errors[read] = None
                try:
                    pair = read.pair(unit.plan.pair)
                    extract_splits(pair, read.weights, context.device, context.progress, read.signal)
                except Exception as error:  # a model that cannot be read is no bar to the others
                    errors[read] = error
            failure = failure or errors[read]
        if failure is None:
            ready.append((number, unit))
        else:
            write_failure(context.run, unit, failure)
            yield number, failure
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
    numbers, units = zip(*load, strict=True)
    outcomes = compute_units(units, context)
    return in_telling_order(numbers, outcomes) if len(load) > 1 else [(numbers[0], outcomes[0])]


def in_telling_order(
    numbers: Sequence[int], outcomes: Sequence[Outcome | Exception]
) -> list[tuple[int, Outcome | Exception]]:
    """Numbered outcomes with failures last, since a failure may end the run."""
    return sorted(zip(numbers, outcomes, strict=True), key=lambda outcome: isinstance(outcome[1], Exception))


def _unpacked(
    load: Sequence[tuple[int, Sent]], run: Path, device: str, wait: bool, side_by_side: int
) -> list[tuple[int, Outcome | Exception]]:
    units = [(number, received(sent)) for number, sent in load]
    return _computed(units, Context(run, device, wait, side_by_side=side_by_side))
