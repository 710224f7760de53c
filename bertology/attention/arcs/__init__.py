"""Which words heads join: arcs, candidates and trees over words, against what each head looks at most.

Importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bertology.attention.arcs._arcs import Arcs, offset_baseline
from bertology.attention.arcs._candidates import Candidates, pick_baseline
from bertology.attention.arcs._trees import TextTrees, chain_baseline

if TYPE_CHECKING:
    from bertology.attention.arcs._candidate_hits import CandidateHits
    from bertology.attention.arcs._hits import ArcHits
    from bertology.attention.arcs._tree_hits import TreeHits

__all__ = [
    "ArcHits",
    "Arcs",
    "CandidateHits",
    "Candidates",
    "TextTrees",
    "TreeHits",
    "chain_baseline",
    "offset_baseline",
    "pick_baseline",
]

_NEED_TORCH = {"ArcHits": "_hits", "CandidateHits": "_candidate_hits", "TreeHits": "_tree_hits"}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NEED_TORCH[name]}"), name)
