"""Ridge regression of numbers: all layers and problems from the same sums over the training items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts._base import Settings, check_weights
from bertology.readouts._sources import FeatureSource, Floats, Integers

_CONSTANT = 1e-12
"""Variance, as a part of a feature's mean square, below which it is constant."""


@dataclass(frozen=True)
class NumberTargets:
    """Numbers to predict from the items of a source, in one or several problems over the same items."""

    values: Floats
    """``[problem, item]``"""
    weights: Floats | None = None
    """``[problem, item]`` how often each item counts, 1 when left out."""
    strength_sources: tuple[int, ...] = ()
    """``[problem]`` the problem whose regularisation strength is used; itself when left out."""

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).all():
            raise FitError("some numbers are not finite: leave their items out")
        if self.weights is not None:
            check_weights(self.weights.astype(np.float32))


@dataclass(frozen=True)
class RidgeRegression(Settings):
    """Least squares with an L2 penalty on standardised features (Hoerl & Kennard 1970), in closed form.

    A strength s minimises ½ · mean squared error + ½ · s · |β|²: scikit-learn's ``Ridge(alpha=s · n)`` after a
    ``StandardScaler``. It is chosen on dev for each layer and problem.
    """

    strengths: tuple[float, ...] = (
        *(100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7),
    )
    """Penalties to try, the strongest first."""

    def __post_init__(self) -> None:
        if not self.strengths or any(not 0 < one < np.inf for one in self.strengths):
            raise FitError(f"strengths are {list(self.strengths)}: give one or more above 0")
        object.__setattr__(self, "strengths", tuple(sorted(map(float, self.strengths), reverse=True)))

    @property
    def name(self) -> str:
        """Registered name."""
        return "ridge_regression.v1"

    def fit(
        self, train: FeatureSource, targets: NumberTargets, *, dev: FeatureSource, dev_values: Floats, device: str
    ) -> FittedRegression:
        """Fit every problem in every layer.

        Args:
            train: vectors of the training items.
            targets: their numbers.
            dev: vectors of other items.
            dev_values: ``[problem, item]`` numbers by which the strength is chosen.
            device: where to compute.
        """
        sums = _Sums.of(train, targets, torch.device(device))
        paths = [sums.path(problem, self.strengths) for problem in range(len(targets.values))]
        slopes = torch.stack([slope for slope, _ in paths])  # [problem, layer, strength, dim]
        offsets = torch.stack([offset for _, offset in paths])  # [problem, layer, strength]
        dev_r2 = _dev_scores(dev, slopes, offsets, sums.origin, torch.from_numpy(dev_values).to(sums.origin.device))
        own = dev_r2.argmax(axis=2)  # of equals the strongest
        sources = list(targets.strength_sources or range(len(targets.values)))
        chosen = own[sources]
        at = torch.from_numpy(chosen).to(slopes.device)
        slope = slopes.gather(2, at[:, :, None, None].expand(-1, -1, 1, slopes.shape[3])).squeeze(2)
        offset = offsets.gather(2, at[:, :, None]).squeeze(2)
        return FittedRegression(slope, offset, sums.origin, self.strengths, chosen, dev_r2)


@dataclass(frozen=True)
class FittedRegression:
    """Fitted regressions of all problems and layers."""

    slopes: Tensor
    """``[problem, layer, dim]`` float64."""
    intercepts: Tensor
    """``[problem, layer]`` the number predicted of the vector ``origin``."""
    origin: Tensor
    """``[layer, dim]``, subtracted from vectors so that sums keep their digits."""
    strengths: tuple[float, ...]
    chosen: Integers
    """``[problem, layer]`` place of the chosen strength."""
    dev_r2: Floats
    """``[problem, layer, strength]`` R² on dev."""

    def predict(self, source: FeatureSource) -> Floats:
        """``[problem, layer, item]`` predicted numbers."""
        predicted = np.empty((len(self.slopes), source.n_layers, source.n_items))
        for items, vectors in _shifted(source, self.origin):
            numbers = torch.einsum("lmd,pld->plm", vectors, self.slopes) + self.intercepts[:, :, None]
            predicted[:, :, items.numpy()] = numbers.cpu().numpy()
        return predicted


