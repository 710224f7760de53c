"""Perceptrons and bilinear maps of every layer and problem, trained side by side."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from bertology.errors import FitError
from bertology.readouts._fitting import (
    IMPOSSIBLE,
    EarlyStopping,
    FittedScores,
    LabelReadout,
    Standardised,
    TrainingData,
    accuracies,
    surprisals,
)
from bertology.readouts._moments import Items, Moments, measure_moments, shuffled_batches
from bertology.readouts._sources import resident


class Perceptrons(Standardised):
    """One perceptron a problem and layer: standardised features, a hidden layer of ReLUs, class scores.

    If ``is_linear``, the hidden layer hands on what it gets, without biases of its own: a product of two matrices.
    """

    def __init__(self, moments: Moments, items: Items, hidden: int, seed: int, *, is_linear: bool = False) -> None:
        n_classes = items.frequency.shape[1]
        super().__init__(moments, n_classes)
        self.is_linear = is_linear
        n_problems, n_layers, dim = moments.mean.shape
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
        self.absent: Tensor
        self.register_buffer("absent", torch.where(items.frequency > 0, 0.0, IMPOSSIBLE)[:, None])

    def forward(self, vectors: Tensor) -> Tensor:
        """``[problem, layer, m, class]`` scores of ``[layer, m, dim]`` vectors."""
        scores = []
        for problem in range(len(self.first)):
            standard = self.standard(vectors, problem)
            if self.is_linear:
                hidden = torch.bmm(standard, self.first[problem].mT)
            else:
                hidden = torch.baddbmm(self.first_bias[problem][:, None], standard, self.first[problem].mT).relu_()
            scores.append(torch.baddbmm(self.second_bias[problem][:, None], hidden, self.second[problem].mT))
        return torch.stack(scores) + self.absent[:, None]

    @property
    def n_params(self) -> int:
        return sum(int(np.prod(parameter.shape[2:])) for parameter in self.parameters())


@dataclass(frozen=True)
class PerceptronReadout(LabelReadout[FittedScores[Perceptrons]]):
    """What perceptrons and bilinear maps share: Adam (Kingma & Ba 2015) until dev accuracy stops rising.

    All layers and problems see the same batches and are trained in the same matrix products, yet none depends on
    another: each has its own parameters and stops at its own best epoch, whose parameters are kept. In the report
    ``iterations`` counts epochs, and ``converged`` says that dev accuracy had stopped rising. The seed is that of the
    initial weights (each problem its own) and of the order of the items.
    """

    learning_rate: float = field(default=1e-3, kw_only=True)
    batch_items: int = field(default=256, kw_only=True)
    max_epochs: int = field(default=50, kw_only=True)
    patience: int = field(default=3, kw_only=True)
    """Epochs without a better dev accuracy after which a fit ends."""

    @abstractmethod
    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
        """The perceptrons before the first step; FitError where a setting of their shape is out of bounds."""

    def fit_to(self, data: TrainingData) -> FittedScores[Perceptrons]:
        if min(self.batch_items, self.max_epochs, self.patience) < 1 or self.learning_rate <= 0:
            raise FitError(f"settings {asdict(self)}: give numbers above 0")
        items = data.items
        train, dev = (resident(source, data.device) for source in (data.train, data.dev))
        perceptrons = self.start(measure_moments(train, items.weights), items, data.seed)
        stopping, best = EarlyStopping(data.shape, self.patience), copy.deepcopy(perceptrons).requires_grad_(False)
        optimiser = torch.optim.Adam(perceptrons.parameters(), lr=self.learning_rate)
        random = torch.Generator().manual_seed(data.seed)
        # Cross-entropy per item of the batch, summed over problems and layers, which share no parameter.
        mean_weight = (items.total / items.weights.shape[1]).float()[:, None, None]
        for epoch in range(1, self.max_epochs + 1):
            for numbers, vectors in shuffled_batches(train, items, self.batch_items, random):
                optimiser.zero_grad()
                losses = surprisals(perceptrons(vectors), items, numbers) / mean_weight
                (losses.sum() / len(numbers)).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            accuracy = accuracies(perceptrons.scores(dev), (*data.shape, 1), data.dev_targets)[:, :, 0]
            better = torch.from_numpy(stopping.judge(epoch, accuracy)).to(best.mean.device)
            with torch.no_grad():
                for kept, now in zip(best.parameters(), perceptrons.parameters(), strict=True):
                    kept[better] = now[better]
            data.progress(f"perceptrons: epoch {epoch}, {stopping.n_ended} of {better.numel()} have ended")
            if stopping.n_ended == better.numel():
                break
        return FittedScores(self.name, best, stopping.report())


@dataclass(frozen=True)
class MlpReadout(PerceptronReadout):
    """A perceptron with one hidden layer of ReLUs (Hewitt & Liang 2019)."""

    hidden: int = 256
    """Width of the hidden layer."""

    @property
    def name(self) -> str:
        return "mlp.v1"

    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
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
        return "lowrank.v1"

    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
        dim = moments.mean.shape[2]
        if not 1 <= self.rank <= dim:
            raise FitError(f"rank {self.rank}: vectors have a width of {dim}, so give 1 to {dim}")
        return Perceptrons(moments, items, self.rank, seed, is_linear=True)
