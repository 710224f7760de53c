"""Which way a sentence runs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def is_right_to_left(words: Iterable[str]) -> bool:
    """Whether most letters are of a script that runs from right to left."""
    kinds = [unicodedata.bidirectional(letter) for word in words for letter in word]
    return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)
