"""Rows and predictions of several results as those of one."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

from bertology.errors import ResultsError
from bertology.results.tables.predictions import Predictions
from bertology.results.tables.rows import ResultRow


def joined_rows(one: Sequence[ResultRow], other: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows of both, those of the same score once; the first stays, unless it failed.

    Raises:
        ResultsError: one score has two values.
    """
    rows: dict[Any, ResultRow] = {}
    for row in (*one, *other):
        # Models share the cells of baselines and of random weights, and have rows of their own.
        key = (row.cell_id, row.control, row.metric, row.group, row.model, row.head, row.split)
        known = rows.get(key)
        if known is None or known.status == "failed":
            rows[key] = row
        elif row.status == "ok" and known.value != row.value:
            values = f"{row.metric} of cell {row.cell_id} is {known.value} in one and {row.value} in the other"
            raise ResultsError(f"task {row.task}: {values}; `bertology verify` tells which run was altered")
    return tuple(rows.values())


def parts_of(kept: Mapping[str, Predictions]) -> list[Mapping[str, Predictions]]:
    """The predictions of each of the results that some were joined from."""
    return list(kept.maps) if isinstance(kept, ChainMap) else [kept]
