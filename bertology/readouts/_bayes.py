"""``bayes.v1``: a readout that pays for what it knows, for every layer and problem, trained side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
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
from bertology.readouts._features import FeatureSource
from bertology.readouts._mlp import shuffled_batches
from bertology.readouts._moments import Moments, measure_moments
from bertology.readouts._objective import Items
from bertology.readouts._scoring import accuracies, check_asked, label_log_probs, predictions

_K1, _K2, _K3 = 0.63576, 1.87320, 1.48695
"""Molchanov et al. 2017, equation 14: the divergence of a Gaussian from the log-uniform prior, closely."""
_DRAWS = 4
"""Weights drawn for each item to find its expected cross-entropy; over many items, a few are enough."""
_STILL = 0.02
"""Part of the code by which a fit that has arrived may get shorter from the third quarter of its steps to the last."""
_SIZE = 0.1
_LOG_VARIANCE, _LOG_ALPHA = -3.0, -3.0
"""Posteriors begin near their priors, small and unsure but not so unsure that noise is all there is: from a sharp
posterior, the way to what costs nothing is long."""


Noises = Sequence[np.random.Generator]


class _Groups(nn.Module):
    """Linear maps with a Gaussian posterior over each weight and over each input's scale (Louizos et al. 2017).

    The scale of input i is N(s, α s²) under a log-uniform prior, each weight from it N(z μ, z² σ²) under the prior
    N(0, z²): an input that is of no use gets a scale of no certainty and no size, and then costs nothing.
    """

    def __init__(self, shape: tuple[int, int], n_in: int, n_out: int, seed: int, device: torch.device) -> None:
        super().__init__()
        n_problems, n_layers = shape
        first = []
        for problem in range(n_problems):
            random = torch.Generator().manual_seed(seed * 1_000_003 + problem)
            first.append(torch.randn(n_out, n_in, generator=random) * _SIZE)

        def full(value: float, *tail: int) -> nn.Parameter:
            return nn.Parameter(torch.full((*shape, *tail), value, device=device))

        # every layer begins alike: what differs between layers is what they hold
        self.mean = nn.Parameter(torch.stack(first)[:, None].repeat(1, n_layers, 1, 1).to(device))
        self.log_variance = full(_LOG_VARIANCE, n_out, n_in)
        self.bias = full(0.0, n_out)
        self.bias_log_variance = full(_LOG_VARIANCE, n_out)
        self.log_scale = full(-0.5 * np.log(n_in), n_in)
        self.log_alpha = full(_LOG_ALPHA, n_in)

    def noise(self, n_items: int, random: np.random.Generator) -> Tensor:
        """``[m, in + out]`` of the scales and outputs of some items, item by item: chunks of any size see the same."""
        width = self.mean.shape[3] + self.mean.shape[2]
        return torch.from_numpy(random.standard_normal((n_items, width), dtype=np.float32)).to(self.mean.device)

    def sampled(self, vectors: Tensor, problem: int, noise: Tensor) -> Tensor:
        """``[layer, m, out]`` of ``[layer, m, in]`` under weights drawn anew for each item.

        What is drawn is the outputs (Kingma et al. 2015), with the same noise in every layer and problem.
        """
        of_scales, of_outputs = noise[:, : self.mean.shape[3]], noise[:, self.mean.shape[3] :]
        spread = (self.log_alpha[problem] / 2).exp()[:, None]
        scaled = vectors * self.log_scale[problem].exp()[:, None] * (1 + spread * of_scales)
        mean = torch.baddbmm(self.bias[problem][:, None], scaled, self.mean[problem].mT)
        variance = torch.baddbmm(
            self.bias_log_variance[problem].exp()[:, None], scaled.square(), self.log_variance[problem].exp().mT
        )
        drawn: Tensor = mean + variance.sqrt() * of_outputs
        return drawn

    def expected(self, vectors: Tensor, problem: int) -> Tensor:
        """``[layer, m, out]`` under the mean of the posterior."""
        scaled = vectors * self.log_scale[problem].exp()[:, None]
        return torch.baddbmm(self.bias[problem][:, None], scaled, self.mean[problem].mT)

    def divergence(self) -> Tensor:
        """``[problem, layer]`` nats from the prior to the posterior."""

        def gaussian(mean: Tensor, log_variance: Tensor) -> Tensor:
            return 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).flatten(2).sum(2)

        scales = _K1 * (1 - (_K2 + _K3 * self.log_alpha).sigmoid()) + 0.5 * nn.functional.softplus(-self.log_alpha)
        weights = gaussian(self.mean, self.log_variance) + gaussian(self.bias, self.bias_log_variance)
        return weights + scales.sum(2)


class Compressors(nn.Module):
    """One readout a problem and layer: standardised features, hidden layers of ReLUs if any, class scores."""

    def __init__(self, moments: Moments, items: Items, hidden: int, seed: int) -> None:
        super().__init__()
        n_problems, n_layers, dim = moments.mean.shape
        widths = [dim, *([hidden] if hidden else []), items.frequency.shape[1]]
        device = moments.mean.device
        self.maps = nn.ModuleList(
            _Groups((n_problems, n_layers), n_in, n_out, seed + place, device)
            for place, (n_in, n_out) in enumerate(itertools.pairwise(widths))
        )
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", moments.mean.float())
        self.register_buffer("std", moments.std.float())

    def forward(self, vectors: Tensor, noises: Noises | None = None) -> Tensor:
        """``[problem, layer, m, class]`` scores of ``[layer, m, dim]`` vectors.

        Under weights that ``noises`` draw, one generator a map, or under their means.
        """
        drawn: list[Tensor | None] = [None] * len(self._maps)
        if noises is not None:
            drawn = [one.noise(vectors.shape[1], random) for one, random in zip(self._maps, noises, strict=True)]
        scores = []
        for problem in range(len(self.mean)):
            found = (vectors - self.mean[problem][:, None]) / self.std[problem][:, None]
            for place, (groups, noise) in enumerate(zip(self._maps, drawn, strict=True)):
                found = found.relu() if place else found
                found = groups.expected(found, problem) if noise is None else groups.sampled(found, problem, noise)
            scores.append(found)
        return torch.stack(scores)

    def noises(self, seed: int) -> Noises:
        """Where the noise of each map comes from."""
        return np.random.default_rng(seed).spawn(len(self._maps))

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self._maps[-1].bias.shape[2])

    @property
    def _maps(self) -> Sequence[_Groups]:
        return [groups for groups in self.maps if isinstance(groups, _Groups)]

    def divergence(self) -> Tensor:
        """``[problem, layer]`` nats from the prior to the posterior."""
        return torch.stack([groups.divergence() for groups in self._maps]).sum(0)

    def scores(self, source: FeatureSource, noises: Noises | None = None) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Item numbers ``[m]``, layer, and scores ``[problem, 1, class, m]``, chunk by chunk and layer by layer."""
        with torch.inference_mode():
            for items, vectors in source.chunks():
                found = self(vectors.to(self.mean.device), noises).unsqueeze(2)  # [problem, layer, 1, m, class]
                for layer in range(source.n_layers):
                    yield items, layer, found[:, layer].mT


