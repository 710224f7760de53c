"""Patterns of attention maps: vertical, diagonal, vertical + diagonal, block, heterogeneous (Kovaleva et al. 2019).

Two classifiers trained on synthetic maps, and what they are worth on real ones labelled by eye (README.md of this
package). ``python -m bertology.attention.patterns`` trains and scores them. Importing this package imports no
torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.attention.patterns._kinds import (
    CLS,
    CONFIDENCE,
    PADDING,
    PATTERNS,
    PIECE,
    PUNCTUATION,
    SEP,
    ClassifierKind,
    Pattern,
)

if TYPE_CHECKING:
    from bertology.attention.patterns._classifier import PatternClassifier, assigned, load_classifier
    from bertology.attention.patterns._features import FEATURES, features
    from bertology.attention.patterns._labels import LabelledMap, labelled_maps, read_labels
    from bertology.attention.patterns._layout import Layout
    from bertology.attention.patterns._maps import PieceMap, draw_places, read_maps, stacked
    from bertology.attention.patterns._picture import PatternNetwork, pictures
    from bertology.attention.patterns._score import PatternScore, score_classes, score_classifier
    from bertology.attention.patterns._shares import PatternShares
    from bertology.attention.patterns._synthetic import SyntheticMaps, synthetic_maps
    from bertology.attention.patterns._train import PatternRecipe, train_classifiers

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "CLS",
    "CONFIDENCE",
    "FEATURES",
    "PADDING",
    "PATTERNS",
    "PIECE",
    "PUNCTUATION",
    "SEP",
    "ClassifierKind",
    "LabelledMap",
    "Layout",
    "Pattern",
    "PatternClassifier",
    "PatternNetwork",
    "PatternRecipe",
    "PatternScore",
    "PatternShares",
    "PieceMap",
    "SyntheticMaps",
    "assigned",
    "draw_places",
    "features",
    "labelled_maps",
    "load_classifier",
    "pictures",
    "read_labels",
    "read_maps",
    "score_classes",
    "score_classifier",
    "stacked",
    "synthetic_maps",
    "train_classifiers",
]
