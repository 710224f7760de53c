"""Cloze: scores of the masked-LM head at masked places, layer by layer; sentences scored by masking each piece.

:func:`ask` (``asking.py``) scores candidates of many prompts, :func:`read_cloze` follows one through the layers,
``_sentences.py`` scores whole sentences, pairs of them and, by :func:`surprisal`, each of their words. ``lens.py``
fits the tuned lens. Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.cloze.prompts import MASK, Prompt

if TYPE_CHECKING:
    from bertology.cloze._sentences import (
        SentenceScores,
        continuations,
        left_to_right,
        next_sentence,
        originality,
        pseudo_log_likelihood,
        shared_totals,
        surprisal,
    )
    from bertology.cloze.asking import ask, read_cloze
    from bertology.cloze.lens import fit_lens
    from bertology.cloze.probes import ClozeItems, ClozeProbe
    from bertology.cloze.writing import write_text
    from bertology.corpora.prompts import ClozeItem

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "MASK",
    "ClozeItem",
    "ClozeItems",
    "ClozeProbe",
    "Prompt",
    "SentenceScores",
    "ask",
    "continuations",
    "fit_lens",
    "left_to_right",
    "next_sentence",
    "originality",
    "pseudo_log_likelihood",
    "read_cloze",
    "shared_totals",
    "surprisal",
    "write_text",
]
