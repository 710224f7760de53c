"""Approximate Hessians of logistic regressions, which make a quasi-Newton method arrive in few steps.

Features of an encoder are so ill-conditioned that plain L-BFGS needs hundreds of passes. Two approximations are used,
both measured on a sample of the items:

* :class:`Bound`, before anything is known: the bound ½ (I − 1/K) ⊗ XᵀX of Böhning (1992), without its coupling of the
  classes.
* :class:`ClassCurvature`, near the solution: for each class its own Xᵀ diag(p (1 − p)) X, in which only the few items
  count that are in doubt about it. Its eigenvectors are found at one strength and serve all, since between strengths
  little changes but its size and the penalty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertology.readouts._moments import Sample
from bertology.readouts._objective import Fits, Items

_DOUBTFUL = 6
"""Items a feature of which the curvature of a class is measured one by one; the others count by their mean."""
_LEAST = 0.01
"""Curvature of a class, as a part of what its frequency alone would give, below which it is not believed to fall."""


class Bound:
    """Divides by an upper bound of the Hessian that is the same at every point.

    Args:
        fits: the regressions.
        sample: items to measure on.
    """

    def __init__(self, fits: Fits, sample: Sample) -> None:
        self._fits = fits
        self.correlations = _correlations(sample)
        """``[layer, dim, dim]`` of the sample's features."""
        spectrum, self._basis = torch.linalg.eigh(self.correlations)
        self._spectrum = 0.5 * spectrum.clamp(min=0)

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


def _correlations(sample: Sample) -> Tensor:
    source = sample.source
    mean = torch.zeros(source.n_layers, source.dim, dtype=torch.float64)
    gram = torch.zeros(source.n_layers, source.dim, source.dim)
    origin: Tensor | None = None
    for _, vectors in source.chunks():
        if origin is None:
            origin = vectors.mean(1, keepdim=True)
            mean, gram = mean.to(vectors.device), gram.to(vectors.device)
        offsets = vectors - origin
        mean += offsets.sum(1)
        gram.baddbmm_(offsets.mT, offsets)
    mean = (mean / source.n_items).float()
    covariance = gram / source.n_items - mean[:, :, None] * mean[:, None]
    std = covariance.diagonal(dim1=1, dim2=2).clamp(min=1e-12).sqrt()
    return covariance / std[:, :, None] / std[:, None]


@dataclass(frozen=True)
class _Block:
    """The curvature of a class, or of several rare ones, in one layer of problems with the same labels."""

    classes: Tensor
    """``[c]`` which classes it tells of."""
    mean: Tensor
    """``[dim]`` mean of the features, each item counted by its p (1 − p)."""
    basis: Tensor
    """``[dim, dim]`` eigenvectors, in columns, of their covariance counted the same way."""
    spectrum: Tensor
    """``[dim]`` its eigenvalues."""

    def divide(self, gradient: Tensor, doubt: Tensor, penalty: Tensor) -> Tensor:
        """``[n, c, dim + 1]`` over ``doubt`` times the curvature, and the penalty of all but the intercept.

        The intercept is eliminated first: what is left for the coefficients is the covariance.
        """
        intercept = gradient[:, :, -1:]
        rotated = (gradient[:, :, :-1] - intercept * self.mean) @ self.basis
        weights = (rotated / (doubt * self.spectrum + penalty)) @ self.basis.T
        return torch.cat([weights, intercept / doubt - (weights @ self.mean)[:, :, None]], dim=2)


