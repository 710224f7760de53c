"""Units of work, in whatever process: computed once, however many processes work on the run.

Also what they read: the model of a plan, opened when it is needed, and the stored vectors of its corpus. In a
cross-validation cells are computed in each fold by itself, then put together to those of all items.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from filelock import Timeout

from bertology._memory import give_back_freed_memory, memory_for_vectors
from bertology.activations import Entry
from bertology.activations.progress import Progress, silent
from bertology.families.cells import Cell, all_finished, write_cell
from bertology.families.contract import BaselineCells, Family, FitCells, FitGroup, Resources
from bertology.families.model_corpus import ModelCorpus, Signal, Weights, texts_read
from bertology.families.rows import records_of
from bertology.results import Predictions
from bertology.results.predictions import read_predictions
from bertology.runner._folder import RunFolder, finished, forget_failures, write_failure
from bertology.runner.plan import Unit

if TYPE_CHECKING:
    from bertology.encoders import Encoder

ProgressFor = Callable[[str], Progress]
"""Gives the progress display of a job from its label."""
_open: dict[str, Encoder] = {}
"""The model that this process has open: one at most, or beside it the one that it is compared with."""
Outcome = Literal["computed", "found", "busy"]
Numbered = tuple[int, Unit]
"""A unit and its place in a run."""


def together(units: Iterable[Numbered]) -> list[list[Numbered]]:
    """Units of one plan, those in one list that are computed in one pass over the model's signals."""
    loads: dict[object, list[Numbered]] = {}
    for number, unit in units:
        shared = unit.family.pass_key(unit.draws[0]) if unit.draws else None
        key = number if shared is None else (unit.family, *(group.weights for group in unit.draws), shared)
        loads.setdefault(key, []).append((number, unit))
    return list(loads.values())


@dataclass(frozen=True)
class Context:
    """Settings shared by all units of a run."""

    run: Path
    device: str
    wait: bool = False
    """Wait for other processes that are at a unit; otherwise ``busy`` is its outcome."""
    is_pending: Callable[[Unit], bool] = lambda _: True
    """Whether a unit is still to be computed: another process may have done it in the meantime."""
    progress: ProgressFor = lambda _: silent
    side_by_side: int = 1
    """Units that are computed at once on this machine, and share its memory."""


def compute_units(units: Sequence[Unit], context: Context) -> list[Outcome | Exception]:
    """Compute units that stand :func:`together`, if no one has; a failure of one is recorded, and stops no other."""
    done, mine = dict[str, Outcome | Exception](), list[Unit]()
    with contextlib.ExitStack() as locks:
        for unit in units if len(units) > 1 else ():
            with contextlib.suppress(Timeout):
                locks.enter_context(RunFolder(context.run).lock(unit.key, wait=False))
                mine += [] if finished(context.run, unit) else [unit]
        if mine:
            done = _compute(mine, context)
    # Nobody waits for a unit while holding others, so that two runs cannot wait for each other.
    return [done.get(unit.key) or compute_unit(unit, context) for unit in units]


def compute_unit(unit: Unit, context: Context) -> Outcome | Exception:
    """Compute a unit if no one has; a failure is recorded, and returned."""
    try:
        with RunFolder(context.run).lock(unit.key, wait=context.wait):
            return "found" if finished(context.run, unit) else _compute([unit], context)[unit.key]
    except Timeout:
        return "busy"


def _compute(units: Sequence[Unit], context: Context) -> dict[str, Outcome | Exception]:
    """Compute units that share their passes, whose locks are held; the outcome of each by its key."""
    first, failures = units[0], dict[str, Exception]()
    tasks = ", ".join(map(attrgetter("probe.task"), units))
    try:
        with one_thread() as n_threads:
            if first.baselines is not None:
                job = _job(first, None, context, f"{tasks}, baselines", n_threads)
                _compute_baselines(first.family, first.baselines, job)
            for draw in zip(*map(attrgetter("draws"), units), strict=True):
                # Of a unit that was begun before some groups may be finished.
                owners, groups = dict[int, Unit](), list[FitGroup]()
                for unit, group in zip(units, draw, strict=True):
                    if unit.key not in failures and (left := _unfinished(group, context.run)) is not None:
                        owners[id(left)] = unit
                        groups.append(left)
                if groups:
                    label = f"{first.plan.pair.called(groups[0].weights)}, {tasks}"
                    job = _job(first, groups[0], context, label, n_threads)
                    for group, error in _compute_groups(first.family, groups, job):
                        if error is not None:
                            failures[owners[id(group)].key] = error
    except Exception as error:
        # Whatever goes wrong in a cell is recorded there and does not stop the others.
        failures = {unit.key: error for unit in units if not finished(context.run, unit)} | failures
    outcomes: dict[str, Outcome | Exception] = {**dict.fromkeys(map(attrgetter("key"), units), "computed"), **failures}
    for unit in units:
        if unit.key in failures:
            write_failure(context.run, unit, failures[unit.key])
        else:
            forget_failures(context.run, unit.cells)
    return outcomes


