"""Training edge probes side by side: every fit its own optimiser, no fit waiting for another."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.adam import adam

from bertology._workers import Workers
from bertology.readouts._base import Targets, class_weights, item_weights
from bertology.readouts._edge_model import Batch, Design, Group, Parameters
from bertology.readouts._edge_windows import Window
from bertology.readouts._scoring import IMPOSSIBLE


@dataclass(frozen=True)
class Goals:
    """What every problem wants of every item, and how right a score is."""

    labels: Tensor
    """``[problem, item]`` int64, or ``[problem, item, class]`` bool."""
    weights: Tensor | None
    """``[problem, item]`` over their mean, 0 where a problem does not use an item; None where all are 1."""
    absent: Tensor | None
    """``[problem, 1, class]`` added to scores, so that no class without training items is predicted; None if none."""
    is_sigmoid: bool

    @classmethod
    def of(cls, targets: Targets, *, is_sigmoid: bool, device: torch.device) -> Goals:
        """From what a person gives."""
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


class Squad:
    """Fits that are computed in the same products, with the state of their optimiser (Adam, Kingma & Ba 2015).

    Args:
        design: their shape.
        fits: their numbers, problem by problem and column by column.
        parameters: by name, fit first.
        averages: of gradients and of their squares; zeros when left out.
        step: how many steps they have taken.
    """

    def __init__(
        self,
        design: Design,
        fits: Sequence[int],
        parameters: Parameters,
        averages: tuple[Parameters, Parameters] | None = None,
        step: float = 0.0,
    ) -> None:
        self.fits, self.group = list(fits), Group.of(design, fits)
        self.parameters = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
        started = averages or tuple({name: torch.zeros_like(v) for name, v in parameters.items()} for _ in range(2))
        self.averages = tuple({name: value.clone() for name, value in part.items()} for part in started)
        device = next(iter(parameters.values())).device
        self._steps = [torch.tensor(step, device=device) for _ in parameters]
        self._problems = torch.tensor(self.group.problems, device=device)

    @property
    def step_count(self) -> float:
        """Steps taken."""
        return float(self._steps[0])

    def learn(self, words: Tensor, batch: Batch, goals: Goals, *, learning_rate: float, weight_decay: float) -> None:
        """One step on one batch."""
        scores = self.group.scores(self.parameters, words, batch)
        loss = goals.loss(scores, self._problems, batch.items)
        values = list(self.parameters.values())
        # what a batch does not reach (attention over spans of one word) has gradient 0
        gradients = torch.autograd.grad(loss, values, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            adam(
                values,
                list(gradients),
                list(self.averages[0].values()),
                list(self.averages[1].values()),
                [],
                self._steps,
                fused=True,
                decoupled_weight_decay=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=learning_rate,
                weight_decay=weight_decay,
                eps=1e-8,
                maximize=False,
            )


def regroup(design: Design, squads: Sequence[Squad], wanted: Sequence[Sequence[int]]) -> list[Squad]:
    """The same fits in other groups; those that are in none end here."""
    order = {fit: place for place, fit in enumerate(fit for squad in squads for fit in squad.fits)}
    joined = [
        {name: torch.cat([part[name].detach() for part in parts]) for name in squads[0].parameters}
        for parts in (
            [squad.parameters for squad in squads],
            [squad.averages[0] for squad in squads],
            [squad.averages[1] for squad in squads],
        )
    ]
    found = []
    for fits in wanted:
        places = [order[fit] for fit in fits]
        values, first, second = ({name: value[places] for name, value in part.items()} for part in joined)
        found.append(Squad(design, fits, values, (first, second), squads[0].step_count))
    return found


@dataclass(frozen=True)
class Share:
    """What a worker does with each window: some squads, each over part of the batches."""

    squad: int
    first: float
    """Where in the window it begins, as a part of all batches."""
    last: float


def shares(n_fits: int, n_workers: int) -> tuple[list[range], list[list[Share]]]:
    """Divide fits evenly among workers, and those that do not come out even in time (McNaughton 1959).

    A fit that two workers share is done by one at the beginning of a window, by the other at its end.

    Returns:
        The places of the fits in each squad, and the shares of each worker, in order.
    """
    n_workers = max(1, min(n_workers, n_fits))
    squads: list[range] = []
    plan: list[list[Share]] = []
    for worker in range(n_workers):
        low, high = worker * n_fits / n_workers, (worker + 1) * n_fits / n_workers
        mine: list[Share] = []
        if worker * n_fits % n_workers:  # begun here, ended by the worker before
            mine.append(Share(len(squads) - 1, 0.0, 1 - (low - int(low))))
            low = int(low) + 1
        if int(low) < int(high):
            squads.append(range(int(low), int(high)))
            mine.append(Share(len(squads) - 1, 0.0, 1.0))
        if (worker + 1) * n_fits % n_workers:
            squads.append(range(int(high), int(high) + 1))
            mine.append(Share(len(squads) - 1, 1 - (high - int(high)), 1.0))
        plan.append(mine)
    return squads, plan


class Trainer:
    """All fits that have not ended yet, and who computes them.

    Args:
        design: their shape.
        start: initial parameters ``[problem, column, …]``.
        goals: what the training items are to be.
        workers: who does it.
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
        self._rates = {"learning_rate": learning_rate, "weight_decay": weight_decay}
        n_fits = len(flat["out"])
        self.squads = [Squad(design, range(n_fits), flat)]
        self._plan: list[list[Share]] = []
        self.keep(range(n_fits))

    def keep(self, fits: Sequence[int]) -> None:
        """Go on with these fits only."""
        if self._plan and list(fits) == self.fits:
            return  # nothing has ended: no state need be copied
        places, self._plan = shares(len(fits), self._workers.n)
        self.squads = regroup(self._design, self.squads, [[fits[place] for place in part] for part in places])

    @property
    def fits(self) -> list[int]:
        """Numbers of the fits that have not ended, in the order of :attr:`parts`."""
        return [fit for squad in self.squads for fit in squad.fits]

    @property
    def parts(self) -> list[tuple[Group, Parameters]]:
        """The probes as they are now."""
        return [(squad.group, squad.parameters) for squad in self.squads]

    def copy(self, fits: Sequence[int], into: Parameters) -> None:
        """Copy the probes of some fits into parameters ``[problem, column, …]``."""
        wanted = set(fits)
        for squad in self.squads:
            chosen = [place for place, fit in enumerate(squad.fits) if fit in wanted]
            there = [squad.fits[place] for place in chosen]
            for name, value in squad.parameters.items():
                into[name].view(-1, *value.shape[1:])[there] = value.detach()[chosen]

    def learn(self, window: Window) -> None:
        """Take every fit through the batches of a window."""
        begun = [threading.Event() for _ in self.squads]

        def work(worker: int) -> None:
            for share in self._plan[worker]:
                first, last = (round(part * len(window.batches)) for part in (share.first, share.last))
                if share.first:
                    begun[share.squad].wait()
                try:
                    for batch in window.batches[first:last]:
                        self.squads[share.squad].learn(window.words, batch, self._goals, **self._rates)
                finally:
                    begun[share.squad].set()

        self._workers.map(work, len(self._plan))
