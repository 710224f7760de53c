"""Scores of groups of items, such as relations or constructions, layer by layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertology.errors import ResultsError
from bertology.results._grid import NOTHING, Cell, Grid, GridLine, Note, is_fraction, metric_title, number, score_cell
from bertology.results._rows import ResultRow, chances_of, reading_of
from bertology.results._view import LayerTable, Score, natural_order

if TYPE_CHECKING:
    import pandas as pd


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
    """The groups of those tables whose items stand in several, in order of first appearance."""
    of_table: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        of_layer = row.layer is not None and row.head is None
        if row.group is not None and row.control == "none" and of_layer and row.status == "ok":
            of_table[_key(row)].append(row)
    found = []
    for table in tables:
        ours = [row for row in of_table[_key(table.about)] if row.metric == table.metric]
        if ours:
            found.append(GroupTable(table, tuple(_line(ours, name) for name in _names(ours))))
    return tuple(found)


def group_scores(rows: Sequence[ResultRow]) -> pd.DataFrame:
    """The groups of one cell, in order of first appearance.

    Args:
        rows: the cell's rows of one metric and one seed, one a group.

    Returns:
        One row a group, with columns ``items`` (scored), ``clusters`` (they stand in), ``skipped`` (items), ``value``,
        ``ci_low`` and ``ci_high`` (fractions, NaN where undefined), and ``chance`` where something is chosen. The
        metric's name is in ``attrs``.
    """
    import pandas as pd

    by_name = {str(row.group): row for row in rows}
    ours = [by_name[name] for name in _names(rows)]
    chances = [chances_of(row).get(str(row.group)) for row in ours]
    columns: dict[str, list[float | int | None]] = {
        "items": [row.n_items for row in ours],
        "clusters": [row.n_clusters for row in ours],
        "skipped": [row.n_skipped for row in ours],
        "value": [row.value for row in ours],
        "ci_low": [row.ci_low for row in ours],
        "ci_high": [row.ci_high for row in ours],
        **({"chance": chances} if any(chance is not None for chance in chances) else {}),
    }
    scores = ("value", "ci_low", "ci_high", "chance")
    frame = pd.DataFrame(columns, index=pd.Index([row.group for row in ours], name="group"))
    frame = frame.astype({name: "float64" for name in columns if name in scores})
    frame.attrs["metric"] = ours[0].metric
    return frame


def group_table_of(groups: Sequence[GroupTable], task: str | None = None) -> GroupTable:
    """The one table of groups there is, or that of a task.

    Raises:
        ResultsError: there is none, or there are several.
    """
    found = [one for one in groups if task in (None, one.table.task)]
    if not found:
        of_task = "" if task is None else f" of task {task}"
        raise ResultsError(f"the items{of_task} do not stand in groups: there is nothing to show by group")
    if len(found) > 1:
        tasks = list(dict.fromkeys(one.table.task for one in found))
        how = f"task={' or '.join(map(repr, tasks))}" if len(tasks) > 1 else "only(model=…) of the results"
        raise ResultsError(f"{len(found)} tables of groups do not fit one figure: choose one by {how}")
    return found[0]


def _names(rows: Sequence[ResultRow]) -> list[str]:
    """The groups in order of first appearance."""
    names = list(dict.fromkeys(str(row.group) for row in rows))
    # Rows that were read come by their names' letters, of which "stated 10 times" is before "stated 2 times".
    return sorted(names, key=natural_order) if names == sorted(names) else names


def _key(row: ResultRow) -> tuple[object, ...]:
    same = row.task, row.corpus, row.corpus_fingerprint, row.split, row.model, row.init, row.pooling
    return (*same, reading_of(row))


def _line(rows: Sequence[ResultRow], name: str) -> GroupLine:
    ours = [row for row in rows if row.group == name]
    scores = {
        row.layer: Score(row.value, row.ci_low, row.ci_high)
        for row in ours
        if row.layer is not None and row.value is not None
    }
    first = ours[0]
    return GroupLine(
        name,
        first.n_items,
        first.n_clusters,
        first.n_skipped,
        dict(sorted(scores.items())),
        chances_of(first).get(name),
    )


def group_grid(groups: GroupTable, *, most_layers: int | None = None) -> Grid:
    """Groups by layers; the last layer, which is the model's own answer, with its interval.

    Args:
        groups: what to show.
        most_layers: of more layers so many are shown, from the first to the last; all when left out.
    """
    table = groups.table
    layers = _spread_out([line.layer for line in table.lines], most_layers)
    skipped = any(line.n_skipped for line in groups.lines)
    differ = len({line.chance for line in groups.lines}) > 1
    lines = []
    for line in groups.lines:
        counts = [_count(line.n_items), *([_count(line.n_skipped)] if skipped else [])]
        counts += [_chance(line)] if differ else []
        cells = [
            score_cell(line.by_layer.get(layer), table.metric, interval=layer == layers[-1])
            if layer in line.by_layer
            else Cell(NOTHING)
            for layer in layers
        ]
        lines.append(GridLine(line.name, (*counts, *cells)))
    unit = ", %" if is_fraction(table.metric) else ""
    reading = f" · {table.reading}" if table.one_of_several else ""
    headers = (
        "items",
        *(["skipped"] if skipped else []),
        *(["chance"] if differ else []),
        *(str(layer) for layer in layers),
    )
    about = table.about
    left_out = len(table.lines) - len(layers)
    notes = (
        Note("data", f"{about.corpus} {about.split}"),
        Note("model", str(about.model)),
        Note("interval", f"[ ] 95 %, of layer {layers[-1]}"),
        *([Note("layers", f"{left_out} more in the other formats, for want of room")] if left_out else []),
    )
    title = f"{table.task} by group · {metric_title(table.metric)} by layer{unit}{reading}"
    return Grid(title, headers, tuple(lines), notes, corner="Group")


def _count(items: int) -> Cell:
    return Cell(f"{items:,}", score=Score(items))


def _chance(line: GroupLine) -> Cell:
    return Cell(NOTHING) if line.chance is None else Cell(number(line.chance), score=Score(line.chance))


def _spread_out(layers: Sequence[int], most: int | None) -> Sequence[int]:
    if most is None or len(layers) <= most:
        return layers
    if most == 1:
        return layers[-1:]
    return [layers[round(number * (len(layers) - 1) / (most - 1))] for number in range(most)]
