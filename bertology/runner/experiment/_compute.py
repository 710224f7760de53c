"""Units of work, in whatever process: computed once, whoever else is at them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from filelock import Timeout

from bertology.activations import Entry, find_entry, silent
from bertology.probing import ClozeProbe, RepresentationProbe
from bertology.runner._draws import Weights
from bertology.runner._fit import fit_group
from bertology.runner._heads import maps_read, read_heads
from bertology.runner._plan import BaselineCells, Group, Plan
from bertology.runner._prompts import ask_group
from bertology.runner._run import extract_splits, left_of, opener, recipe_of, write_baselines_of
from bertology.runner._task_data import TaskData
from bertology.runner.experiment._folder import RunFolder, finished, forget_failures, write_failure
from bertology.runner.experiment._work import Unit

Outcome = Literal["computed", "found", "busy"]
Numbered = tuple[int, Unit]
"""A unit and its place in a run."""


def together(units: Iterable[Numbered]) -> list[list[Numbered]]:
    """Units of one plan, those side by side that read the same maps, as these are read once for all of them."""
    found: dict[object, list[Numbered]] = {}
    for number, unit in units:
        maps = maps_read(unit.part) if isinstance(unit.part, Group) else None
        key = number if maps is None else (unit.weights, maps)
        found.setdefault(key, []).append((number, unit))
    return list(found.values())


def compute_units(units: Sequence[Unit], run: Path, *, device: str, wait: bool) -> list[Outcome | Exception]:
    """Compute units that stand :func:`together`, if no one has; a failure of one is no bar to the others.

    Args:
        units: what to compute.
        run: the run's folder.
        device: where to fit.
        wait: for other processes that are at some of them; otherwise ``busy`` is the answer of these.
    """
    done: dict[str, Outcome | Exception] = {}
    with contextlib.ExitStack() as locks:
        if mine := [unit for unit in units if len(units) > 1 and _is_free(unit, run, locks)]:
            done = {unit.key: outcome for unit, outcome in _from_maps(mine, run, device)}
    # Nobody waits for a unit while he holds others, so that two runs cannot wait for each other.
    return [done.get(unit.key) or compute_unit(unit, run, device=device, wait=wait) for unit in units]


def compute_unit(unit: Unit, run: Path, *, device: str, wait: bool) -> Outcome | Exception:
    """Compute a unit if no one has; a failure is recorded, and returned.

    Args:
        unit: what to compute.
        run: the run's folder.
        device: where to fit.
        wait: for another process that is at it; otherwise ``busy`` is the answer.
    """
    try:
        with RunFolder(run).lock(unit.key, wait=wait):
            if finished(run, unit):
                return "found"
            try:
                _compute(unit, run, device)
            except Exception as error:
                # Whatever goes wrong in a cell is that cell's record, and no bar to the others.
                write_failure(run, unit, error)
                return error
            forget_failures(run, unit.cells)
            return "computed"
    except Timeout:
        return "busy"


def _is_free(unit: Unit, run: Path, locks: contextlib.ExitStack) -> bool:
    """Whether a unit is still to be computed, and no other process is at it: then its lock is taken."""
    try:
        locks.enter_context(RunFolder(run).lock(unit.key, wait=False))
    except Timeout:
        return False
    return not finished(run, unit)


def _from_maps(units: Sequence[Unit], run: Path, device: str) -> Iterator[tuple[Unit, Outcome | Exception]]:
    """Compute units that read the same maps, whose locks are held."""
    plan, owners = units[0].plan, {id(group): unit for unit in units for group in unit.groups}
    groups = [group for unit in units for group in unit.groups]
    opened = opener(plan, groups[0].weights, device)
    with one_thread():
        for group, error in read_heads(groups, run, plan=plan, get_encoder=opened, device=device, progress=silent):
            unit = owners[id(group)]
            if error is None:
                forget_failures(run, unit.cells)
                yield unit, "computed"
            else:
                write_failure(run, unit, error)
                yield unit, error


def _compute(unit: Unit, run: Path, device: str) -> None:
    plan, part = unit.plan, unit.part
    if isinstance(part, BaselineCells):
        write_baselines_of(part, plan, run, data=None)
        return
    data = TaskData.of(part.probe, plan.splits) if isinstance(part.probe, RepresentationProbe) else None
    for draw in (part, *part.draws):
        left = left_of(run, draw)
        if left is None:
            continue
        if data is None:
            _ask(plan, left, run, device)
            continue
        entries = _stored(plan, draw.weights)
        if entries is None:
            entries = extract_splits(plan, draw.weights, opener(plan, draw.weights, device), lambda _: silent)
        with one_thread():
            fit_group(left, data, entries, run, plan=plan, device=device, progress=silent)


def _ask(plan: Plan, group: Group, run: Path, device: str) -> None:
    """Put texts to the model, or look at its heads."""
    opened = opener(plan, group.weights, device)
    with one_thread():
        if isinstance(group.probe, ClozeProbe):
            ask_group(group, run, plan=plan, get_encoder=opened, device=device, progress=silent)
        else:
            found = read_heads([group], run, plan=plan, get_encoder=opened, device=device, progress=silent)
            for error in filter(None, (error for _, error in found)):
                raise error


def _stored(plan: Plan, weights: Weights) -> dict[str, Entry] | None:
    """The vectors of every split, which are in the store by now, unless someone has taken them out again.

    They were compared with their checksums before any unit was started; doing so for each would read all of them twice.
    """
    entries = {}
    for split, sentences in plan.splits.by_name.items():
        entry = find_entry(recipe_of(plan, weights, sentences), plan.layers)
        if entry is None:
            return None
        entries[split] = entry
    return entries


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Keep a fit to one thread: sums then come out the same whatever engine it runs on, and fits share the cores."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
