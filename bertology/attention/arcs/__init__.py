"""Which words heads join: arcs, candidates and trees over words, against what each head looks at most.

Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.attention.arcs._arcs import Arcs, offset_baseline
from bertology.attention.arcs._candidates import Candidates, pick_baseline
from bertology.attention.arcs._trees import TextTrees, chain_baseline, next_word_baseline

if TYPE_CHECKING:
    from bertology.attention.arcs._candidate_hits import CandidateHits
    from bertology.attention.arcs._hits import ArcHits
    from bertology.attention.arcs._parser import (
        AttentionParser,
        ParsedText,
        ParserSettings,
        crossfit_attention_parser,
        fit_attention_parser,
    )
    from bertology.attention.arcs._tree_hits import TreeHits

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "ArcHits",
    "Arcs",
    "AttentionParser",
    "CandidateHits",
    "Candidates",
    "ParsedText",
    "ParserSettings",
    "TextTrees",
    "TreeHits",
    "chain_baseline",
    "crossfit_attention_parser",
    "fit_attention_parser",
    "next_word_baseline",
    "offset_baseline",
    "pick_baseline",
]
