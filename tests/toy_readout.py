"""A readout of another package: one file and one entry point, which no file of the project knows."""

from pathlib import Path

FILE = '''
"""Nearest class mean, in every layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertology.readouts import FitReport, FittedReadout, Predictions, Readout, ReadoutKind


@dataclass(frozen=True)
class FittedMeans(FittedReadout):
    name: str
    means: np.ndarray
    report: FitReport

    @property
    def n_params(self) -> int:
        return int(np.prod(self.means.shape[2:]))

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        return {"largest_mean": round(float(self.means[problem, layer].max()), 6)}

    def predict(self, source) -> Predictions:
        vectors = _all(source)
        far = ((vectors[None, :, :, None] - self.means[:, :, None]) ** 2).sum(-1)
        labels = np.nan_to_num(far, nan=np.inf).argmin(-1)
        return Predictions(labels, np.full(labels.shape, np.nan, np.float32))

    def log_probs(self, source, labels):
        return np.full((len(self.means), source.n_layers, source.n_items), np.nan)


@dataclass(frozen=True)
class Toy(Readout):
    shrink: float = 0.0

    @property
    def name(self) -> str:
        return "toy.v1"

    def fit_to(self, data) -> FittedMeans:
        train, targets = data.train, data.targets
        vectors = _all(train)
        weights = np.ones(targets.labels.shape) if targets.weights is None else targets.weights
        means = np.full((targets.n_problems, train.n_layers, targets.n_classes, train.dim), np.nan)
        for problem, labels in enumerate(targets.labels):
            for label in np.unique(labels[labels >= 0]):
                used = weights[problem] * (labels == label)
                if used.any():
                    means[problem, :, label] = (1 - self.shrink) * np.average(vectors, axis=1, weights=used)
        shape = (targets.n_problems, train.n_layers, 1)
        report = FitReport(
            (0.0,), np.zeros(shape[:2]), np.zeros(shape), np.ones(shape, int), np.ones(shape, bool), np.zeros(shape)
        )
        return FittedMeans(self.name, means, report)


def _all(source) -> np.ndarray:
    vectors = np.empty((source.n_layers, source.n_items, source.dim), np.float32)
    for items, chunk in source.chunks():
        vectors[:, items.numpy()] = chunk.numpy()
    return vectors


def wide(settings: Mapping[str, Any], width: int) -> str | None:
    return f"shrink is {settings['shrink']}: give at most 1" if settings.get("shrink", 0) > 1 else None


TOY = ReadoutKind("toy.v1", Toy, "nearest class mean", settings_problem=wide)
'''


def install(folder: Path, *, file: str = FILE, target: str = "their_toy_readout:TOY", name: str = "toy.v1") -> Path:
    """Install the package into a folder, as pip would: its file, and metadata with the one entry point."""
    (folder / "their_toy_readout.py").write_text(file)
    metadata = folder / "their_toy_readout-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-toy-readout\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[bertology.readouts]\n{name} = {target}\n")
    return folder
