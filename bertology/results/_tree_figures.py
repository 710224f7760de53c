"""Pictures of parsed sentences: arcs over the words, depths of words, distances between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Polygon, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bertology._figures import (
    BLUE,
    GREY,
    PALE,
    PURPLE,
    TEXT,
    VERMILION,
    Fonts,
    ShownFigure,
    draw_grid,
    new_figure,
    style_axes,
    write_caption,
)
from bertology.results._tree_arcs import Arc, Kind, Line, Words, levels

# All in points.
WORD_SIZE, _LABEL_SIZE, _TITLE_SIZE, _SCORE_SIZE, _NOTE_SIZE = 10.0, 6.5, 10.0, 8.5, 7.5
_MARGIN, _SIDE_MARGIN = 16.0, 58.0
_HEADER, _SHORT_HEADER, _FOOTER, _NOTE = 40.0, 26.0, 26.0, 12.0
_HALF_LINE = 8.0
"""Distance between the middle of a line of words and the beginning of arcs."""
_BASELINE = 3.5
_STEP, _LABELLED_STEP = 10.0, 13.0  # from one arc to the next above it
_BETWEEN_ROWS = 20.0
_BEYOND = 10.0
"""Length by which an arc that goes on in another row passes the end of a row."""
_CORNER = 12.0
_ARROW = (4.6, 5.2)
_SAMPLE = 25.0
"""Length of a line in the legend with the gap after it."""
_INCH = 72.0
_LINES: dict[Kind, dict[str, Any]] = {
    "both": {"color": BLUE, "linestyle": "-", "linewidth": 1.3},
    "alone": {"color": BLUE, "linestyle": "-", "linewidth": 1.3},
    "gold": {"color": VERMILION, "linestyle": (0, (4, 2)), "linewidth": 1.3},
    "predicted": {"color": PURPLE, "linestyle": (0, (1, 1.2)), "linewidth": 1.8},
}
_COMPARED: tuple[Kind, ...] = ("both", "gold", "predicted")
_NAMES = {"both": "gold and predicted"}
_SIGNS = (1, -1)  # over and under the words


def draw_arcs(words: Words, sides: Sequence[Sequence[Arc]], *, width: float) -> Figure:
    """Draw words, in rows of at most ``width`` inches, and the arcs of one tree, or of gold above and another below."""
    fonts, compared = Fonts.of(words.texts), len(sides) == 2
    left = _MARGIN + (_SIDE_MARGIN if compared else 0.0)
    widths = [fonts.width(word, WORD_SIZE) for word in words.texts]
    line = Line.of(widths, sides, lambda label: fonts.width(label, _LABEL_SIZE))
    rows = [_Row(words, line, fonts, sides, row) for row in line.rows(width * _INCH - left - _MARGIN)]
    kinds = list({(arc.left, arc.right): arc.kind for arcs in sides for arc in arcs if arc.length}.values())
    # How many edges are in both trees, and in one alone.
    legend = {kind: kinds.count(kind) for kind in _COMPARED} if compared else {}
    n_gold = len(kinds) - legend["predicted"] if compared else 0
    score = f"UUAS {100 * legend['both'] / n_gold:.1f}: {legend['both']} of {n_gold} gold edges" if n_gold else ""
    named = {kind: f"{_NAMES.get(kind, f'{kind} only')}: {count}" for kind, count in legend.items()}
    texts = [fonts.width(words.title, _TITLE_SIZE, bold=True), fonts.width(score, _SCORE_SIZE)]
    texts += [fonts.width(fonts.note(), _NOTE_SIZE)]
    texts += [sum(_SAMPLE + 16 + fonts.width(text, _NOTE_SIZE) for text in named.values())]
    full = max(left + max(line.length(row.places) for row in rows), _MARGIN + max(texts)) + _MARGIN
    footer = (_FOOTER if compared else _MARGIN / 2) + (_NOTE if fonts.note() else 0.0)
    header = _HEADER if score else _SHORT_HEADER
    heights = [sum(row.reaches) + (0 if compared else _HALF_LINE + _LABEL_SIZE) for row in rows]
    height = header + sum(heights) + _BETWEEN_ROWS * (len(rows) - 1) + footer

    # Axes over all of the figure, on which a unit is a point.
    figure = ShownFigure(figsize=(full / _INCH, height / _INCH), dpi=200)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, full), ylim=(0, height))
    ax.set_axis_off()
    fonts.write(ax, _MARGIN, height - 14, words.title, size=_TITLE_SIZE, weight="bold", va="center", color=TEXT)
    fonts.write(ax, _MARGIN, height - 28, score, size=_SCORE_SIZE, va="center", color=GREY)
    top = height - header
    for name, sign in zip(("gold", "predicted"), _SIGNS if compared else (), strict=False):
        y = top - rows[0].reaches[0] + sign * (_HALF_LINE + 4)
        fonts.write(ax, _MARGIN, y, name, size=_SCORE_SIZE, va="center", color=GREY)
    for row, tall in zip(rows, heights, strict=True):
        row.draw(ax, full - _MARGIN if words.mirrored else left, top - row.reaches[0])
        top -= tall + _BETWEEN_ROWS
    x = _MARGIN
    for kind, text in named.items():
        ax.plot([x, x + _SAMPLE - 5], [footer - 14] * 2, **_LINES[kind])
        fonts.write(ax, x + _SAMPLE, footer - 14, text, size=_NOTE_SIZE, va="center_baseline", color=TEXT)
        x += _SAMPLE + 16 + fonts.width(text, _NOTE_SIZE)
    fonts.write(ax, _MARGIN, 9, fonts.note(), size=_NOTE_SIZE, va="center", color=GREY)
    return figure


class _Row:
    """A row of words, and what it shows of the arcs over and under them."""

    def __init__(self, words: Words, line: Line, fonts: Fonts, sides: Sequence[Sequence[Arc]], places: range) -> None:
        self.words, self.line, self.fonts, self.places = words, line, fonts, places
        self.start, self.end = line.span(places)
        self.sides = [levels([a for a in arcs if a.right >= places[0] and a.left <= places[-1]]) for arcs in sides]
        self.step = _LABELLED_STEP if any(arc.label for arc in itertools.chain(*self.sides)) else _STEP
        highest = (max(of_side.values(), default=0) for of_side in self.sides)
        self.reaches = [_HALF_LINE + self.step * level + _LABEL_SIZE for level in highest]
        """Distances between the middle of the words and the ends of the row."""

    def draw(self, ax: Axes, origin: float, y: float) -> None:
        """Draw the row from ``origin``, the middle of its words at the height ``y``."""

        def x(place: float) -> float:
            return origin + (self.start - place if self.words.mirrored else place - self.start)

        for place in self.places:
            color = TEXT if self.words.scored[place] else PALE
            # The line of letters, not their ink, so that all words stand on one line.
            style: dict[str, Any] = {"size": WORD_SIZE, "ha": "center", "va": "baseline", "color": color}
            self.fonts.write(ax, x(self.line.centres[place]), y - _BASELINE, self.words.texts[place], **style)
        for arcs, ports, sign in zip(self.sides, self.line.ports, _SIGNS, strict=False):
            foot = y + sign * _HALF_LINE
            for arc, level in arcs.items():
                ends = [self.line.centres[place] + ports[place, arc] for place in (arc.left, arc.right)]
                top = foot + sign * self.step * level
                self._draw_arc(ax, arc, x, ends, foot, top)
                middle = sum(ends) / 2
                if arc.label and self._is_home(middle):
                    room = self.fonts.width(arc.label, _LABEL_SIZE) / 2
                    middle = min(max(middle, self.start + room), max(self.end - room, self.start + room))
                    box = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"}
                    style = {"size": _LABEL_SIZE, "ha": "center", "va": "center", "color": TEXT, "bbox": box}
                    self.fonts.write(ax, x(middle), top, arc.label, **style, zorder=4)

    def _draw_arc(
        self, ax: Axes, arc: Arc, x: Callable[[float], float], places: Sequence[float], foot: float, top: float
    ) -> None:
        look, ends = _LINES[arc.kind], [x(place) for place in places]
        # A line ends where the head of its arrow begins.
        base = foot + (_ARROW[1] if top > foot else -_ARROW[1])
        feet = [base if arc.dependent == place else foot for place in (arc.left, arc.right)]
        path = _path(ends[0], ends[1], feet, top) if arc.length else Path([(ends[0], top), (ends[0], base)])
        patch = ax.add_patch(PathPatch(path, fill=False, zorder=2, capstyle="butt", **look))
        if arc.left < self.places[0] or arc.right > self.places[-1]:
            # Only what belongs to this row: the rest is drawn in others.
            start, end = sorted(map(x, (self.start - _BEYOND, self.end + _BEYOND)))
            patch.set_clip_path(Rectangle((start, 0), end - start, ax.get_ylim()[1], transform=ax.transData))
        if arc.dependent in self.places:
            tip, half = ends[0] if arc.dependent == arc.left else ends[1], _ARROW[0] / 2
            corners = [(tip, foot), (tip - half, base), (tip + half, base)]
            ax.add_patch(Polygon(corners, closed=True, color=look["color"], linewidth=0, zorder=3))

    def _is_home(self, place: float) -> bool:
        """Whether a place of the line belongs to this row, as the gap after it does."""
        after = self.places[-1] + 1
        end = self.line.span(range(after, after + 1))[0] if after < len(self.line.centres) else float("inf")
        return (place >= self.start or self.places[0] == 0) and place < end


def _path(x0: float, x1: float, feet: Sequence[float], top: float) -> Path:
    """The path of an arc: up from one foot, along the top and down to the other, with round corners."""
    across = min(_CORNER, abs(x1 - x0) / 2) * (1 if x1 > x0 else -1)

    def leg(x: float, foot: float, inward: float) -> list[tuple[float, float]]:
        # A leg bends over its whole height where that is low.
        bend = top - min(1.0, _CORNER / abs(top - foot)) * (top - foot)
        return [(x, foot), (x, bend), (x, top), (x + inward, top)]

    # The second leg is walked from the top down.
    points = [*leg(x0, feet[0], across), *leg(x1, feet[1], -across)[::-1]]
    rising = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path(points, [*rising, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO])


# From near and deep to far and pale, in one hue, which survives print in grey.
_SHADES = LinearSegmentedColormap.from_list("distances", ["#08306b", "#2474b3", "#7fb8dc", "#c6dbef", "#f7fafd"])
_MOST_LETTERS = 18
_NAME_SIZE = 8.0
# In inches.
_WORD, _LEAST_WIDTH, _FAR, _HEIGHT = 0.3, 4.2, 0.75, 3.4
_CELL, _LEAST_PANEL, _BAR, _PLOT_HEADER = 0.17, 1.6, 1.0, 0.8


def draw_depths(words: Words, depths: Sequence[float], gold: Sequence[int] | None) -> Figure:
    """Draw the predicted depth of each scored word, and the gold one where it is known, the root on top."""
    size = len(words.texts)
    figure = new_figure(max(_LEAST_WIDTH, _FAR + _WORD * size), _HEIGHT)
    ax = figure.subplots()
    places = [place for place in range(size) if words.scored[place]]
    predicted = [depths[place] for place in places]
    if gold is not None:
        of_gold = [gold[place] for place in places]
        ax.vlines(places, of_gold, predicted, color=PALE, linewidth=1.0, zorder=1)
        marks: dict[str, Any] = {"marker": "o", "markersize": 6, "markerfacecolor": "white"}
        ax.plot(places, of_gold, color=GREY, linewidth=1.0, label="gold", **marks)
    line: dict[str, Any] = {"marker": "s", "markersize": 4, "linewidth": 1.2, "linestyle": (0, (4, 2))}
    ax.plot(places, predicted, color=BLUE, label="predicted", **line)
    # The root on top, as trees are drawn; half an edge of air over it.
    ax.set_ylim(max([1.0, *predicted, *(gold or ())]) + 0.4, min([0.0, *predicted]) - 0.4)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    ax.set_ylabel("depth, edges below the root", fontsize=8.5, color=TEXT)
    ax.tick_params(axis="y", labelsize=8, color=GREY, labelcolor=TEXT)
    ends = (-0.7, size - 0.3)
    ax.set_xlim(ends[::-1] if words.mirrored else ends)
    draw_grid(ax)
    style_axes(ax)
    fonts = Fonts.of(words.texts)
    _name_words(ax, words, fonts, rotation=60.0)
    ax.set_title(words.title, loc="left", fontsize=10, fontweight="bold", color=TEXT, pad=18)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=2, fontsize=8, frameon=False, borderpad=0.2)
    _write_note(figure, fonts)
    return figure


def draw_distances(words: Words, distances: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Figure:
    """Draw ``[word, word]`` predicted distances, and the gold ones where they are known, on one scale."""
    panels: list[tuple[str, NDArray[np.float64]]] = [("predicted", np.asarray(distances, dtype=np.float64))]
    if gold is not None:
        panels.insert(0, ("gold", gold.astype(np.float64)))
    farthest = max(float(panels[0][1].max()), 1.0)
    fonts = Fonts.of(words.texts)
    names = max(fonts.width(_clipped(word), _NAME_SIZE) for word in words.texts) / 72
    side = max(_LEAST_PANEL, _CELL * len(words.texts))
    figure = new_figure((names + side + 0.3) * len(panels) + _BAR, _PLOT_HEADER + side + names)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.08)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, values) in zip(axes, panels, strict=True):
        # A mesh stays sharp in vector formats, where an image would be resampled.
        mesh = ax.pcolormesh(values, cmap=_SHADES, vmin=0, vmax=farthest, edgecolors="white", linewidth=0.3)
        ax.set_title(name, loc="left", fontsize=9.5, color=TEXT)
        ax.invert_yaxis()
        if words.mirrored:
            ax.invert_xaxis()
        _name_words(ax, words, fonts, shift=0.5, rotation=90.0)
        _name_words(ax, words, fonts, shift=0.5)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    beyond = "max" if float(panels[-1][1].max()) > farthest else "neither"
    bar = figure.colorbar(mesh, ax=axes, extend=beyond, fraction=0.05, aspect=18)
    bar.set_label("squared distance" if gold is None else "edges; predicted: squared distance", fontsize=7, color=TEXT)
    bar.locator = MaxNLocator(integer=True, nbins=8)
    bar.ax.tick_params(labelsize=7.5, color=GREY, labelcolor=TEXT)
    bar.outline.set_visible(False)
    figure.suptitle(words.title, x=0.01, ha="left", fontsize=10, fontweight="bold", color=TEXT)
    _write_note(figure, fonts)
    return figure


def _clipped(word: str) -> str:
    """A word that names a row or column; of a web address, say, its beginning."""
    return word if len(word) <= _MOST_LETTERS else f"{word[: _MOST_LETTERS - 1]}…"


def _name_words(ax: Axes, words: Words, fonts: Fonts, *, shift: float = 0.0, rotation: float | None = None) -> None:
    """Set the words along the x axis at a rotation in degrees, or along the y axis without; pale if not scored."""
    axis = ax.yaxis if rotation is None else ax.xaxis
    axis.set_ticks(np.arange(len(words.texts)) + shift, [fonts.drawable(_clipped(word)) for word in words.texts])
    ax.tick_params(axis="y" if rotation is None else "x", labelsize=_NAME_SIZE, color=GREY, labelcolor=TEXT)
    for label, is_scored in zip(axis.get_ticklabels(), words.scored, strict=True):
        # A dollar sign begins no formula.
        label.set(fontfamily=list(fonts.families), parse_math=False, color=TEXT if is_scored else PALE)
        if rotation is not None:
            label.set(rotation=rotation, ha="right", va="center_baseline", rotation_mode="anchor")


def _write_note(figure: Figure, fonts: Fonts) -> None:
    """Say below a figure what its hollow squares stand for."""
    if note := fonts.note():
        write_caption(figure, note)
