"""The classes of attention maps, the classifiers, and the kinds of pieces: constants that need no torch."""

from __future__ import annotations

from typing import Final, Literal

Pattern = Literal["vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous"]
PATTERNS: Final[tuple[Pattern, ...]] = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
"""The classes of Kovaleva et al. (2019, section 4.1), in the order of all tables and probabilities."""

ClassifierKind = Literal["features", "cnn"]
KINDS: Final[tuple[ClassifierKind, ...]] = ("features", "cnn")
"""Classifiers: logistic regression on measured features, or a convolutional network on pictures of maps."""
CONFIDENCE: Final = 0.5
"""The least probability at which a map is put into a class other than ``heterogeneous``."""

PADDING, PIECE, CLS, SEP, PUNCTUATION = range(-1, 4)
"""What a row and column of a map is."""
