"""Units on the workers of a dask cluster: vectors are read shard by shard, then fits go out as their vectors are there.

The run's folder and the cache lie on a file system that this process and all workers share; through dask go only a
corpus to each worker once, what is to be computed, and how it went. :class:`Pool` has the workers, found or started;
the functions that take a :class:`WorkerContext` run on them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import shutil
import socket
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from filelock import FileLock, Timeout

from bertology import __version__
from bertology._files import cache_folder, explained_write_errors
from bertology._temporary import temporary_affixes, temporary_folder
from bertology.activations import Entry
from bertology.activations.progress import Progress, silent
from bertology.errors import BertologyError
from bertology.families.model_corpus import Splits, StoredSignal, texts_read
from bertology.runner._compute import Context, Numbered, Outcome, close_encoder, compute_units, open_encoder, together
from bertology.runner._engines import (
    CONNECT_S,
    PATIENCE_S,
    ClusterChoice,
    Outcomes,
    Transport,
    in_telling_order,
    loaded,
    portions,
    read_profile,
    unpack,
)
from bertology.runner._folder import write_failure
from bertology.runner._plan import Plan, Unit

if TYPE_CHECKING:
    from bertology.activations import Extraction

_LOOK_S = 2.0
_TICK_S = 0.5
_RESULT_S = 60.0
_KEPT = "what is finished is kept, the same command goes on from here"
_LOST = (FutureCancelledError, CommClosedError, ConnectionError, TimeoutError)
Handler = Callable[[Any], Any]


@dataclass(frozen=True)
class _Cluster:
    """An address, or a cluster that was started for the run, and what is known of it beforehand."""

    where: Any
    name: str
    patience_s: float
    first_patience_s: float  # until there has been a worker
    most_workers: int = 1


@contextlib.contextmanager
def open_pool(choice: ClusterChoice, *, jobs: int, run: Path, echo: Callable[[str], None]) -> Iterator[Pool]:
    """The workers that were chosen, or so many ``jobs`` of this machine, while in the ``with`` block."""
    with contextlib.ExitStack() as stack:
        # Without dask's own log: it replaces lost workers itself, and a lost scheduler is an error of one line.
        logger = logging.getLogger("distributed")
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL + 1)
        cluster = stack.enter_context(_cluster(choice, jobs, run))
        try:
            timeout = min(CONNECT_S, choice.patience_s or CONNECT_S)
            client = Client(cluster.where, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            where = f"no dask scheduler answers at {cluster.name} ({_line(error)})"
            raise BertologyError(f"{where}: start one by `dask scheduler`, or check the address") from None
        # A scheduler that is gone is not waited for.
        stack.callback(lambda: client.close(timeout=2))
        pool = Pool(client, cluster, echo)
        pool.wait()
        yield pool


class Pool:
    """Tasks out, results in; an error in one line where there is no one left to compute them."""

    def __init__(self, client: Client, cluster: _Cluster, echo: Callable[[str], None]) -> None:
        self._client, self._cluster, self._echo = client, cluster, echo
        # By key, with whether only a worker that has a GPU takes the task.
        self._handlers: dict[str, tuple[Future, Handler, bool]] = {}
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._had_workers = False
        self._looked = self._alive = time.monotonic()
        self._n_threads = 0
        self._has_gpus = False  # whether workers declare a GPU, by the resource of that name

    @property
    def outstanding(self) -> int:
        return len(self._handlers)

    @property
    def enough(self) -> int:
        """Number of tasks that keep all workers busy; an adaptive cluster needs waiting tasks to grow."""
        return 2 * max(self._n_threads, self._cluster.most_workers) + 2

    def wait(self) -> None:
        self._look()
        if not self._n_threads:
            self._echo(f"waiting for workers of {self._cluster.name}")
        while not self._n_threads:
            time.sleep(_TICK_S)
            self._look()

    def keep(self, function: Callable[..., Any], *args: Any, name: str) -> Future:
        """A result for other tasks, computed again on another worker if the one that has it is lost."""
        # What is sent is large, but sent once.
        with self._guarded(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self._client.submit(function, *args, key=f"{name}-{self._client.id}")

    def submit(self, handler: Handler, function: Callable[..., Any], *args: Any, name: str, on_gpu: bool) -> None:
        """Let a worker call a function; its result is received together with ``handler``.

        No two tasks have one ``name``. With ``on_gpu`` only a worker that has a free GPU will do, where any has one.
        """
        resources = {"GPU": 1} if on_gpu and self._has_gpus else None
        with self._guarded():
            future = self._client.submit(function, *args, key=f"{name}-{self._client.id}", resources=resources)
        self._handlers[future.key] = future, handler, resources is not None
        future.add_done_callback(self._done.put)

    def received(self) -> Iterator[tuple[Handler, Any]]:
        """The next result, or the error that killed workers, and what it is for; none if none comes for a moment."""
        if time.monotonic() - self._looked > _LOOK_S:
            self._look()
        try:
            future = self._done.get(timeout=_TICK_S)
        except Empty:
            return
        if future.key not in self._handlers:  # it was cancelled
            return
        with self._guarded():
            try:
                value: Any = future.result(timeout=_RESULT_S)
            except KilledWorker as error:
                what = f"{error.allowed_failures + 1} workers died while they were at it, perhaps as memory ran out"
                value = BertologyError(f"{what}: give workers more memory, or fewer of them to a machine")
            except TimeoutError:
                # Its worker was lost before the result was fetched: dask computes it again.
                future.add_done_callback(self._done.put)
                return
        yield self._handlers.pop(future.key)[1], value

    def cancel(self) -> None:
        futures = [future for future, *_ in self._handlers.values()]
        self._handlers.clear()
        if futures and self._client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):
                self._client.cancel(futures)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn errors between this process and the workers into one line."""
        try:
            yield
        except BertologyError:
            raise
        except Exception as error:
            if self._client.status != "running" or isinstance(error, _LOST):
                message = f"the dask scheduler at {self._cluster.name} is gone: start it again; {_KEPT}"
            else:
                remedy = "workers need the same packages and versions as this machine"
                message = f"a worker cannot do its work ({_line(error)}): {remedy}"
            raise BertologyError(message) from error

    def _look(self) -> None:
        """Count the workers; raise where there has been none for too long."""
        self._looked = time.monotonic()
        with self._guarded():
            if self._client.status != "running":
                raise ConnectionError("closed")
            workers = self._client.scheduler_info()["workers"].values()
        self._n_threads = sum(worker["nthreads"] for worker in workers)
        self._has_gpus = any(worker["resources"].get("GPU") for worker in workers)
        # Tasks that were sent when there were GPUs are of no use to workers without.
        waits_for_gpu = any(on_gpu for *_, on_gpu in self._handlers.values())
        if self._n_threads and (self._has_gpus or not waits_for_gpu):
            self._alive, self._had_workers = self._looked, True
        patience = self._cluster.patience_s if self._had_workers else self._cluster.first_patience_s
        if self._looked - self._alive > patience:
            kind = " with a GPU" if waits_for_gpu else ""
            raise BertologyError(
                f"no worker{kind} of {self._cluster.name} for {patience:.0f} s: start some, such as `dask worker "
                f"{self._client.scheduler.address} --nthreads 1`, or wait longer by --patience; {_KEPT}"
            )


