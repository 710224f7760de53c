"""``linear.v1``: multinomial logistic regression of every layer, problem and strength at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertology.readouts._base import (
    FitReport,
    FittedReadout,
    Predictions,
    Progress,
    Readout,
    Targets,
    check_problems,
    check_same_shape,
    class_weights,
    item_weights,
)
from bertology.readouts._features import FeatureSource
from bertology.readouts._lbfgs import minimise
from bertology.readouts._moments import Moments, measure_moments

_IMPOSSIBLE = -1e9
"""Intercept of a class that a problem's training data do not have: its probability is exactly 0."""


@dataclass(frozen=True)
class FittedLinear(FittedReadout):
    """Logistic regressions at their chosen strengths, ready to apply to vectors as they come."""

    coefficients: Tensor
    """``[problem, layer, dim, class]`` of the vectors themselves: the standardisation is folded in."""
    intercepts: Tensor
    """``[problem, layer, class]``"""
    fit_report: FitReport

    @property
    def name(self) -> str:
        """``linear.v1``."""
        return "linear.v1"

    @property
    def report(self) -> FitReport:
        """How the fit went."""
        return self.fit_report

    @property
    def n_params(self) -> int:
        """Coefficients and intercepts of one layer's readout for one problem."""
        return int((self.coefficients.shape[2] + 1) * self.coefficients.shape[3])

    def predict(self, source: FeatureSource) -> Predictions:
        """Predict every item of ``source`` in every layer, chunk by chunk."""
        n_problems, n_layers, dim, n_classes = self.coefficients.shape
        check_same_shape(source, n_layers, dim)
        labels = np.empty((n_problems, n_layers, source.n_items), dtype=np.int64)
        log_prob = np.empty((n_problems, n_layers, source.n_items), dtype=np.float32)
        weights = self.coefficients.permute(1, 2, 0, 3).reshape(n_layers, dim, -1)
        biases = self.intercepts.transpose(0, 1).reshape(n_layers, 1, -1)
        for items, vectors in source.chunks():
            scores = torch.baddbmm(biases, vectors.to(weights.device), weights)
            scores = scores.view(n_layers, len(items), n_problems, n_classes)
            best, label = scores.max(-1)
            labels[:, :, items.numpy()] = label.permute(2, 0, 1).cpu().numpy()
            log_prob[:, :, items.numpy()] = (best - scores.logsumexp(-1)).permute(2, 0, 1).cpu().numpy()
        return Predictions(labels, log_prob)


