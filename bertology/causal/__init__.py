"""Causality: what a model computes is changed, and what it predicts is compared with what it predicted before.

:func:`patch` (``_patching.py``, to be read first) puts states of one text into the pass over another that differs from
it in a few words, layer by layer and word by word (interchange intervention, activation patching). ``_pairs.py`` aligns
the two texts, ``_agreement.py``, ``_facts.py`` and ``_sensitive.py`` make them of agreement items, facts and minimal
pairs, ``_sources.py`` finds states in other texts, ``_passes.py`` runs the model, and ``_map.py`` holds the effects.
:func:`trace` (``_tracing.py``) noises the subject of a fact and restores its states.

:func:`erase_and_predict` (``_erasing.py``) erases a property from the states of a layer. ``_masked_states.py`` reads
the states that erasures are fitted to, ``_erased_predictions.py`` predicts words without the property, ``_choices.py``
chooses between two words, :func:`choose_erased` (``_erased_places.py``) does so with what decides erased place by
place, and ``_oracle.py`` tells how much of the property is gone and how much of others is not.

:func:`attribute` (``_attribution.py``) gives scores to the words that a choice rests on; ``_attributed.py`` holds them
and tells how faithful they are.

What is changed in the running model is in :mod:`bertology.encoders.interventions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.causal._agreement import agreement_pairs
from bertology.causal._facts import Fact, fact_pairs, read_facts
from bertology.causal._map import PatchingMap
from bertology.causal._pairs import PatchPair

if TYPE_CHECKING:
    from bertology.causal._attributed import Attributed, Attributions, Faithfulness, hits
    from bertology.causal._attribution import METHODS, attribute
    from bertology.causal._choices import ChangedChoices, choose_changed
    from bertology.causal._erased_places import ErasedPlaces, choose_erased
    from bertology.causal._erased_predictions import StateChange
    from bertology.causal._erasing import Erasing, erase_and_predict
    from bertology.causal._oracle import WordLabels
    from bertology.causal._patching import patch
    from bertology.causal._sensitive import SensitivePairs, sensitive_pairs
    from bertology.causal._sources import NoOtherTextError
    from bertology.causal._tracing import KnownFacts, known_facts, known_pairs, trace

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "METHODS",
    "Attributed",
    "Attributions",
    "ChangedChoices",
    "ErasedPlaces",
    "Erasing",
    "Fact",
    "Faithfulness",
    "KnownFacts",
    "NoOtherTextError",
    "PatchPair",
    "PatchingMap",
    "SensitivePairs",
    "StateChange",
    "WordLabels",
    "agreement_pairs",
    "attribute",
    "choose_changed",
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
