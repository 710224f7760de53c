"""Effects of interventions as sums over clusters of texts, which tables and intervals are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.measures.intervals import sums_over_clusters
from bertology.measures.sums import LayerSums

if TYPE_CHECKING:
    from bertology.causal._choices import Choices
    from bertology.causal._map import PatchingMap


def effect_sums(metric: str, found: PatchingMap, whole: str) -> Iterator[LayerSums]:
    """The effect of one place, which is the statistic itself, and of each place as a group.

    Args:
        metric: what it is called.
        found: effects.
        whole: the place that the statistic without a group is of.
    """
    for number, place in enumerate(found.places):
        change = found.changes[:, number]
        has_place = np.isfinite(change)
        over, under = np.where(has_place, change, 0.0), np.where(has_place, found.whole, 0.0)
        for group in ("", place) if place == whole else (place,):
            yield cluster_sums(metric, found.layers, over, under, found.clusters, group)


def share_sums(metric: str, maps: Sequence[PatchingMap], place: str) -> LayerSums:
    """The share of texts in which the word is chosen that the new state of a place calls for.

    Args:
        metric: what it is called.
        maps: effects, all of whose pairs count together.
        place: whose states are exchanged.
    """
    right = np.concatenate([one.right[:, one.places.index(place)] for one in maps], axis=1)
    counts = np.isfinite(right)
    clusters = tuple(cluster for one in maps for cluster in one.clusters)
    return cluster_sums(metric, maps[0].layers, np.where(counts, right, 0.0), counts.astype(np.float64), clusters, "")


def pair_reason(reason: str) -> str:
    """Why a pair is left out, without its words."""
    if "single piece" in reason:
        return "an answer of several pieces"
    if "pieces" in reason:
        return "words of different numbers of pieces"
    return "texts of different numbers of words" if "give two of the same number" in reason else reason


def cluster_sums(
    metric: str,
    layers: tuple[int, ...],
    over: NDArray[np.float64],
    under: NDArray[np.float64],
    clusters: Sequence[str],
    group: str,
) -> LayerSums:
    """``[layer, item]`` numerators and denominators, added up over the items of each cluster."""
    above, below = (sums_over_clusters(part, clusters) for part in (over, under))
    return LayerSums(metric, layers, above, below, "frames", group)


def erased_sums(found: Choices) -> Iterator[LayerSums]:
    """Shares of right choices by layer, with something erased at each place, which are groups, and with nothing."""
    for name, right in found.right.items():
        for number, place in enumerate(found.places):
            has_place = np.isfinite(right[:, number])
            parts = np.where(has_place, right[:, number], 0.0), 2.0 * has_place
            for group in ("", place) if number == len(found.places) - 1 else (place,):
                yield cluster_sums(f"accuracy_{name}", found.layers, *parts, found.clusters, group)
    plain = np.broadcast_to(found.plain, (len(found.layers), len(found.clusters))).copy()
    yield cluster_sums("accuracy_plain", found.layers, plain, np.full_like(plain, 2.0), found.clusters, "")
