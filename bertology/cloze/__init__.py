"""Cloze: what the masked-LM head says at masked places, layer by layer; sentences scored by masking each piece.

Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
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

__getattr__, __dir__ = lazy_attributes(__name__)

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
