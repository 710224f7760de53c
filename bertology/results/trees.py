"""Trees that a structural probe parses: compared with gold, as pictures, as LaTeX and for displaCy."""

from __future__ import annotations

import html
import itertools
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology.errors import ResultsError
from bertology.measures import tree_distances, tree_edges
from bertology.measures.trees import check_tree, tree_depths
from bertology.results.table import brief, latex_escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch

    from bertology._figures import Fonts

__all__ = ["plot_arcs", "plot_depths", "plot_distances", "to_svg"]

Picture = Literal["arcs", "depths", "distances"]
Kind = Literal["both", "gold", "predicted"]
"""The trees that have an edge; both as well where there is no gold tree to compare with."""


@dataclass(frozen=True)
class Arc:
    """An edge between two words, or the line from above to the root."""

    left: int
    right: int
    """Places of its words in the sentence, the smaller first; both the same for the line to the root."""
    kind: Kind
    dependent: int | None = None
    """The word that its arrow points at; None without direction."""
    label: str = ""

    @property
    def length(self) -> int:
        """Words from one end to the other; 0 for the line to the root."""
        return self.right - self.left


def levels(arcs: Iterable[Arc]) -> dict[Arc, int]:
    """The height of each arc, 1 for those nearest to the words: above shorter ones that it shares a gap with."""
    highest: dict[int, int] = defaultdict(int)
    level_of = {}
    # The line to the root comes last, to rise above all beside it.
    for arc in sorted(arcs, key=lambda arc: (arc.length or math.inf, arc.left)):
        gaps = range(arc.left, arc.right) if arc.length else range(arc.left - 1, arc.right + 1)
        level_of[arc] = max(highest[gap] for gap in gaps) + 1
        highest.update(dict.fromkeys(gaps, level_of[arc]))
    return level_of


