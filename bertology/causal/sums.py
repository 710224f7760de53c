"""Effects of interventions as sums over clusters of texts, which tables and intervals are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.measures.intervals import sums_over_clusters
from bertology.measures.sums import LayerSums

if TYPE_CHECKING:
    from bertology.causal._map import PatchingMap


def cluster_sums(
    metric: str,
    layers: Sequence[int],
    over: NDArray[np.float64],
    under: NDArray[np.float64] | None,
    clusters: Sequence[str],
    group: str = "",
) -> LayerSums:
    """``[layer, item]`` numerators and denominators, added up over the items of each cluster.

    Without denominators a mean over items: NaN where an item has no value.
    """
    if under is None:
        has_value = np.isfinite(over)
        over, under = np.where(has_value, over, 0.0), has_value.astype(np.float64)
    above, below = (sums_over_clusters(part, clusters) for part in (over, under))
    return LayerSums(metric, tuple(layers), above, below, "frames", group)


def effect_sums(metric: str, found: PatchingMap, whole: str) -> Iterator[LayerSums]:
    """The effect of the place ``whole``, which is the statistic itself, and of each place as a group."""
    for number, place in enumerate(found.places):
        change = found.changes[:, number]
        under = np.where(np.isfinite(change), found.whole, 0.0)
        for group in ("", place) if place == whole else (place,):
            yield cluster_sums(metric, found.layers, np.nan_to_num(change), under, found.clusters, group)


def share_sums(metric: str, maps: Sequence[PatchingMap], place: str) -> LayerSums:
    """The share of texts, of all maps together, in which the word is chosen that the new state of a place calls for."""
    right = np.concatenate([one.right[:, one.places.index(place)] for one in maps], axis=1)
    return cluster_sums(metric, maps[0].layers, right, None, [cluster for one in maps for cluster in one.clusters])


def pair_reason(reason: str) -> str:
    """Why a pair is left out, without its words."""
    if "single piece" in reason:
        return "an answer of several pieces"
    if "pieces" in reason:
        return "words of different numbers of pieces"
    return "texts of different numbers of words" if "give two of the same number" in reason else reason
