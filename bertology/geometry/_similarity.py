"""Which layers hold the same geometry: likeness of two sets of vectors of the same words.

Each measure is a plain function of two arrays; :func:`layer_similarity` computes them for all pairs of layers at once,
reading the vectors twice, with what each sentence contributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._names import name_not_found
from bertology.errors import CorpusError, FitError, ModelError
from bertology.geometry._sums import Floats, Integers, LayerSums, jackknife_sums
from bertology.geometry._vectors import Floats32, LayerVectors

_LEAST = 4
"""Words below which the unbiased estimate of HSIC is not defined."""
_SAMPLE = 1000
"""Words of which all pairs are formed, for measures of neighbours and of pairs."""
_K = 10


def linear_cka(x: ArrayLike, y: ArrayLike, *, debiased: bool = True) -> float:
    """Linear centred kernel alignment of vectors ``[word, p]`` and ``[word, q]`` of the same words.

    1 for vectors that differ by a rotation and a scale (Kornblith et al. 2019). The plain estimate of independent
    vectors is about p / (n + p); the debiased one, of Song et al.'s (2007) HSIC₁, is about 0 and may be negative.

    Raises:
        FitError: fewer than four words, or vectors that do not vary.
    """
    a, b = _centred(x), _centred(y)
    _check_rows(a, b, _LEAST)
    cross, own_a, own_b = (
        _hsic(((left.T @ right) ** 2).sum(), (left**2).sum(axis=1), (right**2).sum(axis=1), debiased=debiased)
        for left, right in ((a, b), (a, a), (b, b))
    )
    if not (own_a > 0 and own_b > 0):
        raise FitError("CKA of vectors that do not vary is not defined: give words with different vectors")
    return float(cross / np.sqrt(own_a * own_b))


def _hsic(squared: float, norms_a: Floats, norms_b: Floats, *, debiased: bool = True) -> float:
    """‖XᵀY‖² of centred vectors, debiased: s(X, Y), of which n (n − 3) HSIC₁ is the value."""
    if not debiased:
        return float(squared)
    n = len(norms_a)
    return float(squared - n / (n - 2) * (norms_a @ norms_b) + norms_a.sum() * norms_b.sum() / ((n - 1) * (n - 2)))


def procrustes(x: ArrayLike, y: ArrayLike) -> float:
    """Similarity of two sets of vectors after the best rotation: ‖XᵀY‖_* / (‖X‖ ‖Y‖) of centred vectors, 0 to 1.

    The squared Procrustes distance of vectors scaled to length 1 is 2 − 2 times this (Schönemann 1966; Ding et al.
    2021 find it to follow a model's behaviour best). ``x`` is ``[word, p]``, ``y`` ``[word, q]``.

    Raises:
        FitError: other numbers of words, or vectors that do not vary.
    """
    a, b = _centred(x), _centred(y)
    _check_rows(a, b, 2)
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    if not scale > 0:
        raise FitError("vectors that do not vary cannot be rotated onto others: give words with different vectors")
    return float(np.linalg.svd(a.T @ b, compute_uv=False).sum() / scale)


def rsa(x: ArrayLike, y: ArrayLike) -> float:
    """Representational similarity: Pearson's r of the cosines of all pairs of words in both sets of vectors.

    As Abnar et al. (2019) and Merchant et al. (2020, §4). ``x`` is ``[word, p]``, ``y`` ``[word, q]``.
    """
    a, b = _cosines(np.asarray(x)), _cosines(np.asarray(y))
    _check_rows(a, b, 3)
    above = np.triu_indices(len(a), 1)
    return float(np.corrcoef(a[above], b[above])[0, 1])


def mutual_neighbours(x: ArrayLike, y: ArrayLike, *, k: int = _K) -> float:
    """Mean share of a word's ``k`` nearest neighbours (by cosine) that are the same in both sets of vectors.

    Huh et al. (2024), §2. By chance it is k / (n − 1).

    Raises:
        FitError: there are not more words than neighbours.
    """
    a, b = np.asarray(x), np.asarray(y)
    _check_rows(a, b, k + 2)
    return float(_shared_neighbours(_neighbours(a, k), _neighbours(b, k)).mean())


def svcca(x: ArrayLike, y: ArrayLike, *, variance: float = 0.99) -> float:
    """Mean canonical correlation of the principal components that hold 99 % of the variance (Raghu et al. 2017).

    Raises:
        FitError: fewer than ten words for each component, with which correlations are high by chance.
    """
    return float(_canonical(*(_components(_centred(part), variance) for part in (x, y)))[0].mean())


def pwcca(x: ArrayLike, y: ArrayLike) -> float:
    """Canonical correlations weighted by how much of ``x`` their directions account for (Morcos et al. 2018).

    Not symmetric: weights are those of ``x``. Raises as :func:`svcca`.
    """
    a = _centred(x)
    correlations, directions = _canonical(_components(a, 1.0), _components(_centred(y), 1.0))
    weights = np.abs(directions.T @ a).sum(axis=1)
    return float(weights @ correlations / weights.sum())


def neuron_matching(x: ArrayLike, y: ArrayLike) -> float:
    """Mean over dimensions of ``x`` of the largest |r| with a dimension of ``y`` (Wu et al. 2020, *maxcorr*)."""
    a, b = _centred(x), _centred(y)
    _check_rows(a, b, 3)
    a, b = (part[:, part.std(axis=0) > 0] for part in (a, b))
    r = (a / np.linalg.norm(a, axis=0)).T @ (b / np.linalg.norm(b, axis=0))
    return float(np.abs(r).max(axis=1).mean())


def _centred(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return np.asarray(array - array.mean(axis=0))


def _check_rows(a: NDArray[np.floating], b: NDArray[np.floating], least: int) -> None:
    if len(a) != len(b):
        raise FitError(f"vectors of {len(a)} and {len(b)} words cannot be compared: give those of the same words")
    if len(a) < least:
        raise FitError(f"{len(a)} words are too few to compare vectors by: give {least} or more")


def _components(centred: Floats, variance: float) -> Floats:
    """``[word, component]`` orthonormal scores of the components that hold a share of the variance."""
    scores, scale, _ = np.linalg.svd(centred, full_matrices=False)
    held = np.cumsum(scale**2) / (scale**2).sum()
    n = int(np.searchsorted(held, variance - 1e-12)) + 1
    n = min(n, int((scale > scale[0] * 1e-10).sum()))
    if len(centred) < 10 * n:
        remedy = f"give {10 * n} words or more, or compare by cka"
        raise FitError(f"{len(centred)} words are too few for canonical correlations of {n} dimensions: {remedy}")
    return np.asarray(scores[:, :n])


def _canonical(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Canonical correlations, and the canonical directions ``[word, component]`` of the first set."""
    _check_rows(a, b, 2)
    rotation, correlations, _ = np.linalg.svd(a.T @ b, full_matrices=False)
    return np.clip(correlations, 0, 1), a @ rotation


def _cosines(vectors: NDArray[np.floating]) -> Floats:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T, dtype=np.float64)


