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
        if (known := put_row(rows, row)) is not None:
            values = f"{row.metric} of cell {row.cell_id} is {known.value} in one and {row.value} in the other"
            raise ResultsError(f"task {row.task}: {values}; `bertology verify` tells which run was altered")
    return tuple(rows.values())


def put_row(rows: dict[Any, ResultRow], row: ResultRow) -> ResultRow | None:
    """Add a row unless the same score is known already, and did not fail; returns one that has another value of it."""
    # Models of one architecture share the cells of their random weights, and each has rows of its own; the majority
    # among the items that could be asked of a model is a row of that model's first cell.
    key = (row.cell_id, row.control, row.metric, row.group, row.model, row.head, row.split)
    known = rows.get(key)
    if known is None or known.status == "failed":
        rows[key] = row
        return None
    return known if row.status == "ok" and known.value != row.value else None


def parts_of(kept: Mapping[str, Predictions]) -> list[Mapping[str, Predictions]]:
    """The predictions of each of the results that some were joined from."""
    return list(kept.maps) if isinstance(kept, ChainMap) else [kept]
