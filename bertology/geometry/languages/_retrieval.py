"""Retrieval: whether the nearest sentence of another language is the translation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from bertology.geometry._sums import Floats, Integers, LayerSums
from bertology.geometry._vectors import Floats32, LayerVectors, unit_vectors
from bertology.geometry.languages._sentences import Direction, LanguageItems, centred, erased, of_clusters, sums_of

_SHARE = 1e-6
"""Cosines that differ by less are of vectors that are the same."""
_Hits = dict[str, dict[Direction, Floats]]


def retrieval(
    read: LayerVectors, items: LanguageItems, *, folds: int = 5, neighbours: int = 10, seed: int = 0
) -> Iterator[LayerSums]:
    """Share of sentences whose nearest sentence of another language, by cosine, is their translation (P@1).

    Over both directions of every two languages; candidates are all sentences of the other language that have a
    translation, so that chance is one over their number. As they are (``retrieval``); ``_centred``: less the mean of
    their language (Libovický et al. 2019; Pires et al. 2019); ``_erased``: after LEACE of language; ``_projected``:
    turned by the orthogonal map that fits the other folds of pairs best, both centred there (Schönemann 1966), where
    the paper has a least-squares map; ``_csls``: cosines less the mean of those to the nearest neighbours of both
    (Conneau et al. 2018, eq. 3), and ``_centred_csls``. Of equally near ones each counts by its share.

    Args:
        read: vectors of the sentences, or of their words.
        items: the sentences.
        folds: parts into which pairs are divided for the projection.
        neighbours: of CSLS.
        seed: of the folds.

    Yields:
        Each of these, of all directions and by direction.
    """
    by_layer = read.each(lambda layer, vectors: _of_layer(layer, vectors, items, folds, neighbours, seed))
    members = {direction: (own, other) for direction, own, other in items.pairs()}
    for name in by_layer[0]:
        values = {}
        for first, second in members:
            for direction, asked in (((first, second), 0), ((second, first), 1)):
                clusters = items.clusters[members[first, second][asked]]
                over = of_clusters(np.stack([hits[name][direction] for hits in by_layer]), clusters, items.n_clusters)
                under = np.bincount(clusters, minlength=items.n_clusters)[None].astype(np.float64)
                values[items.title(direction)] = over, under
        yield from sums_of(name, read.layers, values)


def retrieval_of(similar: Floats32, items: LanguageItems) -> Iterator[LayerSums]:
    """The same of similarities ``[item, item]`` that no layer decides, such as those of spelling."""
    values = {}
    for direction, own, other in items.pairs():
        for (first, second), (asked, candidates) in ((direction, (own, other)), (direction[::-1], (other, own))):
            clusters, hits = items.clusters[asked], retrieved(similar[np.ix_(asked, candidates)])
            over = of_clusters(hits[None], clusters, items.n_clusters)
            under = np.bincount(clusters, minlength=items.n_clusters)[None].astype(np.float64)
            values[items.title((first, second))] = over, under
    yield from sums_of("retrieval", (None,), values)


def retrieved(similar: Floats32) -> Floats:
    """``[item]`` whether the candidate of the same number is the most similar; of equals its share.

    Args:
        similar: ``[item, candidate]``.
    """
    is_highest = similar >= similar.max(axis=1, keepdims=True) - _SHARE
    return np.asarray(is_highest.diagonal() / is_highest.sum(axis=1))


def _of_layer(layer: int, vectors: Floats32, items: LanguageItems, folds: int, neighbours: int, seed: int) -> _Hits:
    means = items.means(vectors)
    spaces = {"": means, "_centred": centred(means, items.language), "_erased": erased(means, items.language)}
    parts, hits = items.folds(folds, seed=seed), defaultdict[str, dict[Direction, Floats]](dict)

    def count(name: str, direction: Direction, similar: Floats32) -> None:
        hits[name][direction], hits[name][direction[::-1]] = retrieved(similar), retrieved(similar.T)

    for direction, own, other in items.pairs():
        for suffix, space in spaces.items():
            first, second = (unit_vectors(space[some], layer, may_vanish=True) for some in (own, other))
            similar = first @ second.T
            count(f"retrieval{suffix}", direction, similar)
            if suffix != "_erased":
                count(f"retrieval{suffix}_csls", direction, _csls(similar, neighbours))
        turned = _projected(means[own], means[other], parts[own])
        hits["retrieval_projected"][direction] = retrieved(turned[0])
        hits["retrieval_projected"][direction[::-1]] = retrieved(turned[1])
    return dict(hits)


def _csls(similar: Floats32, neighbours: int) -> Floats32:
    """``[item, candidate]`` cross-domain similarity local scaling of cosines."""

    def to_nearest(cosines: Floats32) -> Floats32:
        n = min(neighbours, cosines.shape[1])
        return np.asarray(np.partition(cosines, -n, axis=1)[:, -n:].mean(axis=1))

    return np.asarray(2 * similar - to_nearest(similar)[:, None] - to_nearest(similar.T)[None])


def _projected(own: Floats32, other: Floats32, folds: Integers) -> tuple[Floats32, Floats32]:
    """``[item, candidate]`` cosines both ways, each item turned by the map of the folds that it is not in."""
    forth, back = (np.empty((len(own), len(own)), dtype=np.float32) for _ in range(2))
    for fold in np.unique(folds):
        held_out = folds == fold
        known = ~held_out if not held_out.all() else held_out
        first, second = own - own[known].mean(axis=0), other - other[known].mean(axis=0)
        left, _, right = np.linalg.svd(first[known].T.astype(np.float64) @ second[known], full_matrices=False)
        turn = (left @ right).astype(np.float32)
        ones, others = (unit_vectors(some, 0, may_vanish=True) for some in (first, second))
        forth[held_out] = (ones[held_out] @ turn) @ others.T
        back[held_out] = (others[held_out] @ turn.T) @ ones.T
    return forth, back
