"""Units on the workers of a dask cluster: vectors are read shard by shard, then fits go out as their vectors are there.

The run's folder and the cache lie on a file system that this process and all workers share; through dask go only a
corpus to each worker once, what is to be computed, and how it went.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Future
from filelock import FileLock, Timeout

from bertology._files import cache_folder, explained_write_errors
from bertology._temporary import temporary_affixes
from bertology.activations import Progress
from bertology.families.tasks import Weights
from bertology.runner._compute import Context, Numbered, Outcome, together
from bertology.runner._folder import write_failure
from bertology.runner._plan import Plan, Unit
from bertology.runner.engines._dask_pool import Pool
from bertology.runner.engines._dask_tasks import Errand, Survey, compute, survey, unpack, write_shard
from bertology.runner.engines._local import Engine, Outcomes, in_telling_order, portions
from bertology.runner.engines._sending import Freight

_AGAIN_S = 1.0
_Entry = tuple[Weights, str]
"""Weights, and the split that was read with them."""


@dataclass(eq=False)
class _Reading:
    """The vectors of one model and corpus, and the units that wait for them."""

    plan: Plan
    """Without its sentences."""
    draws: tuple[Weights, ...]
    units: list[Numbered]
    splits: Future
    lock_files: tuple[Path, ...]
    progress: Progress
    locks: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    surveys: dict[_Entry, Survey] = field(default_factory=dict)
    checksums: dict[_Entry, list[str | None]] = field(default_factory=dict)
    left: int = 0
    """Shards that are still to come."""
    has_failed: bool = False

    def lock(self) -> bool:
        """Take the locks of the entries if all are free, and none otherwise."""
        # Nobody waits for a lock while he holds others, so that two runs cannot wait for each other.
        with contextlib.ExitStack() as stack:
            try:
                for path in self.lock_files:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    stack.enter_context(FileLock(path, timeout=0))
            except Timeout:
                return False
            self.locks = stack.pop_all()
            return True


def dask_engine(pool: Pool) -> Engine:
    """The engine that gives units to these workers."""

    def engine(units: Sequence[Unit], context: Context) -> Outcomes:
        run, cache = context.run.absolute(), cache_folder().absolute()
        with _marked(run / "locks", cache) as token:
            drive = _Drive(pool, units, replace(context, run=run), Errand(run, cache, token, context.device))
            try:
                yield from drive.outcomes()
            finally:
                drive.stop()
                for folder in ("cells", "predictions"):
                    # A network file system may remember from before that a file was not there; it forgets that when
                    # the folder is opened.
                    if (run / folder).is_dir():
                        os.listdir(run / folder)  # noqa: PTH208

    return engine


class _Drive:
    """One stage of a run: what is out on the workers, and what follows when it comes back."""

    def __init__(self, pool: Pool, units: Sequence[Unit], context: Context, errand: Errand) -> None:
        self._pool, self._context, self._errand = pool, context, errand
        self._portions = portions(units)
        self._freight = Freight()
        self._corpora: dict[str, Future] = {}
        self._waiting: deque[_Reading] = deque()
        self._open: list[_Reading] = []
        # Two runs may share a scheduler, and one run may send a unit twice.
        self._mark = uuid.uuid4().hex[:12]

    def outcomes(self) -> Outcomes:
        """Send and receive until all is done."""
        more = True
        while True:
            # No further model is begun while there is enough to do, so that what is finished comes soon.
            while more and self._pool.outstanding + len(self._waiting) < self._pool.enough:
                portion = next(self._portions, None)
                more = portion is not None
                self._begin([received for received in portion or () if self._context.is_pending(received[1])])
            for _ in range(len(self._waiting)):
                self._read(self._waiting.popleft())
            if self._pool.outstanding:
                received = self._pool.next()
                if received is not None:
                    handler, value = received
                    yield from handler(value)
            elif self._waiting:
                time.sleep(_AGAIN_S)  # another process is at all that is left
            elif not more:
                return

    def stop(self) -> None:
        """Give up what is out, and all locks."""
        self._pool.cancel()
        for reading in self._open:
            reading.locks.close()
        self._corpora.clear()

    def _begin(self, portion: Sequence[Numbered]) -> None:
        """Send what needs no vectors; queue the readings of the model that the others need."""
        readings: dict[tuple[Weights, ...], _Reading] = {}
        for load in together(portion):
            number, unit = load[0]
            if not unit.reads_vectors:
                self._send(load)
                continue
            if unit.weights not in readings:
                readings[unit.weights] = self._reading(unit.plan, unit.weights)
            readings[unit.weights].units.append((number, unit))
        self._waiting.extend(readings.values())

    def _reading(self, plan: Plan, draws: tuple[Weights, ...]) -> _Reading:
        files = []
        for weights, sentences in itertools.product(draws, plan.pair.splits.by_name.values()):
            recipe = plan.pair.recipe(weights, sentences)
            entry = recipe.find(plan.pair.layers)
            layers = plan.pair.layers if entry is None else entry.manifest.layers
            files.append(recipe.folder(layers).with_suffix(".lock"))
        label = f"{plan.pair.called(draws[0])}, {plan.pair.corpus.name}"
        return _Reading(
            self._freight.light(plan),
            draws,
            [],
            self._corpus(plan),
            tuple(dict.fromkeys(files)),
            self._context.progress(label),
        )

    def _corpus(self, plan: Plan) -> Future:
        def keep(name: str, content: bytes) -> None:
            if name not in self._corpora:
                self._corpora[name] = self._pool.keep(unpack, content, name=f"corpus-{self._mark}-{name}")

        return self._corpora[self._freight.name(plan.pair.splits, keep)]

    def _read(self, reading: _Reading) -> None:
        """Ask what there is of the vectors, if no other process is at them."""
        if not reading.lock():
            self._waiting.append(reading)
            return
        self._open.append(reading)
        self._submit(partial(self._surveyed, reading), survey, reading.plan, reading.draws, reading.splits)

    def _surveyed(self, reading: _Reading, surveys: dict[_Entry, Survey] | Exception) -> Outcomes:
        if isinstance(surveys, Exception):
            yield from self._failed(reading, surveys)
            return
        reading.surveys = {entry: each for entry, each in surveys.items() if each.entry is not None}
        reading.checksums = {entry: list(each.checksums) for entry, each in reading.surveys.items()}
        self._tell(reading, surveys)
        for (weights, split), each in reading.surveys.items():
            assert each.entry is not None
            layers = each.entry.manifest.layers
            for number, checksum in enumerate(each.checksums):
                if checksum is None:
                    reading.left += 1
                    written = partial(self._written, reading, (weights, split), number)
                    self._submit(written, write_shard, reading.plan, weights, reading.splits, split, layers, number)
        if not reading.left:
            yield from self._complete(reading)

    def _tell(self, reading: _Reading, surveys: dict[_Entry, Survey]) -> None:
        for each in surveys.values():
            for note in each.notes:
                reading.progress.note(note)
        counted = [
            (pieces, checksum)
            for each in reading.surveys.values()
            for pieces, checksum in zip(each.pieces, each.checksums, strict=True)
        ]
        if counted:
            reading.progress.start(sum(pieces for pieces, _ in counted), unit="pieces")
            reading.progress.skip(sum(pieces for pieces, checksum in counted if checksum is not None))

    def _written(self, reading: _Reading, entry: _Entry, number: int, checksum: str | Exception) -> Outcomes:
        reading.left -= 1
        if isinstance(checksum, Exception):
            yield from self._failed(reading, checksum)
            return
        reading.checksums[entry][number] = checksum
        reading.progress.advance(reading.surveys[entry].pieces[number])
        if not reading.left and not reading.has_failed:
            yield from self._complete(reading)

    def _complete(self, reading: _Reading) -> Outcomes:
        """Make the entries whole, and send what waits for them."""
        try:
            for entry, each in reading.surveys.items():
                assert each.entry is not None
                each.entry.complete(reading.checksums[entry])
        except Exception as error:
            yield from self._failed(reading, error)
            return
        self._close(reading)
        for numbered in reading.units:
            self._send([numbered])

    def _failed(self, reading: _Reading, error: Exception) -> Outcomes:
        """A model that cannot be read is no bar to the others."""
        if reading.has_failed:
            return
        reading.has_failed = True
        self._close(reading)
        for number, unit in reading.units:
            write_failure(self._context.run, unit, error)
            yield number, error

    def _close(self, reading: _Reading) -> None:
        reading.progress.finish()
        reading.locks.close()
        self._open.remove(reading)

    def _send(self, load: Sequence[Numbered]) -> None:
        first = load[0][1]
        light = [replace(unit, plan=self._freight.light(unit.plan)) for _, unit in load]
        self._submit(
            partial(self._computed, load),
            compute,
            light,
            self._corpus(first.plan),
            self._context.wait,
            on_gpu=bool(first.draws),
        )

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
        self._pool.submit(handler, function, self._errand, *args, name=name, on_gpu=on_gpu)


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
