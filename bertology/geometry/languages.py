"""Statistics of sentences and words of several languages in the space of an encoder, layer by layer.

:class:`LanguageItems` holds sentences by language. Language identity, centroids and retrieval of translations are about
their vectors, :func:`transfer` about readouts fitted to the words of one language. Links and translations of words are
in ``alignment.py``.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertology import readouts
from bertology._lazy import scipy, torch
from bertology.activations.layers import ROWS, Floats32, Groups, LayerVectors, group_sums, unit_vectors
from bertology.corpora import ParallelText, Sentences
from bertology.errors import CorpusError, FitError
from bertology.geometry.senses import v_measure
from bertology.measures import majority, sums
from bertology.measures.baselines import word_majority
from bertology.measures.sums import Floats, Integers, LayerSums, mean_sums

Direction = tuple[int, int]
_PENALTY = 1e-3  # strength of the ridge regression, in mean variances of a dimension
_DIGITS = 6  # decimals of a class's predicted share that count: a removed concept leaves rounding
_MOST_BLOCKS = 20
_SHARE = 1e-6  # cosines that differ by less are of vectors that are the same
_LEAST_SPREAD = 1e-6
FAMILIES = {
    language: family
    for family, codes in {
        "Germanic": "af da de en is nb nl nn no sv yi",
        "Romance": "ca es fr gl it la oc pt ro",
        "Slavic": "be bg bs cs hr mk pl ru sk sl sr uk",
        "Baltic": "lt lv",
        "Celtic": "br cy ga gd",
        "Indic": "bn gu hi mr ne pa ur",
        "Iranian": "fa ku ps tg",
        "Uralic": "et fi hu",
        "Turkic": "az kk ky tr tt uz",
        "Semitic": "am ar he mt",
        "Austronesian": "id jv ms su tl",
        "Dravidian": "kn ml ta te",
        "Sinitic": "yue zh",
    }.items()
    for language in codes.split()
}
"""Genera of languages by ISO 639 code, as in WALS (Dryer & Haspelmath 2013)."""


def _clusters_of(units: Integers, of_items: Integers | slice = slice(None)) -> Integers:
    """``[item]`` clusters that are resampled: a sentence with all its translations, by the units that they share."""
    with_lone = np.where(units >= 0, units, units.max(initial=-1) + 1 + np.arange(len(units)))
    return np.asarray(np.unique(with_lone[of_items], return_inverse=True)[1])


@dataclass(frozen=True, eq=False)
class LanguageItems:
    """Sentences of several languages that have vectors."""

    names: tuple[str, ...]  # names of the languages
    language: Integers  # [item] the language of each
    units: Integers  # [item] the unit that it shares with its translations, −1 for none
    bounds: Integers  # [item + 1] the place of the first vector of each sentence, and the number of vectors

    @classmethod
    def of(cls, text: ParallelText, of_vector: Integers) -> "LanguageItems":
        """The sentences of a text that have vectors, by ``[vector]`` the sentence of each, ascending."""
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
    def clusters(self) -> Integers:
        """``[item]`` clusters that are resampled: a sentence with all its translations."""
        return _clusters_of(self.units)

    @property
    def n_clusters(self) -> int:
        """Number of :attr:`clusters`."""
        return int(self.clusters.max()) + 1

    def folds(self, number: int) -> Integers:
        """Random fold of each ``[item]``; a sentence and its translations are in the same fold."""
        order = np.random.default_rng(0).permutation(self.n_clusters)
        return np.asarray((order % number)[self.clusters])

    def pairs(self) -> Iterator[tuple[Direction, Integers, Integers]]:
        """Every two languages, with the places of the sentences that translate each other in both."""
        for first, second in combinations(range(len(self.names)), 2):
            own, other = (np.flatnonzero((self.language == one) & (self.units >= 0)) for one in (first, second))
            _, ours, theirs = np.intersect1d(self.units[own], self.units[other], return_indices=True)
            if len(ours):
                yield (first, second), own[ours], other[theirs]


def sampled_sentences(text: ParallelText, most: int, *, only_translated: bool) -> sums.Bools:
    """``[sentence]`` which are read: random ones of each language, translations with one another."""
    dice, chosen = np.random.default_rng(0), np.zeros(len(text.language), dtype=bool)
    units, times = np.unique(text.unit[text.unit >= 0], return_counts=True)
    units = units[times > 1] if only_translated else units
    if only_translated and len(units) < 2:
        raise CorpusError(f"{len(units)} sentences have a translation, fewer than two: give parallel:en=PATH,de=PATH")
    chosen[np.isin(text.unit, dice.permutation(units)[:most])] = True
    for number in () if only_translated else range(len(text.languages)):
        lone = np.flatnonzero((text.language == number) & (text.unit < 0))
        chosen[dice.permutation(lone)[:most]] = True
    return chosen


# Identity and centroids.


def _spaces(means: Floats32, language: Integers, known: sums.Bools | None = None) -> dict[str, Floats32]:
    """Vectors ``[item, dim]``, less the mean of their language, and after LEACE of it (Belrose et al. 2023).

    Means and erasure are fitted to those that are known, or to all.
    """
    known = np.ones(len(means), dtype=bool) if known is None else known
    of_language = np.stack([means[known & (language == one)].mean(axis=0) for one in range(language.max() + 1)])
    _, labels = np.unique(language[known], return_inverse=True)
    erasure = readouts.fit_erasure(readouts.ArrayFeatures(means[None, known]), labels, int(labels.max()) + 1)
    erased = np.asarray(erasure.erase(torch.from_numpy(means.astype(np.float64))[None])[0].numpy())
    return {"": means, "_centred": means - of_language[language], "_erased": erased}


def language_identity(read: LayerVectors, items: LanguageItems, *, folds: int = 5) -> Iterator[LayerSums]:
    """Whether a linear classifier finds the language of a sentence, and whether its neighbours are of its language.

    ``identity`` is the accuracy of ridge regression on class indicators on the folds that it was not fitted to. Means,
    erasure by LEACE, which no linear classifier survives, and classifier are fitted to the same folds.
    ``same_language`` is the share of sentences whose nearest other sentence, by cosine, is of their language, none of
    its translations among them: it tells of what is not linear. Each is given of all sentences and by language.
    """
    parts, language, clusters = items.folds(folds), items.language, items.clusters
    for fold in np.unique(parts):
        if len(np.unique(language[parts != fold])) < len(items.names):
            raise FitError(f"{len(items)} sentences are too few for {folds} folds: give more, or fewer folds")

    def measure(layer: int, vectors: Floats32) -> Iterator[LayerSums]:
        means, hits = items.means(vectors), defaultdict[str, Floats](lambda: np.zeros(len(items)))
        for fold in np.unique(parts):
            known = parts != fold
            for suffix, space in _spaces(means, language, known).items():
                predicted = _least_squares(space[known], language[known], space[~known])
                hits[f"identity{suffix}"][~known] = predicted == language[~known]
        for suffix, space in _spaces(means, language).items():
            unit, of_space = unit_vectors(space, layer, may_vanish=True), hits[f"same_language{suffix}"]
            for first in range(0, len(unit), ROWS):
                rows = slice(first, first + ROWS)
                similar = unit[rows] @ unit.T
                similar[clusters[rows, None] == clusters] = -np.inf
                of_space[rows] = language[similar.argmax(axis=1)] == language[rows]
        for name, of_items in hits.items():
            of_languages = [
                mean_sums(
                    name, of_items, clusters, weights=language == number, n_clusters=items.n_clusters, group=group
                )
                for number, group in enumerate(items.names)
            ]
            yield from sums.total_and_groups(of_languages)

    return read.statistics(measure)


def _least_squares(known: Floats32, language: Integers, asked: Floats32) -> Integers:
    """``[item]`` the language whose indicator a ridge regression predicts the highest."""
    mean, shares = known.mean(axis=0, dtype=np.float64), np.bincount(language) / len(language)
    centred, targets = known - mean, np.eye(len(shares))[language] - shares
    products = centred.T @ centred
    products[np.diag_indices_from(products)] += _PENALTY * max(products.trace() / len(products), _PENALTY)
    scores = (asked - mean) @ np.linalg.solve(products, centred.T @ targets) + shares
    return np.asarray(np.round(scores, _DIGITS).argmax(axis=1))


def language_centroids(
    read: LayerVectors, items: LanguageItems, *, families: Mapping[str, str] | None = None
) -> Iterator[LayerSums]:
    """Distances of languages and the order in which their centroids join (Libovický et al. 2019, §5).

    ``between_languages`` is the share of the variance of sentences that lies between languages, unbiased (ε², Kelley
    1935); by pair, of the sentences of both. ``merged_at``, by pair: the height at which two languages are joined by
    hierarchical clustering of their centroids (average linkage), over that of the last join. ``family_v_measure``:
    agreement of as many clusters as there are families with these, if there are two families, one of two languages.
    Intervals of clusters are by the jackknife over blocks.
    """
    several = list(combinations(range(len(items.names)), 2)) if len(items.names) > 2 else []
    groups = {f"{items.names[one]} – {items.names[other]}": (one, other) for one, other in several}
    blocks = items.clusters * min(_MOST_BLOCKS, items.n_clusters) // items.n_clusters
    genera = families or {}
    names, codes = np.unique([genera.get(name, name) for name in items.names], return_inverse=True)

    def clustered(means: Floats32) -> Iterator[LayerSums]:
        hierarchy, pdist = scipy.cluster.hierarchy, scipy.spatial.distance.pdist
        trees = [hierarchy.linkage(pdist(one), "average") for one in _centroids(means, items, blocks)]
        heights = np.array([hierarchy.cophenet(tree) / max(tree[-1, 2], 1e-12) for tree in trees])
        for group, of_pair in zip(groups, heights.T, strict=True):
            yield sums.left_out_sums("merged_at", of_pair, "blocks", group=group)
        if 1 < len(names) < len(codes):
            agreement = []
            for tree in trees:
                clusters = hierarchy.fcluster(tree, len(names), "maxclust")
                table = np.zeros((len(names), int(clusters.max())))
                np.add.at(table, (codes, clusters - 1), 1)
                agreement.append(v_measure(table))
            yield sums.left_out_sums("family_v_measure", np.array(agreement), "blocks")

    def measure(_: int, vectors: Floats32) -> Iterator[LayerSums]:
        means = items.means(vectors)
        for name, pair in {"": tuple(range(len(items.names))), **groups}.items():
            which = np.isin(items.language, pair)
            some, language = means[which], items.language[which]
            spaces = some - some.mean(axis=0), Groups(language).centred(some)
            total, within = (np.square(space).sum(axis=1) for space in spaces)
            n, n_languages = len(some), len(np.unique(language))
            both = np.stack([total / (n - 1) - within / (n - n_languages), total / (n - 1)])
            totals = sums.cluster_sums(both, items.clusters[which], items.n_clusters)
            yield sums.ratio_sums("between_languages", *totals, group=name)
        if groups:
            yield from clustered(means)

    return read.statistics(measure)


def _centroids(means: Floats32, items: LanguageItems, blocks: Integers) -> Floats:
    """``[1 + block, language, dim]`` centroids of all sentences, and without each block."""
    n_blocks, n_languages = int(blocks.max()) + 1, len(items.names)
    totals, counts = np.zeros((n_blocks, n_languages, means.shape[1])), np.zeros((n_blocks, n_languages))
    np.add.at(totals, (blocks, items.language), means)
    np.add.at(counts, (blocks, items.language), 1)
    left = (counts.sum(axis=0) - counts)[..., None]
    whole = totals.sum(axis=0) / counts.sum(axis=0)[:, None]
    # of a language that one block holds alone nothing would be left: it keeps its centroid
    without = np.where(left > 0, (totals.sum(axis=0) - totals) / np.maximum(left, 1), whole)
    return np.concatenate([whole[None], without])


# Retrieval.


def retrieval(read: LayerVectors, items: LanguageItems, *, folds: int = 5, neighbours: int = 10) -> Iterator[LayerSums]:
    """Share of sentences whose nearest sentence of another language, by cosine, is their translation (P@1).

    Over both directions of every two languages; candidates are all sentences of the other language that have a
    translation. ``_centred``: less the mean of their language (Libovický et al. 2019; Pires et al. 2019); ``_erased``:
    after LEACE of language; ``_projected``: turned by the orthogonal map that fits the other folds of pairs best, both
    centred there (Schönemann 1966), where the paper has a least-squares map; ``_csls``: cosines less the mean of those
    to the nearest neighbours of both (Conneau et al. 2018, eq. 3). Of equally near ones each counts by its share.
    """
    parts = items.folds(folds)

    def to_nearest(cosines: Floats32) -> Floats32:
        n = min(neighbours, cosines.shape[1])
        return np.asarray(np.partition(cosines, -n, axis=1)[:, -n:].mean(axis=1))

    def measure(_: int, vectors: Floats32) -> Iterator[LayerSums]:
        means, parts_of = items.means(vectors), defaultdict[str, list[LayerSums]](list)
        spaces = _spaces(means, items.language) | {"_centred": Groups(items.language).centred(means)}
        for pair, own, other in items.pairs():
            both = {}
            for suffix, space in spaces.items():
                first, second = (unit_vectors(space[some], may_vanish=True) for some in (own, other))
                both[suffix] = (similar := first @ second.T), similar.T
                if suffix != "_erased":
                    scaled = 2 * similar - to_nearest(similar)[:, None] - to_nearest(similar.T)[None]
                    both[f"{suffix}_csls"] = scaled, scaled.T
            both["_projected"] = _projected(means[own], means[other], parts[own])
            for suffix, (forth, back) in both.items():
                name = f"retrieval{suffix}"
                parts_of[name] += (_hits(name, items, pair, own, forth), _hits(name, items, pair[::-1], other, back))
        for every in parts_of.values():
            yield from sums.total_and_groups(every)

    return read.statistics(measure)


def retrieval_of(similar: Floats32, items: LanguageItems) -> Iterator[LayerSums]:
    """Retrieval scores of similarities ``[item, item]`` that depend on no layer, such as those of spelling."""
    parts = []
    for pair, own, other in items.pairs():
        for direction, asked, candidates in ((pair, own, other), (pair[::-1], other, own)):
            parts.append(_hits("retrieval", items, direction, asked, similar[np.ix_(asked, candidates)]))
    return sums.total_and_groups(parts)


def _hits(metric: str, items: LanguageItems, direction: Direction, asked: Integers, similar: Floats32) -> LayerSums:
    """The share of items ``asked`` whose translation is the most similar ``[item, candidate]``, of a direction."""
    title = " → ".join(items.names[one] for one in direction)
    return mean_sums(metric, retrieved(similar), items.clusters[asked], n_clusters=items.n_clusters, group=title)


def retrieved(similar: Floats32) -> Floats:
    """``[item]`` whether the most similar ``[item, candidate]`` is that of the same number; of equals its share."""
    is_highest = similar >= similar.max(axis=1, keepdims=True) - _SHARE
    return np.asarray(is_highest.diagonal() / is_highest.sum(axis=1))


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


# Transfer of readouts.


class LabelledWords(NamedTuple):
    """Labelled words of a split, as arrays ``[item]``."""

    places: Integers  # the place of the word's vector among those that are read
    language: Integers
    codes: NDArray[np.int64]  # the label of each, numbered through all splits


@dataclass(frozen=True, eq=False)
class TransferItems:
    """The items of a question about words in several languages."""

    names: tuple[str, ...]  # names of the languages
    n_labels: int
    splits: Mapping[str, LabelledWords]  # train, dev and test
    clusters: Integers  # [item] clusters of test that are resampled: a sentence with its translations

    @property
    def sources(self) -> tuple[int, ...]:
        """The languages of which there are two labels to learn from, and words of dev to choose the strength by."""
        train, dev = self.splits["train"], self.splits["dev"]
        known = (n for n in range(len(self.names)) if len(np.unique(train.codes[train.language == n])) > 1)
        return tuple(n for n in known if (dev.language == n).any())

    def scores(
        self, metric: str, right: Mapping[int, Floats], *, layers: sums.Layers = (None,), own: bool = False
    ) -> Iterator[LayerSums]:
        """Accuracy over all pairs of two languages and by source and target; or of each source in its ``own`` language.

        ``right`` is by source ``[layer, item]`` whether each item of test is right.
        """
        test, parts = self.splits["test"].language, []
        for source, hits in right.items():
            for target in np.unique(test).tolist():
                if (target == source) == own:
                    group = self.names[source] if own else f"{self.names[source]} → {self.names[target]}"
                    n, which = int(self.clusters.max()) + 1, test == target
                    parts.append(
                        mean_sums(metric, hits, self.clusters, weights=which, n_clusters=n, group=group, layers=layers)
                    )
        return sums.total_and_groups(parts) if parts else iter(())


Labels = tuple[Integers, NDArray[np.int64], tuple[str, ...]]
"""Words of a split, the code of the label of each, and the labels."""


def sampled_by_language(sentences: Sentences, words: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The words among some that stand in as many random sentences as have ``most`` of them in each language."""
    text = ParallelText.of(sentences)
    of_sentence = np.bincount(sentences.sentence_of_word[words], minlength=len(text.language))
    order = np.random.default_rng(0).permutation(len(of_sentence))
    chosen = np.zeros(len(of_sentence), dtype=bool)
    for language in range(len(text.languages)):
        own = order[text.language[order] == language]
        chosen[own[np.cumsum(of_sentence[own]) <= most]] = True
    return np.unique(words[chosen[sentences.sentence_of_word[words]]])


