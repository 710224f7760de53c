"""Data whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertology.readouts import ArrayFeatures, Targets

Floats = NDArray[np.floating[Any]]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Vectors ``[layer, item, dim]`` and labels ``[problem, item]``."""

    vectors: Floats
    labels: Labels
    n_classes: int

    @property
    def source(self) -> ArrayFeatures:
        return ArrayFeatures(self.vectors, chunk_items=128)

    @property
    def targets(self) -> Targets:
        return Targets(self.labels, self.n_classes)

    def layers(self, *places: int) -> Split:
        return Split(self.vectors[list(places)], self.labels, self.n_classes)

    def problems(self, *places: int) -> Split:
        return Split(self.vectors, self.labels[list(places)], self.n_classes)


@dataclass(frozen=True)
class World:
    """Layer 0 says nothing about the labels, layers 1 and 2 do; features are ill-conditioned and far from zero."""

    seed: int = 0
    n_layers: int = 3
    dim: int = 12
    n_classes: int = 4
    n_problems: int = 2

    def split(self, n_items: int, number: int) -> Split:
        truth = np.random.default_rng(self.seed)
        mixing = truth.normal(size=(self.n_layers, self.dim, self.dim)) * np.geomspace(1, 0.05, self.dim)
        offset = truth.normal(size=(self.n_layers, 1, self.dim)) * 3
        rules = truth.normal(size=(self.n_problems, self.dim, self.n_classes))
        random = np.random.default_rng((self.seed, number))
        causes = random.normal(size=(n_items, self.dim))
        scores = causes @ rules + 0.7 * random.gumbel(size=(self.n_problems, n_items, self.n_classes))
        hidden = np.stack([random.normal(size=causes.shape), *[causes] * (self.n_layers - 1)])
        vectors = (hidden @ mixing + offset).astype(np.float32)
        return Split(vectors, scores.argmax(-1), self.n_classes)


@pytest.fixture(scope="session")
def train() -> Split:
    return World().split(900, 1)


@pytest.fixture(scope="session")
def dev() -> Split:
    return World().split(500, 2)


@pytest.fixture(scope="session")
def test() -> Split:
    return World().split(700, 3)


def standardised(vectors: Floats, like: Floats, weights: Floats | None = None) -> Floats:
    """Vectors ``[item, dim]`` by the weighted mean and standard deviation of ``like``, in double precision."""
    like = like.astype(np.float64)
    mean = np.average(like, axis=0, weights=weights)
    std = np.sqrt(np.average((like - mean) ** 2, axis=0, weights=weights))
    result: Floats = (vectors - mean) / np.where(std > 0, std, 1.0)
    return result


def chance_interval(labels: Labels, n_classes: int) -> tuple[float, float]:
    """Where the accuracy of guessing that knows nothing but class frequencies must lie (four standard errors)."""
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    error = 4 * np.sqrt(0.25 / len(labels))
    return float(shares.min() - error), float(shares.max() + error)
