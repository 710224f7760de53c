"""Causal interventions: states of a running model are changed, and its predictions are compared with those before.

:func:`patch` (``patching.py``, to be read first) puts states of one text into the pass over another that differs from
it in a few words, layer by layer and word by word (interchange intervention, activation patching), and ``trace``
restores states of a fact whose subject is noised. ``items.py`` makes the two texts of agreement items, facts and
minimal pairs, and aligns them.

``dimensions.py`` ranks and changes single dimensions, ``dimension_words.py`` shows their words. ``directions.py``
exchanges a subspace of a state in the place of the whole, learned or found in other ways. ``erasing.py`` erases a
property from the states of a layer, also place by place. :func:`attribute` (``_attribution.py``) gives scores to the
words that a choice rests on, and :func:`circuit` (``circuits.py``) to the edges between heads and feed-forward parts.
What is changed in the running model is in :mod:`bertology.encoders.interventions`. Importing this package imports no
torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.causal._attribution import Attributions, attribute
    from bertology.causal.circuits import Circuit, circuit
    from bertology.causal.dimension_words import RankedDimensions, find_dimensions
    from bertology.causal.directions import Directions, exchange_directions
    from bertology.causal.erasing import choose_erased as choose_erased
    from bertology.causal.items import agreement_pairs, sensitive_pairs
    from bertology.causal.patching import PatchingMap, patch
    from bertology.causal.probes import CausalItems, CausalProbe
    from bertology.causal.targets import PatchPair, Target
    from bertology.causal.truth import method_scores as method_scores

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Attributions",
    "CausalItems",
    "CausalProbe",
    "Circuit",
    "Directions",
    "PatchPair",
    "PatchingMap",
    "RankedDimensions",
    "Target",
    "agreement_pairs",
    "attribute",
    "circuit",
    "exchange_directions",
    "find_dimensions",
    "patch",
    "sensitive_pairs",
]