def transfer_items(
    sentences: Mapping[str, Sentences], labels: Mapping[str, Labels], words: Mapping[str, Integers]
) -> TransferItems:
    """The labelled words of all splits that are among ``words``, grouped by language."""
    texts = {split: ParallelText.of(sentences[split]) for split in labels}
    names = tuple(dict.fromkeys(name for text in texts.values() for name in text.languages))
    number = {value: code for code, value in enumerate(dict.fromkeys(v for one in labels.values() for v in one[2]))}
    splits: dict[str, LabelledWords] = {}
    of_item: dict[str, Integers] = {}
    for split, (of_split, codes, values) in labels.items():
        kept = np.isin(of_split, words[split])
        of_item[split] = sentences[split].sentence_of_word[of_split[kept]]
        of_text = np.array([names.index(name) for name in texts[split].languages])
        own = np.array([number[value] for value in values])[codes[kept]]
        language = of_text[texts[split].language[of_item[split]]]
        splits[split] = LabelledWords(np.searchsorted(words[split], of_split[kept]), language, own)
    return TransferItems(names, len(number), splits, _clusters_of(texts["test"].unit, of_item["test"]))


def transfer(vectors: Mapping[str, LayerVectors], items: TransferItems) -> Iterator[LayerSums]:
    """Accuracy of logistic regression fitted to one language, in the others (cf. Pires et al. 2019, §3).

    One fit for each language, of all layers in the same passes; its strength is chosen on dev of the same language. It
    is put to another language as it is; to vectors moved by the difference of the means of both languages
    (``_centred``); and to vectors given the mean and the spread, dimension by dimension, of the language it was fitted
    to (``_standardised``): features of a fit are standardised. Means and spreads are those of unlabelled train words of
    each language, or of its test words where it has no train. ``own`` is the accuracy of each fit in its own language.
    """
    layers, values = vectors["test"].layers, dict[str, Floats32]()
    for split, words in items.splits.items():
        values[split] = np.stack([vectors[split].of(layer)[words.places] for layer in layers])
    train, test = items.splits["train"], items.splits["test"]
    moments = []
    for number in range(len(items.names)):
        own = train.language == number
        some = values["train"][:, own] if own.any() else values["test"][:, test.language == number]
        # Standard deviations are at least a trifle.
        moments.append((some.mean(axis=1), np.maximum(some.std(axis=1), _LEAST_SPREAD)))
    means, spreads = (np.stack(some, axis=1) for some in zip(*moments, strict=True))  # [layer, language, dim]
    right: dict[str, dict[int, Floats]] = {"": {}, "_centred": {}, "_standardised": {}}
    features, targets = partial(readouts.ArrayFeatures, layers=layers), readouts.Targets
    for source in items.sources:
        (known, labels), (dev, dev_labels) = (
            (features(values[split][:, own]), targets(of_split.codes[None, own], items.n_labels))
            for split, of_split in items.splits.items()
            if split != "test" and (own := of_split.language == source).any()
        )
        fitted = readouts.get_readout("linear").fit(known, labels, dev=dev, dev_targets=dev_labels)
        for way, of_way in right.items():
            moved = values["test"]
            if way == "_centred":
                moved = moved - means[:, test.language] + means[:, source, None]
            elif way == "_standardised":
                moved = (moved - means[:, test.language]) / spreads[:, test.language]
                moved = moved * spreads[:, source, None] + means[:, source, None]
            predicted = fitted.predict(features(moved)).labels[0]
            of_way[source] = np.asarray(predicted == test.codes, float)
    for way, of_way in right.items():
        yield from items.scores(f"transfer{way}", of_way, layers=layers)
    yield from items.scores("own", right[""], layers=layers, own=True)


def transfer_by_label(
    items: TransferItems, sentences: Mapping[str, Sentences], words: Mapping[str, Integers], *, by_form: bool
) -> Iterator[LayerSums]:
    """The scores of the most frequent label of the language of the fit, of all words or of the same form."""
    train, test = items.splits["train"], items.splits["test"]
    forms = [
        sentences[split].word(word).casefold()
        for split in ("train", "test")
        for word in words[split][items.splits[split].places].tolist()
    ]
    _, codes = np.unique(forms, return_inverse=True)
    known, asked = np.split(codes, [len(train.codes)])
    right: dict[int, Floats] = {}
    for source in items.sources:
        own = train.language == source
        if by_form:
            seen = np.where(np.isin(asked, known[own]), asked, -1)
            predicted = word_majority(known[own], train.codes[own], seen, n_words=int(codes.max()) + 1)
        else:
            predicted = np.full(len(test.codes), majority(train.codes[own]))
        right[source] = np.asarray(predicted == test.codes, dtype=np.float64)[None]
    yield from items.scores("transfer", right)
    yield from items.scores("own", right, own=True)