@dataclass(frozen=True)
class FittedBayes(FittedReadout):
    """Readouts with their posteriors. Predictions are those of the posteriors' means."""

    compressors: Compressors
    fit_report: FitReport
    sampling_seed: int

    @property
    def name(self) -> str:
        """``bayes.v1``."""
        return "bayes.v1"

    @property
    def report(self) -> FitReport:
        """How the fit went: ``iterations`` counts steps, ``converged`` says that the code had stopped getting shorter,
        ``gradient_norm`` by what part it still did."""
        return self.fit_report

    @property
    def n_params(self) -> int:
        """Weights, biases and scales of one layer's readout for one problem, without how sure they are."""
        return sum(
            int(np.prod(parameter.shape[2:]))
            for name, parameter in self.compressors.named_parameters()
            if name.rpartition(".")[2] in ("mean", "bias", "log_scale")
        )

    @property
    def model_bits(self) -> NDArray[np.float64]:
        """``[problem, layer]`` what the posterior costs: its divergence from the prior, in bits."""
        with torch.no_grad():
            return np.asarray(self.compressors.divergence().double().cpu().numpy() / np.log(2))

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        """Nothing beyond the report."""
        return {}

    def predict(self, source: FeatureSource) -> Predictions:
        """Predict every item of ``source`` in every layer, chunk by chunk."""
        shape = self._shape(source)
        return predictions(self.compressors.scores(source), shape, are_logits=True)

    def log_probs(self, source: FeatureSource, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """``[problem, layer, item]`` log-probability of a class of each item, which is never quite 0."""
        shape = self._shape(source)
        check_asked(source, labels, n_problems=shape[0], n_classes=self.compressors.n_classes)
        return label_log_probs(self.compressors.scores(source), shape, labels)

    def sampled_log_probs(self, source: FeatureSource, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same under weights drawn from the posterior anew for each item: its mean is the expected one."""
        shape = self._shape(source)
        check_asked(source, labels, n_problems=shape[0], n_classes=self.compressors.n_classes)
        noises = self.compressors.noises(self.sampling_seed)
        draws = (label_log_probs(self.compressors.scores(source, noises), shape, labels) for _ in range(_DRAWS))
        return np.asarray(sum(draws) / _DRAWS)

    def _shape(self, source: FeatureSource) -> tuple[int, int, int]:
        n_problems, n_layers, dim = self.compressors.mean.shape
        check_same_shape(source, n_layers, dim)
        return n_problems, n_layers, source.n_items


@dataclass(frozen=True)
class BayesReadout(Readout):
    """A readout under Bayesian compression (Louizos et al. 2017, section 4.1), for variational codelength.

    It minimises the length of the message that tells its posterior and, given that, the training labels: the
    divergence from the prior plus the expected cross-entropy (Honkela & Valpola 2004; Voita & Titov 2020, section
    3.2.1). That is all the regularisation it has: nothing is chosen on dev.

    All layers and problems see the same batches and the same noise, yet none knows of another.
    """

    hidden: int = 0
    """Width of the hidden layer; 0 for none, a linear readout."""
    learning_rate: float = 3e-2
    """Of Adam (Kingma & Ba 2015), falling to 0 along a half cosine."""
    batch_items: int = 256
    steps: int = 2000
    """Batches seen; more make the code a little shorter, and it is a valid code after any number."""

    @property
    def name(self) -> str:
        """``bayes.v1``."""
        return "bayes.v1"

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
    ) -> FittedBayes:
        """Fit every problem in every layer for the same number of steps.

        Args:
            train: vectors to fit on.
            targets: what to predict from them.
            dev: vectors of other items, on which accuracy is reported.
            dev_targets: the same problems over ``dev``.
            seed: of initial weights (each problem its own), the order of the items, and the noise.
            device: where to compute, as torch names it.
            progress: told how far the fit has come.

        Raises:
            FitError: as :meth:`Readout.fit`; or a setting is out of bounds.
        """
        check_single_label(targets, self.name)
        check_problems(train, targets, dev, dev_targets)
        if self.hidden < 0 or min(self.steps, self.batch_items) < 1 or self.learning_rate <= 0:
            raise FitError(f"settings {asdict(self)}: give hidden of 0 or more, the others above 0")
        items = Items.of(targets, torch.device(device))
        compressors = Compressors(measure_moments(train, items.weights), items, self.hidden, seed)
        optimiser = torch.optim.Adam(compressors.parameters(), lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)
        random, noises = torch.Generator().manual_seed(seed), compressors.noises(seed)
        lengths = []
        for step, (numbers, vectors) in enumerate(self._batches(train, items, random), start=1):
            optimiser.zero_grad()
            length = _length(compressors, vectors, items, numbers, noises)
            length.sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            lengths.append(length.detach())
            if progress is not None and step % 100 == 0:
                progress(f"compressed readouts: step {step} of {self.steps}")
        accuracy = accuracies(compressors.scores(dev), (targets.n_problems, train.n_layers, 1), dev_targets)
        compressors.requires_grad_(False)
        return FittedBayes(compressors, self._report(torch.stack(lengths), accuracy), seed)

    def _batches(self, train: FeatureSource, items: Items, random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """As many batches as there are steps, all items once an epoch."""

        def endless() -> Iterator[tuple[Tensor, Tensor]]:
            while True:
                yield from shuffled_batches(train, items, self.batch_items, random)

        return itertools.islice(endless(), self.steps)

    def _report(self, lengths: Tensor, accuracy: NDArray[np.float64]) -> FitReport:
        """How the training went, by what each step took the code to be: ``[step, problem, layer]``."""
        last = self.steps // 4
        before, after = lengths[-2 * last : -last], lengths[-last:]
        gain = (before.mean(0) / after.mean(0) - 1) if last else torch.full_like(lengths[0], torch.inf)
        by_fit = gain.double().cpu().numpy()[:, :, None]
        return FitReport(
            strengths=(0.0,),
            chosen=np.zeros(by_fit.shape[:2]),
            dev_accuracy=accuracy,
            iterations=np.full(by_fit.shape, self.steps, dtype=np.int64),
            converged=by_fit <= _STILL,
            gradient_norm=by_fit,
        )


def _length(compressors: Compressors, vectors: Tensor, items: Items, numbers: Tensor, noises: Noises) -> Tensor:
    """``[problem, layer]`` nats an item that the whole message takes, judged by one batch and one draw of weights."""
    log_prob = compressors(vectors, noises).log_softmax(3)  # [problem, layer, m, class]
    labels = items.labels[:, None, numbers, None].expand(-1, log_prob.shape[1], -1, 1)
    by_item = -log_prob.gather(3, labels).squeeze(3) * items.weights[:, None, numbers]
    total = items.total.float()[:, None]
    n_used = int(items.used.sum())
    length: Tensor = by_item.sum(2) * (n_used / len(numbers)) / total + compressors.divergence() / total
    return length