class ClassCurvature:
    """Divides by the curvature of each class near given points.

    Args:
        fits: the regressions.
        leader: ``[problem]`` the first problem with the same labels.
        blocks: by leader and layer.
        doubt: ``[fit, class]`` mean p (1 − p), which the spectra are multiplied by.
    """

    def __init__(
        self, fits: Fits, leader: Tensor, blocks: Mapping[tuple[int, int], Sequence[_Block]], doubt: Tensor
    ) -> None:
        self._fits, self._leader, self._blocks, self._doubt = fits, leader, blocks, doubt

    def __call__(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """``[n, parameter]`` over the curvature and the penalty."""
        fits = self._fits
        whole = gradient.view(len(rows), fits.n_classes, -1)
        found = torch.zeros_like(whole)
        leaders, penalty = self._leader[fits.problem[rows]], fits.penalty[rows].float()
        for (leader, layer), blocks in self._blocks.items():
            mine = ((fits.layer[rows] == layer) & (leaders == leader)).nonzero()  # [n, 1]
            if len(mine):
                for block in blocks:
                    size = self._doubt[rows[mine], block.classes][:, :, None]  # [n, c, 1]
                    found[mine, block.classes] = block.divide(
                        whole[mine, block.classes], size, penalty[mine][:, :, None]
                    )
        return found.flatten(1)


def measure_curvature(
    fits: Fits, sample: Sample, items: Items, points: Tensor, correlations: Tensor, *, memory: int
) -> ClassCurvature:
    """The curvature of each class near ``points``.

    Args:
        fits: the regressions.
        sample: items to measure on.
        items: what the problems want of those items.
        points: ``[fit, parameter]`` where to measure.
        correlations: ``[layer, dim, dim]`` of the sample's features.
        memory: bytes that eigenvectors may take; the rarest classes share theirs where it is too little.
    """
    leader = _first_with_same_labels(items.labels)
    n_groups = len(set(leader)) * fits.n_layers
    most_blocks = max(1, memory // (4 * fits.dim**2 * n_groups))
    coefficients, intercepts = fits.for_raw(torch.arange(len(fits), device=points.device), points)
    n_strengths = fits.shape[2]
    doubt = torch.empty(len(fits), fits.n_classes, device=points.device)
    blocks = {}
    for layer in range(fits.n_layers):
        vectors = torch.cat([chunk[layer] for _, chunk in sample.source.chunks()])  # [item, dim]
        for problem in range(fits.shape[0]):
            first = (problem * fits.n_layers + layer) * n_strengths
            mine = slice(first, first + n_strengths)
            scores = torch.baddbmm(intercepts[mine, :, None], coefficients[mine], vectors.T.expand(n_strengths, -1, -1))
            variance = scores.softmax(1)  # [strength, class, item]
            variance *= 1 - variance
            variance *= items.weights[problem] / items.total[problem].clamp(min=1).float()
            frequency = items.frequency[problem]
            doubt[mine] = variance.sum(2).maximum(_LEAST * frequency * (1 - frequency))
            if leader[problem] == problem:
                middle = first + n_strengths // 2
                standard = (vectors - fits.mean[middle]) / fits.std[middle]
                blocks[problem, layer] = _blocks(
                    standard, variance[n_strengths // 2], doubt[middle], frequency > 0, correlations[layer], most_blocks
                )
    return ClassCurvature(fits, torch.tensor(leader, device=points.device), blocks, doubt)


def _blocks(
    vectors: Tensor, variance: Tensor, doubt: Tensor, present: Tensor, correlations: Tensor, most: int
) -> list[_Block]:
    """Blocks of one layer, from ``[item, dim]`` vectors and the ``[class, item]`` variance that sums to ``doubt``."""
    n_doubtful = min(_DOUBTFUL * vectors.shape[1], len(vectors))
    blocks = []
    for classes in _shared_out(doubt, present, most):
        weight, items = variance[classes].sum(0).topk(n_doubtful)
        rows, whole = vectors[items], doubt[classes].sum()
        mean = weight @ rows / whole
        moments = (rows * weight[:, None]).T @ rows + (whole - weight.sum()).clamp(min=0) * correlations
        spectrum, basis = torch.linalg.eigh(moments / whole - mean[:, None] * mean)
        blocks.append(_Block(classes, mean, basis, spectrum.clamp_(min=0)))
    return blocks


def _shared_out(doubt: Tensor, present: Tensor, most: int) -> list[Tensor]:
    """The classes that occur, those that matter most alone, the others together if there are more than ``most``."""
    classes = doubt.where(present, -1.0).argsort(descending=True, stable=True)[: int(present.sum())]
    if len(classes) == 2:  # their p (1 − p) are one
        return [classes]
    alone = len(classes) if len(classes) <= most else most - 1
    return [*classes[:alone, None], *([classes[alone:]] if alone < len(classes) else [])]


def _first_with_same_labels(labels: Tensor) -> list[int]:
    first: dict[bytes, int] = {}
    return [first.setdefault(row.cpu().numpy().tobytes(), problem) for problem, row in enumerate(labels)]
