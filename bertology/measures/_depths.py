"""Where scores grow: the layer at which a task is solved, from scores by layer and their replicates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bertology.measures._bootstrap import Bootstrap, summarised
from bertology.measures._metric import Floats


def over_layers(scores: Bootstrap, function: Callable[[NDArray[np.float64]], Floats], *, metric: str) -> Bootstrap:
    """One number made of the scores of all layers, with the interval that their replicates give it.

    Args:
        scores: by layer.
        function: from ``[…, layer]`` to ``[…]``, NaN where the number is not defined.
        metric: what the number is called.
    """
    values = np.atleast_1d(function(scores.values))
    replicates = function(scores.replicates)[:, None]
    jackknife = function(scores.jackknife)[:, None]
    return summarised(metric, values, replicates, jackknife, level=scores.level, seed=scores.seed, bounded=False)
