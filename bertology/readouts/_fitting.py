"""Fits and predictions of readouts: class scores, early stopping of many fits, and Adam for them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from bertology.readouts import _base
from bertology.readouts._sources import AnySource, FeatureSource, PlainPooling, as_spans, pooled

Value = TypeVar("Value")
Scores = Iterable[tuple[Tensor, int, Tensor]]
"""Item numbers ``[m]``, the place of a layer, and scores ``[problem, option, class, m]`` under each of some options."""
IMPOSSIBLE = -1e9
"""Added to the score of a class that the training data of a problem do not have, so that it is never predicted."""


def accuracies(scores: Scores, shape: tuple[int, int, int], targets: _base.Targets) -> _base.Floats:
    """``[problem, layer, option]`` part of the labelled items whose class has the highest score."""
    labels, weights = torch.from_numpy(targets.labels), torch.from_numpy(targets.item_weights())
    correct = torch.zeros(shape, dtype=torch.float64)
    for items, layer, class_scores in scores:
        right = class_scores.max(2).indices.cpu() == labels[:, None, items]  # [problem, option, m]
        correct[:, layer] += (right * weights[:, None, items]).sum(2, dtype=torch.float64)
    accuracy: _base.Floats = (correct / weights.sum(1, dtype=torch.float64)[:, None, None]).numpy()
    return accuracy


@dataclass(frozen=True)
class FittedScores(_base.FittedReadout):
    """A fitted readout that gives a score to every class of every item."""

    name: str
    model: Any
    """Has ``n_params``, a ``shape`` (problems, layers, classes, width of vectors) and gives :data:`Scores` of a source
    by ``scores``."""
    report: _base.FitReport
    are_logits: bool = True  # whether the softmax of the scores is a probability
    pooling: PlainPooling | None = None  # how spans that it reads become vectors
    layers: tuple[int, ...] = ()  # of such, the numbers of the layers it was fitted on

    @property
    def n_params(self) -> int:
        return int(self.model.n_params)

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        return {"layers": [self.layers[layer]]} if self.pooling else {}

    def _vectors(self, source: Any) -> FeatureSource:
        """The part of a source that the model reads; FitError where it has other layers or another width."""
        vectors: FeatureSource = pooled(as_spans(source), pooling=self.pooling) if self.pooling else source
        _base.check_same_shape(vectors, self.model.shape[1], self.model.shape[3])
        return vectors

    def predict(self, source: AnySource) -> _base.Predictions:
        source, (n_problems, n_layers, *_) = self._vectors(source), self.model.shape
        shape = n_problems, n_layers, source.n_items
        labels, log_prob = np.empty(shape, dtype=np.int64), np.full(shape, np.nan, dtype=np.float32)
        for items, layer, class_scores in self.model.scores(source):
            best, label = class_scores.squeeze(1).max(1)  # [problem, m]
            labels[:, layer, items.numpy()] = label.cpu().numpy()
            if self.are_logits:
                log_prob[:, layer, items.numpy()] = (best - class_scores.squeeze(1).logsumexp(1)).cpu().numpy()
        return _base.Predictions(labels, log_prob)

    def log_probs(self, source: AnySource, labels: _base.Integers, *options: Any) -> _base.Floats:
        """See :meth:`FittedReadout.log_probs`; the ``options`` are the model's."""
        source, (n_problems, n_layers, n_classes, _) = self._vectors(source), self.model.shape
        classes = torch.from_numpy(_base.check_labels(source, labels, n_problems, n_classes).labels)
        log_probs = np.full((n_problems, n_layers, source.n_items), np.nan)
        for items, layer, logits in self.model.scores(source, *options) if self.are_logits else ():
            chosen = classes[:, items].to(logits.device)  # [problem, m]
            by_class = logits.squeeze(1).double()
            log_prob = by_class.gather(1, chosen.clamp(min=0)[:, None]).squeeze(1) - by_class.logsumexp(1)
            log_prob = log_prob.where(log_prob > IMPOSSIBLE / 2, -torch.inf).where(chosen >= 0, torch.nan)
            log_probs[:, layer, items.numpy()] = log_prob.cpu().numpy()
        return log_probs


_NOT_YET = np.iinfo(np.int64).max


