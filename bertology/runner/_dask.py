"""Units on the workers of a dask cluster: vectors are read by all of them, then fits go out as their vectors are there.

The run's folder and the cache lie on a file system that this process and all workers share; through dask goes only what
is to be computed, and how it went. :class:`Pool` has the workers, found or started; functions whose first arguments are
the device and the run's folder run on them.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from filelock import FileLock, Timeout

from bertology import __version__
from bertology._files import cache_folder, explained_write_errors, temporary_affixes, temporary_folder
from bertology.activations import Extraction
from bertology.activations.progress import Progress
from bertology.activations.store import make_folder
from bertology.errors import BertologyError
from bertology.families.model_corpus import StoredSignal, texts_read
from bertology.runner import engines
from bertology.runner._folder import write_failure
from bertology.runner.plan import Unit

_CONNECT_S, _PATIENCE_S = 10.0, 120.0
_LOOK_S, _TICK_S, _RESULT_S, _CLOSE_S = 2.0, 0.5, 60.0, 2.0
BYTES_A_WORKER = 96 << 20  # vectors of so many bytes are worth another worker's reading the model and the text
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
def open_pool(choice: engines.ClusterChoice, *, jobs: int, run: Path, echo: Callable[[str], None]) -> Iterator[Pool]:
    """The workers that were chosen, or so many ``jobs`` of this machine, while in the ``with`` block."""
    with contextlib.ExitStack() as stack:
        # Without dask's own log: it replaces lost workers itself, and a lost scheduler is an error of one line.
        logger = logging.getLogger("distributed")
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL + 1)
        cluster = stack.enter_context(_cluster(choice, jobs, run))
        try:
            timeout = min(_CONNECT_S, choice.patience_s or _CONNECT_S)
            client = Client(cluster.where, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            where = f"no dask scheduler answers at {cluster.name} ({_line(error)})"
            raise BertologyError(f"{where}: start one by `dask scheduler`, or check the address") from None
        # A scheduler that is gone is not waited for.
        stack.callback(lambda: client.close(timeout=_CLOSE_S))
        pool = Pool(client, cluster)
        pool.look()
        if not pool.n_threads:
            echo(f"waiting for workers of {cluster.name}")
        while not pool.n_threads:
            time.sleep(_TICK_S)
            pool.look()
        yield pool


class Pool:
    """Calls out, results in; an error in one line where there is no one left to compute them."""

    def __init__(self, client: Client, cluster: _Cluster) -> None:
        self._client, self._cluster = client, cluster
        # By key, with what it is about, and whether only a worker that has a GPU takes it.
        self._sent: dict[str, tuple[Future, Any, bool]] = {}
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._looked = self._alive = time.monotonic()
        self.n_threads, self._had_workers = 0, False
        self._has_gpus = False  # whether workers declare a GPU, by the resource of that name

    @property
    def n_left(self) -> int:
        """Number of calls without a result."""
        return len(self._sent)

    @property
    def enough(self) -> int:
        """Number of calls that keep all workers busy; an adaptive cluster needs waiting calls to grow."""
        return 2 * max(self.n_threads, self._cluster.most_workers) + 2

    def submit(self, about: Any, function: Callable[..., Any], *args: Any, on_gpu: bool) -> Future:
        """Let a worker call a function; its result is received together with what it is ``about``.

        With ``on_gpu`` only a worker that has a free GPU will do, where any has one.
        """
        resources = {"GPU": 1} if on_gpu and self._has_gpus else None
        # Two runs may share a scheduler, and one run may send a unit twice.
        key = f"{args[0].__name__}-{uuid.uuid4().hex}"
        with self._guarded():
            future = self._client.submit(function, *args, key=key, resources=resources)
        self._sent[key] = future, about, resources is not None
        future.add_done_callback(self._done.put)
        return future

    def received(self) -> Iterator[tuple[Any, Any]]:
        """The next result, or the error that killed workers, after what it is about; none if none comes soon."""
        if time.monotonic() - self._looked > _LOOK_S:
            self.look()
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
        """Give up all calls."""
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

    def look(self) -> None:
        """Count the workers; raise where there has been none for too long."""
        self._looked = time.monotonic()
        with self._guarded():
            if self._client.status != "running":
                raise ConnectionError("closed")
            workers = self._client.scheduler_info()["workers"].values()
        self.n_threads = sum(worker["nthreads"] for worker in workers)
        self._has_gpus = any(worker["resources"].get("GPU") for worker in workers)
        # Calls that were sent when there were GPUs are of no use to workers without.
        waits_for_gpu = any(on_gpu for *_, on_gpu in self._sent.values())
        if self.n_threads and (self._has_gpus or not waits_for_gpu):
            self._alive, self._had_workers = self._looked, True
        patience = self._cluster.patience_s if self._had_workers else self._cluster.first_patience_s
        if self._looked - self._alive > patience:
            kind = " with a GPU" if waits_for_gpu else ""
            raise BertologyError(
                f"no worker{kind} of {self._cluster.name} for {patience:.0f} s: start some, such as `dask worker "
                f"{self._client.scheduler.address} --nthreads 1`, or wait longer by --patience; {_KEPT}"
            )


@contextlib.contextmanager
def _cluster(choice: engines.ClusterChoice, jobs: int, run: Path) -> Iterator[_Cluster]:
    patience = choice.patience_s or _PATIENCE_S
    if choice.scheduler is not None:
        address = choice.address()
        yield _Cluster(address, address, patience, patience)
    elif choice.slurm is not None:
        if shutil.which("sbatch") is None:
            raise BertologyError(f"--slurm {choice.slurm}: no sbatch here; run this command where jobs are submitted")
        profile = engines.read_profile(choice.slurm)
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
        started = {"n_workers": jobs, "threads_per_worker": 1, "memory_limit": 0, "host": "127.0.0.1"}
        quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": None}
        with (
            temporary_folder(run, "dask") as folder,
            dask.config.set({"temporary-directory": str(folder.absolute())}),
            LocalCluster(**started, **quiet, scheduler_kwargs={"dashboard_address": ":0"}) as local,
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
            return function(device, context.run, *args)
        except Exception as error:
            return _portable(error)


def compute(
    device: str, run: Path, sent: Sequence[tuple[int, engines.Sent]], wait: bool, extracted: Exception | None = None
) -> list[tuple[int, Any]]:
    """Compute units that stand together; all fail where the vectors that they read could not be extracted."""
    if isinstance(extracted, Exception):
        return [(number, extracted) for number, _ in sent]
    engines.close_encoder()
    units = [(number, engines.received(one)) for number, one in sent]
    for unit in (unit for _, unit in units):
        for read in unit.reads:
            pair = read.pair(unit.plan.pair)
            for sentences in texts_read(pair.splits, read.signal).values():
                look_afresh(pair.recipe(read.weights, sentences, read.signal).folder(pair.layers))
    outcomes = engines.compute_load(units, engines.Context(run, device, wait))
    return [(number, _portable(one) if isinstance(one, Exception) else one) for number, one in outcomes]


def write_shards(device: str, run: Path, sent: engines.Sent) -> list[str]:
    """Write the missing shards of what a unit reads, but for those that another worker is at; returns notes on them."""
    unit, progress = engines.received(sent), _Notes()
    for read in unit.reads:
        pair = read.pair(unit.plan.pair)
        for sentences in texts_read(pair.splits, read.signal).values():
            recipe = pair.recipe(read.weights, sentences, read.signal)
            entry = recipe.find(pair.layers)
            layers = pair.layers if entry is None else entry.manifest.layers
            folder = recipe.folder(layers)
            make_folder(folder)
            with FileLock(folder.with_suffix(".lock")):
                if Extraction.finished(recipe, layers, progress) is not None:
                    continue
            encoder = engines.open_encoder(pair, read.weights, device)
            extraction = Extraction(encoder, sentences, recipe=recipe, layers=layers, progress=progress)
            for number in range(len(extraction.pieces)):
                with contextlib.suppress(Timeout), FileLock(run / "locks" / f"{recipe.key}-{number}.lock", timeout=0):
                    # Those that are damaged are found when all are there.
                    if not extraction.entry.shard_path(number).exists():
                        with extraction.workers:
                            vectors = extraction.read(number)
                        extraction.write(number, vectors)
    return progress.notes


def extract(device: str, run: Path, sent: engines.Sent, *written: Any) -> list[str] | Exception:
    """Extract what a unit reads, of which shards may be written; returns notes, or the error of who wrote them."""
    unit, progress = engines.received(sent), _Notes()
    for one in written:
        if isinstance(one, Exception):
            return one
        progress.notes += one
    for read in unit.reads:
        engines.extract_splits(read.pair(unit.plan.pair), read.weights, device, lambda _: progress, read.signal)
    return progress.notes


class _Notes(Progress):
    """Keeps notes, which are shown on another machine."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def _n_bytes(unit: Unit) -> int:
    """Bytes of the stored vectors that a unit reads."""
    n_bytes = 0
    for read in unit.reads:
        pair = read.pair(unit.plan.pair)
        n_bytes += sum(pair.stored_bytes(text, read.signal) for text in texts_read(pair.splits, read.signal).values())
    return n_bytes


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
        return BertologyError(_line(error))
    return error


