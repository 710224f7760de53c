"""A sentence with its gold tree as arcs above the words and the predicted one below."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Polygon, Rectangle
from matplotlib.path import Path

from bertology._figures import BLUE, GREY, PALE, PURPLE, TEXT, VERMILION, ShownFigure
from bertology._fonts import Fonts
from bertology.results.trees._arcs import Arc, Kind, Line, Words, levels

# All in points.
WORD_SIZE, _LABEL_SIZE, _TITLE_SIZE, _SCORE_SIZE, _NOTE_SIZE = 10.0, 6.5, 10.0, 8.5, 7.5
_MARGIN, _SIDE_MARGIN = 16.0, 58.0
_HEADER, _SHORT_HEADER, _FOOTER, _NOTE = 40.0, 26.0, 26.0, 12.0
_HALF_LINE = 8.0
"""From the middle of a line of words to where arcs begin."""
_BASELINE = 3.5
_STEP, _LABELLED_STEP = 10.0, 13.0  # from one arc to the next above it
_BETWEEN_ROWS = 20.0
_BEYOND = 10.0
"""How far an arc that goes on in another row passes the row's end."""
_CORNER = 12.0
_ARROW = (4.6, 5.2)
_SAMPLE = 25.0
"""Of a line in the legend, and the gap after it."""
_INCH = 72.0
_LINES: dict[Kind, dict[str, Any]] = {
    "both": {"color": BLUE, "linestyle": "-", "linewidth": 1.3},
    "alone": {"color": BLUE, "linestyle": "-", "linewidth": 1.3},
    "gold": {"color": VERMILION, "linestyle": (0, (4, 2)), "linewidth": 1.3},
    "predicted": {"color": PURPLE, "linestyle": (0, (1, 1.2)), "linewidth": 1.8},
}
_COMPARED: tuple[Kind, ...] = ("both", "gold", "predicted")


@dataclass(frozen=True)
class _Side:
    """The arcs on one side of a row of words, and where that row stands in the figure."""

    arcs: dict[Arc, int]
    """The arcs that the row shows any of, with their levels."""
    sign: int
    step: float

    @property
    def reach(self) -> float:
        """From the middle of the words to the end of the row."""
        return _HALF_LINE + self.step * max(self.arcs.values(), default=0) + _LABEL_SIZE


def draw_arcs(words: Words, sides: Sequence[Sequence[Arc]], *, width: float) -> Figure:
    """Draw words, in rows of at most ``width`` inches, and the arcs of one tree, or of gold above and another below."""
    fonts, compared = Fonts.of(words.texts), len(sides) == 2
    left = _MARGIN + (_SIDE_MARGIN if compared else 0.0)
    widths = [fonts.width(word, WORD_SIZE) for word in words.texts]
    line = Line.of(widths, sides, lambda label: fonts.width(label, _LABEL_SIZE))
    rows = line.rows(width * _INCH - left - _MARGIN)
    of_rows = [_sides(sides, row) for row in rows]
    kinds = list({(arc.left, arc.right): arc.kind for arcs in sides for arc in arcs if arc.length}.values())
    # How many edges are in both trees, and in one alone.
    legend = {kind: kinds.count(kind) for kind in _COMPARED} if compared else {}
    n_gold = len(kinds) - legend["predicted"] if compared else 0
    score = f"UUAS {100 * legend['both'] / n_gold:.1f}: {legend['both']} of {n_gold} gold edges" if n_gold else ""
    texts = [fonts.width(words.title, _TITLE_SIZE, bold=True), fonts.width(score, _SCORE_SIZE)]
    texts += [fonts.width(fonts.note(), _NOTE_SIZE)]
    texts += [sum(_SAMPLE + 16 + fonts.width(_named(*entry), _NOTE_SIZE) for entry in legend.items())]
    full = max(left + max(map(line.length, rows)), _MARGIN + max(texts)) + _MARGIN
    footer = (_FOOTER if compared else _MARGIN / 2) + (_NOTE if fonts.note() else 0.0)
    header = _HEADER if score else _SHORT_HEADER
    heights = [sum(side.reach for side in of_row) + (0 if compared else _HALF_LINE + _LABEL_SIZE) for of_row in of_rows]
    height = header + sum(heights) + _BETWEEN_ROWS * (len(rows) - 1) + footer

    ax = _page(full, height)
    fonts.write(ax, _MARGIN, height - 14, words.title, size=_TITLE_SIZE, weight="bold", va="center", color=TEXT)
    fonts.write(ax, _MARGIN, height - 28, score, size=_SCORE_SIZE, va="center", color=GREY)
    top = height - header
    for name, side in zip(("gold", "predicted"), of_rows[0] if compared else (), strict=False):
        y = top - of_rows[0][0].reach + side.sign * (_HALF_LINE + 4)
        fonts.write(ax, _MARGIN, y, name, size=_SCORE_SIZE, va="center", color=GREY)
    for row, of_row, tall in zip(rows, of_rows, heights, strict=True):
        origin, way = (full - _MARGIN, -1) if words.mirrored else (left, 1)
        frame = _Frame(ax, fonts, line, origin, way, line.span(row))
        frame.draw(words, row, of_row, y=top - of_row[0].reach)
        top -= tall + _BETWEEN_ROWS
    x = _MARGIN
    for kind, count in legend.items():
        ax.plot([x, x + _SAMPLE - 5], [footer - 14] * 2, **_LINES[kind])
        text = _named(kind, count)
        fonts.write(ax, x + _SAMPLE, footer - 14, text, size=_NOTE_SIZE, va="center_baseline", color=TEXT)
        x += _SAMPLE + 16 + fonts.width(text, _NOTE_SIZE)
    fonts.write(ax, _MARGIN, 9, fonts.note(), size=_NOTE_SIZE, va="center", color=GREY)
    return ax.figure  # type: ignore[return-value]


