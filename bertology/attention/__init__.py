"""Attention heads: what each attends to, in one streaming pass over the maps of a text; a viewer of a sentence's maps.

``_pass.py`` reads a text and shows its maps to statistics (``_statistic.py``); ``_measured.py`` has those of all heads.
``arcs`` compares heads with syntax, ``patterns`` classifies whole maps, ``importance`` disables heads, ``viewer`` draws
them. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.attention._distances import Divergences
    from bertology.attention._head_statistics import head_statistics
    from bertology.attention._measured import Masses, NormShares, Offsets, Sharpness
    from bertology.attention._norms import check_norms, knows_norms, value_norms
    from bertology.attention._paired import PairedMaps, paired_maps
    from bertology.attention._pass import stream_maps
    from bertology.attention._paths import attention_flow, attention_rollout, sentence_maps
    from bertology.attention._plot import plot_head, plot_heads
    from bertology.attention._ratios import HeadRatios, Scope
    from bertology.attention._statistic import HeadStatistic, MakeStatistic, MapBatch
    from bertology.attention.viewer._read import labelled_attention, read_attention
    from bertology.attention.viewer._view import parse_heads, view

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Divergences",
    "HeadRatios",
    "HeadStatistic",
    "MakeStatistic",
    "MapBatch",
    "Masses",
    "NormShares",
    "Offsets",
    "PairedMaps",
    "Scope",
    "Sharpness",
    "attention_flow",
    "attention_rollout",
    "check_norms",
    "head_statistics",
    "knows_norms",
    "labelled_attention",
    "paired_maps",
    "parse_heads",
    "plot_head",
    "plot_heads",
    "read_attention",
    "sentence_maps",
    "stream_maps",
    "value_norms",
    "view",
]
