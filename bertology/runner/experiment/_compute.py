"""One unit of work, in whatever process: computed once, whoever else is at it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from filelock import Timeout

from bertology.activations import Entry, find_entry, silent
from bertology.probing import ClozeProbe, RepresentationProbe
from bertology.runner._finder import Init
from bertology.runner._fit import fit_group
from bertology.runner._heads import read_heads
from bertology.runner._plan import BaselineCells, Group, Plan
from bertology.runner._prompts import ask_group
from bertology.runner._run import extract_splits, left_of, opener, recipe_of, write_baselines_of
from bertology.runner._task_data import TaskData
from bertology.runner.experiment._folder import RunFolder, finished, forget_failures, write_failure
from bertology.runner.experiment._work import Unit

Outcome = Literal["computed", "found", "busy"]


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


def _compute(unit: Unit, run: Path, device: str) -> None:
    plan, part = unit.plan, unit.part
    if isinstance(part, BaselineCells):
        write_baselines_of(part, plan, run, data=None)
        return
    left = left_of(run, part)
    if left is None:
        return
    if not isinstance(part.probe, RepresentationProbe):
        _ask(plan, left, run, device)
        return
    data = TaskData.of(part.probe, plan.splits)
    entries = _stored(plan, part.init)
    if entries is None:
        entries = extract_splits(plan, part.init, opener(plan, part.init, device), lambda _: silent)
    with one_thread():
        fit_group(left, data, entries, run, plan=plan, device=device, progress=silent)


def _ask(plan: Plan, group: Group, run: Path, device: str) -> None:
    """Put texts to the model, or look at its heads."""
    opened = opener(plan, group.init, device)
    with one_thread():
        if isinstance(group.probe, ClozeProbe):
            ask_group(group, run, plan=plan, get_encoder=opened, device=device, progress=silent)
        else:
            read_heads([group], run, plan=plan, get_encoder=opened, device=device, progress=silent)


def _stored(plan: Plan, init: Init) -> dict[str, Entry] | None:
    """The vectors of every split, which are in the store by now, unless someone has taken them out again.

    They were compared with their checksums before any unit was started; doing so for each would read all of them twice.
    """
    entries = {}
    for split, sentences in plan.splits.by_name.items():
        entry = find_entry(recipe_of(plan, init, sentences), plan.layers)
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
