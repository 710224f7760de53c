"""Which words heads connect: arcs, candidates and trees over words, compared with what each head attends to most.

``_questions.py`` holds the questions and the baselines that need no head, ``_heads.py`` the statistics of heads that
answer them and a parser made of all heads. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.attention.arcs._questions import (
    Arcs,
    Candidates,
    TextTrees,
    antecedents,
    dependency_arcs,
    subject_candidates,
)

if TYPE_CHECKING:
    from bertology.attention.arcs._heads import (
        ArcHits,
        CandidateConfusion,
        CandidateHits,
        ParserSettings,
        TreeHits,
        crossfit_attention_parser,
    )

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "ArcHits",
    "Arcs",
    "CandidateConfusion",
    "CandidateHits",
    "Candidates",
    "ParserSettings",
    "TextTrees",
    "TreeHits",
    "antecedents",
    "crossfit_attention_parser",
    "dependency_arcs",
    "subject_candidates",
]