def _page(width: float, height: float) -> Axes:
    """Axes over all of a figure of so many points, on which a unit is a point."""
    figure = ShownFigure(figsize=(width / _INCH, height / _INCH), dpi=200)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.set_axis_off()
    return ax


def _sides(sides: Sequence[Sequence[Arc]], row: range) -> list[_Side]:
    """What a row shows of the arcs above and below."""
    shown = [levels([arc for arc in arcs if arc.right >= row[0] and arc.left <= row[-1]]) for arcs in sides]
    step = _LABELLED_STEP if any(arc.label for arc in itertools.chain(*shown)) else _STEP
    return [_Side(arcs, sign, step) for arcs, sign in zip(shown, (1, -1), strict=False)]


def _named(kind: Kind, count: int) -> str:
    return f"{'gold and predicted' if kind == 'both' else f'{kind} only'}: {count}"


@dataclass(frozen=True)
class _Frame:
    """Where a row of words stands in the figure."""

    ax: Axes
    fonts: Fonts
    line: Line
    origin: float
    way: int
    """1 from left to right, -1 from right to left."""
    span: tuple[float, float]
    """The part of the line that the row shows."""

    def x(self, place: float) -> float:
        """Of the figure, from a place in the line."""
        return self.origin + self.way * (place - self.span[0])

    def draw(self, words: Words, row: range, sides: Sequence[_Side], *, y: float) -> None:
        """Draw the words of a row, and what it shows of arcs."""
        for place in row:
            color = TEXT if words.scored[place] else PALE
            # The line of letters, not their ink, so that all words stand on one line.
            style: dict[str, Any] = {"size": WORD_SIZE, "ha": "center", "va": "baseline", "color": color}
            self.fonts.write(self.ax, self.x(self.line.centres[place]), y - _BASELINE, words.texts[place], **style)
        for side, ports in zip(sides, self.line.ports, strict=True):
            for arc in side.arcs:
                ends = [self.line.centres[place] + ports[place, arc] for place in (arc.left, arc.right)]
                self._draw_arc(arc, side, ends, row, y)

    def _draw_arc(self, arc: Arc, side: _Side, ends: Sequence[float], row: range, y: float) -> None:
        foot, look = y + side.sign * _HALF_LINE, _LINES[arc.kind]
        top = foot + side.sign * side.step * side.arcs[arc]
        # A line ends where the head of its arrow begins.
        base = foot + side.sign * _ARROW[1]
        feet = [base if arc.dependent == place else foot for place in (arc.left, arc.right)]
        x0, x1 = map(self.x, ends)
        path = _path(x0, x1, feet, top) if arc.length else Path([(x0, top), (x0, base)])
        patch = self.ax.add_patch(PathPatch(path, fill=False, zorder=2, capstyle="butt", **look))
        if arc.left < row[0] or arc.right > row[-1]:
            # Only what belongs to this row: the rest is drawn in others.
            start, end = sorted(map(self.x, (self.span[0] - _BEYOND, self.span[1] + _BEYOND)))
            patch.set_clip_path(Rectangle((start, 0), end - start, self.ax.get_ylim()[1], transform=self.ax.transData))
        if arc.dependent in row:
            tip, half = (x0 if arc.dependent == arc.left else x1), _ARROW[0] / 2
            corners = [(tip, foot), (tip - half, base), (tip + half, base)]
            self.ax.add_patch(Polygon(corners, closed=True, color=look["color"], linewidth=0, zorder=3))
        middle = sum(ends) / 2
        if arc.label and self._is_home(middle, row):
            room = self.fonts.width(arc.label, _LABEL_SIZE) / 2
            middle = min(max(middle, self.span[0] + room), max(self.span[1] - room, self.span[0] + room))
            box = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"}
            style: dict[str, Any] = {"size": _LABEL_SIZE, "ha": "center", "va": "center", "color": TEXT}
            self.fonts.write(self.ax, self.x(middle), top, arc.label, **style, bbox=box, zorder=4)

    def _is_home(self, place: float, row: range) -> bool:
        """Whether a place of the line belongs to this row, as the gap after it does."""
        after = row[-1] + 1
        end = self.line.span(range(after, after + 1))[0] if after < len(self.line.centres) else float("inf")
        return (place >= self.span[0] or row[0] == 0) and place < end


def _path(x0: float, x1: float, feet: Sequence[float], top: float) -> Path:
    """From one foot up, along the top and down to the other foot, with round corners."""
    across = min(_CORNER, abs(x1 - x0) / 2) * (1 if x1 > x0 else -1)

    def leg(x: float, foot: float, inward: float) -> list[tuple[float, float]]:
        # A leg bends over its whole height where that is low.
        bend = top - min(1.0, _CORNER / abs(top - foot)) * (top - foot)
        return [(x, foot), (x, bend), (x, top), (x + inward, top)]

    # The second leg is walked from the top down.
    points = [*leg(x0, feet[0], across), *leg(x1, feet[1], -across)[::-1]]
    rising = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path(points, [*rising, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO])
