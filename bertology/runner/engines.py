"""Units computed, in this process, in its threads or in several processes; and the choice of a cluster."""

import contextlib
import os
import pickle
import re
import signal
import statistics
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial, partialmethod
from importlib.util import find_spec
from itertools import groupby
from multiprocessing import resource_tracker
from operator import attrgetter
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Literal

from filelock import Timeout
from pydantic import BaseModel, ConfigDict, Field, model_validator
from threadpoolctl import threadpool_limits

from bertology import _files, activations, encoders
from bertology._lazy import torch
from bertology._machine import give_back_freed_memory, memory_for_vectors
from bertology._settings import Text, Truth, Whole, checked, read_yaml
from bertology.activations import Entry
from bertology.activations.progress import Progress, silent
from bertology.corpora import Corpus, ShardedSentences
from bertology.errors import BertologyError, cut_path
from bertology.families.contract import Family, FitGroup, Resources
from bertology.families.model_corpus import ModelCorpus, Splits, StoredSignal, Weights
from bertology.families.rows import records_of
from bertology.readouts import sum_over
from bertology.results.cells import Cell, all_finished, file_with
from bertology.results.predictions import (
    CellFiles,
    HeadSums,
    Predictions,
    joined_sums,
    read_head_sums,
    read_predictions,
)
from bertology.runner._folder import RunFolder, failure_path, write_failure
from bertology.runner.plan import Plan, Unit

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster


ProgressFor = Callable[[str], Progress]  # gives the progress display of a job from its label
_open: "dict[str, encoders.Encoder]" = {}
"""The model that this process has open: one at most, or beside it the one that it is compared with."""
Outcome = Literal["computed", "found", "busy"]
Numbered = tuple[int, Unit]  # a unit and its place in a run
Outcomes = Generator[tuple[int, Outcome | Exception], None, None]
"""The number and outcome of each unit as they come, vectors and all; those no longer pending do not come."""
Engine = Callable[[Sequence[Unit], "Context"], Outcomes]


def together(units: Iterable[Numbered]) -> list[list[Numbered]]:
    """Units of one plan, those in one list that are computed in one pass over the model's signals."""
    loads: dict[object, list[Numbered]] = {}
    for number, unit in units:
        shared = None if unit.is_baseline else unit.family.pass_key(unit.draws[0])
        key = number if shared is None else (unit.family, *(group[0].weights for group in unit.draws), shared)
        loads.setdefault(key, []).append((number, unit))
    return list(loads.values())


@dataclass(frozen=True)
class Context:
    """Settings shared by all units of work of a run."""

    run: Path
    device: str
    wait: bool = False  # wait for other processes that are at a unit; otherwise `busy` is its outcome
    is_pending: Callable[[Unit], bool] = lambda _: True
    """Whether a unit is still to be computed: another process may have done it in the meantime."""
    progress: ProgressFor = lambda _: silent
    all_threads: bool = False  # whether forward passes have the machine to themselves
    over: Callable[..., tuple[Any, ...]] = sum_over  # as of Resources
    side_by_side: int = 1  # units that are computed at once on this machine, and share its memory
    brief_store: Path | None = None  # the folder of vectors that are deleted as soon as a model's units are done


def compute_load(load: Sequence[Numbered], context: Context) -> list[tuple[int, Outcome | Exception]]:
    """Compute units that stand :func:`together`, if no one has; a failure of one is recorded, and stops no other.

    Failures come last, since a failure may end the run.
    """
    outcomes, mine = dict[str, Outcome | Exception](), list[Unit]()
    with contextlib.ExitStack() as locks:
        for _, unit in load:
            try:
                # Nobody waits for a unit while holding others, so that two runs cannot wait for each other.
                locks.enter_context(RunFolder(context.run).lock(unit.key, wait=context.wait and len(load) == 1))
                outcomes[unit.key] = "found"
                mine += [] if all_finished(context.run, unit.cells) else [unit]
            except Timeout:
                outcomes[unit.key] = "busy"
        outcomes |= _compute(mine, context) if mine else {}
    found = []
    for number, unit in load:
        is_waited_for = context.wait and len(load) > 1 and outcomes[unit.key] == "busy"
        found += compute_load([(number, unit)], context) if is_waited_for else [(number, outcomes[unit.key])]
    return sorted(found, key=lambda outcome: isinstance(outcome[1], Exception)) if len(found) > 1 else found


