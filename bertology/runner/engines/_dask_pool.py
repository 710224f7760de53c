"""The workers of a dask cluster, for as long as a run needs them: found or started, watched, given back."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from bertology._temporary import temporary_folder
from bertology.errors import BertologyError
from bertology.runner.engines._cluster import CONNECT_S, PATIENCE_S, ClusterChoice, read_profile

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
        """So many tasks keep all workers busy; a cluster that follows the work needs to see some to grow."""
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
        """What goes wrong between here and the workers, in one line."""
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
