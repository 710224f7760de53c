"""Causal interventions: states of a running model are changed, and its predictions are compared with those before.

:func:`patch` (``patching.py``, to be read first) puts states of one text into the pass over another that differs from
it in a few words, layer by layer and word by word (interchange intervention, activation patching), and ``trace``
restores states of a fact whose subject is noised; ``_map.py`` holds the effects. ``_pairs.py`` aligns the two texts,
``items.py`` makes them of agreement items, facts and minimal pairs.

``erasing.py`` erases a property from the states of a layer, also place by place. :func:`attribute`
(``_attribution.py``) gives scores to the words that a choice rests on. What is changed in the running model is in
:mod:`bertology.encoders.interventions`. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.causal._attribution import Attributions, attribute
    from bertology.causal._map import PatchingMap
    from bertology.causal._pairs import PatchPair
    from bertology.causal._probes import CausalItems, CausalProbe
    from bertology.causal.items import agreement_pairs, fact_pairs, sensitive_pairs
    from bertology.causal.patching import patch

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Attributions",
    "CausalItems",
    "CausalProbe",
    "PatchPair",
    "PatchingMap",
    "agreement_pairs",
    "attribute",
    "fact_pairs",
    "patch",
    "sensitive_pairs",
]
