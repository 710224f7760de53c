"""Statistics of the vectors themselves, layer by layer, without anything fitted to labels.

All functions take a :class:`LayerVectors` (:mod:`bertology.activations.layers`) and yield
:class:`bertology.measures.sums.LayerSums`: ratios of two sums over clusters, from which intervals and comparisons of
layers follow. How contextual vectors are and how many dimensions they use is in ``_text.py``; which layers of one model
or of two are alike in ``_similarity.py``, by the measures of ``_likeness.py``; whether senses of a word lie apart in
``_senses.py``; what a position or a segment does to a vector in ``_position.py``; how much of a sentence's vector is a
sum over words in roles in ``_roles.py``; what languages share in ``languages.py``. ``_neighbours.py`` finds the nearest
occurrences of a word, which the page of ``_map.py`` shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.activations.layers import LayerVectors
    from bertology.geometry._likeness import likeness, linear_cka
    from bertology.geometry._neighbours import Neighbours, find_neighbours, nearest_occurrences, word_place
    from bertology.geometry._occurrences import SearchedText
    from bertology.geometry._position import encoding_effects
    from bertology.geometry._probes import EncodingProbe, GeometryBaseline, GeometryProbe
    from bertology.geometry._roles import (
        RoleItems,
        constituent_paths,
        dependency_paths,
        filler_embeddings,
        position_roles,
        role_scores,
        tree_roles,
    )
    from bertology.geometry._senses import (
        SenseItems,
        SensePredictions,
        SpanItems,
        pair_scores,
        predict_senses,
        sense_clusters,
        sense_scores,
        span_clusters,
    )
    from bertology.geometry._similarity import (
        LayerMatrix,
        anisotropy_change,
        compare_layers,
        cosine_to_reference,
        identity,
        layer_similarity,
        model_similarity,
        most_alike,
    )
    from bertology.geometry._text import WordSample, self_similarity, text_statistics


__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "EncodingProbe",
    "GeometryBaseline",
    "GeometryProbe",
    "LayerMatrix",
    "LayerVectors",
    "Neighbours",
    "RoleItems",
    "SearchedText",
    "SenseItems",
    "SensePredictions",
    "SpanItems",
    "WordSample",
    "anisotropy_change",
    "compare_layers",
    "constituent_paths",
    "cosine_to_reference",
    "dependency_paths",
    "encoding_effects",
    "filler_embeddings",
    "find_neighbours",
    "identity",
    "layer_similarity",
    "likeness",
    "linear_cka",
    "model_similarity",
    "most_alike",
    "nearest_occurrences",
    "pair_scores",
    "position_roles",
    "predict_senses",
    "role_scores",
    "self_similarity",
    "sense_clusters",
    "sense_scores",
    "span_clusters",
    "text_statistics",
    "tree_roles",
    "word_place",
]
