"""At which depth a task is solved: statistics of scores by layer, and of the weights of a mix of layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bertology.measures._bootstrap import Bootstrap, summarised
from bertology.measures._metric import Floats

LEAST_GAIN = 0.01
"""Gain from layer 0 to the last cumulative mix below which the expected layer is undefined, in scores of 0…1."""


@dataclass(frozen=True)
class ExpectedLayer:
    """The mean layer of the gains of cumulative mixes."""

    value: Floats
    """``[…]`` in layers, NaN where the gain is below the least."""
    gain: Floats
    """``[…]`` ΣΔ: the last score less the first."""
    reason: str | None
    """Why some or all values are NaN; None if none is."""


def differential_scores(scores: ArrayLike) -> Floats:
    """Gains from adding each layer to a cumulative mix: Δ_ℓ = score(0…ℓ) − score(0…ℓ−1) (Tenney et al. 2019b, 3.2).

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

    Where the mixes gain nothing over layer 0, the ratio is one of noise by noise; it is then NaN, with a reason.

    Args:
        scores: ``[…, layer]`` of the mixes of layers 0…ℓ, such as micro F1 in 0…1; leading axes (bootstrap
            replicates, seeds) are kept.
        layers: ``[layer]`` the number of each layer, ``0 … layer − 1`` when left out.
        least: gain ΣΔ below which the expected layer is undefined, in the unit of the scores; above 0.

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


def over_layers(scores: Bootstrap, function: Callable[[Floats], Floats], *, metric: str) -> Bootstrap:
    """A function of the scores of all layers, with the interval from their replicates.

    Args:
        scores: by layer.
        function: from ``[…, layer]`` to ``[…]``, NaN where it is undefined.
        metric: name of the result.
    """
    values = np.atleast_1d(function(scores.values))
    replicates = function(scores.replicates)[:, None]
    jackknife = function(scores.jackknife)[:, None]
    return summarised(metric, values, replicates, jackknife, level=scores.level, seed=scores.seed, bounded=False)


def center_of_gravity(weights: ArrayLike, *, layers: ArrayLike | None = None) -> Floats:
    """Mean layer under the weights of a mix, Σ ℓ·s_ℓ (Tenney et al. 2019b, section 3.1).

    Args:
        weights: ``[…, layer]``, 0 or more, summing to 1; leading axes (bootstrap replicates, seeds)
            are kept.
        layers: ``[layer]`` the number of each layer, ``0 … layer − 1`` when left out.

    Returns:
        ``[…]`` in layers.

    Raises:
        ValueError: the weights are negative or do not sum to 1.
    """
    shares = _shares(weights)
    numbers = np.arange(shares.shape[-1]) if layers is None else np.asarray(layers, dtype=np.float64)
    return np.asarray(shares @ numbers, dtype=np.float64)


def kl_from_uniform(weights: ArrayLike) -> Floats:
    """Divergence of the weights of a mix from uniform: KL(s ‖ uniform) = log2(L) − H(s), in bits.

    0 for equal weights, log2 of the number of layers where one layer has all the weight (Tenney et al. 2019b, section
    4, who do not state the unit).

    Args:
        weights: ``[…, layer]`` as in :func:`center_of_gravity`.

    Returns:
        ``[…]`` in bits.

    Raises:
        ValueError: the weights are negative or do not sum to 1.
    """
    shares = _shares(weights)
    logs = np.log2(np.where(shares > 0, shares, 1.0))
    return np.asarray(np.log2(shares.shape[-1]) + (shares * logs).sum(axis=-1), dtype=np.float64)


def _shares(weights: ArrayLike) -> Floats:
    shares = np.asarray(weights, dtype=np.float64)
    if not shares.ndim or not shares.shape[-1]:
        raise ValueError("weights of no layer: give [..., layer]")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and np.allclose(shares.sum(axis=-1), 1, atol=1e-4)):
        raise ValueError("weights of layers must be 0 or more and sum to 1")
    return shares
