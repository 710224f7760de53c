"""Who computes which fits on which batches: all workers are done at the same time, and compute large groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """Neighbouring fits over some of the batches of a window, computed together by one worker."""

    fits: range
    """Places of the fits."""
    first: float
    """Where in the window it begins, as a part of all batches."""
    last: float
    takes: int | None = None
    """A fit that another worker has to hand over first."""
    hands_over: int | None = None
    """A fit that is handed over afterwards."""


def shares(n_fits: int, n_workers: int) -> list[list[Share]]:
    """Divide fits evenly among workers, and those that do not come out even in time (McNaughton 1959).

    A fit that two workers share is begun by one, in a group with its own fits, and ended by the other. That one is
    further with its own by then: the fit catches up alone, and is computed in a group with them from there on.

    Returns:
        What each worker does with a window, in order.
    """
    n_workers = max(1, min(n_workers, n_fits))
    # up to where in the window the fit on the border before each worker is that worker's; 1 where none is on it
    borders = [1 - (worker * n_fits / n_workers) % 1 for worker in range(n_workers + 1)]
    whole = [
        range(math.ceil(worker * n_fits / n_workers), (worker + 1) * n_fits // n_workers) for worker in range(n_workers)
    ]
    plan = []
    for worker, own in enumerate(whole):
        begins, ends = borders[worker] % 1, borders[worker + 1]
        ready = ends * (len(whole[worker + 1]) + 1) if ends < 1 else 0.0
        plan.append(list(_in_order(own, begins, ends, _joins(len(own), begins, ends, ready))))
    return plan


def _joins(n_own: int, begins: float, ends: float, ready: float) -> float:
    """How far a worker's own fits are when the one behind them, handed over at ``ready``, has caught up with them."""
    if ends == 1 or not n_own:
        return 1.0
    # until it hands one over itself, it has one more
    part = begins + (ready - begins * (n_own + 1)) / n_own
    return min(1.0, max(part, begins, ends))


def _in_order(own: range, begins: float, ends: float, joins: float) -> Iterator[Share]:
    """What a worker does that has the fit before its ``own`` until ``begins``, the one behind them from ``ends``."""
    before, behind = own.start - 1, own.stop
    if begins:
        yield Share(range(before, own.stop), 0.0, begins, hands_over=before)
    if own and begins < joins:
        yield Share(own, begins, joins)
    if ends < joins:
        yield Share(range(behind, behind + 1), ends, joins, takes=behind)
    if joins < 1:
        yield Share(range(own.start, behind + 1), joins, 1.0, takes=behind)
