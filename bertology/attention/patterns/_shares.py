"""How often each head makes each pattern."""

from __future__ import annotations

from typing import Final

import torch

from bertology.attention._ratios import HeadRatios, Scope
from bertology.attention._statistic import ClusterSums, HeadStatistic, MapBatch, PerBatch
from bertology.attention.patterns._classifier import assigned, load_classifier
from bertology.attention.patterns._features import Layout
from bertology.attention.patterns._kinds import PATTERNS, ClassifierKind
from bertology.errors import BertologyError

SHORTEST_MAP: Final = 5
"""Least number of pieces, special ones counted, of a map that is classified."""


class PatternShares(HeadStatistic):
    """Shares of each head's maps that are of each class of Kovaleva et al. (2019, section 4.1).

    Each map between the pieces of a text (or of a window of one) is put into one class: the likeliest, or
    ``heterogeneous`` where none is likely enough. The shares of a head sum to 1. Maps of fewer than
    :data:`SHORTEST_MAP` pieces are not counted. Without sentence pairs no map is ``block``.

    Args:
        scope: what the pass reads, at piece level.
        classifier: ``features`` or ``cnn``.
        confidence: the least probability of a class; the classifier's own (0.5) when left out.

    Raises:
        BertologyError: the pass is at word level, or the confidence is no probability.
        ModelError: the classifier cannot be loaded.
    """

    names = PATTERNS

    def __init__(
        self, scope: Scope, *, classifier: ClassifierKind = "features", confidence: float | None = None
    ) -> None:
        if scope.level != "piece":
            raise BertologyError("patterns are of maps between pieces: read them at level 'piece'")
        self._classifier = load_classifier(classifier)
        self._confidence = self._classifier.confidence if confidence is None else confidence
        if not 0 <= self._confidence <= 1:
            raise BertologyError(f"confidence {self._confidence:g}: give a probability, 0 to 1")
        self._sums = ClusterSums(scope, self.names, shared=True, metric="pattern_share")
        self._layout = PerBatch(Layout.of_units)

    def update(self, batch: MapBatch) -> None:
        """Put the maps of one layer into classes."""
        units = batch.units
        layout = self._layout(units)
        counted = (layout.lengths >= SHORTEST_MAP) & layout.rows.any(-1)  # [text]
        found = assigned(self._classifier.probabilities(batch.maps, layout), confidence=self._confidence)
        over = torch.nn.functional.one_hot(found, len(self.names)) * counted[:, None, None]
        self._sums.add(batch.layer, units, over, counted[:, None].expand(-1, len(self.names)))

    def merge(self, other: PatternShares) -> None:
        """Add the sums of another thread."""
        self._sums.merge(other._sums)

    def finish(self) -> HeadRatios:
        """The shares: ratios named by the classes, of the metric ``pattern_share``."""
        return self._sums.finish()
