"""What the weights of a mix of layers say: numbers that a fitted mix and the measures share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def center_of_gravity(weights: ArrayLike, *, layers: ArrayLike | None = None) -> NDArray[np.float64]:
    """Mean layer under the weights of a mix, Σ ℓ·s_ℓ (Tenney et al. 2019b, section 3.1).

    Args:
        weights: ``[…, layer]`` shares of a whole, 0 or more, summing to 1; leading axes (bootstrap replicates, seeds)
            are kept.
        layers: ``[layer]`` the number of each layer, ``0 … layer − 1`` when left out.

    Returns:
        ``[…]`` in layers.

    Raises:
        ValueError: the weights are no shares of a whole.
    """
    shares = _shares(weights)
    numbers = np.arange(shares.shape[-1]) if layers is None else np.asarray(layers, dtype=np.float64)
    found: NDArray[np.float64] = np.asarray(shares @ numbers, dtype=np.float64)
    return found


def kl_from_uniform(weights: ArrayLike) -> NDArray[np.float64]:
    """How far the weights of a mix are from equal: KL(s ‖ uniform) = log2(L) − H(s), in bits.

    0 for equal weights, log2 of the number of layers where one layer has all (Tenney et al. 2019b, section 4, who do
    not state the unit; here it is the bit).

    Args:
        weights: ``[…, layer]`` as in :func:`center_of_gravity`.

    Returns:
        ``[…]`` in bits.

    Raises:
        ValueError: the weights are no shares of a whole.
    """
    shares = _shares(weights)
    logs = np.log2(np.where(shares > 0, shares, 1.0))
    found: NDArray[np.float64] = np.asarray(np.log2(shares.shape[-1]) + (shares * logs).sum(axis=-1), dtype=np.float64)
    return found


def _shares(weights: ArrayLike) -> NDArray[np.float64]:
    shares = np.asarray(weights, dtype=np.float64)
    if not shares.ndim or not shares.shape[-1]:
        raise ValueError("weights of no layer: give [..., layer]")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and np.allclose(shares.sum(axis=-1), 1, atol=1e-4)):
        raise ValueError("weights of layers must be 0 or more and sum to 1")
    return shares
