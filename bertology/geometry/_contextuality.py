"""How much of a word's vector is the word, and how much its context (Ethayarajh 2019; Cai et al. 2021).

Of unit vectors, the mean cosine of all pairs among n of them is (‖Σ x̂‖² − n) / (n (n − 1)), so that no pair is ever
formed: a layer takes time in proportion to its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bertology.errors import CorpusError
from bertology.geometry._clusters import cluster_means
from bertology.geometry._explained import explainable_variance
from bertology.geometry._layers import (
    ROWS,
    Groups,
    LayerStatistic,
    OneLayer,
    group_sums,
    read_layers,
)
from bertology.geometry._spectrum import Spectrum, sentence_blocks
from bertology.geometry._sums import Clusters, Floats, Integers, LayerSums
from bertology.geometry._vectors import Floats32, LayerVectors

_MOST = 1000
"""Occurrences of a type that are looked at (as Ethayarajh and Cai et al. do)."""


@dataclass(frozen=True, eq=False)
class WordSample:
    """Occurrences of word types, each in another sentence, sorted by type."""

    places: Integers
    """``[occurrence]`` places of the words among those that have vectors."""
    starts: Integers
    """``[type + 1]`` the first occurrence of each type, and the number of occurrences."""
    shuffled: Integers
    """``[occurrence]`` the same places in random order: occurrences at random, as many for each type as it has."""
    groups: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """By name, such as a part of speech or a band of frequency, ``[type]`` which types belong to it."""

    @classmethod
    def of(
        cls,
        types: Integers,
        sentences: Integers,
        *,
        least: int = 5,
        most: int = _MOST,
        seed: int = 0,
    ) -> tuple[WordSample, Integers]:
        """The types that occur in enough sentences, and the first occurrence in each of these sentences.

        Args:
            types: ``[word]`` the type of each word, −1 for words that are left out.
            sentences: ``[word]`` the sentence of each word, ascending.
            least: sentences that a type has to occur in.
            most: occurrences of a type that are kept, drawn at random where it has more.
            seed: of what is drawn.

        Returns:
            The sample, and ``[type]`` the numbers of its types.

        Raises:
            CorpusError: no type occurs in so many sentences.
        """
        words = np.flatnonzero(types >= 0)
        order = words[np.lexsort((words, sentences[words], types[words]))]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = (np.diff(types[order]) != 0) | (np.diff(sentences[order]) != 0)
        order = order[is_first]
        kept, counts = np.unique(types[order], return_counts=True)
        if not (counts >= max(2, least)).any():
            most_often = int(counts.max(initial=0))
            raise CorpusError(
                f"no word occurs in {max(2, least)} sentences or more (at most in {most_often}): give more text, or a "
                "smaller least"
            )
        rng = np.random.default_rng(seed)
        parts = []
        for occurrences in np.split(order, counts.cumsum()[:-1]):
            if len(occurrences) > most:
                occurrences = np.sort(rng.choice(occurrences, most, replace=False))
            if len(occurrences) >= max(2, least):
                parts.append(occurrences)
        places = np.concatenate(parts)
        starts = np.cumsum([0, *map(len, parts)])
        return cls(places, starts, rng.permutation(places)), kept[counts >= max(2, least)]

    @property
    def counts(self) -> Integers:
        """``[type]`` number of occurrences."""
        return np.diff(self.starts)

    @cached_property
    def order(self) -> Integers:
        """``[occurrence]`` where :attr:`shuffled` stands in :attr:`places`."""
        by_place = np.argsort(self.places)
        return np.asarray(by_place[np.searchsorted(self.places, self.shuffled, sorter=by_place)])


def text_statistics(
    vectors: LayerVectors, sentences: Integers, sample: WordSample, tags: Integers | None = None
) -> Iterator[LayerSums]:
    """All that describes the vectors of a text, in one reading of each layer.

    That is what :func:`contextuality`, :func:`intra_sentence_similarity`, :func:`variance_shares` of the words of the
    sample, and :func:`spectrum` yield.

    Args:
        vectors: of the words of whole sentences.
        sentences: ``[word]`` the sentence of each, ascending.
        sample: the words whose types are compared.
        tags: ``[word]`` the tag of each, where there are tags.
    """
    types = np.repeat(np.arange(len(sample.counts)), sample.counts)
    _, clusters = np.unique(sentences[sample.places], return_inverse=True)
    shares = _VarianceShares(sample.places, types, None if tags is None else tags[sample.places], clusters)
    statistics = [_Contextuality(sample), _IntraSentence(sentences), shares, Spectrum()]
    return read_layers(vectors, statistics, sentence_blocks(sentences))


def contextuality(vectors: LayerVectors, sample: WordSample) -> Iterator[LayerSums]:
    """Self-similarity and maximum explainable variance of word types by layer, beside random words.

    Self-similarity is the mean cosine of all pairs of a type's occurrences; the baseline is the same of as many
    occurrences of any words, which is not 0 where vectors share a direction (anisotropy). Maximum explainable variance
    is the share of a type's variance on its first principal component, which is larger the fewer occurrences there
    are, so that the baseline has as many. Both are by the same estimator. Types are weighted alike, but for
    ``self_similarity_by_token``.

    Besides differences from the baseline there is the ratio (raw − b) / (1 − b), and self-similarity in vectors whose
    dimensions are standardised (Timkey & van Schijndel 2021), and without their mean and their dim / 100 largest
    principal components (Mu & Viswanath 2018), and around the means of the clusters that vectors fall into
    (``_clusters.py``; Cai et al. 2021, who look at pairs inside a cluster alone).

    Yields:
        The statistics of all layers, over types.

    Raises:
        ModelError: a vector is not finite, or has no direction.
    """
    return read_layers(vectors, [_Contextuality(sample)])


class _Contextuality(LayerStatistic):
    def __init__(self, sample: WordSample) -> None:
        self._sample = sample

    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """``[type]`` statistics of one layer."""
        sample = self._sample
        centred = layer.centred(sample.places)
        views = _views(layer, centred, sample.places)
        found: dict[str, Floats] = {}
        for suffix, order in (("", None), ("_baseline", sample.order)):
            for name, similarity in _similarities(centred, views, sample.starts, order).items():
                found[f"{name}{suffix}"] = similarity
        found["variance"] = explainable_variance(centred, sample.starts)
        found["variance_baseline"] = explainable_variance(centred, sample.starts, sample.order)
        return found

    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """Means over types."""
        sample, ones = self._sample, np.ones((1, len(self._sample.counts)))

        def sums(metric: str, over: Floats, under: Floats = ones, group: str = "") -> LayerSums:
            return LayerSums(metric, layers, over, under, "types", group)

        def adjusted(name: str) -> Floats:
            return np.asarray(values[name] - values[f"{name}_baseline"])

        yield sums("self_similarity_adjusted", adjusted("raw"))
        for name, which in sample.groups.items():
            yield sums(
                "self_similarity_adjusted", np.where(which, adjusted("raw"), 0.0), which[None].astype(float), name
            )
        yield sums("self_similarity", values["raw"])
        yield sums("anisotropy", values["raw_baseline"])
        yield sums("self_similarity_ratio", adjusted("raw"), 1 - values["raw_baseline"])
        yield sums("self_similarity_by_token", adjusted("raw") * sample.counts, sample.counts[None].astype(float))
        yield sums("self_similarity_standardised", adjusted("standardised"))
        yield sums("self_similarity_without_top", adjusted("without_top"))
        yield sums("self_similarity_cluster_centred", adjusted("clustered"))
        yield sums("anisotropy_cluster_centred", values["clustered_baseline"])
        yield sums("explainable_variance", values["variance"])
        yield sums("explainable_variance_adjusted", adjusted("variance"))


@dataclass(frozen=True, eq=False)
class _View:
    """What is compared instead of centred vectors x: vectors A x + b, where b differs between kinds of words.

    Neither is ever formed: sums of such vectors are A applied to sums of x, and their lengths follow from products.
    """

    lengths: Floats32
    """``[item]`` of the vectors A x + b."""
    apply: Callable[[Floats32], Floats32] | None = None
    """A, of sums ``[group, dim]``; None where vectors stay as they are."""
    added: Floats32 | None = None
    """``[kind, dim]`` each b."""
    kinds: Integers | None = None
    """``[item]`` which of them is added; None where there is a single one."""

    def sums(self, sums: Floats32, weights: Floats32, starts: Integers, order: Integers) -> Floats:
        """``[group, dim]`` sums of A x + b by weight, from those of x."""
        from scipy.sparse import csr_matrix

        changed = sums if self.apply is None else self.apply(sums)
        if self.added is None:
            return changed.astype(np.float64)
        kinds = np.zeros_like(order) if self.kinds is None else self.kinds[order]
        of_kinds = csr_matrix((weights[order], kinds, starts), shape=(len(sums), len(self.added)))
        return np.asarray(changed + of_kinds @ self.added, dtype=np.float64)


def _views(layer: OneLayer, centred: Floats32, places: Integers) -> dict[str, _View]:
    """By name, what is compared of the centred vectors ``[item, dim]`` at some places of a layer."""
    deviation = np.sqrt(layer.products.diagonal(axis1=1, axis2=2).sum(axis=0) / len(layer.vectors))
    # A dimension that never varies tells no two words apart.
    scale: Floats32 = np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > 0).astype(np.float32)
    top = layer.top_directions(max(1, len(deviation) // 100))
    means, labels = cluster_means(layer)
    labels = labels[places]
    squares, norms = np.empty((3, len(centred)), dtype=np.float32), np.einsum("kd,kd->k", means, means)
    for first in range(0, len(centred), ROWS):
        rows = slice(first, first + ROWS)
        part = centred[rows]
        own, of_top, of_means = np.einsum("wd,wd->w", part, part), part @ top.T, part @ means.T
        squares[0, rows] = (part * part) @ (scale * scale)
        squares[1, rows] = own - np.einsum("wt,wt->w", of_top, of_top)
        near = labels[rows]
        squares[2, rows] = own - 2 * of_means[np.arange(len(part)), near] + norms[near]
        # What rounding leaves of a vector is none: it has no direction.
        squares[1:, rows][squares[1:, rows] < 16 * np.finfo(np.float32).eps * own] = 0
    standardised, without_top, clustered = np.sqrt(squares)
    return {
        "raw": _View(layer.lengths[places], added=layer.mean[None]),
        "standardised": _View(standardised, lambda sums: np.asarray(sums * scale, dtype=np.float32)),
        "without_top": _View(without_top, lambda sums: np.asarray(sums - (sums @ top.T) @ top, dtype=np.float32)),
        "clustered": _View(clustered, added=-means, kinds=labels),
    }


def _similarities(
    centred: Floats32, views: Mapping[str, _View], starts: Integers, order: Integers | None
) -> dict[str, Floats]:
    """By view, ``[group]`` the mean cosine of all pairs inside each group."""
    lengths = np.stack([view.lengths for view in views.values()], axis=1)
    weights = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    sums = group_sums(centred, starts, order=order, weights=weights)
    items = np.arange(len(centred)) if order is None else order
    return {
        name: _mean_cosines(view.sums(sums[:, place], weights[:, place], starts, items), weights[items, place], starts)
        for place, (name, view) in enumerate(views.items())
    }


def self_similarity(vectors: Floats32, starts: Integers, *, order: Integers | None = None) -> Floats:
    """``[group]`` the mean cosine of all pairs inside each group of vectors ``[vector, dim]``.

    The cosine of a vector that is zero with any other is 0.

    Args:
        vectors: of all groups.
        starts: ``[group + 1]`` the boundaries of the groups, each of two vectors or more.
        order: ``[item]`` the vector at each of these places; the vectors as they stand when left out.
    """
    lengths = np.sqrt(np.einsum("wd,wd->w", vectors, vectors))
    weights = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    sums = group_sums(vectors, starts, order=order, weights=weights).astype(np.float64)
    return _mean_cosines(sums, weights if order is None else weights[order], starts)


def _mean_cosines(sums: Floats, weights: Floats32, starts: Integers) -> Floats:
    """``[group]`` from sums ``[group, dim]`` of unit vectors; ``[item]`` weights are 0 where a vector is zero."""
    own, n = np.add.reduceat(weights > 0, starts[:-1], dtype=np.float64), np.diff(starts)
    return np.asarray((np.einsum("gd,gd->g", sums, sums) - own) / (n * (n - 1)))


def intra_sentence_similarity(vectors: LayerVectors, sentences: Integers, *, seed: int = 0) -> Iterator[LayerSums]:
    """How close words are to the mean of their sentence: mean cosine of both, beside words at random.

    The baseline is the same of sentences of as many words drawn at random from the whole text. Sentences are weighted
    alike; one with a single word is left out, as it is its own mean.

    Args:
        vectors: of the words of whole sentences.
        sentences: ``[word]`` the sentence of each, ascending.
        seed: of the words at random.

    Raises:
        CorpusError: every sentence has one word.
    """
    return read_layers(vectors, [_IntraSentence(sentences, seed=seed)])


class _IntraSentence(LayerStatistic):
    def __init__(self, sentences: Integers, *, seed: int = 0) -> None:
        _, starts, counts = np.unique(sentences, return_index=True, return_counts=True)
        starts, self._counts = starts[counts > 1], counts[counts > 1]
        if not len(starts):
            raise CorpusError("every sentence has a single word, which has no context: give sentences")
        self._bounds = np.append(0, self._counts.cumsum())
        self._places = np.arange(self._bounds[-1]) + np.repeat(starts - self._bounds[:-1], self._counts)
        self._shuffled = np.random.default_rng(seed).permutation(self._places)

    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """``[sentence]`` mean cosines."""
        return {"raw": self._to_mean(layer, self._places), "baseline": self._to_mean(layer, self._shuffled)}

    def _to_mean(self, layer: OneLayer, order: Integers) -> Floats:
        """Of words with the mean of their sentence, whose direction is that of their sum."""
        weights = np.stack([np.ones_like(layer.lengths), np.reciprocal(layer.lengths)], axis=1)
        both = group_sums(layer.vectors, self._bounds, order=order, weights=weights)
        sums, of_unit = both[:, 0].astype(np.float64), both[:, 1]
        lengths = np.linalg.norm(sums, axis=1)
        products = np.einsum("sd,sd->s", sums, of_unit)
        return np.asarray(np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0) / self._counts)

    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """Means over sentences."""
        ones = np.ones((1, len(self._counts)))
        yield LayerSums("intra_sentence_similarity", layers, values["raw"], ones, "sentences")
        over = values["raw"] - values["baseline"]
        yield LayerSums("intra_sentence_similarity_adjusted", layers, over, ones, "sentences")


def variance_shares(
    vectors: LayerVectors, places: Integers, types: Integers, tags: Integers | None, sentences: Integers
) -> Iterator[LayerSums]:
    """Shares of the variance of vectors between word types, between the tags of a type, and within a tag of a type.

    Variances are unbiased, pooled over types: n occurrences of a type vary by SS / (n − 1), so that a type of few
    occurrences is not taken for one that explains them (ε², Kelley 1935). The three shares add up to 1.

    Args:
        vectors: of the words.
        places: ``[item]`` the words among them that are decomposed: types that occur at least twice.
        types: ``[item]`` their types.
        tags: ``[item]`` their tags; None where there are none, then types are not divided.
        sentences: ``[item]`` their sentences, from 0.

    Yields:
        ``variance_between_types``, ``variance_between_tags`` (with tags) and ``variance_within``, over sentences.
    """
    return read_layers(vectors, [_VarianceShares(places, types, tags, sentences)])


class _VarianceShares(LayerStatistic):
    def __init__(self, places: Integers, types: Integers, tags: Integers | None, sentences: Integers) -> None:
        cells = types if tags is None else np.unique(np.stack([types, tags]), axis=1, return_inverse=True)[1].ravel()
        self._places, self._sentences, self._has_tags = places, sentences, tags is not None
        self._groups = {
            name: Groups(of) for name, of in (("total", np.zeros_like(types)), ("types", types), ("cells", cells))
        }
        self._degrees = {name: len(places) - len(groups) for name, groups in self._groups.items()}
        if not self._degrees["cells"]:
            raise CorpusError(
                "no word occurs twice with the same tag, so that its variance is not known: give more text"
            )

    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """``[sentence]`` sums of squares, over their degrees of freedom."""
        some = layer.centred(self._places)
        found = {}
        for name, groups in self._groups.items():
            squares = groups.squared_distances(some)
            found[name] = np.bincount(self._sentences, squares) / self._degrees[name]
        return found

    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """Shares of the variance of the whole text."""
        total, within_types, within = values["total"], values["types"], values["cells"]
        kind: Clusters = "sentences"
        yield LayerSums("variance_between_types", layers, total - within_types, total, kind)
        if self._has_tags:
            yield LayerSums("variance_between_tags", layers, within_types - within, total, kind)
        yield LayerSums("variance_within", layers, within, total, kind)
