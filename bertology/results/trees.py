"""Trees that a structural probe parses, drawn: arcs over the words, depths, distances; as LaTeX and for displaCy."""

from __future__ import annotations

import html
import itertools
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

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
    ShownFigure,
    draw_grid,
    figure_bytes,
    new_figure,
    style_axes,
    write_caption,
)
from bertology._fonts import Fonts
from bertology.errors import ResultsError
from bertology.measures import check_tree, tree_depths, tree_distances, tree_edges
from bertology.results.table import brief, latex_escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TreeReading", "plot_arcs", "plot_depths", "plot_distances", "to_displacy", "to_png", "to_svg", "to_tikz"]

Kind = Literal["both", "gold", "predicted", "alone"]
"""In which tree an edge is; alone where there is no gold tree to compare with."""

# All in points.
_GAP = 9.0  # between two words
_PORT = 5.0
"""Between two arcs that end at one word."""
_LABEL_ROOM = 13.0
_LEAST_SPAN = 12.0


@dataclass(frozen=True)
class Words:
    """The words of a sentence as pictures show them, under a title; mirrored where they run from right to left."""

    texts: tuple[str, ...]
    scored: tuple[bool, ...]
    """Whether each counts; the others are pale."""
    title: str
    mirrored: bool


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


def levels(arcs: Sequence[Arc]) -> dict[Arc, int]:
    """How high each arc rises, 1 for those nearest to the words: above shorter ones that it shares a gap with."""
    highest: dict[int, int] = defaultdict(int)
    level_of = {}
    # The line to the root comes last, to rise above all beside it.
    for arc in sorted(arcs, key=lambda arc: (arc.length or math.inf, arc.left)):
        gaps = range(arc.left, arc.right) if arc.length else range(arc.left - 1, arc.right + 1)
        level_of[arc] = max(highest[gap] for gap in gaps) + 1
        highest.update(dict.fromkeys(gaps, level_of[arc]))
    return level_of


Ports = dict[tuple[int, Arc], float]
"""Points from the middle of a word to where an arc touches it, by the word's place and the arc."""


@dataclass(frozen=True)
class Line:
    """A sentence in one line, as it is before it is broken into rows."""

    centres: tuple[float, ...]
    """``[word]`` points from the beginning of the line."""
    widths: tuple[float, ...]
    """``[word]`` of its letters, or of the arcs that end at it."""
    ports: tuple[Ports, ...]
    """Of the arcs over the words, and of those under them."""

    @classmethod
    def of(cls, widths: Sequence[float], sides: Sequence[Sequence[Arc]], label_width: Callable[[str], float]) -> Line:
        """Words of some widths side by side, moved apart where the arcs over and under them need room for labels."""
        ports = tuple(_ports(len(widths), arcs) for arcs in sides)
        cells = list(widths)
        for (place, _), shift in itertools.chain(*(of_side.items() for of_side in ports)):
            cells[place] = max(cells[place], 2 * abs(shift))
        gaps = [_GAP] * len(cells)
        for arcs, of_side in zip(sides, ports, strict=True):
            for arc in sorted((arc for arc in arcs if arc.length), key=lambda arc: (arc.length, arc.left)):
                span = (cells[arc.left] + cells[arc.right]) / 2 + of_side[arc.right, arc] - of_side[arc.left, arc]
                span += sum(cells[arc.left + 1 : arc.right]) + sum(gaps[arc.left : arc.right])
                lacking = max(label_width(arc.label) + _LABEL_ROOM, _LEAST_SPAN) - span
                for place in range(arc.left, arc.right):
                    gaps[place] += max(0.0, lacking) / arc.length
        ends = itertools.accumulate(map(sum, zip(cells, gaps, strict=True)))
        centres = tuple(end - gap - cell / 2 for end, gap, cell in zip(ends, gaps, cells, strict=True))
        return cls(centres, tuple(cells), ports)

    def span(self, row: range) -> tuple[float, float]:
        """Where the words of a row begin and end."""
        first, last = row[0], row[-1]
        return self.centres[first] - self.widths[first] / 2, self.centres[last] + self.widths[last] / 2

    def length(self, row: range) -> float:
        """Of a row, in points."""
        start, end = self.span(row)
        return end - start

    def rows(self, limit: float) -> list[range]:
        """The words of each row: rows about equally long, and no longer than ``limit`` points."""
        everything = range(len(self.centres))
        length = self.span(everything)[1]
        n_rows, rows = 0, [everything]
        while not n_rows or any(self.length(row) > limit and len(row) > 1 for row in rows):
            n_rows += 1
            # A word stands in the row in which its middle lies.
            row_of = [int(n_rows * centre / length) for centre in self.centres]
            grouped = (list(places) for _, places in itertools.groupby(everything, row_of.__getitem__))
            rows = [range(places[0], places[-1] + 1) for places in grouped]
        return rows


