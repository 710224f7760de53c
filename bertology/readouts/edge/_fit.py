"""Fitting edge probes side by side, each with an optimiser of its own, until its own dev score stops rising."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from bertology._workers import Workers
from bertology.readouts._base import Targets, class_weights, item_weights
from bertology.readouts._fitting import ADAM, IMPOSSIBLE, EarlyStopping, TrainingData, moved
from bertology.readouts.edge._fitted import FittedEdge, Scorer, dev_scores, with_parts
from bertology.readouts.edge._model import (
    Design,
    Group,
    Parameters,
    Shuffle,
    SpanBatch,
    SpanWindow,
    TrainingWindows,
    log_probs,
)


@dataclass(frozen=True)
class Schedule:
    """How edge probes are trained: number, size and end of the rounds between two evaluations on dev."""

    n_rounds: int
    passes: int
    """Over the items in a round."""
    batch_items: int
    patience: int
    cool_down: int
    """The last rounds of a fit."""
    learning_rate: float
    weight_decay: float
    dropout: float
    layer_dropout: float
    watches_loss: bool
    """Whether a smaller dev loss counts as getting better."""


@dataclass(frozen=True)
class Goals:
    """Labels and weights of every training item in every problem, and the loss of scores."""

    labels: Tensor
    """``[problem, item]`` int64, or ``[problem, item, class]`` bool."""
    weights: Tensor | None
    """``[problem, item]`` over their mean, 0 where a problem does not use an item; None where all are 1."""
    absent: Tensor | None
    """``[problem, 1, class]`` added to scores, so that no class without training items is predicted; None if none."""
    is_sigmoid: bool

    @classmethod
    def of(cls, targets: Targets, *, is_sigmoid: bool, device: torch.device) -> Goals:
        weights = torch.from_numpy(item_weights(targets)).to(device)
        present = torch.from_numpy(class_weights(targets) > 0).to(device)
        labels = torch.from_numpy(targets.labels).to(device)
        return cls(
            labels if targets.is_multi_label else labels.clamp(min=0),
            None if bool((weights == 1).all()) else weights / weights.mean(1, keepdim=True),
            None if bool(present.all()) else torch.where(present, 0.0, IMPOSSIBLE)[:, None],
            is_sigmoid,
        )

    def loss(self, scores: Tensor, problems: Tensor, items: Tensor) -> Tensor:
        """Cross-entropy per item of a batch, summed over the fits ``[fit, m, class]``, which share no parameter."""
        labels = self.labels[:, items][problems]
        possible = scores if self.absent is None else scores + self.absent[problems]
        losses = -log_probs(possible, labels, is_sigmoid=self.is_sigmoid)
        if self.weights is not None:
            losses = losses * self.weights[:, items][problems]
        return losses.sum() / len(items)


@dataclass(frozen=True)
class State:
    """Parameters of fits and the state of their optimisers (Adam, Kingma & Ba 2015), by name, fits first."""

    parameters: Parameters
    averages: Parameters
    """Of gradients."""
    squares: Parameters
    """Averages of their squares."""

    @classmethod
    def start(cls, parameters: Parameters) -> State:
        averages, squares = ({name: torch.zeros_like(value) for name, value in parameters.items()} for _ in range(2))
        return cls({name: value.clone() for name, value in parameters.items()}, averages, squares)

    def some(self, places: slice | list[int]) -> State:
        """The state of some fits: a view for a slice, a copy for a list."""
        parts = (self.parameters, self.averages, self.squares)
        return State(*({name: value[places] for name, value in part.items()} for part in parts))


class FitShard:
    """Neighbouring fits, problem by problem and column by column, that one worker computes in the same products.

    Steps change ``state`` in place; ``steps`` is how many they have behind them.
    """

    def __init__(self, design: Design, fits: Sequence[int], state: State, steps: int) -> None:
        self.group = Group.of(design, fits)
        # .data: torch is not to take another shard's steps, in the same memory beside these, for changes of these
        self.parameters = {name: value.data.requires_grad_() for name, value in state.parameters.items()}
        self._averages, self._squares = list(state.averages.values()), list(state.squares.values())
        device = self._averages[0].device
        self._steps = torch.tensor(float(steps), device=device)
        self._problems = torch.tensor(self.group.problems, device=device)

    def learn(
        self, words: Tensor, batch: SpanBatch, goals: Goals, *, learning_rates: Sequence[float], weight_decay: float
    ) -> None:
        """One step on one batch, at the learning rate of each fit."""
        scores = self.group.scores(self.parameters, words, batch)
        loss = goals.loss(scores, self._problems, batch.items)
        values = list(self.parameters.values())
        # what a batch does not reach (attention over spans of one word) has gradient 0
        gradients = torch.autograd.grad(loss, values, allow_unused=True, materialize_grads=True)
        # in one call where it can be: fits that cool down are few, and for a short time
        are_alike = len(set(learning_rates)) == 1
        for place, rate in [(slice(None), learning_rates[0])] if are_alike else list(enumerate(learning_rates)):
            state = (values, gradients, self._averages, self._squares)
            steps = [self._steps.clone() for _ in values]
            options = {"lr": rate, "weight_decay": weight_decay, "decoupled_weight_decay": True, **ADAM}
            with torch.no_grad():
                chosen, slopes, averages, squares = ([part[place] for part in parts] for parts in state)
                adam(chosen, slopes, averages, squares, [], steps, **options)
        self._steps += 1


class EdgeTrainer:
    """All fits that have not ended yet, in a shard for each worker.

    They begin at ``start`` ``[problem, column, …]``; Adam's weight decay is decoupled (Loshchilov & Hutter 2019).
    """

    def __init__(
        self,
        design: Design,
        start: Parameters,
        goals: Goals,
        workers: Workers,
        *,
        learning_rate: float,
        weight_decay: float,
    ) -> None:
        flat = {name: value.flatten(0, 1) for name, value in start.items()}
        self._design, self._goals, self._workers = design, goals, workers
        self._learning_rate, self._weight_decay = learning_rate, weight_decay
        self._steps, self._n_seen = 0, 0
        self._cools: dict[int, tuple[int, int]] = {}  # by fit: items learned from before, and in cooling down
        self._state = State.start(flat)
        self.fits = list(range(len(flat["out"])))
        """Numbers of those that have not ended."""
        self._cut()

    def keep(self, fits: Sequence[int]) -> None:
        if list(fits) == self.fits:
            return  # nothing has ended: no state need be copied
        self._state = self._state.some([self.fits.index(fit) for fit in fits])
        self.fits = list(fits)
        self._cut()

    def _cut(self) -> None:
        n_shards = max(1, min(self._workers.n, len(self.fits)))
        bounds = [shard * len(self.fits) // n_shards for shard in range(n_shards + 1)]
        self._places = [slice(*pair) for pair in itertools.pairwise(bounds)]
        self._shards = [FitShard(self._design, self.fits[p], self._state.some(p), self._steps) for p in self._places]

    @property
    def parts(self) -> list[tuple[Group, Parameters]]:
        return [
            (shard.group, self._state.some(places).parameters)
            for shard, places in zip(self._shards, self._places, strict=True)
        ]

    def copy(self, fits: Sequence[int], into: Parameters) -> None:
        """Copy the probes of some fits into parameters ``[problem, column, …]``."""
        wanted = set(fits)
        chosen = [place for place, fit in enumerate(self.fits) if fit in wanted]
        numbers = [self.fits[place] for place in chosen]
        for name, value in self._state.parameters.items():
            into[name].view(-1, *value.shape[1:])[numbers] = value[chosen]

    def cool(self, fits: Sequence[int], best: Parameters, *, n_items: int) -> None:
        """Let the learning rate of some fits fall to 0 over ``n_items``, from their ``best`` parameters."""
        places = [self.fits.index(fit) for fit in fits]
        for name, value in self._state.parameters.items():
            value[places] = best[name].flatten(0, 1)[list(fits)]
        self._cools |= dict.fromkeys(fits, (self._n_seen, n_items))

    def _rates(self, n_seen: float) -> list[float]:
        """``[fit]`` learning rates of a step in whose middle so many items have been learned from."""
        cooled = ((n_seen - first) / n for first, n in (self._cools.get(fit, (n_seen, 1)) for fit in self.fits))
        return [self._learning_rate * max(0.0, 1 - part) for part in cooled]

    def learn(self, window: SpanWindow) -> None:
        """Take every fit through the batches of a window."""
        ends = list(itertools.accumulate((len(batch.items) for batch in window.batches), initial=self._n_seen))
        rates = [self._rates(sum(pair) / 2) for pair in itertools.pairwise(ends)]  # [batch][place of a fit]

        def work(number: int) -> None:
            shard, places = self._shards[number], self._places[number]
            for batch, rate in zip(window.batches, rates, strict=True):
                rates_of_shard = rate[places]
                shard.learn(
                    window.words, batch, self._goals, learning_rates=rates_of_shard, weight_decay=self._weight_decay
                )

        self._workers.map(work, len(self._shards))
        self._steps += len(window.batches)
        self._n_seen = ends[-1]


def fit_edge(name: str, design: Design, schedule: Schedule, data: TrainingData, *, is_sigmoid: bool) -> FittedEdge:
    """Train probes of a design on spans until every fit has ended or the last round is over."""
    targets, device = data.targets, data.device
    goals = Goals.of(targets, is_sigmoid=is_sigmoid, device=device)
    start = {name: value.to(device) for name, value in design.start(targets.n_problems, data.seed).items()}
    best = {name: value.clone() for name, value in start.items()}
    used = torch.from_numpy((item_weights(targets) > 0).any(axis=0))
    shape = targets.n_problems, len(design.columns)
    stopping = EarlyStopping(shape, schedule.patience, cool_down=schedule.cool_down, last=schedule.n_rounds)
    random = torch.Generator().manual_seed(data.seed)
    shuffle = Shuffle(schedule.batch_items, random, design.hidden, schedule.dropout, schedule.layer_dropout)
    windows = TrainingWindows(with_parts(data.train, design.pooling), used, shuffle, device=device)
    n_cooling = int(used.sum()) * schedule.passes * schedule.cool_down
    with Workers(device) as workers:
        rates = {"learning_rate": schedule.learning_rate, "weight_decay": schedule.weight_decay}
        trainer = EdgeTrainer(design, start, goals, workers, **rates)
        for epoch in range(1, schedule.n_rounds + 1):
            for _ in range(schedule.passes):
                for window in windows:
                    trainer.learn(moved(window, device))
                    del window  # or it would be held while the next is made
            scorer = Scorer(trainer.parts, goals.absent, workers, device)
            scores = scorer(with_parts(data.dev, design.pooling))
            score, loss = np.full(stopping.running.size, -1.0), np.full(stopping.running.size, np.inf)
            score[trainer.fits], loss[trainer.fits] = dev_scores(
                scores, scorer.problems, data.dev_targets, is_sigmoid=is_sigmoid
            )
            dev_loss = loss.reshape(shape) if schedule.watches_loss else None
            better = stopping.judge(epoch, score.reshape(shape), dev_loss)
            trainer.copy(np.flatnonzero(better).tolist(), best)
            data.progress(f"edge probes: round {epoch}, {stopping.n_ended} of {better.size} have ended")
            if stopping.n_ended == better.size:
                break
            trainer.cool(np.flatnonzero(stopping.begins_to_cool).tolist(), best, n_items=n_cooling)
            trainer.keep(np.flatnonzero(stopping.running).tolist())
    return FittedEdge(
        name=name,
        design=design,
        parameters=best,
        layers=tuple(data.train.layers),
        n_spans=data.train.n_spans,
        absent=goals.absent,
        is_sigmoid=is_sigmoid,
        is_multi_label=targets.is_multi_label,
        report=stopping.report(),
    )