@dataclass(frozen=True, eq=False)
class TreeReading:
    """One sentence as a structural probe parses it (Hewitt & Manning 2019); a notebook shows it as arcs over the words.

    Raises:
        ValueError: the gold heads are no tree; the message says which word is wrong.
    """

    words: tuple[str, ...]
    layer: int
    """The layer that was read; 0 is the embeddings."""
    model: str
    gold: tuple[int, ...] | None
    """Gold head of each word: 0 for the root, otherwise the 1-based index of the head, as in CoNLL-U; None for a
    sentence without annotation."""
    edges: tuple[tuple[int, int], ...]
    """Predicted edges without direction, places of words from 0, the smaller first: the minimum spanning tree."""
    distances: NDArray[np.floating] | None
    """``[word, word]`` predicted squared distances, on the scale of edges between two words."""
    depths: tuple[float, ...] | None
    """Predicted depth of each word, on the scale of edges below the root."""
    heads: tuple[int, ...] | None
    """Predicted heads as in CoNLL-U, where depth gave the edges a direction; of words that are not scored any number,
    such as -1."""
    relations: tuple[str | None, ...] | None
    """Predicted relation of each word to its head, None where it is not known."""
    scored: tuple[bool, ...]
    """False for punctuation, which no edge touches."""
    gold_relations: tuple[str | None, ...] | None = None
    """Gold relation of each word to its head, None where it is not known."""

    def __post_init__(self) -> None:
        if self.gold is not None:
            try:
                check_tree(self.gold)
            except ValueError as error:
                raise ValueError(f"gold: {error}") from None

    @property
    def gold_edges(self) -> tuple[tuple[int, int], ...] | None:
        """Gold edges between scored words, without direction, places from 0, the smaller first, in order."""
        return None if self.gold is None else tuple(sorted(tree_edges(self.gold, self.scored)))

    @property
    def shared_edges(self) -> tuple[tuple[int, int], ...]:
        """Edges both gold and predicted."""
        return tuple(sorted(set(self.edges) & set(self.gold_edges or ())))

    @property
    def uuas(self) -> float | None:
        """Share of the gold edges found, 0 to 1; None without a gold edge (Hewitt & Manning 2019, section 4.1)."""
        gold = self.gold_edges
        return len(self.shared_edges) / len(gold) if gold else None

    @property
    def gold_distances(self) -> NDArray[np.integer] | None:
        """``[word, word]`` edges between two words in the gold tree."""
        return None if self.gold is None else tree_distances(self.gold)

    @property
    def gold_depths(self) -> tuple[int, ...] | None:
        """Edges between each word and the gold root."""
        return None if self.gold is None else tuple(tree_depths(self.gold).tolist())

    @property
    def is_right_to_left(self) -> bool:
        """Whether most letters are of a script that runs from right to left."""
        kinds = [unicodedata.bidirectional(letter) for word in self.words for letter in word]
        return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)

    def arcs(self, tree: Literal["gold", "predicted"]) -> tuple[Arc, ...]:
        """The edges of a tree between scored words, directed where it has heads, and then the root, where the
        prediction has one; none of a gold tree that is not known."""
        heads, relations, edges = self.heads, self.relations, self.edges
        other: Kind = "both" if self.gold is None else "predicted"
        if tree == "gold":
            heads, relations, edges, other = self.gold, self.gold_relations, self.gold_edges or (), "gold"
        shared, arcs = set(self.shared_edges), []
        for left, right in edges:
            dependent = None if heads is None else left if heads[left] == right + 1 else right
            label = "" if relations is None or dependent is None else relations[dependent] or ""
            arcs.append(Arc(left, right, "both" if (left, right) in shared else other, dependent, label))
        for place, head in enumerate(heads or ()):
            if self.heads and head == 0 and self.scored[place]:
                in_both = self.heads[place] == 0 and self.gold is not None and self.gold[place] == 0
                arcs.append(Arc(place, place, "both" if in_both else other, place, "root"))
        return tuple(arcs)

    def __repr__(self) -> str:
        shown = " ".join(self.words)
        uuas = "" if self.uuas is None else f", UUAS {100 * self.uuas:.0f} %"
        return f"<{type(self).__name__} of {shown!r}: {self.model}, layer {self.layer}{uuas}>"

    def _repr_svg_(self) -> str:
        return to_svg(self).decode("utf-8")


_STYLES: dict[Kind, tuple[str, str, Any, float, str]] = {
    "both": ("agreed", "#0072B2", "-", 1.3, "thick"),
    "gold": ("missed", "#D55E00", (0, (4, 2)), 1.3, "thick, dashed"),
    "predicted": ("invented", "#CC79A7", (0, (1, 1.2)), 1.8, "very thick, line cap=butt, densely dotted"),
}
"""Name, colour, style and width of the lines of edges, and the line in LaTeX."""
# All in points.
WORD_SIZE, _LABEL_SIZE, _TITLE_SIZE, _SCORE_SIZE, _NOTE_SIZE = 10.0, 6.5, 10.0, 8.5, 7.5
_MARGIN, _SIDE_MARGIN = 16.0, 58.0
_HEADER, _SHORT_HEADER, _FOOTER, _NOTE = 40.0, 26.0, 26.0, 12.0
_HALF_LINE = 8.0
"""Distance between the middle of a line of words and the beginning of arcs."""
_BASELINE = 3.5
_STEP, _LABELLED_STEP = 10.0, 13.0  # from one arc to the next above it
_GAP, _PORT = 9.0, 5.0  # between two words, and between two arcs that end at one word
_LABEL_ROOM, _LEAST_SPAN = 13.0, 12.0
_BETWEEN_ROWS, _BEYOND = 20.0, 10.0  # an arc that goes on in another row passes the end of a row by the second
_CORNER, _ARROW = 12.0, (4.6, 5.2)
_SAMPLE = 25.0
"""Length of a line in the legend with the gap after it."""
_INCH = 72.0
_COMPARED: dict[Kind, str] = {"both": "gold and predicted", "gold": "gold only", "predicted": "predicted only"}
Sides = Sequence[Sequence[Arc]]
Points = NDArray[np.float64]
Feet = list[dict[Arc, Points]]
Line = tuple[Points, Points, Feet, float]
"""``[word]`` where words begin and end, where arcs touch them on each side, and from one arc to the next above it."""


