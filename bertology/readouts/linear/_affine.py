"""Affine readouts: how they are applied, how their strength is chosen, and least squares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts._base import FitReport, Targets, best_places, check_same_shape, rising_ends
from bertology.readouts._fitting import IMPOSSIBLE, FittedScores, LabelReadout, TrainingData, accuracies
from bertology.readouts._moments import Items, Moments, measure_moments
from bertology.readouts._sources import FeatureSource, Floats, Integers, used_chunks


@dataclass(frozen=True)
class Affine:
    """Scores of classes as affine functions of raw vectors, for every problem, layer and strength.

    The standardisation of features is folded in.
    """

    coefficients: Tensor
    """``[problem, layer, strength, class, dim]``"""
    intercepts: Tensor
    """``[problem, layer, strength, class]``"""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        n_problems, n_layers, _, n_classes, dim = self.coefficients.shape
        return n_problems, n_layers, n_classes, dim

    @property
    def n_params(self) -> int:
        return self.shape[2] * (self.shape[3] + 1)

    def scores(self, source: FeatureSource) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Item numbers ``[m]``, layer, and scores ``[problem, strength, class, m]``, layer by layer of each chunk."""
        n_problems, n_layers, n_strengths, n_classes, dim = self.coefficients.shape
        check_same_shape(source, n_layers, dim)
        weights = self.coefficients.transpose(0, 1).reshape(n_layers, -1, dim)
        biases = self.intercepts.transpose(0, 1).reshape(n_layers, -1, 1)
        for items, vectors in source.chunks():
            vectors = vectors.to(weights.device)
            for layer in range(n_layers):
                class_scores = torch.addmm(biases[layer], weights[layer], vectors[layer].T)
                yield items, layer, class_scores.view(n_problems, n_strengths, n_classes, -1)

    def accuracy(self, source: FeatureSource, targets: Targets) -> Floats:
        """``[problem, layer, strength]`` part of the labelled items whose class has the highest score."""
        n_problems, n_layers, n_strengths = self.intercepts.shape[:3]
        return accuracies(self.scores(source), (n_problems, n_layers, n_strengths), targets)

    @classmethod
    def joined(cls, parts: Sequence[Affine]) -> Affine:
        return cls(torch.cat([part.coefficients for part in parts]), torch.cat([part.intercepts for part in parts]))

    def only(self, problems: Integers) -> Affine:
        return Affine(self.coefficients[problems], self.intercepts[problems])

    @classmethod
    def of_layers(cls, parts: Sequence[Affine]) -> Affine:
        """Regressions of single layers, side by side."""
        return cls(
            torch.cat([part.coefficients for part in parts], dim=1),
            torch.cat([part.intercepts for part in parts], dim=1),
        )

    def replaced(self, problem: int, other: Affine) -> Affine:
        """The same but for one problem, which is the only one of ``other``."""
        coefficients, intercepts = self.coefficients.clone(), self.intercepts.clone()
        coefficients[problem], intercepts[problem] = other.coefficients[0], other.intercepts[0]
        return Affine(coefficients, intercepts)

    def pick(self, strength: Integers) -> Affine:
        """Only the strength whose place ``[problem, layer]`` is given."""
        problem, layer = np.indices(strength.shape)
        chosen: Any = (problem, layer, strength)
        return Affine(self.coefficients[chosen].unsqueeze(2), self.intercepts[chosen].unsqueeze(2))


FittedAffine = FittedScores[Affine]
"""Regressions at their chosen strengths."""
EXTENSIONS = 3
"""How many strengths are tried beyond an end by default."""
_STEP = 10.0
"""From one strength beyond an end to the next."""