@contextlib.contextmanager
def _cluster(choice: ClusterChoice, jobs: int, run: Path) -> Iterator[_Cluster]:
    patience = choice.patience_s or PATIENCE_S
    if choice.scheduler is not None:
        address = choice.address()
        yield _Cluster(address, address, patience, patience)
    elif choice.slurm is not None:
        if shutil.which("sbatch") is None:
            raise BertologyError(f"--slurm {choice.slurm}: no sbatch here; give the command where jobs are submitted")
        profile = read_profile(choice.slurm)
        first_patience = choice.patience_s or float("inf")
        with contextlib.ExitStack() as stack:
            try:
                slurm = stack.enter_context(profile.cluster())
                profile.submit(slurm)
            except (ValueError, TypeError, RuntimeError) as error:  # what dask-jobqueue has against a profile
                raise BertologyError(f"--slurm {choice.slurm}: {_line(error)}") from error
            yield _Cluster(slurm, f"Slurm ({choice.slurm})", patience, first_patience, profile.most_workers)
    else:
        # No limit of memory: a fit that needs it would be killed for what the machine has.
        with (
            temporary_folder(run, "dask") as folder,
            dask.config.set({"temporary-directory": str(folder.absolute())}),
            LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            ) as local,
        ):
            yield _Cluster(local, f"{jobs} processes of this machine", patience, patience, jobs)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


