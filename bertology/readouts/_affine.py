"""Readouts that are one matrix product: how they are applied, and how their strength is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.readouts._base import FitReport, FittedReadout, Predictions, Targets, check_same_shape
from bertology.readouts._features import FeatureSource
from bertology.readouts._scoring import accuracies, check_asked, label_log_probs, predictions


@dataclass(frozen=True)
class Affine:
    """Scores of classes as affine functions of vectors as they come, for every problem, layer and strength."""

    coefficients: Tensor
    """``[problem, layer, strength, class, dim]``"""
    intercepts: Tensor
    """``[problem, layer, strength, class]``"""

    def scores(self, source: FeatureSource) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Item numbers ``[m]``, layer, and scores ``[problem, strength, class, m]``, chunk by chunk and layer by layer.

        Raises:
            FitError: the source has other layers or another width.
        """
        n_problems, n_layers, n_strengths, n_classes, dim = self.coefficients.shape
        check_same_shape(source, n_layers, dim)
        weights = self.coefficients.transpose(0, 1).reshape(n_layers, -1, dim)
        biases = self.intercepts.transpose(0, 1).reshape(n_layers, -1, 1)
        for items, vectors in source.chunks():
            vectors = vectors.to(weights.device)
            for layer in range(n_layers):
                found = torch.addmm(biases[layer], weights[layer], vectors[layer].T)
                yield items, layer, found.view(n_problems, n_strengths, n_classes, -1)

    def accuracy(self, source: FeatureSource, targets: Targets) -> NDArray[np.float64]:
        """``[problem, layer, strength]`` part of the labelled items whose class has the highest score."""
        n_problems, n_layers, n_strengths = self.coefficients.shape[:3]
        return accuracies(self.scores(source), (n_problems, n_layers, n_strengths), targets)

    @classmethod
    def joined(cls, parts: Sequence[Affine]) -> Affine:
        """The problems of several, one after the other."""
        return cls(torch.cat([part.coefficients for part in parts]), torch.cat([part.intercepts for part in parts]))

    def only(self, problems: NDArray[np.int64]) -> Affine:
        """Only some of the problems, in that order."""
        return Affine(self.coefficients[problems], self.intercepts[problems])

    def only_layers(self, layers: NDArray[np.int64]) -> Affine:
        """Only some of the layers, in that order."""
        return Affine(self.coefficients[:, layers], self.intercepts[:, layers])

    def replaced(self, problem: int, layers: NDArray[np.int64], other: Affine) -> Affine:
        """The same but for some layers of one problem, which are those of ``other``."""
        coefficients, intercepts = self.coefficients.clone(), self.intercepts.clone()
        coefficients[problem, layers], intercepts[problem, layers] = other.coefficients[0], other.intercepts[0]
        return Affine(coefficients, intercepts)

    def pick(self, strength: NDArray[np.int64]) -> Affine:
        """Only the strength whose place ``[problem, layer]`` is given."""
        problem, layer = np.indices(strength.shape)
        chosen: Any = (problem, layer, strength)
        return Affine(self.coefficients[chosen].unsqueeze(2), self.intercepts[chosen].unsqueeze(2))


@dataclass(frozen=True)
class FittedAffine(FittedReadout):
    """Regressions at their chosen strengths."""

    readout: str
    """Registered name of what fitted them."""
    regressions: Affine
    """Of vectors as they come (the standardisation is folded in), with one strength."""
    fit_report: FitReport
    are_logits: bool
    """Whether the softmax of the scores is a probability."""

    @property
    def name(self) -> str:
        """Registered name of the readout, with its version."""
        return self.readout

    @property
    def report(self) -> FitReport:
        """How the fit went."""
        return self.fit_report

    @property
    def n_params(self) -> int:
        """Coefficients and intercepts of one layer's readout for one problem."""
        n_classes, dim = self.regressions.coefficients.shape[3:]
        return int(n_classes * (dim + 1))

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        """Nothing beyond the report."""
        return {}

    def predict(self, source: FeatureSource) -> Predictions:
        """Predict every item of ``source`` in every layer, chunk by chunk.

        Raises:
            FitError: the source has other layers or another width than the readout was fitted on.
        """
        n_problems, n_layers = self.regressions.coefficients.shape[:2]
        shape = (n_problems, n_layers, source.n_items)
        return predictions(self.regressions.scores(source), shape, are_logits=self.are_logits)

    def log_probs(self, source: FeatureSource, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """``[problem, layer, item]`` log-probability of a class of each item; NaN where scores are no logits."""
        n_problems, n_layers, _, n_classes = self.regressions.intercepts.shape
        check_asked(source, labels, n_problems=n_problems, n_classes=n_classes)
        check_same_shape(source, n_layers, self.regressions.coefficients.shape[4])
        shape = (n_problems, n_layers, source.n_items)
        if not self.are_logits:
            return np.full(shape, np.nan)
        return label_log_probs(self.regressions.scores(source), shape, labels)
