"""Statistics of sentences and words of several languages in the space of an encoder, layer by layer.

:class:`LanguageItems` holds sentences by language. Language identity, centroids and retrieval of translations are about
their vectors, :func:`transfer` about readouts fitted to the words of one language. Links and translations of words are
in ``_alignment.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bertology.activations.layers import ROWS, Floats32, Groups, LayerVectors, group_sums, unit_vectors
from bertology.corpora import ParallelText
from bertology.errors import CorpusError, FitError
from bertology.geometry._alignment import (
    METHODS,
    AlignedPairs,
    AlignedTexts,
    TranslatedWords,
    align_words,
    aligned_texts,
    alignment_scores,
    by_dictionary,
    scores_of_links,
    translation,
    translation_scores,
)
from bertology.geometry._senses import v_measure
from bertology.measures.sums import (
    Bools,
    Floats,
    Integers,
    Layers,
    LayerSums,
    cluster_sums,
    grouped_sums,
    left_out_sums,
    weighted_sums,
)

__all__ = [
    "METHODS",
    "AlignedPairs",
    "AlignedTexts",
    "LabelledWords",
    "LanguageItems",
    "TransferItems",
    "TranslatedWords",
    "align_words",
    "aligned_texts",
    "alignment_scores",
    "by_dictionary",
    "language_centroids",
    "language_identity",
    "retrieval",
    "retrieval_of",
    "scores_of_links",
    "transfer",
    "translation",
    "translation_scores",
]

Direction = tuple[int, int]
_Sums = tuple[Floats, Floats]
"""Numerators and denominators."""
_PENALTY = 1e-3
"""Strength of the ridge regression, in mean variances of a dimension."""
_DIGITS = 6
"""Decimals of a class's predicted share that count: a removed concept leaves rounding."""
_MOST_BLOCKS = 20
_SHARE = 1e-6
"""Cosines that differ by less are of vectors that are the same."""
_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class LanguageItems:
    """Sentences of several languages that have vectors."""

    names: tuple[str, ...]
    """Names of the languages."""
    language: Integers
    """``[item]`` the language of each."""
    units: Integers
    """``[item]`` the unit that it shares with its translations, −1 for none."""
    bounds: Integers
    """``[item + 1]`` the place of the first vector of each sentence, and the number of vectors."""

    @classmethod
    def of(cls, text: ParallelText, of_vector: Integers) -> LanguageItems:
        """The sentences of a text that have vectors.

        Args:
            text: the sentences.
            of_vector: ``[vector]`` the number of the sentence of each, ascending: of its words, or of itself.

        Raises:
            CorpusError: fewer than two sentences of some language have vectors.
        """
        numbers, starts = np.unique(of_vector, return_index=True)
        language = text.language[numbers]
        counts = np.bincount(language[language >= 0], minlength=len(text.languages))
        if (counts < 2).any():
            lone = text.languages[int(counts.argmin())]
            raise CorpusError(f"fewer than two sentences of {lone} can be read: give more, or another model")
        return cls(text.languages, language, text.unit[numbers], np.append(starts, len(of_vector)))

    def __len__(self) -> int:
        return len(self.language)

    def means(self, vectors: Floats32) -> Floats32:
        """``[item, dim]`` the mean of the vectors ``[vector, dim]`` of each sentence."""
        return np.asarray(group_sums(vectors, self.bounds) / np.diff(self.bounds)[:, None].astype(np.float32))

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """``[item]`` clusters that are resampled: a sentence with all its translations."""
        own = np.where(self.units >= 0, self.units, self.units.max() + 1 + np.arange(len(self)))
        return np.asarray(np.unique(own, return_inverse=True)[1])

    @property
    def n_clusters(self) -> int:
        """Number of :attr:`clusters`."""
        return int(self.clusters.max()) + 1

    def folds(self, number: int, *, seed: int = 0) -> NDArray[np.int64]:
        """``[item]`` one of so many parts, drawn at random, which divide no sentence from its translations."""
        order = np.random.default_rng(seed).permutation(self.n_clusters)
        return np.asarray((order % number)[self.clusters])

    def pairs(self) -> Iterator[tuple[Direction, Integers, Integers]]:
        """Every two languages, with the places of the sentences that translate each other in both."""
        for first, second in combinations(range(len(self.names)), 2):
            own, other = (np.flatnonzero((self.language == one) & (self.units >= 0)) for one in (first, second))
            _, ours, theirs = np.intersect1d(self.units[own], self.units[other], return_indices=True)
            if len(ours):
                yield (first, second), own[ours], other[theirs]

    def title(self, direction: Direction, arrow: str = "→") -> str:
        """A pair of languages as tables name it."""
        return f"{self.names[direction[0]]} {arrow} {self.names[direction[1]]}"


