"""Statistics of heads: ratios of two sums, kept by clusters of sentences so that intervals follow. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.corpora import Sentences
from bertology.measures import ratio_intervals
from bertology.measures.intervals import RatioIntervals

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
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
    sentences: Sentences,
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
