"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.box import Box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bertology.results.views.across import GroupTable, group_grid
from bertology.results.views.grid import STAR, Grid, GridLine, shortened
from bertology.results.views.heads import HeadTable
from bertology.results.views.layers import LayerTable, Score

_RULES_ONLY = Box("    \n    \n ── \n    \n ── \n ── \n    \n    \n")
_STRIP_MOST, _STRIP_LEAST = 28, 12
_LEAST_NAME = 20
"""Letters of a group's name that are always shown."""
_BEST = "bold green"
_TWO_LINES = {"selectivity": "selec-\ntivity", "macro-F1": "macro-\nF1", "micro-F1": "micro-\nF1"}


def render_grids(
    grids: Iterable[tuple[Grid, LayerTable | GroupTable | HeadTable | None]], *, width: int
) -> RenderableType:
    """Tables one under the other, as much of each as there is room for.

    Those that can be narrowed or drawn come with what they were made of.
    """
    parts = []
    for grid, source in grids:
        if isinstance(source, GroupTable):
            parts.append(_rendered(_fitting(source, width), width=width, stars=False))
        elif isinstance(source, HeadTable):
            parts.append(_rendered(_narrowed(grid, width), width=width))
        else:
            parts.append(_rendered(grid, width=width, table=source))
    return Group(*parts)


def _narrowed(grid: Grid, width: int) -> Grid:
    """A table of heads without the columns that can be spared, as far as there is no room for them."""
    for header in ("next", "mean"):
        if _width(_table(grid, (), interval_columns=len(grid.headers))) <= width - 2:
            break
        grid = grid.columns([place for place, name in enumerate(grid.headers) if name != header])
    return grid


def _fitting(groups: GroupTable, width: int) -> Grid:
    """The table of groups with as many layers as there is room for beside their names."""
    names = [shortened(line.name, max(_LEAST_NAME, width // 3)) for line in groups.lines]
    if len(set(names)) == len(names):
        lines = tuple(replace(line, name=name) for line, name in zip(groups.lines, names, strict=True))
        groups = replace(groups, lines=lines)
    for most in range(len(groups.table.lines), 1, -1):
        grid = group_grid(groups, most_layers=most)
        if _width(_table(grid, (), interval_columns=len(grid.headers), stars=False)) <= width - 2:
            return grid
    return group_grid(groups, most_layers=1)


def _width(table: Table) -> int:
    return Console(width=1000).measure(table).maximum


def _rendered(grid: Grid, *, width: int, table: LayerTable | None = None, stars: bool = True) -> RenderableType:
    out = _table(grid, (), interval_columns=1 if table else len(grid.headers), stars=stars)
    if table is not None:
        out = _table(grid, _strips(table, min(_STRIP_MOST, width - _width(out) - 6)), interval_columns=1)
    notes = Table.grid(padding=(0, 2))
    for note in grid.notes:
        notes.add_row(Text(note.about, style=_BEST if note.about == STAR else "dim"), Text(note.text, style="dim"))
    return Padding(Group(Text(grid.title, style="bold"), Text(), out, Text(), notes), (1, 1))


def _table(grid: Grid, strips: Sequence[str], *, interval_columns: int, stars: bool = True) -> Table:
    """The table itself, its first columns with intervals and room for stars, and the drawing as a last column."""
    out = Table(box=_RULES_ONLY, pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    out.add_column(grid.corner.lower(), no_wrap=True)
    for header in grid.headers:
        title = _TWO_LINES.get(header, header.replace(" ", "\n"))
        out.add_column(title, justify="right", no_wrap=True)
    if strips:
        out.add_column("", no_wrap=True)
    for place, line in enumerate(grid.lines):
        ends = place + 1 < len(grid.lines) and grid.lines[place + 1].baseline and not line.baseline
        strip = [Text(strips[place], style=_BEST if line.best else "")] if place < len(strips) else []
        label = Text(line.label, style="dim" if line.baseline else _BEST if line.best else "")
        out.add_row(label, *_cells(line, interval_columns, stars=stars), *strip, end_section=ends)
    return out


def _cells(line: GridLine, interval_columns: int, *, stars: bool) -> Iterator[Text]:
    for column, cell in enumerate(line.cells):
        best = column in line.best
        text = Text(cell.text, style=_BEST if best else "dim" if line.baseline else "")
        if column < interval_columns:
            text.append(f" {cell.interval}" if cell.interval else "", style="dim")
            text.append((f" {STAR}" if best else "  ") if stars else "", style=_BEST)
        yield text


def _strips(table: LayerTable, room: int) -> tuple[str, ...]:
    """A drawing of each layer's interval; none where there is no room or nothing to tell apart."""
    scores = [line.main for line in table.lines]
    bounds = [b for score in scores if score for b in (score.value, score.low, score.high) if b is not None]
    if room < _STRIP_LEAST or len(scores) < 2 or not bounds or min(bounds) == max(bounds):
        return ()
    return tuple(_strip(score, min(bounds), max(bounds), room) for score in scores)


def _strip(score: Score | None, least: float, most: float, room: int) -> str:
    """``──●──``: where a score and its interval lie between ``least`` and ``most``."""
    if score is None:
        return ""

    def place(value: float) -> int:
        return round((value - least) / (most - least) * (room - 1))

    low, high = (place(score.value if bound is None else bound) for bound in (score.low, score.high))
    line = [" "] * low + ["─"] * (high - low + 1)
    line[place(score.value)] = "●"
    return "".join(line)
