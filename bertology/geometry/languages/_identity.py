"""Language identity of sentences, before and after its removal; centroids of languages and how they cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bertology.errors import FitError
from bertology.geometry._layers import ROWS
from bertology.geometry._senses import v_measure
from bertology.geometry._sums import Floats, Integers, LayerSums, jackknife_sums
from bertology.geometry._vectors import Floats32, LayerVectors, unit_vectors
from bertology.geometry.languages._sentences import LanguageItems, centred, erased, of_clusters, sums_of

_PENALTY = 1e-3
"""Of the ridge regression, in mean variances of a dimension."""
_DIGITS = 6
"""Decimals of a class's predicted share that count: what a removed concept leaves is rounding."""
_MOST_BLOCKS = 20


def language_identity(
    read: LayerVectors, items: LanguageItems, *, folds: int = 5, seed: int = 0
) -> Iterator[LayerSums]:
    """Whether a linear classifier finds the language of a sentence, and whether its neighbours are of its language.

    ``identity`` is the accuracy of a least-squares classifier (ridge regression on class indicators) on the folds that
    it was not fitted to. ``_centred``: sentences less the mean of their language; ``_erased``: after LEACE, which no
    linear classifier survives. Means, erasure and classifier are fitted to the same folds. Removing a language so says
    nothing of what is not linear: ``same_language`` is the share of sentences whose nearest other sentence, by cosine,
    is of their language, none of its translations among them; ``_centred`` and ``_erased`` as above, of all sentences.

    Args:
        read: vectors of the sentences, or of their words.
        items: the sentences.
        folds: parts for cross-validation, in which translations stay together.
        seed: of the folds.

    Yields:
        Each of these, of all sentences and by language.

    Raises:
        FitError: a fold holds all sentences of a language.
    """
    parts = items.folds(folds, seed=seed)
    for fold in np.unique(parts):
        if len(np.unique(items.language[parts != fold])) < len(items.names):
            raise FitError(f"{len(items)} sentences are too few for {folds} folds: give more, or fewer folds")

    def of_layer(layer: int, vectors: Floats32) -> dict[str, Floats]:
        means, hits = items.means(vectors), defaultdict[str, Floats](lambda: np.zeros(len(items)))
        for fold in np.unique(parts):
            known = parts != fold
            for suffix, space in _spaces(means, items.language, known).items():
                predicted = _least_squares(space[known], items.language[known], space[~known])
                hits[f"identity{suffix}"][~known] = predicted == items.language[~known]
        for suffix, space in _spaces(means, items.language, np.ones(len(items), dtype=bool)).items():
            hits[f"same_language{suffix}"] = _has_neighbour(unit_vectors(space, layer, may_vanish=True), items)
        return dict(hits)

    by_layer = read.each(of_layer)
    for name in by_layer[0]:
        hits = np.stack([one[name] for one in by_layer])
        values = {}
        for number, language in enumerate(items.names):
            which = (items.language == number).astype(np.float64)
            over, under = (of_clusters(one, items.clusters, items.n_clusters) for one in (hits * which, which[None]))
            values[language] = over, under
        yield from sums_of(name, read.layers, values)


def _spaces(means: Floats32, language: Integers, known: NDArray[np.bool_]) -> dict[str, Floats32]:
    of_language = np.stack([means[known & (language == one)].mean(axis=0) for one in range(language.max() + 1)])
    return {
        "": means,
        "_centred": means - of_language[language],
        "_erased": erased(means, language, fitted_on=known),
    }


def _least_squares(known: Floats32, language: Integers, asked: Floats32) -> Integers:
    """``[item]`` the language whose indicator a ridge regression predicts the highest."""
    mean, shares = known.mean(axis=0, dtype=np.float64), np.bincount(language) / len(language)
    centred_, targets = known - mean, np.eye(len(shares))[language] - shares
    products = centred_.T @ centred_
    products[np.diag_indices_from(products)] += _PENALTY * max(products.trace() / len(products), _PENALTY)
    scores = (asked - mean) @ np.linalg.solve(products, centred_.T @ targets) + shares
    return np.asarray(np.round(scores, _DIGITS).argmax(axis=1))


def _has_neighbour(unit: Floats32, items: LanguageItems) -> Floats:
    """``[item]`` whether the nearest sentence that is no translation is of the same language."""
    nearest = np.empty(len(unit), dtype=np.int64)
    for first in range(0, len(unit), ROWS):
        rows = slice(first, first + ROWS)
        similar = unit[rows] @ unit.T
        similar[items.clusters[rows, None] == items.clusters] = -np.inf
        nearest[rows] = similar.argmax(axis=1)
    return np.asarray(items.language[nearest] == items.language, dtype=np.float64)