def erased(vectors: Floats32, language: Integers, *, fitted_on: Bools | None = None) -> Floats32:
    """Vectors ``[item, dim]`` after LEACE of their language (Belrose et al. 2023), fitted to some or to all of them."""
    import torch  # imports a lot, which naming the statistics need not

    from bertology.readouts import ArrayFeatures, fit_erasure

    which = np.ones(len(vectors), dtype=bool) if fitted_on is None else fitted_on
    _, labels = np.unique(language[which], return_inverse=True)
    erasure = fit_erasure(ArrayFeatures(vectors[None, which]), labels, int(labels.max()) + 1)
    return np.asarray(erasure.erase(torch.from_numpy(vectors.astype(np.float64))[None])[0].numpy())


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
        seed: random seed of the folds.

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
        values = {
            language: weighted_sums(hits, items.clusters, items.language == number, items.n_clusters)
            for number, language in enumerate(items.names)
        }
        yield from grouped_sums(name, read.layers, values)


def _spaces(means: Floats32, language: Integers, known: Bools) -> dict[str, Floats32]:
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
    """How far languages lie apart, and in which order their centroids join (Libovický et al. 2019, §5).

    ``between_languages`` is the share of the variance of sentences that lies between languages, unbiased (ε², Kelley
    1935); by pair, of the sentences of both. ``merged_at``, by pair: the height at which two languages are joined by
    hierarchical clustering of their centroids (average linkage of distances), over that of the last join.
    ``family_v_measure``: agreement of as many clusters as there are families with the families.

    Args:
        read: vectors of the sentences, or of their words.
        items: the sentences.
        families: families of languages; the agreement is left out unless two families are there, one of two languages.

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
            shares[name] = cluster_sums(np.stack(both), items.clusters[which], items.n_clusters)
        return shares, _without_blocks(means, items, blocks)

    by_layer = read.each(of_layer)
    for name in by_layer[0][0]:
        over, under = np.stack([one[0][name] for one in by_layer], axis=1)
        yield LayerSums("between_languages", read.layers, over, under, "sentences", name)
    if len(items.names) > 2:
        yield from _clustered(read.layers, [one[1] for one in by_layer], items, pairs, families or {})


def _between(means: Floats32, language: Integers) -> tuple[Floats, Floats]:
    """``[item]`` contributions to the variance between languages, and to the whole."""
    spaces = means - means.mean(axis=0), Groups(language).centred(means)
    total, within = (np.square(space).sum(axis=1) for space in spaces)
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
        yield left_out_sums("merged_at", layers, heights[..., place], "blocks", group=items.title(pair, "–"))
    known = [families.get(language, language) for language in items.names]
    names, codes = np.unique(known, return_inverse=True)
    if 1 < len(names) < len(known):
        agreement = np.array(
            [[_agreement(fcluster(tree, len(names), "maxclust"), codes) for tree in some] for some in trees]
        )
        yield left_out_sums("family_v_measure", layers, agreement, "blocks")


def _agreement(clusters: Integers, codes: Integers) -> float:
    table = np.zeros((int(codes.max()) + 1, int(clusters.max())))
    np.add.at(table, (codes, clusters - 1), 1)
    return v_measure(table)


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
        neighbours: number of neighbours of CSLS.
        seed: random seed of the folds.

    Yields:
        Each of these, of all directions and by direction.
    """
    by_layer = read.each(lambda layer, vectors: _hits(vectors, items, folds, neighbours, seed))
    for name in by_layer[0]:
        hits = {direction: np.stack([one[name][direction] for one in by_layer]) for direction in by_layer[0][name]}
        yield from _direction_sums(name, read.layers, hits, items)