EntryKey = tuple[StoredSignal, str]
"""An entry of the store for a model and corpus: what is read, and of which split."""
_one_at_a_time = threading.Lock()
"""Threads of one process share the numbers of BLAS threads and the model that is open."""


@dataclass(frozen=True)
class WorkerContext:
    """Settings shared by all tasks of a run."""

    run: Path
    cache: Path
    token: str  # name of a file in both folders, by which a worker knows that they are those of the run
    device: str
    version: str = __version__


@dataclass(frozen=True)
class MissingShards:
    """The stored part of one split's vectors."""

    entry: Entry | None  # not whole; None where all vectors are in the store
    pieces: tuple[int, ...]  # [shard] number of pieces of text that it is computed from
    checksums: tuple[str | None, ...]  # [shard] None where it has to be written
    notes: tuple[str, ...]


def compute(context: WorkerContext, units: Sequence[Unit], splits: Splits, wait: bool) -> list[Outcome | Exception]:
    """Compute units that stand together, whose plan comes without its sentences."""
    with _at_work(context) as device:
        _extractions.clear()
        close_encoder()
        units = [loaded(unit, splits) for unit in units]
        for unit in units:
            for read in unit.reads:
                pair = read.pair(unit.plan.pair)
                for sentences in texts_read(splits, read.signal).values():
                    look_afresh(pair.recipe(read.weights, sentences, read.signal).folder(pair.layers))
        outcomes = compute_units(units, Context(context.run, device, wait))
        return [_portable(outcome) if isinstance(outcome, Exception) else outcome for outcome in outcomes]


def missing_shards(
    context: WorkerContext, plan: Plan, reads: Sequence[StoredSignal], splits: Splits
) -> dict[EntryKey, MissingShards] | Exception:
    """Find the missing shards of entries. The locks of the entries are held by the process of the run."""
    with _at_work(context) as device:
        try:
            keys: dict[str, EntryKey] = {}
            for read in reads:
                for split, sentences in texts_read(splits, read.signal).items():
                    # A reference may be the same as the model.
                    recipe = read.pair(plan.pair).recipe(read.weights, sentences, read.signal)
                    keys.setdefault(recipe.key, (read, split))
            return {key: _missing(plan, key, splits, device) for key in keys.values()}
        except Exception as error:
            return _portable(error)


def write_shard(
    context: WorkerContext,
    plan: Plan,
    key: EntryKey,
    splits: Splits,
    layers: tuple[int, ...],
    number: int,
) -> str | Exception:
    """Write one shard, unless it is there; its checksum."""
    with _at_work(context) as device:
        try:
            extraction = _opened(plan, key, splits, layers, device)
            if (checksum := extraction.checksum(number)) is not None:
                return checksum
            with extraction.workers:
                vectors = extraction.read(number)
            return extraction.write(number, vectors)
        except Exception as error:
            return _portable(error)


def _missing(plan: Plan, key: EntryKey, splits: Splits, device: str) -> MissingShards:
    from bertology.activations import Extraction

    read, split = key
    pair = read.pair(plan.pair)
    recipe, progress = pair.recipe(read.weights, splits.by_name[split], read.signal), _Notes()
    entry = recipe.find(pair.layers)
    layers = entry.manifest.layers if entry is not None else pair.layers
    if Extraction.finished(recipe, layers, progress) is not None:
        return MissingShards(None, (), (), ())
    extraction = _opened(plan, key, splits, layers, device, progress)
    checksums = tuple(extraction.prepare())
    return MissingShards(extraction.entry, extraction.pieces, checksums, tuple(progress.notes))


