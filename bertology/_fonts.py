"""Fonts for words of any script: which families to draw with, and which characters none of them has."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.textpath import text_to_path

_HOLLOW = "□"
_NAMED = 6
_BOXES = "Last Resort"
"""A font that has a box for every character, which says nothing to a reader."""
_SELECTORS = range(0xFE00, 0xFE10)
"""They choose among forms of the character before them and have none of their own."""

_NON_JOINER = "\u200c"
"""Has no form, but shapes the letters beside it."""


@dataclass(frozen=True)
class Fonts:
    """Families that draw a sentence together, the first one's letters first."""

    families: tuple[str, ...]
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: Iterable[str]) -> Fonts:
        """The fonts that the words need."""
        usual = fontManager.findfont(FontProperties())
        families = [FT2Font(usual).family_name]
        letters = {letter for word in words for letter in _visible(word)}
        missing = []
        for letter in sorted(letters):
            if ord(letter) in _characters(usual):
                continue
            family = _family_with(letter, tuple(families[1:]))
            if family is None:
                missing.append(letter)
            elif family not in families:
                families.append(family)
        return cls(tuple(families), tuple(missing))

    def drawable(self, text: str) -> str:
        """The text with a hollow square for each character that no font has."""
        return "".join(_HOLLOW if letter in self.missing else letter for letter in _visible(text))

    def width(self, text: str, size: float, *, bold: bool = False) -> float:
        """Points from the first letter to the last, as drawn in a size of so many points."""
        font = FontProperties(family=list(self.families), size=size, weight="bold" if bold else "normal")
        width, _, _ = text_to_path.get_text_width_height_descent(self.drawable(text), font, ismath=False)
        return float(width)

    def write(self, ax: Axes, x: float, y: float, text: str, **style: Any) -> None:
        """Set text in a picture as it stands: a dollar sign begins no formula."""
        ax.text(x, y, self.drawable(text), family=list(self.families), parse_math=False, **style)

    def note(self) -> str:
        """What the hollow squares stand for; empty where there are none."""
        if not self.missing:
            return ""
        codes = " ".join(f"U+{ord(letter):04X}" for letter in self.missing[:_NAMED])
        more = " …" if len(self.missing) > _NAMED else ""
        return f"{_HOLLOW}: no font of this machine has {codes}{more}; install one to see them."


def _visible(text: str) -> str:
    """The text in one line, without what has no form of its own."""
    line = (" " if unicodedata.category(letter) == "Cc" or letter.isspace() else letter for letter in text)
    return "".join(
        letter
        for letter in line
        if letter == _NON_JOINER or (unicodedata.category(letter) != "Cf" and ord(letter) not in _SELECTORS)
    )


def _family_with(letter: str, chosen: tuple[str, ...]) -> str | None:
    """A family that has the letter: one chosen before, or else the first by name."""
    fonts = [font for font in fontManager.ttflist if font.style == "normal" and not font.name.startswith(_BOXES)]
    fonts.sort(key=lambda font: (font.name not in chosen, font.weight not in (400, "normal"), font.name, font.fname))
    return next((font.name for font in fonts if ord(letter) in _characters(font.fname)), None)


@lru_cache(maxsize=512)
def _characters(path: str) -> frozenset[int]:
    return frozenset(FT2Font(path).get_charmap())