def _unfinished(group: FitGroup, run: Path) -> FitGroup | None:
    """The members that have cells to compute; None if there are none."""
    left = list[FitCells]()
    for member in group.members:
        left += [] if all_finished(run, member.cells.values()) else [member]
    return replace(group, members=tuple(left)) if left else None


def _job(unit: Unit, group: FitGroup | None, context: Context, label: str, n_threads: int) -> Resources:
    """The resources of a group, or of baselines; its model is opened when it is needed."""
    pair = unit.plan.pair
    weights = pair.weights if group is None else group.weights
    reads, jobs = unit.reads, []
    if reads:
        close_encoder()
    for of, own in ((pair, weights), (pair.reference, None)):
        if of is None or (own is None and (group is None or not unit.probe.needs_reference)):
            continue
        stored = {}
        for read in reads:
            if read.of_reference == (own is None) and (read.of_reference or read.weights == weights):
                stored[read.signal] = _stored_splits(of, read.weights, context.device, read.signal)
        job = Resources(
            context.run,
            of,
            context.device,
            get_encoder=partial(open_encoder, of, own or of.weights, context.device, beside=own is None),
            stored=stored,
            progress=context.progress(label),
            memory=memory_for_vectors() // context.side_by_side,
            n_threads=n_threads,
        )
        jobs.append(job)
    return replace(jobs[0], reference=jobs[1] if jobs[1:] else None)


def open_encoder(pair: ModelCorpus, weights: Weights, device: str, *, beside: bool = False) -> Encoder:
    """The model with these weights; it stays open until another one is, or :func:`close_encoder`.

    A reference model is opened ``beside`` the one that is open.
    """
    from bertology.encoders import load_encoder

    request = pair.request
    key = repr((pair.fingerprints[weights], pair.source, request.dtype, request.max_pieces, device))
    if not beside:
        for other in [other for other in _open if other != key]:
            del _open[other]
    if key not in _open:
        _open[key] = load_encoder(
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
    pair: ModelCorpus, weights: Weights, device: str, progress: ProgressFor, signal: Signal = "words"
) -> dict[str, Entry]:
    """The stored vectors of every split, extracted where they are not stored yet."""
    from bertology.activations import extract

    entries = {}
    for split, sentences in texts_read(pair.splits, signal).items():
        label = f"{pair.called(weights)}, {split}{'' if signal == 'words' else f', {signal}'}"
        recipe, get_encoder = pair.recipe(weights, sentences, signal), partial(open_encoder, pair, weights, device)
        entries[split] = extract(get_encoder, sentences, recipe=recipe, layers=pair.layers, progress=progress(label))
    return entries


def _stored_splits(pair: ModelCorpus, weights: Weights, device: str, signal: Signal) -> Mapping[str, Entry]:
    """The stored vectors of every split, already extracted and verified by this run.

    Comparing them for each unit would read all of them twice. Should someone have deleted them since, they are
    extracted again. Folds share theirs.
    """
    entries = {}
    for split, sentences in texts_read(pair.splits, signal).items():
        entry = pair.recipe(weights, sentences, signal).find(pair.layers)
        if entry is None:
            entries = extract_splits(pair, weights, device, lambda _: silent, signal)
            break
        entries[split] = entry
    return dict.fromkeys(pair.splits.by_name, entries["test"]) if pair.splits.folds else entries


_spread = threading.local()


@contextlib.contextmanager
def all_threads() -> Iterator[None]:
    """Let :func:`one_thread` pass in this thread: for forward passes that have the machine to themselves."""
    _spread.is_wanted = True
    try:
        yield
    finally:
        _spread.is_wanted = False


@contextlib.contextmanager
def one_thread() -> Iterator[int]:
    """Compute on one thread: sums then come out the same whatever engine computes them, and units share the cores.

    Yields how many there would be.
    """
    import torch
    from threadpoolctl import threadpool_limits

    if getattr(_spread, "is_wanted", False):
        yield torch.get_num_threads()
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield before
    finally:
        torch.set_num_threads(before)


