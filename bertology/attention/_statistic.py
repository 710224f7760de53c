"""What a head statistic is, and sums by clusters of sentences from which intervals are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from bertology.attention._batch import Integers, MapBatch, Scope, Units
from bertology.attention._ratios import Floats, HeadRatios


class HeadStatistic(ABC):
    """Sums over attention maps, made batch by batch.

    A statistic begins empty, for a :class:`Scope`. :func:`stream_maps` is given what makes it, a class or a
    ``functools.partial`` of one: each thread fills one of its own, and they are merged at the end.
    """

    @abstractmethod
    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer of a batch; its layers come one after another, in ascending order."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the sums of another thread."""

    @abstractmethod
    def finish(self) -> Any:
        """What it comes to, as a frozen result."""


MakeStatistic = Callable[[Scope], HeadStatistic]


class ClusterSums:
    """Adds up ratios over clusters of sentences: the sums that most statistics keep.

    Args:
        scope: what the pass reads.
        names: of the statistics.
        shared: whether what is divided by is the same for all heads, as a number of rows is.
        metric: what is measured, if the names are only what it is measured of.
    """

    def __init__(self, scope: Scope, names: Sequence[str], *, shared: bool, metric: str = "") -> None:
        self._scope, self._names, self._shared, self._metric = scope, tuple(names), shared, metric
        # Clusters first, so that what is added to one stands together.
        shape = (scope.n_clusters, len(scope.layers), scope.n_heads, len(names))
        self._over = np.zeros(shape)
        self._under = np.zeros((shape[0], 1, 1, shape[3]) if shared else shape)

    def add(self, layer: int, units: Units, over: Tensor, under: Tensor) -> None:
        """Add sums over the rows of each sentence.

        Args:
            layer: from 1.
            units: of the batch.
            over: ``[sentence, head, statistic]``
            under: ``[sentence, statistic]`` where heads share it, else ``[sentence, head, statistic]``.
        """
        place = self._scope.layers.index(layer)
        clusters = self._scope.clusters(units.sentences)
        _add_by_cluster(self._over[:, place], clusters, over)
        if not self._shared:
            _add_by_cluster(self._under[:, place], clusters, under)
        elif place == 0:
            _add_by_cluster(self._under[:, 0, 0], clusters, under)

    def merge(self, other: ClusterSums) -> None:
        """Add the sums of another thread."""
        self._over += other._over
        self._under += other._under

    def finish(self) -> HeadRatios:
        """The ratios."""
        over, under = (sums.transpose(3, 1, 2, 0) for sums in (self._over, self._under))
        return HeadRatios(self._names, self._scope.layers, over, under, self._metric)


class SumsStatistic(HeadStatistic):
    """A statistic that keeps sums by cluster of sentences and nothing else; subclasses say in ``update`` of what.

    Args:
        sums: what it keeps.
    """

    def __init__(self, *sums: ClusterSums) -> None:
        self._sums = sums

    def merge(self, other: Self) -> None:
        """Add the sums of another thread."""
        for own, more in zip(self._sums, other._sums, strict=True):
            own.merge(more)

    def finish(self) -> tuple[HeadRatios, ...]:
        """The ratios."""
        return tuple(sums.finish() for sums in self._sums)


def row_sums(rows: Tensor, counted: Tensor) -> Tensor:
    """Values of rows summed over the counted rows of each sentence.

    Args:
        rows: ``[sentence, head, unit]``
        counted: ``[sentence, unit]``

    Returns:
        ``[sentence, head]``
    """
    # What stands in rows of padding is not defined, so it is put aside and not multiplied by zero.
    return torch.where(counted[:, None], rows, 0).sum(-1)


def _add_by_cluster(sums: Floats, clusters: Integers, values: Tensor) -> None:
    """Add ``[sentence, …]`` to ``[cluster, …]``. A cluster may stand in a batch more than once, which plain indexed
    addition would count once."""
    order = np.argsort(clusters, kind="stable")
    found, starts = np.unique(clusters[order], return_index=True)
    sums[found] += np.add.reduceat(values.cpu().double().numpy()[order], starts, axis=0)
