"""Trees that a structural probe parses: compared with gold, as pictures, as LaTeX and for displaCy."""

import html
import itertools
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import figures as looks
from bertology.errors import ResultsError
from bertology.measures import tree_distances, tree_edges
from bertology.measures.trees import check_tree, tree_depths
from bertology.results.table import brief, latex_escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_arcs", "plot_depths", "plot_distances", "to_svg"]

Points = NDArray[np.float64]
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
_COMPARED: dict[Kind, str] = {"both": "gold and predicted", "gold": "gold only", "predicted": "predicted only"}
# All in points.
WORD_SIZE, _LABEL_SIZE, _NOTE_SIZE = 10.0, 6.5, 7.5
_MARGIN, _SIDE_MARGIN, _HEADER, _FOOTER, _LEAST_WIDTH = 12.0, 56.0, 40.0, 34.0, 340.0
_FOOT, _LEVEL = 8.0, 17.0
"""Height at which arcs begin over the middle of words, and by which each level is higher than the one below."""
_GAP, _PORT, _LABEL_ROOM = 9.0, 3.0, 13.0
"""Room between two words, between a word's middle and its arcs, and beside a label."""


def plot_arcs(reading: TreeReading, *, width: float = 10.0) -> "Figure":
    """Draw the gold tree over the words and the predicted one under them.

    Edges of both trees look alike on both sides; gold edges that are missed and predicted ones that are not gold differ
    in colour and in the style of the line. Arrows point at dependents where a tree is directed; relations are named
    where they are known. Without a gold tree the predicted one stands above, alone. Words of a script that runs from
    right to left are laid out so; words that are not scored are pale.

    A sentence longer than ``width`` inches is broken into rows, and arcs go on from one to the next.

    Raises:
        ResultsError: the width leaves no room for words.
    """
    from matplotlib.lines import Line2D

    if not width >= 2:
        raise ResultsError(f"a picture of arcs cannot be {width} inches wide: give a width of 2 or more")
    compared, fonts = reading.gold is not None, looks.Fonts.of(reading.words)
    sides = [reading.arcs("gold"), reading.arcs("predicted")][0 if compared else 1 :]
    middles, borders = _laid_out(reading.words, sides, fonts)
    left = _SIDE_MARGIN if compared else _MARGIN
    rows = _rows(middles, borders, 72 * width - left - _MARGIN)
    # [row][side] the levels of the arcs that touch the row, and how high they reach
    shown = [[levels(a for a in arcs if a.right >= row[0] and a.left <= row[-1]) for arcs in sides] for row in rows]
    reaches = [[_FOOT + _LABEL_SIZE + 0.75 * _LEVEL * max(of.values(), default=0) for of in row] for row in shown]
    heights = [sum(of_row) + (0 if compared else _FOOT + _LABEL_SIZE) for of_row in reaches]
    longest = max(borders[row[-1] + 1] - borders[row[0]] for row in rows)
    full, height = max(left + longest + _MARGIN, _LEAST_WIDTH), _HEADER + sum(heights) + _FOOTER
    figure = looks.new_figure(full / 72, height / 72)
    figure.set_layout_engine("none")
    style: dict[str, Any] = {"fontsize": _NOTE_SIZE, "color": looks.GREY}
    figure.text(_MARGIN / full, 1 - 14 / height, _title(reading), fontsize=10, fontweight="bold", color=looks.TEXT)
    kinds = Counter({(arc.left, arc.right): arc.kind for arcs in sides for arc in arcs if arc.length}.values())
    if reading.uuas is not None:
        n_gold = kinds["both"] + kinds["gold"]
        score = f"UUAS {100 * reading.uuas:.1f}: {kinds['both']} of {n_gold} gold edges"
        figure.text(_MARGIN / full, 1 - 27 / height, score, **style)
    if compared:
        lines = [Line2D([], [], label=f"{name}: {kinds[kind]}", **_look(kind)) for kind, name in _COMPARED.items()]
        figure.legend(handles=lines, loc="lower left", ncols=3, fontsize=_NOTE_SIZE, frameon=False, borderpad=1.4)
    figure.text(_MARGIN / full, 5 / height, fonts.note(), **style)
    top = height - _HEADER
    for row, of_sides, (above, *_), tall in zip(rows, shown, reaches, heights, strict=True):
        top -= tall
        # A unit of the axes is a point. What does not belong to this row is beyond their ends, and is not drawn.
        ends = borders[row[0]], borders[row[-1] + 1]
        ax = figure.add_axes((left / full, top / height, (ends[1] - ends[0]) / full, tall / height))
        ax.set(xlim=ends[::-1] if reading.is_right_to_left else ends, ylim=(above - tall, above))
        ax.set_axis_off()
        for place in row:
            color = looks.TEXT if reading.scored[place] else looks.PALE
            at: dict[str, Any] = {"size": WORD_SIZE, "ha": "center", "va": "baseline", "color": color}
            fonts.write(ax, middles[place], -3.5, reading.words[place], **at)
        for arcs, sign in zip(of_sides, (1, -1), strict=False):
            for arc, level in arcs.items():
                _draw_arc(ax, fonts, arc, middles, sign, level, ends)
        for name, y in (("gold", _FOOT + 4), ("predicted", -_FOOT - 4)) if compared and row is rows[0] else ():
            figure.text(_MARGIN / full, (top + tall - above + y) / height, name, va="center", **style)
    return figure


