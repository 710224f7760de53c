"""Training edge probes side by side, each with an optimiser of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.adam import adam

from bertology._workers import Workers
from bertology.readouts._base import Targets, class_weights, item_weights
from bertology.readouts._selection import IMPOSSIBLE
from bertology.readouts.edge._model import Design, Group, Parameters, SpanBatch, SpanWindow


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
        """Those of ``targets``."""
        weights = torch.from_numpy(item_weights(targets)).to(device)
        present = torch.from_numpy(class_weights(targets) > 0).to(device)
        labels = torch.from_numpy(targets.labels).to(device)
        return cls(
            labels if targets.is_multi_label else labels.clamp(min=0),
            None if bool((weights == 1).all()) else weights / weights.mean(1, keepdim=True),
            None if bool(present.all()) else torch.where(present, 0.0, IMPOSSIBLE)[:, None],
            is_sigmoid,
        )

    def possible(self, scores: Tensor, problems: Tensor) -> Tensor:
        """``[fit, m, class]`` scores without the classes that a fit's problem has no training items of."""
        return scores if self.absent is None else scores + self.absent[problems]

    def loss(self, scores: Tensor, problems: Tensor, items: Tensor) -> Tensor:
        """Cross-entropy per item of a batch, summed over the fits ``[fit, m, class]``, which share no parameter."""
        labels = self.labels[:, items][problems]
        losses = -log_probs(self.possible(scores, problems), labels, is_sigmoid=self.is_sigmoid)
        if self.weights is not None:
            losses = losses * self.weights[:, items][problems]
        return losses.sum() / len(items)


def log_probs(scores: Tensor, labels: Tensor, *, is_sigmoid: bool) -> Tensor:
    """Natural logarithm of the probability of given classes, ``[fit, m]``.

    Args:
        scores: ``[fit, m, class]``.
        labels: ``[fit, m]`` one class, or ``[fit, m, class]`` the whole set of them.
        is_sigmoid: whether each class is judged on its own; of one class it is then the probability of that and no
            other.
    """
    if not is_sigmoid:
        flat = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
        return -flat.view(labels.shape)
    truth = labels if labels.ndim == 3 else functional.one_hot(labels, scores.shape[2])
    return -functional.binary_cross_entropy_with_logits(scores, truth.float(), reduction="none").sum(2)


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
        """The state before the first step; the parameters are copied."""
        averages, squares = ({name: torch.zeros_like(value) for name, value in parameters.items()} for _ in range(2))
        return cls({name: value.clone() for name, value in parameters.items()}, averages, squares)

    def some(self, places: slice | list[int]) -> State:
        """The state of some fits: a view for a slice, a copy for a list."""

        def chosen(part: Parameters) -> Parameters:
            return {name: value[places] for name, value in part.items()}

        return State(chosen(self.parameters), chosen(self.averages), chosen(self.squares))


class FitShard:
    """Neighbouring fits that one worker computes in the same products.

    Args:
        design: their shape.
        fits: their numbers, problem by problem and column by column.
        state: theirs, which steps change in place.
        steps: how many steps they have behind them.
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
            with torch.no_grad():
                adam(
                    [value[place] for value in values],
                    [gradient[place] for gradient in gradients],
                    [average[place] for average in self._averages],
                    [square[place] for square in self._squares],
                    [],
                    [self._steps.clone() for _ in values],
                    fused=True,
                    decoupled_weight_decay=True,
                    amsgrad=False,
                    beta1=0.9,
                    beta2=0.999,
                    lr=rate,
                    weight_decay=weight_decay,
                    eps=1e-8,
                    maximize=False,
                )
        self._steps += 1


class EdgeTrainer:
    """All fits that have not ended yet, in a shard for each worker.

    Args:
        design: their shape.
        start: initial parameters ``[problem, column, …]``.
        goals: the labels that the training items should get.
        workers: threads that compute.
        learning_rate: of Adam.
        weight_decay: of Adam, decoupled (Loshchilov & Hutter 2019).
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
        """Go on with these fits only."""
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
        """The probes as they are now, in order, in a part for each worker."""
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
        """Let the learning rate of some fits fall to 0 from here on, from parameters ``[problem, column, …]``.

        Args:
            fits: their numbers.
            best: where they begin.
            n_items: items that they learn from until then, each counted as often.
        """
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
                shard.learn(
                    window.words,
                    batch,
                    self._goals,
                    learning_rates=rate[places],
                    weight_decay=self._weight_decay,
                )

        self._workers.map(work, len(self._shards))
        self._steps += len(window.batches)
        self._n_seen = ends[-1]
