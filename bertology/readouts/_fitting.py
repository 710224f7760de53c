"""How readouts are fitted and applied: the loop of those trained by gradient, early stopping, Adam of many fits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from bertology.errors import FitError
from bertology.readouts._base import (
    FitReport,
    FittedReadout,
    Floats,
    Integers,
    Predictions,
    Progress,
    Readout,
    Targets,
    check_labels,
    check_problems,
    check_same_shape,
)
from bertology.readouts._sources import FeatureSource, Items

Value = TypeVar("Value")
Scores = Iterable[tuple[Tensor, int, Tensor]]
"""Item numbers ``[m]``, the place of a layer, and scores ``[problem, option, class, m]`` under each of some options."""
IMPOSSIBLE = -1e9
"""Added to the score of a class that the training data of a problem do not have, so that it is never predicted."""


def accuracies(scores: Scores, shape: tuple[int, int, int], targets: Targets) -> Floats:
    """``[problem, layer, option]`` part of the labelled items whose class has the highest score.

    The shape is the numbers of problems, layers and options.
    """
    labels, weights = torch.from_numpy(targets.labels), torch.from_numpy(targets.item_weights())
    correct = torch.zeros(shape, dtype=torch.float64)
    for items, layer, class_scores in scores:
        right = class_scores.argmax(2).cpu() == labels[:, None, items]  # [problem, option, m]
        correct[:, layer] += (right * weights[:, None, items]).sum(2, dtype=torch.float64)
    accuracy: Floats = (correct / weights.sum(1, dtype=torch.float64)[:, None, None]).numpy()
    return accuracy


def label_log_probs(scores: Scores, shape: tuple[int, int, int], labels: Integers) -> Floats:
    """``[problem, layer, item]`` natural logarithm of the probability of one class of every item under the only option.

    NaN where ``labels [problem, item]`` are −1, −∞ for a class that cannot be.
    """
    classes = torch.from_numpy(labels)
    log_probs = np.full(shape, np.nan)
    for items, layer, logits in scores:
        chosen = classes[:, items].to(logits.device)  # [problem, m]
        by_class = logits.squeeze(1).double()
        log_prob = by_class.gather(1, chosen.clamp(min=0)[:, None]).squeeze(1) - by_class.logsumexp(1)
        log_prob = log_prob.where(log_prob > IMPOSSIBLE / 2, -torch.inf).where(chosen >= 0, torch.nan)
        log_probs[:, layer, items.numpy()] = log_prob.cpu().numpy()
    return log_probs


@dataclass(frozen=True)
class FittedScores(FittedReadout):
    """A fitted readout that gives a score to every class of every item."""

    name: str
    model: Any
    """Has ``n_params``, a ``shape`` (problems, layers, classes, width of vectors) and gives :data:`Scores` of a source
    by ``scores``."""
    report: FitReport
    are_logits: bool = True  # whether the softmax of the scores is a probability

    @property
    def n_params(self) -> int:
        return int(self.model.n_params)

    def predict(self, source: FeatureSource) -> Predictions:
        """Predict every item of ``source`` in every layer: see :meth:`FittedReadout.predict`."""
        shape = self.checked_shape(source)
        labels, log_prob = np.empty(shape, dtype=np.int64), np.full(shape, np.nan, dtype=np.float32)
        for items, layer, class_scores in self.model.scores(source):
            best, label = class_scores.squeeze(1).max(1)  # [problem, m]
            labels[:, layer, items.numpy()] = label.cpu().numpy()
            if self.are_logits:
                log_prob[:, layer, items.numpy()] = (best - class_scores.squeeze(1).logsumexp(1)).cpu().numpy()
        return Predictions(labels, log_prob)

    def log_probs(self, source: FeatureSource, labels: Integers) -> Floats:
        """``[problem, layer, item]`` log-probability of a class of each item; NaN where scores are no logits."""
        shape = self.checked_shape(source)
        check_labels(source, labels, shape[0], self.model.shape[2])
        if not self.are_logits:
            return np.full(shape, np.nan)
        return label_log_probs(self.model.scores(source), shape, labels)

    def checked_shape(self, source: FeatureSource) -> tuple[int, int, int]:
        """Numbers of problems, layers and items, of a source that the readout can read; FitError otherwise."""
        n_problems, n_layers, _, dim = self.model.shape
        check_same_shape(source, n_layers, dim)
        return n_problems, n_layers, source.n_items


@dataclass(frozen=True)
class TrainingData:
    """Data and seed of a fit, after they were checked."""

    train: Any  # a source of the kind that the readout reads
    targets: Any  # of that kind too
    dev: Any
    dev_targets: Any
    seed: int
    device: torch.device
    progress: Progress
    n_threads: int | None = None  # threads that layers may be spread over; as many as torch uses when left out

    @cached_property
    def items(self) -> Items:
        return Items.of(self.targets, self.device)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of problems and layers."""
        return self.targets.n_problems, self.train.n_layers


