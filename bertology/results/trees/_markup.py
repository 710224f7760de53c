"""A parsed sentence as LaTeX for the tikz-dependency package, and as the dictionary that displaCy draws."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from bertology.errors import ResultsError
from bertology.results.render.exports import latex_escaped
from bertology.results.trees._arcs import Arc, Kind, levels
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
