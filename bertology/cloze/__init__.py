"""Cloze: scores of the masked-LM head at masked places, layer by layer; sentences scored by masking each piece.

:func:`ask` (``_ask.py``) scores candidates of many prompts, :func:`read_cloze` follows one through the layers,
``_sentences.py`` scores whole sentences, pairs of them and, by :func:`surprisal`, each of their words. ``_lens.py``
fits the tuned lens. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.cloze.prompts import MASK, AnswerForm, Prompt

if TYPE_CHECKING:
    from bertology.cloze._ask import ClozeReading, ask, distribution, read_cloze
    from bertology.cloze._probes import ClozeAsks, ClozeItem, ClozeItems, ClozeProbe, with_ignored
    from bertology.cloze._sentences import next_sentence, pseudo_log_likelihood, surprisal
    from bertology.cloze.lens import fit_lens, load_lens

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "MASK",
    "AnswerForm",
    "ClozeAsks",
    "ClozeItem",
    "ClozeItems",
    "ClozeProbe",
    "ClozeReading",
    "Prompt",
    "ask",
    "distribution",
    "fit_lens",
    "load_lens",
    "next_sentence",
    "pseudo_log_likelihood",
    "read_cloze",
    "surprisal",
    "with_ignored",
]