def plot_arcs(reading: TreeReading, *, width: float = 10.0) -> Figure:
    """Draw the gold tree over the words and the predicted one under them.

    Edges of both trees look alike on both sides; gold edges that are missed and predicted ones that are not gold differ
    in colour and in the style of the line. Arrows point at dependents where a tree is directed; relations are named
    where they are known. Without a gold tree the predicted one stands above, alone. Words of a script that runs from
    right to left are laid out so; words that are not scored are pale.

    A sentence longer than ``width`` inches is broken into rows, and arcs go on from one to the next.

    Raises:
        ResultsError: the width leaves no room for words.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from bertology import _figures as looks

    if not width >= 2:
        raise ResultsError(f"a picture of arcs cannot be {width} inches wide: give a width of 2 or more")
    compared, fonts = reading.gold is not None, looks.Fonts.of(reading.words)
    sides: Sides = [reading.arcs("gold"), reading.arcs("predicted")][0 if compared else 1 :]
    # How many edges are in both trees, and in one alone.
    kinds = list({(arc.left, arc.right): arc.kind for arcs in sides for arc in arcs if arc.length}.values())
    n_gold = kinds.count("both") + kinds.count("gold")
    share = f"UUAS {100 * kinds.count('both') / max(n_gold, 1):.1f}: {kinds.count('both')} of {n_gold} gold edges"
    title, score, note = _title(reading), share if compared and n_gold else "", fonts.note()
    legend = {kind: f"{name}: {kinds.count(kind)}" for kind, name in _COMPARED.items()} if compared else {}
    written = (title, _TITLE_SIZE), (score, _SCORE_SIZE), (note, _NOTE_SIZE)
    texts = [fonts.width(text, size, bold=text is title) for text, size in written]
    texts += [sum(_SAMPLE + 16 + fonts.width(text, _NOTE_SIZE) for text in legend.values())]

    left = _MARGIN + (_SIDE_MARGIN if compared else 0.0)
    starts, ends, feet = _laid_out(reading.words, sides, fonts)
    rows = _rows(starts, ends, width * _INCH - left - _MARGIN)
    shown = [[levels(a for a in arcs if a.right >= row[0] and a.left <= row[-1]) for arcs in sides] for row in rows]
    step = _LABELLED_STEP if any(arc.label for arc in itertools.chain(*sides)) else _STEP
    reaches = [[_HALF_LINE + _LABEL_SIZE + step * max(of.values(), default=0) for of in row] for row in shown]
    heights = [sum(of_row) + (0 if compared else _HALF_LINE + _LABEL_SIZE) for of_row in reaches]
    full = max(left + max(ends[row[-1]] - starts[row[0]] for row in rows), _MARGIN + max(texts)) + _MARGIN
    header = _HEADER if score else _SHORT_HEADER
    footer = (_FOOTER if compared else _MARGIN / 2) + (_NOTE if note else 0.0)
    height = header + sum(heights) + _BETWEEN_ROWS * (len(rows) - 1) + footer

    # Axes over all of the figure, on which a unit is a point.
    figure = looks.ShownFigure(figsize=(full / _INCH, height / _INCH), dpi=200)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, full), ylim=(0, height))
    ax.set_axis_off()
    fonts.write(ax, _MARGIN, height - 14, title, size=_TITLE_SIZE, weight="bold", va="center", color=looks.TEXT)
    fonts.write(ax, _MARGIN, height - 28, score, size=_SCORE_SIZE, va="center", color=looks.GREY)
    top = height - header
    for name, sign in (("gold", 1), ("predicted", -1)) if compared else ():
        y = top - reaches[0][0] + sign * (_HALF_LINE + 4)
        fonts.write(ax, _MARGIN, y, name, size=_SCORE_SIZE, va="center", color=looks.GREY)
    sign, origin = (-1, full - _MARGIN) if reading.is_right_to_left else (1, left)
    for row, arcs, of_row, tall in zip(rows, shown, reaches, heights, strict=True):
        place_of = partial(np.polyval, (sign, origin - sign * starts[row[0]]))
        _draw_row(ax, reading, fonts, (starts, ends, feet, step), row, arcs, place_of, top - of_row[0])
        top -= tall + _BETWEEN_ROWS
    x = _MARGIN
    for kind, text in legend.items():
        ax.plot([x, x + _SAMPLE - 5], [footer - 14] * 2, **_look(kind))
        fonts.write(ax, x + _SAMPLE, footer - 14, text, size=_NOTE_SIZE, va="center_baseline", color=looks.TEXT)
        x += _SAMPLE + 16 + fonts.width(text, _NOTE_SIZE)
    fonts.write(ax, _MARGIN, 9, note, size=_NOTE_SIZE, va="center", color=looks.GREY)
    return figure


def _draw_row(
    ax: Axes,
    reading: TreeReading,
    fonts: Fonts,
    line: Line,
    row: Sequence[int],
    sides: Sequence[Mapping[Arc, int]],
    place_of: Callable[[Any], Any],
    y: float,
) -> None:
    """Draw the words of a row, their middle at the height ``y``, and their part of arcs of some levels on each side."""
    from matplotlib.patches import Rectangle

    from bertology import _figures as looks

    starts, ends, feet, step = line
    first, last = starts[row[0]], ends[row[-1]]
    after = starts[row[-1] + 1] if row[-1] + 1 < len(ends) else np.inf
    for place in row:
        color = looks.TEXT if reading.scored[place] else looks.PALE
        # The line of letters, not their ink, so that all words stand on one line.
        style: dict[str, Any] = {"size": WORD_SIZE, "ha": "center", "va": "baseline", "color": color}
        fonts.write(ax, place_of((starts[place] + ends[place]) / 2), y - _BASELINE, reading.words[place], **style)
    for arcs, of_side, sign in zip(sides, feet, (1, -1), strict=False):
        foot = y + sign * _HALF_LINE
        for arc, level in arcs.items():
            top, middle = foot + sign * step * level, of_side[arc].mean()
            patch = _draw_arc(ax, arc, row, place_of(of_side[arc]), foot, top)
            if arc.left < row[0] or arc.right > row[-1]:
                # Only what belongs to this row: the rest is drawn in others.
                start, end = sorted(map(place_of, (first - _BEYOND, last + _BEYOND)))
                patch.set_clip_path(Rectangle((start, 0), end - start, ax.get_ylim()[1], transform=ax.transData))
            if arc.label and (middle >= first or row[0] == 0) and middle < after:
                room = fonts.width(arc.label, _LABEL_SIZE) / 2
                middle = min(max(middle, first + room), max(last - room, first + room))
                box = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"}
                style = {"size": _LABEL_SIZE, "ha": "center", "va": "center", "color": looks.TEXT, "bbox": box}
                fonts.write(ax, place_of(middle), top, arc.label, **style, zorder=4)


def _look(kind: Kind) -> dict[str, Any]:
    """The line of an edge."""
    return dict(zip(("color", "linestyle", "linewidth"), _STYLES[kind][1:4], strict=True))


def _title(reading: TreeReading) -> str:
    return f"{brief(reading.model)} · layer {reading.layer}"


def _laid_out(words: Sequence[str], sides: Sides, fonts: Fonts) -> tuple[Points, Points, Feet]:
    """``[word]`` points where words begin and end in one line, and where the arcs of each side touch it.

    Words stand apart where the arcs over and under them need room for labels.
    """
    cells, gaps = [fonts.width(word, WORD_SIZE) for word in words], [_GAP] * len(words)
    ports: list[dict[tuple[int, Arc], float]] = [{} for _ in sides]
    for (arcs, of_side), place in itertools.product(zip(sides, ports, strict=True), range(len(words))):
        # Those to the left, the shortest first, the line to the root, those to the right, the shortest last, so that
        # arcs from one word do not cross.
        to_left = sorted((arc for arc in arcs if arc.left < place == arc.right), key=lambda arc: arc.length)
        to_right = sorted((arc for arc in arcs if arc.left == place < arc.right), key=lambda arc: -arc.length)
        touching = [*to_left, *(arc for arc in arcs if arc.left == place == arc.right), *to_right]
        of_side |= {(place, arc): _PORT * (n - (len(touching) - 1) / 2) for n, arc in enumerate(touching)}
        cells[place] = max(cells[place], _PORT * (len(touching) - 1))
    for arcs, of_side in zip(sides, ports, strict=True):
        for arc in sorted((arc for arc in arcs if arc.length), key=lambda arc: (arc.length, arc.left)):
            span = (cells[arc.left] + cells[arc.right]) / 2 + of_side[arc.right, arc] - of_side[arc.left, arc]
            span += sum(cells[arc.left + 1 : arc.right]) + sum(gaps[arc.left : arc.right])
            lacking = max(fonts.width(arc.label, _LABEL_SIZE) + _LABEL_ROOM, _LEAST_SPAN) - span
            for place in range(arc.left, arc.right):
                gaps[place] += max(0.0, lacking) / arc.length
    ends = np.cumsum(np.add(cells, gaps)) - gaps
    starts = ends - cells
    middles = (starts + ends) / 2
    feet = [
        {arc: middles[[arc.left, arc.right]] + [of_side[arc.left, arc], of_side[arc.right, arc]] for arc in arcs}
        for arcs, of_side in zip(sides, ports, strict=True)
    ]
    return starts, ends, feet


def _rows(starts: Points, ends: Points, limit: float) -> list[list[int]]:
    """The words of each row: rows about equally long, and no longer than ``limit`` points."""
    for n_rows in itertools.count(1):
        # A word stands in the row in which its middle lies.
        row_of = (n_rows * (starts + ends) / 2 / ends[-1]).astype(int)
        rows = [np.flatnonzero(row_of == number).tolist() for number in np.unique(row_of)]
        if all(ends[row[-1]] - starts[row[0]] <= limit or len(row) == 1 for row in rows):
            break
    return rows


def _draw_arc(ax: Axes, arc: Arc, row: Sequence[int], x: Points, foot: float, top: float) -> PathPatch:
    """Draw an arc up from one foot, along the top and down to the other, with round corners; and its arrow's head."""
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    # A line ends where the head of its arrow begins.
    base = foot + (_ARROW[1] if top > foot else -_ARROW[1])
    across = min(_CORNER, abs(x[1] - x[0]) / 2) * (1 if x[1] > x[0] else -1)

    def leg(at: float, place: int, inward: float) -> list[tuple[float, float]]:
        # A leg bends over its whole height where that is low.
        low = base if arc.dependent == place else foot
        bend = top - min(1.0, _CORNER / abs(top - low)) * (top - low)
        return [(at, low), (at, bend), (at, top), (at + inward, top)]

    if arc.length:
        # The second leg is walked from the top down.
        points = [*leg(x[0], arc.left, across), *leg(x[1], arc.right, -across)[::-1]]
        rising = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3]
        path = Path(points, [*rising, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO])
    else:
        path = Path([(x[0], top), (x[0], base)])
    patch = PathPatch(path, fill=False, zorder=2, capstyle="butt", **_look(arc.kind))
    ax.add_patch(patch)
    if arc.dependent in row:
        tip, half = x[0] if arc.dependent == arc.left else x[1], _ARROW[0] / 2
        corners = [(tip, foot), (tip - half, base), (tip + half, base)]
        ax.add_patch(Polygon(corners, closed=True, color=_STYLES[arc.kind][1], linewidth=0, zorder=3))
    return patch


