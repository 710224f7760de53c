"""Approximate Hessians of logistic regressions, which make a quasi-Newton method arrive in few steps.

Features of an encoder are so ill-conditioned that plain L-BFGS takes a hundred passes and more. Two approximations are
used, both measured on a sample of the items:

* :class:`Bound`, before anything is known: the bound ½ (I − 1/K) ⊗ XᵀX of Böhning (1992), without its coupling of the
  classes.
* :class:`ClassCurvature`, near the solution: for each class its own Xᵀ diag(p (1 − p)) X, in which only the few items
  count that are uncertain about it. Its eigenvectors are found at one strength and serve all, since between strengths
  little changes but its size and the penalty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertology._memory import give_back_freed_memory
from bertology._workers import Workers
from bertology.readouts._moments import Items, Sample
from bertology.readouts.linear._objective import Fits

_UNCERTAIN = 6
"""Items a feature of which the curvature of a class is measured one by one; the others count by their mean."""
_COUPLING = 2**0.5
"""What classes that are confused add to each other's curvature: between 1 and 2, by the row sums of diag p − ppᵀ."""
_LEAST = 0.01
"""Curvature of a class, as a part of what its frequency alone would give, below which it is not believed to fall."""


@dataclass(frozen=True)
class Spread:
    """How the features of a sample vary together."""

    correlations: Tensor
    """``[layer, dim, dim]``"""
    spectrum: Tensor
    """``[layer, dim]`` eigenvalues of them."""
    basis: Tensor
    """``[layer, dim, dim]`` eigenvectors, in columns."""

    @classmethod
    def of(cls, sample: Sample, workers: Workers) -> Spread:

        def measure(layer: int) -> tuple[Tensor, Tensor, Tensor]:
            vectors = sample.source.layer(layer)  # [item, dim], changed in place: another copy would be as large
            vectors -= vectors.mean(0)
            vectors /= vectors.square().mean(0).clamp(min=1e-12).sqrt()
            vectors -= vectors.mean(0)
            correlation = vectors.T @ vectors / len(vectors)
            return correlation, *_spectrum(correlation)

        return cls(*(torch.stack(part) for part in zip(*workers.map(measure, sample.source.n_layers), strict=True)))


