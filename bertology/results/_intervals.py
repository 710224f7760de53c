"""What an interval is over, in words: sentences alone, or seeds of the fit and draws of random weights too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bertology.measures import BCA, EXACT, NO_INTERVAL, RUNS_BCA

FEW_RUNS = 5
"""Fewer runs than these say little of how much runs differ."""


def interval_text(
    methods: Sequence[str], *, units: str = "test sentences", n_seeds: int = 1, not_over: Sequence[str] = ()
) -> str:
    """How intervals were made, what they are over and what they leave out.

    Args:
        methods: as in the columns ``ci_method`` and ``mean_ci_method``.
        units: what was resampled.
        n_seeds: that the scores are means over.
        not_over: what else may change a score and was not resampled, such as ``seeds of the fit``.
    """
    one = "cluster" if units.endswith("clusters") else "sentence"
    known = {
        BCA: f"bootstrap over {units}",
        RUNS_BCA: f"bootstrap over seeds × {units}",
        EXACT: f"exact over {units} where all are right or all wrong",
        NO_INTERVAL: f"none from a single {one}",
    }
    texts = []
    for method in methods:
        name, number = re.fullmatch(r"(.*?)(?:-(\d+))?", method).groups()  # type: ignore[union-attr]
        resamples = f", {int(number):,} resamples" if number else ""
        texts.append(known.get(name, method) + (f" (BCa{resamples})" if name in (BCA, RUNS_BCA) else ""))
    over_seeds = any(method.startswith(RUNS_BCA) for method in methods)
    left_out = [what for what in not_over if not (over_seeds and what == SEEDS)]
    if over_seeds and n_seeds < FEW_RUNS:
        texts.append(f"{n_seeds} seeds say little of how much seeds differ")
    if left_out and methods and set(methods) != {NO_INTERVAL}:
        texts.append(f"not over {' or '.join(left_out)}")
    return "; ".join(texts) or "not computed"


SEEDS, DRAWS = "seeds of the fit", "draws of random weights"


def covered(n_seeds: Sequence[int]) -> str:
    """What the intervals of several tables are over, by how many seeds their scores are means of."""
    if all(n > 1 for n in n_seeds):
        return "over seeds × test sentences"
    also = ", of tables with several seeds over seeds too" if any(n > 1 for n in n_seeds) else ""
    return f"over test sentences{also or f'; not over {SEEDS}'}"
