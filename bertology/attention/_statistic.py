"""What a statistic of heads is: what it is given batch by batch, and the sums that most statistics keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from bertology.attention._norms import MapNorms
from bertology.attention._ratios import Floats, HeadRatios, Integers, Scope
from bertology.attention._texts import Units

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class MapBatch:
    """The attention maps of one layer for a few texts. Valid while ``update`` runs: keep sums, not maps."""

    layer: int
    """From 1."""
    maps: Tensor
    """``[sentence, head, unit, unit]`` float32, from (rows) each unit to (columns) each unit; 0 in columns of
    padding. At word level attention *to* a word is summed and *from* a word averaged over its pieces (Clark et al.
    2019, section 4.1), and that to a piece which words share divided equally, so that rows sum to 1."""
    norms: MapNorms | None
    """‖αf(x)‖, the length of what each unit adds to another through a head (Kobayashi et al. 2020); None unless
    norms were requested."""
    units: Units
    """The same object for all layers of a batch."""

    @cached_property
    def most_attended(self) -> tuple[Tensor, Tensor]:
        """``[sentence, head, unit]`` of each row the largest weight to a word, and the place of that word, the first of
        equals. Special tokens do not compete."""
        # Far below 0, so that adding is enough: to choose by a mask takes several times as long.
        penalty = torch.where(self.units.is_word, 0.0, -2.0).to(self.maps)
        largest, places = torch.max(self.maps + penalty[:, None, None], dim=-1)
        return largest, places


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
        """The result, frozen."""


MakeStatistic = Callable[[Scope], HeadStatistic]


class PerBatch(Generic[Made]):
    """Something that is made of a batch's units once, and used for all its layers."""

    def __init__(self, make: Callable[[Units], Made]) -> None:
        self._make = make
        self._units: Units | None = None

    def __call__(self, units: Units) -> Made:
        """What belongs to the units; made anew where they are not those of the last call."""
        if self._units is not units:
            self._made, self._units = self._make(units), units
        return self._made


class ClusterSums:
    """Numerators and denominators of ratios by name, added up by cluster of sentences: what most statistics keep.

    All heads have the same denominator, such as a number of rows, where it is ``shared``. A ``metric`` is what is
    measured where the names are groups that it is measured on.
    """

    def __init__(self, scope: Scope, names: Sequence[str], *, shared: bool, metric: str = "") -> None:
        self._scope, self._names, self._shared, self._metric = scope, tuple(names), shared, metric
        # Clusters first, so that what is added to one stands together.
        shape = (scope.n_clusters, len(scope.layers), scope.n_heads, len(names))
        self._over = np.zeros(shape)
        self._under = np.zeros((shape[0], 1, 1, shape[3]) if shared else shape)

    def add(self, layer: int, units: Units, over: Tensor, under: Tensor) -> None:
        """Add sums over the rows of each sentence in a layer: ``[sentence, head, statistic]`` numerators, and
        denominators, ``[sentence, statistic]`` where heads share them."""
        place = self._scope.layers.index(layer)
        clusters = self._scope.clusters(units.sentences)
        _add_by_cluster(self._over[:, place], clusters, over)
        if not self._shared:
            _add_by_cluster(self._under[:, place], clusters, under)
        elif place == 0:
            _add_by_cluster(self._under[:, 0, 0], clusters, under)

    def merge(self, other: ClusterSums) -> None:
        self._over += other._over
        self._under += other._under

    def finish(self) -> HeadRatios:
        over, under = (sums.transpose(3, 1, 2, 0) for sums in (self._over, self._under))
        return HeadRatios(self._names, self._scope.layers, over, under, self._metric)


class SumsStatistic(HeadStatistic):
    """A statistic that keeps sums by cluster of sentences and nothing else; subclasses implement ``update``."""

    def __init__(self, *sums: ClusterSums) -> None:
        self._sums = sums

    def merge(self, other: Self) -> None:
        for sums, more in zip(self._sums, other._sums, strict=True):
            sums.merge(more)

    def finish(self) -> tuple[HeadRatios, ...]:
        """The ratios, one object for each of the sums."""
        return tuple(sums.finish() for sums in self._sums)


def row_sums(rows: Tensor, counted: Tensor) -> Tensor:
    """``[sentence, head]`` of values ``[sentence, head, unit]``, summed over the counted rows ``[sentence, unit]``."""
    # What stands in rows of padding is not defined, so it is put aside and not multiplied by zero.
    return torch.where(counted[:, None], rows, 0).sum(-1)


def _add_by_cluster(sums: Floats, clusters: Integers, values: Tensor) -> None:
    """Add ``[sentence, …]`` to ``[cluster, …]``. A cluster may stand in a batch more than once, which plain indexed
    addition would count once."""
    order = np.argsort(clusters, kind="stable")
    distinct, starts = np.unique(clusters[order], return_index=True)
    sums[distinct] += np.add.reduceat(values.cpu().double().numpy()[order], starts, axis=0)
