"""Cloze: scores of the masked-LM head at masked places, layer by layer; sentences scored by masking each piece.

:func:`ask` (``_ask.py``) scores candidates of many prompts, ``_sentences.py`` whole sentences and pairs of them,
``_reading.py`` follows one prompt through the layers. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.cloze._pieces import anchor_of, spell_pieces, vocabulary_ids
from bertology.cloze._prompts import MASK, AnswerForm, Excluded, Prompt, check_form

if TYPE_CHECKING:
    from bertology.cloze._ask import ask
    from bertology.cloze._reading import ClozeReading, distribution, read_cloze
    from bertology.cloze._sentences import next_sentence, pseudo_log_likelihood

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "MASK",
    "AnswerForm",
    "ClozeReading",
    "Excluded",
    "Prompt",
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
