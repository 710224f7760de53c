"""Units on the workers of a dask cluster: vectors are read shard by shard, then fits go out as their vectors are there.

The run's folder and the cache lie on a file system that this process and all workers share; through dask goes only what
is to be computed, and how it went. :class:`Pool` has the workers, found or started; functions whose first argument is
the device run on them.
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
from collections.abc import Callable, Generator, Iterator, Sequence
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
from bertology._files import cache_folder, explained_write_errors, temporary_affixes, temporary_folder
from bertology.activations import Entry
from bertology.activations.progress import Progress, silent
from bertology.errors import BertologyError
from bertology.families.model_corpus import ModelCorpus, StoredSignal, texts_read
from bertology.runner._folder import write_failure
from bertology.runner.engines import (
    CONNECT_S,
    PATIENCE_S,
    ClusterChoice,
    Context,
    Numbered,
    Outcome,
    Outcomes,
    Sender,
    Sent,
    close_encoder,
    compute_units,
    in_telling_order,
    open_encoder,
    portions,
    read_profile,
    received,
    together,
)
from bertology.runner.plan import Unit

if TYPE_CHECKING:
    from bertology.activations import Extraction

_LOOK_S = 2.0
_TICK_S = 0.5
_RESULT_S = 60.0
_AGAIN_S = 1.0
_KEPT = "what is finished is kept, the same command goes on from here"
_LOST = (FutureCancelledError, CommClosedError, ConnectionError, TimeoutError)


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
        # By key, with the call that it is of, and whether only a worker that has a GPU takes it.
        self._sent: dict[str, tuple[Future, Any, bool]] = {}
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._had_workers = False
        self._looked = self._alive = time.monotonic()
        self._n_threads = 0
        self._has_gpus = False  # whether workers declare a GPU, by the resource of that name

    @property
    def outstanding(self) -> int:
        return len(self._sent)

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

    def submit(self, call: Any, function: Callable[..., Any], *args: Any, on_gpu: bool) -> None:
        """Let a worker call a function; its result is received together with ``call``.

        With ``on_gpu`` only a worker that has a free GPU will do, where any has one.
        """
        resources = {"GPU": 1} if on_gpu and self._has_gpus else None
        # Two runs may share a scheduler, and one run may send a unit twice.
        key = f"{args[0].__name__}-{uuid.uuid4().hex}"
        with self._guarded():
            future = self._client.submit(function, *args, key=key, resources=resources)
        self._sent[key] = future, call, resources is not None
        future.add_done_callback(self._done.put)

    def received(self) -> Iterator[tuple[Any, Any]]:
        """The next call with its result, or the error that killed workers; none if none comes for a moment."""
        if time.monotonic() - self._looked > _LOOK_S:
            self._look()
        try:
            future = self._done.get(timeout=_TICK_S)
        except Empty:
            return
        if future.key not in self._sent:  # it was cancelled
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
        yield self._sent.pop(future.key)[1], value

    def cancel(self) -> None:
        futures = [future for future, *_ in self._sent.values()]
        self._sent.clear()
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
        waits_for_gpu = any(on_gpu for *_, on_gpu in self._sent.values())
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


def on_worker(function: Callable[..., Any], context: WorkerContext, *args: Any) -> Any:
    """Call a function with the device of a worker, in the folders of the run; an error is returned."""
    from bertology._machine import choose_device

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
        device = str(choose_device(context.device))
        try:
            return function(device, *args)
        except Exception as error:
            return _portable(error)


def compute(device: str, run: Path, sent: Sequence[Sent], wait: bool) -> list[Outcome | Exception]:
    """Compute units that stand together."""
    _extractions.clear()
    close_encoder()
    units = list(map(received, sent))
    for unit in units:
        for read in unit.reads:
            for folder in _entry_folders(read.pair(unit.plan.pair), read):
                look_afresh(folder)
    outcomes = compute_units(units, Context(run, device, wait))
    return [_portable(outcome) if isinstance(outcome, Exception) else outcome for outcome in outcomes]


def _entry_folders(pair: ModelCorpus, read: StoredSignal) -> list[Path]:
    """The folders of stored vectors, by split; those that hold more layers where there are such."""
    folders = []
    for sentences in texts_read(pair.splits, read.signal).values():
        recipe = pair.recipe(read.weights, sentences, read.signal)
        entry = recipe.find(pair.layers)
        folders.append(recipe.folder(pair.layers if entry is None else entry.manifest.layers))
    return folders


@dataclass
class MissingShards:
    """An entry of the store that is not whole."""

    read: StoredSignal
    split: str
    entry: Entry
    pieces: tuple[int, ...]  # [shard] number of pieces of text that it is computed from
    checksums: list[str | None]  # [shard] None where it has to be written


def missing_shards(device: str, sent: Sent) -> tuple[list[MissingShards], list[str]]:
    """Find the missing shards of what a unit reads; notes on them. The process of the run holds the entries' locks."""
    from bertology.activations import Extraction

    unit, progress = received(sent), _Notes()
    missing: dict[str, MissingShards | None] = {}
    for read in unit.reads:
        pair = read.pair(unit.plan.pair)
        for split, sentences in texts_read(pair.splits, read.signal).items():
            recipe = pair.recipe(read.weights, sentences, read.signal)
            if recipe.key in missing:  # a reference may be the same as the model
                continue
            missing[recipe.key] = None
            entry = recipe.find(pair.layers)
            layers = pair.layers if entry is None else entry.manifest.layers
            if Extraction.finished(recipe, layers, progress) is None:
                found = _opened(device, unit, read, split, layers, progress)
                checksums = found.prepare()  # which makes the entry
                missing[recipe.key] = MissingShards(read, split, found.entry, found.pieces, checksums)
    return [one for one in missing.values() if one is not None], progress.notes