class EarlyStopping:
    """Early stopping for every fit on its own, of the given shape.

    A fit ends after ``patience`` epochs without a better dev score or a smaller dev loss. Then it goes on for
    ``cool_down`` epochs, which end at the latest with epoch ``last``; of epochs with equal scores the last one is
    kept. With none, of equal scores the one with the smaller loss is kept, or the first. A score must be
    ``least_gain`` higher than ever to be better; that of a fit that has learned nothing yet, whose patience has not
    begun, is ``floor``.
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
        self.running, self.begins_to_cool = np.ones(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self._cools_from = np.full(shape, _NOT_YET)
        self.score = np.full(shape, floor - 1)  # the best of each fit
        self._loss, self._least = np.full(shape, np.inf), np.full(shape, np.inf)
        self._epoch, self.epochs = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)

    def judge(self, epoch: int, score: _base.Floats, loss: _base.Floats | None = None) -> NDArray[np.bool_]:
        """End the fits whose patience is used up; returns which are better than ever before and are to be kept.

        A score of few dev items goes up in steps: between two of them the loss says whether a fit still learns.
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

    def report(self) -> _base.FitReport:
        unknown = np.full(self.running.shape, np.nan)
        return _base.FitReport.without_path(self.score, self.epochs, ~self.running, unknown)


class FitLoop:
    """The loop in which readouts are trained by gradient: rounds over the training items, each judged on dev.

    All fits see the same batches and share no parameter; each ends by itself, and is kept as it was at its best.
    Subclasses have ``learn()``, which takes the fits that have not ended through the training items; ``dev_scores()``,
    scores of all fits, the higher the better, and their losses if these are to be watched; and ``keep(better)``, which
    keeps fits as they are and prepares the next round.
    """

    what: ClassVar[str]  # the name of the readouts and of a round in progress messages
    learn: Callable[[], None]
    dev_scores: Callable[[], tuple[_base.Floats, _base.Floats | None]]
    keep: Callable[[NDArray[np.bool_]], None]

    def __init__(self, stopping: EarlyStopping, n_rounds: int, progress: _base.Progress) -> None:
        self.stopping, self._n_rounds, self._progress = stopping, n_rounds, progress

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
    n_problems: int, n_columns: int, seed: int, draw: Callable[..., Mapping[str, Tensor]]
) -> dict[str, Any]:
    """Initial parameters ``[problem, column, …]``: each problem has its own, in which every column begins alike."""
    drawn = [draw(torch.Generator().manual_seed(seed * 1_000_003 + problem)) for problem in range(n_problems)]
    return {
        name: torch.stack([one[name] for one in drawn])[:, None].repeat(1, n_columns, *[1] * value.ndim)
        for name, value in drawn[0].items()
    }


_ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "fused": True, "amsgrad": False, "maximize": False}


@dataclass(frozen=True)
class AdamState:
    """Parameters of fits by name, fits first, and the state of their optimisers (Adam, Kingma & Ba 2015)."""

    parameters: dict[str, Tensor]
    averages: dict[str, Tensor]  # running means of gradients
    squares: dict[str, Tensor]  # and of their squares
    steps: _base.Integers  # [fit] steps taken

    @classmethod
    def start(cls, parameters: Mapping[str, Tensor]) -> "AdamState":
        averages, squares = ({name: torch.zeros_like(value) for name, value in parameters.items()} for _ in range(2))
        copies = {name: value.clone() for name, value in parameters.items()}
        return cls(copies, averages, squares, np.zeros(len(next(iter(copies.values()))), dtype=np.int64))

    @property
    def _parts(self) -> tuple[dict[str, Tensor], ...]:
        return self.parameters, self.averages, self.squares

    def some(self, fits: slice | list[int]) -> "AdamState":
        """Parameters and Adam state of the given fits: a view for a slice, a copy for a list."""
        values, averages, squares = ({name: value[fits] for name, value in part.items()} for part in self._parts)
        return AdamState(values, averages, squares, self.steps[fits])

    def put(self, fits: list[int], other: "AdamState") -> None:
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


def moved(value: Value, device: torch.device) -> Value:
    """A value whose tensors, inside dataclasses, tuples and lists too, are on a device."""
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
