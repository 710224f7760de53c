"""Statistics of layers and of attention heads as ratios of two sums over clusters, so that intervals follow."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._lazy import scipy
from bertology._names import by_key
from bertology.measures.intervals import Bootstrap, ratio_intervals
from bertology.measures.metrics import ratio

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Layers = tuple[int | None, ...]
"""Numbers of layers; None for a statistic of no layer."""
Clusters = Literal["sentences", "types", "blocks", "documents", "frames", "pairs", "ranges", "templates", "items"]
"""Units that are resampled: sentences (of large texts, neighbours together), word types, blocks of neighbouring
sentences, blocks of whole documents, frames from which pairs of texts are made, pairs of texts themselves, ranges of
100 numbers, templates of texts, or items themselves."""


@dataclass(frozen=True, eq=False)
class LayerSums:
    """One statistic of some layers, with the numerator and the denominator of each cluster."""

    metric: str
    layers: Layers
    over: Floats
    """``[layer, cluster]`` numerators."""
    under: Floats
    """``[layer, cluster]`` denominators; the layer axis has length 1 where all layers share them."""
    clusters: Clusters
    group: str = ""
    """Restriction of the statistic, such as a part of speech; empty where it is of all words."""
    n_items: int | None = None
    """Number of items behind a statistic that does not divide by it, 0 where these are all; None where it does."""

    @property
    def values(self) -> Floats:
        """``[layer]``; NaN where there is nothing to divide by."""
        return ratio(self.over.sum(axis=1), self.under.sum(axis=1))


# Statistics of one layer, which is named by :func:`by_layer`, or of several: then the first axis of arrays is theirs.
_NO_LAYER: Layers = (None,)


def by_layer(found: Iterable[tuple[int, Iterable[LayerSums]]]) -> Iterator[LayerSums]:
    """Statistics of single layers, given with the numbers of these, as statistics of several layers.

    Those of one name and group are joined, in the order in which they first appear; each has the layers in which it
    was measured.
    """
    every = (replace(one, layers=(layer,)) for layer, statistics in found for one in statistics)
    for parts in by_key(((one.metric, one.group), one) for one in every).values():
        over, under = (np.concatenate([getattr(one, part) for one in parts]) for part in ("over", "under"))
        yield replace(parts[0], layers=tuple(one.layers[0] for one in parts), over=over, under=under)


def ratio_sums(
    metric: str,
    over: ArrayLike,
    under: ArrayLike | None = None,
    kind: Clusters = "sentences",
    *,
    group: str = "",
    layers: Layers = _NO_LAYER,
) -> LayerSums:
    """A statistic from ``[cluster]`` or ``[layer, cluster]`` numerators and denominators, which are 1 when left out."""
    numerators = np.atleast_2d(np.asarray(over, dtype=np.float64))
    denominators = np.ones((1, numerators.shape[1])) if under is None else np.asarray(under, dtype=np.float64)
    return LayerSums(metric, layers, numerators, np.atleast_2d(denominators), kind, group)


def mean_sums(
    metric: str,
    values: Floats | Bools,
    clusters: Integers,
    *,
    weights: Floats | Bools | None = None,
    n_clusters: int = 0,
    kind: Clusters = "sentences",
    group: str = "",
    layers: Layers = _NO_LAYER,
) -> LayerSums:
    """A mean over items, whose values are ``[item]`` or ``[layer, item]``, in clusters ``[item]`` numbered from 0.

    Weights ``[item]`` are how much each counts, all alike when left out; ``n_clusters`` is given where some clusters
    may have no item, ``group`` names what the mean is restricted to.
    """
    counted = np.ones(len(clusters)) if weights is None else weights.astype(np.float64)
    over, under = (cluster_sums(some, clusters, n_clusters) for some in (values * counted, counted))
    return LayerSums(metric, layers, over, under, kind, group)


def cluster_sums(values: Floats, clusters: Integers, n_clusters: int = 0) -> Floats:
    """``[layer, cluster]`` sums of values ``[layer, item]`` or ``[item]`` over the items of clusters ``[item]``."""
    rows = [np.bincount(clusters, row, minlength=n_clusters) for row in np.atleast_2d(values)]
    return np.asarray(np.stack(rows), dtype=np.float64)


def jackknife_sums(
    metric: str,
    whole: ArrayLike,
    influences: Floats,
    kind: Clusters = "sentences",
    *,
    group: str = "",
    layers: Layers = _NO_LAYER,
    n_items: int = 0,
) -> LayerSums:
    """A statistic that is no ratio of sums, in its linear approximation around all data.

    Resampling clusters changes it by the sum of what each of them contributes, to first order: this is the
    infinitesimal jackknife (Efron 1982, chapter 6). The mean over clusters is the statistic itself. ``whole`` is it on
    all data, or ``[layer]``; ``influences`` are ``[cluster]`` or ``[layer, cluster]`` its derivative by the weight of
    each cluster, or its value on all data less that without the cluster; ``kind`` names what is resampled, and
    ``n_items`` is how many items the group has, 0 if it has all.
    """
    influences = np.atleast_2d(influences)
    centred = influences - influences.mean(axis=1, keepdims=True)
    over = np.reshape(whole, (-1, 1)) + influences.shape[1] * centred
    return replace(ratio_sums(metric, over, None, kind, group=group, layers=layers), n_items=n_items)


def left_out_sums(metric: str, values: Floats, kind: Clusters, *, group: str = "") -> LayerSums:
    """:func:`jackknife_sums` from the statistic ``[1 + cluster]`` on all data and without each cluster."""
    return jackknife_sums(metric, values[0], values[0] - values[1:], kind, group=group)


def rank_correlation_sums(metric: str, first: ArrayLike, second: ArrayLike, kind: Clusters) -> LayerSums:
    """Spearman's correlation of two numbers ``[item]``, each item a cluster, by :func:`left_out_sums`.

    Without an item those above it are one rank lower, and those equal to it half a rank.
    """
    pair = [np.asarray(some, dtype=np.float64) for some in (first, second)]
    ranks = [scipy.stats.rankdata(some) for some in pair]
    values = [np.asarray(np.corrcoef(ranks))[0, 1]]
    for item in range(len(pair[0])):
        left = [one - (some > some[item]) - (some == some[item]) / 2 for one, some in zip(ranks, pair, strict=True)]
        values.append(np.asarray(np.corrcoef(np.delete(left, item, axis=1)))[0, 1])
    return left_out_sums(metric, np.array(values), kind)


def item_jackknife(metric: str, found: tuple[float, Floats], clusters: Integers, *, group: str = "") -> LayerSums:
    """:func:`jackknife_sums` from a statistic and its derivatives by the weight of items ``[item]`` of sentences."""
    return jackknife_sums(metric, found[0], cluster_sums(found[1], clusters), group=group, n_items=len(clusters))


def total_and_groups(parts: Sequence[LayerSums]) -> Iterator[LayerSums]:
    """One statistic over all of its groups together, and where there are several of each group."""
    over, under = (np.sum([getattr(one, part) for one in parts], axis=0) for part in ("over", "under"))
    yield replace(parts[0], over=over, under=under, group="")
    if len(parts) > 1:
        yield from parts


Level = Literal["word", "piece"]

MOST_CLUSTERS = 1000
"""Sums are kept for this many clusters of sentences at most, so that memory does not grow with the corpus."""


@dataclass(frozen=True)
class Scope:
    """The text, layers and heads of a pass over attention maps; a statistic is made for one scope."""

    n_sentences: int
    layers: tuple[int, ...]
    """Numbers of the layers, from 1, ascending: the order in which a batch's layers arrive."""
    n_heads: int
    level: Level
    """Units of the maps."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters that sums are kept for: one a sentence, as long as there are few enough."""
        return min(self.n_sentences, MOST_CLUSTERS)

    def clusters(self, sentences: Integers) -> Integers:
        """The cluster of each sentence; in large corpora some neighbours share one."""
        return sentences * self.n_clusters // max(1, self.n_sentences)


