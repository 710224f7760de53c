"""Patterns of attention maps: vertical, diagonal, vertical + diagonal, block, heterogeneous (Kovaleva et al. 2019).

:class:`PatternShares` counts how often each head makes each pattern. Maps are classified by logistic regression on
measured features (``_features.py``) or by a small network (``_classifier.py``), both trained on synthetic maps; how
they were made, and how well they do on labelled real maps, is in ``benchmarks/head_patterns``. Importing this package
imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.attention.patterns._kinds import ClassifierKind

if TYPE_CHECKING:
    from bertology.attention.patterns._classifier import PatternShares

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = ["ClassifierKind", "PatternShares"]