def retrieval_of(similar: Floats32, items: LanguageItems) -> Iterator[LayerSums]:
    """The same of similarities ``[item, item]`` that no layer decides, such as those of spelling."""
    hits = {}
    for direction, own, other in items.pairs():
        of_pair = similar[np.ix_(own, other)], similar[np.ix_(other, own)]
        hits[direction], hits[direction[::-1]] = (retrieved(one)[None] for one in of_pair)
    yield from _direction_sums("retrieval", (None,), hits, items)


def _direction_sums(
    metric: str, layers: Layers, hits: Mapping[Direction, Floats], items: LanguageItems
) -> Iterator[LayerSums]:
    """The share of hits ``[layer, item]`` over all directions and by direction."""
    asked = {}
    for direction, own, other in items.pairs():
        asked[direction], asked[direction[::-1]] = own, other
    yield from grouped_sums(
        metric,
        layers,
        {
            items.title(direction): weighted_sums(hits[direction], items.clusters[own], n_clusters=items.n_clusters)
            for direction, own in asked.items()
        },
    )


def retrieved(similar: Floats32) -> Floats:
    """``[item]`` whether the candidate of the same number is the most similar; of equals its share.

    Args:
        similar: ``[item, candidate]``.
    """
    is_highest = similar >= similar.max(axis=1, keepdims=True) - _SHARE
    return np.asarray(is_highest.diagonal() / is_highest.sum(axis=1))


def _hits(
    vectors: Floats32, items: LanguageItems, folds: int, neighbours: int, seed: int
) -> dict[str, dict[Direction, Floats]]:
    """``[item]`` by space and direction whether the translation is the nearest."""
    means = items.means(vectors)
    spaces = {
        "": means,
        "_centred": Groups(items.language).centred(means),
        "_erased": erased(means, items.language),
    }
    parts, hits = items.folds(folds, seed=seed), defaultdict[str, dict[Direction, Floats]](dict)

    def count(name: str, direction: Direction, forth: Floats32, back: Floats32) -> None:
        hits[name][direction], hits[name][direction[::-1]] = retrieved(forth), retrieved(back)

    for direction, own, other in items.pairs():
        for suffix, space in spaces.items():
            first, second = (unit_vectors(space[some], may_vanish=True) for some in (own, other))
            similar = first @ second.T
            count(f"retrieval{suffix}", direction, similar, similar.T)
            if suffix != "_erased":
                scaled = _csls(similar, neighbours)
                count(f"retrieval{suffix}_csls", direction, scaled, scaled.T)
        count("retrieval_projected", direction, *_projected(means[own], means[other], parts[own]))
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
        ones, others = (unit_vectors(some, may_vanish=True) for some in (first, second))
        forth[held_out] = (ones[held_out] @ turn) @ others.T
        back[held_out] = (others[held_out] @ turn.T) @ ones.T
    return forth, back


@dataclass(frozen=True, eq=False)
class LabelledWords:
    """Words of a split that have a label, and the vectors that stand for them."""

    places: Integers
    """``[item]`` the place of the word's vector among those that are read."""
    language: Integers
    """``[item]``"""
    codes: NDArray[np.int64]
    """``[item]`` the label of each, numbered through all splits."""

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class TransferItems:
    """The items of a question about words in several languages."""

    names: tuple[str, ...]
    """Names of the languages."""
    n_labels: int
    splits: Mapping[str, LabelledWords]
    """``train``, ``dev`` and ``test``."""
    clusters: Integers
    """``[item]`` clusters of test that are resampled: a sentence with its translations."""

    @property
    def sources(self) -> tuple[int, ...]:
        """The languages of which there are two labels to learn from, and words of dev to choose the strength by."""
        train, dev = self.splits["train"], self.splits["dev"]
        known = (n for n in range(len(self.names)) if len(np.unique(train.codes[train.language == n])) > 1)
        return tuple(n for n in known if (dev.language == n).any())

    @property
    def n_clusters(self) -> int:
        """Number of :attr:`clusters`."""
        return int(self.clusters.max()) + 1

    def scores(self, metric: str, layers: Layers, right: Mapping[int, Floats]) -> Iterator[LayerSums]:
        """Accuracy by source and target, and over all pairs of two languages.

        Args:
            metric: its name.
            layers: layers of the values.
            right: by source ``[layer, item]`` whether each item of test is right.
        """
        test, pairs = self.splits["test"], {}
        for source, hits in right.items():
            for target in np.unique(test.language).tolist():
                if target != source:
                    pairs[f"{self.names[source]} → {self.names[target]}"] = self._sums(hits, test.language == target)
        yield from grouped_sums(metric, layers, pairs)

    def own_scores(self, metric: str, layers: Layers, right: Mapping[int, Floats]) -> Iterator[LayerSums]:
        """Accuracy in the language of the source itself; arguments as of :meth:`scores`."""
        test = self.splits["test"]
        known = [source for source in right if (test.language == source).any()]
        if known:
            values = {self.names[source]: self._sums(right[source], test.language == source) for source in known}
            yield from grouped_sums(metric, layers, values)

    def _sums(self, hits: Floats, which: Bools) -> _Sums:
        return weighted_sums(hits, self.clusters, which, self.n_clusters)


