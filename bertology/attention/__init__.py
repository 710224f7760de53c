"""Attention heads: what each looks at, in one streaming pass over the maps of a text; a viewer of a sentence's maps.

Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.attention._batch import Level, MapBatch, Scope, Units
    from bertology.attention._distances import Divergences, HeadDistances
    from bertology.attention._head_statistics import HeadStatistics, head_statistics
    from bertology.attention._masses import Masses, NormShares
    from bertology.attention._pass import MapPass, stream_maps
    from bertology.attention._paths import SentenceMaps, attention_flow, attention_rollout, sentence_maps
    from bertology.attention._plot import plot_heads
    from bertology.attention._ratios import HeadRatios, RatioUnit
    from bertology.attention._sharpness import Offsets, Sharpness
    from bertology.attention._statistic import ClusterSums, HeadStatistic, MakeStatistic, SumsStatistic, row_sums
    from bertology.attention.patterns import PATTERNS, ClassifierKind, PatternShares
    from bertology.attention.viewer import AttentionReading, AttentionView, read_attention, view

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "PATTERNS",
    "AttentionReading",
    "AttentionView",
    "ClassifierKind",
    "ClusterSums",
    "Divergences",
    "HeadDistances",
    "HeadRatios",
    "HeadStatistic",
    "HeadStatistics",
    "Level",
    "MakeStatistic",
    "MapBatch",
    "MapPass",
    "Masses",
    "NormShares",
    "Offsets",
    "PatternShares",
    "RatioUnit",
    "Scope",
    "SentenceMaps",
    "Sharpness",
    "SumsStatistic",
    "Units",
    "attention_flow",
    "attention_rollout",
    "head_statistics",
    "plot_heads",
    "read_attention",
    "row_sums",
    "sentence_maps",
    "stream_maps",
    "view",
]
