"""Perceptrons, products of two matrices, and readouts under Bayesian compression, all trained side by side."""

import copy
import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology._products import product
from bertology._settings import Count, Natural, Positive
from bertology.errors import FitError
from bertology.readouts._base import FitReport, Floats, Integers, Readout, TrainingData
from bertology.readouts._fitting import IMPOSSIBLE, EarlyStopping, FitLoop, FittedScores, accuracies, drawn_alike
from bertology.readouts._sources import FeatureSource, Items, Moments, resident, shuffled_batches, survey

Noises = Sequence[np.random.Generator]


class Standardised(nn.Module):
    """Class scores of standardised features, for every problem and layer."""

    mean: Tensor
    std: Tensor

    def __init__(self, moments: Moments, n_classes: int) -> None:
        super().__init__()
        n_problems, n_layers, dim = moments.mean.shape
        self.shape = n_problems, n_layers, n_classes, dim
        self.register_buffer("mean", moments.mean.float())
        self.register_buffer("std", moments.std.float())

    def standard(self, vectors: Tensor, problem: int) -> Tensor:
        """``[layer, m, dim]`` vectors, standardised for a problem."""
        return (vectors - self.mean[problem][:, None]) / self.std[problem][:, None]

    def scores(self, source: FeatureSource, *options: Any) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Item numbers ``[m]``, layer, and scores ``[problem, 1, class, m]``, chunk by chunk and layer by layer."""
        with torch.inference_mode():
            for items, vectors in source.chunks():
                class_scores = self(vectors.to(self.mean.device), *options).unsqueeze(2)
                for layer in range(source.n_layers):
                    yield items, layer, class_scores[:, layer].mT


def surprisals(scores: Tensor, items: Items, numbers: Tensor) -> Tensor:
    """``[problem, layer, m]`` weighted −ln p of the labels of a batch, from ``[problem, layer, m, class]`` scores."""
    labels = items.labels[:, None, numbers, None].expand(-1, scores.shape[1], -1, 1)
    return -scores.log_softmax(3).gather(3, labels).squeeze(3) * items.weights[:, None, numbers]


class Perceptrons(Standardised):
    """One perceptron a problem and layer; if ``is_linear``, the hidden layer is no more than a matrix."""

    def __init__(self, moments: Moments, items: Items, hidden: int, seed: int, *, is_linear: bool) -> None:
        super().__init__(moments, n_classes := items.frequency.shape[1])
        self.is_linear = is_linear
        n_problems, n_layers, dim = moments.mean.shape

        def draw(random: torch.Generator) -> dict[str, Tensor]:
            first = torch.randn(hidden, dim, generator=random) * (2 / dim) ** 0.5  # He et al. 2015
            return {"first": first, "second": torch.randn(n_classes, hidden, generator=random) * (1 / hidden) ** 0.5}

        start = drawn_alike(n_problems, n_layers, seed, draw)
        start["first_bias"] = torch.zeros(n_problems, n_layers, 0 if is_linear else hidden)
        start["second_bias"] = torch.zeros(n_problems, n_layers, n_classes)
        weights = (nn.Parameter(value.to(moments.mean.device)) for value in start.values())
        self.first, self.second, self.first_bias, self.second_bias = weights
        self.absent: Tensor
        self.register_buffer("absent", torch.where(items.frequency > 0, 0.0, IMPOSSIBLE)[:, None])

    def forward(self, vectors: Tensor) -> Tensor:
        """``[problem, layer, m, class]`` scores of ``[layer, m, dim]`` vectors."""
        scores = []
        for problem in range(len(self.first)):
            standard = self.standard(vectors, problem)
            if self.is_linear:
                hidden = product(standard, self.first[problem])
            else:
                hidden = (product(standard, self.first[problem]) + self.first_bias[problem][:, None]).relu_()
            scores.append(product(hidden, self.second[problem]) + self.second_bias[problem][:, None])
        return torch.stack(scores) + self.absent[:, None]

    @property
    def n_params(self) -> int:
        return sum(int(np.prod(parameter.shape[2:])) for parameter in self.parameters())

    def maps_of(self, problem: int, layer: int) -> list[tuple[Tensor, Tensor]]:
        """Weights ``[out, in]`` and biases ``[out]`` of the maps of standardised features, in float64."""
        first, second, first_bias, bias = (part.detach()[problem, layer].double() for part in self.parameters())
        bias = bias + self.absent[problem, 0].double()
        return [(second @ first, bias)] if self.is_linear else [(first, first_bias), (second, bias)]


@dataclass(frozen=True)
class PerceptronReadout(Readout):
    """A perceptron or bilinear map, trained by Adam (Kingma & Ba 2015) until dev accuracy stops rising.

    All layers and problems see the same batches, yet none depends on another: each has its own parameters and stops at
    its own best epoch, whose parameters are kept. In the report ``iterations`` counts epochs, and ``converged`` says
    that dev accuracy had stopped rising. The seed is that of the initial weights (each problem its own) and of the
    order of the items.
    """

    learning_rate: Positive = field(default=1e-3, kw_only=True)
    batch_items: Count = field(default=256, kw_only=True)
    max_epochs: Count = field(default=50, kw_only=True)
    patience: Count = field(default=3, kw_only=True)
    """Epochs without a better dev accuracy after which a fit ends."""

    @abstractmethod
    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
        """The perceptrons before the first step; FitError where they are too narrow for it."""

    def fit_to(self, data: TrainingData) -> FittedScores:
        loop = _PerceptronLoop(self, data)
        return FittedScores(self.name, loop.best, loop.run().report())


class _PerceptronLoop(FitLoop):
    what = "perceptrons: epoch"

    def __init__(self, readout: PerceptronReadout, data: TrainingData) -> None:
        super().__init__(EarlyStopping(data.shape, readout.patience), readout.max_epochs, data.say)
        self._data, self._items = data, Items.of(data.targets, data.device)
        self._batch_items, self._random = readout.batch_items, torch.Generator().manual_seed(data.seed)
        self._train, self._dev = (resident(source, data.device) for source in (data.train, data.dev))
        self._now = readout.start(survey(self._train, self._items.weights)[0], self._items, data.seed)
        self.best = copy.deepcopy(self._now).requires_grad_(False)
        self._optimiser = torch.optim.Adam(self._now.parameters(), lr=readout.learning_rate)
        self._mean_weight = (self._items.total / self._items.weights.shape[1]).float()[:, None, None]

    def learn(self) -> None:
        """Cross-entropy per item of each batch, summed over problems and layers, which share no parameter."""
        for numbers, vectors in shuffled_batches(self._train, self._items, self._batch_items, self._random):
            self._optimiser.zero_grad()
            losses = surprisals(self._now(vectors), self._items, numbers) / self._mean_weight
            (losses.sum() / len(numbers)).backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()

    def dev_scores(self) -> tuple[Floats, None]:
        shape = (*self._data.shape, 1)
        return accuracies(self._now.scores(self._dev), shape, self._data.dev_targets)[:, :, 0], None

    @torch.no_grad()
    def keep(self, better: NDArray[np.bool_]) -> None:
        chosen = torch.from_numpy(better).to(self.best.mean.device)
        for kept, now in zip(self.best.parameters(), self._now.parameters(), strict=True):
            kept[chosen] = now[chosen]


@dataclass(frozen=True)
class MlpReadout(PerceptronReadout):
    """A perceptron with one hidden layer of ReLUs (Hewitt & Liang 2019)."""

    name: ClassVar[str] = "mlp.v1"
    hidden: Count = 256
    """Width of the hidden layer."""

    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
        return Perceptrons(moments, items, self.hidden, seed, is_linear=False)


@dataclass(frozen=True)
class LowRankReadout(PerceptronReadout):
    """A softmax over a product of two matrices, L R x + b, where R has ``rank`` rows (Hewitt & Liang 2019).

    The rank bounds what the readout can memorise, which is what capacity sweeps vary. There is no other
    regularisation; with a rank of at least the number of classes it can represent whatever ``linear.v1`` can.
    """

    name: ClassVar[str] = "lowrank.v1"
    rank: Count = 8
    """Directions of the vectors that the readout may look at."""

    def start(self, moments: Moments, items: Items, seed: int) -> Perceptrons:
        dim = moments.mean.shape[2]
        if self.rank > dim:
            raise FitError(f"rank {self.rank}: vectors have a width of {dim}, so give 1 to {dim}")
        return Perceptrons(moments, items, self.rank, seed, is_linear=True)


_K1, _K2, _K3 = 0.63576, 1.87320, 1.48695
"""Molchanov et al. 2017, equation 14: the divergence of a Gaussian from the log-uniform prior, closely."""
_DRAWS = 4  # weights drawn for each item to find its expected cross-entropy; over many items, a few are enough
_STILL = 0.02
"""A fit has converged if its code gets shorter by at most this part from the third quarter of its steps to the last."""
_SIZE = 0.1
_LOG_VARIANCE, _LOG_ALPHA = -3.0, -3.0
"""Initial log-variances of posteriors: wide, but not so wide that outputs are mere noise. From narrow posteriors it
takes many steps to reach one that costs nothing."""


class _Groups(nn.Module):
    """Linear maps with a Gaussian posterior over each weight and over each input's scale (Louizos et al. 2017).

    The scale of input i is N(s, α s²) under a log-uniform prior, each weight from it N(z μ, z² σ²) under the prior
    N(0, z²): an input without information gets a scale near 0 with a wide posterior, which costs nothing.
    """

    def __init__(self, shape: tuple[int, int], n_in: int, n_out: int, seed: int, device: torch.device) -> None:
        super().__init__()
        start = drawn_alike(*shape, seed, lambda random: {"mean": torch.randn(n_out, n_in, generator=random) * _SIZE})

        def full(value: float, *tail: int) -> nn.Parameter:
            return nn.Parameter(torch.full((*shape, *tail), value, device=device))

        self.mean = nn.Parameter(start["mean"].to(device))
        self.log_variance, self.bias = full(_LOG_VARIANCE, n_out, n_in), full(0.0, n_out)
        self.bias_log_variance = full(_LOG_VARIANCE, n_out)
        self.log_scale, self.log_alpha = full(-0.5 * np.log(n_in), n_in), full(_LOG_ALPHA, n_in)

    def noise(self, n_items: int, random: np.random.Generator) -> Tensor:
        """``[m, in + out]`` noise of scales and outputs, drawn item by item, whatever the chunk size."""
        width = self.mean.shape[3] + self.mean.shape[2]
        return torch.from_numpy(random.standard_normal((n_items, width), dtype=np.float32)).to(self.mean.device)

    def sampled(self, vectors: Tensor, problem: int, noise: Tensor) -> Tensor:
        """``[layer, m, out]`` of ``[layer, m, in]`` under weights of each item's own (Kingma et al. 2015)."""
        of_scales, of_outputs = noise[:, : self.mean.shape[3]], noise[:, self.mean.shape[3] :]
        spread = (self.log_alpha[problem] / 2).exp()[:, None]
        scaled = vectors * self.log_scale[problem].exp()[:, None] * (1 + spread * of_scales)
        mean = product(scaled, self.mean[problem]) + self.bias[problem][:, None]
        bias_variance = self.bias_log_variance[problem].exp()[:, None]
        variance = product(scaled.square(), self.log_variance[problem].exp()) + bias_variance
        drawn: Tensor = mean + variance.sqrt() * of_outputs
        return drawn

    def expected(self, vectors: Tensor, problem: int) -> Tensor:
        """``[layer, m, out]`` under the mean of the posterior."""
        scaled = vectors * self.log_scale[problem].exp()[:, None]
        return product(scaled, self.mean[problem]) + self.bias[problem][:, None]

    def divergence(self) -> Tensor:
        """``[problem, layer]`` nats from the prior to the posterior."""

        def gaussian(mean: Tensor, log_variance: Tensor) -> Tensor:
            return 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).flatten(2).sum(2)

        scales = _K1 * (1 - (_K2 + _K3 * self.log_alpha).sigmoid()) + 0.5 * nn.functional.softplus(-self.log_alpha)
        weights = gaussian(self.mean, self.log_variance) + gaussian(self.bias, self.bias_log_variance)
        return weights + scales.sum(2)