def _draw_arc(
    ax: "Axes", fonts: "looks.Fonts", arc: Arc, middles: Points, sign: int, level: int, ends: tuple[float, float]
) -> None:
    """Draw an arc of a level, over or under the words by the sign, with its arrow, and its label if that lies here."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    foot, peak = sign * _FOOT, sign * (_FOOT + 0.75 * _LEVEL * level)
    left, right = middles[arc.left] + _PORT, middles[arc.right] - _PORT
    height = foot + sign * _LEVEL * level
    points = [(left, foot), (left, height), (right, height), (right, foot)]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    if not arc.length:
        points, codes = [(middles[arc.left], peak), (middles[arc.left], foot)], [Path.MOVETO, Path.LINETO]
    path = Path(points if arc.dependent != arc.left or not arc.length else points[::-1], codes)
    arrow = "-" if arc.dependent is None else "-|>,head_length=5,head_width=2.2"
    ax.add_patch(FancyArrowPatch(path=path, arrowstyle=arrow, mutation_scale=1, fill=True, **_look(arc.kind)))
    if arc.label and ends[0] <= (middle := (left + right) / 2) < ends[1]:
        room = min(fonts.width(arc.label, _LABEL_SIZE) / 2, (ends[1] - ends[0]) / 2)
        middle = min(max(middle, ends[0] + room), ends[1] - room)
        box = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"}
        style: dict[str, Any] = {"size": _LABEL_SIZE, "ha": "center", "va": "center", "color": looks.TEXT, "bbox": box}
        fonts.write(ax, middle, peak, arc.label, **style, zorder=4)


def _look(kind: Kind) -> dict[str, Any]:
    return dict(zip(("color", "linestyle", "linewidth"), _STYLES[kind][1:4], strict=True))


def _title(reading: TreeReading) -> str:
    return f"{brief(reading.model)} · layer {reading.layer}"


def _laid_out(words: Sequence[str], sides: Sequence[Sequence[Arc]], fonts: "looks.Fonts") -> tuple[Points, Points]:
    """``[word]`` middles in points and ``[word + 1]`` borders between words, where arcs have room for their labels."""
    halves = np.array([max(fonts.width(word, WORD_SIZE) / 2, _PORT) for word in words])
    spans = halves[:-1] + halves[1:] + _GAP
    for arc in sorted(itertools.chain(*sides), key=lambda arc: arc.length):
        lacking = fonts.width(arc.label, _LABEL_SIZE) + _LABEL_ROOM - spans[arc.left : arc.right].sum()
        spans[arc.left : arc.right] += max(0.0, lacking) / max(arc.length, 1)
    middles = np.concatenate([[0.0], np.cumsum(spans)])
    first, last = middles - halves, middles + halves
    return middles, np.concatenate([[first[0] - _GAP], (last[:-1] + first[1:]) / 2, [last[-1] + _GAP]])


def _rows(middles: Points, borders: Points, limit: float) -> list[list[int]]:
    """The words of each row: rows about equally long, and no longer than ``limit`` points."""
    for n_rows in itertools.count(1):
        row_of = (n_rows * (middles - borders[0]) / (borders[-1] - borders[0])).astype(int)
        rows = [np.flatnonzero(row_of == number).tolist() for number in np.unique(row_of)]
        if all(borders[row[-1] + 1] - borders[row[0]] <= limit or len(row) == 1 for row in rows):
            break
    return rows


_MOST_LETTERS = 18


def plot_depths(reading: TreeReading) -> "Figure":
    """Draw the depth of each word, gold and predicted, the root on top (Hewitt & Manning 2019, figure 3).

    Raises:
        ResultsError: the reading has no predicted depths.
    """
    from matplotlib.ticker import MaxNLocator

    if reading.depths is None:
        raise ResultsError("the reading has no predicted depths: read the sentence with a probe of depth too")
    size, gold, fonts = len(reading.words), reading.gold_depths, looks.Fonts.of(reading.words)
    figure = looks.new_figure(max(4.2, 0.75 + 0.3 * size), 3.4)
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
    ends = (-0.7, size - 0.3)
    ax.set_xlim(ends[::-1] if reading.is_right_to_left else ends)
    ax.set_xticks(range(size), [fonts.drawable(looks.clipped(word, _MOST_LETTERS)) for word in reading.words])
    looks.style_axes(ax, size=8, grid=True)
    for label, is_scored in zip(ax.get_xticklabels(), reading.scored, strict=True):
        label.set(fontfamily=list(fonts.families), parse_math=False, color=looks.TEXT if is_scored else looks.PALE)
        label.set(rotation=60.0, ha="right", va="center_baseline", rotation_mode="anchor")
    looks.write_title(ax, _title(reading), pad=18)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=2, fontsize=8, frameon=False, borderpad=0.2)
    looks.write_caption(figure, fonts.note())
    return figure


def plot_distances(reading: TreeReading) -> "Figure":
    """Draw the distances between all words, gold and predicted, in shades of one scale.

    The scale is that of the gold tree, in edges; what is predicted to lie farther apart than any two words of the
    gold tree has the last shade. Without a gold tree the predicted distances stand alone, on their own scale.

    Raises:
        ResultsError: the reading has no predicted distances.
    """
    if reading.distances is None:
        raise ResultsError("the reading has no predicted distances: read the sentence with a probe of distance")
    gold, names = reading.gold_distances, (reading.words, reading.words)
    panels = {} if gold is None else {"gold": gold.astype(np.float64)}
    most = float((reading.distances if gold is None else gold).max()) or 1.0
    panels["predicted"] = np.asarray(reading.distances, dtype=np.float64)
    label = "squared distance" if gold is None else "edges; predicted: squared distance"
    figure = looks.draw_matrices(list(panels.values()), [names] * len(panels), list(panels), label=label, most=most)
    for ax in figure.axes[: len(panels)] if reading.is_right_to_left else ():
        ax.invert_xaxis()
    figure.suptitle(_title(reading), x=0.01, ha="left", fontsize=10, fontweight="bold", color="#222222")
    return figure


def to_svg(reading: TreeReading, *, picture: Picture = "arcs", ending: Literal["svg", "png"] = "svg") -> bytes:
    """A picture as an SVG or PNG file; the same reading gives the same bytes.

    Raises:
        ResultsError: what the picture shows is missing in the reading.
    """
    pictures = {"arcs": plot_arcs, "depths": plot_depths, "distances": plot_distances}
    if picture not in pictures:
        raise ResultsError(f"there is no picture {picture!r}: choose one of {', '.join(pictures)}")
    return looks.figure_bytes(pictures[picture](reading), ending)


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
        looks += [f"edge height={_STEP * level:.1f}ex", *["edge style={-}"] * (arc.dependent is None)]
        looks += ["hide label"] * (not arc.label)
        # Head and dependent, or left and right without direction.
        start, end = (arc.right, arc.left) if arc.dependent == arc.left else (arc.left, arc.right)
        yield rf"  \depedge[{', '.join(looks)}]{{{start + 1}}}{{{end + 1}}}{label}"


def _escaped(text: str) -> str:
    """Text in one line for LaTeX, without ligatures."""
    return _LIGATURES.sub(r"\1{}", latex_escaped(" ".join(text.split())))


def to_conllu(reading: TreeReading) -> str:
    """The predicted tree as CoNLL-U; words in no edge hang from the root's word, as a tree must have them all.

    Raises:
        ResultsError: the tree has no direction.
    """
    if reading.heads is None:
        raise ResultsError("the probe knows no depths, so its tree has no direction: print it as table or tikz")
    root, lines = reading.heads.index(0) + 1, []
    relations = reading.relations or [None] * len(reading.words)
    for place, (word, predicted, named) in enumerate(zip(reading.words, reading.heads, relations, strict=True), 1):
        head = predicted if predicted >= 0 else root
        relation = named or ("punct" if head == root else "dep")
        lines.append("\t".join([str(place), word, *["_"] * 4, str(head), relation, "_", "_"]))
    return "\n".join(lines) + "\n\n"


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