def dask_engine(pool: Pool, units: Sequence[Unit], context: engines.Context) -> engines.Outcomes:
    """The engine that gives units to the workers of a pool."""
    run, cache = context.run.absolute(), cache_folder().absolute()
    with _marked(run / "locks", cache) as token, engines.Sender(run) as sender:
        worker = WorkerContext(run, cache, token, context.device)

        def submit(about: Any, function: Callable[..., Any], *args: Any, needs_gpu: bool = True) -> Future:
            return pool.submit(about, on_worker, function, worker, *args, on_gpu=needs_gpu and context.device != "cpu")

        def begin(load: list[engines.Numbered], *extracted: Future) -> None:
            sent = [(number, sender.send(unit)) for number, unit in load]
            submit(load, compute, sent, context.wait, *extracted, needs_gpu=not load[0][1].is_baseline)

        left, more, noted = engines.portions(units), True, set[str]()
        try:
            while more or pool.n_left:
                # No further model is begun while there is enough to do, so that what is finished comes soon.
                while more and pool.n_left < pool.enough:
                    more = (portion := next(left, None)) is not None
                    pending = [numbered for numbered in portion or () if context.is_pending(numbered[1])]
                    extracted: dict[tuple[StoredSignal, ...], Future] = {}
                    for load in engines.together(pending):
                        unit = load[0][1]
                        if unit.reads and unit.reads not in extracted:
                            sent, helpers = sender.send(unit), min(pool.n_threads, _n_bytes(unit) // BYTES_A_WORKER)
                            written = [submit((), write_shards, sent) for _ in range(helpers if helpers > 1 else 0)]
                            extracted[unit.reads] = submit(unit, extract, sent, *written)
                        begin(load, *([extracted[unit.reads]] if unit.reads else []))
                for about, result in pool.received():
                    if isinstance(about, Unit):
                        progress = context.progress(f"{about.plan.pair.source.title}, {about.plan.pair.corpus.name}")
                        for note in () if isinstance(result, Exception) else dict.fromkeys(result):
                            if note not in noted:
                                progress.note(note)
                                noted.add(note)
                    elif about and isinstance(result, Exception) and len(about) > 1:
                        # Workers died. Which unit it was is not known: each is sent alone.
                        for numbered in about:
                            begin([numbered])
                    elif about:
                        outcomes = [(about[0][0], result)] if isinstance(result, Exception) else result
                        for number, outcome in outcomes:
                            if isinstance(outcome, Exception):
                                # Where the worker could not leave a record, since it died, there is none yet.
                                write_failure(run, dict(about)[number], outcome)
                        yield from outcomes
        finally:
            pool.cancel()
            for folder in ("cells", "predictions"):
                look_afresh(run / folder)


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