class LabelReadout(Readout):
    """A readout that is fitted to data checked beforehand."""

    gives_sets: ClassVar[bool] = False  # whether it can give several labels to an item

    @abstractmethod
    def fit_to(self, data: TrainingData) -> Any:
        """Fit every problem in every layer; FitError where a setting is out of bounds or vectors are not finite."""

    def fit(
        self,
        train: Any,
        targets: Targets,
        *,
        dev: Any,
        dev_targets: Targets,
        seed: int = 0,
        device: str = "cpu",
        progress: Progress | None = None,
        n_threads: int | None = None,
    ) -> Any:
        """Fit every problem in every layer side by side: see :meth:`Readout.fit`."""
        if targets.is_multi_label and not self.gives_sets:
            raise FitError(
                f"{self.name} gives each item one class: use an edge readout for labels [problem, item, class]"
            )
        check_problems(train, targets, dev, dev_targets)
        tell = progress or (lambda line: None)
        return self.fit_to(TrainingData(train, targets, dev, dev_targets, seed, torch.device(device), tell, n_threads))


_NOT_YET = np.iinfo(np.int64).max


class EarlyStopping:
    """Early stopping for every fit on its own.

    Args:
        shape: numbers of problems and layers, or whatever fits are numbered by.
        patience: epochs without a better dev score or a smaller dev loss after which a fit ends.
        cool_down: epochs that a fit goes on for then, its learning rate falling; of epochs with equal scores the last
            one is kept. With none, of equal scores the one with the smaller loss is kept, or the first.
        last: the epoch with which cooling down ends at the latest; it has no end when left out.
        least_gain: how much higher than ever a score must be to be better.
        floor: the score of a fit that has learned nothing yet, whose patience has not begun.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        patience: int,
        *,
        cool_down: int = 0,
        last: int | None = None,
        least_gain: float = 0.0,
        floor: float = 0.0,
    ) -> None:
        self._patience, self._cool_down, self._least_gain, self._floor = patience, cool_down, least_gain, floor
        self._latest = _NOT_YET if last is None else last - cool_down
        self.running = np.ones(shape, dtype=bool)
        self.begins_to_cool = np.zeros(shape, dtype=bool)
        self._cools_from = np.full(shape, _NOT_YET)
        self.score = np.full(shape, floor - 1)  # the best of each fit
        self._loss, self._least = np.full(shape, np.inf), np.full(shape, np.inf)
        self._epoch, self.epochs = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)

    def judge(self, epoch: int, score: Floats, loss: Floats | None = None) -> NDArray[np.bool_]:
        """End the fits whose patience is used up after ``epoch`` epochs, by dev scores and losses of all fits.

        A score of few dev items goes up in steps: between two of them the loss says whether a fit still learns, and of
        equal scores the one with the smaller loss is the better one. Without losses the score alone counts.

        Returns:
            Which fits are better than ever before and are to be kept as they are.
        """
        higher = score > self.score + self._least_gain
        settled: Any = self._cool_down > 0 if loss is None else loss < self._loss
        if loss is None:
            loss = self._loss  # never smaller than itself
        better: NDArray[np.bool_] = self.running & (higher | ((score == self.score) & settled))
        # where all is right, a smaller loss is no reason to go on
        learns = self.running & (higher | ((loss < self._least) & (self.score < 1)))
        self.score[better], self._loss[better] = score[better], loss[better]
        self._least = np.minimum(self._least, loss)
        # a fit that has nothing right yet has not begun to lose its patience
        self._epoch[learns | (self.running & (self.score <= self._floor))] = epoch
        self.epochs[self.running] = epoch
        stalls = epoch - self._epoch >= self._patience
        if self._cool_down:
            self.begins_to_cool = self.running & (self._cools_from == _NOT_YET) & (stalls | (epoch >= self._latest))
            self._cools_from[self.begins_to_cool] = epoch
            stalls = epoch - self._cools_from >= self._cool_down
        self.running &= ~stalls
        return better

    def report(self) -> FitReport:
        return single_report(self.score, self.epochs, ~self.running, np.full(self.running.shape, np.nan))


class FitLoop(ABC):
    """The loop in which readouts are trained by gradient: rounds over the training items, each judged on dev.

    All fits see the same batches and share no parameter; each ends by itself, and is kept as it was at its best.
    """

    what: ClassVar[str]  # the name of the readouts and of a round in progress messages

    def __init__(self, stopping: EarlyStopping, n_rounds: int, progress: Progress) -> None:
        self.stopping, self._n_rounds, self._progress = stopping, n_rounds, progress

    @abstractmethod
    def learn(self) -> None:
        """Take the fits that have not ended through the training items."""

    @abstractmethod
    def dev_scores(self) -> tuple[Floats, Floats | None]:
        """Scores of all fits on dev, the higher the better, and their losses if these are to be watched."""

    @abstractmethod
    def keep(self, better: NDArray[np.bool_]) -> None:
        """Keep the fits that are better than ever as they are, and prepare the next round for those that go on."""

    def run(self) -> EarlyStopping:
        """Train until every fit has ended, or for all rounds."""
        running = self.stopping.running
        for number in range(1, self._n_rounds + 1):
            self.learn()
            self.keep(self.stopping.judge(number, *self.dev_scores()))
            self._progress(f"{self.what} {number}, {int((~running).sum())} of {running.size} have ended")
            if not running.any():
                break
        return self.stopping


def drawn_alike(
    n_problems: int, n_columns: int, seed: int, draw: Callable[[torch.Generator], Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """Initial parameters ``[problem, column, …]``: each problem has its own, in which every column begins alike.

    So what differs between columns is what their layers hold.
    """
    drawn = [draw(torch.Generator().manual_seed(seed * 1_000_003 + problem)) for problem in range(n_problems)]
    return {
        name: torch.stack([one[name] for one in drawn])[:, None].repeat(1, n_columns, *[1] * value.ndim)
        for name, value in drawn[0].items()
    }


@dataclass(frozen=True)
class AdamState:
    """Parameters of fits and the state of their optimisers (Adam, Kingma & Ba 2015), by name, fits first."""

    parameters: dict[str, Tensor]
    averages: dict[str, Tensor]  # running means of gradients
    squares: dict[str, Tensor]  # and of their squares
    steps: Integers  # [fit] steps taken

    @classmethod
    def start(cls, parameters: Mapping[str, Tensor]) -> AdamState:
        averages, squares = ({name: torch.zeros_like(value) for name, value in parameters.items()} for _ in range(2))
        copies = {name: value.clone() for name, value in parameters.items()}
        return cls(copies, averages, squares, np.zeros(len(next(iter(copies.values()))), dtype=np.int64))

    def some(self, fits: slice | list[int]) -> AdamState:
        """Parameters and Adam state of the given fits: a view for a slice, a copy for a list."""
        values, averages, squares = ({name: value[fits] for name, value in part.items()} for part in self._parts)
        return AdamState(values, averages, squares, self.steps[fits])

    def put(self, fits: list[int], other: AdamState) -> None:
        """Take over the state of some fits."""
        for part, values in zip(self._parts, other._parts, strict=True):
            for name, value in part.items():
                value[fits] = values[name]
        self.steps[fits] = other.steps

    def reset(self, fits: list[int]) -> None:
        """Begin the optimisers of some fits anew."""
        for value in (*self.averages.values(), *self.squares.values()):
            value[fits] = 0.0
        self.steps[fits] = 0

    @property
    def _parts(self) -> tuple[dict[str, Tensor], ...]:
        return self.parameters, self.averages, self.squares

    def step(self, gradients: Sequence[Tensor], rates: Sequence[float], *, weight_decay: float = 0.0) -> None:
        """One step on the gradients of each parameter, in place, at the learning rate of each fit."""
        alike: dict[tuple[float, int], list[int]] = {}
        for fit, key in enumerate(zip(rates, self.steps.tolist(), strict=True)):
            alike.setdefault(key, []).append(fit)
        values, averages, squares = (list(part.values()) for part in self._parts)
        columns = chosen = [values, list(gradients), averages, squares]
        for (rate, n_steps), fits in alike.items():
            if len(alike) > 1:  # in one call where it can be: fits that cool down are few, and for a short time
                unbound = [[value.unbind() for value in column] for column in columns]
                chosen = [[each[fit] for each in column for fit in fits] for column in unbound]
            counts = list(torch.full((len(chosen[0]),), float(n_steps), device=values[0].device).unbind())
            options = {"lr": rate, "weight_decay": weight_decay, "decoupled_weight_decay": True, **_ADAM}
            of_values: Any = (*chosen, [], counts)
            with torch.no_grad():
                adam(*of_values, **options)
        self.steps[:] += 1


_ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "fused": True, "amsgrad": False, "maximize": False}


def single_report(
    dev_accuracy: Floats, iterations: Integers, converged: NDArray[np.bool_], gradient_norm: Floats
) -> FitReport:
    """The report of fits without a path of strengths, from ``[problem, layer]`` facts."""
    facts: list[Any] = [fact[:, :, None].copy() for fact in (dev_accuracy, iterations, converged, gradient_norm)]
    return FitReport((0.0,), np.zeros(dev_accuracy.shape), *facts)


def moved(value: Value, device: torch.device) -> Value:
    """A copy of a value whose tensors, inside dataclasses, tuples and lists too, are on a device."""
    changed: Any = value
    if device.type == "cpu":
        return value
    if isinstance(value, Tensor):
        changed = value.to(device)
    elif isinstance(value, tuple | list):
        changed = type(value)(moved(part, device) for part in value)
    elif is_dataclass(value) and not isinstance(value, type):
        changed = replace(value, **{part.name: moved(getattr(value, part.name), device) for part in fields(value)})
    return changed  # type: ignore[no-any-return]