@dataclass(frozen=True)
class LinearReadout(Readout):
    """Multinomial logistic regression with an L2 path, as scikit-learn's ``LogisticRegression`` states it.

    For each layer, problem and strength ``C`` it minimises ``C · Σ w · (−ln p) + ½ ‖W‖²`` over the training items,
    their features standardised by the mean and standard deviation (1 for a constant feature) that they have under
    the problem's own weights; intercepts are not penalised. As in scikit-learn, a problem whose training data have
    two classes has one weight vector, the difference of the two.
    """

    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    """The path of ``C``: the inverse of the regularisation, so that small is strong."""
    max_iter: int = 200
    """Evaluations of loss and gradient at most."""
    tolerance: float = 1e-4
    """Largest absolute component that the gradient of the mean loss may have at the end: scikit-learn's ``tol``."""

    @property
    def name(self) -> str:
        """``linear.v1``."""
        return "linear.v1"

    @property
    def params(self) -> Mapping[str, Any]:
        """The settings, as JSON can hold them."""
        return {**asdict(self), "strengths": list(self.strengths)}

    def fit(
        self,
        train: FeatureSource,
        targets: Targets,
        *,
        dev: FeatureSource,
        dev_targets: Targets,
        seed: int = 0,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> FittedLinear:
        """Fit every problem in every layer at every strength, and keep the strengths that do best on dev.

        The fit is deterministic: ``seed`` changes nothing.
        """
        check_problems(train, targets, dev, dev_targets)
        strengths = tuple(sorted(self.strengths))
        fits = _Fits(train, targets, strengths, torch.device(device))

        def tell(iteration: int, left: int) -> None:
            if progress is not None:
                progress(f"linear: iteration {iteration}, {len(fits.penalty) - left} of {len(fits.penalty)} converged")

        minima = minimise(
            fits.evaluate,
            fits.start(),
            precondition=fits.precondition,
            max_iter=self.max_iter,
            tolerance=self.tolerance,
            report=tell,
        )
        coefficients, intercepts = fits.unstandardised(minima.points)
        return _choose(fits, coefficients, intercepts, minima, strengths, dev, dev_targets)


class _Fits:
    """The fits of all layers, problems and strengths over one training source; fit = (problem, layer, strength)."""

    def __init__(self, train: FeatureSource, targets: Targets, strengths: tuple[float, ...], device: torch.device):
        self.train, self.device = train, device
        self.shape = (targets.n_problems, train.n_layers, len(strengths))
        self.n_classes = targets.n_classes
        self.labels = torch.from_numpy(targets.labels).to(device)
        self.weights = torch.from_numpy(item_weights(targets)).to(device)
        self.moments: Moments = measure_moments(train, self.weights)
        present = torch.from_numpy(class_weights(targets) > 0).to(device)  # [problem, class]
        self.absent_bias = torch.where(present, 0.0, _IMPOSSIBLE)
        # two classes share one weight vector in scikit-learn: its penalty is twice that of two opposite vectors
        per_problem = torch.where(present.sum(1) == 2, 2.0, 1.0) / self.moments.total
        path = 1.0 / torch.tensor(strengths, dtype=torch.float64, device=device)
        problem, layer, strength = (
            t.flatten() for t in torch.meshgrid(*(torch.arange(n, device=device) for n in self.shape), indexing="ij")
        )
        self.problem, self.layer = problem, layer
        self.penalty = per_problem[problem] * path[strength]  # [fit]
        self.mean = self.moments.mean[problem, layer].float()  # [fit, dim]
        self.std = self.moments.std[problem, layer].float()
        self._measure_spectrum()

    def _measure_spectrum(self) -> None:
        """Eigenvectors of every layer's correlations, which the preconditioner is built on."""
        mean, std = self.moments.mean[0].float()[:, None], self.moments.std[0].float()[:, None]
        gram = torch.zeros(self.train.n_layers, self.train.dim, self.train.dim, device=self.device)
        for _items, vectors in self.train.chunks():
            standard = (vectors.to(self.device) - mean) / std
            gram += torch.bmm(standard.mT, standard)
        values, self.basis = torch.linalg.eigh(gram / self.train.n_items)
        self.spectrum = values.clamp_(min=0)

    def start(self) -> Tensor:
        """Where every fit begins: all parameters zero."""
        return torch.zeros(len(self.penalty), (self.train.dim + 1) * self.n_classes, device=self.device)

    def _split(self, points: Tensor) -> tuple[Tensor, Tensor]:
        both = points.view(len(points), self.train.dim + 1, self.n_classes)
        return both[:, :-1], both[:, -1]

    def _raw(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients and intercepts for vectors as they come, from those for standardised ones."""
        weights, biases = self._split(points)
        weights = weights / self.std[rows][:, :, None]
        biases = biases - torch.einsum("fd,fdk->fk", self.mean[rows], weights) + self.absent_bias[self.problem[rows]]
        return weights, biases

    def unstandardised(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """``[problem, layer, strength, dim, class]`` and ``[problem, layer, strength, class]``."""
        weights, biases = self._raw(torch.arange(len(points), device=self.device), points)
        return weights.view(*self.shape, *weights.shape[1:]), biases.view(*self.shape, self.n_classes)

    def evaluate(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss with penalty, and its gradient, of the fits ``rows`` at ``points``."""
        raw_weights, raw_biases = self._raw(rows, points)
        loss = torch.zeros(len(rows), dtype=torch.float64, device=self.device)
        grad_weights, grad_biases = torch.zeros_like(raw_weights), torch.zeros_like(raw_biases)
        groups = [(layer, (self.layer[rows] == layer).nonzero().squeeze(1)) for layer in range(self.train.n_layers)]
        groups = [(layer, group) for layer, group in groups if len(group)]
        stacked = [raw_weights[group].transpose(0, 1).flatten(1) for _, group in groups]
        for items, vectors in self.train.chunks():
            vectors, items = vectors.to(self.device), items.to(self.device)
            for (layer, group), weights in zip(groups, stacked, strict=True):
                problem = self.problem[rows[group]]
                label = self.labels[problem][:, items].T.clamp(min=0)[:, :, None]  # [m, fit, 1]
                weight = self.weights[problem][:, items].T
                scores = torch.addmm(raw_biases[group].flatten(), vectors[layer], weights)
                log_prob = scores.view(len(items), len(group), -1).log_softmax(-1)
                loss[group] -= (log_prob.gather(-1, label).squeeze(-1) * weight).sum(0).double()
                residual = log_prob.exp_().scatter_add_(-1, label, torch.full_like(label, -1, dtype=torch.float32))
                residual *= weight[:, :, None]
                product = vectors[layer].T @ residual.flatten(1)
                grad_weights[group] += product.view(self.train.dim, len(group), -1).transpose(0, 1)
                grad_biases[group] += residual.sum(0)
        return self._penalised(rows, points, loss, grad_weights, grad_biases)

    def _penalised(
        self, rows: Tensor, points: Tensor, loss: Tensor, grad_weights: Tensor, grad_biases: Tensor
    ) -> tuple[Tensor, Tensor]:
        total = self.moments.total[self.problem[rows]]
        penalty = self.penalty[rows]
        weights, _ = self._split(points)
        grad_weights = (grad_weights - self.mean[rows][:, :, None] * grad_biases[:, None]) / self.std[rows][:, :, None]
        scale = (1 / total).float()[:, None, None]
        grad_weights = grad_weights * scale + penalty.float()[:, None, None] * weights
        gradient = torch.cat([grad_weights, grad_biases[:, None] * scale], dim=1)
        value = loss / total + 0.5 * penalty * weights.flatten(1).double().square().sum(1)
        return value, gradient.flatten(1)

    def precondition(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """Divide by Böhning's bound of the Hessian (1992), ½ of the features' correlations, and the penalty."""
        weights, biases = self._split(gradient)
        basis, spectrum = self.basis[self.layer[rows]], self.spectrum[self.layer[rows]]
        rotated = torch.bmm(basis.mT, weights)
        rotated /= 0.5 * spectrum[:, :, None] + self.penalty[rows].float()[:, None, None]
        return torch.cat([torch.bmm(basis, rotated), 2.0 * biases[:, None]], dim=1).flatten(1)


def _choose(
    fits: _Fits,
    coefficients: Tensor,
    intercepts: Tensor,
    minima: Any,
    strengths: tuple[float, ...],
    dev: FeatureSource,
    dev_targets: Targets,
) -> FittedLinear:
    """Keep the best strength of each problem and layer by dev accuracy; of equals, the strongest regularisation."""
    accuracy = _dev_accuracy(fits, coefficients, intercepts, dev, dev_targets)  # [problem, layer, strength]
    best = accuracy.argmax(axis=2)  # the first of equals, which is the smallest C
    problem, layer = np.indices(best.shape)
    report = FitReport(
        strengths=strengths,
        chosen=np.array(strengths)[best],
        dev_accuracy=accuracy,
        iterations=minima.iterations.view(fits.shape).cpu().numpy(),
        converged=minima.converged.view(fits.shape).cpu().numpy(),
        gradient_norm=minima.gradient_norm.view(fits.shape).cpu().numpy(),
    )
    return FittedLinear(coefficients[problem, layer, best], intercepts[problem, layer, best], report)


def _dev_accuracy(
    fits: _Fits, coefficients: Tensor, intercepts: Tensor, dev: FeatureSource, dev_targets: Targets
) -> np.ndarray[Any, np.dtype[np.float64]]:
    labels = torch.from_numpy(dev_targets.labels).to(fits.device)
    weights = torch.from_numpy(item_weights(dev_targets)).to(fits.device)
    correct = torch.zeros(fits.shape, dtype=torch.float64, device=fits.device)
    flat_weights = coefficients.permute(1, 3, 0, 2, 4).flatten(2)
    flat_biases = intercepts.transpose(0, 1).flatten(1)[:, None]
    for items, vectors in dev.chunks():
        items = items.to(fits.device)
        scores = torch.baddbmm(flat_biases, vectors.to(fits.device), flat_weights)
        predicted = scores.view(fits.shape[1], len(items), fits.shape[0], fits.shape[2], -1).argmax(-1)
        right = predicted == labels[:, items].T[None, :, :, None]
        correct += (right * weights[:, items].T[None, :, :, None]).sum(1, dtype=torch.float64).transpose(0, 1)
    return (correct / weights.sum(1, dtype=torch.float64)[:, None, None]).cpu().numpy()
