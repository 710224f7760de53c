"""Loss and gradient of many multinomial logistic regressions in one pass over the data."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertology._workers import Workers
from bertology.readouts._base import Targets, class_weights, item_weights
from bertology.readouts._features import FeatureSource, without_unused
from bertology.readouts._moments import Moments
from bertology.readouts._scoring import IMPOSSIBLE

_UNDERFLOW = 1e-30


@dataclass(frozen=True)
class Items:
    """What every problem wants of every item."""

    labels: Tensor
    """``[problem, item]`` class; of an item that a problem does not use, any class that it has."""
    weights: Tensor
    """``[problem, item]`` float32, 0 where a problem does not use an item."""
    frequency: Tensor
    """``[problem, class]`` part of the training items' weight that the class has, 0 if it does not occur."""
    total: Tensor
    """``[problem]`` sum of the weights, float64."""
    are_equal: bool
    """Whether all weights are 1."""

    @classmethod
    def of(cls, targets: Targets, device: torch.device) -> Items:
        """From what a person gives."""
        weights = torch.from_numpy(item_weights(targets)).to(device)
        by_class = torch.from_numpy(class_weights(targets)).to(device)
        some_class = by_class.argmax(1)[:, None]
        labels = torch.from_numpy(targets.labels).to(device)
        usable = (labels >= 0) & (by_class.gather(1, labels.clamp(min=0)) > 0)
        labels = torch.where(usable, labels, some_class)
        return cls._with(labels, weights, (by_class / by_class.sum(1, keepdim=True)).float())

    @property
    def used(self) -> Tensor:
        """``[item]`` whether some problem uses an item; on the processor, where sources are read."""
        return (self.weights > 0).any(0).cpu()

    def at(self, items: Tensor) -> Items:
        """Only those at the places ``items``, in that order."""
        items = items.to(self.labels.device)
        return self._with(self.labels[:, items], self.weights[:, items], self.frequency)

    def only(self, problems: Tensor) -> Items:
        """Only some of the problems."""
        return self._with(self.labels[problems], self.weights[problems], self.frequency[problems])

    @classmethod
    def _with(cls, labels: Tensor, weights: Tensor, frequency: Tensor) -> Items:
        total = weights.sum(1, dtype=torch.float64)
        return cls(labels, weights, frequency, total, bool((weights == 1).all()))


class Fits:
    """The regressions of all problems, layers and strengths: fit = (problem, layer, strength), the last the fastest.

    A point of a fit is ``[class, dim + 1]`` in one row: coefficients of standardised features, then the intercept.
    Vectors are never standardised themselves; mean and standard deviation go into the coefficients.

    Args:
        items: the training items of every problem.
        moments: mean and standard deviation under each problem's weights.
        strengths: ``[problem, layer, strength]`` the path of scikit-learn's ``C``, float64.
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
        """Where every fit begins: all parameters 0."""
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
    """Mean loss with penalty over the items of one source, of any of the fits.

    Args:
        fits: the regressions.
        source: vectors.
        items: what the problems want of them.
        workers: who does it.
    """

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
        """Take in a chunk in every layer."""
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
        """The same, ``[n, class, dim]``."""
        return weights.view(*self.shape, -1).transpose(0, 1)


class _Sums:
    """What one worker has found out about the fits of one layer."""

    def __init__(self, batch: _LayerBatch) -> None:
        self.batch = batch
        self.loss = torch.zeros(batch.shape[1], dtype=torch.float64, device=batch.weights.device)
        self.weights = torch.zeros_like(batch.weights)
        self.biases = torch.zeros(batch.shape, dtype=torch.float64, device=batch.weights.device)

    def add(self, vectors: Tensor, labels: Tensor, counts: Tensor | None) -> None:
        """Take in ``[m, dim]`` vectors with their ``[n, m]`` labels and weights."""
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
