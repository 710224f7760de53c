"""Which words heads connect: arcs, candidates and trees over words, compared with what each head attends to most.

``_questions.py`` holds the questions and the baselines that need no head, ``_hits.py`` the statistics of heads that
answer them, ``_parser.py`` a parser made of all heads. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.attention.arcs._questions import (
    NOT_APART,
    Arcs,
    Candidates,
    Pick,
    TextTrees,
    chain_baseline,
    next_word_baseline,
    offset_baseline,
    pick_baseline,
)

if TYPE_CHECKING:
    from bertology.attention.arcs._confusion import CandidateConfusion
    from bertology.attention.arcs._hits import ArcHits, CandidateHits, TreeHits
    from bertology.attention.arcs._parser import ParserSettings, crossfit_attention_parser

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "NOT_APART",
    "ArcHits",
    "Arcs",
    "CandidateConfusion",
    "CandidateHits",
    "Candidates",
    "ParserSettings",
    "Pick",
    "TextTrees",
    "TreeHits",
    "chain_baseline",
    "crossfit_attention_parser",
    "next_word_baseline",
    "offset_baseline",
    "pick_baseline",
]