class Compressors(Standardised):
    """One readout a problem and layer: standardised features, hidden layers of ReLUs if any, class scores."""

    def __init__(self, moments: Moments, items: Items, hidden: int, seed: int) -> None:
        super().__init__(moments, n_classes := items.frequency.shape[1])
        widths = [moments.mean.shape[2], *([hidden] if hidden else []), n_classes]
        self.maps: Any = nn.ModuleList(
            _Groups(self.shape[:2], *pair, seed + place, moments.mean.device)
            for place, pair in enumerate(itertools.pairwise(widths))
        )

    def forward(self, vectors: Tensor, noises: Noises | None = None) -> Tensor:
        """Scores as of :class:`Perceptrons`, under weights that ``noises`` draw, or under their means."""
        drawn = [None if noises is None else m.noise(vectors.shape[1], noises[at]) for at, m in enumerate(self.maps)]
        scores = []
        for problem in range(len(self.mean)):
            hidden = self.standard(vectors, problem)
            for place, (groups, noise) in enumerate(zip(self.maps, drawn, strict=True)):
                hidden = hidden.relu() if place else hidden
                hidden = groups.expected(hidden, problem) if noise is None else groups.sampled(hidden, problem, noise)
            scores.append(hidden)
        return torch.stack(scores)

    def noises(self, seed: int) -> Noises:
        return np.random.default_rng(seed).spawn(len(self.maps))

    @property
    def n_params(self) -> int:
        """Weights, biases and scales, without how sure they are."""
        return sum(int(np.prod(part.shape[2:])) for one in self.maps for part in (one.mean, one.bias, one.log_scale))

    def maps_of(self, problem: int, layer: int) -> list[tuple[Tensor, Tensor]]:
        """As of :class:`Perceptrons`, under the means of the posteriors."""
        rows = ([part.detach()[problem, layer].double() for part in (m.mean, m.log_scale, m.bias)] for m in self.maps)
        return [(mean * log_scale.exp(), bias) for mean, log_scale, bias in rows]

    def divergence(self) -> Tensor:
        return torch.stack([groups.divergence() for groups in self.maps]).sum(0)


