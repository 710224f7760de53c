"""``mlp.v1``: a perceptron with one hidden layer for every layer and problem, trained side by side."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology.errors import FitError
from bertology.readouts._base import (
    FitReport,
    FittedReadout,
    Predictions,
    Progress,
    Readout,
    Targets,
    check_problems,
    check_same_shape,
    check_single_label,
)
from bertology.readouts._features import FeatureSource, used_chunks
from bertology.readouts._moments import Moments, measure_moments
from bertology.readouts._objective import Items
from bertology.readouts._race import Race
from bertology.readouts._scoring import IMPOSSIBLE, accuracies, check_asked, label_log_probs, predictions

_WINDOW_BYTES = 256 << 20
"""Vectors that are shuffled among each other before they are cut into batches."""


class Perceptrons(nn.Module):
    """One perceptron a problem and layer: standardised features, a hidden layer of ReLUs, class scores.

    If ``is_linear``, the hidden layer hands on what it gets, without biases of its own: a product of two matrices.
    """

    def __init__(self, moments: Moments, items: Items, hidden: int, seed: int, *, is_linear: bool = False) -> None:
        super().__init__()
        self._is_linear = is_linear
        n_problems, n_layers, dim = moments.mean.shape
        n_classes = items.frequency.shape[1]
        first, second = [], []
        for problem in range(n_problems):
            random = torch.Generator().manual_seed(seed * 1_000_003 + problem)
            first.append(torch.randn(hidden, dim, generator=random) * (2 / dim) ** 0.5)  # He et al. 2015
            second.append(torch.randn(n_classes, hidden, generator=random) * (1 / hidden) ** 0.5)
        device = moments.mean.device
        # every layer begins alike: what differs between layers is what they hold
        self.first = nn.Parameter(torch.stack(first)[:, None].repeat(1, n_layers, 1, 1).to(device))
        self.second = nn.Parameter(torch.stack(second)[:, None].repeat(1, n_layers, 1, 1).to(device))
        self.first_bias = nn.Parameter(torch.zeros(n_problems, n_layers, 0 if is_linear else hidden, device=device))
        self.second_bias = nn.Parameter(torch.zeros(n_problems, n_layers, n_classes, device=device))
        self.mean: Tensor
        self.std: Tensor
        self.absent: Tensor
        self.register_buffer("mean", moments.mean.float())
        self.register_buffer("std", moments.std.float())
        self.register_buffer("absent", torch.where(items.frequency > 0, 0.0, IMPOSSIBLE)[:, None])

    def forward(self, vectors: Tensor) -> Tensor:
        """``[problem, layer, m, class]`` scores of ``[layer, m, dim]`` vectors."""
        scores = []
        for problem in range(len(self.first)):
            standard = (vectors - self.mean[problem][:, None]) / self.std[problem][:, None]
            if self._is_linear:
                hidden = torch.bmm(standard, self.first[problem].mT)
            else:
                hidden = torch.baddbmm(self.first_bias[problem][:, None], standard, self.first[problem].mT).relu_()
            scores.append(torch.baddbmm(self.second_bias[problem][:, None], hidden, self.second[problem].mT))
        return torch.stack(scores) + self.absent[:, None]

    def scores(self, source: FeatureSource) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Item numbers ``[m]``, layer, and scores ``[problem, 1, class, m]``, chunk by chunk and layer by layer."""
        with torch.inference_mode():
            for items, vectors in source.chunks():
                found = self(vectors.to(self.mean.device)).unsqueeze(2)  # [problem, layer, 1, m, class]
                for layer in range(source.n_layers):
                    yield items, layer, found[:, layer].mT

    @property
    def n_params(self) -> int:
        """Weights and biases of one perceptron."""
        return sum(int(np.prod(parameter.shape[2:])) for parameter in self.parameters())


@dataclass(frozen=True)
class FittedMlp(FittedReadout):
    """Perceptrons as they were after the epoch with the best dev accuracy."""

    perceptrons: Perceptrons
    fit_report: FitReport
    readout: str = "mlp.v1"
    """Registered name of what fitted them."""

    @property
    def name(self) -> str:
        """Registered name of the readout, with its version."""
        return self.readout

    @property
    def report(self) -> FitReport:
        """How the fit went: ``iterations`` counts epochs, ``converged`` says that dev accuracy had stopped rising."""
        return self.fit_report

    @property
    def n_params(self) -> int:
        """Weights and biases of one layer's readout for one problem."""
        return self.perceptrons.n_params

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        """Nothing beyond the report."""
        return {}

    def predict(self, source: FeatureSource) -> Predictions:
        """Predict every item of ``source`` in every layer, chunk by chunk."""
        n_problems, n_layers, dim = self.perceptrons.mean.shape
        check_same_shape(source, n_layers, dim)
        return predictions(self.perceptrons.scores(source), (n_problems, n_layers, source.n_items), are_logits=True)

    def log_probs(self, source: FeatureSource, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """``[problem, layer, item]`` log-probability of a class of each item."""
        n_problems, n_layers, dim = self.perceptrons.mean.shape
        check_asked(source, labels, n_problems=n_problems, n_classes=self.perceptrons.second.shape[2])
        check_same_shape(source, n_layers, dim)
        return label_log_probs(self.perceptrons.scores(source), (n_problems, n_layers, source.n_items), labels)


@dataclass(frozen=True)
class MlpReadout(Readout):
    """A perceptron with one hidden layer, trained by Adam (Kingma & Ba 2015) until dev accuracy stops rising.

    All layers and problems see the same batches and are trained in the same matrix products, yet none knows of
    another: each has its own parameters and stops at its own best epoch.
    """

    hidden: int = 256
    """Width of the hidden layer."""
    learning_rate: float = 1e-3
    batch_items: int = 256
    max_epochs: int = 50
    patience: int = 3
    """Epochs without a better dev accuracy after which a fit ends."""

    @property
    def name(self) -> str:
        """``mlp.v1``."""
        return "mlp.v1"

    @property
    def params(self) -> Mapping[str, Any]:
        """The settings, as JSON can hold them."""
        return asdict(self)

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
    ) -> FittedMlp:
        """Fit every problem in every layer, each to its own best epoch.

        Args:
            train: vectors to fit on.
            targets: what to predict from them.
            dev: vectors of other items, to see when to stop.
            dev_targets: the same problems over ``dev``.
            seed: of the initial weights (each problem its own) and of the order of the items.
            device: where to compute, as torch names it.
            progress: told how far the fit has come.

        Raises:
            FitError: as :meth:`Readout.fit`; or a setting is out of bounds.
        """
        check_single_label(targets, self.name)
        check_problems(train, targets, dev, dev_targets)
        if self.hidden < 1:
            raise FitError(f"hidden is {self.hidden}: give the width of the hidden layer, 1 or more")
        items = Items.of(targets, torch.device(device))
        moments = measure_moments(train, items.weights)
        perceptrons = Perceptrons(moments, items, self.hidden, seed)
        course = Course(self.learning_rate, self.batch_items, self.max_epochs, self.patience)
        best, report = course.run(perceptrons, train, items, dev, dev_targets, seed=seed, progress=progress)
        return FittedMlp(best, report)


