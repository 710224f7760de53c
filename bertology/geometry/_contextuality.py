"""How much of a word's vector is the word, and how much its context (Ethayarajh 2019; Cai et al. 2021).

Of unit vectors, the mean cosine of all pairs among n of them is (‖Σ x̂‖² − n) / (n (n − 1)), so that no pair is ever
formed: a layer takes time in proportion to its words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertology.errors import CorpusError
from bertology.geometry._spectrum import top_directions
from bertology.geometry._sums import Clusters, Floats, Integers, LayerSums
from bertology.geometry._vectors import Floats32, LayerVectors, unit_vectors

_MOST = 1000
"""Occurrences of a type that are looked at (as Ethayarajh and Cai et al. do)."""
_MOST_FOR_VARIANCE = 200
"""Of them those whose principal component is computed, which takes time cubic in their number."""
_MOST_CLUSTERS, _CLUSTERED, _SILHOUETTE_WORDS = 15, 2000, 1000
"""Clusters that vectors fall into at most; words that are clustered, and those of them that silhouettes compare."""
_CLUSTER_DIMENSIONS = 32
"""Principal components on which they are clustered: clusters far apart differ in large ones."""
_LEAST_SILHOUETTE = 0.1
"""Below it vectors are one cluster."""


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
    (:func:`cluster_centred`; Cai et al. 2021, who look at pairs inside a cluster alone).

    Yields:
        The statistics of all layers, over types.

    Raises:
        ModelError: a vector is not finite, or has no direction.
    """
    by_layer = [_of_layer(vectors.of(layer), sample, layer) for layer in vectors.layers]
    stacked = {name: np.stack([one[name] for one in by_layer]) for name in by_layer[0]}
    ones = np.ones((1, len(sample.counts)))

    def sums(metric: str, over: Floats, under: Floats = ones, group: str = "") -> LayerSums:
        return LayerSums(metric, vectors.layers, over, under, "types", group)

    raw, baseline = stacked["raw"], stacked["raw_baseline"]
    yield sums("self_similarity_adjusted", raw - baseline)
    for name, which in sample.groups.items():
        yield sums("self_similarity_adjusted", np.where(which, raw - baseline, 0.0), which[None].astype(float), name)
    yield sums("self_similarity", raw)
    yield sums("anisotropy", baseline)
    yield sums("self_similarity_ratio", raw - baseline, 1 - baseline)
    yield sums("self_similarity_by_token", (raw - baseline) * sample.counts, sample.counts[None].astype(float))
    yield sums("self_similarity_standardised", stacked["standardised"] - stacked["standardised_baseline"])
    yield sums("self_similarity_without_top", stacked["without_top"] - stacked["without_top_baseline"])
    yield sums("self_similarity_cluster_centred", stacked["clustered"] - stacked["clustered_baseline"])
    yield sums("anisotropy_cluster_centred", stacked["clustered_baseline"])
    yield sums("explainable_variance", stacked["variance"])
    yield sums("explainable_variance_adjusted", stacked["variance"] - stacked["variance_baseline"])


