"""Statistics of layers and of attention heads as ratios of two sums over clusters, so that intervals follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.measures.intervals import RatioIntervals, ratio_intervals

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Layers = tuple[int | None, ...]
"""Numbers of layers; None for a statistic of no layer."""
Clusters = Literal["sentences", "types", "blocks", "documents", "frames"]
"""Units that are resampled: sentences (of large texts, neighbours together), word types, blocks of neighbouring
sentences, blocks of whole documents, or frames from which pairs of texts are made."""


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

    @property
    def values(self) -> Floats:
        """``[layer]``; NaN where there is nothing to divide by."""
        over, under = np.broadcast_arrays(self.over.sum(axis=1), self.under.sum(axis=1))
        return np.asarray(np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0))


def jackknife_sums(
    metric: str, layers: Layers, whole: Floats, influences: Floats, clusters: Clusters, *, group: str = ""
) -> LayerSums:
    """A statistic that is no ratio of sums, in its linear approximation around all data.

    Resampling clusters changes it by the sum of what each of them contributes, to first order: this is the
    infinitesimal jackknife (Efron 1982, chapter 6). The mean over clusters is the statistic itself.

    Args:
        metric: name of the statistic.
        layers: its layers.
        whole: ``[layer]`` the statistic on all data.
        influences: ``[layer, cluster]`` its derivative by the weight of each cluster, or the difference between the
            statistic with all data and without the cluster.
        clusters: what is resampled.
        group: what it is restricted to.
    """
    n_clusters = influences.shape[1]
    centred = influences - influences.mean(axis=1, keepdims=True)
    over = whole[:, None] + n_clusters * centred
    return LayerSums(metric, layers, over, np.ones((1, n_clusters)), clusters, group)


def left_out_sums(metric: str, layers: Layers, values: Floats, clusters: Clusters, *, group: str = "") -> LayerSums:
    """:func:`jackknife_sums` from the statistic ``[layer, 1 + cluster]`` on all data and without each cluster."""
    return jackknife_sums(metric, layers, values[:, 0], values[:, :1] - values[:, 1:], clusters, group=group)


def item_jackknife(
    metric: str, layers: Layers, found: Sequence[tuple[float, Floats]], clusters: Integers, *, group: str = ""
) -> LayerSums:
    """:func:`jackknife_sums` over sentences from ``[layer]`` values, each with its derivatives by weights of items.

    Args:
        metric: name of the statistic.
        layers: its layers.
        found: ``[layer]`` the statistic and ``[item]`` its derivatives.
        clusters: ``[item]`` the sentence of each, from 0.
        group: what it is restricted to.
    """
    whole, influences = np.array([value for value, _ in found]), np.stack([by_item for _, by_item in found])
    return jackknife_sums(metric, layers, whole, cluster_sums(influences, clusters), "sentences", group=group)


def cluster_sums(values: Floats, clusters: Integers, n_clusters: int = 0) -> Floats:
    """``[layer, cluster]`` sums of values ``[layer, item]`` or ``[item]`` over the items of clusters ``[item]``."""
    rows = [np.bincount(clusters, row, minlength=n_clusters) for row in np.atleast_2d(values)]
    return np.asarray(np.stack(rows), dtype=np.float64)


def mean_sums(
    metric: str,
    layers: Layers,
    values: Floats,
    clusters: Integers,
    *,
    weights: Floats | Bools | None = None,
    n_clusters: int = 0,
    kind: Clusters = "sentences",
    group: str = "",
) -> LayerSums:
    """A mean over items.

    Args:
        metric: name of the statistic.
        layers: its layers.
        values: ``[layer, item]``.
        clusters: ``[item]`` the cluster of each, from 0.
        weights: ``[item]`` how much each counts; all alike when left out.
        n_clusters: number of clusters, where some may have no item.
        kind: what is resampled.
        group: what the mean is restricted to.
    """
    over, under = weighted_sums(values, clusters, weights, n_clusters)
    return LayerSums(metric, layers, over, under, kind, group)


def weighted_sums(
    values: Floats, clusters: Integers, weights: Floats | Bools | None = None, n_clusters: int = 0
) -> tuple[Floats, Floats]:
    """Numerators ``[layer, cluster]`` and denominators ``[1, cluster]`` of :func:`mean_sums`."""
    counted = np.ones(len(clusters)) if weights is None else weights.astype(np.float64)
    return cluster_sums(values * counted, clusters, n_clusters), cluster_sums(counted, clusters, n_clusters)


def grouped_sums(
    metric: str, layers: Layers, groups: Mapping[str, tuple[Floats, Floats]], *, kind: Clusters = "sentences"
) -> Iterator[LayerSums]:
    """One statistic over all of some groups, and where there are several of each group.

    Args:
        metric: its name.
        layers: its layers.
        groups: by name, numerators ``[layer, cluster]`` and denominators ``[1, cluster]``.
        kind: what is resampled.
    """
    over, under = (np.sum([both[part] for both in groups.values()], axis=0) for part in (0, 1))
    yield LayerSums(metric, layers, over, under, kind)
    if len(groups) > 1:
        for group, both in groups.items():
            yield LayerSums(metric, layers, *both, kind, group)


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
        over, under = np.broadcast_arrays(self.over.sum(-1), self.under.sum(-1))
        values = np.full(over.shape, np.nan)
        np.divide(over, under, out=values, where=under > 0)
        return values

    def of(self, name: str) -> Floats:
        """``[layer, head]`` values of one statistic."""
        return np.asarray(self.values[self.names.index(name)])

    def intervals(self, name: str, *, seed: int = 0) -> RatioIntervals:
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
