"""A sentence with its gold tree above and the predicted one below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path

from bertology.results.trees._arcs import Kind, gold_arcs, predicted_arcs
from bertology.results.trees._canvas import (
    BLUE,
    GREY,
    PALE,
    POINTS,
    PURPLE,
    TEXT,
    VERMILION,
    Ruler,
    blank,
    heading,
    score,
    write,
)
from bertology.results.trees._direction import is_right_to_left
from bertology.results.trees._fonts import Fonts
from bertology.results.trees._layout import Piece, Row, lay_out
from bertology.results.trees._reading import TreeReading

WORD_SIZE, _LABEL_SIZE, _TITLE_SIZE, _SCORE_SIZE, _NOTE_SIZE = 10.0, 6.5, 10.0, 8.5, 7.5
_MARGIN, _SIDE_MARGIN = 16.0, 58.0
_HEADER, _SHORT_HEADER, _FOOTER, _NOTE = 40.0, 26.0, 26.0, 12.0
_HALF_LINE = 8.0
"""From the middle of a line of words to where arcs begin."""
_BASELINE = 3.5
_STEP, _LABELLED_STEP = 10.0, 13.0
"""From one arc to the next above it."""
_BETWEEN_ROWS = 20.0
_BEYOND = 10.0
"""How far an arc that goes on in another row passes the row's end."""
_CORNER = 12.0
_ARROW = (4.6, 5.2)
_SAMPLE = 25.0
"""Of a line in the legend, and the gap after it."""
_LINES: dict[Kind, dict[str, Any]] = {
    "both": {"color": BLUE, "linestyle": "-", "linewidth": 1.3},
    "alone": {"color": BLUE, "linestyle": "-", "linewidth": 1.3},
    "gold": {"color": VERMILION, "linestyle": (0, (4, 2)), "linewidth": 1.3},
    "predicted": {"color": PURPLE, "linestyle": (0, (1, 1.2)), "linewidth": 1.8},
}


def draw_arcs(reading: TreeReading, *, width: float) -> Figure:
    """See :func:`bertology.results.trees.plot_arcs`."""
    fonts = Fonts.of(reading.words)
    ruler = Ruler(fonts)
    left = _MARGIN + (_SIDE_MARGIN if reading.gold else 0.0)
    rows = _rows(reading, ruler, limit=width * POINTS - left - _MARGIN)
    heights = [_Heights.of(row) for row in rows]
    note, legend = fonts.note(), _Legend.of(reading, ruler)
    footer = (_FOOTER if reading.gold else _MARGIN / 2) + (_NOTE if note else 0.0)
    header = _HEADER if score(reading) else _SHORT_HEADER
    height = header + sum(each.total for each in heights) + _BETWEEN_ROWS * (len(rows) - 1) + footer
    texts = [ruler.width(heading(reading), _TITLE_SIZE, bold=True), ruler.width(score(reading), _SCORE_SIZE)]
    texts += [ruler.width(note, _NOTE_SIZE), legend.width]
    full = max(left + max(row.width for row in rows), _MARGIN + max(texts)) + _MARGIN

    figure, ax = blank(full, height)
    write(ax, _MARGIN, height - 14, heading(reading), fonts, size=_TITLE_SIZE, weight="bold", va="center", color=TEXT)
    write(ax, _MARGIN, height - 28, score(reading), fonts, size=_SCORE_SIZE, va="center", color=GREY)
    top, mirrored = height - header, is_right_to_left(reading.words)
    if reading.gold:
        for name, side in (("gold", 1), ("predicted", -1)):
            y = top - heights[0].above + side * (_HALF_LINE + 4)
            write(ax, _MARGIN, y, name, fonts, size=_SCORE_SIZE, va="center", color=GREY)
    for row, each in zip(rows, heights, strict=True):
        origin, way = (full - _MARGIN, -1) if mirrored else (left, 1)
        frame = _Frame(origin, way, row.width, line=top - each.above)
        _draw_row(ax, reading, row, each, frame, fonts)
        top -= each.total + _BETWEEN_ROWS
    legend.draw(ax, fonts, y=footer - 14)
    write(ax, _MARGIN, 9, note, fonts, size=_NOTE_SIZE, va="center", color=GREY)
    return figure


def _rows(reading: TreeReading, ruler: Ruler, *, limit: float) -> tuple[Row, ...]:
    """The words and their arcs: gold above and predicted below, or, without gold, predicted above, alone."""
    gold, predicted = gold_arcs(reading), predicted_arcs(reading)
    return lay_out(
        [ruler.width(word, WORD_SIZE) for word in reading.words],
        gold if reading.gold else predicted,
        predicted if reading.gold else (),
        limit=limit,
        label_width=lambda label: ruler.width(label, _LABEL_SIZE),
    )


@dataclass(frozen=True)
class _Heights:
    """Of a row: its arcs above and below, in points."""

    above: float
    """From the middle of the words to the row's top."""
    below: float
    step: float

    @classmethod
    def of(cls, row: Row) -> _Heights:
        labelled = any(piece.arc.label for piece in (*row.above, *row.below))
        step = _LABELLED_STEP if labelled else _STEP
        above, below = (max((piece.level for piece in side), default=0) for side in (row.above, row.below))
        return cls(_HALF_LINE + step * above + _LABEL_SIZE, _HALF_LINE + step * below + _LABEL_SIZE, step)

    @property
    def total(self) -> float:
        return self.above + self.below