def transfer(vectors: Mapping[str, LayerVectors], items: TransferItems) -> Iterator[LayerSums]:
    """Accuracy of logistic regression fitted to one language, in the others (cf. Pires et al. 2019, §3).

    One fit for each language, of all layers in the same passes; its strength is chosen on dev of the same language.
    Three ways to put it to another language: to the vectors as they are; after moving them by the difference of the
    means of both languages (``_centred``); and after giving them the mean and the spread, dimension by dimension, of
    the language it was fitted to (``_standardised``). Features of a fit are standardised, so that it is the fit to
    centred or standardised vectors too. Means and spreads are those of unlabelled train words of each language, or of
    its test words where it has no train. ``own`` is the accuracy of each fit in its own language.

    Args:
        vectors: ``train``, ``dev`` and ``test``.
        items: the words with their labels and languages.

    Yields:
        ``transfer``, ``transfer_centred``, ``transfer_standardised`` and ``own``, by pair of languages.
    """
    from bertology.readouts import ArrayFeatures, Targets, get_readout  # imports torch, which naming them need not

    layers = vectors["test"].layers
    values = {split: _stacked(vectors[split], of_split.places) for split, of_split in items.splits.items()}
    means, spreads = _moments(items, values)
    gold, language = items.splits["test"].codes, items.splits["test"].language
    right: dict[str, dict[int, Floats]] = {"": {}, "_centred": {}, "_standardised": {}}
    for source in items.sources:
        (train, train_labels), (dev, dev_labels) = (
            (ArrayFeatures(values[split][:, own], layers=layers), Targets(of_split.codes[None, own], items.n_labels))
            for split, of_split in items.splits.items()
            if split != "test" and (own := of_split.language == source).any()
        )
        fitted = get_readout("linear").fit(train, train_labels, dev=dev, dev_targets=dev_labels)
        for way, of_way in right.items():
            moved = values["test"]
            if way == "_centred":
                moved = moved - means[:, language] + means[:, source, None]
            elif way == "_standardised":
                moved = (moved - means[:, language]) / spreads[:, language]
                moved = moved * spreads[:, source, None] + means[:, source, None]
            of_way[source] = np.asarray(fitted.predict(ArrayFeatures(moved, layers=layers)).labels[0] == gold, float)
    for way, of_way in right.items():
        yield from items.scores(f"transfer{way}", layers, of_way)
    yield from items.own_scores("own", layers, right[""])


def _stacked(vectors: LayerVectors, places: Integers) -> Floats32:
    """``[layer, item, dim]`` the vectors of items."""
    return np.stack(vectors.each(lambda _, of_layer: of_layer[places]))


def _moments(items: TransferItems, values: Mapping[str, Floats32]) -> tuple[Floats32, Floats32]:
    """``[layer, language, dim]`` means and standard deviations, which are at least a trifle."""
    train, test = items.splits["train"], items.splits["test"]
    means, spreads = [], []
    for number in range(len(items.names)):
        own = train.language == number
        some = values["train"][:, own] if own.any() else values["test"][:, test.language == number]
        means.append(some.mean(axis=1))
        spreads.append(np.maximum(some.std(axis=1), _LEAST_SPREAD))
    return np.stack(means, axis=1), np.stack(spreads, axis=1)