def _compute(units: Sequence[Unit], context: Context) -> dict[str, Outcome | Exception]:
    """Compute units that share their passes, whose locks are held; the outcome of each by its key."""
    first, failures = units[0], dict[str, Exception]()
    tasks = ", ".join(map(attrgetter("probe.task"), units))
    try:
        with one_thread(unless=context.all_threads) as n_threads:
            for draw in zip(*map(attrgetter("draws"), units), strict=True):
                # Of a unit that was begun before some groups may be finished.
                owners, groups = dict[int, Unit](), list[FitGroup]()
                for unit, group in zip(units, draw, strict=True):
                    if unit.key not in failures and (left := _unfinished(group, context.run)) is not None:
                        owners[id(left)] = unit
                        groups.append(left)
                if groups:
                    model = first.plan.pair.called(groups[0][0].weights)
                    label = f"{tasks}, baselines" if first.is_baseline else f"{model}, {tasks}"
                    job = _job(first, groups[0], context, label, n_threads)
                    for group, error in _compute_groups(first.family, groups, job):
                        if error is not None:
                            failures[owners[id(group)].key] = error
    except Exception as error:
        # Whatever goes wrong in a cell is recorded there and does not stop the others.
        failures = {unit.key: error for unit in units if not all_finished(context.run, unit.cells)} | failures
    outcomes: dict[str, Outcome | Exception] = {**dict.fromkeys(map(attrgetter("key"), units), "computed"), **failures}
    for unit in units:
        if unit.key in failures:
            write_failure(context.run, unit, failures[unit.key])
        else:
            for cell in unit.cells:
                failure_path(context.run, cell).unlink(missing_ok=True)
    return outcomes


def _unfinished(group: FitGroup, run: Path) -> FitGroup | None:
    """The members that have cells to compute; None if there are none."""
    return tuple(member for member in group if not all_finished(run, member.cells.values())) or None


def _job(unit: Unit, group: FitGroup, context: Context, label: str, n_threads: int) -> Resources:
    """The resources of a group; its model is opened when it is needed."""
    pair, weights = unit.plan.pair, group[0].weights
    reads, jobs = unit.reads, []
    if reads:
        close_encoder()
    for of, own in ((pair, weights), (pair.reference, None)):
        if of is None or (own is None and (unit.is_baseline or not unit.probe.needs_reference)):
            continue
        stored = {}
        for read in reads:
            if read.of_reference == (own is None) and (read.of_reference or read.weights == weights):
                entries = extract_splits(pair, read, replace(context, progress=lambda _: silent), trusted=True)
                # Folds share their vectors.
                stored[read.signal] = dict.fromkeys(of.splits.by_name, entries["test"]) if of.splits.folds else entries
        job = Resources(
            context.run,
            of,
            context.device,
            get_encoder=partial(open_encoder, of, own or of.weights, context.device, beside=own is None),
            stored=stored,
            progress=context.progress(label),
            memory=memory_for_vectors() // context.side_by_side,
            n_threads=n_threads,
            over=context.over,
        )
        jobs.append(job)
    return replace(jobs[0], reference=jobs[1] if jobs[1:] else None)


def open_encoder(pair: ModelCorpus, weights: Weights, device: str, *, beside: bool = False) -> "encoders.Encoder":
    """The model with these weights; it stays open until another one is, or :func:`close_encoder`.

    A reference model is opened ``beside`` the one that is open.
    """
    request = pair.request
    key = repr((pair.fingerprints[weights], pair.source, request.dtype, request.max_pieces, device))
    if not beside:
        for other in [other for other in _open if other != key]:
            del _open[other]
    if key not in _open:
        _open[key] = encoders.load_encoder(
            pair.source,
            init=weights.init,
            seed=weights.seed,
            dtype=request.dtype,
            device=device,
            trust_remote_code=request.trust_remote_code,
            max_pieces=request.max_pieces,
        )
    return _open[key]


