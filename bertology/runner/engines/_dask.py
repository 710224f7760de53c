"""Units on the workers of a dask cluster: vectors are read shard by shard, then fits go out as their vectors are there.

The run's folder and the cache lie on a file system that this process and all workers share; through dask go only a
corpus to each worker once, what is to be computed, and how it went.
"""

from __future__ import annotations

import contextlib
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
from bertology.activations import Entry, Progress
from bertology.families.model_corpus import StoredSignal, texts_read
from bertology.runner._compute import Context, Numbered, Outcome, together
from bertology.runner._folder import write_failure
from bertology.runner._plan import Plan, Unit
from bertology.runner.engines._dask_pool import Pool
from bertology.runner.engines._dask_tasks import (
    EntryKey,
    MissingShards,
    WorkerContext,
    compute,
    look_afresh,
    missing_shards,
    write_shard,
)
from bertology.runner.engines._local import Outcomes, in_telling_order, portions
from bertology.runner.engines._sending import Transport, unpack

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
