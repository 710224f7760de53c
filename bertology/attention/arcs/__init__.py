"""Which words heads join: arcs, candidates and trees over words, against what each head looks at most.

Importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_NEED_TORCH = {
    "ArcHits": "_hits",
    "AttentionParser": "_parser",
    "CandidateHits": "_candidate_hits",
    "ParsedText": "_parser",
    "ParserSettings": "_parser",
    "TreeHits": "_tree_hits",
    "crossfit_attention_parser": "_parser",
    "fit_attention_parser": "_parser",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NEED_TORCH[name]}"), name)
