"""A reading as LaTeX, for the tikz-dependency package."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from bertology.results._exports import latex_escaped
from bertology.results.trees._arcs import Arc, Kind, gold_arcs, predicted_arcs
from bertology.results.trees._layout import Piece, lay_out
from bertology.results.trees._reading import TreeReading

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
"""From one arc to the next above it, in ex."""
_LIGATURES = re.compile(r"([-`',!?])(?=[-`',])")


def to_tikz(reading: TreeReading) -> str:
    r"""The sentence as a ``dependency`` environment, gold above and predicted below, as in :func:`plot_arcs`.

    Edges found in both trees, missed and invented ones have the styles ``agreed``, ``missed`` and ``invented``,
    which are defined at the top of the environment and may be redefined there.

    Returns:
        LaTeX; its first line says which packages it needs. ``\resizebox`` fits a long sentence to the page.
    """
    gold, predicted = gold_arcs(reading), predicted_arcs(reading)
    above, below = (gold, predicted) if reading.gold else (predicted, ())
    # One row, whose arcs are as high as they need be: the package's own heights grow with the words between.
    (row,) = lay_out([1.0] * len(reading.words), above, below, limit=math.inf, label_width=lambda _: 0.0)
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
        *_edges(row.above, ()),
        *_edges(row.below, ("edge below", "label style={below}")),
        r"\end{dependency}",
    ]
    return "\n".join(lines) + "\n"


def _edges(pieces: Sequence[Piece], options: Sequence[str]) -> Iterator[str]:
    for piece in pieces:
        arc, style = piece.arc, _STYLE_OF[piece.arc.kind]
        if not arc.length:
            # Its length is four units; of no other use than this.
            height = f"edge unit distance={_STEP * (piece.level + 0.5) / 4:.2f}ex"
            yield rf"  \deproot[{', '.join((*options, style, height))}]{{{arc.left + 1}}}{{{_escaped(arc.label)}}}"
            continue
        height = f"edge height={_STEP * piece.level:.1f}ex"
        plain = () if arc.dependent is not None else ("edge style={-}",)
        hidden = () if arc.label else ("hide label",)
        start, end = _ends(arc)
        yield (
            rf"  \depedge[{', '.join((*options, style, height, *plain, *hidden))}]"
            rf"{{{start + 1}}}{{{end + 1}}}{{{_escaped(arc.label)}}}"
        )


def _ends(arc: Arc) -> tuple[int, int]:
    """Head and dependent, or left and right without direction."""
    return (arc.left, arc.right) if arc.head is None or arc.dependent is None else (arc.head, arc.dependent)


def _word(word: str, scored: bool) -> str:
    # An ampersand in LaTeX's own spelling would begin the next word; braces keep a leading bracket or bar a letter.
    text = _escaped(word).replace(r"\&", r"\symbol{38}").replace("|", r"\textbar{}")
    if not scored:
        return rf"{{\color{{gray}}{text}}}"
    return text if text.isalnum() else f"{{{text}}}"


def _escaped(text: str) -> str:
    """As it stands, in one line, two characters never drawn as one."""
    return _LIGATURES.sub(r"\1{}", latex_escaped(" ".join(text.split())))
