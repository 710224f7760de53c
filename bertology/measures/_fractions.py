"""Less training data: portions that lie inside each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._nested import share_before


def fraction_mask(clusters: ArrayLike, fraction: float, *, seed: int) -> NDArray[np.bool_]:
    """Which items belong to a random portion of the sentences that has about ``fraction`` of the items.

    Sentences are put in an order that the seed decides and taken until the fraction is reached, so that a larger
    portion of the same seed holds every smaller one.

    Args:
        clusters: ``int [item]`` number of the sentence an item stands in.
        fraction: of the items; the sentence that crosses it is taken whole, so that there is always one.
        seed: of the order.

    Returns:
        ``bool [item]``; ``np.where(mask, labels, -1)`` are the labels of a fit on the portion.

    Raises:
        ValueError: the fraction is not above 0 and at most 1.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"the fraction of training data is {fraction}: give a number above 0, at most 1")
    return np.asarray(share_before(clusters, seed=seed) < fraction)