def close_encoder() -> None:
    """Give the memory of the open model back: a process holds a model or what a fit needs, not both."""
    _open.clear()
    give_back_freed_memory()


def extract_splits(
    pair: ModelCorpus, read: StoredSignal, context: Context, *, trusted: bool = False
) -> dict[str, Entry]:
    """The stored vectors of every split, extracted where they are not stored yet.

    Stored ones are verified unless they are ``trusted``, as those that this run has verified: to do so for each unit
    would read all of them twice.
    """
    of, texts = read.texts(pair)
    packs = not isinstance(of.splits.train, ShardedSentences)
    get_encoder = cache(lambda: open_encoder(of, read.weights, context.device).fast_twin(packs=packs))
    entries = {}
    for split, (sentences, recipe) in texts.items():
        entry = recipe.find(of.layers) if trusted else None
        if entry is None:
            what = "" if read.signal == "words" else f", {read.signal}"
            shown = context.progress(f"{of.called(read.weights)}, {split}{what}")
            entry = activations.extract(get_encoder, sentences, recipe=recipe, layers=of.layers, progress=shown)
        entries[split] = entry
    return entries


@contextlib.contextmanager
def one_thread(*, unless: bool = False) -> Iterator[int]:
    """Compute on one thread: sums then come out the same whatever engine computes them, and units share the cores.

    Yields how many there would be; ``unless`` a forward pass has the machine to itself, which takes all of them.
    """
    before = torch.get_num_threads()
    if unless:
        yield before
        return
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield before
    finally:
        torch.set_num_threads(before)


_FOLDER = "folds"  # the folder in a run for the cells of single folds, until all folds are finished
_SUMS = ("n_items", "n_clusters", "n_skipped", "n_unseen_label")


def _compute_groups(
    family: Family, groups: Sequence[FitGroup], job: Resources
) -> Iterator[tuple[FitGroup, Exception | None]]:
    """:meth:`Family.compute`, in each fold where there are any; what is finished of a fold is not computed again."""
    failures, folds = dict[int, Exception](), list[Resources]()
    for splits in job.pair.splits.folds:  # each has a folder of its own until all are finished
        folds.append(replace(job, run=job.run / _FOLDER / str(splits.fold), pair=replace(job.pair, splits=splits)))
    compute = partial(Family.compute, family) if groups[0][0].is_baseline else family.compute
    if not folds:
        yield from compute(groups, job)
        return
    for fold in folds:
        owners, parts = dict[int, FitGroup](), list[FitGroup]()
        for group in groups:
            if id(group) not in failures and (left := _unfinished(group, fold.run)) is not None:
                owners[id(left)] = group
                parts.append(left)
        for part, error in compute(parts, fold) if parts else ():
            failures |= {} if error is None else {id(owners[id(part)]): error}
    for group in groups:
        if id(group) not in failures:
            for one in group:
                _put_together(job, folds, one.cells.values(), are_sums=not family.keeps_items)
        yield group, failures.get(id(group))


def _put_together(job: Resources, folds: Sequence[Resources], cells: Collection[Cell], *, are_sums: bool) -> None:
    """Write cells of all items, made of those of the folds, which are then deleted.

    Counts are of all items; of training items, and of what was fitted, they are what a fold has on average.
    """
    runs, files = [fold.run for fold in folds], CellFiles(job.run)
    for cell in cells:
        records = [records_of(run, [cell])[0] for run in runs]
        facts = [record.facts for record in records]
        kept: Predictions | list[HeadSums]
        if are_sums:
            kept = joined_sums([read_head_sums(run, cell.id) for run in runs], [of["n_clusters"] for of in facts])
        else:
            kept = read_predictions(runs[0], cell.id, *runs[1:])
        shared: dict[str, Any] = {name: sum(of[name] for of in facts) for name in _SUMS}
        shared |= {name: _averaged([of[name] for of in facts]) for name in ("n_train", "n_classes")}
        shared["skip_reasons"] = dict(sum((Counter(of["skip_reasons"]) for of in facts), Counter[str]()))
        shared["params"] = _averaged([of.get("params", {}) for of in facts]) | {"folds": len(facts)}
        wall = sum(record.provenance["wall_s"] for record in records)
        files.add(
            cell,
            kept,
            facts={**facts[0], **shared},
            provenance={**records[0].provenance, "wall_s": wall},
            notes=job.pair.splits.notes,
        )
    files.write()
    for run, name in {(run, file_with(run, cell.id)) for run in runs for cell in cells}:
        for path in run.glob(f"*/{name}.*"):
            path.unlink()
    for folder in [*(path for run in runs for path in run.glob("*")), *runs, job.run / _FOLDER]:
        with contextlib.suppress(OSError):  # others have cells in it
            folder.rmdir()


