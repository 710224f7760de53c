"""Engines of this machine: units one after the other, side by side in threads, or in several processes."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Event
from typing import Literal

from bertology._temporary import end_with_parent
from bertology.activations import Progress
from bertology.errors import BertologyError
from bertology.families.model_corpus import StoredSignal
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
from bertology.runner._plan import Unit
from bertology.runner.engines._sending import Sent, loaded, sending, splits_in

Note = tuple[Progress, str]
"""A note, and the display that shows it."""
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
        ready = yield from _with_vectors(portion, context)
        for load in together(ready):
            yield from _computed(load, context)


def _threads(n_threads: int, units: Sequence[Unit], context: Context) -> Outcomes:
    """Fits side by side in threads of this process, each computing on one thread; everything else one by one.

    Threads start at once, where processes would take longer to start than many a fit to compute. What a person learns
    of fits comes in the order of the units, whichever ends first.
    """
    for portion in portions(units):
        loads = together((yield from _with_vectors(portion, context)))
        # Hooks and gates belong to the one model that is open, so that its passes do not run side by side.
        fits = [load for load in loads if load[0][1].reads]
        for load in [load for load in loads if not load[0][1].reads]:
            with all_threads() if load[0][1].draws else contextlib.nullcontext():
                outcomes_of_load = _computed(load, context)
            yield from outcomes_of_load
        parts = [part for load in fits for part in _draw_by_draw(load)]
        n_fits = sum(bool(unit.draws) for ((_, unit), *_) in parts)
        sharing = replace(context, side_by_side=max(1, min(n_threads, n_fits)))
        stopped, notes = Event(), [list[Note]() for _ in parts]
        # One fit may spread its layers over all threads.
        with ThreadPoolExecutor(n_threads) as pool, one_thread() if len(parts) > 1 else contextlib.nullcontext():
            displays = [_in_thread(context.progress, stopped, kept) for kept in notes]
            jobs = [replace(sharing, progress=display) for display in displays]
            futures = [pool.submit(_computed, *job) for job in zip(parts, jobs, strict=True)]
            ended = zip(futures, notes, strict=True)
            try:
                for load in fits:
                    outcomes: dict[int, list[Outcome | Exception]] = {number: [] for number, _ in load}
                    for future, kept in itertools.islice(ended, len(_draw_by_draw(load))):
                        for number, outcome in future.result():
                            outcomes[number].append(outcome)
                        for display, text in kept:
                            display.note(text)
                    yield from ((number, _of_all(of_unit)) for number, of_unit in outcomes.items())
            finally:
                stopped.set()
                for future in futures:
                    future.cancel()


def _draw_by_draw(load: list[Numbered]) -> list[list[Numbered]]:
    """A unit as one unit for each draw of its weights; units that share a pass as they are."""
    number, unit = load[0]
    return [load] if len(load) > 1 else [[(number, replace(unit, part=(group,)))] for group in unit.draws]


_BY_WEIGHT: tuple[Outcome, ...] = ("busy", "computed", "found")


def _of_all(outcomes: Sequence[Outcome | Exception]) -> Outcome | Exception:
    """The outcome of a unit from those of its draws: a failure, else what is left to do, else what was done."""
    failures = (outcome for outcome in outcomes if isinstance(outcome, Exception))
    return next(failures, None) or next(outcome for outcome in _BY_WEIGHT if outcome in outcomes)


class _Stopped(BaseException):
    """Ends a fit in a thread, when the run ends before it."""


def _in_thread(progress: ProgressFor, stopped: Event, notes: list[Note]) -> ProgressFor:
    return lambda label: _InThread(progress(label), stopped, notes)


class _InThread(Progress):
    """The progress display of a job in a thread: it keeps notes for later, and ends the job once it is stopped."""

    def __init__(self, display: Progress, stopped: Event, notes: list[Note]) -> None:
        self._display, self._stopped, self._notes = display, stopped, notes

    def _shown(self) -> Progress:
        if self._stopped.is_set():
            raise _Stopped
        return self._display

    def start(self, total: int, *, unit: str) -> None:
        self._shown().start(total, unit=unit)

    def advance(self, amount: int) -> None:
        self._shown().advance(amount)

    def skip(self, amount: int) -> None:
        self._shown().skip(amount)

    def finish(self) -> None:
        self._shown().finish()

    def say(self, text: str) -> None:
        self._shown().say(text)

    def note(self, text: str) -> None:
        self._notes.append((self._shown(), text))


def _joblib(n_jobs: int, units: Sequence[Unit], context: Context) -> Outcomes:
    from joblib import Parallel, delayed

    with sending(context.run) as send, _explained_ends():
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
            sent = ([(number, send(unit)) for number, unit in load] for load in loads)
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
    return (list(portion) for _, portion in groupby(enumerate(units), key=lambda numbered: id(numbered[1].plan)))


def _with_vectors(
    portion: Sequence[Numbered], context: Context
) -> Generator[tuple[int, Exception], None, list[Numbered]]:
    """Read what units need that are still pending, and return them; those whose model cannot be read are yielded."""
    errors: dict[StoredSignal, Exception | None] = {}
    ready = []
    for number, unit in [(number, unit) for number, unit in portion if context.is_pending(unit)]:
        for read in unit.reads:
            if read not in errors:
                errors[read] = None
                try:
                    pair = read.pair(unit.plan.pair)
                    extract_splits(pair, read.weights, context.device, context.progress, read.signal)
                except Exception as error:  # a model that cannot be read is no bar to the others
                    errors[read] = error
        failure = next((failure for each in unit.reads if (failure := errors[each]) is not None), None)
        if failure is not None:
            write_failure(context.run, unit, failure)
            yield number, failure
        else:
            ready.append((number, unit))
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
    return in_telling_order(load, compute_units([unit for _, unit in load], context))


def in_telling_order(
    load: Sequence[Numbered], outcomes: Iterable[Outcome | Exception]
) -> list[tuple[int, Outcome | Exception]]:
    """What is done first: a failure may end the run."""
    numbered = zip((number for number, _ in load), outcomes, strict=True)
    return sorted(numbered, key=lambda outcome: isinstance(outcome[1], Exception))


def _unpacked(
    load: Sequence[tuple[int, Sent]], run: Path, device: str, wait: bool, side_by_side: int
) -> list[tuple[int, Outcome | Exception]]:
    units = [(number, loaded(unit, splits_in(file))) for number, (unit, file) in load]
    return _computed(units, Context(run, device, wait, side_by_side=side_by_side))
