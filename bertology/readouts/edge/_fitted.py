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
from bertology.measures.comparisons import center_of_gravity, kl_from_uniform
from bertology.readouts._base import FitReport, FittedReadout, Predictions, Targets, check_same_shape, item_weights
from bertology.readouts._fitting import IMPOSSIBLE
from bertology.readouts._sources import (
    AnySource,
    Floats,
    Integers,
    PlainPooling,
    SpanSource,
    as_spans,
    pooled,
    pooled_parts,
)
from bertology.readouts.edge._model import (
    MIX_PACE,
    Design,
    Group,
    Parameters,
    Pooling,
    SpanBatch,
    log_probs,
    scoring_windows,
)

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
        return [problem for group, _ in self.parts for problem in group.problems]

    def __call__(self, source: SpanSource) -> Scored:
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

    Of every item that was ``scored``; ``problems`` is ``[fit]`` the problem of each.
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

    def predict(self, source: AnySource) -> Predictions:
        """Predict every item of ``source`` in every column: see :meth:`FittedReadout.predict`."""
        shape = self._shape(source)
        by_fit = shape[0] * shape[1], shape[2]
        multi = self.is_multi_label
        labels = np.empty((*by_fit, self.design.n_classes), bool) if multi else np.empty(by_fit, np.int64)
        log_prob = np.empty(by_fit, dtype=np.float32)
        for items, scores in self._scores(source):
            best = scores > 0 if multi else scores.argmax(2)
            labels[:, items.numpy()] = best.numpy()
            log_prob[:, items.numpy()] = log_probs(scores, best, is_sigmoid=self.is_sigmoid).numpy()
        return Predictions(labels.reshape(*shape, *labels.shape[2:]), log_prob.reshape(shape))

    def log_probs(self, source: AnySource, labels: Integers | NDArray[np.bool_]) -> Floats:
        """``[problem, column, item]`` natural logarithm of the probability of the labels of each item.

        Labels are ``[problem, item]`` classes, as in :meth:`FittedReadout.log_probs`, or ``[problem, item, class]``
        bool, the whole set of an item's classes.
        """
        classes: NDArray[Any] = np.asarray(labels)
        n_classes, shape = self.design.n_classes, self._shape(source)
        wanted = (shape[0], source.n_items, *[n_classes] * self.is_multi_label)
        if classes.shape != wanted or (classes.dtype == np.bool_) != self.is_multi_label:
            kind = "bool" if self.is_multi_label else "integers"
            raise FitError(f"labels have shape {list(classes.shape)} of {classes.dtype}: give {kind} {list(wanted)}")
        if classes.size and not self.is_multi_label and not -1 <= classes.min() <= classes.max() < n_classes:
            raise FitError(f"labels run from {classes.min()} to {classes.max()}: give -1 to {n_classes - 1}")
        truth, problems = torch.from_numpy(classes), torch.arange(shape[0]).repeat_interleave(shape[1])
        values = np.empty((len(problems), shape[2]))
        for items, scores in self._scores(source):
            of_items = truth[:, items][problems]
            known = log_probs(
                scores, of_items if self.is_multi_label else of_items.clamp(min=0), is_sigmoid=self.is_sigmoid
            ).double()
            known = known.masked_fill(known < IMPOSSIBLE / 2, -torch.inf)
            if not self.is_multi_label:
                known = known.masked_fill(of_items < 0, torch.nan)
            values[:, items.numpy()] = known.numpy()
        return values.reshape(shape)

    def _shape(self, source: AnySource) -> tuple[int, int, int]:
        return (*self.parameters["out"].shape[:2], source.n_items)

    def _scores(self, source: AnySource) -> Scored:
        check_same_shape(source, len(self.layers), self.design.dim)
        spans = as_spans(source)
        if spans.n_spans != self.n_spans:
            raise FitError(f"the readout was fitted on {self.n_spans} spans an item: it cannot read {spans.n_spans}")
        flat = {name: value.flatten(0, 1) for name, value in self.parameters.items()}
        n_fits, device = len(flat["out"]), flat["out"].device
        with Workers(device) as workers:
            parts = []
            for fits in np.array_split(np.arange(n_fits), min(workers.n, n_fits)):
                first, last = int(fits[0]), int(fits[-1]) + 1
                parameters = {name: value[first:last] for name, value in flat.items()}
                parts.append((Group.of(self.design, range(first, last)), parameters))
            yield from Scorer(parts, self.absent, workers, device)(with_parts(spans, self.design.pooling))


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
        return self.regressions.n_params

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        return {"layers": [self.layers[layer]]}

    def predict(self, source: AnySource) -> Predictions:
        return self.regressions.predict(pooled(as_spans(source), pooling=self.pooling))

    def log_probs(self, source: AnySource, labels: Integers) -> Floats:
        return self.regressions.log_probs(pooled(as_spans(source), pooling=self.pooling), labels)


def with_parts(source: SpanSource, pooling: Pooling) -> SpanSource:
    """``source`` with its spans pooled, unless pooling is learned."""
    return source if pooling == "attention" else pooled_parts(source, pooling)