def _neighbours(vectors: NDArray[np.floating], k: int) -> Integers:
    """``[word, k]`` the nearest other words by cosine."""
    cosines = _cosines(vectors)
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(np.argpartition(-cosines, k, axis=1)[:, :k])


def _shared_neighbours(a: Integers, b: Integers) -> Floats:
    """``[word]`` the share of neighbours in both."""
    return np.asarray((a[:, :, None] == b[:, None, :]).any(axis=2).mean(axis=1))


@dataclass(frozen=True, eq=False)
class _Products:
    """What all pairs of layers are compared by: products of centred vectors."""

    means: Floats32
    """``[layer, dim]``"""
    cross: Mapping[tuple[int, int], Floats32]
    """``[dim, dim]`` XᵀY by places of two layers, the first not above the second."""
    norms: Floats
    """``[layer, word]`` squared lengths."""


PairMeasure = Callable[[LayerVectors, _Products, Integers], Mapping[tuple[int, int], tuple[float, Floats]]]


def layer_similarity(
    vectors: LayerVectors, sentences: Integers, *, measures: Sequence[str] = ("cka",)
) -> Iterator[LayerSums]:
    """How alike all pairs of layers are, and how far a word moves from each layer to the next that is read.

    Args:
        vectors: of the words of a text.
        sentences: ``[word]`` the sentence of each, ascending.
        measures: some of ``cka`` (linear, debiased), ``procrustes``, ``rsa`` and ``mutual_neighbours``; the last two of
            the first 1,000 words.

    Yields:
        Each measure with the layer before in ``vectors.layers``, and by the group ``layer k`` with each other layer k.
        Then ``cosine_previous`` and ``moved_previous``, ‖x − x′‖ / ‖x′‖, of a word's vectors x and x′ in both (Lan et
        al. 2020, figure 1 shows angle and distance).

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: there are fewer than two sentences, or four words.
        ModelError: a layer does not vary, or is not finite.
    """
    for measure in measures:
        if measure not in _MEASURES:
            raise name_not_found("measure of similarity", measure, _MEASURES)
    _, clusters = np.unique(sentences, return_inverse=True)
    if len(vectors) < _LEAST or clusters[-1] < 1:
        raise CorpusError(f"{len(vectors)} words of one sentence are too few to compare layers by: give more text")
    products = _products(vectors)
    layers = vectors.layers
    for measure in measures:
        pairs = _MEASURES[measure](vectors, products, clusters)
        whole = np.ones((len(layers), len(layers)))
        influences = np.zeros((len(layers), len(layers), clusters[-1] + 1))
        for (a, b), (value, of_clusters) in pairs.items():
            whole[a, b] = whole[b, a] = value
            influences[a, b] = influences[b, a] = of_clusters
        if len(layers) > 1:
            above, below = np.arange(1, len(layers)), np.arange(len(layers) - 1)
            kept = whole[above, below], influences[above, below]
            yield jackknife_sums(measure, layers[1:], *kept, "sentences")
        for other, layer in enumerate(layers):
            places = [place for place in range(len(layers)) if place != other]
            if places:
                kept = whole[places, other], influences[places, other]
                chosen = tuple(layers[place] for place in places)
                yield jackknife_sums(measure, chosen, *kept, "sentences", group=f"layer {layer}")
    yield from _moves(vectors, clusters)