_extractions: dict[tuple[int, str, tuple[int, ...]], Extraction] = {}
"""The texts of the open model, cut into shards."""


def _opened(
    plan: Plan,
    key: EntryKey,
    splits: Splits,
    layers: tuple[int, ...],
    device: str,
    progress: Progress = silent,
) -> Extraction:
    """The extraction of a split; the model is kept for its other shards and splits."""
    from bertology.activations import Extraction

    read, split = key
    pair, sentences = read.pair(plan.pair), splits.by_name[split]
    encoder = open_encoder(pair, read.weights, device)
    recipe = pair.recipe(read.weights, sentences, read.signal)
    name = id(encoder), recipe.key, layers
    if name not in _extractions:
        for other in [other for other in _extractions if other[0] != id(encoder)]:
            del _extractions[other]
        _extractions[name] = Extraction(encoder, sentences, recipe=recipe, layers=layers, progress=progress)
    return _extractions[name]


class _Notes(Progress):
    """Keeps notes, which are shown on another machine."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@contextlib.contextmanager
def _at_work(context: WorkerContext) -> Iterator[str]:
    """One task at a time in this process, in the folders of the run; the device to compute on."""
    from bertology._workers import choose_device

    worker = f"the worker on {socket.gethostname()}"
    with _one_at_a_time:
        if context.version != __version__:
            versions = f"has bertology {__version__}, this is {context.version}"
            raise BertologyError(f"{worker} {versions}: install one version everywhere")
        for folder, name, option in (
            (context.run / "locks", f"run folder {context.run}", "--out"),
            (context.cache, f"cache {context.cache}", "BERTOLOGY_CACHE"),
        ):
            if not (folder / context.token).exists():
                remedy = f"name one by {option} on a file system that all workers share"
                raise BertologyError(f"{worker} does not see the {name}: {remedy}")
        os.environ["BERTOLOGY_CACHE"] = str(context.cache)
        yield str(choose_device(context.device))


def look_afresh(folder: Path) -> None:
    """Open a folder, by which a network file system forgets that a file was not there a moment ago."""
    if folder.is_dir():
        os.listdir(folder)  # noqa: PTH208  opening the folder is what counts


def _portable(error: Exception) -> Exception:
    """An error that can be sent; where it happened goes with it as a note."""
    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        # Some errors cannot be made again from what they say of themselves.
        return BertologyError(f"{type(error).__name__}: {' '.join(str(error).split())}")
    return error


_AGAIN_S = 1.0


@dataclass(eq=False)
class _Extraction:
    """The vectors of one model and corpus, and the units that wait for them."""

    plan: Plan
    """Without its sentences."""
    reads: tuple[StoredSignal, ...]
    splits: Future
    lock_files: tuple[Path, ...]
    progress: Progress
    units: list[Numbered] = field(default_factory=list)
    locks: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    missing: dict[EntryKey, tuple[Entry, tuple[int, ...], list[str | None]]] = field(default_factory=dict)
    """Entries that are not whole, with pieces of text and checksum of each shard."""
    n_left: int = 0
    """Shards that are still to come."""
    has_failed: bool = False

    def lock(self) -> bool:
        """Take the locks of the entries if all are free, and none otherwise."""
        # No process waits for a lock while it holds others, so that two runs cannot wait for each other.
        with contextlib.ExitStack() as stack:
            try:
                for path in self.lock_files:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    stack.enter_context(FileLock(path, timeout=0))
            except Timeout:
                return False
            self.locks = stack.pop_all()
            return True


def dask_engine(pool: Pool, units: Sequence[Unit], context: Context) -> Outcomes:
    """The engine that gives units to the workers of a pool."""
    run, cache = context.run.absolute(), cache_folder().absolute()
    with _marked(run / "locks", cache) as token:
        worker = WorkerContext(run, cache, token, context.device)
        stage = _Stage(pool, units, replace(context, run=run), worker)
        try:
            yield from stage.outcomes()
        finally:
            stage.stop()
            for folder in ("cells", "predictions"):
                look_afresh(run / folder)


class _Stage:
    """One stage of a run: what is out on the workers, and what follows when it comes back."""

    def __init__(self, pool: Pool, units: Sequence[Unit], context: Context, worker: WorkerContext) -> None:
        self._pool, self._context, self._worker = pool, context, worker
        self._portions = portions(units)
        self._transport = Transport()
        self._corpora: dict[str, Future] = {}
        self._waiting: deque[_Extraction] = deque()
        self._open: list[_Extraction] = []
        # Two runs may share a scheduler, and one run may send a unit twice.
        self._mark = uuid.uuid4().hex[:12]

    def outcomes(self) -> Outcomes:
        more = True
        while True:
            # No further model is begun while there is enough to do, so that what is finished comes soon.
            while more and self._pool.outstanding + len(self._waiting) < self._pool.enough:
                portion = next(self._portions, None)
                more = portion is not None
                self._begin([numbered for numbered in portion or () if self._context.is_pending(numbered[1])])
            for _ in range(len(self._waiting)):
                self._extract(self._waiting.popleft())
            if self._pool.outstanding:
                for handler, value in self._pool.received():
                    yield from handler(value)
            elif self._waiting:
                time.sleep(_AGAIN_S)  # another process is at all that is left
            elif not more:
                return

    def stop(self) -> None:
        self._pool.cancel()
        for extraction in self._open:
            extraction.locks.close()
        self._corpora.clear()

    def _begin(self, portion: Sequence[Numbered]) -> None:
        """Send what needs no vectors; queue the extractions that the others need."""
        extractions: dict[tuple[StoredSignal, ...], _Extraction] = {}
        for load in together(portion):
            _, unit = load[0]
            if not unit.reads:
                self._send(load)
                continue
            if unit.reads not in extractions:
                extractions[unit.reads] = self._extraction(unit.plan, unit.reads)
            extractions[unit.reads].units.append(load[0])
        self._waiting.extend(extractions.values())

    def _extraction(self, plan: Plan, reads: tuple[StoredSignal, ...]) -> _Extraction:
        files = dict[Path, None]()
        for read in reads:
            pair = read.pair(plan.pair)
            for sentences in texts_read(pair.splits, read.signal).values():
                recipe = pair.recipe(read.weights, sentences, read.signal)
                entry = recipe.find(pair.layers)
                layers = pair.layers if entry is None else entry.manifest.layers
                files[recipe.folder(layers).with_suffix(".lock")] = None
        progress = self._context.progress(f"{plan.pair.called(reads[0].weights)}, {plan.pair.corpus.name}")
        return _Extraction(self._transport.light(plan), reads, self._corpus(plan), tuple(files), progress)

    def _corpus(self, plan: Plan) -> Future:
        def keep(name: str, content: bytes) -> None:
            if name not in self._corpora:
                self._corpora[name] = self._pool.keep(unpack, content, name=f"corpus-{self._mark}-{name}")

        return self._corpora[self._transport.name(plan.pair.splits, keep)]

    def _extract(self, extraction: _Extraction) -> None:
        """Ask a worker which shards are missing, if no other process is extracting the same."""
        if not extraction.lock():
            self._waiting.append(extraction)
            return
        self._open.append(extraction)
        found = partial(self._write_missing, extraction)
        what = extraction.plan, extraction.reads, extraction.splits
        self._submit(found, missing_shards, *what)

    def _write_missing(self, extraction: _Extraction, shards: dict[EntryKey, MissingShards] | Exception) -> Outcomes:
        if isinstance(shards, Exception):
            yield from self._failed(extraction, shards)
            return
        for entry, each in shards.items():
            for note in each.notes:
                extraction.progress.note(note)
            if each.entry is not None:
                extraction.missing[entry] = each.entry, each.pieces, list(each.checksums)
        known = extraction.missing.values()
        counted = [both for _, pieces, sums in known for both in zip(pieces, sums, strict=True)]
        if counted:
            extraction.progress.start(sum(pieces for pieces, _ in counted), unit="pieces")
            extraction.progress.skip(sum(pieces for pieces, checksum in counted if checksum is not None))
        for entry, (written_to, _, checksums) in extraction.missing.items():
            for number in [number for number, checksum in enumerate(checksums) if checksum is None]:
                extraction.n_left += 1
                written = partial(self._written, extraction, entry, number)
                what = extraction.plan, entry, extraction.splits, written_to.manifest.layers, number
                self._submit(written, write_shard, *what)
        if not extraction.n_left:
            yield from self._complete(extraction)

    def _written(self, extraction: _Extraction, entry: EntryKey, number: int, checksum: str | Exception) -> Outcomes:
        extraction.n_left -= 1
        if isinstance(checksum, Exception):
            yield from self._failed(extraction, checksum)
            return
        _, pieces, checksums = extraction.missing[entry]
        checksums[number] = checksum
        extraction.progress.advance(pieces[number])
        if not extraction.n_left and not extraction.has_failed:
            yield from self._complete(extraction)

    def _complete(self, extraction: _Extraction) -> Outcomes:
        """Make the entries whole, and send what waits for them."""
        try:
            for entry, _, checksums in extraction.missing.values():
                entry.complete(checksums)
        except Exception as error:
            yield from self._failed(extraction, error)
            return
        self._close(extraction)
        for numbered in extraction.units:
            self._send([numbered])

    def _failed(self, extraction: _Extraction, error: Exception) -> Outcomes:
        """A model that cannot be read is no bar to the others."""
        if extraction.has_failed:
            return
        extraction.has_failed = True
        self._close(extraction)
        for number, unit in extraction.units:
            write_failure(self._context.run, unit, error)
            yield number, error

    def _close(self, extraction: _Extraction) -> None:
        extraction.progress.finish()
        extraction.locks.close()
        self._open.remove(extraction)

    def _send(self, load: Sequence[Numbered]) -> None:
        first = load[0][1]
        light = [replace(unit, plan=self._transport.light(unit.plan)) for _, unit in load]
        what = light, self._corpus(first.plan), self._context.wait
        self._submit(partial(self._computed, load), compute, *what, on_gpu=bool(first.draws))

    def _computed(self, load: Sequence[Numbered], received: list[Outcome | Exception] | Exception) -> Outcomes:
        if isinstance(received, Exception) and len(load) > 1:
            # Workers died. Which unit it was is not known: each is sent alone.
            for numbered in load:
                self._send([numbered])
            return
        outcomes = [received] if isinstance(received, Exception) else received
        for (_, unit), outcome in zip(load, outcomes, strict=True):
            if isinstance(outcome, Exception):
                # Where the worker could not leave a record, since it died, there is none yet.
                write_failure(self._context.run, unit, outcome)
        yield from in_telling_order(load, outcomes)

    def _submit(
        self, handler: Callable[[Any], Outcomes], function: Callable[..., Any], *args: Any, on_gpu: bool = True
    ) -> None:
        name = f"{function.__name__}-{self._mark}-{uuid.uuid4().hex[:12]}"
        on_gpu = on_gpu and self._context.device != "cpu"
        self._pool.submit(handler, function, self._worker, *args, name=name, on_gpu=on_gpu)


@contextlib.contextmanager
def _marked(*folders: Path) -> Iterator[str]:
    """Put a file into folders, by which workers know that they see them; its name."""
    token = uuid.uuid4().hex.join(temporary_affixes("seen"))
    try:
        for folder in folders:
            with explained_write_errors(folder, remedy="name another folder with --out or BERTOLOGY_CACHE"):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / token).touch()
        yield token
    finally:
        for folder in folders:
            (folder / token).unlink(missing_ok=True)
