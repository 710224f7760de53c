"""Units on the workers of a dask cluster: vectors are read by all of them, then fits go out as their vectors are there.

The run's folder and the cache lie on a file system that this process and all workers share; through dask goes only what
is to be computed, and how it went. Lost workers are replaced by dask itself; what cannot go on is an error of one line.
"""

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
from dataclasses import dataclass, replace
from functools import partial
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
from bertology._machine import VISIBLE_GPUS, choose_device
from bertology.activations import Extraction
from bertology.activations import extract as extract_text
from bertology.activations.progress import Progress
from bertology.activations.store import make_folder
from bertology.corpora import Shard, ShardedSentences
from bertology.errors import BertologyError
from bertology.readouts import sum_over
from bertology.runner import engines
from bertology.runner._folder import write_failure
from bertology.runner.engines import Context
from bertology.runner.plan import Unit

_CONNECT_S, _PATIENCE_S = 10.0, 120.0
_LOOK_S, _TICK_S, _RESULT_S, _CLOSE_S = 2.0, 0.5, 60.0, 2.0
BYTES_A_WORKER = 96 << 20  # vectors of so many bytes are worth another worker's reading the model and the text
_KEPT = "what is finished is kept, the same command goes on from here"
_LOST = (FutureCancelledError, CommClosedError, ConnectionError, TimeoutError)


