"""Attention heads: what each attends to, in one streaming pass over the maps of a text; a viewer of a sentence's maps.

``maps.py`` reads a text and shows its maps to statistics (``HeadStatistic``); ``measured.py`` has those of all heads,
and keeps the maps of a few sentences; ``arcs`` compares heads with syntax, ``patterns`` classifies whole maps,
``viewer.py`` draws them, ``dimensions.py`` the query and the keys of one head, ``importance`` disables heads. Importing
this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.attention.dimensions import query_key
    from bertology.attention.maps import stream_maps
    from bertology.attention.measured import attention_flow, attention_rollout, head_statistics, paired_maps
    from bertology.attention.patterns import PatternShares as PatternShares
    from bertology.attention.probes import AttentionProbe, GateProbe
    from bertology.attention.viewer import view

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "AttentionProbe",
    "GateProbe",
    "attention_flow",
    "attention_rollout",
    "head_statistics",
    "paired_maps",
    "query_key",
    "stream_maps",
    "view",
]