def _products(vectors: LayerVectors) -> _Products:
    n_layers, n_words = len(vectors.layers), len(vectors)
    totals = np.zeros((n_layers, vectors.dim))
    for _, chunk in vectors.chunks():
        totals += chunk.sum(axis=1, dtype=np.float64)
    means = (totals / n_words).astype(np.float32)
    if not np.isfinite(means).all():
        layer = vectors.layers[int(np.flatnonzero(~np.isfinite(means).all(axis=1))[0])]
        raise ModelError(f"layer {layer}: vectors are not finite: compute in float32, or give another model")
    pairs = [(a, b) for a in range(n_layers) for b in range(a, n_layers)]
    cross = {pair: np.zeros((vectors.dim, vectors.dim), dtype=np.float32) for pair in pairs}
    norms = np.zeros((n_layers, n_words))
    for items, chunk in vectors.chunks():
        centred = chunk - means[:, None]
        norms[:, items] = (centred**2).sum(axis=2, dtype=np.float64)
        for a, b in pairs:
            cross[a, b] += centred[a].T @ centred[b]
    return _Products(means, cross, norms)


def _quadratic(
    vectors: LayerVectors, products: _Products, matrices: Mapping[tuple[int, int], Floats32]
) -> dict[tuple[int, int], Floats]:
    """``[word]`` xᵀ M y of the centred vectors of each word in two layers."""
    found = {pair: np.zeros(len(vectors)) for pair in matrices}
    for items, chunk in vectors.chunks():
        centred = chunk - products.means[:, None]
        for (a, b), matrix in matrices.items():
            found[a, b][items] = np.einsum("wd,wd->w", centred[a] @ matrix, centred[b])
    return found