@dataclass(frozen=True)
class Course:
    """How perceptrons are trained, whatever they are."""

    learning_rate: float
    batch_items: int
    max_epochs: int
    patience: int

    def __post_init__(self) -> None:
        if min(self.batch_items, self.max_epochs, self.patience) < 1 or self.learning_rate <= 0:
            raise FitError(f"settings {asdict(self)}: give numbers above 0")

    def run(
        self,
        perceptrons: Perceptrons,
        train: FeatureSource,
        items: Items,
        dev: FeatureSource,
        dev_targets: Targets,
        *,
        seed: int,
        progress: Progress | None,
    ) -> tuple[Perceptrons, FitReport]:
        """Train all side by side, and keep each as it was after its own best epoch."""
        shape = (len(items.weights), train.n_layers)
        race, best = Race(shape, self.patience), copy.deepcopy(perceptrons).requires_grad_(False)
        optimiser = torch.optim.Adam(perceptrons.parameters(), lr=self.learning_rate)
        random = torch.Generator().manual_seed(seed)
        for epoch in range(1, self.max_epochs + 1):
            for numbers, vectors in shuffled_batches(train, items, self.batch_items, random):
                optimiser.zero_grad()
                _loss(perceptrons(vectors), items, numbers).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            accuracy = accuracies(perceptrons.scores(dev), (*shape, 1), dev_targets)[:, :, 0]
            _keep(best, perceptrons, race.judge(epoch, accuracy))
            if progress is not None:
                progress(f"perceptrons: epoch {epoch}, {int((~race.running).sum())} of {race.running.size} have ended")
            if not race.running.any():
                break
        return best, race.report()


def _loss(scores: Tensor, items: Items, numbers: Tensor) -> Tensor:
    """Cross-entropy per item of the batch, summed over problems and layers, which share no parameter."""
    log_prob = scores.log_softmax(3)  # [problem, layer, m, class]
    labels = items.labels[:, None, numbers, None].expand(-1, scores.shape[1], -1, 1)
    weights = items.weights[:, None, numbers]
    mean_weight = (items.total / items.weights.shape[1]).float()[:, None, None]
    loss: Tensor = -(log_prob.gather(3, labels).squeeze(3) * weights / mean_weight).sum() / len(numbers)
    return loss


def shuffled_batches(
    train: FeatureSource, items: Items, size: int, random: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Used items in batches of ``size``, shuffled inside windows of neighbouring chunks.

    What is left of a window goes into the next one; the last batch of all may be smaller.
    """
    device = items.weights.device
    most = max(size, _WINDOW_BYTES // (4 * train.n_layers * train.dim))
    window: list[tuple[Tensor, Tensor]] = []
    held = 0
    for numbers, vectors in used_chunks(train, items.used):
        window.append((numbers.to(device), vectors.to(device)))
        held += len(numbers)
        if held >= most:
            rest = yield from _cut(window, size, random, last=False)
            window, held = [rest], len(rest[0])
    if held:
        yield from _cut(window, size, random, last=True)


def _cut(window: list[tuple[Tensor, Tensor]], size: int, random: torch.Generator, *, last: bool) -> Any:
    numbers = torch.cat([part for part, _ in window])
    vectors = torch.cat([part for _, part in window], dim=1)
    order = torch.randperm(len(numbers), generator=random).to(numbers.device)
    end = len(order) if last else len(order) - len(order) % size
    for first in range(0, end, size):
        chosen = order[first : min(first + size, end)]
        yield numbers[chosen], vectors[:, chosen]
    return numbers[order[end:]], vectors[:, order[end:]]


def _keep(kept: Perceptrons, now: Perceptrons, better: NDArray[np.bool_]) -> None:
    """Copy the perceptrons of the problems and layers that are ``better`` into ``kept``."""
    places = torch.from_numpy(better).to(kept.mean.device)
    with torch.no_grad():
        for old, new in zip(kept.parameters(), now.parameters(), strict=True):
            old[places] = new[places]