@dataclass(frozen=True)
class FittedBayes(FittedScores):
    """Readouts with their posteriors. Predictions are those of the posteriors' means.

    In the report ``iterations`` counts steps, ``converged`` says that the code had stopped getting shorter, and
    ``gradient_norm`` is the part by which it still did.
    """

    sampling_seed: int = 0

    @property
    def model_bits(self) -> Floats:
        with torch.no_grad():
            return np.asarray(self.model.divergence().double().cpu().numpy() / np.log(2))

    def sampled_log_probs(self, source: FeatureSource, labels: Integers) -> Floats:
        """Log-probabilities under weights drawn from the posterior anew for each item, averaged over draws."""
        noises = self.model.noises(self.sampling_seed)
        return np.asarray(sum(self.log_probs(source, labels, noises) for _ in range(_DRAWS)) / _DRAWS)


@dataclass(frozen=True)
class BayesReadout(Readout):
    """A readout under Bayesian compression (Louizos et al. 2017, section 4.1), for variational codelength.

    It minimises the length of a message that holds its posterior and, given that, the training labels: the
    divergence from the prior plus the expected cross-entropy (Honkela & Valpola 2004; Voita & Titov 2020, section
    3.2.1). That is all the regularisation it has: nothing is chosen on dev.

    All layers and problems see the same batches and the same noise, and share no parameter. The seed is that of
    initial weights (each problem its own), the order of the items, and the noise.
    """

    name: ClassVar[str] = "bayes.v1"
    hidden: Natural = 0
    """Width of the hidden layer; 0 for none, a linear readout."""
    learning_rate: Positive = 3e-2
    """Learning rate of Adam (Kingma & Ba 2015), falling to 0 along a half cosine."""
    batch_items: Count = 256
    steps: Count = 2000
    """Batches seen; more make the code a little shorter, and it is a valid code after any number."""

    def fit_to(self, data: TrainingData) -> FittedBayes:
        items, seed = Items.of(data.targets, data.device), data.seed
        train = resident(data.train, data.device)
        compressors = Compressors(survey(train, items.weights)[0], items, self.hidden, seed)
        optimiser = torch.optim.Adam(compressors.parameters(), lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)
        random, noises = torch.Generator().manual_seed(seed), compressors.noises(seed)
        epochs = (shuffled_batches(train, items, self.batch_items, random) for _ in itertools.count())
        batches = itertools.islice(itertools.chain.from_iterable(epochs), self.steps)
        total, n_used = items.total.float()[:, None], int(items.used.sum())
        lengths = []
        for step, (numbers, vectors) in enumerate(batches, start=1):
            optimiser.zero_grad()
            # [problem, layer] nats an item that the whole message takes, by one batch and one draw of weights
            of_labels = surprisals(compressors(vectors, noises), items, numbers).sum(2)
            length = of_labels * (n_used / len(numbers)) / total + compressors.divergence() / total
            length.sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            lengths.append(length.detach())
            if step % 100 == 0:
                data.say(f"compressed readouts: step {step} of {self.steps}")
        accuracy = accuracies(compressors.scores(data.dev), (*data.shape, 1), data.dev_targets)[:, :, 0]
        compressors.requires_grad_(False)
        # the part by which codes got shorter in the last steps
        quarter = self.steps // 4
        before, after = (torch.stack(lengths[part]) for part in (slice(-2 * quarter, -quarter), slice(-quarter, None)))
        shorter = before.mean(0) / after.mean(0) - 1 if quarter else torch.full_like(lengths[0], torch.inf)
        gain = np.asarray(shorter.double().cpu().numpy())
        n_steps = np.full(gain.shape, self.steps, dtype=np.int64)
        report = FitReport.without_path(accuracy, n_steps, gain <= _STILL, gain)
        return FittedBayes(self.name, compressors, report, sampling_seed=seed)
