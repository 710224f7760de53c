"""Statistics of the vectors of a text: of its words, its sentences and the whole, in one pass over each layer.

Ethayarajh 2019; Cai et al. 2021; Timkey & van Schijndel 2021; Rudman et al. 2022. The mean cosine of all pairs among n
unit vectors is (‖Σ x̂‖² − n) / (n (n − 1)), so that no pair is ever formed: a layer takes time in proportion to its
words.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bertology._lazy import scipy, sklearn
from bertology.activations.layers import ROWS, Floats32, Groups, LayerVectors, group_sums
from bertology.errors import CorpusError, ModelError
from bertology.measures import sums
from bertology.measures.sums import Clusters, Floats, Integers, LayerSums

_MOST = 1000
"""Occurrences of a type that are looked at (as Ethayarajh and Cai et al. do)."""
_N_BLOCKS = 20
_ROGUE = 3
_MOST_CLUSTERS, _DIMENSIONS = 15, 32
"""Clusters at most, and principal components on which they are found: clusters far apart differ in large ones."""
_CLUSTERED, _SILHOUETTE_WORDS = 2000, 1000  # words that are clustered, and those of them that silhouettes compare
_LEAST_SILHOUETTE = 0.1  # below it vectors are one cluster
_ITERATIONS, _TOLERANCE = 100, 1e-4
"""Iterations of k-means at most, and the share of the variance of a dimension by which centres may still move."""
_MOST_EXPLAINED = 200  # vectors of a group that are decomposed


class OneLayer:
    """The vectors ``[word, dim]`` of one layer, with quantities that several statistics share.

    Products are summed over blocks of words: ``bounds`` are ``[block + 1]`` the first of each, and the number of words.
    """

    def __init__(self, number: int, vectors: Floats32, bounds: Integers | None = None) -> None:
        self.number, self.vectors = number, vectors
        self.bounds = np.array([0, len(vectors)]) if bounds is None else bounds
        self._chosen: tuple[Integers, Floats32] | None = None

    @cached_property
    def lengths(self) -> Floats32:
        """``[word]`` Euclidean lengths."""
        lengths = np.sqrt(np.einsum("wd,wd->w", self.vectors, self.vectors))
        if not (lengths > 0).all():
            n_zero = int((lengths == 0).sum())
            raise ModelError(f"layer {self.number}: vectors of {n_zero} words are zero: they have no direction")
        return np.asarray(lengths)

    @cached_property
    def mean(self) -> Floats32:
        """``[dim]`` the mean of all words."""
        total = np.zeros(self.vectors.shape[1])
        for first in range(0, len(self.vectors), ROWS):
            part = self.vectors[first : first + ROWS]
            total += np.ones(len(part), dtype=np.float32) @ part
        return np.asarray(total / len(self.vectors), dtype=np.float32)

    def centred(self, places: Integers) -> Floats32:
        """``[item, dim]`` vectors of some words less the mean of all; kept for the next that wants the same words."""
        if self._chosen is None or self._chosen[0] is not places:
            chosen = self.vectors[places]
            chosen -= self.mean
            self._chosen = places, chosen
        return self._chosen[1]

    @cached_property
    def products(self) -> tuple[Floats32, Floats]:
        """``[block, dim, dim]`` products of dimensions and ``[block, dim]`` vectors, less the mean of all, summed over
        blocks.
        """
        dim, n_blocks = self.vectors.shape[1], len(self.bounds) - 1
        products, totals = np.zeros((n_blocks, dim, dim), dtype=np.float32), np.zeros((n_blocks, dim))
        for block, (start, end) in enumerate(itertools.pairwise(self.bounds)):
            for first in range(start, end, ROWS):
                centred = self.vectors[first : min(end, first + ROWS)] - self.mean
                products[block] += centred.T @ centred
                totals[block] += np.ones(len(centred), dtype=np.float32) @ centred
        return products, totals

    @cached_property
    def principal(self) -> tuple[Floats, Floats]:
        """``[dim]`` sums of squares on principal components, the largest first, and ``[dim, dim]`` the components."""
        squares, directions = np.linalg.eigh(self.products[0].sum(axis=0, dtype=np.float64))
        return squares[::-1], np.ascontiguousarray(directions.T[::-1])


@dataclass(frozen=True, eq=False)
class WordSample:
    """Occurrences of word types, each in another sentence, sorted by type."""

    places: Integers  # [occurrence] places of the words among those that have vectors
    starts: Integers  # [type + 1] the first occurrence of each type, and the number of occurrences
    order: Integers  # [occurrence] places among these in random order, as many for each type as it has
    groups: Mapping[str, sums.Bools] = field(default_factory=dict)  # [type] masks, such as of a part of speech

    @classmethod
    def of(
        cls, types: Integers, sentences: Integers, *, least: int = 5, most: int = _MOST, seed: int = 0
    ) -> "tuple[WordSample, Integers]":
        """The types that occur in ``least`` sentences, with the first occurrence in each; and ``[type]`` their numbers.

        Types ``[word]`` are −1 for words that are left out; sentences ``[word]`` ascend. Of a type that has more than
        ``most`` occurrences some are drawn at random.
        """
        least = max(2, least)
        words = np.flatnonzero(types >= 0)
        # The first word of each type in each sentence, by type and sentence.
        number = types[words].astype(np.int64) * (int(sentences.max(initial=0)) + 1) + sentences[words]
        order = words[np.unique(number, return_index=True)[1]]
        kept, counts = np.unique(types[order], return_counts=True)
        if not (counts >= least).any():
            raise CorpusError(
                f"no word occurs in {least} sentences or more (at most in {int(counts.max(initial=0))}): give more "
                "text, or a smaller least"
            )
        rng = np.random.default_rng(seed)
        parts = []
        for occurrences in np.split(order, counts.cumsum()[:-1]):
            if len(occurrences) > most:
                occurrences = np.sort(rng.choice(occurrences, most, replace=False))
            if len(occurrences) >= least:
                parts.append(occurrences)
        places = np.concatenate(parts)
        return cls(places, np.cumsum([0, *map(len, parts)]), rng.permutation(len(places))), kept[counts >= least]

    @property
    def counts(self) -> Integers:
        """``[type]`` number of occurrences."""
        return np.diff(self.starts)


_Part = tuple[sums.Bools, Integers, Integers]
"""Some occurrences, without the types of which fewer than two are left: ``[type]`` which types are there, ``[kept type
+ 1]`` where they start, and ``[item]`` where each occurrence stands in the places of the sample."""


class TextStatistics:
    """The statistics of one layer of a text, and what is known of it before its layers are read.

    Words, whose ``sentences`` ``[word]`` ascend as ``documents`` do, are those of whole sentences, and the types of the
    ``sample`` are compared. With documents, intervals are over 20 blocks of whole documents, but for those of
    explainable variance; else over types, sentences, and blocks of sentences, as if other text were of the same
    documents.

    Raises:
        CorpusError: the text is too small.
    """

    def __init__(
        self, sentences: Integers, sample: WordSample, tags: Integers | None = None, documents: Integers | None = None
    ) -> None:
        of_documents, self.sample, places = documents is not None, sample, sample.places
        self._kind: Clusters = "documents" if of_documents else "sentences"
        distinct, numbers = np.unique(sentences if documents is None else documents, return_inverse=True)
        if len(distinct) < _N_BLOCKS:
            problem = f"{len(distinct)} {self._kind} are too few for blocks to leave out"
            raise CorpusError(f"{problem}: give {_N_BLOCKS} or more")
        # The first word of each block of neighbouring sentences or documents, and the number of words.
        self.bounds = np.searchsorted(numbers * _N_BLOCKS // len(distinct), np.arange(_N_BLOCKS + 1))
        blocks = np.repeat(np.arange(_N_BLOCKS), np.diff(self.bounds))
        # Types, with all occurrences and without each block.
        every = np.arange(len(places))
        kept = [every >= 0]
        if of_documents:
            kept += [blocks[places] != one for one in range(int(blocks[places].max()) + 1)]
        self._parts = [[self._part(order, some[order]) for some in kept] for order in (every, sample.order)]
        # All words, by cluster.
        of_word = blocks if of_documents else sentences
        _, first, self._counts = np.unique(of_word, return_index=True, return_counts=True)
        self._starts = np.append(first, len(of_word))
        # Sentences of several words: as they are, and of as many words at random.
        _, starts, counts = np.unique(sentences, return_index=True, return_counts=True)
        starts, counts = starts[counts > 1], counts[counts > 1]
        if not len(starts):
            raise CorpusError("every sentence has a single word, which has no context: give sentences")
        self._sentences = np.append(0, counts.cumsum())
        inside = np.arange(self._sentences[-1]) + np.repeat(starts - self._sentences[:-1], counts)
        self._orders = inside, np.random.default_rng(0).permutation(inside)
        self._sentence_clusters = blocks[starts] if of_documents else np.arange(len(starts))
        # All occurrences, those of a type, and those of a tag of a type.
        types = np.repeat(np.arange(len(sample.counts)), sample.counts)
        cells = [types] if tags is None else [types, tags[places]]
        of_cell = np.unique(np.stack(cells), axis=1, return_inverse=True)[1].ravel()
        self._groups = [Groups(of) for of in (np.zeros_like(types), types, of_cell)]
        if len(places) == len(self._groups[-1]):
            problem = "no word occurs twice with the same tag, so that its variance is not known"
            raise CorpusError(f"{problem}: give more text")
        self._has_tags, self._clusters = tags is not None, np.unique(of_word[places], return_inverse=True)[1]

    def _part(self, order: Integers, is_kept: sums.Bools) -> _Part:
        counts = np.add.reduceat(is_kept, self.sample.starts[:-1], dtype=np.int64)
        types = counts > 1
        return types, np.append(0, counts[types].cumsum()), order[is_kept & np.repeat(types, self.sample.counts)]

    def measure(self, vectors: LayerVectors) -> Iterator[LayerSums]:
        """All statistics, in one pass over each layer."""

        def of_layer(number: int, array: Floats32) -> Iterator[LayerSums]:
            layer = OneLayer(number, array, self.bounds)
            yield from self.contextuality(layer)
            yield from self.anisotropy(layer)
            yield from self.intra_sentence(layer)
            yield from self.variance_shares(layer)
            yield from self.spectrum(layer)

        return vectors.statistics(of_layer)

    def contextuality(self, layer: OneLayer) -> Iterator[LayerSums]:
        """Self-similarity and maximum explainable variance of word types, and those of random words.

        Self-similarity is the mean cosine of all pairs of a type's occurrences; the baseline is the same of as many
        occurrences of any words of the sample, which is not 0 where vectors share a direction. Maximum explainable
        variance is the share of a type's variance on its first principal component. Types are weighted alike, but for
        ``self_similarity_by_token``. Besides differences from the baseline there is the ratio (raw − b) / (1 − b), and
        self-similarity in vectors whose dimensions are standardised (Timkey & van Schijndel 2021), without their mean
        and their dim / 100 largest principal components (Mu & Viswanath 2018), and around the means of clusters
        (:func:`cluster_means`; Cai et al. 2021, who look at pairs inside a cluster alone).
        """
        sample, ones = self.sample, np.ones((1, len(self.sample.counts)))
        centred = layer.centred(sample.places)
        views = _views(layer, centred, sample.places)
        # [1 + block, type] similarities with all occurrences and without each block; NaN of a type of which too few are
        # left. [1, type] explainable variance.
        found = [[_similarities(centred, views, one) for one in parts] for parts in self._parts]
        values, random = ({name: np.stack([one[name] for one in of_parts]) for name in views} for of_parts in found)
        values["variance"] = explainable_variance(centred, sample.starts)[None]
        random["variance"] = explainable_variance(centred, sample.starts, sample.order)[None]
        adjusted = {name: values[name] - random[name] for name in values}

        def statistic(metric: str, over: Floats, under: Floats = ones, group: str = "") -> LayerSums:
            if len(over) == 1:
                return sums.ratio_sums(metric, over[0], under[0], "types", group=group)
            is_left = np.isfinite(over)
            means = np.where(is_left, over, 0).sum(axis=1) / np.where(is_left, under, 0).sum(axis=1)
            return sums.left_out_sums(metric, means, "documents", group=group)

        yield statistic("self_similarity_adjusted", adjusted["raw"])
        for name, which in sample.groups.items():
            yield statistic("self_similarity_adjusted", np.where(which, adjusted["raw"], 0.0), ones * which, name)
        yield statistic("self_similarity", values["raw"])
        yield statistic("self_similarity_baseline", random["raw"])
        yield statistic("self_similarity_ratio", adjusted["raw"], 1 - random["raw"])
        yield statistic("self_similarity_by_token", adjusted["raw"] * sample.counts, ones * sample.counts)
        yield statistic("self_similarity_standardised", adjusted["standardised"])
        yield statistic("self_similarity_without_top", adjusted["without_top"])
        yield statistic("self_similarity_cluster_centred", adjusted["clustered"])
        yield statistic("self_similarity_cluster_centred_baseline", random["clustered"])
        yield statistic("explainable_variance", values["variance"])
        yield statistic("explainable_variance_adjusted", adjusted["variance"])

    def anisotropy(self, layer: OneLayer) -> Iterator[LayerSums]:
        """The mean cosine over all pairs of words (Ethayarajh 2019, section 3.3, who samples pairs).

        Intervals leave out one cluster after the other (jackknife).
        """
        by_cluster = group_sums(layer.vectors, self._starts, weights=np.reciprocal(layer.lengths))
        yield sums.jackknife_sums("anisotropy", *mean_cosine(by_cluster.astype(np.float64), self._counts), self._kind)

    def intra_sentence(self, layer: OneLayer) -> Iterator[LayerSums]:
        """The mean cosine of words to the mean of their sentence, and that of random words.

        The baseline is of sentences of as many words drawn at random from the whole text. Sentences are weighted alike;
        one with a single word is left out, as it is its own mean.
        """
        weights = np.stack([np.ones_like(layer.lengths), np.reciprocal(layer.lengths)], axis=1)
        found = []
        for order in self._orders:
            both = group_sums(layer.vectors, self._sentences, order=order, weights=weights)
            totals, of_unit = both[:, 0].astype(np.float64), both[:, 1]
            # The direction of a sum is that of the mean.
            lengths, products = np.linalg.norm(totals, axis=1), np.einsum("sd,sd->s", totals, of_unit)
            cosines = np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0)
            found.append(cosines / np.diff(self._sentences))
        for name, values in (("", found[0]), ("_adjusted", found[0] - found[1])):
            yield sums.mean_sums(f"intra_sentence_similarity{name}", values, self._sentence_clusters, kind=self._kind)

    def variance_shares(self, layer: OneLayer) -> Iterator[LayerSums]:
        """Shares of the variance of vectors between word types, between the tags of a type, and within a tag of a type.

        Variances are unbiased, pooled over types: n occurrences of a type vary by SS / (n − 1) (ε², Kelley 1935). The
        three shares add up to 1.
        """
        some = layer.centred(self.sample.places)
        total, within_types, within = (
            sums.cluster_sums(of.squared_distances(some).astype(np.float64), self._clusters) / (len(some) - len(of))
            for of in self._groups
        )
        yield sums.ratio_sums("variance_between_types", total - within_types, total, self._kind)
        if self._has_tags:
            yield sums.ratio_sums("variance_between_tags", within_types - within, total, self._kind)
        yield sums.ratio_sums("variance_within", within, total, self._kind)

    def spectrum(self, layer: OneLayer) -> Iterator[LayerSums]:
        """How evenly the vectors of all words of a text spread over directions (isotropy).

        About the covariance of vectors, with variances λ on principal components, are IsoScore (Rudman et al. 2022), 1
        if all dimensions vary alike, 0 if one alone varies, which clusters make smaller (Mickus et al. 2024); effective
        rank (Σλ)² / Σλ²; and the entropy of λ as shares. ``rogue_share`` is what the three dimensions that contribute
        most to the mean cosine of pairs of words contribute to it (Timkey & van Schijndel 2021). Intervals come from
        leaving out each of 20 blocks; of the entropy to first order.
        """
        kind: Clusters = "documents" if self._kind == "documents" else "blocks"
        squares, directions = layer.principal
        if not squares.sum() > 0:
            raise ModelError(f"layer {layer.number}: all words have the same vector, so that nothing varies")
        shares = np.maximum(squares / squares.sum(), np.finfo(np.float32).eps ** 2)
        logs = (directions.T * np.log2(shares)) @ directions
        products, totals = layer.products
        every, total, n = products.sum(axis=0, dtype=np.float64), totals.sum(axis=0), len(layer.vectors)
        covariances = itertools.chain(
            [(every - np.outer(total, total) / n) / (n - 1)],
            (
                (every - of_block - np.outer(rest, rest) / (n - size)) / (n - size - 1)
                for of_block, rest, size in zip(products, total - totals, np.diff(layer.bounds).tolist(), strict=True)
            ),
        )
        traces, norms, entropies = np.array(
            [(np.trace(one), np.einsum("ij,ij->", one, one), -np.einsum("ij,ij->", one, logs)) for one in covariances]
        ).T
        # Sums of eigenvalues and of their squares need no decomposition; entropies are −tr(S log S), S of trace 1.
        ranks, of_shares = traces**2 / norms, entropies / traces
        # What the steps of algorithm 1 come to: the distance of scaled variances from ones is √(2 dim − 2 √(dim rank)).
        yield sums.left_out_sums("iso_score", (ranks - 1) / (len(squares) - 1), kind)
        yield sums.left_out_sums("effective_rank_dimensions", ranks, kind)
        whole = np.clip(squares, 0, None) / np.clip(squares, 0, None).sum()
        entropy = -(whole * np.log2(whole, out=np.zeros_like(whole), where=whole > 0)).sum()
        yield sums.left_out_sums("matrix_entropy_bits", entropy + of_shares - of_shares[0], kind)
        # The sum over all pairs of different words by dimension; pairs of a word with itself are taken off.
        weights, blocks = 1 / layer.lengths, [slice(*bounds) for bounds in itertools.pairwise(layer.bounds)]
        of_blocks = np.stack([weights[rows] @ layer.vectors[rows] for rows in blocks]).astype(np.float64)
        own = np.stack([weights[rows] ** 2 @ layer.vectors[rows] ** 2 for rows in blocks]).astype(np.float64)
        without, own = (np.concatenate([some.sum(axis=0)[None], some.sum(axis=0) - some]) for some in (of_blocks, own))
        by_dimension = without**2 - own
        top = np.argsort(by_dimension[0])[-_ROGUE:]
        yield sums.left_out_sums("rogue_share", by_dimension[:, top].sum(axis=1) / by_dimension.sum(axis=1), kind)


@dataclass(frozen=True, eq=False)
class _View:
    """Vectors A x + b that are compared instead of centred vectors x; b differs between kinds of words.

    They are never formed: their sums are A applied to sums of x, and their lengths follow from products.
    """

    lengths: Floats32  # [item] lengths of the vectors A x + b
    apply: Callable[[Floats32], Floats32] = lambda totals: totals  # A, of sums [group, dim]
    added: Floats32 | None = None  # [kind, dim] each b
    kinds: Integers | None = None  # [item] which of them is added; None where there is a single one


def _similarities(centred: Floats32, views: Mapping[str, _View], part: _Part) -> dict[str, Floats]:
    """``[type]`` the mean cosine of all pairs of the occurrences of a part, by view."""
    types, starts, order = part
    lengths = np.stack([view.lengths for view in views.values()], axis=1)
    weights = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    every, n = group_sums(centred, starts, order=order, weights=weights), np.diff(starts)
    found = {}
    for place, (name, view) in enumerate(views.items()):
        of_items = weights[order, place]
        totals = view.apply(every[:, place])
        if view.added is not None:
            kinds = np.zeros_like(order) if view.kinds is None else view.kinds[order]
            shape = len(totals), len(view.added)
            totals = totals + scipy.sparse.csr_matrix((of_items, kinds, starts), shape=shape) @ view.added
        totals = totals.astype(np.float64)
        # Of the sum of unit vectors, the weight of a zero vector being 0.
        own = np.add.reduceat(of_items > 0, starts[:-1], dtype=np.float64)
        found[name] = np.full(len(types), np.nan)
        found[name][types] = (np.einsum("gd,gd->g", totals, totals) - own) / (n * (n - 1))
    return found


def _views(layer: OneLayer, centred: Floats32, places: Integers) -> dict[str, _View]:
    """The views of the centred vectors ``[item, dim]`` at some places of a layer, by name."""
    deviation = np.sqrt(layer.products[0].diagonal(axis1=1, axis2=2).sum(axis=0) / len(layer.vectors))
    # A dimension that never varies tells no two words apart.
    scale: Floats32 = np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > 0).astype(np.float32)
    top = layer.principal[1][: max(1, len(deviation) // 100)].astype(np.float32)
    means, labels = cluster_means(layer)
    labels = labels[places]
    squares, norms = np.empty((3, len(centred)), dtype=np.float32), np.einsum("kd,kd->k", means, means)
    for first in range(0, len(centred), ROWS):
        rows = slice(first, first + ROWS)
        part, near = centred[rows], labels[rows]
        own, of_top, of_means = np.einsum("wd,wd->w", part, part), part @ top.T, part @ means.T
        squares[0, rows] = (part * part) @ (scale * scale)
        squares[1, rows] = own - np.einsum("wt,wt->w", of_top, of_top)
        squares[2, rows] = own - 2 * of_means[np.arange(len(part)), near] + norms[near]
        # What rounding leaves of a vector is none: it has no direction.
        squares[1:, rows][squares[1:, rows] < 16 * np.finfo(np.float32).eps * own] = 0
    standardised, without_top, clustered = np.sqrt(squares)
    return {
        "raw": _View(layer.lengths[places], added=layer.mean[None]),
        "standardised": _View(standardised, lambda totals: np.asarray(totals * scale, dtype=np.float32)),
        "without_top": _View(without_top, lambda totals: np.asarray(totals - (totals @ top.T) @ top, dtype=np.float32)),
        "clustered": _View(clustered, added=-means, kinds=labels),
    }


def mean_cosine(by_cluster: Floats, counts: Integers) -> tuple[float, Floats]:
    """The mean cosine of all pairs of words, and ``[cluster]`` by how much it is more than without each cluster.

    It follows from ``[cluster, dim]`` sums of the unit vectors of each cluster, and their numbers of words.
    """
    n, total = int(counts.sum()), by_cluster.sum(axis=0)
    # ‖Σ x̂‖² less the n cosines of words with themselves, without each cluster.
    left = n - counts
    squared = total @ total - 2 * by_cluster @ total + (by_cluster**2).sum(axis=1)
    whole = (total @ total - n) / (n * (n - 1))
    without = (squared - left) / (left * (left - 1))
    return float(whole), np.asarray(whole - without)


# Clusters of words.


def cluster_means(layer: OneLayer) -> tuple[Floats32, Integers]:
    """``[cluster, dim]`` the means of the clusters of a layer's vectors, less the mean of all, and ``[word]`` clusters.

    Clusters are those of k-means on the 32 largest principal components of 2,000 words at random, k from 2 to 15 by the
    largest silhouette of 1,000 of them in all dimensions; where none reaches 0.1 all vectors are one cluster.
    """
    rng = np.random.default_rng(0)
    vectors, directions = layer.vectors, layer.principal[1][:_DIMENSIONS].astype(np.float32)
    some: Floats32 = vectors[rng.permutation(len(vectors))[:_CLUSTERED]] - layer.mean
    reduced: Floats32 = np.asarray(some @ directions.T)
    distances = np.sqrt(_squares(some[:_SILHOUETTE_WORDS], some[:_SILHOUETTE_WORDS]))
    np.fill_diagonal(distances, 0)
    best, centres, started = _LEAST_SILHOUETTE, reduced[:0], _first_centres(reduced, _MOST_CLUSTERS, rng)
    for k in range(2, len(started) + 1):
        found = k_means(reduced, started[:k])
        near = _squares(reduced[: len(distances)], found).argmin(axis=0)
        if not 1 < len(np.unique(near)) < len(near):
            continue
        if (silhouette := sklearn.metrics.silhouette_score(distances, near, metric="precomputed")) > best:
            best, centres = silhouette, found
    labels = np.zeros(len(vectors), dtype=np.int64)
    if not len(centres):
        return np.zeros((1, vectors.shape[1]), dtype=np.float32), labels
    totals, of_mean = np.zeros((len(centres), vectors.shape[1])), layer.mean @ directions.T
    for first in range(0, len(vectors), ROWS):
        part = vectors[first : first + ROWS]
        near = _squares(np.asarray(part @ directions.T - of_mean), centres).argmin(axis=0)
        labels[first : first + ROWS] = near
        totals += np.asarray(near == np.arange(len(centres))[:, None], dtype=np.float32) @ part
    counts = np.bincount(labels, minlength=len(centres))[:, None]
    means = np.where(counts > 0, totals / np.maximum(counts, 1) - layer.mean, 0)
    return means.astype(np.float32), labels


def _first_centres(vectors: Floats32, most: int, rng: np.random.Generator) -> Floats32:
    """``[centre, dim]`` by greedy k-means++ (Arthur & Vassilvitskii 2007), as many as differ.

    The first k of them are the first centres of k clusters.
    """
    chosen = [int(rng.integers(len(vectors)))]
    squares = ((vectors - vectors[chosen[0]]) ** 2).sum(axis=1)
    n_trials = 2 + int(np.log(most))
    while len(chosen) < most and squares.sum() > 0:
        drawn = rng.random(n_trials) * squares.sum(dtype=np.float64)
        picked = np.minimum(np.searchsorted(np.cumsum(squares, dtype=np.float64), drawn), len(vectors) - 1)
        after = np.minimum(squares, _squares(vectors, vectors[picked]))
        best = int(after.sum(axis=1, dtype=np.float64).argmin())
        chosen.append(int(picked[best]))
        squares = after[best]
        squares[chosen] = 0
    return vectors[chosen]


def k_means(vectors: Floats32, centres: Floats32) -> Floats32:
    """``[centre, dim]`` by Lloyd's algorithm from some centres; one without vectors stays where it was."""
    tolerance = _TOLERANCE * float(vectors.var(axis=0).mean())
    for _ in range(_ITERATIONS):
        near = _squares(vectors, centres).argmin(axis=0)
        is_in = (near == np.arange(len(centres))[:, None]).astype(np.float32)
        counts, before = is_in.sum(axis=1)[:, None], centres
        centres = np.where(counts > 0, (is_in @ vectors) / np.maximum(counts, 1), before)
        if ((centres - before) ** 2).sum() <= tolerance:
            break
    return centres


