"""Statistics of the vectors themselves, layer by layer, without anything fitted to labels.

All functions take a :class:`LayerVectors` (:mod:`bertology.activations.layers`) and yield
:class:`bertology.measures.sums.LayerSums`: ratios of two sums over clusters, from which intervals and comparisons of
layers follow. How contextual vectors are and how many dimensions they use is in ``text.py``; which layers of one model
or of two are alike in ``similarity.py``; whether senses of a word lie apart in ``senses.py``; what a position or a
segment does to a vector in ``position.py``; how much of a sentence's vector is a sum over words in roles in
``roles.py``; what languages share in ``languages.py`` and ``alignment.py``. ``neighbours.py`` finds the nearest
occurrences of a word, and shows them on a page.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.activations.layers import LayerVectors
    from bertology.geometry.neighbours import Neighbours
    from bertology.geometry.probes import GeometryProbe
    from bertology.geometry.similarity import compare_layers, layer_similarity, likeness, linear_cka, model_similarity


__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "GeometryProbe",
    "LayerVectors",
    "Neighbours",
    "compare_layers",
    "layer_similarity",
    "likeness",
    "linear_cka",
    "model_similarity",
]
