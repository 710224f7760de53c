"""A statistic of every layer as a ratio of two sums over clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Clusters = Literal["sentences", "types", "blocks", "documents", "frames"]
"""What is resampled: sentences (of large texts, neighbours together), word types, blocks of neighbouring sentences,
blocks of whole documents, or frames from which pairs of texts are made."""


@dataclass(frozen=True, eq=False)
class LayerSums:
    """One statistic of some layers, with what each cluster adds to its numerator and denominator."""

    metric: str
    layers: tuple[int | None, ...]
    """Numbers of layers; None for what reads no layer."""
    over: Floats
    """``[layer, cluster]`` numerators."""
    under: Floats
    """``[layer, cluster]`` denominators; the layer axis has length 1 where all layers share them."""
    clusters: Clusters
    group: str = ""
    """What the statistic is restricted to, such as a part of speech; empty where it is of all words."""

    @property
    def values(self) -> Floats:
        """``[layer]``; NaN where there is nothing to divide by."""
        over, under = np.broadcast_arrays(self.over.sum(axis=1), self.under.sum(axis=1))
        return np.asarray(np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0))


def jackknife_sums(
    metric: str,
    layers: tuple[int | None, ...],
    whole: Floats,
    influences: Floats,
    clusters: Clusters,
    *,
    group: str = "",
) -> LayerSums:
    """A statistic that is no ratio of sums, in its linear approximation around all data.

    Resampling clusters changes it by the sum of what each of them contributes, to first order: this is the
    infinitesimal jackknife (Efron 1982, chapter 6). The mean over clusters is the statistic itself.

    Args:
        metric: name of the statistic.
        layers: those that it is of.
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
