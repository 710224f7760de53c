"""Means and standard deviations of every layer in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts._features import FeatureSource


@dataclass(frozen=True)
class Moments:
    """How the vectors of each layer are spread, under each weighting of the items."""

    total: Tensor
    """``[weighting]`` sum of the weights, float64."""
    mean: Tensor
    """``[weighting, layer, dim]`` float64."""
    std: Tensor
    """``[weighting, layer, dim]`` float64, 1 where a feature is constant."""


def measure_moments(source: FeatureSource, weights: Tensor) -> Moments:
    """Weighted mean and standard deviation of every feature of every layer.

    Sums run over differences from each layer's first vector, so that a feature far from zero keeps its digits and
    a constant one is exactly constant.

    Args:
        source: the vectors.
        weights: ``[weighting, item]`` float32, on the device to compute on.

    Raises:
        FitError: a layer has features that are not finite.
    """
    device = weights.device
    shape = (weights.shape[0], source.n_layers, source.dim)
    first_sum = torch.zeros(shape, dtype=torch.float64, device=device)
    second_sum = torch.zeros_like(first_sum)
    origin: Tensor | None = None
    for items, vectors in source.chunks():
        vectors = vectors.to(device)  # [layer, m, dim]
        origin = vectors[:, :1].clone() if origin is None else origin
        offsets = vectors - origin
        chunk_weights = weights[:, items.to(device)]  # [weighting, m]
        first_sum += torch.matmul(chunk_weights, offsets).transpose(0, 1)
        second_sum += torch.matmul(chunk_weights, offsets.square_()).transpose(0, 1)
    if origin is None:
        raise FitError("there are no vectors to fit on: give at least one item")
    _check_finite(source, second_sum)
    total = weights.sum(dim=1, dtype=torch.float64)
    offset_mean = first_sum / total[:, None, None]
    variance = second_sum / total[:, None, None] - offset_mean.square()
    std = variance.clamp_(min=0).sqrt_()
    constant = std <= 1e-6 * offset_mean.abs()  # float32 sums cannot tell a smaller spread from none
    return Moments(total, offset_mean + origin.squeeze(1), torch.where(constant, 1.0, std))


def _check_finite(source: FeatureSource, sums: Tensor) -> None:
    damaged = ~sums.isfinite().all(dim=2).all(dim=0)  # [layer]
    if damaged.any():
        layer = source.layers[int(damaged.nonzero()[0])]
        raise FitError(f"layer {layer} has vectors that are not finite (NaN or infinite): extract it in float32")