@dataclass(frozen=True, eq=False)
class HeadRatios:
    """Some statistics of every head, each a ratio of two sums, with the sums of each cluster of sentences."""

    names: tuple[str, ...]
    """``[statistic]``"""
    layers: tuple[int, ...]
    """Numbers of the layers, from 1; empty where a ratio belongs to the whole model, or to none, as a baseline does."""
    over: Floats
    """``[statistic, layer, head, cluster]`` numerators; the head axis, or both layer and head axis, has length 1 where
    ratios belong to layers or to the model."""
    under: Floats
    """``[statistic, layer, head, cluster]`` denominators; layer and head axis have length 1 where all share them."""
    metric: str = ""
    """The metric, where the names are groups that it is measured on, such as relations; empty where each name is
    a metric of its own."""
    unit: Literal["head", "layer", "model"] = "head"
    """The part of the model that each ratio belongs to."""

    @cached_property
    def values(self) -> Floats:
        """``[statistic, layer, head]``; NaN where there was nothing to count."""
        return ratio(self.over.sum(-1), self.under.sum(-1))

    def of(self, name: str) -> Floats:
        """``[layer, head]`` values of one statistic."""
        return np.asarray(self.values[self.names.index(name)])

    def intervals(self, name: str, *, seed: int = 0) -> Bootstrap:
        """95 % intervals of one statistic by the bootstrap over clusters, heads of the first layer first."""
        number = self.names.index(name)
        over = self.over[number].reshape(-1, self.over.shape[-1])
        under = np.broadcast_to(self.under[number], self.over.shape[1:]).reshape(over.shape)
        return ratio_intervals(over, under, seed=seed)


def text_ratios(
    names: tuple[str, ...],
    sentences: Sized,
    of_sentence: ArrayLike,
    groups: ArrayLike,
    over: ArrayLike,
    under: ArrayLike,
    *,
    metric: str,
) -> HeadRatios:
    """Ratios that belong to the whole text, in the same clusters as those of heads: what baselines are.

    An item has the number of its sentence, its group as a place in ``names``, and what it adds to numerator and
    denominator, a number or a truth value: all ``[item]``.
    """
    scope = Scope(len(sentences), (), 0, "word")
    cells = np.asarray(groups), scope.clusters(np.asarray(of_sentence, dtype=np.int64))
    sums = np.zeros((2, len(names), 1, 1, scope.n_clusters))
    for total, values in zip(sums, (over, under), strict=True):
        np.add.at(total[:, 0, 0], cells, np.asarray(values, dtype=np.float64))
    return HeadRatios(names, (), sums[0], sums[1], metric, "model")
