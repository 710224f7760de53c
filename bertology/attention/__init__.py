"""Attention heads: what each looks at, in one streaming pass over the maps of a text, none of which is kept.

Importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertology.attention._batch import Level, MapBatch, Scope, Units
    from bertology.attention._distances import Divergences, HeadDistances
    from bertology.attention._head_statistics import HeadStatistics, head_statistics
    from bertology.attention._masses import Masses, NormShares
    from bertology.attention._pass import MapPass, stream_maps
    from bertology.attention._paths import SentenceMaps, attention_flow, attention_rollout, sentence_maps
    from bertology.attention._sharpness import Offsets, Sharpness
    from bertology.attention._statistic import ClusterSums, HeadRatios, HeadStatistic, row_sums

__all__ = [
    "ClusterSums",
    "Divergences",
    "HeadDistances",
    "HeadRatios",
    "HeadStatistic",
    "HeadStatistics",
    "Level",
    "MapBatch",
    "MapPass",
    "Masses",
    "NormShares",
    "Offsets",
    "Scope",
    "SentenceMaps",
    "Sharpness",
    "Units",
    "attention_flow",
    "attention_rollout",
    "head_statistics",
    "row_sums",
    "sentence_maps",
    "stream_maps",
]

_HOME = {
    "_batch": ("Level", "MapBatch", "Scope", "Units"),
    "_distances": ("Divergences", "HeadDistances"),
    "_head_statistics": ("HeadStatistics", "head_statistics"),
    "_masses": ("Masses", "NormShares"),
    "_pass": ("MapPass", "stream_maps"),
    "_paths": ("SentenceMaps", "attention_flow", "attention_rollout", "sentence_maps"),
    "_sharpness": ("Offsets", "Sharpness"),
    "_statistic": ("ClusterSums", "HeadRatios", "HeadStatistic", "row_sums"),
}
_NEED_TORCH = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NEED_TORCH[name]}"), name)