def language_centroids(
    read: LayerVectors, items: LanguageItems, *, families: Mapping[str, str] | None = None
) -> Iterator[LayerSums]:
    """How far languages lie apart, and in what order their centroids join (Libovický et al. 2019, §5).

    ``between_languages`` is the share of the variance of sentences that lies between languages, unbiased (ε², Kelley
    1935); by pair, of the sentences of both. ``merged_at``, by pair: the height at which two languages are joined by
    hierarchical clustering of their centroids (average linkage of distances), over that of the last join.
    ``family_v_measure``: agreement of as many clusters as there are families with the families.

    Args:
        read: vectors of the sentences, or of their words.
        items: the sentences.
        families: of languages; the agreement is left out unless two families are there, one of two languages.

    Yields:
        These statistics; intervals of those of clusters by the jackknife over blocks of sentences.
    """
    pairs = list(combinations(range(len(items.names)), 2))
    groups = {items.title(pair, "–"): np.isin(items.language, pair) for pair in pairs if len(items.names) > 2}
    every = {"": np.ones(len(items), dtype=bool), **groups}
    blocks = items.clusters * min(_MOST_BLOCKS, items.n_clusters) // items.n_clusters

    def of_layer(_: int, vectors: Floats32) -> tuple[dict[str, Floats], Floats]:
        means, shares = items.means(vectors), dict[str, Floats]()
        for name, which in every.items():
            both = _between(means[which], items.language[which])
            shares[name] = of_clusters(np.stack(both), items.clusters[which], items.n_clusters)
        return shares, _without_blocks(means, items, blocks)

    by_layer = read.each(of_layer)
    for name in by_layer[0][0]:
        over, under = np.stack([one[0][name] for one in by_layer], axis=1)
        yield LayerSums("between_languages", read.layers, over, under, "sentences", name)
    if len(items.names) > 2:
        yield from _clustered(read.layers, [one[1] for one in by_layer], items, pairs, families or {})


def _between(means: Floats32, language: Integers) -> tuple[Floats, Floats]:
    """``[item]`` what each adds to the variance between languages, and to the whole."""
    total, within = (np.square(space).sum(axis=1) for space in (means - means.mean(axis=0), centred(means, language)))
    n, n_languages = len(means), len(np.unique(language))
    return total / (n - 1) - within / (n - n_languages), total / (n - 1)


def _without_blocks(means: Floats32, items: LanguageItems, blocks: Integers) -> Floats:
    """``[1 + block, language, dim]`` centroids of all sentences, and without each block."""
    n_blocks, n_languages = int(blocks.max()) + 1, len(items.names)
    sums = np.zeros((n_blocks, n_languages, means.shape[1]))
    np.add.at(sums, (blocks, items.language), means)
    counts = np.zeros((n_blocks, n_languages))
    np.add.at(counts, (blocks, items.language), 1)
    left = counts.sum(axis=0) - counts
    # of a language that one block holds alone nothing would be left: it keeps its centroid
    without = np.where(left[..., None] > 0, (sums.sum(axis=0) - sums) / np.maximum(left, 1)[..., None], 0)
    whole = sums.sum(axis=0) / counts.sum(axis=0)[:, None]
    return np.concatenate([whole[None], np.where(left[..., None] > 0, without, whole)])


def _clustered(
    layers: tuple[int, ...],
    centroids: list[Floats],
    items: LanguageItems,
    pairs: list[tuple[int, int]],
    families: Mapping[str, str],
) -> Iterator[LayerSums]:
    from scipy.cluster.hierarchy import cophenet, fcluster, linkage
    from scipy.spatial.distance import pdist

    trees = [[linkage(pdist(one), "average") for one in of_layer] for of_layer in centroids]
    heights = np.array([[cophenet(tree) / max(tree[-1, 2], 1e-12) for tree in of_layer] for of_layer in trees])
    for place, pair in enumerate(pairs):
        yield _jackknifed("merged_at", layers, heights[..., place], items.title(pair, "–"))
    known = [families.get(language, language) for language in items.names]
    names, codes = np.unique(known, return_inverse=True)
    if 1 < len(names) < len(known):
        agreement = np.array(
            [[_agreement(fcluster(tree, len(names), "maxclust"), codes) for tree in some] for some in trees]
        )
        yield _jackknifed("family_v_measure", layers, agreement)


def _agreement(clusters: Integers, codes: Integers) -> float:
    table = np.zeros((int(codes.max()) + 1, int(clusters.max())))
    np.add.at(table, (codes, clusters - 1), 1)
    return v_measure(table)


def _jackknifed(metric: str, layers: tuple[int, ...], values: Floats, group: str = "") -> LayerSums:
    """A statistic from its values ``[layer, 1 + block]`` on all data and without each block."""
    return jackknife_sums(metric, layers, values[:, 0], values[:, :1] - values[:, 1:], "blocks", group=group)