def _averaged(values: Sequence[Any]) -> Any:
    """One value for those of the folds: mappings and lists of one length item by item, numbers the middle one, whether
    something holds in all of them; of anything else the most frequent."""
    first = values[0]
    if all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        found = {name: _averaged([value.get(name) for value in values]) for name in names}
        return {name: value for name, value in found.items() if value is not None}
    if all(isinstance(value, list) for value in values) and len({len(value) for value in values}) == 1:
        return [_averaged(items) for items in zip(*values, strict=True)]
    if all(isinstance(value, bool) for value in values):
        return all(values)
    if all(isinstance(value, int | float) for value in values):
        return statistics.median_low(values)
    plain = [value for value in values if not isinstance(value, dict | list)]
    return Counter(plain).most_common(1)[0][0] if len(plain) == len(values) else first


_INSTALL = "pip install 'bertology[distributed]'"
_ADDRESS = re.compile(r"(?:[a-z]+://)?[^/\s]+:\d+")
_REMEDY = "give the address of a dask scheduler, such as tcp://host:8786, or the file it was told to write"


@dataclass(frozen=True)
class ClusterChoice:
    """A scheduler that runs, jobs that Slurm is to start, or, where nothing is named, processes of this machine."""

    scheduler: str | None = None
    """Address of a dask scheduler, or the file that ``dask scheduler --scheduler-file`` writes."""
    slurm: Path | None = None  # a YAML file that says how Slurm jobs with workers are submitted
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
        path = _files.given_path(given)
        if not path.is_file() and _ADDRESS.fullmatch(given):
            return given if "://" in given else f"tcp://{given}"
        problem = "not a scheduler's file" if _files.exists(path) else "no such file, and no address"
        try:
            return str(_files.parsed_json(_files.read_text(path))["address"])
        except (BertologyError, _files.NotJson, TypeError, KeyError):
            raise BertologyError(f"--scheduler {cut_path(given)}: {problem}: {_REMEDY}") from None


_Count = Annotated[Whole, Field(ge=1)]
_Texts = tuple[Text, ...] | None


