"""Causality: what a model computes is changed, and what it predicts is compared with what it predicted before.

:func:`patch` (``_patching.py``, to be read first) puts states of one text into the pass over another that differs from
it in a few words, layer by layer and word by word (interchange intervention, activation patching). ``_pairs.py`` aligns
the two texts, ``_agreement.py`` makes
them of agreement items, ``_map.py`` holds the effects. What is changed in the running model is in
:mod:`bertology.encoders.interventions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.causal._agreement import agreement_pairs
from bertology.causal._map import PatchingMap
from bertology.causal._pairs import PatchPair

if TYPE_CHECKING:
    from bertology.causal._patching import patch

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = ["PatchPair", "PatchingMap", "agreement_pairs", "patch"]
