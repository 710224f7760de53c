"""Scores of groups of items, such as relations or constructions, layer by layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertology.results._grid import NOTHING, Cell, Grid, GridLine, Note, is_fraction, metric_title, number, score_cell
from bertology.results._rows import ResultRow, chances_of, reading_of
from bertology.results._view import LayerTable, Score


@dataclass(frozen=True)
class GroupLine:
    """One group of one table."""

    name: str
    n_items: int
    n_skipped: int
    by_layer: Mapping[int, Score]
    """The table's main metric on the items of this group alone."""


@dataclass(frozen=True)
class GroupTable:
    """The groups behind one table of layers."""

    table: LayerTable
    lines: tuple[GroupLine, ...]


def group_tables(rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[GroupTable, ...]:
    """The groups of those tables whose items stand in several, in order of first appearance."""
    of_table: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        if row.group is not None and row.control == "none" and row.layer is not None and row.status == "ok":
            of_table[_key(row)].append(row)
    found = []
    for table in tables:
        ours = [row for row in of_table[_key(table.about)] if row.metric == table.metric]
        if ours:
            found.append(GroupTable(table, tuple(_line(ours, name) for name in dict.fromkeys(r.group for r in ours))))
    return tuple(found)


def _key(row: ResultRow) -> tuple[object, ...]:
    same = row.task, row.corpus, row.corpus_fingerprint, row.split, row.model, row.init, row.pooling, row.head
    return (*same, reading_of(row))


def _line(rows: Sequence[ResultRow], name: str | None) -> GroupLine:
    ours = [row for row in rows if row.group == name]
    scores = {
        row.layer: Score(row.value, row.ci_low, row.ci_high)
        for row in ours
        if row.layer is not None and row.value is not None
    }
    return GroupLine(str(name), ours[0].n_items, ours[0].n_skipped, dict(sorted(scores.items())))


def group_grid(groups: GroupTable, *, most_layers: int | None = None) -> Grid:
    """Groups by layers; the last layer, which is the model's own answer, with its interval.

    Args:
        groups: what to show.
        most_layers: of more layers so many are shown, from the first to the last; all when left out.
    """
    table = groups.table
    layers = _spread_out([line.layer for line in table.lines], most_layers)
    skipped = any(line.n_skipped for line in groups.lines)
    chances = chances_of(table.about)
    differ = len(set(chances.values())) > 1
    lines = []
    for line in groups.lines:
        counts = [Cell(f"{line.n_items:,}"), *([Cell(f"{line.n_skipped:,}")] if skipped else [])]
        counts += [Cell(number(chances[line.name]) if line.name in chances else NOTHING)] if differ else []
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
    title = f"{table.task} · {metric_title(table.metric)} by group and layer{unit}{reading}"
    return Grid(title, headers, tuple(lines), notes, corner="Group")


def _spread_out(layers: Sequence[int], most: int | None) -> Sequence[int]:
    if most is None or len(layers) <= most:
        return layers
    if most == 1:
        return layers[-1:]
    return [layers[round(number * (len(layers) - 1) / (most - 1))] for number in range(most)]
