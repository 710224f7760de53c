"""Results of a whole model in several states, with what intervals are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertology.errors import NameNotFoundError
from bertology.measures import Bootstrap, bootstrap_ratio

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CurveRatios:
    """Points of curves and tables that belong to no head, each a ratio of two sums by cluster of sentences."""

    names: tuple[str, ...]
    """``[point]`` the metric of each."""
    groups: tuple[str, ...]
    """``[point]`` the state of the model, as ``least important first, 10 %``."""
    over: Floats
    """``[point, cluster]``"""
    under: Floats
    """``[point, cluster]``, or 1 in the place of points where all share it."""

    @classmethod
    def of_groups(cls, names: Sequence[str], groups: Sequence[str], over: Floats, under: Floats) -> Self:
        """Points of several metrics in the same states.

        Args:
            names: ``[metric]``
            groups: ``[state]``
            over: ``[metric, state, cluster]``
            under: ``[cluster]``
        """
        return cls(
            names=tuple(name for name in names for _ in groups),
            groups=tuple(groups) * len(names),
            over=over.reshape(-1, over.shape[-1]),
            under=under[None],
        )

    @cached_property
    def values(self) -> Floats:
        """``[point]``; NaN where there was nothing to count."""
        over, under = np.broadcast_arrays(self.over.sum(-1), self.under.sum(-1))
        values = np.full(over.shape, np.nan)
        np.divide(over, under, out=values, where=under > 0)
        return values

    def of(self, name: str, group: str) -> float:
        """The value of one point.

        Raises:
            NameNotFoundError: there is no such point.
        """
        for point, found in enumerate(zip(self.names, self.groups, strict=True)):
            if found == (name, group):
                return float(self.values[point])
        raise NameNotFoundError.of("point", f"{name}, {group}", [", ".join(p) for p in zip(self.names, self.groups, strict=True)])

    def intervals(self, name: str, *, n_resamples: int = 2000, level: float = 0.95, seed: int = 0) -> Bootstrap:
        """All points of a metric bootstrapped over clusters, points in the place of layers, in their order."""
        points = [point for point, found in enumerate(self.names) if found == name]
        under = np.broadcast_to(self.under, self.over.shape)
        return bootstrap_ratio(
            self.over[points], under[points], metric=name, n_resamples=n_resamples, level=level, seed=seed
        )
