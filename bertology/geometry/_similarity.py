"""Which layers hold the same geometry: likeness of all pairs of layers, with what each sentence contributes.

The vectors are read twice for measures that follow from their products; others are of a sample, with what blocks of
sentences contribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bertology._names import name_not_found
from bertology.errors import CorpusError, ModelError
from bertology.geometry import _likeness as likeness
from bertology.geometry._between import MEASURES, Measure, left_out, shuffled_likeness
from bertology.geometry._likeness import LEAST, N_NEIGHBOURS, cosines_of, hsic, nearest, shared_neighbours
from bertology.geometry._sums import Clusters, Floats, Integers, LayerSums, jackknife_sums
from bertology.geometry._vectors import Floats32, LayerVectors, unit_vectors

_SAMPLE = 1000
"""Words of which all pairs are formed, for measures of neighbours and of pairs."""


@dataclass(frozen=True, eq=False)
class Products:
    """What all pairs of layers are compared by: products of centred vectors."""

    means: Floats32
    """``[layer, dim]``"""
    cross: Mapping[tuple[int, int], Floats32]
    """``[dim, dim]`` XᵀY by places of two layers, the first not above the second."""
    norms: Floats
    """``[layer, word]`` squared lengths."""


Pairs = Mapping[tuple[int, int], tuple[float, Floats]]
_PairMeasure = Callable[[LayerVectors, Products, Integers], Pairs]


def layer_similarity(
    vectors: LayerVectors, sentences: Integers, *, measures: Sequence[str] = ("cka",)
) -> Iterator[LayerSums]:
    """How alike all pairs of layers are, and how far a word moves from each layer to the next that is read.

    Args:
        vectors: of the words of a text.
        sentences: ``[word]`` the sentence of each, ascending.
        measures: some of ``cka`` (linear, debiased) and ``procrustes``; ``rsa``, ``rsa_spearman`` (of ranks),
            ``mutual_neighbours`` and ``rbf`` (CKA with Gaussian kernels) of the first 1,000 words; ``svcca``, ``pwcca``
            and ``neuron_matching`` of the first 4,000, or 12 for each dimension. Of measures that are not symmetric it
            is the mean of both ways.

    Yields:
        Each measure with the layer before in ``vectors.layers``, and by the group ``layer k`` with each other layer k;
        and ``MEASURE_null``, the same with the layer before, its words in random order.
        Then ``cosine_previous`` and ``moved_previous``, ‖x − x′‖ / ‖x′‖, of a word's vectors x and x′ in both (Lan et
        al. 2020, figure 1 shows angle and distance).

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: there are fewer than two sentences, or four words.
        ModelError: a layer does not vary, or is not finite.
        FitError: fewer than ten words for each dimension, for ``svcca`` and ``pwcca``.
    """
    for measure in measures:
        if measure not in MEASURES:
            raise name_not_found("measure of similarity", measure, MEASURES)
    _, clusters = np.unique(sentences, return_inverse=True)
    if len(vectors) < LEAST or clusters[-1] < 1:
        raise CorpusError(f"{len(vectors)} words of one sentence are too few to compare layers by: give more text")
    is_summed = [measure in SUMMED for measure in measures]
    products = products_of(vectors) if any(is_summed) else None
    for measure, by_sums in zip(measures, is_summed, strict=True):
        if by_sums and products is not None:
            yield from _statistics_of(measure, vectors, SUMMED[measure](vectors, products, clusters), "sentences")
        else:
            yield from _statistics_of(measure, vectors, block_pairs(MEASURES[measure], vectors, clusters), "blocks")
        yield from _by_chance(measure, vectors)
    yield from _moves(vectors, clusters)


def _statistics_of(measure: str, vectors: LayerVectors, pairs: Pairs, kind: Clusters) -> Iterator[LayerSums]:
    """A measure with the layer before, and by group with each other layer."""
    layers = vectors.layers
    whole = np.ones((len(layers), len(layers)))
    n_clusters = max((len(of_clusters) for _, of_clusters in pairs.values()), default=0)
    influences = np.zeros((len(layers), len(layers), n_clusters))
    for (a, b), (value, of_clusters) in pairs.items():
        whole[a, b] = whole[b, a] = value
        influences[a, b] = influences[b, a] = of_clusters
    if len(layers) > 1:
        above, below = np.arange(1, len(layers)), np.arange(len(layers) - 1)
        yield jackknife_sums(measure, layers[1:], whole[above, below], influences[above, below], kind)
    for other, layer in enumerate(layers):
        places = [place for place in range(len(layers)) if place != other]
        if places:
            kept = whole[places, other], influences[places, other]
            chosen = tuple(layers[place] for place in places)
            yield jackknife_sums(measure, chosen, *kept, kind, group=f"layer {layer}")


def block_pairs(measure: Measure, vectors: LayerVectors, clusters: Integers) -> Pairs:
    """Any measure on a sample of words, with what it changes by when a block of sentences is left out."""
    places = range(len(vectors.layers))
    found = left_out(measure, vectors, vectors, clusters, [(a, b) for a in places for b in places if a < b])
    return block_changes(found)


def block_changes(found: Mapping[tuple[int, int], Floats]) -> Pairs:
    """By pair the likeness of all words, and ``[block]`` by how much it is more than without each block."""
    return {pair: (float(values[0]), values[0] - values[1:]) for pair, values in found.items()}


def _by_chance(measure: str, vectors: LayerVectors) -> Iterator[LayerSums]:
    """What a measure shows of a layer and the one before with its words in random order; it has no interval."""
    n = MEASURES[measure].words((vectors,))
    kept = [vectors.of(layer)[:n] for layer in vectors.layers]
    if len(kept) > 1:
        values = shuffled_likeness(MEASURES[measure], kept)
        yield LayerSums(f"{measure}_null", vectors.layers[1:], values[:, None], np.ones((1, 1)), "blocks")


def identity(vectors: LayerVectors, types: Integers, sentences: Integers, *, seed: int = 0) -> Iterator[LayerSums]:
    """Whether a layer still holds which word it was given: by layer the share of words found by their vector.

    The nearest word type by cosine is looked up among the mean vectors of types in layer 0, both layers less their
    mean; 1,000 words are looked up (after Voita et al. 2019, who measure what a layer knows of its input token). By
    chance it is one over the number of types.

    Args:
        vectors: of the words of a text, layer 0 among them; without it there is nothing to yield.
        types: ``[word]`` the type of each.
        sentences: ``[word]`` the sentence of each.
        seed: of which words are looked up.

    Yields:
        ``identity``, over sentences.
    """
    if 0 not in vectors.layers:
        return
    _, types = np.unique(types, return_inverse=True)
    queries = np.sort(np.random.default_rng(seed).permutation(len(vectors))[:_SAMPLE])
    embedded = vectors.of(0) - vectors.of(0).mean(axis=0)
    order = np.argsort(types, kind="stable")
    sums = np.add.reduceat(embedded[order], np.searchsorted(types[order], np.arange(types.max() + 1)), axis=0)
    means = unit_vectors(sums, 0, may_vanish=True)  # the direction of a sum is that of the mean
    _, clusters = np.unique(sentences[queries], return_inverse=True)
    found = []
    for layer in vectors.layers:
        of_layer = vectors.of(layer)
        # Lengths do not matter to which type is nearest.
        nearest_types = ((of_layer[queries] - of_layer.mean(axis=0)) @ means.T).argmax(axis=1)
        found.append(np.bincount(clusters, (nearest_types == types[queries]).astype(np.float64)))
    yield LayerSums("identity", vectors.layers, np.stack(found), np.bincount(clusters)[None].astype(float), "sentences")


def products_of(vectors: LayerVectors, pairs: Sequence[tuple[int, int]] | None = None) -> Products:
    """Products of pairs of layers by their places, each layer with itself among them; of all pairs when left out."""
    n_layers, n_words = len(vectors.layers), len(vectors)
    totals = np.zeros((n_layers, vectors.dim))
    for _, chunk in vectors.chunks():
        totals += chunk.sum(axis=1, dtype=np.float64)
    means = (totals / n_words).astype(np.float32)
    if not np.isfinite(means).all():
        layer = vectors.layers[int(np.flatnonzero(~np.isfinite(means).all(axis=1))[0])]
        raise ModelError(f"layer {layer}: vectors are not finite: compute in float32, or give another model")
    pairs = pairs or [(a, b) for a in range(n_layers) for b in range(a, n_layers)]
    cross = {pair: np.zeros((vectors.dim, vectors.dim), dtype=np.float32) for pair in pairs}
    norms = np.zeros((n_layers, n_words))
    for items, chunk in vectors.chunks():
        centred = chunk - means[:, None]
        norms[:, items] = (centred**2).sum(axis=2, dtype=np.float64)
        for a, b in pairs:
            cross[a, b] += centred[a].T @ centred[b]
    return Products(means, cross, norms)


def _quadratic(
    vectors: LayerVectors, products: Products, matrices: Mapping[tuple[int, int], Floats32]
) -> dict[tuple[int, int], Floats]:
    """``[word]`` xᵀ M y of the centred vectors of each word in two layers."""
    found = {pair: np.zeros(len(vectors)) for pair in matrices}
    for items, chunk in vectors.chunks():
        centred = chunk - products.means[:, None]
        for (a, b), matrix in matrices.items():
            along = centred[a] @ matrix
            found[a, b][items] = np.einsum("wd,wd->w", along, centred[b])
    return found


def _cka_pairs(
    vectors: LayerVectors, products: Products, clusters: Integers
) -> dict[tuple[int, int], tuple[float, Floats]]:
    norms, n = products.norms, len(vectors)
    squared = {
        pair: hsic(float((matrix.astype(np.float64) ** 2).sum()), norms[pair[0]], norms[pair[1]])
        for pair, matrix in products.cross.items()
    }
    for place, layer in enumerate(vectors.layers):
        if not squared[place, place] > 0:
            raise ModelError(f"layer {layer}: words do not differ in their vectors, so that no other layer is like it")
    changes = {}
    for (a, b), along in _quadratic(vectors, products, products.cross).items():
        # Derivative of s(X, Y) by the weight of each word, to first order in 1 / n.
        of_words = 2 * (along - norms[a] * norms[b]) + (norms[a] * norms[b].sum() + norms[a].sum() * norms[b]) / n**2
        changes[a, b] = np.bincount(clusters, of_words) / squared[a, b]
    found = {}
    for a, b in products.cross:
        if a != b:
            value = squared[a, b] / np.sqrt(squared[a, a] * squared[b, b])
            found[a, b] = value, value * (changes[a, b] - changes[a, a] / 2 - changes[b, b] / 2)
    return found


def _procrustes_pairs(
    vectors: LayerVectors, products: Products, clusters: Integers
) -> dict[tuple[int, int], tuple[float, Floats]]:
    rotations, nuclear = {}, {}
    for pair, matrix in products.cross.items():
        if pair[0] != pair[1]:
            left, scale, right = np.linalg.svd(matrix.astype(np.float64), full_matrices=False)
            rotations[pair], nuclear[pair] = (left @ right).astype(np.float32), scale.sum()
    lengths = np.sqrt(products.norms.sum(axis=1))
    shares = [np.bincount(clusters, norms) / norms.sum() for norms in products.norms]
    found = {}
    for (a, b), along in _quadratic(vectors, products, rotations).items():
        value = float(nuclear[a, b] / (lengths[a] * lengths[b]))
        change = np.bincount(clusters, along) / nuclear[a, b] - shares[a] / 2 - shares[b] / 2
        found[a, b] = value, value * change
    return found


def _by_cluster(clusters: Integers, values: Floats, n_clusters: int) -> Floats:
    """``[cluster]`` sums of the values of words."""
    return np.asarray(np.bincount(clusters, values, minlength=n_clusters), dtype=np.float64)


def _sampled(vectors: LayerVectors) -> list[Floats32]:
    return [vectors.of(layer)[:_SAMPLE] for layer in vectors.layers]


def _rsa_pairs(
    vectors: LayerVectors, products: Products, clusters: Integers, *, is_ranked: bool = False
) -> dict[tuple[int, int], tuple[float, Floats]]:
    cosines = [cosines_of(of_layer) for of_layer in _sampled(vectors)]
    n, n_clusters = len(cosines[0]), int(clusters[-1]) + 1
    off = ~np.eye(n, dtype=bool)
    scores = []
    for matrix in map(likeness.ranked, cosines) if is_ranked else cosines:
        centred = np.where(off, matrix - matrix[off].mean(), 0.0)
        scores.append(centred / np.sqrt((centred**2).sum()))
    found = {}
    for a, b in products.cross:
        if a != b:
            r = float((scores[a] * scores[b]).sum())
            # Derivative of a correlation over pairs by the weight of each pair; a word is in two of a pair's places.
            of_pairs = scores[a] * scores[b] - r / 2 * (scores[a] ** 2 + scores[b] ** 2)
            found[a, b] = r, _by_cluster(clusters[:n], 2 * of_pairs.sum(axis=1), n_clusters)
    return found


def _neighbour_pairs(
    vectors: LayerVectors, products: Products, clusters: Integers
) -> dict[tuple[int, int], tuple[float, Floats]]:
    neighbours = [nearest(of_layer, N_NEIGHBOURS) for of_layer in _sampled(vectors)]
    n, n_clusters = len(neighbours[0]), int(clusters[-1]) + 1
    found = {}
    for a, b in products.cross:
        if a != b:
            shared = shared_neighbours(neighbours[a], neighbours[b])
            mean = float(shared.mean())
            found[a, b] = mean, _by_cluster(clusters[:n], (shared - mean) / n, n_clusters)
    return found


SUMMED: Mapping[str, _PairMeasure] = {
    "cka": _cka_pairs,
    "procrustes": _procrustes_pairs,
    "rsa": _rsa_pairs,
    "rsa_spearman": partial(_rsa_pairs, is_ranked=True),
    "mutual_neighbours": _neighbour_pairs,
}
"""Measures that follow from products, cosines or neighbours, with what each sentence contributes."""


def _moves(vectors: LayerVectors, clusters: Integers) -> Iterator[LayerSums]:
    """How far words move from each layer to the next."""
    n_pairs = len(vectors.layers) - 1
    if not n_pairs:
        return
    n_clusters = int(clusters[-1]) + 1
    sums = np.zeros((2, n_pairs, n_clusters))
    for items, chunk in vectors.chunks():
        lengths = np.maximum(np.sqrt(np.einsum("lwd,lwd->lw", chunk, chunk)), 1e-30)
        for place in range(n_pairs):
            below, above = chunk[place], chunk[place + 1]
            cosines = np.einsum("wd,wd->w", below, above) / (lengths[place] * lengths[place + 1])
            change = above - below
            moved = np.sqrt(np.einsum("wd,wd->w", change, change)) / lengths[place]
            for number, values in enumerate((cosines, moved)):
                sums[number, place] += np.bincount(clusters[items], values, minlength=n_clusters)
    n_words = np.bincount(clusters).astype(np.float64)[None]
    for name, of_pairs in zip(("cosine_previous", "moved_previous"), sums, strict=True):
        yield LayerSums(name, vectors.layers[1:], of_pairs, n_words, "sentences")