_SHADES = "#08306b", "#2474b3", "#7fb8dc", "#c6dbef", "#f7fafd"
"""From near and deep to far and pale, in one hue, which survives print in grey."""
_MOST_LETTERS = 18
_NAME_SIZE = 8.0
# In inches.
_WORD, _LEAST_WIDTH, _FAR, _HEIGHT = 0.3, 4.2, 0.75, 3.4
_CELL, _LEAST_PANEL, _BAR, _PLOT_HEADER = 0.17, 1.6, 1.0, 0.8


def plot_depths(reading: TreeReading) -> Figure:
    """Draw the depth of each word, gold and predicted, the root on top (Hewitt & Manning 2019, figure 3).

    Raises:
        ResultsError: the reading has no predicted depths.
    """
    from matplotlib.ticker import MaxNLocator

    from bertology import _figures as looks

    if reading.depths is None:
        raise ResultsError("the reading has no predicted depths: read the sentence with a probe of depth too")
    size, gold = len(reading.words), reading.gold_depths
    figure = looks.new_figure(max(_LEAST_WIDTH, _FAR + _WORD * size), _HEIGHT)
    ax = figure.subplots()
    places = np.flatnonzero(reading.scored)
    predicted = np.array(reading.depths)[places]
    if gold is not None:
        of_gold = np.array(gold)[places]
        ax.vlines(places, of_gold, predicted, color=looks.PALE, linewidth=1.0, zorder=1)
        marks: dict[str, Any] = {"marker": "o", "markersize": 6, "markerfacecolor": "white"}
        ax.plot(places, of_gold, color=looks.GREY, linewidth=1.0, label="gold", **marks)
    line: dict[str, Any] = {"marker": "s", "markersize": 4, "linewidth": 1.2, "linestyle": (0, (4, 2))}
    ax.plot(places, predicted, color=looks.BLUE, label="predicted", **line)
    # The root on top, as trees are drawn; half an edge of air over it.
    ax.set_ylim(max([1.0, *predicted, *(gold or ())]) + 0.4, min([0.0, *predicted]) - 0.4)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    ax.set_ylabel("depth, edges below the root", fontsize=8.5, color=looks.TEXT)
    ax.tick_params(axis="y", labelsize=8, color=looks.GREY, labelcolor=looks.TEXT)
    ends = (-0.7, size - 0.3)
    ax.set_xlim(ends[::-1] if reading.is_right_to_left else ends)
    looks.draw_grid(ax)
    looks.style_axes(ax)
    fonts = looks.Fonts.of(reading.words)
    _name_words(ax, reading, fonts, rotation=60.0)
    ax.set_title(_title(reading), loc="left", fontsize=10, fontweight="bold", color=looks.TEXT, pad=18)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=2, fontsize=8, frameon=False, borderpad=0.2)
    looks.write_caption(figure, fonts.note())
    return figure