class Pool:
    """The workers of a cluster, and the calls that were sent to them."""

    def __init__(
        self, client: Client, name: str, patience_s: float, first_patience_s: float, most_workers: int
    ) -> None:
        self.client, self.name, self.most_workers = client, name, most_workers
        self._patience_s = first_patience_s, patience_s  # until there has been a worker, and from then on
        self.sent: dict[str, tuple[Future, Any]] = {}  # calls without a result by key, with what they are about
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._looked = self._alive = time.monotonic()
        self.n_threads, self._had_workers, self._has_gpus, self._waits_for_gpu = 0, False, False, False

    def submit(self, about: Any, function: Callable[..., Any], *args: Any, on_gpu: bool) -> Future:
        """Let a worker call a function; with ``on_gpu`` only one that has a free GPU, where any declares one."""
        on_gpu = on_gpu and self._has_gpus
        # Two runs may share a scheduler, and one run may send a unit twice.
        key, resources = f"{args[0].__name__}-{uuid.uuid4().hex}", {"GPU": 1} if on_gpu else None
        future = self.client.submit(function, *args, key=key, resources=resources)
        self.sent[key], self._waits_for_gpu = (future, about), self._waits_for_gpu or on_gpu
        future.add_done_callback(self._done.put)
        return future

    def received(self) -> Iterator[tuple[Any, Any]]:
        """What the next result is about, and the result or the error that killed workers; none if none comes soon."""
        if time.monotonic() - self._looked > _LOOK_S:
            self.look()
        try:
            future = self._done.get(timeout=_TICK_S)
            value = future.result(timeout=_RESULT_S) if future.key in self.sent else None
        except Empty:
            return
        except KilledWorker as error:
            what = f"{error.allowed_failures + 1} workers died while they were at it, perhaps as memory ran out"
            value = BertologyError(f"{what}: give workers more memory, or fewer of them to a machine")
        except TimeoutError:  # its worker was lost before the result was fetched: dask computes it again
            future.add_done_callback(self._done.put)
            return
        if future.key in self.sent:
            yield self.sent.pop(future.key)[1], value

    def sum_over(self, shared: "WorkerContext", function: Callable[..., Any], shards: Sequence[Any], *args: Any) -> Any:
        """As :func:`bertology.readouts.sum_over`; each worker goes through its own range of the shards."""
        # While workers are started anew there may be none: then whichever comes computes all.
        workers, sent = sorted(self.client.scheduler_info(n_workers=-1)["workers"]) or [""], list[Future]()
        for number, worker in enumerate(workers):
            part = shards[number * len(shards) // len(workers) : (number + 1) * len(shards) // len(workers)]
            where: dict[str, Any] = {"workers": [worker], "allow_other_workers": True} if worker else {}
            if part:
                task = on_worker, sum_shards, shared, function, part, *args
                sent.append(self.client.submit(*task, pure=False, **where))
        while pending := [future for future in sent if not future.done()]:
            with contextlib.suppress(TimeoutError):
                pending[0].result(timeout=_LOOK_S)
            self.look()
        if error := next((one for one in map(Future.result, sent) if isinstance(one, Exception)), None):
            raise error
        return sum_over(tuple, map(Future.result, sent))

    def look(self) -> None:
        """Count the workers; raise where there has been none for too long."""
        self._looked = time.monotonic()
        if self.client.status != "running":
            raise ConnectionError("closed")
        workers = self.client.scheduler_info()["workers"].values()
        self.n_threads = sum(worker["nthreads"] for worker in workers)
        self._has_gpus = any(worker["resources"].get("GPU") for worker in workers)
        if self.n_threads and (self._has_gpus or not self._waits_for_gpu):
            self._alive, self._had_workers = self._looked, True
        patience = self._patience_s[self._had_workers]
        if self._looked - self._alive > patience:
            kind = " with a GPU" if self.n_threads else ""
            raise BertologyError(
                f"no worker{kind} of {self.name} for {patience:.0f} s: start some, such as `dask worker "
                f"{self.client.scheduler.address} --nthreads 1`, or wait longer by --patience; {_KEPT}"
            )

    def cancel(self) -> None:
        """Give up all calls."""
        futures = [future for future, _ in self.sent.values()]
        self.sent.clear()
        if futures and self.client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):
                self.client.cancel(futures)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors between this process and the workers into one line."""
        try:
            yield
        except BertologyError:
            raise
        except Exception as error:
            message = f"a worker cannot do its work ({_line(error)}): workers need the same packages as this machine"
            if self.client.status != "running" or isinstance(error, _LOST):
                message = f"the dask scheduler at {self.name} is gone: start it again; {_KEPT}"
            raise BertologyError(message) from error


class _Processes(LocalCluster):  # type: ignore[misc]
    """Workers that are processes of this machine; those with GPUs, by their names, see one of them each."""

    def __init__(self, gpus: Sequence[str], **options: Any) -> None:
        self._gpus = gpus
        super().__init__(n_workers=0, **options)

    def new_worker_spec(self) -> dict[Any, Any]:
        ((number, spec),) = super().new_worker_spec().items()
        own: dict[str, Any] = {}
        if self._gpus:
            own = {"env": {VISIBLE_GPUS: self._gpus[number % len(self._gpus)]}, "resources": {"GPU": 1}}
        return {number: {**spec, "options": spec["options"] | own}}


@contextlib.contextmanager
def open_pool(
    choice: engines.ClusterChoice, *, jobs: int, gpus: Sequence[str] = (), run: Path, echo: Callable[[str], None]
) -> Iterator[Pool]:
    """The workers that were chosen, or so many ``jobs`` of this machine, while in the ``with`` block.

    Processes of this machine share out ``gpus``, which are named as in ``CUDA_VISIBLE_DEVICES``.
    """
    patience = first_patience = choice.patience_s or _PATIENCE_S
    most_workers = 1
    where: Any
    with contextlib.ExitStack() as stack:
        # Without dask's own log: it replaces lost workers itself, and a lost scheduler is an error of one line.
        logger = logging.getLogger("distributed")
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL + 1)
        if choice.scheduler is not None:
            where = name = choice.address()
        elif choice.slurm is not None:
            name, first_patience = f"Slurm ({choice.slurm})", choice.patience_s or float("inf")
            if shutil.which("sbatch") is None:
                raise BertologyError(
                    f"--slurm {choice.slurm}: no sbatch here; run this command where jobs are submitted"
                )
            profile = engines.read_profile(choice.slurm)
            try:
                where, most_workers = stack.enter_context(profile.cluster()), profile.most_workers
                profile.submit(where)
            except (ValueError, TypeError, RuntimeError) as error:  # what dask-jobqueue has against a profile
                raise BertologyError(f"--slurm {choice.slurm}: {_line(error)}") from error
        else:
            name, most_workers = f"{jobs} processes of this machine", jobs
            folder = stack.enter_context(temporary_folder(run, "dask")).absolute()
            stack.enter_context(dask.config.set({"temporary-directory": str(folder)}))
            # No limit of memory: a fit that needs it would be killed for what the machine has.
            started = {"threads_per_worker": 1, "memory_limit": 0, "host": "127.0.0.1", "dashboard_address": None}
            quiet = {"silence_logs": logging.CRITICAL, "scheduler_kwargs": {"dashboard_address": ":0"}}
            where = stack.enter_context(_Processes(gpus, **started, **quiet))
            where.scale(jobs)
        try:
            client = Client(where, timeout=min(_CONNECT_S, choice.patience_s or _CONNECT_S), set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            problem = f"no dask scheduler answers at {name} ({_line(error)})"
            raise BertologyError(f"{problem}: start one by `dask scheduler`, or check the address") from None
        stack.callback(lambda: client.close(timeout=_CLOSE_S))  # a scheduler that is gone is not waited for
        pool = Pool(client, name, patience, first_patience, most_workers)
        with pool.explained():
            pool.look()
            if not pool.n_threads:
                echo(f"waiting for workers of {name}")
            while not pool.n_threads:
                time.sleep(_TICK_S)
                pool.look()
        yield pool


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


# On workers.

_one_at_a_time = threading.Lock()
"""Threads of one process share the numbers of BLAS threads and the model that is open."""


@dataclass(frozen=True)
class WorkerContext:
    """What all calls of a run share."""

    context: Context
    cache: Path
    token: str  # name of a file in both folders, by which a worker knows that they are those of the run
    version: str = __version__


def on_worker(function: Callable[..., Any], shared: WorkerContext, *args: Any) -> Any:
    """Call a function with the context of a worker, in the folders of the run; an error is returned."""
    worker, context = f"the worker on {socket.gethostname()}", shared.context
    with _one_at_a_time:
        if shared.version != __version__:
            versions = f"has bertology {__version__}, this is {shared.version}"
            raise BertologyError(f"{worker} {versions}: install one version everywhere")
        for folder, name, option in (
            (context.run / "locks", f"run folder {context.run}", "--out"),
            (shared.cache, f"cache {shared.cache}", "BERTOLOGY_CACHE"),
        ):
            if not (folder / shared.token).exists():
                remedy = f"name one by {option} on a file system that all workers share"
                raise BertologyError(f"{worker} does not see the {name}: {remedy}")
        os.environ["BERTOLOGY_CACHE"] = str(shared.cache)
        try:
            return function(replace(context, device=str(choose_device(context.device))), *args)
        except Exception as error:
            return _portable(error)


def compute(context: Context, sent: Sequence[tuple[int, engines.Sent]], extracted: Any = None) -> list[tuple[int, Any]]:
    """Compute units that stand together, none of a corpus in shards; all fail where vectors could not be extracted."""
    if isinstance(extracted, Exception):
        return [(number, extracted) for number, _ in sent]
    engines.close_encoder()
    units = [(number, engines.received(one)) for number, one in sent]
    if any(isinstance(unit.plan.pair.splits.train, ShardedSentences) for _, unit in units):
        return []
    for _, unit in units:
        for read in unit.reads:
            pair, texts = read.texts(unit.plan.pair)
            for _, recipe in texts.values():
                look_afresh(recipe.folder(pair.layers))
    outcomes = engines.compute_load(units, context)
    return [(number, _portable(one) if isinstance(one, Exception) else one) for number, one in outcomes]


def sum_shards(_: Context, function: Callable[..., Any], shards: Sequence[Any], *args: Any) -> Any:
    with engines.one_thread():
        return sum_over(function, shards, *args)


def write_shards(context: Context, sent: engines.Sent) -> list[str]:
    """Write the missing shards of what a unit reads, but for those that another worker is at; returns notes on them."""
    unit, progress = engines.received(sent), _Notes()
    every = [(read, *read.texts(unit.plan.pair)) for read in unit.reads]
    for read, pair, sentences, recipe in ((read, pair, *text) for read, pair, of in every for text in of.values()):
        if isinstance(sentences, Shard):
            with contextlib.suppress(Timeout), FileLock(context.run / "locks" / f"{recipe.key}.lock", timeout=0):
                encoder = engines.open_encoder(pair, read.weights, context.device).fast_twin(packs=False)
                extract_text(encoder.twin, sentences, recipe=recipe, layers=pair.layers, progress=progress)
            continue
        entry = recipe.find(pair.layers)
        layers = pair.layers if entry is None else entry.manifest.layers
        folder = recipe.folder(layers)
        make_folder(folder)
        with FileLock(folder.with_suffix(".lock")):
            if Extraction.finished(recipe, layers, progress) is not None:
                continue
        encoder = engines.open_encoder(pair, read.weights, context.device)
        extraction = Extraction(encoder, sentences, recipe=recipe, layers=layers, progress=progress)
        for number in range(len(extraction.pieces)):
            lock = FileLock(context.run / "locks" / f"{recipe.key}-{number}.lock", timeout=0)
            with contextlib.suppress(Timeout), lock:
                # Those that are damaged are found when all are there.
                if not extraction.entry.shard_path(number).exists():
                    with extraction.workers:
                        vectors = extraction.read(number)
                    extraction.write(number, vectors)
    return progress.notes


def extract(context: Context, sent: engines.Sent, *written: Any) -> list[str] | Exception:
    """Extract what a unit reads, of which shards may be written; returns notes, or the error of who wrote them."""
    unit, progress = engines.received(sent), _Notes()
    for one in written:
        if isinstance(one, Exception):
            return one
        progress.notes += one
    for read in unit.reads:
        engines.extract_splits(unit.plan.pair, read, replace(context, progress=lambda _: progress))
    return progress.notes


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
    except Exception:  # some errors cannot be made again from what they say of themselves
        return BertologyError(_line(error))
    return error


# In the process of the run.


def dask_engine(pool: Pool, units: Sequence[Unit], context: Context) -> engines.Outcomes:
    """The engine that gives units to the workers of a pool."""
    run, cache = context.run.absolute(), cache_folder().absolute()
    with _marked(run / "locks", cache) as token, temporary_folder(run, "corpora") as corpora, pool.explained():
        shared = WorkerContext(Context(run, context.device, context.wait), cache, token)
        sender = engines.Sender(corpora)
        here = replace(context, device="cpu", over=partial(pool.sum_over, shared))

        def submit(about: Any, function: Callable[..., Any], *args: Any, needs_gpu: bool = True) -> Future:
            return pool.submit(about, on_worker, function, shared, *args, on_gpu=needs_gpu and context.device != "cpu")

        def begin(load: list[engines.Numbered], *extracted: Future) -> None:
            sent = [(number, sender.send(unit)) for number, unit in load]
            submit(load, compute, sent, *extracted, needs_gpu=not load[0][1].is_baseline)

        left, more, noted = engines.portions(units, context), True, set[str]()
        try:
            while more or pool.sent:
                # No further model is begun while there is enough to do, so that what is finished comes soon; an
                # adaptive cluster needs waiting calls to grow.
                while more and len(pool.sent) < 2 * max(pool.n_threads, pool.most_workers) + 2:
                    more = (portion := next(left, None)) is not None
                    extracted: dict[Any, list[Future]] = {(): []}
                    for load in engines.together(one for one in portion or () if context.is_pending(one[1])):
                        unit = load[0][1]
                        if unit.reads not in extracted:
                            texts = [(read, *read.texts(unit.plan.pair)) for read in unit.reads]
                            n_bytes = sum(
                                read.n_bytes(of, text) for read, of, some in texts for text, _ in some.values()
                            )
                            sent, n_helpers = sender.send(unit), min(pool.n_threads, n_bytes // BYTES_A_WORKER)
                            written = [submit((), write_shards, sent) for _ in range(n_helpers if n_helpers > 1 else 0)]
                            extracted[unit.reads] = [submit(None, extract, sent, *written)]
                        begin(load, *extracted[unit.reads])
                for load, result in pool.received():
                    if load and not result:  # of shards, of which workers compute sums alone
                        result = engines.compute_load(load, here)
                    if load is None and not isinstance(result, Exception):
                        for note in (one for one in dict.fromkeys(result) if one not in noted):
                            context.progress("").note(note)
                        noted.update(result)
                    elif load and isinstance(result, Exception) and len(load) > 1:
                        # Workers died. Which unit it was is not known: each is sent alone.
                        for numbered in load:
                            begin([numbered])
                    elif load:
                        outcomes = [(load[0][0], result)] if isinstance(result, Exception) else result
                        for number, outcome in outcomes:
                            if isinstance(outcome, Exception):
                                # Where the worker could not leave a record, since it died, there is none yet.
                                write_failure(run, dict(load)[number], outcome)
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