class Bounds(BaseModel):
    """Bounds of the number of jobs; a number stands for exactly that many."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum: Annotated[Whole, Field(ge=0)] = 0
    maximum: _Count

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, given: Any) -> Any:
        is_number = isinstance(given, int) and not isinstance(given, bool)
        return {"minimum": given, "maximum": given} if is_number else given

    @model_validator(mode="after")
    def _ordered(self) -> "Bounds":
        if self.minimum > self.maximum:
            raise ValueError(f"minimum is {self.minimum} and maximum {self.maximum}: the first should be the smaller")
        return self


class SlurmProfile(BaseModel):
    """Keyword arguments of dask-jobqueue's ``SLURMCluster``, by their names there, and the number of jobs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    jobs: Bounds  # how many jobs to submit: a number, or `{minimum: 1, maximum: 20}` to follow the work there is
    cores: _Count  # of a job, as the memory, such as `16GB`
    memory: Text
    processes: _Count | None = None  # workers of a job; as many as cores when left out, one where the job has one GPU
    queue: Text | None = None  # partition
    account: Text | None = None
    walltime: Text | None = None  # such as `'02:00:00'`
    job_name: Text | None = None
    job_cpu: _Count | None = None  # cores to ask Slurm for, where they are not those of the workers
    job_mem: Text | None = None
    job_extra_directives: _Texts = None  # further lines of `#SBATCH`: `--gres=gpu:1`
    job_directives_skip: _Texts = None
    job_script_prologue: _Texts = None  # commands before the worker starts: `source venv/bin/activate`
    worker_extra_args: _Texts = None  # further arguments of `dask worker`: `--resources`, `GPU=1`
    local_directory: Text | None = None  # a fast folder of the node for what workers spill
    shared_temp_directory: Text | None = None
    log_directory: Text | None = None
    interface: Text | None = None  # network interface, such as `ib0`
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

    def cluster(self) -> "SLURMCluster":
        """The cluster, its scheduler in this process, no job submitted yet."""
        from dask_jobqueue import SLURMCluster

        # In the form of JSON, as dask-jobqueue adds to some sequences, which have to be lists.
        plain = self.model_dump(mode="json", exclude_none=True, exclude={"jobs", "processes"})
        # Nobody asked for a dashboard: any port will do.
        plain["scheduler_options"] = {"dashboard_address": ":0", **plain.get("scheduler_options", {})}
        return SLURMCluster(processes=self.processes or self.cores, **plain)

    def submit(self, cluster: "SLURMCluster") -> None:
        """Submit the jobs, or let them follow the work."""
        if self.jobs.minimum < self.jobs.maximum:
            cluster.adapt(minimum_jobs=self.jobs.minimum, maximum_jobs=self.jobs.maximum)
        else:
            cluster.scale(jobs=self.jobs.maximum)


def read_profile(path: Path) -> SlurmProfile:
    """The profile that a YAML file holds; errors name file, line and key."""
    written = read_yaml(path, what="a profile of Slurm jobs", example="cores: 4")
    return checked(SlurmProfile, written)


Sent = tuple[Unit, Path]  # a unit as it is sent to another process, without its sentences, and the file that has them


