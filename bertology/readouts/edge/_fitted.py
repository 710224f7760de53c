"""Fitted edge probes: their scores, predictions and dev scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._workers import Workers
from bertology.errors import FitError
from bertology.measures import center_of_gravity, kl_from_uniform
from bertology.readouts._base import FitReport, FittedReadout, Predictions, Targets, check_same_shape, item_weights
from bertology.readouts._features import FeatureSource, Floats, Integers
from bertology.readouts._selection import IMPOSSIBLE
from bertology.readouts._spans import PlainPooling, PooledParts, PooledSpans, SpanSource, as_spans
from bertology.readouts.edge._model import MIX_PACE, Design, Group, Parameters, SpanBatch, scoring_windows
from bertology.readouts.edge._training import log_probs

Scored = Iterator[tuple[Tensor, Tensor]]
"""Item numbers ``[m]`` and scores ``[fit, m, class]``, on the processor, classes that cannot be left out."""


@dataclass(frozen=True)
class Scorer:
    """Probes as they are now, in groups that are computed side by side."""

    parts: Sequence[tuple[Group, Parameters]]
    absent: Tensor | None
    """``[problem, 1, class]`` added to scores."""
    workers: Workers
    device: torch.device

    @property
    def problems(self) -> list[int]:
        """``[fit]`` the problem of each."""
        return [problem for group, _ in self.parts for problem in group.problems]

    def __call__(self, source: SpanSource) -> Scored:
        """Score every item of a source."""
        which = torch.tensor(self.problems)
        absent = None if self.absent is None else self.absent.cpu()[which]
        for window in scoring_windows(source, self.device):
            for batch in window.batches:
                scores = torch.cat(self.workers.map(self._job(window.words, batch), len(self.parts))).cpu()
                yield batch.items.cpu(), scores if absent is None else scores + absent

    def _job(self, words: Tensor, batch: SpanBatch) -> Callable[[int], Tensor]:
        def job(number: int) -> Tensor:
            group, parameters = self.parts[number]
            with torch.inference_mode():
                return group.scores(parameters, words, batch)

        return job


def dev_scores(scored: Scored, problems: Sequence[int], targets: Targets, *, is_sigmoid: bool) -> tuple[Floats, Floats]:
    """``[fit]`` weighted accuracy, or micro F1 (Tenney et al. 2019a, section 3) where items have several labels; and
    ``[fit]`` the loss per item in nats.

    Args:
        scored: every item.
        problems: ``[fit]`` the problem of each.
        targets: the right classes.
        is_sigmoid: whether each class is judged on its own.
    """
    which = torch.tensor(problems)
    labels, weights = torch.from_numpy(targets.labels), torch.from_numpy(item_weights(targets)).double()
    right, n_predicted, n_gold, loss = torch.zeros(4, len(which), dtype=torch.float64)
    for items, scores in scored:
        truth, weight = labels[:, items][which], weights[:, items][which]
        classes = truth if targets.is_multi_label else truth.clamp(min=0)
        loss -= (log_probs(scores, classes, is_sigmoid=is_sigmoid) * weight).sum(1)
        if targets.is_multi_label:
            positive = scores > 0
            right += ((positive & truth).sum(2) * weight).sum(1)
            n_predicted += (positive.sum(2) * weight).sum(1)
            n_gold += (truth.sum(2) * weight).sum(1)
        else:
            right += ((scores.argmax(2) == truth) * weight).sum(1)
            n_predicted += weight.sum(1)
            n_gold += weight.sum(1)
    return (2 * right / (n_predicted + n_gold)).numpy(), (loss / weights[which].sum(1)).numpy()


def predicted(
    scored: Scored, shape: tuple[int, int, int], *, n_classes: int, is_sigmoid: bool, is_multi: bool
) -> Predictions:
    """Predictions of each fit for every item.

    Args:
        scored: every item.
        shape: numbers of problems, columns and items.
        n_classes: how many classes there are.
        is_sigmoid: whether each class is judged on its own.
        is_multi: whether items may have several labels.
    """
    n_fits, n_items = shape[0] * shape[1], shape[2]
    labels = np.empty((n_fits, n_items, n_classes), bool) if is_multi else np.empty((n_fits, n_items), np.int64)
    log_prob = np.empty((n_fits, n_items), dtype=np.float32)
    for items, scores in scored:
        best = scores > 0 if is_multi else scores.argmax(2)
        labels[:, items.numpy()] = best.numpy()
        log_prob[:, items.numpy()] = log_probs(scores, best, is_sigmoid=is_sigmoid).numpy()
    return Predictions(labels.reshape(*shape, *labels.shape[2:]), log_prob.reshape(shape))


def given(
    scored: Scored, shape: tuple[int, int, int], labels: Integers | NDArray[np.bool_], *, is_sigmoid: bool
) -> Floats:
    """``[problem, column, item]`` natural logarithm of the probability of given ``labels``.

    NaN for −1; −∞ where a class was asked for that the training data do not have.
    """
    which = torch.arange(shape[0]).repeat_interleave(shape[1])
    truth = torch.from_numpy(labels)
    values = np.empty((len(which), shape[2]))
    for items, scores in scored:
        classes = truth[:, items][which]
        known = log_probs(
            scores, classes.clamp(min=0) if classes.ndim == 2 else classes, is_sigmoid=is_sigmoid
        ).double()
        known = known.masked_fill(known < IMPOSSIBLE / 2, -torch.inf)
        if classes.ndim == 2:
            known = known.masked_fill(classes < 0, torch.nan)
        values[:, items.numpy()] = known.numpy()
    return values.reshape(shape)


@dataclass(frozen=True)
class FittedEdge(FittedReadout):
    """Edge probes as they were after the epoch with the best dev score.

    In the report ``iterations`` counts epochs, and ``converged`` says that the dev score had stopped rising.
    """

    name: str
    design: Design
    parameters: Mapping[str, Tensor]
    """By name, ``[problem, column, …]``."""
    layers: tuple[int, ...]
    """``[layer]`` numbers of the layers they were fitted on."""
    n_spans: int
    absent: Tensor | None
    """``[problem, 1, class]`` added to scores, so that no class without training items is predicted."""
    is_sigmoid: bool
    """Whether each class is judged on its own."""
    is_multi_label: bool
    report: FitReport

    @property
    def n_params(self) -> int:
        """Weights and biases of one column's probe for one problem."""
        return sum(int(np.prod(shape)) for shape in self.design.shapes().values())

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the layers that each column reads."""
        return tuple(tuple(self.layers[place] for place in column) for column in self.design.columns)

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        """Which layers the column reads; of a mix its weights, their centre and how far they are from equal."""
        layers = self.columns[layer]
        facts: dict[str, Any] = {"layers": list(layers)}
        if self.design.reads == "mix":
            parameters = {name: value[problem, layer : layer + 1] for name, value in self.parameters.items()}
            weights_of_all = self.design.weights(parameters, torch.tensor([layer]))[0].double().cpu()
            weights = weights_of_all[list(self.design.columns[layer])].numpy()
            facts |= {
                "mix_weights": [round(float(weight), 6) for weight in weights],
                "mix_pace": MIX_PACE,
                "mix_gamma": round(float(parameters["gamma"]), 6),
                "center_of_gravity": round(float(center_of_gravity(weights, layers=layers)), 6),
                "kl_from_uniform_bits": round(float(kl_from_uniform(weights)), 6),
            }
        return facts

    def predict(self, source: FeatureSource | SpanSource) -> Predictions:
        """Predict every item of ``source`` in every column, chunk by chunk.

        Raises:
            FitError: the source has other layers, another width or other spans than the readout was fitted on.
        """
        with Workers(self._device) as workers:
            return predicted(
                self._scorer(workers)(self._spans(source)),
                self._shape(source),
                n_classes=self.design.n_classes,
                is_sigmoid=self.is_sigmoid,
                is_multi=self.is_multi_label,
            )

    def log_probs(self, source: FeatureSource | SpanSource, labels: Integers | NDArray[np.bool_]) -> Floats:
        """What the readout gives to the labels of each item.

        Args:
            source: the items.
            labels: ``[problem, item]`` the class of each item, −1 where none is asked about; or
                ``[problem, item, class]`` bool, the whole set of its classes.

        Returns:
            ``[problem, column, item]`` natural logarithm of the probability of that class, or of exactly those
            classes; NaN where none is asked about; −∞ for a class that the training data do not have.

        Raises:
            FitError: the source or the labels have another shape than the readout, or a class is not one of its.
        """
        classes: NDArray[Any] = np.asarray(labels)
        n_problems, n_classes = len(self.parameters["out"]), self.design.n_classes
        shape = (n_problems, source.n_items, *[n_classes] * self.is_multi_label)
        if classes.shape != shape or (classes.dtype == np.bool_) != self.is_multi_label:
            kind = "bool" if self.is_multi_label else "integers"
            raise FitError(f"labels have shape {list(classes.shape)} of {classes.dtype}: give {kind} {list(shape)}")
        if classes.size and not self.is_multi_label and not -1 <= classes.min() <= classes.max() < n_classes:
            raise FitError(f"labels run from {classes.min()} to {classes.max()}: give -1 to {n_classes - 1}")
        with Workers(self._device) as workers:
            scored = self._scorer(workers)(self._spans(source))
            return given(scored, self._shape(source), classes, is_sigmoid=self.is_sigmoid)

    @property
    def _device(self) -> torch.device:
        return self.parameters["out"].device

    def _shape(self, source: FeatureSource | SpanSource) -> tuple[int, int, int]:
        return (*self.parameters["out"].shape[:2], source.n_items)

    def _spans(self, source: FeatureSource | SpanSource) -> SpanSource:
        check_same_shape(source, len(self.layers), self.design.dim)
        spans = as_spans(source)
        if spans.n_spans != self.n_spans:
            raise FitError(f"the readout was fitted on {self.n_spans} spans an item: it cannot read {spans.n_spans}")
        return with_parts(spans, self.design.pooling)

    def _scorer(self, workers: Workers) -> Scorer:
        flat = {name: value.flatten(0, 1) for name, value in self.parameters.items()}
        n_fits = len(flat["out"])
        parts = []
        for fits in np.array_split(np.arange(n_fits), min(workers.n, n_fits)):
            first, last = int(fits[0]), int(fits[-1]) + 1
            parameters = {name: value[first:last] for name, value in flat.items()}
            parts.append((Group.of(self.design, range(first, last)), parameters))
        return Scorer(parts, self.absent, workers, self._device)


@dataclass(frozen=True)
class FittedPooled(FittedReadout):
    """A readout of single vectors, fitted to pooled spans."""

    name: str
    report: FitReport
    pooling: PlainPooling
    regressions: FittedReadout
    """What was fitted to the pooled vectors."""
    layers: tuple[int, ...]

    @property
    def n_params(self) -> int:
        """Coefficients and intercepts of one layer's readout for one problem."""
        return self.regressions.n_params

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the layers that each column reads: one each."""
        return tuple((layer,) for layer in self.layers)

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        """Which layer the column reads."""
        return {"layers": [self.layers[layer]]}

    def log_probs(self, source: FeatureSource | SpanSource, labels: Integers) -> Floats:
        """``[problem, layer, item]`` natural logarithm of the probability of each given class."""
        return self.regressions.log_probs(PooledSpans(as_spans(source), pooling=self.pooling), labels)

    def predict(self, source: FeatureSource | SpanSource) -> Predictions:
        """Predict every item of ``source`` in every layer, chunk by chunk.

        Raises:
            FitError: the source has other layers or another width than the readout was fitted on.
        """
        return self.regressions.predict(PooledSpans(as_spans(source), pooling=self.pooling))


def with_parts(source: SpanSource, pooling: str) -> SpanSource:
    """``source`` with its spans pooled, unless pooling is learned."""
    if pooling == "attention":
        return source
    return PooledParts(source, pooling=pooling)  # type: ignore[arg-type]  # all other poolings are plain ones
