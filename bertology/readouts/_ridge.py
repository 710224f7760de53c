"""``ridge``: least squares on one-hot labels, in closed form, for every layer, problem and strength."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertology.readouts._affine import Affine, FittedAffine
from bertology.readouts._base import (
    FitReport,
    Progress,
    Readout,
    Targets,
    check_problems,
    check_single_label,
)
from bertology.readouts._features import FeatureSource, used_chunks
from bertology.readouts._moments import Moments, measure_moments
from bertology.readouts._objective import Items
from bertology.readouts._path import EXTENSIONS, StrengthPath, best_places
from bertology.readouts._scoring import IMPOSSIBLE


@dataclass(frozen=True)
class RidgeReadout(Readout):
    """Least squares with an L2 path on one-hot labels, as scikit-learn's ``Ridge`` states it.

    For each layer, problem and strength ``α`` it minimises ``Σ w ‖y − Wx − b‖² + α ‖W‖²`` over the training items,
    with ``y`` 1 at the item's class and 0 elsewhere, and features standardised by the mean and standard deviation
    (1 for a constant feature) that they have under the problem's own weights. One eigendecomposition a layer gives
    the whole path, and strengths beyond an end of it, which are tried where dev accuracy is best at that end. A class
    without training items is never predicted. Least-squares scores are no probabilities: ``log_prob`` of its
    predictions is NaN throughout.
    """

    strengths: tuple[float, ...] = (1e4, 1e3, 1e2, 1e1, 1.0)
    """The path of ``α``: large is strong."""
    extensions: int = EXTENSIONS
    """How many strengths, in steps of ten, may be tried beyond either end of a path of two or more; with 0, which is
    ``ridge.v1``, none is."""

    @property
    def name(self) -> str:
        """``ridge.v2``, or ``ridge.v1`` where the path is never extended."""
        return "ridge.v2" if self.extensions else "ridge.v1"

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
            seed: changes nothing, since nothing is random.
            device: where to compute, as torch names it.
            progress: told how far the fit has come.

        Raises:
            FitError: as :meth:`Readout.fit`; or a strength is not positive.
        """
        check_single_label(targets, self.name)
        check_problems(train, targets, dev, dev_targets)
        strengths = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=True)
        items = Items.of(targets, torch.device(device))
        tell = progress or (lambda line: None)
        tell("ridge: means and spreads")
        moments = measure_moments(train, items.weights)
        tell("ridge: products of all features")
        path = _solve(moments, *_products(train, items, moments), items.frequency.double(), strengths.strengths)
        leaders = np.array(targets.leaders)
        accuracy = path.accuracy(dev, dev_targets)
        tried = strengths.tried(accuracy)[leaders]
        best = best_places(np.where(tried, accuracy[leaders], np.nan))
        report = FitReport(
            strengths=strengths.strengths,
            chosen=np.array(strengths.strengths)[best],
            dev_accuracy=np.where(tried, accuracy, np.nan),
            iterations=np.zeros(accuracy.shape, dtype=np.int64),
            converged=np.ones(accuracy.shape, dtype=bool),
            gradient_norm=np.full(accuracy.shape, np.nan),
        )
        return FittedAffine(self.name, path.pick(best), report.without_untried(), are_logits=False)


def _products(train: FeatureSource, items: Items, moments: Moments) -> tuple[list[Tensor], list[int], Tensor]:
    """Products of standardised features with each other and with the labels.

    Returns:
        ``[layer, dim, dim]`` products for each distinct weighting, which of them each problem has, and
        ``[problem, layer, class, dim]`` products with the labels; float64.
    """
    weightings: dict[bytes, int] = {}
    which = [weightings.setdefault(row.cpu().numpy().tobytes(), len(weightings)) for row in items.weights]
    n_problems, n_classes = items.frequency.shape
    grams = [moments.mean.new_zeros(train.n_layers, train.dim, train.dim) for _ in weightings]
    crosses = moments.mean.new_zeros(n_problems, train.n_layers, n_classes, train.dim)
    mean, std = moments.mean.float()[:, :, None], moments.std.float()[:, :, None]
    for numbers, vectors in used_chunks(train, items.used):
        numbers, vectors = numbers.to(crosses.device), vectors.to(crosses.device)
        standard: Tensor | None = None
        for problem in sorted(range(n_problems), key=lambda problem: which[problem]):
            weights = items.weights[problem, numbers]
            if standard is None or which.index(which[problem]) == problem:
                standard = (vectors - mean[problem]) / std[problem]  # [layer, m, dim]
                grams[which[problem]] += torch.bmm(standard.mT, standard * weights[:, None])
            labels = torch.nn.functional.one_hot(items.labels[problem, numbers], n_classes) * weights[:, None]
            crosses[problem] += labels.T.expand(train.n_layers, -1, -1) @ standard
    return grams, which, crosses


def _solve(
    moments: Moments,
    grams: list[Tensor],
    which: list[int],
    crosses: Tensor,
    frequency: Tensor,
    strengths: tuple[float, ...],
) -> Affine:
    """The whole path from one eigendecomposition for each layer and weighting (Hastie et al. 2009, section 3.4.1)."""
    spectra = [torch.linalg.eigh(gram) for gram in grams]
    found = []
    for problem, weighting in enumerate(which):
        values, basis = spectra[weighting]
        rotated = crosses[problem] @ basis  # [layer, class, dim]
        path = [rotated / (values.clamp(min=0) + strength)[:, None] @ basis.mT for strength in strengths]
        found.append(torch.stack(path, dim=1))
    coefficients = torch.stack(found) / moments.std[:, :, None, None]  # [problem, layer, strength, class, dim]
    shift = torch.einsum("plscd,pld->plsc", coefficients, moments.mean)
    intercepts = frequency.where(frequency > 0, IMPOSSIBLE)[:, None, None] - shift
    return Affine(coefficients.float(), intercepts.float())
