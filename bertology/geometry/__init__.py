"""Statistics of the vectors themselves, layer by layer, without anything fitted to labels.

How contextual vectors are (``_contextuality.py``, to be read first; of sentences and of the whole ``_text.py``), how
many dimensions they use (``_spectrum.py``), which layers are alike (``_similarity.py``; of two models ``_between.py``
and ``_models.py``; measures in ``_likeness.py``), whether senses of a word lie apart (``_senses.py``), what a position
or a segment does to a vector (``_position.py``), what of the vector of a sentence is a sum over words in roles
(``_role_fits.py``). All read a
:class:`LayerVectors`, made of stored vectors or of arrays, and return :class:`LayerSums`: ratios of two sums over
clusters, from which intervals and comparisons of layers follow. ``_neighbours.py`` finds the nearest occurrences of a
word, which the page of ``map`` shows.
"""

from bertology.geometry._between import LayerMatrix, compare_layers, most_alike
from bertology.geometry._contextuality import (
    WordSample,
    contextuality,
    self_similarity,
)
from bertology.geometry._likeness import (
    linear_cka,
    mutual_neighbours,
    neuron_matching,
    procrustes,
    pwcca,
    rbf_cka,
    rsa,
    rsa_spearman,
    svcca,
)
from bertology.geometry._models import anisotropy_change, cosine_to_reference, model_similarity
from bertology.geometry._neighbours import Neighbours, find_neighbours, nearest_occurrences, word_place
from bertology.geometry._occurrences import Occurrence, SearchedText
from bertology.geometry._position import encoding_effects
from bertology.geometry._role_fits import RoleItems, role_scores
from bertology.geometry._roles import (
    constituent_paths,
    dependency_paths,
    filler_embeddings,
    position_roles,
    tree_roles,
)
from bertology.geometry._senses import (
    SenseItems,
    SensePredictions,
    adjusted_rand,
    area_under_curve,
    best_threshold,
    mean_macro_f1,
    nearest_centroids,
    nearest_neighbours,
    pair_scores,
    predict_senses,
    sense_clusters,
    sense_scores,
    span_means,
    v_measure,
)
from bertology.geometry._similarity import identity, layer_similarity
from bertology.geometry._spans import SpanItems, span_clusters
from bertology.geometry._spectrum import effective_rank, iso_score, matrix_entropy, spectrum
from bertology.geometry._sums import LayerSums, jackknife_sums
from bertology.geometry._text import anisotropy, intra_sentence_similarity, text_statistics, variance_shares
from bertology.geometry._vectors import LayerVectors, unit_vectors

__all__ = [
    "LayerMatrix",
    "LayerSums",
    "LayerVectors",
    "Neighbours",
    "Occurrence",
    "RoleItems",
    "SearchedText",
    "SenseItems",
    "SensePredictions",
    "SpanItems",
    "WordSample",
    "adjusted_rand",
    "anisotropy",
    "anisotropy_change",
    "area_under_curve",
    "best_threshold",
    "compare_layers",
    "constituent_paths",
    "contextuality",
    "cosine_to_reference",
    "dependency_paths",
    "effective_rank",
    "encoding_effects",
    "filler_embeddings",
    "find_neighbours",
    "identity",
    "intra_sentence_similarity",
    "iso_score",
    "jackknife_sums",
    "layer_similarity",
    "linear_cka",
    "matrix_entropy",
    "mean_macro_f1",
    "model_similarity",
    "most_alike",
    "mutual_neighbours",
    "nearest_centroids",
    "nearest_neighbours",
    "nearest_occurrences",
    "neuron_matching",
    "pair_scores",
    "position_roles",
    "predict_senses",
    "procrustes",
    "pwcca",
    "rbf_cka",
    "role_scores",
    "rsa",
    "rsa_spearman",
    "self_similarity",
    "sense_clusters",
    "sense_scores",
    "span_clusters",
    "span_means",
    "spectrum",
    "svcca",
    "text_statistics",
    "tree_roles",
    "unit_vectors",
    "v_measure",
    "variance_shares",
    "word_place",
]
