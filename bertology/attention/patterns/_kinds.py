"""The classes, and what rows and columns of a map are."""

from __future__ import annotations

from typing import Final, Literal

Pattern = Literal["vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous"]
PATTERNS: Final[tuple[Pattern, ...]] = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
"""The classes of Kovaleva et al. (2019, section 4.1), in the order of all tables and probabilities."""

ClassifierKind = Literal["features", "cnn"]
KINDS: Final[tuple[ClassifierKind, ...]] = ("features", "cnn")
"""Of classifiers: of measured features, or of pictures."""
CONFIDENCE: Final = 0.5
"""The least probability at which a map is put into a class other than ``heterogeneous``."""

PADDING, PIECE, CLS, SEP, PUNCTUATION = range(-1, 4)
"""What a row and column of a map is."""
