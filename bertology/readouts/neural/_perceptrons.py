"""Perceptrons and bilinear maps of every layer and problem, trained side by side."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology.errors import FitError
from bertology.readouts._base import FitReport, Progress, Readout, Targets, check_problems, check_single_label
from bertology.readouts._features import FeatureSource, resident
from bertology.readouts._moments import Items, Moments, measure_moments, shuffled_batches
from bertology.readouts._selection import IMPOSSIBLE, EarlyStopping, FittedScores, Scores, accuracies


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
                class_scores = self(vectors.to(self.mean.device)).unsqueeze(2)  # [problem, layer, 1, m, class]
                for layer in range(source.n_layers):
                    yield items, layer, class_scores[:, layer].mT

    @property
    def n_params(self) -> int:
        """Weights and biases of one perceptron."""
        return sum(int(np.prod(parameter.shape[2:])) for parameter in self.parameters())


@dataclass(frozen=True)
class FittedMlp(FittedScores):
    """Perceptrons as they were after the epoch with the best dev accuracy.

    In the report ``iterations`` counts epochs, and ``converged`` says that dev accuracy had stopped rising.
    """

    name: str
    perceptrons: Perceptrons
    report: FitReport
    are_logits: bool = True

    @property
    def n_params(self) -> int:
        """Weights and biases of one layer's readout for one problem."""
        return self.perceptrons.n_params

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Numbers of problems, layers and classes, and the width of the vectors."""
        n_problems, n_layers, dim = self.perceptrons.mean.shape
        return n_problems, n_layers, self.perceptrons.second.shape[2], dim

    def scores(self, source: FeatureSource) -> Scores:
        """Scores of every item of ``source`` in every layer, chunk by chunk."""
        return self.perceptrons.scores(source)


@dataclass(frozen=True)
class PerceptronReadout(Readout):
    """What perceptrons and bilinear maps share: Adam (Kingma & Ba 2015) until dev accuracy stops rising.

    All layers and problems see the same batches and are trained in the same matrix products, yet none depends on
    another: each has its own parameters and stops at its own best epoch.
    """

    learning_rate: float = field(default=1e-3, kw_only=True)
    batch_items: int = field(default=256, kw_only=True)
    max_epochs: int = field(default=50, kw_only=True)
    patience: int = field(default=3, kw_only=True)
    """Epochs without a better dev accuracy after which a fit ends."""

    @abstractmethod
    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
        """The perceptrons before the first step.

        Raises:
            FitError: a setting of their shape is out of bounds.
        """

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

        Arguments that are not named here are as in :meth:`Readout.fit`.

        Args:
            dev: vectors of other items, to see when to stop.
            seed: of the initial weights (each problem its own) and of the order of the items.

        Raises:
            FitError: as :meth:`Readout.fit`; or a setting is out of bounds.
        """
        check_single_label(targets, self.name)
        check_problems(train, targets, dev, dev_targets)
        if min(self.batch_items, self.max_epochs, self.patience) < 1 or self.learning_rate <= 0:
            raise FitError(f"settings {asdict(self)}: give numbers above 0")
        items = Items.of(targets, torch.device(device))
        train, dev = (resident(source, items.labels.device) for source in (train, dev))
        perceptrons = self.start(measure_moments(train, items.weights), items, seed)
        shape = (len(items.weights), train.n_layers)
        stopping, best = EarlyStopping(shape, self.patience), copy.deepcopy(perceptrons).requires_grad_(False)
        optimiser = torch.optim.Adam(perceptrons.parameters(), lr=self.learning_rate)
        random = torch.Generator().manual_seed(seed)
        for epoch in range(1, self.max_epochs + 1):
            for numbers, vectors in shuffled_batches(train, items, self.batch_items, random):
                optimiser.zero_grad()
                _loss(perceptrons(vectors), items, numbers).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            accuracy = accuracies(perceptrons.scores(dev), (*shape, 1), dev_targets)[:, :, 0]
            _keep(best, perceptrons, stopping.judge(epoch, accuracy))
            n_ended = int((~stopping.running).sum())
            if progress is not None:
                progress(f"perceptrons: epoch {epoch}, {n_ended} of {stopping.running.size} have ended")
            if n_ended == stopping.running.size:
                break
        return FittedMlp(self.name, best, stopping.report())


@dataclass(frozen=True)
class MlpReadout(PerceptronReadout):
    """A perceptron with one hidden layer of ReLUs (Hewitt & Liang 2019)."""

    hidden: int = 256
    """Width of the hidden layer."""

    @property
    def name(self) -> str:
        """``mlp.v1``."""
        return "mlp.v1"

    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
        """Perceptrons of that width."""
        if self.hidden < 1:
            raise FitError(f"hidden is {self.hidden}: give the width of the hidden layer, 1 or more")
        return Perceptrons(moments, items, self.hidden, seed)


@dataclass(frozen=True)
class LowRankReadout(PerceptronReadout):
    """A softmax over a product of two matrices, L R x + b, where R has ``rank`` rows (Hewitt & Liang 2019).

    The rank bounds what the readout can memorise, which is what capacity sweeps vary. There is no other
    regularisation; with a rank of at least the number of classes it can represent whatever ``linear.v1`` can.
    """

    rank: int = 8
    """Directions of the vectors that the readout may look at."""

    @property
    def name(self) -> str:
        """``lowrank.v1``."""
        return "lowrank.v1"

    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
        """Products of two matrices of that rank."""
        dim = moments.mean.shape[2]
        if not 1 <= self.rank <= dim:
            raise FitError(f"rank {self.rank}: vectors have a width of {dim}, so give 1 to {dim}")
        return Perceptrons(moments, items, self.rank, seed, is_linear=True)


def _loss(scores: Tensor, items: Items, numbers: Tensor) -> Tensor:
    """Cross-entropy per item of the batch, summed over problems and layers, which share no parameter."""
    log_prob = scores.log_softmax(3)  # [problem, layer, m, class]
    labels = items.labels[:, None, numbers, None].expand(-1, scores.shape[1], -1, 1)
    weights = items.weights[:, None, numbers]
    mean_weight = (items.total / items.weights.shape[1]).float()[:, None, None]
    loss: Tensor = -(log_prob.gather(3, labels).squeeze(3) * weights / mean_weight).sum() / len(numbers)
    return loss


def _keep(kept: Perceptrons, now: Perceptrons, better: NDArray[np.bool_]) -> None:
    """Copy the perceptrons of the problems and layers that are ``better`` into ``kept``."""
    places = torch.from_numpy(better).to(kept.mean.device)
    with torch.no_grad():
        for old, new in zip(kept.parameters(), now.parameters(), strict=True):
            old[places] = new[places]
