"""Scores of groups of items, such as relations or constructions, layer by layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertology.errors import ResultsError
from bertology.results.tables.rows import ResultRow, chances_of, reading_of
from bertology.results.views.grid import (
    NOTHING,
    Cell,
    Grid,
    GridLine,
    Note,
    count_cell,
    data_of,
    number,
    score_cell,
    table_title,
)
from bertology.results.views.layers import LayerTable, Score, natural_order, score_of_row


@dataclass(frozen=True)
class GroupLine:
    """One group of one table."""

    name: str
    n_items: int
    n_clusters: int
    n_skipped: int
    by_layer: Mapping[int, Score]
    """The table's main metric on the items of this group alone."""
    chance: float | None = None
    """How often choices would be right by chance; None where nothing is chosen."""


@dataclass(frozen=True)
class GroupTable:
    """The groups behind one table of layers."""

    table: LayerTable
    lines: tuple[GroupLine, ...]


def group_tables(rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[GroupTable, ...]:
    """The groups of those tables whose items are in several, in order of first appearance."""
    of_table: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        of_layer = row.layer is not None and row.head is None
        if row.group is not None and row.control == "none" and of_layer and row.status == "ok":
            of_table[_key(row)].append(row)
    by_metric = [[row for row in of_table[_key(table.about)] if row.metric == table.metric] for table in tables]
    return tuple(
        GroupTable(
            table, tuple(_line([row for row in of_metric if row.group == name]) for name in group_names(of_metric))
        )
        for table, of_metric in zip(tables, by_metric, strict=True)
        if of_metric
    )


def group_table_of(groups: Sequence[GroupTable], task: str | None = None) -> GroupTable:
    """The one table of groups there is, or that of a task.

    Raises:
        ResultsError: there is none, or there are several.
    """
    of_task = [one for one in groups if task in (None, one.table.task)]
    if not of_task:
        which = "" if task is None else f" of task {task}"
        raise ResultsError(f"the items{which} do not stand in groups: there is nothing to show by group")
    if len(of_task) > 1:
        tasks = list(dict.fromkeys(one.table.task for one in of_task))
        how = f"task={' or '.join(map(repr, tasks))}" if len(tasks) > 1 else "only(model=…) of the results"
        raise ResultsError(f"{len(of_task)} tables of groups do not fit one figure: choose one by {how}")
    return of_task[0]


def group_names(rows: Sequence[ResultRow]) -> list[str]:
    """The groups in order of first appearance."""
    names = list(dict.fromkeys(str(row.group) for row in rows))
    # Rows that were read come by their names' letters, of which "stated 10 times" is before "stated 2 times".
    return sorted(names, key=natural_order) if names == sorted(names) else names


def _key(row: ResultRow) -> tuple[object, ...]:
    same = row.task, row.corpus, row.corpus_fingerprint, row.split, row.model, row.init, row.pooling
    return (*same, reading_of(row))


def _line(rows: Sequence[ResultRow]) -> GroupLine:
    scores = {row.layer: score_of_row(row) for row in rows if row.layer is not None and row.value is not None}
    first, name = rows[0], str(rows[0].group)
    counts = first.n_items, first.n_clusters, first.n_skipped
    return GroupLine(name, *counts, dict(sorted(scores.items())), chances_of(first).get(name))


def group_grid(groups: GroupTable, *, most_layers: int | None = None) -> Grid:
    """Groups by layers; the last layer, which is the model's own answer, with its interval.

    Args:
        groups: what to show.
        most_layers: of more layers so many are shown, from the first to the last; all when left out.
    """
    table = groups.table
    layers = _spread_out([line.layer for line in table.lines], most_layers)
    counts = {"items": [count_cell(line.n_items) for line in groups.lines]}
    if any(line.n_skipped for line in groups.lines):
        counts["skipped"] = [count_cell(line.n_skipped) for line in groups.lines]
    if len({line.chance for line in groups.lines}) > 1:
        counts["chance"] = [_chance(line) for line in groups.lines]
    lines = []
    for line, *of_line in zip(groups.lines, *counts.values(), strict=True):
        of_line += [score_cell(line.by_layer.get(at), table.metric, interval=at == layers[-1]) for at in layers]
        lines.append(GridLine(line.name, tuple(of_line)))
    left_out = len(table.lines) - len(layers)
    notes = (
        Note("data", data_of(table.about)),
        Note("model", str(table.about.model)),
        Note("interval", f"[ ] 95 %, of layer {layers[-1]}"),
        *([Note("layers", f"{left_out} more in the other formats, for want of room")] if left_out else []),
    )
    return Grid(table_title(table, " by group"), (*counts, *map(str, layers)), tuple(lines), notes, corner="Group")


def _chance(line: GroupLine) -> Cell:
    return Cell(NOTHING) if line.chance is None else Cell(number(line.chance), score=Score(line.chance))


def _spread_out(layers: Sequence[int], most: int | None) -> Sequence[int]:
    if most is None or len(layers) <= most:
        return layers
    if most == 1:
        return layers[-1:]
    return [layers[round(number * (len(layers) - 1) / (most - 1))] for number in range(most)]
