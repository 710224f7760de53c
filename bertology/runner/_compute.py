"""Units of work, in whatever process: computed once, however many processes work on the run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from filelock import Timeout

from bertology.families.cells import all_finished
from bertology.families.tasks import BaselineCells, FitCells, FitGroup, Job
from bertology.runner._folder import RunFolder, finished, forget_failures, write_failure
from bertology.runner._plan import Unit
from bertology.runner._signals import ProgressFor, close_encoder, one_thread, open_encoder, stored_splits

Outcome = Literal["computed", "found", "busy"]
Numbered = tuple[int, Unit]
"""A unit and its place in a run."""


def together(units: Iterable[Numbered]) -> list[list[Numbered]]:
    """Units of one plan, those in one list that are computed in one pass over the model's signals."""
    loads: dict[object, list[Numbered]] = {}
    for number, unit in units:
        shared = unit.family.pass_key(unit.draws[0]) if unit.draws else None
        key = number if shared is None else (unit.family, unit.weights, shared)
        loads.setdefault(key, []).append((number, unit))
    return list(loads.values())


def compute_units(
    units: Sequence[Unit], run: Path, *, device: str, wait: bool, progress: ProgressFor
) -> list[Outcome | Exception]:
    """Compute units that stand :func:`together`, if no one has; a failure of one does not stop the others.

    Args:
        units: what to compute.
        run: the run's folder.
        device: where to compute.
        wait: for other processes that are computing some of them; otherwise ``busy`` is their outcome.
        progress: gives the progress display of a job from its label.
    """
    done: dict[str, Outcome | Exception] = {}
    with contextlib.ExitStack() as locks:
        if mine := [unit for unit in units if len(units) > 1 and _is_free(unit, run, locks)]:
            done = {unit.key: outcome for unit, outcome in _in_one_pass(mine, run, device, progress)}
    # Nobody waits for a unit while holding others, so that two runs cannot wait for each other.
    return [
        done.get(unit.key) or compute_unit(unit, run, device=device, wait=wait, progress=progress) for unit in units
    ]


def compute_unit(unit: Unit, run: Path, *, device: str, wait: bool, progress: ProgressFor) -> Outcome | Exception:
    """Compute a unit if no one has; a failure is recorded, and returned."""
    try:
        with RunFolder(run).lock(unit.key, wait=wait):
            if finished(run, unit):
                return "found"
            try:
                _compute(unit, run, device, progress)
            except Exception as error:
                # Whatever goes wrong in a cell is recorded there and does not stop the others.
                write_failure(run, unit, error)
                return error
            forget_failures(run, unit.cells)
            return "computed"
    except Timeout:
        return "busy"


def _is_free(unit: Unit, run: Path, locks: contextlib.ExitStack) -> bool:
    """Whether a unit is still to be computed, and no other process computes it: then its lock is taken."""
    try:
        locks.enter_context(RunFolder(run).lock(unit.key, wait=False))
    except Timeout:
        return False
    return not finished(run, unit)


def _in_one_pass(
    units: Sequence[Unit], run: Path, device: str, progress: ProgressFor
) -> Iterator[tuple[Unit, Outcome | Exception]]:
    """Compute units that share a pass, whose locks are held."""
    first, owners = units[0], {id(group): unit for unit in units for group in unit.draws}
    label = f"{first.plan.pair.called(first.weights[0])}, {', '.join(unit.probe.task for unit in units)}"
    job = _job(first, first.draws[0], run, device, label, progress)
    groups = [group for unit in units for group in unit.draws]
    with one_thread():
        for group, error in first.family.compute(groups, job):
            unit = owners[id(group)]
            if error is None:
                forget_failures(run, unit.cells)
                yield unit, "computed"
            else:
                write_failure(run, unit, error)
                yield unit, error


def _compute(unit: Unit, run: Path, device: str, progress: ProgressFor) -> None:
    with one_thread():
        if isinstance(unit.part, BaselineCells):
            label = f"{unit.probe.task}, baselines"
            unit.family.compute_baselines(unit.part, _job(unit, None, run, device, label, progress))
            return
        for group in unit.part:
            left = group.without(partial(_is_finished, run))
            if left is None:
                continue
            label = f"{unit.plan.pair.called(group.weights)}, {unit.probe.task}"
            for _, error in unit.family.compute([left], _job(unit, left, run, device, label, progress)):
                if error is not None:
                    raise error


def _is_finished(run: Path, cells: FitCells) -> bool:
    return all_finished(run, cells.cells.values())


def _job(unit: Unit, group: FitGroup | None, run: Path, device: str, label: str, progress: ProgressFor) -> Job:
    pair = unit.plan.pair
    weights = next(iter(pair.fingerprints)) if group is None else group.weights
    entries = {}
    if unit.reads_vectors:
        entries = stored_splits(pair, weights, device)
        close_encoder()
    return Job(run, pair, device, progress(label), partial(open_encoder, pair, weights, device), entries)
