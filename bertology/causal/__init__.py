"""Causal interventions: states of a running model are changed, and its predictions are compared with those before.

:func:`patch` (``_patching.py``, to be read first) puts states of one text into the pass over another that differs from
it in a few words, layer by layer and word by word (interchange intervention, activation patching), and :func:`trace`
restores states of a fact whose subject is noised; ``_map.py`` holds the effects. ``_pairs.py`` aligns the two texts,
``_items.py`` makes them of agreement items, facts and minimal pairs.

:func:`erase_and_predict` (``_erasing.py``) erases a property from the states of a layer, and :func:`choose_erased`
(``_choices.py``) place by place. :func:`attribute` (``_attribution.py``) gives scores to the words that a choice rests
on. What is changed in the running model is in :mod:`bertology.encoders.interventions`. Importing this package imports
no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.causal._attribution import Attributions, attribute, hits
    from bertology.causal._choices import choose_erased
    from bertology.causal._erasing import Erasing, WordLabels, erase_and_predict
    from bertology.causal._items import SensitivePairs, agreement_pairs, fact_pairs, read_facts, sensitive_pairs
    from bertology.causal._map import PatchingMap
    from bertology.causal._pairs import PatchPair
    from bertology.causal._patching import NoOtherTextError, known_facts, known_pairs, patch, trace
    from bertology.causal._probes import CausalItems, CausalProbe

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Attributions",
    "CausalItems",
    "CausalProbe",
    "Erasing",
    "NoOtherTextError",
    "PatchPair",
    "PatchingMap",
    "SensitivePairs",
    "WordLabels",
    "agreement_pairs",
    "attribute",
    "choose_erased",
    "erase_and_predict",
    "fact_pairs",
    "hits",
    "known_facts",
    "known_pairs",
    "patch",
    "read_facts",
    "sensitive_pairs",
    "trace",
]
