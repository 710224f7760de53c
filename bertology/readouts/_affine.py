"""Readouts that are one matrix product: how they are applied, and how their strength is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.readouts._base import Targets, check_same_shape, item_weights
from bertology.readouts._features import FeatureSource


@dataclass(frozen=True)
class Affine:
    """Scores of classes as affine functions of vectors as they come, for every problem, layer and strength."""

    coefficients: Tensor
    """``[problem, layer, strength, class, dim]``"""
    intercepts: Tensor
    """``[problem, layer, strength, class]``"""

    @property
    def n_params(self) -> int:
        """Coefficients and intercepts of one problem, layer and strength."""
        n_classes, dim = self.coefficients.shape[3:]
        return int(n_classes * (dim + 1))

    def scores(self, source: FeatureSource) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Chunk by chunk and layer by layer: item numbers ``[m]``, layer, scores ``[problem, strength, class, m]``.

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
        device = self.coefficients.device
        labels = torch.from_numpy(targets.labels).to(device)
        weights = torch.from_numpy(item_weights(targets)).to(device)
        correct = torch.zeros(self.coefficients.shape[:3], dtype=torch.float64, device=device)
        for items, layer, scores in self.scores(source):
            items = items.to(device)
            right = scores.argmax(2) == labels[:, None, items]  # [problem, strength, m]
            correct[:, layer] += (right * weights[:, None, items]).sum(2, dtype=torch.float64)
        total = weights.sum(1, dtype=torch.float64)
        found: NDArray[np.float64] = (correct / total[:, None, None]).cpu().numpy()
        return found

    def pick(self, strength: NDArray[np.int64]) -> Affine:
        """Only the strength whose place ``[problem, layer]`` is given."""
        problem, layer = np.indices(strength.shape)
        chosen: Any = (problem, layer, strength)
        return Affine(self.coefficients[chosen].unsqueeze(2), self.intercepts[chosen].unsqueeze(2))
