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
    LayerStatistic,
    OneLayer,
    group_sums,
    read_layers,
)
from bertology.geometry._sums import Floats, Integers, LayerSums, jackknife_sums
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


def contextuality(vectors: LayerVectors, sample: WordSample) -> Iterator[LayerSums]:
    """Self-similarity and maximum explainable variance of word types by layer, beside random words.

    Self-similarity is the mean cosine of all pairs of a type's occurrences; the baseline is the same of as many
    occurrences of any words of the sample, which is not 0 where vectors share a direction. Maximum explainable variance
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
    return read_layers(vectors, [Contextuality(sample)])


class Contextuality(LayerStatistic):
    """What :func:`contextuality` yields.

    Args:
        sample: the words whose types are compared.
        blocks: ``[occurrence]`` the block of whole documents of each occurrence, each of which is left out once for
            intervals; over types when left out.
    """

    def __init__(self, sample: WordSample, blocks: Integers | None = None) -> None:
        self._sample = sample
        every = np.arange(len(sample.places))
        self._parts = [_Part.of(sample, every, every >= 0), _Part.of(sample, sample.order, every >= 0)]
        if blocks is not None:
            for block in range(int(blocks.max()) + 1):
                self._parts += [_Part.of(sample, order, blocks[order] != block) for order in (every, sample.order)]

    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """``[1 + block, type]`` similarities of one layer, of all occurrences and without each block; NaN of a type of
        which too few are left. ``[1, type]`` explainable variance."""
        sample = self._sample
        centred = layer.centred(sample.places)
        views = _views(layer, centred, sample.places)
        similar = [self._similarities(centred, views, part) for part in self._parts]
        found = {name: np.stack([part[name] for part in similar[::2]]) for name in views}
        found |= {f"{name}_baseline": np.stack([part[name] for part in similar[1::2]]) for name in views}
        found["variance"] = explainable_variance(centred, sample.starts)[None]
        found["variance_baseline"] = explainable_variance(centred, sample.starts, sample.order)[None]
        return found

    def _similarities(self, centred: Floats32, views: Mapping[str, _View], part: _Part) -> dict[str, Floats]:
        """By view, ``[type]`` the mean cosine of all pairs of the occurrences of a part."""
        lengths = np.stack([view.lengths for view in views.values()], axis=1)
        weights = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        sums = group_sums(centred, part.starts, order=part.order, weights=weights)
        found = {}
        for place, (name, view) in enumerate(views.items()):
            of_view = view.sums(sums[:, place], weights[:, place], part.starts, part.order)
            found[name] = np.full(len(part.types), np.nan)
            found[name][part.types] = _mean_cosines(of_view, weights[part.order, place], part.starts)
        return found

    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """Means over types."""
        sample, ones = self._sample, np.ones((1, 1, len(self._sample.counts)))
        counts = ones * sample.counts

        def sums(metric: str, over: Floats, under: Floats = ones, group: str = "") -> LayerSums:
            if over.shape[1] == 1:
                return LayerSums(metric, layers, over[:, 0], under[:, 0], "types", group)
            is_left = np.isfinite(over)
            means = np.where(is_left, over, 0).sum(axis=2) / np.where(is_left, under, 0).sum(axis=2)
            return jackknife_sums(metric, layers, means[:, 0], means[:, :1] - means[:, 1:], "documents", group=group)

        def adjusted(name: str) -> Floats:
            return np.asarray(values[name] - values[f"{name}_baseline"])

        yield sums("self_similarity_adjusted", adjusted("raw"))
        for name, which in sample.groups.items():
            yield sums("self_similarity_adjusted", np.where(which, adjusted("raw"), 0.0), ones * which, name)
        yield sums("self_similarity", values["raw"])
        yield sums("self_similarity_baseline", values["raw_baseline"])
        yield sums("self_similarity_ratio", adjusted("raw"), 1 - values["raw_baseline"])
        yield sums("self_similarity_by_token", adjusted("raw") * counts, counts)
        yield sums("self_similarity_standardised", adjusted("standardised"))
        yield sums("self_similarity_without_top", adjusted("without_top"))
        yield sums("self_similarity_cluster_centred", adjusted("clustered"))
        yield sums("self_similarity_cluster_centred_baseline", values["clustered_baseline"])
        yield sums("explainable_variance", values["variance"])
        yield sums("explainable_variance_adjusted", adjusted("variance"))


@dataclass(frozen=True, eq=False)
class _Part:
    """Some occurrences, by type; types of which fewer than two are left are not among them."""

    types: NDArray[np.bool_]
    """``[type]`` which types are there."""
    starts: Integers
    """``[kept type + 1]``"""
    order: Integers
    """``[item]`` where each stands in the places of the sample."""

    @classmethod
    def of(cls, sample: WordSample, order: Integers, kept: NDArray[np.bool_]) -> _Part:
        """Those of the occurrences ``[occurrence]`` in an order that are ``kept`` there."""
        counts = np.add.reduceat(kept, sample.starts[:-1], dtype=np.int64)
        types = counts > 1
        order = order[kept & np.repeat(types, sample.counts)]
        return cls(types, np.append(0, counts[types].cumsum()), order)


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