def write_shard(device: str, sent: Sent, missing: MissingShards, number: int) -> str:
    """Write one shard, unless it is there; its checksum."""
    layers = missing.entry.manifest.layers
    extraction = _opened(device, received(sent), missing.read, missing.split, layers)
    if (checksum := extraction.checksum(number)) is not None:
        return checksum
    with extraction.workers:
        vectors = extraction.read(number)
    return extraction.write(number, vectors)


_extractions: dict[tuple[int, str, tuple[int, ...]], Extraction] = {}
"""The texts of the open model, cut into shards."""


def _opened(
    device: str, unit: Unit, read: StoredSignal, split: str, layers: tuple[int, ...], progress: Progress = silent
) -> Extraction:
    """The extraction of a split; the model is kept for its other shards and splits."""
    from bertology.activations import Extraction

    pair = read.pair(unit.plan.pair)
    sentences, encoder = pair.splits.by_name[split], open_encoder(pair, read.weights, device)
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


Calls = Sequence["_Call"]
Job = Generator[Calls, list[Any], None]
"""Yields calls for workers, and gets their results in order; nothing to call means: go on in a moment."""


@dataclass(frozen=True)
class _Call:
    """A function for a worker, and what to do when its result is there."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    then: Callable[[], object] = lambda: None
    needs_gpu: bool = True


@dataclass(eq=False)
class _Running:
    """A job and the calls that it waits for."""

    job: Job
    calls: Calls = ()
    results: dict[int, Any] = field(default_factory=dict)


def dask_engine(pool: Pool, units: Sequence[Unit], context: Context) -> Outcomes:
    """The engine that gives units to the workers of a pool."""
    run, cache = context.run.absolute(), cache_folder().absolute()
    with _marked(run / "locks", cache) as token, Sender(run) as sender:
        worker = WorkerContext(run, cache, token, context.device)
        stage = _Stage(pool, units, replace(context, run=run), worker, sender)
        try:
            yield from stage.outcomes()
        finally:
            stage.stop()
            for folder in ("cells", "predictions"):
                look_afresh(run / folder)


class _Stage:
    """One stage of a run: the jobs that wait for workers, and the outcomes of units as they come."""

    def __init__(
        self, pool: Pool, units: Sequence[Unit], context: Context, worker: WorkerContext, sender: Sender
    ) -> None:
        self._pool, self._context, self._worker, self._sender = pool, context, worker, sender
        self._portions = portions(units)
        self._jobs: list[_Running] = []
        self._outcomes: deque[tuple[int, Outcome | Exception]] = deque()

    def outcomes(self) -> Outcomes:
        more = True
        while True:
            # No further model is begun while there is enough to do, so that what is finished comes soon.
            idle = [running for running in self._jobs if not running.calls]
            while more and self._pool.outstanding + len(idle) < self._pool.enough:
                portion = next(self._portions, None)
                more = portion is not None
                self._begin([numbered for numbered in portion or () if self._context.is_pending(numbered[1])])
            for running in idle:
                self._go_on(running, [])
            if self._pool.outstanding:
                for (running, number), value in self._pool.received():
                    self._receive(running, number, value)
            elif self._jobs:
                time.sleep(_AGAIN_S)  # another process is at all that is left
            while self._outcomes:
                yield self._outcomes.popleft()
            if not more and not self._jobs:
                return

    def stop(self) -> None:
        self._pool.cancel()
        for running in self._jobs:
            running.job.close()

    def _begin(self, portion: Sequence[Numbered]) -> None:
        """Send what needs no vectors; begin the extractions that the others need."""
        waiting: dict[tuple[StoredSignal, ...], list[Numbered]] = {}
        for load in together(portion):
            if reads := load[0][1].reads:
                waiting.setdefault(reads, []).append(load[0])
            else:
                self._start(self._computed(load))
        for units in waiting.values():
            self._start(self._extracted(units))

    def _start(self, job: Job) -> None:
        self._jobs.append(running := _Running(job))
        self._go_on(running, None)

    def _receive(self, running: _Running, number: int, value: Any) -> None:
        running.calls[number].then()
        running.results[number] = value
        if len(running.results) == len(running.calls):
            self._go_on(running, [running.results[place] for place in range(len(running.calls))])

    def _go_on(self, running: _Running, results: list[Any] | None) -> None:
        try:
            running.calls, running.results = running.job.send(results), {}  # type: ignore[arg-type]
        except StopIteration:
            self._jobs.remove(running)
            return
        for number, call in enumerate(running.calls):
            on_gpu = call.needs_gpu and self._context.device != "cpu"
            self._pool.submit((running, number), on_worker, call.function, self._worker, *call.args, on_gpu=on_gpu)

    def _extracted(self, units: Sequence[Numbered]) -> Job:
        """Extract the vectors that units read, then send the units.

        A worker finds out which shards are missing, once no other process is extracting the same.
        """
        unit = units[0][1]
        pair, sent = unit.plan.pair, self._sender.send(unit)
        folders = [folder for read in unit.reads for folder in _entry_folders(read.pair(pair), read)]
        progress = self._context.progress(f"{pair.called(unit.reads[0].weights)}, {pair.corpus.name}")
        locks = contextlib.ExitStack()
        try:
            while not _locked(locks, [folder.with_suffix(".lock") for folder in dict.fromkeys(folders)]):
                yield ()
            missing, notes = _whole((yield [_Call(missing_shards, (sent,))]))[0]
            for note in notes:
                progress.note(note)
            if missing:
                progress.start(sum(sum(one.pieces) for one in missing), unit="pieces")
            calls, places = list[_Call](), list[tuple[MissingShards, int]]()
            for one in missing:
                for number, n_pieces in enumerate(one.pieces):
                    if one.checksums[number] is not None:
                        progress.skip(n_pieces)
                        continue
                    places.append((one, number))
                    calls.append(_Call(write_shard, (sent, one, number), partial(progress.advance, n_pieces)))
            for (one, number), checksum in zip(places, _whole((yield calls)) if calls else (), strict=True):
                one.checksums[number] = checksum
            for one in missing:
                one.entry.complete(one.checksums)
        except Exception as error:  # a model that cannot be read is no bar to the others
            for number, failed in units:
                write_failure(self._context.run, failed, error)
                self._outcomes.append((number, error))
            units = ()
        finally:
            progress.finish()
            locks.close()
        for numbered in units:
            self._start(self._computed([numbered]))

    def _computed(self, load: Sequence[Numbered]) -> Job:
        sent = [self._sender.send(unit) for _, unit in load]
        args, has_fits = (self._context.run, sent, self._context.wait), bool(load[0][1].draws)
        (outcomes,) = yield [_Call(compute, args, needs_gpu=has_fits)]
        if isinstance(outcomes, Exception) and len(load) > 1:
            # Workers died. Which unit it was is not known: each is sent alone.
            for numbered in load:
                self._start(self._computed([numbered]))
            return
        outcomes = [outcomes] if isinstance(outcomes, Exception) else outcomes
        for (_, unit), outcome in zip(load, outcomes, strict=True):
            if isinstance(outcome, Exception):
                # Where the worker could not leave a record, since it died, there is none yet.
                write_failure(self._context.run, unit, outcome)
        self._outcomes.extend(in_telling_order([number for number, _ in load], outcomes))


def _whole(results: list[Any]) -> list[Any]:
    """The results, if no error is among them."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def _locked(locks: contextlib.ExitStack, files: Sequence[Path]) -> bool:
    """Take the locks of all files if they are free, and none otherwise."""
    # No process waits for a lock while it holds others, so that two runs cannot wait for each other.
    with contextlib.ExitStack() as stack:
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(FileLock(path, timeout=0))
            except Timeout:
                return False
        locks.push(stack.pop_all())
    return True


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
