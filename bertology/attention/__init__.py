"""Attention heads: what each attends to, in one streaming pass over the maps of a text; a viewer of a sentence's maps.

``_pass.py`` reads a text and shows its maps to statistics; ``_measured.py`` has those of all heads, ``arcs`` compares
heads with syntax, ``patterns`` classifies whole maps. ``_kept.py`` keeps the maps of a few sentences, ``_viewer.py``
draws them, ``importance`` disables heads. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.attention._kept import attention_flow, attention_rollout, paired_maps, sentence_maps
    from bertology.attention._measured import head_measures, head_statistics
    from bertology.attention._pass import (
        HeadStatistic,
        MakeStatistic,
        MapBatch,
        check_norms,
        knows_norms,
        stream_maps,
        value_norms,
    )
    from bertology.attention._probes import AttentionProbe, GateProbe, HeadBaseline, HeadProbe, Windows
    from bertology.attention._viewer import labelled_attention, parse_heads, view

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "AttentionProbe",
    "GateProbe",
    "HeadBaseline",
    "HeadProbe",
    "HeadStatistic",
    "MakeStatistic",
    "MapBatch",
    "Windows",
    "attention_flow",
    "attention_rollout",
    "check_norms",
    "head_measures",
    "head_statistics",
    "knows_norms",
    "labelled_attention",
    "paired_maps",
    "parse_heads",
    "sentence_maps",
    "stream_maps",
    "value_norms",
    "view",
]