_FOLDER = "folds"
"""The folder in a run for the cells of single folds, until all folds are finished."""
_SUMS = ("n_items", "n_skipped", "n_unseen_label")


def _compute_groups(
    family: Family, groups: Sequence[FitGroup], job: Resources
) -> Iterator[tuple[FitGroup, Exception | None]]:
    """:meth:`Family.compute`, in each fold where there are any; what is finished of a fold is not computed again."""
    if not job.pair.splits.folds:
        yield from family.compute(groups, job)
        return
    failures: dict[int, Exception] = {}
    for fold in _folds(job):
        owners, parts = dict[int, FitGroup](), list[FitGroup]()
        for group in groups:
            if id(group) not in failures and (left := _unfinished(group, fold.run)) is not None:
                owners[id(left)] = group
                parts.append(left)
        for part, error in family.compute(parts, fold) if parts else ():
            failures |= {} if error is None else {id(owners[id(part)]): error}
    for group in groups:
        if id(group) not in failures:
            _put_together(job, group.cells)
        yield group, failures.get(id(group))


def _compute_baselines(family: Family, baselines: BaselineCells, job: Resources) -> None:
    """:meth:`Family.compute_baselines`, in each fold where there are any."""
    if not job.pair.splits.folds:
        family.compute_baselines(baselines, job)
        return
    for fold in _folds(job):
        if not all_finished(fold.run, baselines.cells.values()):
            family.compute_baselines(baselines, fold)
    _put_together(job, baselines.cells.values())


def _folds(job: Resources) -> list[Resources]:
    """The resources of each fold, which has a folder of its own."""
    folds = job.pair.splits.folds
    return [replace(job, run=job.run / _FOLDER / str(one.fold), pair=replace(job.pair, splits=one)) for one in folds]


def _put_together(job: Resources, cells: Iterable[Cell]) -> None:
    """Write cells of all items, made of those of the folds, which are then deleted."""
    runs = [fold.run for fold in _folds(job)]
    for cell in cells:
        records = [records_of(run, [cell])[0] for run in runs]
        kept = _joined([read_predictions(run, cell.id) for run in runs])
        facts = _facts_of([record.facts for record in records])
        write_cell(
            job.run,
            cell,
            kept,
            facts={**facts, "n_clusters": len(kept.cluster_ids)},
            provenance={**records[0].provenance, "wall_s": sum(record.provenance["wall_s"] for record in records)},
            notes=job.pair.splits.notes,
        )
        for path in (path for run in runs for path in run.glob(f"*/{cell.id}*")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for folder in [*(path for run in runs for path in run.glob("*")), *runs, job.run / _FOLDER]:
        with contextlib.suppress(OSError):  # others have cells in it
            folder.rmdir()


def _joined(parts: Sequence[Predictions]) -> Predictions:
    """Predictions of the folds, one after the other; no item and no cluster is in two of them."""
    numbers: dict[str, int] = {}
    places = [
        np.array([numbers.setdefault(label, len(numbers)) for label in part.labels], dtype=np.int64) for part in parts
    ]
    of_folds = list(zip(parts, places, strict=True))
    before = np.cumsum([0, *(len(part.cluster_ids) for part in parts)]).tolist()
    return Predictions(
        item_ids=[item for part in parts for item in part.item_ids],
        cluster=np.concatenate([part.cluster + first for part, first in zip(parts, before, strict=False)]),
        cluster_ids=[name for part in parts for name in part.cluster_ids],
        gold=np.concatenate([place[part.gold] for part, place in of_folds]),
        pred=np.concatenate([place[part.pred] for part, place in of_folds]),
        score=np.concatenate([part.score for part in parts]),
        labels=tuple(numbers),
        label_sets=parts[0].label_sets,
        fold=np.repeat(np.arange(1, len(parts) + 1), [len(part.item_ids) for part in parts]),
    )


def _facts_of(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of all items; of training items, and of what was fitted, what a fold has on average."""
    sums = {name: sum(of_fold[name] for of_fold in facts) for name in _SUMS}
    skipped = sum((Counter(of_fold["skip_reasons"]) for of_fold in facts), Counter[str]())
    params = _averaged([of_fold.get("params", {}) for of_fold in facts]) | {"folds": len(facts)}
    averaged = {name: _averaged([of_fold[name] for of_fold in facts]) for name in ("n_train", "n_classes")}
    return {**facts[0], **averaged, **sums, "skip_reasons": dict(skipped), "params": params}


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