def _of_layer(vectors: Floats32, sample: WordSample, layer: int) -> dict[str, Floats]:
    """``[type]`` statistics of one layer."""
    found: dict[str, Floats] = {}
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0)
    centred = vectors - mean
    variants = {
        "raw": vectors,
        # A dimension that never varies tells no two words apart.
        "standardised": np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0),
        "without_top": centred - _projected(centred, top_directions(centred, max(1, vectors.shape[1] // 100))),
        "clustered": cluster_centred(centred),
    }
    for name, variant in variants.items():
        # Standardised vectors of a layer in which all words are alike have no direction; raw ones should have one.
        unit = unit_vectors(variant, layer, may_vanish=name != "raw")
        found[name] = self_similarity(unit[sample.places], sample.starts)
        found[f"{name}_baseline"] = self_similarity(unit[sample.shuffled], sample.starts)
    found["variance"] = explainable_variance(vectors[sample.places], sample.starts)
    found["variance_baseline"] = explainable_variance(vectors[sample.shuffled], sample.starts)
    return found


def cluster_centred(vectors: Floats32, *, seed: int = 0) -> Floats32:
    """Vectors ``[word, dim]`` less the mean of their cluster (Cai et al. 2021, §3).

    Clusters are those of k-means on the 32 largest principal components of 2,000 words at random, k from 2 to 15 by the
    largest silhouette in all dimensions; where none reaches 0.1 all vectors are one cluster.
    """
    from sklearn.cluster import KMeans  # takes half a second to import
    from sklearn.metrics import pairwise_distances, silhouette_score

    centred = vectors - vectors.mean(axis=0)
    reduced = centred @ top_directions(centred, _CLUSTER_DIMENSIONS).T
    places = np.random.default_rng(seed).permutation(len(vectors))[:_CLUSTERED]
    some, n_distinct = reduced[places], len(np.unique(vectors[places], axis=0))
    distances = pairwise_distances(centred[places[:_SILHOUETTE_WORDS]])
    best, labels = _LEAST_SILHOUETTE, np.zeros(len(vectors), dtype=np.int64)
    for k in range(2, min(_MOST_CLUSTERS, n_distinct - 1) + 1):
        fitted = KMeans(k, n_init=1, random_state=seed).fit(some)
        compared = fitted.labels_[:_SILHOUETTE_WORDS]
        if 1 < len(np.unique(compared)) < len(compared):
            silhouette = float(silhouette_score(distances, compared, metric="precomputed"))
            if silhouette > best:
                best, labels = silhouette, fitted.predict(reduced).astype(np.int64)
    return np.asarray(vectors - _group_means(vectors.astype(np.float64), labels), dtype=np.float32)


def _projected(vectors: Floats32, directions: Floats32) -> Floats32:
    return np.asarray((vectors @ directions.T) @ directions)


def self_similarity(unit: Floats32, starts: Integers) -> Floats:
    """``[group]`` the mean cosine of all pairs inside each group of unit vectors ``[vector, dim]``.

    ``starts`` ``[group + 1]`` are the boundaries of the groups, each of two vectors or more.
    """
    n = np.diff(starts)
    sums = np.add.reduceat(unit, starts[:-1], axis=0).astype(np.float64)
    own = np.add.reduceat((unit.astype(np.float64) ** 2).sum(axis=1), starts[:-1])
    return np.asarray(((sums**2).sum(axis=1) - own) / (n * (n - 1)))


def explainable_variance(vectors: Floats32, starts: Integers) -> Floats:
    """``[group]`` the share of the variance of each group of vectors on its first principal component.

    Of a group in which all vectors are the same it is 1: a single vector explains all of it.
    """
    shares = np.ones(len(starts) - 1)
    for number, (first, last) in enumerate(itertools.pairwise(starts)):
        group = vectors[first : min(last, first + _MOST_FOR_VARIANCE)].astype(np.float64)
        group -= group.mean(axis=0)
        total = (group**2).sum()
        scale = (vectors[first].astype(np.float64) ** 2).sum()
        if total > 1e-12 * scale * len(group):
            few = group @ group.T if len(group) < group.shape[1] else group.T @ group
            shares[number] = np.linalg.eigvalsh(few)[-1] / total
    return shares


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
    _, starts, counts = np.unique(sentences, return_index=True, return_counts=True)
    starts, counts = starts[counts > 1], counts[counts > 1]
    if not len(starts):
        raise CorpusError("every sentence has a single word, which has no context: give sentences")
    places = np.concatenate([np.arange(start, start + n) for start, n in zip(starts, counts, strict=True)])
    shuffled, bounds = np.random.default_rng(seed).permutation(places), np.append(0, counts.cumsum())
    raw, baseline = [], []
    for layer in vectors.layers:
        of_layer = vectors.of(layer)
        raw.append(_to_mean(of_layer[places], bounds, layer))
        baseline.append(_to_mean(of_layer[shuffled], bounds, layer))
    ones = np.ones((1, len(starts)))
    yield LayerSums("intra_sentence_similarity", vectors.layers, np.stack(raw), ones, "sentences")
    over = np.stack(raw) - np.stack(baseline)
    yield LayerSums("intra_sentence_similarity_adjusted", vectors.layers, over, ones, "sentences")


def _to_mean(vectors: Floats32, bounds: Integers, layer: int) -> Floats:
    """``[sentence]`` mean cosine of words with the mean of their sentence."""
    n = np.diff(bounds)
    sums: Floats32 = np.add.reduceat(vectors, bounds[:-1], axis=0)
    means = unit_vectors(sums, layer, may_vanish=True)  # the direction of a sum is that of the mean
    cosines = np.einsum("wd,wd->w", unit_vectors(vectors, layer), np.repeat(means, n, axis=0)).astype(np.float64)
    return np.asarray(np.add.reduceat(cosines, bounds[:-1]) / n)


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
    cells = types if tags is None else np.unique(np.stack([types, tags]), axis=1, return_inverse=True)[1].ravel()
    n_sentences = int(sentences.max()) + 1
    sums = {name: np.zeros((len(vectors.layers), n_sentences)) for name in ("total", "types", "cells")}
    degrees = {name: len(places) - len(np.unique(of)) for name, of in (("types", types), ("cells", cells))}
    if not degrees["cells"]:
        raise CorpusError("no word occurs twice with the same tag, so that its variance is not known: give more text")
    for number, layer in enumerate(vectors.layers):
        some = vectors.of(layer)[places].astype(np.float64)
        for name, of in (("total", np.zeros(len(places), dtype=np.int64)), ("types", types), ("cells", cells)):
            squares = ((some - _group_means(some, of)) ** 2).sum(axis=1)
            sums[name][number] = np.bincount(sentences, squares, minlength=n_sentences)
    total = sums["total"] / (len(places) - 1)
    within_types, within = sums["types"] / degrees["types"], sums["cells"] / degrees["cells"]
    kind: Clusters = "sentences"
    yield LayerSums("variance_between_types", vectors.layers, total - within_types, total, kind)
    if tags is not None:
        yield LayerSums("variance_between_tags", vectors.layers, within_types - within, total, kind)
    yield LayerSums("variance_within", vectors.layers, within, total, kind)


def _group_means(values: Floats, groups: Integers) -> Floats:
    """``[item, dim]`` the mean of each item's group."""
    order = np.argsort(groups, kind="stable")
    _, starts, counts = np.unique(groups[order], return_index=True, return_counts=True)
    means = np.add.reduceat(values[order], starts, axis=0) / counts[:, None]
    result = np.empty_like(values)
    result[order] = np.repeat(means, counts, axis=0)
    return result
