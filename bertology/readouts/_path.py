"""Paths of regularisation strengths: which strength is best on dev, and what is tried where that is an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology.errors import FitError

EXTENSIONS = 3
"""How many strengths are tried beyond an end by default."""
_STEP = 10.0
"""From one strength beyond an end to the next."""

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class StrengthPath:
    """Strengths that are tried in every fit, and those beyond both ends that are tried where an end is best."""

    strengths: tuple[float, ...]
    """All of them, from the strongest regularisation to the weakest."""
    given: range
    """Places of those that are tried in every fit."""

    @classmethod
    def of(cls, strengths: Sequence[float], *, extensions: int, large_is_strong: bool) -> StrengthPath:
        """A path in steps of ten beyond what is given; a single strength is one that was chosen before: no path.

        Args:
            strengths: tried in every fit.
            extensions: how many more may be tried beyond either end.
            large_is_strong: whether the largest is the strongest regularisation.

        Raises:
            FitError: there is no strength, one is not positive, or ``extensions`` is negative.
        """
        tried = sorted(set(strengths), reverse=large_is_strong)
        if not tried or min(tried) <= 0:
            raise FitError(f"strengths are {list(strengths)}: give at least one, all above 0")
        if extensions < 0:
            raise FitError(f"extensions is {extensions}: give 0 or more")
        n = extensions if len(tried) > 1 else 0
        step = 1 / _STEP if large_is_strong else _STEP
        stronger = [tried[0] / step**k for k in range(n, 0, -1)]
        weaker = [tried[-1] * step**k for k in range(1, n + 1)]
        return cls((*stronger, *tried, *weaker), range(n, n + len(tried)))

    def next_places(self, dev_accuracy: Floats) -> Places:
        """``[problem, layer]`` the strength to try next, one beyond an end that is best; −1 where nothing is left.

        Args:
            dev_accuracy: ``[problem, layer, strength]``, NaN where a strength was not tried.
        """
        ends = rising_ends(dev_accuracy)
        found = best_places(dev_accuracy) + ends
        return np.asarray(np.where((ends != 0) & (found >= 0) & (found < len(self.strengths)), found, -1))

    def tried(self, dev_accuracy: Floats) -> NDArray[np.bool_]:
        """``[problem, layer, strength]`` which strengths are tried, where the accuracy at all of them is known."""
        found = np.full(dev_accuracy.shape, np.nan)
        found[..., self.given] = dev_accuracy[..., self.given]
        while (places := self.next_places(found)).max() >= 0:
            where = *np.nonzero(places >= 0), places[places >= 0]
            found[where] = dev_accuracy[where]
        return np.asarray(~np.isnan(found))


def best_places(dev_accuracy: Floats) -> Places:
    """``[problem, layer]`` the strength with the best accuracy; of equals the strongest regularisation."""
    return np.asarray(np.nanargmax(dev_accuracy, axis=2))


def rising_ends(dev_accuracy: Floats) -> Places:
    """``[problem, layer]`` −1 or 1 where the strongest or the weakest strength tried is best, 0 where none is.

    Only an end that is better than the strength next to it counts: where regularisation makes no difference, the
    strongest is chosen among equals.
    """
    tried = ~np.isnan(dev_accuracy)
    n = dev_accuracy.shape[2]
    first, last = tried.argmax(axis=2), n - 1 - tried[..., ::-1].argmax(axis=2)
    best = best_places(dev_accuracy)

    def is_above(neighbour: Places) -> NDArray[np.bool_]:
        at = np.stack([best, neighbour.clip(0, n - 1)], axis=2)
        values = np.take_along_axis(dev_accuracy, at, axis=2)
        return np.asarray(values[..., 0] > values[..., 1])

    strongest = (best == first) & (last > first) & is_above(best + 1)
    weakest = (best == last) & (last > first) & is_above(best - 1)
    return np.asarray(weakest.astype(np.int64) - strongest.astype(np.int64))
