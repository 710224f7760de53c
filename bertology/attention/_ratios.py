"""What heads are asked comes down to ratios of two sums, kept by clusters of sentences so that intervals follow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.measures import N_RESAMPLES, Bootstrap, RatioIntervals, bootstrap_ratio, ratio_intervals

Floats = NDArray[np.float64]
RatioUnit = Literal["head", "layer", "model"]


@dataclass(frozen=True, eq=False)
class HeadRatios:
    """Some statistics of every head, each a ratio of two sums, with the sums of each cluster of sentences."""

    names: tuple[str, ...]
    layers: tuple[int, ...]
    """From 1; none where a ratio is of the whole model, or of no model at all, as baselines are."""
    over: Floats
    """``[statistic, layer, head, cluster]``; 1 in the place of heads, or of layers too, where ratios are not of heads.
    """
    under: Floats
    """``[statistic, layer, head, cluster]``, or 1 in the place of layers and heads where all share it."""
    metric: str = ""
    """What is measured, if the names are only what it is measured of, such as relations; else each is a metric."""
    unit: RatioUnit = "head"
    """What each ratio belongs to."""

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

    def only(self, name: str) -> HeadRatios:
        """One statistic by itself."""
        number = self.names.index(name)
        own = slice(number, number + 1)
        return replace(self, names=(name,), over=self.over[own], under=self.under[own])

    def intervals(self, name: str, *, n_resamples: int = N_RESAMPLES, level: float = 0.95, seed: int = 0) -> Bootstrap:
        """One statistic bootstrapped over clusters, heads in the place of layers: those of the first layer first."""
        number = self.names.index(name)
        over = self.over[number].reshape(-1, self.over.shape[-1])
        under = np.broadcast_to(self.under[number], self.over[number].shape).reshape(over.shape)
        return bootstrap_ratio(over, under, metric=name, n_resamples=n_resamples, level=level, seed=seed)

    def all_intervals(self, *, n_resamples: int = N_RESAMPLES, level: float = 0.95, seed: int = 0) -> RatioIntervals:
        """All statistics bootstrapped over clusters, one after the other, each as :meth:`intervals` has it."""
        over = self.over.reshape(-1, self.over.shape[-1])
        under = np.broadcast_to(self.under, self.over.shape).reshape(over.shape)
        return ratio_intervals(over, under, n_resamples=n_resamples, level=level, seed=seed)
