"""Cloze: what the masked-LM head says at masked places, layer by layer; sentences scored by masking each piece.

Importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bertology.cloze._answers import ANSWER_FORMS, AnswerForm, Excluded, anchor_of, check_form
from bertology.cloze._encode import spell_pieces
from bertology.cloze._prompts import MASK, Prompt
from bertology.cloze._scores import ClozeScores, SentenceScores

if TYPE_CHECKING:
    from bertology.cloze._ask import ask
    from bertology.cloze._distribution import Distribution, distribution, vocabulary_ids
    from bertology.cloze._next_sentence import NextSentenceScores, next_sentence
    from bertology.cloze._reading import ClozeReading, read_cloze
    from bertology.cloze._sentences import pseudo_log_likelihood

__all__ = [
    "ANSWER_FORMS",
    "MASK",
    "AnswerForm",
    "ClozeReading",
    "ClozeScores",
    "Distribution",
    "Excluded",
    "NextSentenceScores",
    "Prompt",
    "SentenceScores",
    "anchor_of",
    "ask",
    "check_form",
    "distribution",
    "next_sentence",
    "pseudo_log_likelihood",
    "read_cloze",
    "spell_pieces",
    "vocabulary_ids",
]

_NEED_TORCH = {
    "ClozeReading": "_reading",
    "Distribution": "_distribution",
    "NextSentenceScores": "_next_sentence",
    "ask": "_ask",
    "distribution": "_distribution",
    "next_sentence": "_next_sentence",
    "pseudo_log_likelihood": "_sentences",
    "read_cloze": "_reading",
    "vocabulary_ids": "_distribution",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NEED_TORCH[name]}"), name)
