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
from bertology.runner.engines._cluster import PATIENCE_S, ClusterChoice, read_profile

_LOOK_S = 2.0
_TICK_S = 0.5
_RESULT_S = 60.0
_KEPT = "what is finished is kept, the same command goes on from here"
_LOST = (FutureCancelledError, CommClosedError, ConnectionError, TimeoutError)
Handler = Callable[[Any], Any]


@dataclass(frozen=True)
class _Cluster:
    """Where the scheduler is, and what is known of it beforehand."""

    where: Any
    """An address, or a cluster that was started for the run."""
    name: str
    most_workers: int | None = None
    patience_s: float = PATIENCE_S
    first_patience_s: float = PATIENCE_S
    """Until there has been a worker."""


@contextlib.contextmanager
def open_pool(choice: ClusterChoice, *, jobs: int, run: Path, echo: Callable[[str], None]) -> Iterator[Pool]:
    """The workers that were chosen, while in the ``with`` block.

    Args:
        choice: which they are.
        jobs: how many to start on this machine, if that is the choice.
        run: the run's folder, where these keep their own temporary files.
        echo: told what a person waits for.

    Raises:
        BertologyError: the scheduler does not answer, or there is no worker for too long.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        cluster = stack.enter_context(_cluster(choice, jobs, run))
        try:
            client = Client(cluster.where, timeout=choice.connect_s, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            raise BertologyError(
                f"no dask scheduler answers at {cluster.name} ({_line(error)}): start one by `dask scheduler`, "
                "or check the address"
            ) from None
        # A scheduler that is gone is not waited for.
        stack.callback(lambda: client.close(timeout=2))
        pool = Pool(client, cluster, echo)
        pool.wait()
        yield pool


class Pool:
    """Tasks out, results in; an error in one line where there is no one left to compute them."""

    def __init__(self, client: Client, cluster: _Cluster, echo: Callable[[str], None]) -> None:
        self._client, self._cluster, self._echo = client, cluster, echo
        self._handlers: dict[str, tuple[Future, Handler]] = {}
        self._on_gpu: set[str] = set()
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._had_workers = False
        self._looked = self._alive = time.monotonic()
        self._n_threads = 0
        self.has_gpus = False
        """Whether there are workers that say they have a GPU, by the resource of that name."""

    @property
    def outstanding(self) -> int:
        """Tasks that are not done."""
        return len(self._handlers)

    @property
    def enough(self) -> int:
        """So many tasks keep all workers busy; a cluster that follows the work needs to see some to grow."""
        return 2 * max(self._n_threads, self._cluster.most_workers or 1) + 2

    def wait(self) -> None:
        """Wait for the first worker."""
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
        """Let a worker do something; ``next`` brings its result together with ``handler``.

        Args:
            handler: what the result is for.
            function: what to do.
            args: for the function.
            name: of the task; no two alike.
            on_gpu: a GPU is used, so that only a worker that has a free one will do, where any has.
        """
        resources = {"GPU": 1} if on_gpu and self.has_gpus else None
        with self._guarded():
            future = self._client.submit(function, *args, key=f"{name}-{self._client.id}", resources=resources)
        self._handlers[future.key] = future, handler
        if resources:
            self._on_gpu.add(future.key)
        future.add_done_callback(self._done.put)

    def next(self) -> tuple[Handler, Any] | None:
        """A result and what it is for; nothing where none came for a moment. An error that killed workers is a result.

        Raises:
            BertologyError: the scheduler is gone, there is no worker, or one cannot work.
        """
        if time.monotonic() - self._looked > _LOOK_S:
            self._look()
        try:
            future = self._done.get(timeout=_TICK_S)
        except Empty:
            return None
        if future.key not in self._handlers:
            return None
        with self._guarded():
            try:
                value: Any = future.result(timeout=_RESULT_S)
            except KilledWorker as error:
                value = _died(error)
            except TimeoutError:
                # Its worker was lost before the result was fetched: dask computes it again.
                future.add_done_callback(self._done.put)
                return None
        _, handler = self._handlers.pop(future.key)
        self._on_gpu.discard(future.key)
        return handler, value

    def cancel(self) -> None:
        """Give up what is not done yet."""
        futures = [future for future, _ in self._handlers.values()]
        self._handlers.clear()
        self._on_gpu.clear()
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
                raise BertologyError(
                    f"the dask scheduler at {self._cluster.name} is gone: start it again; {_KEPT}"
                ) from error
            raise BertologyError(
                f"a worker cannot do its work ({_line(error)}): workers need the same packages and versions as this "
                "machine"
            ) from error

    def _look(self) -> None:
        """See who is there; raise where no one has been for too long."""
        self._looked = time.monotonic()
        with self._guarded():
            if self._client.status != "running":
                raise ConnectionError("closed")
            workers = self._client.scheduler_info()["workers"].values()
        self._n_threads = sum(worker["nthreads"] for worker in workers)
        self.has_gpus = any(worker["resources"].get("GPU") for worker in workers)
        # Tasks that were sent when there were GPUs are of no use to workers without.
        if self._n_threads and (self.has_gpus or not self._on_gpu):
            self._alive, self._had_workers = self._looked, True
        patience = self._cluster.patience_s if self._had_workers else self._cluster.first_patience_s
        if self._looked - self._alive > patience:
            kind = " with a GPU" if self._on_gpu else ""
            raise BertologyError(
                f"no worker{kind} of {self._cluster.name} for {patience:.0f} s: start some, such as `dask worker "
                f"{self._client.scheduler.address} --nthreads 1`, or wait longer by --patience; {_KEPT}"
            )


@contextlib.contextmanager
def _cluster(choice: ClusterChoice, jobs: int, run: Path) -> Iterator[_Cluster]:
    patience = choice.patience_s or PATIENCE_S
    if choice.scheduler is not None:
        address = choice.address()
        yield _Cluster(address, address, patience_s=patience, first_patience_s=patience)
    elif choice.slurm is not None:
        if shutil.which("sbatch") is None:
            raise BertologyError(f"--slurm {choice.slurm}: no sbatch here; give the command where jobs are submitted")
        profile = read_profile(choice.slurm)
        first = choice.patience_s or float("inf")
        with contextlib.ExitStack() as stack:
            with _explained_profile(choice):
                slurm = stack.enter_context(profile.cluster())
                profile.submit(slurm)
            yield _Cluster(slurm, f"Slurm ({choice.slurm})", profile.most_workers, patience, first)
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
            yield _Cluster(local, f"{jobs} processes of this machine", jobs, patience, patience)


@contextlib.contextmanager
def _explained_profile(choice: ClusterChoice) -> Iterator[None]:
    """What dask-jobqueue has against a profile, in one line."""
    try:
        yield
    except (ValueError, TypeError, RuntimeError) as error:
        raise BertologyError(f"--slurm {choice.slurm}: {_line(error)}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without dask's own log: a lost worker is its business, and of a lost scheduler a person is told in one line."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _died(error: KilledWorker) -> BertologyError:
    n = error.allowed_failures + 1
    return BertologyError(
        f"{n} workers died while they were at it, perhaps as memory ran out: give workers more memory, "
        "or fewer of them to a machine"
    )


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
