"""Loss and gradient of many multinomial logistic regressions in one pass over the data, and their minimisation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bertology._workers import Workers
from bertology.readouts._fitting import IMPOSSIBLE
from bertology.readouts._moments import Items, Moments
from bertology.readouts._sources import FeatureSource, without_unused

_UNDERFLOW = 1e-30


class Fits:
    """The regressions of all problems, layers and strengths: fit = (problem, layer, strength), the last the fastest.

    A point of a fit is ``[class, dim + 1]`` in one row: coefficients of standardised features, then the intercept.
    Vectors are never standardised themselves; mean and standard deviation go into the coefficients. Strengths
    ``[problem, layer, strength]`` are scikit-learn's ``C``, float64.
    """

    def __init__(self, items: Items, moments: Moments, strengths: Tensor) -> None:
        device = moments.mean.device
        self.n_layers, self.dim = moments.mean.shape[1:]
        present = items.frequency > 0  # [problem, class]
        self.n_classes = present.shape[1]
        self.shape = (len(moments.mean), self.n_layers, strengths.shape[2])
        grid = torch.meshgrid(*(torch.arange(n, device=device) for n in self.shape), indexing="ij")
        self.problem, self.layer, _ = (index.flatten() for index in grid)
        # of two classes, scikit-learn has one weight vector: it is penalised as twice two opposite ones
        per_problem = torch.where(present.sum(1) == 2, 2.0, 1.0) / items.total
        self.penalty = per_problem[self.problem] / strengths.to(device).flatten()
        """``[fit]`` factor of ½‖W‖² beside the mean loss, float64."""
        self.mean = moments.mean[self.problem, self.layer].float()
        """``[fit, dim]``"""
        self.std = moments.std[self.problem, self.layer].float()
        """``[fit, dim]``"""
        self.absent = torch.where(present, 0.0, IMPOSSIBLE)
        """``[problem, class]`` what is added to the intercepts."""

    def __len__(self) -> int:
        return len(self.penalty)

    def start(self) -> Tensor:
        return torch.zeros(len(self), self.n_classes * (self.dim + 1), device=self.mean.device)

    def split(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients ``[n, class, dim]`` and intercepts ``[n, class]`` of standardised features."""
        both = points.view(len(points), self.n_classes, self.dim + 1)
        return both[:, :, :-1], both[:, :, -1]

    def for_raw(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients ``[n, class, dim]`` and intercepts ``[n, class]`` for vectors as they come."""
        weights, biases = self.split(points)
        weights = weights / self.std[rows][:, None]
        shift = torch.bmm(weights, self.mean[rows][:, :, None]).squeeze(2)
        return weights, biases - shift + self.absent[self.problem[rows]]

    def by_layer(self, rows: Tensor) -> list[tuple[int, Tensor]]:
        """Each layer that some of the fits ``rows`` are about, and their places in ``rows``."""
        layers = self.layer[rows]
        return [(layer, (layers == layer).nonzero().squeeze(1)) for layer in sorted(set(layers.tolist()))]


class Objective:
    """Mean loss with penalty over the items of one source, of any of the fits."""

    def __init__(self, fits: Fits, source: FeatureSource, items: Items, workers: Workers) -> None:
        self._fits, self._source, self._items, self._workers = fits, source, items, workers
        self._used = items.used

    def __call__(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``[n]`` (float64) and gradients ``[n, parameter]`` of the fits ``rows`` at ``points``."""
        fits = self._fits
        weights, biases = fits.for_raw(rows, points)
        batches = [
            _LayerBatch(layer, group, fits.problem[rows[group]], weights[group], biases[group])
            for layer, group in fits.by_layer(rows)
        ]
        sums = [[_Sums(batch) for batch in batches] for _ in range(self._workers.n)]
        self._workers.spread(self._source.chunks(), [functools.partial(self._add, mine) for mine in sums])
        loss = torch.empty(len(rows), dtype=torch.float64, device=points.device)
        weight_sums, bias_sums = torch.empty_like(weights), torch.empty_like(biases)
        for batch, *parts in zip(batches, *sums, strict=True):
            loss[batch.group] = functools.reduce(torch.add, (part.loss for part in parts))
            weight_sums[batch.group] = batch.unstacked(functools.reduce(torch.add, (part.weights for part in parts)))
            bias_sums[batch.group] = functools.reduce(torch.add, (part.biases for part in parts)).T.float()
        return self._penalised(rows, points, loss, weight_sums, bias_sums)

    def _add(self, sums: Sequence[_Sums], numbers: Tensor, vectors: Tensor) -> None:
        device = self._items.labels.device
        numbers, vectors = (part.to(device) for part in without_unused(numbers, vectors, self._used))
        labels = self._items.labels[:, numbers]  # [problem, m]
        counts = None if self._items.are_equal else self._items.weights[:, numbers]
        for sum_ in sums:
            mine = sum_.batch.problem
            sum_.add(vectors[sum_.batch.layer], labels[mine], None if counts is None else counts[mine])

    def _penalised(
        self, rows: Tensor, points: Tensor, loss: Tensor, weight_sums: Tensor, bias_sums: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Sums for vectors as they come, turned into means for standardised ones, with the penalty."""
        fits = self._fits
        total = self._items.total[fits.problem[rows]].clamp(min=1e-30)
        penalty = fits.penalty[rows]
        weights, _ = fits.split(points)
        value = loss / total + 0.5 * penalty * weights.flatten(1).square().sum(1, dtype=torch.float64)
        weight_sums = (weight_sums - bias_sums[:, :, None] * fits.mean[rows][:, None]) / fits.std[rows][:, None]
        gradient = torch.cat([weight_sums, bias_sums[:, :, None]], dim=2) / total.float()[:, None, None]
        gradient[:, :, :-1] += penalty.float()[:, None, None] * weights
        return value, gradient.flatten(1)


class _LayerBatch:
    """The fits of one layer, side by side in one matrix product.

    Class is the slowest axis and item the fastest: softmax then runs along whole vectors of items.
    """

    def __init__(self, layer: int, group: Tensor, problem: Tensor, weights: Tensor, biases: Tensor) -> None:
        self.layer, self.group, self.problem = layer, group, problem
        n, n_classes, dim = weights.shape
        self.shape = n_classes, n
        self.weights = weights.transpose(0, 1).reshape(n_classes * n, dim)
        self.biases = biases.T.reshape(-1, 1)

    def unstacked(self, weights: Tensor) -> Tensor:
        return weights.view(*self.shape, -1).transpose(0, 1)


class _Sums:
    """What one worker has found out about the fits of one layer."""

    def __init__(self, batch: _LayerBatch) -> None:
        self.batch = batch
        self.loss = torch.zeros(batch.shape[1], dtype=torch.float64, device=batch.weights.device)
        self.weights = torch.zeros_like(batch.weights)
        self.biases = torch.zeros(batch.shape, dtype=torch.float64, device=batch.weights.device)

    def add(self, vectors: Tensor, labels: Tensor, counts: Tensor | None) -> None:
        scores = torch.addmm(self.batch.biases, self.batch.weights, vectors.T).view(*self.batch.shape, -1)
        residual = scores.softmax(0)  # [class, n, m]
        index = labels[None]
        at_label = residual.gather(0, index)
        loss = -at_label.clamp(min=_UNDERFLOW).log_()[0]
        if (at_label < _UNDERFLOW).any():
            loss = scores.logsumexp(0) - scores.gather(0, index)[0]
        residual.scatter_(0, index, at_label - 1)
        if counts is not None:
            loss *= counts
            residual *= counts
        self.loss += loss.sum(1, dtype=torch.float64)
        self.biases += residual.sum(2)
        self.weights.addmm_(residual.flatten(0, 1), vectors)


Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From ``[n]`` numbers of functions and their ``[n, parameter]`` points to ``[n]`` float64 values and gradients."""
Precondition = Callable[[Tensor, Tensor], Tensor]
"""From ``[n]`` numbers of functions and ``[n, parameter]`` vectors to vectors over an approximate Hessian (linear)."""
Report = Callable[[int, int], None]
"""Told how many evaluations there have been and how many functions are left."""

_MEMORY = 20
"""Steps remembered, or as many as fit into the bytes below."""
_MEMORY_BYTES = 512 << 20
_SUFFICIENT = 1e-4
_NOISE = 1e-7


class Minima(NamedTuple):
    """Where the minimisation of each function ended."""

    points: Tensor
    """``[function, parameter]``"""
    gradient_norm: Tensor
    """``[function]`` largest absolute component of the gradient there, float64."""
    iterations: Tensor
    """``[function]`` evaluations until it arrived, or all there were."""
    converged: Tensor
    """``[function]`` whether the gradient norm met the tolerance."""


def minimise(
    evaluate: Evaluate,
    start: Tensor,
    *,
    precondition: Precondition,
    max_iter: int,
    tolerance: float,
    relative: float = 0.0,
    report: Report,
) -> Minima:
    """Minimise functions of one shape by preconditioned L-BFGS, each with its own step, all evaluated together.

    A function leaves as soon as the largest absolute component of its gradient is within its tolerance, or no more than
    the part ``relative`` of what it was at ``start [function, parameter]``; after ``max_iter`` evaluations all do.
    """
    points = start.clone()
    norms = torch.full((len(start),), torch.inf, dtype=torch.float64, device=start.device)
    iterations = torch.zeros(len(start), dtype=torch.int64, device=start.device)
    descent = _Descent(evaluate, precondition, start)
    tolerances = (relative * descent.norms()).clamp(min=tolerance)
    for iteration in range(1, max_iter + 1):
        if iteration > 1:
            descent.step()
        rows = descent.rows
        norms[rows], iterations[rows], points[rows] = descent.norms(), iteration, descent.points
        left = norms[rows] > tolerances[rows]
        report(iteration, int(left.sum()))
        if not left.any():
            break
        if not left.all():
            descent.keep(left)
    return Minima(points, norms, iterations, norms <= tolerances)


class _Descent:
    """The functions still under way: where each is, and the step it tries next."""

    def __init__(self, evaluate: Evaluate, precondition: Precondition, start: Tensor) -> None:
        self._evaluate, self._precondition = evaluate, precondition
        self.rows = torch.arange(len(start), device=start.device)
        self.points = start.clone()
        self._value, self._gradient = evaluate(self.rows, self.points)
        self._image = precondition(self.rows, self._gradient)
        self._history = _History(max(3, min(_MEMORY, _MEMORY_BYTES // (3 * start.nbytes))))
        self._direction = torch.zeros_like(start)
        self._slope = torch.zeros_like(self._value)
        self._length = torch.ones_like(self._value)

    def norms(self) -> Tensor:
        return self._gradient.abs().amax(1).double()

    def keep(self, left: Tensor) -> None:
        for name, values in vars(self).items():
            if isinstance(values, Tensor):
                setattr(self, name, values[left])
        self._history.keep(left)

    def step(self) -> None:
        """Try a step of every function; where it does not go down enough, shorten the next one."""
        self._choose_directions()
        step = self._length[:, None].to(self.points.dtype) * self._direction
        value, gradient = self._evaluate(self.rows, self.points + step)
        expected = self._length * self._slope
        good = value <= self._value + _SUFFICIENT * expected + _NOISE * self._value.abs()
        taken = good[:, None]
        step = torch.where(taken, step, 0.0)
        gradient = torch.where(taken, gradient, self._gradient)
        image = self._precondition(self.rows, gradient)
        self._history.add(step, gradient - self._gradient, image - self._image)
        # the minimum of the parabola through what is known of a rejected step
        shorter = (-0.5 * expected / (value - self._value - expected)).nan_to_num(nan=0.1).clamp(0.1, 0.5)
        self._length = torch.where(good, 1.0, self._length * shorter)
        self.points = self.points + step
        self._value = torch.where(good, value, self._value)
        self._gradient, self._image = gradient, image

    def _choose_directions(self) -> None:
        fresh = self._length == 1.0  # the last step was taken, or there was none
        if fresh.any():
            directions = self._history.direction(self._gradient, self._image)
            self._direction = torch.where(fresh[:, None], directions, self._direction)
            self._slope = (self._direction * self._gradient).sum(1, dtype=torch.float64)


class _History:
    """The last steps of each function and the changes of gradient that went with them.

    Kept with each change is its image under the preconditioner: the recursion of Nocedal & Wright (2006, algorithm
    7.4) applies the preconditioner to the gradient less a sum of changes, which then is a sum of known images.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        # steps, changes, images and curvatures
        self._columns: tuple[list[Tensor], ...] = ([], [], [], [])
        self._scale: Tensor | None = None

    def add(self, step: Tensor, change: Tensor, image: Tensor) -> None:
        """Remember one step of every function; a function that did not move, or saw no curvature, adds nothing."""
        curvature = (step * change).sum(1)
        useful = curvature > 1e-10 * step.norm(dim=1) * change.norm(dim=1)
        scale = torch.where(useful, curvature / (change * image).sum(1), 1.0)
        self._scale = scale if self._scale is None else torch.where(useful, scale, self._scale)
        useful_rows = [torch.where(useful[:, None], new, 0.0) for new in (step, change, image)]
        for column, new in zip(self._columns, (*useful_rows, torch.where(useful, curvature, torch.inf)), strict=True):
            column.append(new)
            del column[: -self._length]

    def keep(self, left: Tensor) -> None:
        for column in self._columns:
            column[:] = [values[left] for values in column]
        self._scale = None if self._scale is None else self._scale[left]

    def direction(self, gradient: Tensor, image: Tensor) -> Tensor:
        """The quasi-Newton direction of descent from ``gradient`` and its ``image`` under the preconditioner."""
        rest, image = gradient.clone(), image.clone()
        amounts: list[Tensor] = []
        past = list(zip(*self._columns, strict=True))
        for step, change, its_image, curvature in reversed(past):
            amounts.append(((step * rest).sum(1) / curvature)[:, None])
            rest -= amounts[-1] * change
            image -= amounts[-1] * its_image
        if self._scale is not None:
            image *= self._scale[:, None]
        for (step, change, _, curvature), amount in zip(past, reversed(amounts), strict=True):
            image += (amount - ((change * image).sum(1) / curvature)[:, None]) * step
        return -image