def _ports(size: int, arcs: Sequence[Arc]) -> Ports:
    """Where each arc touches each of its words, so that arcs from one word do not cross."""
    ports = {}
    for place in range(size):
        touching = [arc for arc in arcs if place in (arc.left, arc.right)]
        # Those to the left, the shortest first, the line to the root, those to the right, the shortest last.
        touching.sort(
            key=lambda arc: (1, -arc.length) if arc.left == place != arc.right else (0, arc.length or math.inf)
        )
        for number, arc in enumerate(touching):
            ports[place, arc] = _PORT * (number - (len(touching) - 1) / 2)
    return ports


Picture = Literal["arcs", "depths", "distances"]


@dataclass(frozen=True, eq=False)
class TreeReading:
    """One sentence as a structural probe parses it (Hewitt & Manning 2019); a notebook shows it as arcs over the words.

    Raises:
        ValueError: the parts do not fit each other; the message says which word or edge does not.
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
        if not self.words:
            raise ValueError("a sentence without words has no tree")
        size = len(self.words)
        for name in ("gold", "depths", "heads", "relations", "scored", "gold_relations"):
            if (values := getattr(self, name)) is not None and len(values) != size:
                raise ValueError(f"{size} words but {len(values)} values of {name}")
        if self.distances is not None and self.distances.shape != (size, size):
            raise ValueError(f"{size} words but distances of shape {self.distances.shape}: it must be ({size}, {size})")
        for name, values in (("distances", self.distances), ("depths", self.depths)):
            if values is not None and not np.isfinite(values).all():
                raise ValueError(f"{name} holds a value that is not finite")
        for left, right in self.edges:
            if not 0 <= left < right < size:
                raise ValueError(f"edge ({left}, {right}): places run from 0 to {size - 1}, the smaller first")
            if not (self.scored[left] and self.scored[right]):
                raise ValueError(f"edge ({left}, {right}) touches a word that is not scored")
        if len(set(self.edges)) < len(self.edges):
            raise ValueError("an edge is given twice")
        if self.gold is not None:
            try:
                check_tree(self.gold)
            except ValueError as error:
                raise ValueError(f"gold: {error}") from None
        if self.heads is None:
            return
        for place, head in enumerate(self.heads):
            if self.scored[place] and not 0 <= head <= size:
                raise ValueError(f"heads: head {head} of word {place + 1} is none of the {size} words")
        if different := tree_edges(self.heads, self.scored) ^ set(self.edges):
            raise ValueError(f"heads and edges are not the same tree: they differ in edge {min(different)}")

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
    def shown(self) -> Words:
        """The words as pictures show them, under model and layer."""
        return Words(self.words, self.scored, f"{brief(self.model)} · layer {self.layer}", self.is_right_to_left)

    @property
    def is_right_to_left(self) -> bool:
        """Whether most letters are of a script that runs from right to left."""
        kinds = [unicodedata.bidirectional(letter) for word in self.words for letter in word]
        return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)

    def gold_arcs(self) -> tuple[Arc, ...]:
        """The gold edges between scored words; the root too, where the prediction has one to compare it with."""
        if self.gold is None or self.gold_edges is None:
            return ()
        return self._arcs(self.gold_edges, self.gold, self.gold_relations, "gold")

    def predicted_arcs(self) -> tuple[Arc, ...]:
        """The predicted edges, directed where there are predicted heads, and then the root."""
        return self._arcs(self.edges, self.heads, self.relations, "alone" if self.gold is None else "predicted")

    def _arcs(
        self,
        edges: tuple[tuple[int, int], ...],
        heads: tuple[int, ...] | None,
        relations: tuple[str | None, ...] | None,
        other: Kind,
    ) -> tuple[Arc, ...]:
        """Arcs of one tree; those that the other tree lacks are of the kind ``other``."""
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
    if not width >= 2:
        raise ResultsError(f"a picture of arcs cannot be {width} inches wide: give a width of 2 or more")
    gold, predicted = reading.gold_arcs(), reading.predicted_arcs()
    return draw_arcs(reading.shown, (gold, predicted) if reading.gold else (predicted,), width=width)


def plot_depths(reading: TreeReading) -> Figure:
    """Draw the depth of each word, gold and predicted, the root on top (Hewitt & Manning 2019, figure 3).

    Raises:
        ResultsError: the reading has no predicted depths.
    """
    if reading.depths is None:
        raise ResultsError("the reading has no predicted depths: read the sentence with a probe of depth too")
    return draw_depths(reading.shown, reading.depths, reading.gold_depths)


def plot_distances(reading: TreeReading) -> Figure:
    """Draw the distances between all words, gold and predicted, in shades of one scale.

    The scale is that of the gold tree, in edges; what is predicted to lie farther apart than any two words of the
    gold tree has the last shade. Without a gold tree the predicted distances stand alone, on their own scale.

    Raises:
        ResultsError: the reading has no predicted distances.
    """
    if reading.distances is None:
        raise ResultsError("the reading has no predicted distances: read the sentence with a probe of distance")
    return draw_distances(reading.shown, reading.distances, reading.gold_distances)


_PICTURES: dict[Picture, Callable[[TreeReading], Figure]] = {
    "arcs": plot_arcs,
    "depths": plot_depths,
    "distances": plot_distances,
}


def to_svg(reading: TreeReading, *, picture: Picture = "arcs") -> bytes:
    """A picture as an SVG file; the same reading gives the same bytes.

    Raises:
        ResultsError: what the picture shows is missing in the reading.
    """
    return _bytes(reading, picture, "svg")


def to_png(reading: TreeReading, *, picture: Picture = "arcs") -> bytes:
    """A picture as a PNG file; otherwise as :func:`to_svg`."""
    return _bytes(reading, picture, "png")


def _bytes(reading: TreeReading, picture: Picture, ending: Literal["svg", "png"]) -> bytes:
    if picture not in _PICTURES:
        raise ResultsError(f"there is no picture {picture!r}: choose one of {', '.join(_PICTURES)}")
    return figure_bytes(_PICTURES[picture](reading), ending)


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


_NEEDS = r"% needs \usepackage[T1]{fontenc} and \usepackage{tikz-dependency}"
_NEEDS_FONT = r"% needs \usepackage{tikz-dependency}, LuaLaTeX or XeLaTeX, and a font that has these letters"
_LAST_LATIN = 0x24F
_COLORS = {"treeagreed": "0072B2", "treemissed": "D55E00", "treeinvented": "CC79A7"}
_STYLES = {
    "agreed": "edge style={treeagreed, thick}",
    "missed": "edge style={treemissed, thick, dashed}",
    "invented": "edge style={treeinvented, very thick, line cap=butt, densely dotted}",
}
_STYLE_OF: dict[Kind, str] = {"both": "agreed", "alone": "agreed", "gold": "missed", "predicted": "invented"}
_TIKZ_STEP = 2.8
"""From one arc to the next above it, in ex."""
_LIGATURES = re.compile(r"([-`',!?])(?=[-`',])")


def to_tikz(reading: TreeReading) -> str:
    r"""The sentence as LaTeX, a ``dependency`` environment, gold above and predicted below, as in :func:`plot_arcs`.

    Edges found in both trees, missed and invented ones have the styles ``agreed``, ``missed`` and ``invented``,
    which are defined at the top of the environment and may be redefined there. The first line says which packages are
    needed; ``\resizebox`` fits a long sentence to the page.
    """
    gold, predicted = reading.gold_arcs(), reading.predicted_arcs()
    above, below = (gold, predicted) if reading.gold else (predicted, ())
    latin = all(ord(letter) <= _LAST_LATIN for word in reading.words for letter in word if letter.isalpha())
    words = r" \& ".join(_word(word, scored) for word, scored in zip(reading.words, reading.scored, strict=True))
    sep = "1.4em" if any(arc.label for arc in (*above, *below) if arc.length) else ".7em"
    lines = [
        _NEEDS if latin else _NEEDS_FONT,
        *(rf"\definecolor{{{name}}}{{HTML}}{{{code}}}" for name, code in _COLORS.items()),
        r"\begin{dependency}[text only label, label style={above, inner sep=.2ex}]",
        *(rf"  \depstyle{{{name}}}{{{style}}}" for name, style in _STYLES.items()),
        rf"  \begin{{deptext}}[column sep={sep}]",
        rf"    {words} \\",
        r"  \end{deptext}",
        *_edges(above, ()),
        *_edges(below, ("edge below", "label style={below}")),
        r"\end{dependency}",
    ]
    return "\n".join(lines) + "\n"


def _edges(arcs: Sequence[Arc], options: Sequence[str]) -> Iterator[str]:
    # Arcs are as high as they need be: the package's own heights grow with the words between.
    for arc, level in levels(arcs).items():
        style = _STYLE_OF[arc.kind]
        label = f"{{{_escaped(arc.label)}}}"
        if not arc.length:
            # Its length is four units; of no other use than this.
            height = f"edge unit distance={_TIKZ_STEP * (level + 0.5) / 4:.2f}ex"
            yield rf"  \deproot[{', '.join((*options, style, height))}]{{{arc.left + 1}}}{label}"
            continue
        looks = [*options, style, f"edge height={_TIKZ_STEP * level:.1f}ex"]
        looks += ["edge style={-}"] if arc.dependent is None else []
        looks += [] if arc.label else ["hide label"]
        # Head and dependent, or left and right without direction.
        start, end = (arc.right, arc.left) if arc.dependent == arc.left else (arc.left, arc.right)
        yield rf"  \depedge[{', '.join(looks)}]{{{start + 1}}}{{{end + 1}}}{label}"


def _word(word: str, scored: bool) -> str:
    # An ampersand in LaTeX's own spelling would begin the next word; braces keep a leading bracket or bar a letter.
    text = _escaped(word).replace(r"\&", r"\symbol{38}").replace("|", r"\textbar{}")
    if not scored:
        return rf"{{\color{{gray}}{text}}}"
    return text if text.isalnum() else f"{{{text}}}"


def _escaped(text: str) -> str:
    """As it stands, in one line, two characters never drawn as one."""
    return _LIGATURES.sub(r"\1{}", latex_escaped(" ".join(text.split())))


def to_displacy(reading: TreeReading, *, tree: Literal["gold", "predicted"] = "predicted") -> dict[str, Any]:
    """What ``spacy.displacy.render(…, style="dep", manual=True)`` takes.

    displaCy draws every arc with an arrow: where the tree has no direction it points to the right.

    Raises:
        ResultsError: the gold tree of a sentence without one, or a tree of another name.
    """
    if tree not in ("gold", "predicted"):
        raise ResultsError(f"there is no tree {tree!r}: choose gold or predicted")
    if tree == "gold" and reading.gold is None:
        raise ResultsError("the sentence has no gold tree: ask for the predicted one")
    arcs = reading.gold_arcs() if tree == "gold" else reading.predicted_arcs()
    return {
        # The renderer escapes words, but neither tags nor labels.
        "words": [{"text": word, "tag": ""} for word in reading.words],
        "arcs": [
            {
                "start": arc.left,
                "end": arc.right,
                "label": html.escape(arc.label),
                "dir": "left" if arc.dependent == arc.left else "right",
            }
            for arc in arcs
            if arc.length
        ],
        "settings": {"direction": "rtl" if reading.is_right_to_left else "ltr"},
    }
