"""Scores of whole models, which belong to no layer: what they predict beside a reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bertology.results.tables.rows import ResultRow, param_of, reading_of
from bertology.results.views.grid import (
    Grid,
    GridLine,
    Note,
    alignment_notes,
    count_cell,
    data_of,
    metric_title,
    score_cell,
)
from bertology.results.views.layers import score_of_row

_READOUT = "encoders"
_EVERY = "all"


def whole_grids(rows: Sequence[ResultRow]) -> tuple[Grid, ...]:
    """A table for each task and model that was measured as a whole: groups of items by statistics."""
    by_task: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        if row.readout == _READOUT and row.layer is None and row.head is None and row.value is not None:
            asked = (row.task, row.corpus_fingerprint, row.split, row.model, row.init, reading_of(row))
            by_task[*asked, param_of(row, "reference")].append(row)
    return tuple(map(_grid, by_task.values()))


def _grid(rows: Sequence[ResultRow]) -> Grid:
    about = rows[0]
    metrics = sorted(dict.fromkeys(row.metric for row in rows), key=lambda name: not _is_main(rows, name))
    groups = sorted(dict.fromkeys(row.group or "" for row in rows), key=bool)
    lines = []
    for group in groups:
        of_group = {row.metric: row for row in rows if (row.group or "") == group}
        scores = [score_of_row(of_group[name]) if name in of_group else None for name in metrics]
        cells = [
            # Those of all would leave no room for labels.
            score_cell(score, name, interval=not group and _is_main(rows, name))
            for score, name in zip(scores, metrics, strict=True)
        ]
        n_items = next(iter(of_group.values())).n_items
        lines.append(GridLine(group or _EVERY, (count_cell(n_items), *cells)))
    notes = (
        Note("data", data_of(about)),
        *alignment_notes(about),
        Note("model", f"{about.model}, beside {param_of(about, 'reference')}"),
        Note("interval", "[ ] 95 %, of the main statistic; the tables of the run have all"),
        Note("units", "fractions in percent; bits and numbers as they are"),
    )
    headers = ("items", *map(metric_title, metrics))
    return Grid(f"{about.task} · the whole model", headers, tuple(lines), notes, corner="Items")


def _is_main(rows: Sequence[ResultRow], metric: str) -> bool:
    return any(row.main_metric for row in rows if row.metric == metric)