def plot_distances(reading: TreeReading) -> Figure:
    """Draw the distances between all words, gold and predicted, in shades of one scale.

    The scale is that of the gold tree, in edges; what is predicted to lie farther apart than any two words of the
    gold tree has the last shade. Without a gold tree the predicted distances stand alone, on their own scale.

    Raises:
        ResultsError: the reading has no predicted distances.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    from bertology import _figures as looks

    if reading.distances is None:
        raise ResultsError("the reading has no predicted distances: read the sentence with a probe of distance")
    gold = reading.gold_distances
    panels = {} if gold is None else {"gold": gold.astype(np.float64)}
    farthest = max(float((reading.distances if gold is None else gold).max()), 1.0)
    panels["predicted"] = np.asarray(reading.distances, dtype=np.float64)
    fonts = looks.Fonts.of(reading.words)
    names = max(fonts.width(looks.clipped(word, _MOST_LETTERS), _NAME_SIZE) for word in reading.words) / 72
    side = max(_LEAST_PANEL, _CELL * len(reading.words))
    figure = looks.new_figure((names + side + 0.3) * len(panels) + _BAR, _PLOT_HEADER + side + names)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.08)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    shades = LinearSegmentedColormap.from_list("distances", _SHADES)
    for ax, (name, values) in zip(axes, panels.items(), strict=True):
        # A mesh stays sharp in vector formats, where an image would be resampled.
        mesh = ax.pcolormesh(values, cmap=shades, vmin=0, vmax=farthest, edgecolors="white", linewidth=0.3)
        ax.set_title(name, loc="left", fontsize=9.5, color=looks.TEXT)
        ax.invert_yaxis()
        if reading.is_right_to_left:
            ax.invert_xaxis()
        _name_words(ax, reading, fonts, shift=0.5, rotation=90.0)
        _name_words(ax, reading, fonts, shift=0.5)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    beyond = "max" if float(panels["predicted"].max()) > farthest else "neither"
    label = "squared distance" if gold is None else "edges; predicted: squared distance"
    bar = looks.draw_bar(figure, mesh, axes, label, extend=beyond, fraction=0.05, aspect=18)
    bar.locator = MaxNLocator(integer=True, nbins=8)
    figure.suptitle(_title(reading), x=0.01, ha="left", fontsize=10, fontweight="bold", color=looks.TEXT)
    looks.write_caption(figure, fonts.note())
    return figure


def _name_words(
    ax: Axes, reading: TreeReading, fonts: Fonts, *, shift: float = 0.0, rotation: float | None = None
) -> None:
    """Set the words along the x axis at a rotation in degrees, or along the y axis without; pale if not scored."""
    from bertology import _figures as looks

    axis = ax.yaxis if rotation is None else ax.xaxis
    words = [fonts.drawable(looks.clipped(word, _MOST_LETTERS)) for word in reading.words]
    axis.set_ticks(np.arange(len(words)) + shift, words)
    ax.tick_params(axis="y" if rotation is None else "x", labelsize=_NAME_SIZE, color=looks.GREY, labelcolor=looks.TEXT)
    for label, is_scored in zip(axis.get_ticklabels(), reading.scored, strict=True):
        # A dollar sign begins no formula.
        label.set(fontfamily=list(fonts.families), parse_math=False, color=looks.TEXT if is_scored else looks.PALE)
        if rotation is not None:
            label.set(rotation=rotation, ha="right", va="center_baseline", rotation_mode="anchor")


def to_svg(reading: TreeReading, *, picture: Picture = "arcs", ending: Literal["svg", "png"] = "svg") -> bytes:
    """A picture as an SVG or PNG file; the same reading gives the same bytes.

    Raises:
        ResultsError: what the picture shows is missing in the reading.
    """
    from bertology._figures import figure_bytes

    pictures = {"arcs": plot_arcs, "depths": plot_depths, "distances": plot_distances}
    if picture not in pictures:
        raise ResultsError(f"there is no picture {picture!r}: choose one of {', '.join(pictures)}")
    return figure_bytes(pictures[picture](reading), ending)


_STEP = 2.8
"""Distance between an arc and the next above it, in ex."""
_LIGATURES = re.compile(r"([-`',!?])(?=[-`',])")


def to_tikz(reading: TreeReading) -> str:
    r"""The sentence as LaTeX, a ``dependency`` environment, gold above and predicted below, as in :func:`plot_arcs`.

    Edges found in both trees, missed and invented ones have the styles ``agreed``, ``missed`` and ``invented``,
    which are defined at the top of the environment and may be redefined there. The first line says which packages are
    needed; ``\resizebox`` fits a long sentence to the page.
    """
    gold, predicted = reading.arcs("gold"), reading.arcs("predicted")
    above, below = (gold, predicted) if reading.gold else (predicted, ())
    is_latin = all(ord(letter) <= 0x24F for word in reading.words for letter in word if letter.isalpha())
    font = r"\usepackage[T1]{fontenc} and \usepackage{tikz-dependency}"
    other = r"\usepackage{tikz-dependency}, LuaLaTeX or XeLaTeX, and a font that has these letters"
    words = []
    for word, scored in zip(reading.words, reading.scored, strict=True):
        # An ampersand in LaTeX's own spelling would begin the next word; braces keep a leading bracket or bar a letter.
        text = _escaped(word).replace(r"\&", r"\symbol{38}").replace("|", r"\textbar{}")
        words.append(text if scored and text.isalnum() else f"{{{text}}}" if scored else rf"{{\color{{gray}}{text}}}")
    sep = "1.4em" if any(arc.label for arc in (*above, *below) if arc.length) else ".7em"
    lines = [
        f"% needs {font if is_latin else other}",
        *(rf"\definecolor{{tree{name}}}{{HTML}}{{{code[1:]}}}" for name, code, *_ in _STYLES.values()),
        r"\begin{dependency}[text only label, label style={above, inner sep=.2ex}]",
        *(rf"  \depstyle{{{name}}}{{edge style={{tree{name}, {line}}}}}" for name, *_, line in _STYLES.values()),
        rf"  \begin{{deptext}}[column sep={sep}]",
        "    " + r" \& ".join(words) + r" \\",
        r"  \end{deptext}",
        *_edges(above, ()),
        *_edges(below, ("edge below", "label style={below}")),
        r"\end{dependency}",
    ]
    return "\n".join(lines) + "\n"


def _edges(arcs: Sequence[Arc], options: Sequence[str]) -> Iterator[str]:
    # Arcs are as high as they need be: the package's own heights grow with the words between.
    for arc, level in levels(arcs).items():
        looks, label = [*options, _STYLES[arc.kind][0]], f"{{{_escaped(arc.label)}}}"
        if not arc.length:
            # Its length is four units; of no other use than this.
            looks.append(f"edge unit distance={_STEP * (level + 0.5) / 4:.2f}ex")
            yield rf"  \deproot[{', '.join(looks)}]{{{arc.left + 1}}}{label}"
            continue
        looks += [f"edge height={_STEP * level:.1f}ex", *(["edge style={-}"] if arc.dependent is None else [])]
        looks += [] if arc.label else ["hide label"]
        # Head and dependent, or left and right without direction.
        start, end = (arc.right, arc.left) if arc.dependent == arc.left else (arc.left, arc.right)
        yield rf"  \depedge[{', '.join(looks)}]{{{start + 1}}}{{{end + 1}}}{label}"


def _escaped(text: str) -> str:
    """Text in one line for LaTeX, without ligatures."""
    return _LIGATURES.sub(r"\1{}", latex_escaped(" ".join(text.split())))


def to_displacy(reading: TreeReading, *, tree: Literal["gold", "predicted"] = "predicted") -> dict[str, Any]:
    """The dictionary that ``spacy.displacy.render(…, style="dep", manual=True)`` takes.

    displaCy draws every arc with an arrow: where the tree has no direction it points to the right.

    Raises:
        ResultsError: the gold tree of a sentence without one, or a tree of another name.
    """
    if tree not in ("gold", "predicted"):
        raise ResultsError(f"there is no tree {tree!r}: choose gold or predicted")
    if tree == "gold" and reading.gold is None:
        raise ResultsError("the sentence has no gold tree: ask for the predicted one")
    # The renderer escapes words, but neither tags nor labels.
    arcs = [
        {"start": arc.left, "end": arc.right, "label": html.escape(arc.label)}
        | {"dir": "left" if arc.dependent == arc.left else "right"}
        for arc in reading.arcs(tree)
        if arc.length
    ]
    words = [{"text": word, "tag": ""} for word in reading.words]
    return {"words": words, "arcs": arcs, "settings": {"direction": "rtl" if reading.is_right_to_left else "ltr"}}