@dataclass(frozen=True)
class _Sums:
    """What least squares needs of the training items, in every layer."""

    origin: Tensor
    """``[layer, dim]`` a vector that is subtracted from all."""
    bases: Sequence[tuple[Tensor, Tensor, Tensor, Tensor]]
    """By problem, shared by those of equal weights: mean and standard deviation ``[layer, dim]``, eigenvalues
    ``[layer, dim]`` and eigenvectors ``[layer, dim, dim]`` of the correlations."""
    products: Tensor
    """``[problem, layer, dim]`` mean products of features and numbers, both from their means."""
    means: Tensor
    """``[problem]`` of the numbers."""

    @classmethod
    def of(cls, train: FeatureSource, targets: NumberTargets, device: torch.device) -> _Sums:
        n_problems, n_items = targets.values.shape
        weights = np.ones((n_problems, n_items)) if targets.weights is None else targets.weights.astype(np.float64)
        distinct, of_problem = np.unique(weights, axis=0, return_inverse=True)
        of_problem = of_problem.reshape(-1)
        each, numbers = torch.from_numpy(distinct).to(device), torch.from_numpy(targets.values).to(device)
        totals = each.sum(1)
        if bool((totals <= 0).any()):
            raise FitError("no training item counts: give at least one item of weight above 0")
        means = (torch.from_numpy(weights).to(device) * numbers).sum(1) / totals[of_problem]
        centred = torch.from_numpy(weights).to(device) * (numbers - means[:, None])
        first = next(iter(train.chunks()))[1][:, 0].to(device, torch.float64)
        shape = (len(distinct), train.n_layers, train.dim)
        sums = torch.zeros(shape, dtype=torch.float64, device=device)
        squares = torch.zeros((*shape, train.dim), dtype=torch.float64, device=device)
        products = torch.zeros((n_problems, *shape[1:]), dtype=torch.float64, device=device)
        for items, vectors in _shifted(train, first):
            places = items.to(device)
            products += torch.einsum("pm,lmd->pld", centred[:, places], vectors)
            for place, weight in enumerate(each[:, places]):
                weighted = vectors * weight[None, :, None]
                sums[place] += weighted.sum(1)
                squares[place] += weighted.transpose(1, 2) @ vectors
        bases = [_basis(sums[place] / total, squares[place] / total) for place, total in enumerate(totals)]
        return cls(first, [bases[place] for place in of_problem], products / totals[of_problem][:, None, None], means)

    def path(self, problem: int, strengths: Sequence[float]) -> tuple[Tensor, Tensor]:
        """``[layer, strength, dim]`` slopes and ``[layer, strength]`` intercepts at every strength."""
        mean, deviation, spectrum, basis = self.bases[problem]
        rotated = torch.einsum("lde,ld->le", basis, self.products[problem] / deviation)
        penalties = torch.tensor(strengths, dtype=torch.float64, device=mean.device)
        shrunk = rotated[:, None] / (spectrum[:, None] + penalties[None, :, None])
        slopes = torch.einsum("lde,lse->lsd", basis, shrunk) / deviation[:, None]
        return slopes, self.means[problem] - torch.einsum("lsd,ld->ls", slopes, mean)


def _basis(mean: Tensor, square: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    covariance = square - mean[:, :, None] * mean[:, None, :]
    variance = covariance.diagonal(dim1=1, dim2=2)
    # A constant feature predicts nothing: as if it were spread without end.
    is_constant = variance <= _CONSTANT * square.diagonal(dim1=1, dim2=2)
    deviation = torch.where(is_constant, torch.inf, variance.clamp(min=0).sqrt())
    correlation = covariance / deviation[:, :, None] / deviation[:, None, :]
    spectrum, basis = torch.linalg.eigh(correlation)
    return mean, deviation, spectrum.clamp(min=0), basis


def _shifted(source: FeatureSource, origin: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of a source in float64 on the device of ``origin [layer, dim]``, which is subtracted."""
    for items, vectors in source.chunks():
        moved = vectors.to(origin.device, torch.float64) - origin[:, None]
        if not bool(moved.isfinite().all()):
            layer = source.layers[int((~moved.isfinite()).flatten(1).any(1).nonzero()[0])]
            raise FitError(f"layer {layer} has vectors that are not finite (NaN or infinite): extract it in float32")
        yield items, moved


def _dev_scores(dev: FeatureSource, slopes: Tensor, offsets: Tensor, origin: Tensor, values: Tensor) -> Floats:
    """``[problem, layer, strength]`` R² on dev; minus infinity where its numbers are all the same."""
    errors = torch.zeros_like(offsets)
    for items, vectors in _shifted(dev, origin):
        numbers = torch.einsum("lmd,plsd->plsm", vectors, slopes) + offsets[..., None]
        errors += (numbers - values[:, None, None, items.to(values.device)]).square().sum(-1)
    spread = (values - values.mean(1, keepdim=True)).square().sum(1)[:, None, None]
    return np.asarray((1 - errors / spread).nan_to_num(nan=-torch.inf, neginf=-torch.inf).cpu().numpy())