class Sender:
    """Makes units ready for other processes, each corpus put into a folder once however many models read it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        # What is known by its id is kept, so that no other can come to have that id.
        self._files: dict[tuple[int, ...], tuple[Splits, Path]] = {}
        self._light: dict[int, tuple[Plan, Plan]] = {}

    def send(self, unit: Unit) -> Sent:
        """A unit without a sentence in it, to be sent many times; :func:`received` makes it whole."""
        plan, splits = unit.plan, unit.plan.pair.splits
        key = tuple([id(read) for read in (*splits.by_name.values(), *splits.items.values(), *splits.folds)])
        if key not in self._files:
            content = pickle.dumps(splits, protocol=pickle.HIGHEST_PROTOCOL)
            path = self._folder / _files.digest([content])
            path.write_bytes(content)
            self._files[key] = splits, path
        if id(plan) not in self._light:
            # What has been worked out of a plan stays behind as well, and so do the corpus's other splits.
            pair = _placed(plan.pair.on(Corpus(plan.pair.corpus.name, {}), Splits(notes=splits.notes)))
            self._light[id(plan)] = plan, replace(plan, pair=pair)
        return replace(unit, plan=self._light[id(plan)][1]), self._files[key][1]


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


def serial(units: Sequence[Unit], context: Context) -> Outcomes:
    """One unit after the other, in this process."""
    for portion in portions(units, context):
        for load in together((yield from _with_vectors(portion, context))):
            yield from compute_load(load, context)


def threads_engine(n_threads: int, units: Sequence[Unit], context: Context) -> Outcomes:
    """Fits side by side in threads of this process, each computing on one thread; everything else one by one.

    A process would take longer to start than many fits take to compute. Results and messages come in the order of
    the units, whichever fit ends first.
    """
    for portion in portions(units, context):
        fits = list[list[Numbered]]()
        for load in together((yield from _with_vectors(portion, context))):
            if load[0][1].reads:
                fits.append(load)
            else:  # hooks and gates belong to the one model that is open, so that its passes do not run side by side
                yield from compute_load(load, replace(context, all_threads=not load[0][1].is_baseline))
        if len(fits) == 1:
            yield from compute_load(fits[0], context)  # this fit may spread its layers over all threads
            continue
        stopped = Event()
        compute = partial(_in_thread, replace(context, side_by_side=min(n_threads, len(fits))), stopped)
        with ThreadPoolExecutor(n_threads) as pool, one_thread():
            try:
                for outcomes, notes in pool.map(compute, fits):
                    for shown, text in notes:
                        shown.note(text)
                    yield from outcomes
            finally:
                stopped.set()
                pool.shutdown(cancel_futures=True)


def _in_thread(context: Context, stopped: Event, load: Sequence[Numbered]) -> tuple[list[Any], list[Any]]:
    """The outcomes of a load that is computed in a thread, and its notes with their display."""
    notes = list[tuple[Progress, str]]()
    display = partial(_InThread, context.progress, stopped, notes)
    return compute_load(load, replace(context, progress=display)), notes


class _Stopped(BaseException):
    """Ends a fit in a thread, when the run ends before it."""


class _InThread(Progress):
    """The progress display of a job in a thread: it keeps notes for later, and ends the job once it is stopped."""

    def __init__(self, progress: ProgressFor, stopped: Event, notes: list[tuple[Progress, str]], label: str) -> None:
        self._display, self._stopped, self._notes = progress(label), stopped, notes

    def note(self, text: str) -> None:
        self._notes.append((self._display, text))

    def _shown(self, name: str, *args: Any, **options: Any) -> None:
        if self._stopped.is_set():
            raise _Stopped
        getattr(self._display, name)(*args, **options)

    start = partialmethod(_shown, "start")
    advance = partialmethod(_shown, "advance")
    skip = partialmethod(_shown, "skip")
    finish = partialmethod(_shown, "finish")
    say = partialmethod(_shown, "say")


def joblib_engine(n_jobs: int, units: Sequence[Unit], context: Context) -> Outcomes:
    """Units side by side in processes of this machine."""
    from joblib import Parallel, delayed

    with _files.temporary_folder(context.run, "corpora") as folder, _explained_ends():
        sender = Sender(folder)
        for portion in portions(units, context):
            loads = together((yield from _with_vectors(portion, context)))
            if len(loads) < 2:
                # Starting processes takes longer than many a fit.
                for load in loads:
                    yield from compute_load(load, context)
                continue
            n_processes = min(n_jobs, len(loads))
            parallel = Parallel(
                n_jobs=n_processes,
                return_as="generator_unordered",
                pre_dispatch="all",
                initializer=_files.end_with_parent,
                initargs=(os.getpid(),),
                # What is sent is small: nothing is put into files, for which a folder would be made elsewhere.
                max_nbytes=None,
                temp_folder=tempfile.gettempdir(),
            )
            sent = ([(number, sender.send(unit)) for number, unit in load] for load in loads)
            there = Context(
                context.run,
                context.device,
                context.wait,
                side_by_side=n_processes,
                brief_store=context.brief_store,
            )
            # Ctrl-C is held back while processes are started: they inherit that, and are ended by this one, in order.
            can_block = hasattr(signal, "pthread_sigmask")
            if can_block:
                resource_tracker.ensure_running()  # when it starts, it lets Ctrl-C through again
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_block else set()
            try:
                results = parallel(delayed(_unpacked)(load, there) for load in sent)
            finally:
                if can_block:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
            with contextlib.closing(results):
                for outcomes in results:
                    yield from outcomes


def _unpacked(load: Sequence[tuple[int, Sent]], context: Context) -> list[tuple[int, Outcome | Exception]]:
    activations.use_store(context.brief_store)
    return compute_load([(number, received(sent)) for number, sent in load], context)


def portions(units: Sequence[Unit], context: Context) -> Iterator[list[Numbered]]:
    """Numbered units by plan: what one model reads of one corpus is read once, for all its tasks."""
    for _, portion in groupby(enumerate(units), key=lambda numbered: id(numbered[1].plan)):
        yield list(portion)
        if context.brief_store is not None:
            activations.empty_store(context.brief_store)


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
                    extract_splits(unit.plan.pair, read, context)
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
