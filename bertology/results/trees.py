"""Trees that a structural probe parses: compared with gold, as pictures, as LaTeX and for displaCy."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology.errors import ResultsError
from bertology.measures import tree_distances, tree_edges
from bertology.measures.trees import check_tree, tree_depths
from bertology.results._tree_arcs import Arc, Kind, Words, levels
from bertology.results.table import brief, latex_escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_arcs", "plot_depths", "plot_distances", "to_svg"]

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
        size = len(self.words)
        if not size:
            raise ValueError("a sentence without words has no tree")
        for name in ("gold", "depths", "heads", "relations", "scored", "gold_relations"):
            if (values := getattr(self, name)) is not None and len(values) != size:
                raise ValueError(f"{size} words but {len(values)} values of {name}")
        if self.distances is not None and self.distances.shape != (size, size):
            raise ValueError(f"{size} words but distances of shape {self.distances.shape}: it must be ({size}, {size})")
        for name in ("distances", "depths"):
            if (values := getattr(self, name)) is not None and not np.isfinite(values).all():
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
        for place, head in enumerate(self.heads or ()):
            if self.scored[place] and not 0 <= head <= size:
                raise ValueError(f"heads: head {head} of word {place + 1} is none of the {size} words")
        if self.heads is not None and (different := tree_edges(self.heads, self.scored) ^ set(self.edges)):
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

    def arcs(self, tree: Literal["gold", "predicted"]) -> tuple[Arc, ...]:
        """The edges of a tree between scored words, directed where it has heads, and then the root, where the
        prediction has one; none of a gold tree that is not known."""
        heads, relations, edges = self.heads, self.relations, self.edges
        other: Kind = "alone" if self.gold is None else "predicted"
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
    from bertology.results._tree_figures import draw_arcs

    if not width >= 2:
        raise ResultsError(f"a picture of arcs cannot be {width} inches wide: give a width of 2 or more")
    gold, predicted = reading.arcs("gold"), reading.arcs("predicted")
    return draw_arcs(reading.shown, (gold, predicted) if reading.gold else (predicted,), width=width)


def plot_depths(reading: TreeReading) -> Figure:
    """Draw the depth of each word, gold and predicted, the root on top (Hewitt & Manning 2019, figure 3).

    Raises:
        ResultsError: the reading has no predicted depths.
    """
    from bertology.results._tree_figures import draw_depths

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
    from bertology.results._tree_figures import draw_distances

    if reading.distances is None:
        raise ResultsError("the reading has no predicted distances: read the sentence with a probe of distance")
    return draw_distances(reading.shown, reading.distances, reading.gold_distances)


_PICTURES: dict[Picture, Callable[[TreeReading], Figure]] = {
    "arcs": plot_arcs,
    "depths": plot_depths,
    "distances": plot_distances,
}


def to_svg(reading: TreeReading, *, picture: Picture = "arcs", ending: Literal["svg", "png"] = "svg") -> bytes:
    """A picture as an SVG or PNG file; the same reading gives the same bytes.

    Raises:
        ResultsError: what the picture shows is missing in the reading.
    """
    from bertology._figures import figure_bytes

    if picture not in _PICTURES:
        raise ResultsError(f"there is no picture {picture!r}: choose one of {', '.join(_PICTURES)}")
    return figure_bytes(_PICTURES[picture](reading), ending)


def to_png(reading: TreeReading, *, picture: Picture = "arcs") -> bytes:
    """A picture as a PNG file; otherwise as :func:`to_svg`."""
    return to_svg(reading, picture=picture, ending="png")


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
            height = f"edge unit distance={_STEP * (level + 0.5) / 4:.2f}ex"
            yield rf"  \deproot[{', '.join((*options, style, height))}]{{{arc.left + 1}}}{label}"
            continue
        looks = [*options, style, f"edge height={_STEP * level:.1f}ex"]
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
    arcs = reading.arcs(tree)
    return {
        # The renderer escapes words, but neither tags nor labels.
        "words": [{"text": word, "tag": ""} for word in reading.words],
        "arcs": [
            {"start": arc.left, "end": arc.right, "label": html.escape(arc.label)}
            | {"dir": "left" if arc.dependent == arc.left else "right"}
            for arc in arcs
            if arc.length
        ],
        "settings": {"direction": "rtl" if reading.is_right_to_left else "ltr"},
    }