@dataclass(frozen=True)
class StrengthPath:
    """Strengths that are tried in every fit, and those beyond both ends that are tried where an end is best."""

    strengths: tuple[float, ...]
    """All of them, from the strongest regularisation to the weakest."""
    given: range
    """Integers of those that are tried in every fit."""

    @classmethod
    def of(cls, strengths: Sequence[float], *, extensions: int, large_is_strong: bool) -> StrengthPath:
        """A path in steps of ten beyond what is given; a single strength is one that was chosen before: no path.

        Raises:
            FitError: there is no strength, one is not positive, or ``extensions`` is negative.
        """
        tried = sorted(set(strengths), reverse=large_is_strong)
        if not tried or min(tried) <= 0:
            raise FitError(f"strengths are {list(strengths)}: give at least one, all above 0")
        if extensions < 0:
            raise FitError(f"extensions is {extensions}: give 0 or more")
        n = extensions if len(tried) > 1 else 0
        step = 1 / _STEP if large_is_strong else _STEP
        stronger = [tried[0] / step**k for k in range(n, 0, -1)]
        weaker = [tried[-1] * step**k for k in range(1, n + 1)]
        return cls((*stronger, *tried, *weaker), range(n, n + len(tried)))

    def next_places(self, dev_accuracy: Floats) -> Integers:
        """``[problem, layer]`` the strength to try next, one beyond an end that is best; −1 where nothing is left."""
        ends = rising_ends(dev_accuracy)
        places = best_places(dev_accuracy) + ends
        return np.asarray(np.where((ends != 0) & (places >= 0) & (places < len(self.strengths)), places, -1))

    def tried(self, dev_accuracy: Floats) -> NDArray[np.bool_]:
        """``[problem, layer, strength]`` which strengths are tried, where the accuracy at all of them is known."""
        accuracy = np.full(dev_accuracy.shape, np.nan)
        accuracy[..., self.given] = dev_accuracy[..., self.given]
        while (places := self.next_places(accuracy)).max() >= 0:
            where = *np.nonzero(places >= 0), places[places >= 0]
            accuracy[where] = dev_accuracy[where]
        return np.asarray(~np.isnan(accuracy))


@dataclass(frozen=True)
class RidgeReadout(LabelReadout[FittedAffine]):
    """Least squares with an L2 path on one-hot labels, as scikit-learn's ``Ridge`` states it.

    For each layer, problem and strength ``α`` it minimises ``Σ w ‖y − Wx − b‖² + α ‖W‖²`` over the training items,
    with ``y`` 1 at the item's class and 0 elsewhere, and features standardised by the mean and standard deviation
    (1 for a constant feature) that they have under the problem's own weights. One eigendecomposition a layer gives
    the whole path, and strengths beyond an end of it, which are tried where dev accuracy is best at that end. A class
    without training items is never predicted. Least-squares scores are no probabilities: ``log_prob`` of its
    predictions is NaN throughout. Nothing is random.
    """

    strengths: tuple[float, ...] = (1e4, 1e3, 1e2, 1e1, 1.0)
    """The path of ``α``: large is strong."""
    extensions: int = EXTENSIONS
    """How many strengths, in steps of ten, may be tried beyond either end of a path of two or more."""

    @property
    def name(self) -> str:
        return "ridge.v1"

    def fit_to(self, data: TrainingData) -> FittedAffine:
        strengths = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=True)
        data.progress("ridge: means and spreads")
        moments = measure_moments(data.train, data.items.weights)
        data.progress("ridge: products of all features")
        products = _products(data.train, data.items, moments)
        path = _solve(moments, *products, data.items.frequency.double(), strengths.strengths)
        strength_sources = np.array(data.targets.strength_sources)
        accuracy = path.accuracy(data.dev, data.dev_targets)
        tried = strengths.tried(accuracy)[strength_sources]
        best = best_places(np.where(tried, accuracy[strength_sources], np.nan))
        report = FitReport.of_tried(
            strengths.strengths,
            best,
            dev_accuracy=np.where(tried, accuracy, np.nan),
            iterations=np.zeros(accuracy.shape, dtype=np.int64),
            converged=np.ones(accuracy.shape, dtype=bool),
            gradient_norm=np.full(accuracy.shape, np.nan),
        )
        return FittedAffine(self.name, path.pick(best), report, are_logits=False)


def _products(train: FeatureSource, items: Items, moments: Moments) -> tuple[list[Tensor], list[int], Tensor]:
    """Products of standardised features, ``[layer, dim, dim]`` for each distinct weighting; which each problem has;
    and products with the labels, ``[problem, layer, class, dim]``; float64.
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
    paths = []
    for problem, weighting in enumerate(which):
        values, basis = spectra[weighting]
        rotated = crosses[problem] @ basis  # [layer, class, dim]
        path = [rotated / (values.clamp(min=0) + strength)[:, None] @ basis.mT for strength in strengths]
        paths.append(torch.stack(path, dim=1))
    coefficients = torch.stack(paths) / moments.std[:, :, None, None]  # [problem, layer, strength, class, dim]
    shift = torch.einsum("plscd,pld->plsc", coefficients, moments.mean)
    intercepts = frequency.where(frequency > 0, IMPOSSIBLE)[:, None, None] - shift
    return Affine(coefficients.float(), intercepts.float())