def _cka_pairs(
    vectors: LayerVectors, products: _Products, clusters: Integers
) -> dict[tuple[int, int], tuple[float, Floats]]:
    norms, n = products.norms, len(vectors)
    hsic = {
        pair: _hsic(float((matrix.astype(np.float64) ** 2).sum()), norms[pair[0]], norms[pair[1]])
        for pair, matrix in products.cross.items()
    }
    for place, layer in enumerate(vectors.layers):
        if not hsic[place, place] > 0:
            raise ModelError(f"layer {layer}: words do not differ in their vectors, so that no other layer is like it")
    changes = {}
    for (a, b), along in _quadratic(vectors, products, products.cross).items():
        # Derivative of s(X, Y) by the weight of each word, to first order in 1 / n.
        of_words = 2 * (along - norms[a] * norms[b]) + (norms[a] * norms[b].sum() + norms[a].sum() * norms[b]) / n**2
        changes[a, b] = np.bincount(clusters, of_words) / hsic[a, b]
    found = {}
    for a, b in products.cross:
        if a != b:
            value = hsic[a, b] / np.sqrt(hsic[a, a] * hsic[b, b])
            found[a, b] = value, value * (changes[a, b] - changes[a, a] / 2 - changes[b, b] / 2)
    return found


def _procrustes_pairs(
    vectors: LayerVectors, products: _Products, clusters: Integers
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
    vectors: LayerVectors, products: _Products, clusters: Integers
) -> dict[tuple[int, int], tuple[float, Floats]]:
    cosines = [_cosines(of_layer) for of_layer in _sampled(vectors)]
    n, n_clusters = len(cosines[0]), int(clusters[-1]) + 1
    off = ~np.eye(n, dtype=bool)
    scores = []
    for matrix in cosines:
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
    vectors: LayerVectors, products: _Products, clusters: Integers
) -> dict[tuple[int, int], tuple[float, Floats]]:
    neighbours = [_neighbours(of_layer, _K) for of_layer in _sampled(vectors)]
    n, n_clusters = len(neighbours[0]), int(clusters[-1]) + 1
    found = {}
    for a, b in products.cross:
        if a != b:
            shared = _shared_neighbours(neighbours[a], neighbours[b])
            mean = float(shared.mean())
            found[a, b] = mean, _by_cluster(clusters[:n], (shared - mean) / n, n_clusters)
    return found


_MEASURES: Mapping[str, PairMeasure] = {
    "cka": _cka_pairs,
    "procrustes": _procrustes_pairs,
    "rsa": _rsa_pairs,
    "mutual_neighbours": _neighbour_pairs,
}


def _moves(vectors: LayerVectors, clusters: Integers) -> Iterator[LayerSums]:
    """How far words move from each layer to the next."""
    n_pairs = len(vectors.layers) - 1
    if not n_pairs:
        return
    sums = np.zeros((2, n_pairs, int(clusters[-1]) + 1))
    for items, chunk in vectors.chunks():
        below, above = chunk[:-1].astype(np.float64), chunk[1:].astype(np.float64)
        lengths = np.linalg.norm(chunk.astype(np.float64), axis=2)
        cosines = (below * above).sum(axis=2) / np.maximum(lengths[:-1] * lengths[1:], 1e-30)
        moved = np.linalg.norm(above - below, axis=2) / np.maximum(lengths[:-1], 1e-30)
        for number, values in enumerate((cosines, moved)):
            for place in range(n_pairs):
                np.add.at(sums[number, place], clusters[items], values[place])
    n_words = np.bincount(clusters).astype(np.float64)[None]
    for name, of_pairs in zip(("cosine_previous", "moved_previous"), sums, strict=True):
        yield LayerSums(name, vectors.layers[1:], of_pairs, n_words, "sentences")
