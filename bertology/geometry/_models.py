"""How far a model's vectors are from those of another model, of the same words, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from bertology._names import name_not_found
from bertology.errors import CorpusError
from bertology.geometry._between import MEASURES, left_out
from bertology.geometry._likeness import LEAST
from bertology.geometry._similarity import SUMMED, block_changes, products_of
from bertology.geometry._sums import Clusters, Floats, Integers, LayerSums, jackknife_sums
from bertology.geometry._text import mean_cosine
from bertology.geometry._vectors import Floats32, LayerVectors, unit_vectors

Pair = tuple[int, int]


def model_similarity(
    vectors: LayerVectors,
    reference: LayerVectors,
    sentences: Integers,
    *,
    layers: Sequence[Pair],
    measures: Sequence[str] = ("cka",),
) -> Iterator[LayerSums]:
    """How alike the layers of two models are, over the same words; widths and numbers of layers may differ.

    Args:
        vectors: of the words of a text.
        reference: of the same words in the other model.
        sentences: ``[word]`` the sentence of each, ascending.
        layers: each layer of ``vectors``, and the layer of ``reference`` that it is compared with.
        measures: as of :func:`bertology.geometry.layer_similarity`; ``procrustes`` as a distance,
            ``procrustes_distance`` = 1 − ``procrustes``: half the squared distance after the best rotation of vectors
            of length 1 in all, which is 0 where they differ by a rotation and a scale (Schönemann 1966; Ding et al.
            2021).

    Yields:
        Each measure, of ``cka`` by the group ``reference layer k`` also with each layer of the reference; and
        ``MEASURE_null``, the same with the words of the reference in random order.

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: there are fewer than two sentences, or four words, or the words are not the same.
        ModelError: a layer does not vary, or is not finite.
        FitError: fewer than ten words for each dimension, for ``svcca`` and ``pwcca``.
    """
    for measure in measures:
        if measure not in MEASURES:
            raise name_not_found("measure of similarity", measure, MEASURES)
    _, clusters = np.unique(sentences, return_inverse=True)
    if len(vectors) < LEAST or clusters[-1] < 1:
        raise CorpusError(f"{len(vectors)} words of one sentence are too few to compare models by: give more text")
    both, n_own = vectors.beside(reference), len(vectors.layers)
    places = {layer: place for place, layer in enumerate(vectors.layers)}
    others = {layer: n_own + place for place, layer in enumerate(reference.layers)}
    matched = [(places[layer], others[other]) for layer, other in layers]
    crossed = [(a, b) for a in places.values() for b in others.values()] if "cka" in measures else matched
    alone = [(place, place) for place in range(len(both.layers))]
    needed = [*alone, *crossed] if set(measures) & set(SUMMED) else alone[:1]
    products = products_of(both, needed)
    of_matched = replace(products, cross={pair: products.cross[pair] for pair in needed if pair in {*alone, *matched}})
    own = tuple(layer for layer, _ in layers)
    for measure in measures:
        kind: Clusters = "sentences" if measure in SUMMED else "blocks"
        if measure in SUMMED:
            found = SUMMED[measure](both, products if measure == "cka" else of_matched, clusters)
        else:
            pairs = [(a, b - n_own) for a, b in matched]
            without = left_out(MEASURES[measure], vectors, reference, clusters, pairs)
            found = {(a, b + n_own): change for (a, b), change in block_changes(without).items()}
        yield _sums(measure, own, [found[pair] for pair in matched], kind)
        for layer, place in others.items() if measure == "cka" else ():
            group = f"reference layer {layer}"
            of_all = [found[a, place] for a in places.values()]
            yield _sums(measure, vectors.layers, of_all, kind, group=group)
        yield _by_chance(measure, vectors, reference, layers)


def _sums(
    measure: str, layers: tuple[int, ...], found: Sequence[tuple[float, Floats]], kind: Clusters, *, group: str = ""
) -> LayerSums:
    values, influences = np.array([value for value, _ in found]), np.stack([change for _, change in found])
    if measure == "procrustes":
        return jackknife_sums("procrustes_distance", layers, 1 - values, -influences, kind, group=group)
    return jackknife_sums(measure, layers, values, influences, kind, group=group)


def _by_chance(
    measure: str, vectors: LayerVectors, reference: LayerVectors, layers: Sequence[Pair], *, seed: int = 0
) -> LayerSums:
    """What a measure shows of each layer with the words of the reference in random order; it has no interval."""
    chosen, found = MEASURES[measure], []
    n = chosen.words((vectors, reference))
    order = np.random.default_rng(seed).permutation(n)
    for layer, other in layers:
        part, shuffled = (chosen.prepare(one) for one in (vectors.of(layer)[:n], reference.of(other)[:n][order]))
        found.append(float(chosen.compare(part, shuffled)))
    values, name = np.array(found), measure
    if measure == "procrustes":
        values, name = 1 - values, "procrustes_distance"
    own = tuple(layer for layer, _ in layers)
    return LayerSums(f"{name}_null", own, values[:, None], np.ones((1, 1)), "blocks")


def anisotropy_change(
    vectors: LayerVectors, reference: LayerVectors, sentences: Integers, *, layers: Sequence[Pair]
) -> Iterator[LayerSums]:
    """Mean cosine of the vectors of two words, of all pairs of words, in both models, and by how much it differs.

    Ethayarajh (2019, §3.3) calls it anisotropy. Intervals leave out one sentence after the other (jackknife).

    Args:
        vectors: of the words of a text.
        reference: of the same words in the other model.
        sentences: ``[word]`` the sentence of each, ascending.
        layers: each layer of ``vectors``, and the layer of ``reference`` that it is compared with.

    Yields:
        ``anisotropy``, ``anisotropy_reference``, and ``anisotropy_change``, the former less the latter.

    Raises:
        CorpusError: the words are not the same.
        ModelError: a vector is zero or not finite.
    """
    vectors.check_same_words(reference)
    _, clusters = np.unique(sentences, return_inverse=True)
    counts = np.bincount(clusters)
    of_model, of_reference = (
        {layer: _mean_cosine(one.of(layer), layer, clusters, counts) for layer in dict.fromkeys(some)}
        for one, some in ((vectors, [own for own, _ in layers]), (reference, [other for _, other in layers]))
    )
    own = tuple(layer for layer, _ in layers)
    first = [of_model[layer] for layer, _ in layers]
    second = [of_reference[other] for _, other in layers]
    change = [(a - b, of_a - of_b) for (a, of_a), (b, of_b) in zip(first, second, strict=True)]
    for name, found in (("anisotropy", first), ("anisotropy_reference", second), ("anisotropy_change", change)):
        yield _sums(name, own, found, "sentences")


def _mean_cosine(vectors: Floats32, layer: int, clusters: Integers, counts: Integers) -> tuple[float, Floats]:
    """The mean cosine of all pairs of words, and ``[cluster]`` by how much it is more than without each cluster."""
    unit = unit_vectors(vectors, layer).astype(np.float64)
    by_cluster = np.add.reduceat(unit, np.append(0, counts.cumsum()[:-1]))
    return mean_cosine(by_cluster, counts)


def cosine_to_reference(
    vectors: LayerVectors, reference: LayerVectors, sentences: Integers, *, layers: Sequence[Pair]
) -> Iterator[LayerSums]:
    """How far a word's vector has moved from that of the reference, dimension by dimension, without any rotation.

    Only for models of one width; it means something where one was trained on from the other.

    Yields:
        ``cosine_reference``, the mean cosine of a word's two vectors; ``moved_reference``, the mean of ‖x − x′‖ / ‖x′‖,
        where x′ is the vector of the reference. Nothing where widths differ.

    Raises:
        CorpusError: the words are not the same.
    """
    vectors.check_same_words(reference)
    if vectors.dim != reference.dim:
        return
    _, clusters = np.unique(sentences, return_inverse=True)
    own = tuple(layer for layer, _ in layers)
    cosines, moves = [], []
    for layer, other in layers:
        x, y = vectors.of(layer), reference.of(other)
        of_words = np.einsum("wd,wd->w", unit_vectors(x, layer), unit_vectors(y, other))
        cosines.append(np.bincount(clusters, of_words))
        moves.append(np.bincount(clusters, np.linalg.norm(x - y, axis=1) / np.linalg.norm(y, axis=1)))
    n_words = np.bincount(clusters)[None].astype(np.float64)
    yield LayerSums("cosine_reference", own, np.stack(cosines), n_words, "sentences")
    yield LayerSums("moved_reference", own, np.stack(moves), n_words, "sentences")
