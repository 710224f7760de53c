"""Figures of the tables that pages hold: what is drawn is what the table says, by layer or by row.

The first table with numbers in it is drawn. ``<!-- drawn: table 2, columns 1 4, in bits -->`` on a page chooses another
one, some of its columns (of its rows, where columns are layers), and the name of the axis; tables and columns are
counted from 1, the first column being left out.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np

from bertology import _figures as looks

_CELL = re.compile(
    r"(?P<value>[−+-]?\d[\d,]*(?:\.\d+)?)(?: ?%)?(?: \[(?P<low>[^],]+), (?P<high>[^],]+)\])?[ ★]*(?:\(\d+\))?"
)
_PLACE = re.compile(r"(layer )?(0–)?[−-]?\d[\d,.]*( · embeddings)?")
_CHOICE = re.compile(r"<!-- drawn:(?: table (\d+))?,?(?: columns ([\d ]+))?,?(?: in ([^>]+?))? -->")
_COUNTS = re.compile(r"(test )?(words|items|pairs|sentences|types)\b")
_COLORS = (looks.BLUE, looks.VERMILION, looks.GREEN, looks.PURPLE, "#56B4E9", "#E69F00", "#000000")
_MEASURES = ("α", "updates")
_MOST_LINES = 7


@dataclass(frozen=True)
class Drawn:
    """A figure of a table as SVG, and what it shows in words."""

    svg: bytes
    alt: str


def drawn(text: str, title: str) -> Drawn | None:
    """The figure of a table of this Markdown text; None where no table has numbers."""
    found = _CHOICE.search(text)
    number, columns, unit = found.groups() if found else (None, None, None)
    chosen = [int(one) for one in (columns or "").split()]
    tables = _tables(text)
    if verdicts := Counter(
        row[head.index("verdict")] for head, rows in tables if "verdict" in head[1:] for row in rows
    ):
        counts = {place: (float(many),) * 3 for place, many in enumerate(verdicts.values())}
        drawing = _Drawing(list(verdicts), {"claims": counts}, None)
        return Drawn(_svg(drawing, "claims"), f"{title}: {drawing.about}")
    for head, rows in tables[int(number) - 1 :][:1] if number else tables:
        if drawing := _drawing(head, rows, chosen):
            values = [value for line in drawing.lines.values() for value, _, _ in line.values()]
            of_hundred = re.search(r"[Pp]ercent|%", text) and 1 < max(values) <= 100
            return Drawn(_svg(drawing, unit or ("%" if of_hundred else "")), f"{title}: {drawing.about}")
    return None


@dataclass(frozen=True)
class _Drawing:
    """Lines by name, each a value and bounds by place; places are layers or the names of rows."""

    places: list[str]
    lines: dict[str, dict[int, tuple[float, float, float]]]
    over: str | None
    """What the places count, by the head of its column or row; None where places are names."""

    @property
    def axis(self) -> str:
        """The name of what is counted: layers are numbered one by one."""
        numbers = [int(place) for place in self.places if place.isdigit()]
        is_counted = len(numbers) < len(self.places) or numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        return (
            "layer" if "layer" in (self.over or "") or (is_counted and self.over not in _MEASURES) else str(self.over)
        )

    @property
    def names(self) -> list[str]:
        return [f"{place} · embeddings" if place == "0" else place for place in self.places]

    @property
    def xs(self) -> list[float]:
        """To scale where the steps are of nearly one size, else one after the other."""
        try:
            at = [_number(place) for place in self.places]
        except ValueError:
            return list(range(len(self.places)))
        steps = [after - before for before, after in itertools.pairwise(at)]
        return at if 0 < max(steps) <= 4 * min(steps) else list(range(len(at)))

    @property
    def about(self) -> str:
        what = f"{', '.join(self.lines)}, "
        return what + (f"for {'; '.join(self.places)}" if self.over is None else f"by {self.axis}")


def _tables(text: str) -> list[tuple[list[str], list[list[str]]]]:
    """Head and rows of the tables, in the order of the page."""
    found = []
    for block in re.findall(r"(?m)^\|.*(?:\n\|.*)+", text):
        cells = [[_plain(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]
        found.append((cells[0], cells[2:]))
    return [(head, rows) for head, rows in found if rows]


def _plain(cell: str) -> str:
    return re.sub(r"[`*]|\]\([^)]*\)|\[(?=[^\d−-])", "", cell).strip()


def _number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").rstrip(" %"))


def _value(cell: str) -> tuple[float, float, float] | None:
    found = _CELL.fullmatch(cell)
    if found is None:
        return None
    value = _number(found["value"])
    return value, *(_number(found[end]) if found[end] else value for end in ("low", "high"))


def _drawing(head: list[str], rows: list[list[str]], chosen: list[int]) -> _Drawing | None:
    head = _told_apart(head)
    numbers = [place for place, name in enumerate(head) if place and _PLACE.fullmatch(name)]
    if len(numbers) > 2:  # columns are layers, or steps of something; rows are lines
        lines = {row[0]: [row[place] for place in numbers] for row in rows}
        return _made([head[place].split(" ·")[0] for place in numbers], lines, chosen, head[0])
    of_layer = [row for row in rows if _PLACE.fullmatch(row[0])]
    over = head[0] if len(of_layer) > 2 else None
    rows = rows if over is None else of_layer  # baselines below the layers stay in the table
    places = [row[0].split(" ·")[0] if over is not None else row[0] for row in rows]
    doubles = len(set(places)) < len(places)
    places = [f"{row[0]}, {row[1]}" for row in rows] if doubles else places
    lines = {name: [row[n] for row in rows] for n, name in enumerate(head) if n and not _COUNTS.match(name)}
    return _made(places, lines, chosen, over)


def _told_apart(head: list[str]) -> list[str]:
    """Heads of columns; one that was there before is named with the group of its columns, ``selectivity: rank 8``."""
    named: list[str] = []
    group = ""
    for name in head:
        group = group if name in named else name.split(": ")[0]
        named.append(f"{group}: {name}" if name in named else name)
    return named


def _made(places: list[str], cells: dict[str, list[str]], chosen: list[int], over: str | None) -> _Drawing | None:
    values = {name: {n: v for n, cell in enumerate(some) if (v := _value(cell))} for name, some in cells.items()}
    if chosen:
        names = [list(values)[number - 1] for number in chosen]
    else:
        names = [name for name, some in values.items() if 2 * len(some) > len(places)]
        with_bounds = [name for name in names if any(low < high for _, low, high in values[name].values())]
        names = (with_bounds or names)[: 2 if over is None else _MOST_LINES]
    if over is None:  # a row without any of these numbers has nothing to show
        kept = [place for place in range(len(places)) if any(place in values[name] for name in names)]
        values = {
            name: {n: values[name][place] for n, place in enumerate(kept) if place in values[name]} for name in names
        }
        places = [places[place] for place in kept]
    lines = {name: values[name] for name in names if values[name]}
    return _Drawing(places, lines, over) if lines else None


def _svg(drawing: _Drawing, unit: str) -> bytes:
    n, over = len(drawing.places), drawing.over
    if list(drawing.lines) == drawing.names:
        return _matrix(drawing, unit)
    figure = looks.new_figure(6.8, max(1.6, 0.26 * n + 0.9) if over is None else 3.6)
    ax = figure.subplots()
    for number, (name, values) in enumerate(drawing.lines.items()):
        style: dict[str, Any] = {"color": _COLORS[number % 7], "marker": "os^Dvxp"[number % 7], "label": name}
        # A place without a number breaks the line.
        main, low, high = zip(*(values.get(place, (math.nan,) * 3) for place in range(n)), strict=True)
        if over is None:
            ys = [place + 0.2 * number for place in range(n)]
            ax.hlines(ys, low, high, color=style["color"], linewidth=1.6)
            ax.plot(main, ys, linestyle="", markersize=5, **style)
        else:
            ax.plot(drawing.xs, main, linewidth=1.5, markersize=4.5, **style)
            ax.fill_between(drawing.xs, low, high, color=style["color"], alpha=0.16, linewidth=0)
    names = [looks.clipped(place, 46) for place in drawing.places]
    if over is None:
        ax.set_yticks(range(n), names)
        ax.set_ylim(n - 0.4, -0.6)
        ax.set_xlabel(unit, fontsize=9)
        if unit == "claims":
            ax.set_xlim(left=0)
        ax.grid(axis="x", color="#E3E3E3", linewidth=0.7)
        ax.set_axisbelow(True)
    else:
        ax.set_xticks(drawing.xs, names)
        ax.set_xlabel(
            "layer (0: embeddings)" if names[0] == "0" and "layer" in drawing.axis else drawing.axis, fontsize=9
        )
        ax.set_ylabel(unit, fontsize=9)
    looks.style_axes(ax, grid=over is not None)
    ax.tick_params(labelsize=8.5)
    wide = len(drawing.lines) == 1 or max(map(len, drawing.lines)) > 40
    figure.legend(loc="outside upper left", fontsize=8, frameon=False, ncols=1 if wide else 2)
    return _file(figure)


def _matrix(drawing: _Drawing, unit: str) -> bytes:
    """Shades of each row by each column, where both are the same layers."""
    figure = looks.new_figure(5.2, 4.4)
    ax = figure.subplots()
    values = [[line[place][0] for place in range(len(drawing.places))] for line in drawing.lines.values()]
    texts = {(row, column): f"{value:g}" for row, line in enumerate(values) for column, value in enumerate(line)}
    looks.draw_shades(ax, np.array(values), rows=drawing.places, columns=drawing.places, texts=texts, most=100)
    ax.set_xlabel(f"layer (0: embeddings), {unit}", fontsize=9)
    ax.set_ylabel("layer", fontsize=9)
    return _file(figure)


def _file(figure: looks.ShownFigure) -> bytes:
    with mpl.rc_context({"svg.hashsalt": "bertology"}):
        return looks.figure_bytes(figure, "svg")
