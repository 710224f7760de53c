"""A reading as the dictionary that displaCy draws."""

from __future__ import annotations

import html
from typing import Any, Literal

from bertology.errors import ResultsError
from bertology.results.trees._arcs import gold_arcs, predicted_arcs
from bertology.results.trees._direction import is_right_to_left
from bertology.results.trees._reading import TreeReading


def to_displacy(reading: TreeReading, *, tree: Literal["gold", "predicted"] = "predicted") -> dict[str, Any]:
    """What ``spacy.displacy.render(…, style="dep", manual=True)`` takes.

    displaCy draws every arc with an arrow: where the tree has no direction it points to the right.

    Args:
        reading: what a probe read of one sentence.
        tree: which tree.

    Raises:
        ResultsError: the gold tree of a sentence without one, or a tree of another name.
    """
    if tree not in ("gold", "predicted"):
        raise ResultsError(f"there is no tree {tree!r}: choose gold or predicted")
    if tree == "gold" and reading.gold is None:
        raise ResultsError("the sentence has no gold tree: ask for the predicted one")
    arcs = gold_arcs(reading) if tree == "gold" else predicted_arcs(reading)
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
        "settings": {"direction": "rtl" if is_right_to_left(reading.words) else "ltr"},
    }
