"""``linear.v1``: multinomial logistic regression of every layer, problem and strength at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from bertology.errors import FitError
from bertology.readouts._affine import Affine, FittedAffine
from bertology.readouts._base import (
    FitReport,
    Progress,
    Readout,
    Targets,
    check_problems,
)
from bertology.readouts._curvature import Bound, measure_curvature
from bertology.readouts._features import FeatureSource
from bertology.readouts._lbfgs import Minima, minimise
from bertology.readouts._moments import choose_items, survey
from bertology.readouts._objective import Fits, Items, Objective
from bertology._workers import Workers

_SAMPLE_A_FEATURE = 48
"""Items a feature below which a sample would say too little; of more, half at most are sampled."""
_SAMPLE_ITEMS = 32768
_SAMPLE_BYTES = 1 << 30
_CURVATURE_BYTES = 512 << 20
_ROUGH = 0.012
"""Part of its gradient at the start that a fit to the sample may keep: going further would only learn the sample."""


@dataclass(frozen=True)
class LinearReadout(Readout):
    """Multinomial logistic regression with an L2 path, as scikit-learn's ``LogisticRegression`` states it.

    For each layer, problem and strength ``C`` it minimises ``C · Σ w (−ln p) + ½ ‖W‖²`` over the training items,
    their features standardised by the mean and standard deviation (1 for a constant feature) that they have under
    the problem's own weights; intercepts are not penalised. As in scikit-learn, a problem whose training data have
    two classes has one weight vector, the difference of the two.

    All fits go through the data together, by L-BFGS with a preconditioner of their own (see ``_curvature``), first on
    a sample, then on everything until they arrive.
    """

    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    """The path of ``C``: the inverse of the regularisation, so that small is strong."""
    max_iter: int = 200
    """Evaluations of loss and gradient on all training items at most."""
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
    ) -> FittedAffine:
        """Fit every problem in every layer at every strength, and keep the strengths that do best on dev.

        Args:
            train: vectors to fit on.
            targets: what to predict from them.
            dev: vectors of other items, for the choice of strength.
            dev_targets: the same problems over ``dev``.
            seed: of the sample that the fit begins on; where it ends does not depend on it beyond the tolerance.
            device: where to compute, as torch names it.
            progress: told how far the fit has come.

        Raises:
            FitError: the training data cannot be fitted: nothing labelled, one class alone, vectors that are not
                finite, shapes that do not agree; or a strength is not positive.
        """
        check_problems(train, targets, dev, dev_targets)
        strengths = tuple(sorted(set(self.strengths)))
        if not strengths or strengths[0] <= 0:
            raise FitError(f"strengths are {list(self.strengths)}: give at least one, all above 0")
        items = Items.of(targets, torch.device(device))
        with Workers(items.labels.device) as workers:
            fits, minima = self._minimise(train, items, strengths, seed, workers, progress)
        coefficients, intercepts = fits.for_raw(torch.arange(len(fits), device=device), minima.points)
        path = Affine(
            coefficients.view(*fits.shape, *coefficients.shape[1:]), intercepts.view(*fits.shape, fits.n_classes)
        )
        accuracy = path.accuracy(dev, dev_targets)
        best = accuracy.argmax(axis=2)  # of equals the first, which is the strongest
        report = FitReport(
            strengths=strengths,
            chosen=np.array(strengths)[best],
            dev_accuracy=accuracy,
            iterations=minima.iterations.view(fits.shape).cpu().numpy(),
            converged=minima.converged.view(fits.shape).cpu().numpy(),
            gradient_norm=minima.gradient_norm.view(fits.shape).cpu().numpy(),
        )
        return FittedAffine(self.name, path.pick(best), report, are_logits=True)

    def _minimise(
        self,
        train: FeatureSource,
        items: Items,
        strengths: tuple[float, ...],
        seed: int,
        workers: Workers,
        progress: Progress | None,
    ) -> tuple[Fits, Minima]:
        """Roughly on a sample, then on everything from there with the curvature found there."""
        wanted = max(_SAMPLE_A_FEATURE * train.dim, int(items.used.sum()) // 2)
        size = min(wanted, _SAMPLE_ITEMS, _SAMPLE_BYTES // (4 * train.n_layers * train.dim))
        moments, sample = survey(train, items.weights, choose_items(items.weights, size, seed=seed), workers)
        fits = Fits(items, moments, strengths)
        sampled = items.at(sample.items)
        on_sample = Objective(fits, sample.source, sampled, workers)
        bound = Bound(fits, sample, workers)
        rough = minimise(
            on_sample,
            fits.start(),
            precondition=bound,
            max_iter=self.max_iter,
            tolerance=self.tolerance,
            relative=_ROUGH,
            report=_teller(progress, "a sample", len(fits)),
        )
        curvature = measure_curvature(
            fits, sample, sampled, rough.points, bound.correlations, workers, memory=_CURVATURE_BYTES
        )
        minima = minimise(
            on_sample if sample.is_everything else Objective(fits, train, items, workers),
            rough.points,
            precondition=curvature,
            max_iter=self.max_iter,
            tolerance=self.tolerance,
            report=_teller(progress, "all items", len(fits)),
        )
        return fits, minima


def _teller(progress: Progress | None, what: str, n_fits: int) -> Callable[[int, int], None]:
    def tell(iteration: int, left: int) -> None:
        if progress is not None:
            progress(f"linear fits to {what}: pass {iteration}, {n_fits - left} of {n_fits} have converged")

    return tell