class Bound:
    """Divides by an upper bound of the Hessian that is the same at every point."""

    def __init__(self, fits: Fits, spread: Spread) -> None:
        self._fits = fits
        self._spectrum, self._basis = 0.5 * spread.spectrum.clamp(min=0), spread.basis

    def __call__(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """``[n, parameter]`` over the bound."""
        weights, biases = self._fits.split(gradient)
        found = torch.empty_like(gradient).view(len(rows), self._fits.n_classes, -1)
        for layer, group in self._fits.by_layer(rows):
            penalty = self._fits.penalty[rows[group]].float()
            rotated = weights[group] @ self._basis[layer] / (self._spectrum[layer] + penalty[:, None, None])
            found[group, :, :-1] = rotated @ self._basis[layer].T
        found[:, :, -1] = 2 * biases
        return found.flatten(1)


@dataclass(frozen=True)
class _Blocks:
    """Curvatures of one layer's classes in problems with the same labels, each of one class or of several alike."""

    classes: Tensor
    """``[block, c]`` which classes each tells of."""
    mean: Tensor
    """``[block, 1, dim]`` mean of the features, each item counted by its p (1 − p)."""
    basis: Tensor
    """``[block, dim, dim]`` eigenvectors, in columns, of their covariance counted the same way."""
    spectrum: Tensor
    """``[block, 1, dim]`` its eigenvalues."""

    def divide(self, gradient: Tensor, uncertainty: Tensor, penalty: Tensor) -> Tensor:
        """``[n, class, dim + 1]`` over ``uncertainty`` ``[n, class]`` times the curvature, and the ``[n]`` penalty.

        The intercept, which is not penalised, is eliminated first: what is left for the coefficients is the covariance.
        """
        n, (n_blocks, n_alike) = len(gradient), self.classes.shape

        def by_block(values: Tensor) -> Tensor:  # [n, class, …] to [block, n · c, …]
            return values[:, self.classes].transpose(0, 1).flatten(1, 2)

        mine, size = by_block(gradient), by_block(uncertainty)[:, :, None]
        intercept = mine[:, :, -1:]
        rotated = torch.bmm(mine[:, :, :-1] - intercept * self.mean, self.basis)
        rotated /= size * self.spectrum + penalty.repeat_interleave(n_alike)[:, None]
        weights = torch.bmm(rotated, self.basis.mT)
        solution = torch.cat([weights, intercept / size - (weights * self.mean).sum(2, keepdim=True)], dim=2)
        return solution.view(n_blocks, n, n_alike, -1).transpose(0, 1)


class ClassCurvature:
    """Divides by the curvature of each class near given points.

    Blocks are by first problem with the same labels, and layer; spectra are multiplied by the ``uncertainty``, the
    ``[fit, class]`` mean p (1 − p).
    """

    def __init__(
        self,
        fits: Fits,
        first_alike: Tensor,
        blocks: Mapping[tuple[int, int], Sequence[_Blocks]],
        uncertainty: Tensor,
        workers: Workers,
    ) -> None:
        self._fits, self._first_alike, self._blocks = fits, first_alike, blocks
        self._uncertainty, self._workers = uncertainty, workers

    def __call__(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """``[n, parameter]`` over the curvature and the penalty."""
        fits = self._fits
        whole = gradient.view(len(rows), fits.n_classes, -1)
        found = torch.zeros_like(whole)
        problems, penalty = self._first_alike[fits.problem[rows]], fits.penalty[rows].float()
        keys = list(self._blocks)

        def divide(number: int) -> None:
            problem, layer = keys[number]
            mine = ((fits.layer[rows] == layer) & (problems == problem)).nonzero().squeeze(1)
            if len(mine):
                uncertainty = self._uncertainty[rows[mine]]
                for blocks in self._blocks[keys[number]]:
                    divided = blocks.divide(whole[mine], uncertainty, penalty[mine])
                    found[mine[:, None, None], blocks.classes] = divided

        self._workers.map(divide, len(keys))
        return found.flatten(1)


def measure_curvature(
    fits: Fits, sample: Sample, items: Items, points: Tensor, correlations: Tensor, workers: Workers, *, memory: int
) -> ClassCurvature:
    """The curvature of each class near ``points [fit, parameter]``, on a sample with labels and weights ``items``.

    The rarest classes share their eigenvectors where ``memory`` bytes are too few.
    """
    first_alike = _first_with_same_labels(items.labels)
    n_groups = len(set(first_alike)) * fits.n_layers
    most_blocks = max(1, memory // (4 * fits.dim**2 * n_groups))
    coefficients, intercepts = fits.for_raw(torch.arange(len(fits), device=points.device), points)
    n_strengths = fits.shape[2]
    uncertainty = torch.empty(len(fits), fits.n_classes, device=points.device)
    blocks: dict[tuple[int, int], Sequence[_Blocks]] = {}

    def measure(layer: int) -> None:
        vectors = sample.source.layer(layer)  # [item, dim]
        for problem in range(fits.shape[0]):
            first = (problem * fits.n_layers + layer) * n_strengths
            fit_rows, middle = slice(first, first + n_strengths), first + n_strengths // 2
            scores = torch.baddbmm(
                intercepts[fit_rows, :, None], coefficients[fit_rows], vectors.T.expand(n_strengths, -1, -1)
            )
            variance = scores.softmax(1)  # [strength, class, item]
            del scores
            variance *= 1 - variance
            variance *= items.weights[problem] / items.total[problem].clamp(min=1e-30).float()
            frequency = items.frequency[problem]
            uncertainty[fit_rows] = variance.sum(2).maximum(_LEAST * frequency * (1 - frequency))
            if first_alike[problem] == problem:
                mine = fits.mean[middle], fits.std[middle], variance[middle - first], uncertainty[middle]
                blocks[problem, layer] = _blocks(vectors, *mine, frequency > 0, correlations[layer], most_blocks)
        give_back_freed_memory()  # what stays of a layer lies between what does not

    workers.map(measure, fits.n_layers)
    alike = torch.tensor(first_alike, device=points.device)
    return ClassCurvature(fits, alike, blocks, _COUPLING * uncertainty, workers)


def _blocks(
    vectors: Tensor,
    mean: Tensor,
    std: Tensor,
    variance: Tensor,
    uncertainty: Tensor,
    present: Tensor,
    correlations: Tensor,
    most: int,
) -> list[_Blocks]:
    """Blocks of one layer, from ``[item, dim]`` vectors, not standardised yet, and ``[class, item]`` variances.

    The variances of a class sum to its ``uncertainty``.
    """
    n_uncertain = min(_UNCERTAIN * vectors.shape[1], len(vectors))
    blocks = []
    for several in _shared_out(uncertainty, present, most):
        means, covariances = [], []
        for classes in several:
            weight, items = variance[classes].sum(0).topk(n_uncertain)
            rows, whole = (vectors[items] - mean) / std, uncertainty[classes].sum()
            means.append(weight @ rows / whole)
            second = (rows * weight[:, None]).T @ rows + (whole - weight.sum()).clamp(min=0) * correlations
            covariances.append(second / whole - means[-1][:, None] * means[-1])
        spectrum, basis = _spectrum(torch.stack(covariances))
        blocks.append(_Blocks(several, torch.stack(means)[:, None], basis, spectrum.clamp_(min=0)[:, None]))
    return blocks


def _spectrum(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric matrices ``[…, dim, dim]``."""
    try:
        values, vectors = torch.linalg.eigh(matrices)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        # Features that are nearly copies of each other, as of a model whose layers have collapsed.
        values, vectors = (part.to(matrices) for part in torch.linalg.eigh(matrices.double()))
    return values, vectors


def _shared_out(uncertainty: Tensor, present: Tensor, most: int) -> list[Tensor]:
    """The classes that occur, those that matter most alone, the others together if there are more than ``most``."""
    classes = uncertainty.where(present, -1.0).argsort(descending=True, stable=True)[: int(present.sum())]
    if len(classes) == 2:  # their p (1 − p) are one
        return [classes[None]]
    alone = len(classes) if len(classes) <= most else most - 1
    return [part for part in (classes[:alone, None], classes[None, alone:]) if part.numel()]


def _first_with_same_labels(labels: Tensor) -> list[int]:
    first: dict[bytes, int] = {}
    return [first.setdefault(row.cpu().numpy().tobytes(), problem) for problem, row in enumerate(labels)]
