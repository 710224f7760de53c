"""Where in the layers a task is solved: what mixes and cumulative scores say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEAST_GAIN = 0.01
"""Gain from layer 0 to the last cumulative mix below which no layer can be expected: one point of a score in 0…1."""


@dataclass(frozen=True)
class ExpectedLayer:
    """Where, on average, the gains of cumulative mixes come from."""

    value: NDArray[np.float64]
    """``[…]`` in layers, NaN where there is too little gain to speak of."""
    gain: NDArray[np.float64]
    """``[…]`` ΣΔ: the last score less the first."""
    reason: str | None
    """Why some or all values are NaN; None if none is."""


def differential_scores(scores: ArrayLike) -> NDArray[np.float64]:
    """What each layer adds to a cumulative mix: Δ_ℓ = score(0…ℓ) − score(0…ℓ−1) (Tenney et al. 2019b, section 3.2).

    Args:
        scores: ``[…, layer]`` of the mixes of layers 0…ℓ; leading axes (bootstrap replicates, seeds) are kept.

    Returns:
        ``[…, layer − 1]`` for layers 1…L, in the unit of the scores.

    Raises:
        ValueError: there are fewer than two layers.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not values.ndim or values.shape[-1] < 2:
        raise ValueError("differential scores need the cumulative scores of two layers or more: give [..., layer]")
    return np.diff(values, axis=-1)


def expected_layer(scores: ArrayLike, *, layers: ArrayLike | None = None, least: float = LEAST_GAIN) -> ExpectedLayer:
    """The layer at which a task is solved on average: Σ ℓ·Δ_ℓ / Σ Δ_ℓ over ℓ ≥ 1 (Tenney et al. 2019b, section 3.2).

    Where the mixes gain nothing over layer 0, the ratio is one of noise by noise; it is then NaN and says why.

    Args:
        scores: ``[…, layer]`` of the mixes of layers 0…ℓ, such as micro F1 in 0…1; leading axes (bootstrap
            replicates, seeds) are kept.
        layers: ``[layer]`` the number of each layer, ``0 … layer − 1`` when left out.
        least: gain ΣΔ under which no layer is expected, in the unit of the scores; above 0.

    Raises:
        ValueError: there are fewer than two layers, or ``least`` is not above 0.
    """
    if not least > 0:
        raise ValueError(f"least is {least}: give a gain above 0")
    gains = differential_scores(scores)
    numbers = np.arange(gains.shape[-1] + 1) if layers is None else np.asarray(layers, dtype=np.float64)
    if numbers.shape != (gains.shape[-1] + 1,):
        raise ValueError(f"{numbers.size} layer numbers for {gains.shape[-1] + 1} scores: give one for each")
    total = np.asarray(gains.sum(axis=-1))
    enough = total >= least
    value = np.full(total.shape, np.nan)
    np.divide(gains @ numbers[1:], total, out=value, where=enough)
    few = int(np.count_nonzero(~enough))
    reason = None
    if few:
        whole = f"{few} of {total.size} replicates gain" if total.size > 1 else "the mixes gain"
        reason = f"{whole} less than {least:g} over layer {numbers[0]:g}: no layer can be expected"
    return ExpectedLayer(value, total, reason)