@dataclass(frozen=True)
class _Frame:
    """Where a row stands in the figure."""

    origin: float
    """Where its first word begins."""
    way: int
    """1 from left to right, -1 from right to left."""
    width: float
    line: float
    """The height of the words' middle."""

    def x(self, place: float | None, *, otherwise: float = 0.0) -> float:
        return self.origin + self.way * (otherwise if place is None else place)


def _draw_row(ax: Axes, reading: TreeReading, row: Row, heights: _Heights, frame: _Frame, fonts: Fonts) -> None:
    for place, centre in enumerate(row.centres, start=row.first):
        color = TEXT if reading.scored[place] else PALE
        # The line of letters, not their ink, so that all words stand on one line.
        style = {"size": WORD_SIZE, "ha": "center", "va": "baseline", "color": color}
        write(ax, frame.x(centre), frame.line - _BASELINE, reading.words[place], fonts, **style)
    for pieces, side in ((row.above, 1), (row.below, -1)):
        for piece in pieces:
            _draw_piece(ax, piece, frame, side=side, step=heights.step, fonts=fonts)


def _draw_piece(ax: Axes, piece: Piece, frame: _Frame, *, side: int, step: float, fonts: Fonts) -> None:
    arc, line = piece.arc, _LINES[piece.arc.kind]
    foot = frame.line + side * _HALF_LINE
    top = foot + side * step * piece.level
    x0 = frame.x(piece.start, otherwise=-_BEYOND)
    x1 = frame.x(piece.end, otherwise=frame.width + _BEYOND)
    # A line ends where the head of its arrow begins.
    base = foot + side * _ARROW[1]
    feet = (base if arc.dependent == arc.left else foot, base if arc.dependent == arc.right else foot)
    opened = (piece.start is None, piece.end is None)
    path = _path(x0, x1, feet, top, opened=opened) if arc.length else Path([(x0, top), (x0, base)])
    ax.add_patch(PathPatch(path, fill=False, zorder=2, capstyle="butt", **line))
    tip = piece.start if arc.dependent == arc.left else piece.end
    if arc.dependent is not None and tip is not None:
        x, half = frame.x(tip), _ARROW[0] / 2
        corners = [(x, foot), (x - half, base), (x + half, base)]
        ax.add_patch(Polygon(corners, closed=True, color=line["color"], linewidth=0, zorder=3))
    if piece.label_at is not None:
        box = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"}
        style = {"size": _LABEL_SIZE, "ha": "center", "va": "center", "color": TEXT, "bbox": box, "zorder": 4}
        write(ax, frame.x(piece.label_at), top, arc.label, fonts, **style)


def _path(x0: float, x1: float, feet: tuple[float, float], top: float, *, opened: tuple[bool, bool]) -> Path:
    """From one foot up, along the top and down to the other foot; an open end stays at the top."""
    way = 1 if x1 > x0 else -1
    across = min(_CORNER, abs(x1 - x0) / (2 - any(opened)))

    def leg(x: float, foot: float, inward: int, *, is_open: bool) -> list[tuple[float, float]]:
        if is_open:
            return [(x, top)]
        # A leg bends over its whole height where that is low.
        bend = top - min(1.0, _CORNER / abs(top - foot)) * (top - foot)
        return [(x, foot), (x, bend), (x, top), (x + inward * across, top)]

    up = leg(x0, feet[0], way, is_open=opened[0])
    # The second leg is walked from the top down.
    down = leg(x1, feet[1], -way, is_open=opened[1])[::-1]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3][: len(up)]
    codes += [Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO][: len(down)]
    return Path([*up, *down], codes)


@dataclass(frozen=True)
class _Legend:
    """What the three kinds of line mean, and how many edges there are of each; none without gold."""

    entries: tuple[tuple[Kind, str, float], ...] = ()
    """Each with its width."""

    @classmethod
    def of(cls, reading: TreeReading, ruler: Ruler) -> _Legend:
        if reading.gold_edges is None:
            return cls()
        shared, gold, predicted = (len(each) for each in (reading.shared_edges, reading.gold_edges, reading.edges))
        texts: dict[Kind, str] = {
            "both": f"gold and predicted: {shared}",
            "gold": f"gold only: {gold - shared}",
            "predicted": f"predicted only: {predicted - shared}",
        }
        return cls(tuple((kind, text, ruler.width(text, _NOTE_SIZE)) for kind, text in texts.items()))

    @property
    def width(self) -> float:
        return sum(_SAMPLE + width + 16 for _, _, width in self.entries)

    def draw(self, ax: Axes, fonts: Fonts, *, y: float) -> None:
        x = _MARGIN
        for kind, text, width in self.entries:
            ax.plot([x, x + _SAMPLE - 5], [y, y], **_LINES[kind])
            write(ax, x + _SAMPLE, y, text, fonts, size=_NOTE_SIZE, va="center_baseline", color=TEXT)
            x += _SAMPLE + width + 16
