"""Cloze: scores of the masked-LM head at masked places, layer by layer; sentences scored by masking each piece.

:func:`ask` (``_ask.py``) scores candidates of many prompts, :func:`read_cloze` follows one through the layers,
``_sentences.py`` scores whole sentences, pairs of them and, by :func:`surprisal`, each of their words. ``_lens.py``
fits the tuned lens. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.cloze._prompts import (
    MASK,
    AnswerForm,
    Excluded,
    Prompt,
    anchor_of,
    check_form,
    spell_pieces,
    vocabulary_ids,
)

if TYPE_CHECKING:
    from bertology.cloze._ask import ClozeReading, ask, distribution, read_cloze
    from bertology.cloze._lens import TunedLens, fit_lens, lens_measures, load_lens
    from bertology.cloze._sentences import next_sentence, pseudo_log_likelihood, surprisal

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "MASK",
    "AnswerForm",
    "ClozeReading",
    "Excluded",
    "Prompt",
    "TunedLens",
    "anchor_of",
    "ask",
    "check_form",
    "distribution",
    "fit_lens",
    "lens_measures",
    "load_lens",
    "next_sentence",
    "pseudo_log_likelihood",
    "read_cloze",
    "spell_pieces",
    "surprisal",
    "vocabulary_ids",
]