def _squares(vectors: Floats32, centres: Floats32) -> Floats32:
    """``[centre, vector]`` squared distances."""
    norms, own = np.einsum("vd,vd->v", vectors, vectors), np.einsum("cd,cd->c", centres, centres)
    return np.asarray(np.maximum(norms - 2 * (centres @ vectors.T) + own[:, None], 0))


# Principal components of types.


def explainable_variance(vectors: Floats32, starts: Integers, order: Integers | None = None) -> Floats:
    """``[group]`` the share of the variance of each group of vectors on its first principal component.

    It is 1 where all vectors of a group are the same. Groups of more than 200 vectors are represented by the first 200.
    ``starts`` are ``[group + 1]`` the boundaries of groups of two or more, ``order`` the vector ``[item]`` at each
    place.
    """
    sizes = np.minimum(np.diff(starts), _MOST_EXPLAINED)
    shares = np.ones(len(sizes))
    same = ((np.flatnonzero(sizes == size), size) for size in np.unique(sizes).tolist())
    batches = ((part, size) for of, size in same for part in np.array_split(of, -(-len(of) * size // ROWS)))
    for which, size in batches:
        rows = starts[which, None] + np.arange(size)
        groups = vectors[rows if order is None else order[rows]]  # [group, vector, dim]
        scale = (groups[:, 0].astype(np.float64) ** 2).sum(axis=1)
        groups -= groups.sum(axis=1, keepdims=True) / np.float32(size)
        turned = groups.transpose(0, 2, 1)
        products = (groups @ turned if size <= groups.shape[2] else turned @ groups).astype(np.float64)
        total = products.trace(axis1=1, axis2=2)
        varies = total > 1e-12 * scale * size
        shares[which[varies]] = np.linalg.eigvalsh(products[varies])[:, -1] / total[varies]
    return shares
