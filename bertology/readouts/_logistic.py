"""Many multinomial logistic regressions of one layer, fitted in the same passes over its vectors.

They are minimised by L-BFGS with a preconditioner. Features of an encoder are so ill-conditioned that plain L-BFGS
takes a hundred passes and more. Two approximations of the Hessian are used, both measured on a sample of the items:

* :func:`bound`, before anything is known: the bound ½ (I − 1/K) ⊗ XᵀX of Böhning (1992), without its coupling of the
  classes.
* :func:`curvature`, near the solution: for each class its own Xᵀ diag(p (1 − p)) X, in which only the few items count
  that are uncertain about it. Its eigenvectors are found at one strength and serve all, since between strengths little
  changes but its size and the penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bertology._memory import give_back_freed_memory
from bertology.readouts._fitting import IMPOSSIBLE
from bertology.readouts._items import Items, Moments, Sample
from bertology.readouts._sources import FeatureSource, without_unused

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Maps ``[n]`` numbers of functions and their ``[n, parameter]`` points to ``[n]`` float64 values and gradients."""
Precondition = Callable[[Tensor, Tensor], Tensor]
"""Maps ``[n]`` numbers of functions and ``[n, parameter]`` vectors to vectors over an approximate Hessian."""
_UNDERFLOW = 1e-30
_UNCERTAIN = 6
"""Items a feature of which the curvature of a class is measured one by one; the others count by their mean."""
_COUPLING = 2**0.5
"""Factor of the curvature for classes that are confused: between 1 and 2, by the row sums of diag p − ppᵀ."""
_LEAST = 0.01
"""Curvature of a class, as a part of what its frequency alone would give, below which it is not believed to fall."""
_MEMORY = 20  # steps remembered, or as many as fit into the bytes below
_MEMORY_BYTES = 512 << 20
_SUFFICIENT = 1e-4
_NOISE = 1e-7


class Fits:
    """The regressions of all problems and strengths of a layer: fit = (problem, strength), the strength the fastest.

    A point of a fit is ``[class, dim + 1]`` in one row: coefficients of standardised features, then the intercept.
    Vectors are never standardised themselves; mean and standard deviation go into the coefficients. Strengths
    ``[problem, strength]`` are scikit-learn's ``C``, float64; moments are those of this layer alone.
    """

    def __init__(self, items: Items, moments: Moments, strengths: Tensor) -> None:
        n_problems, self.n_strengths = strengths.shape
        present = items.frequency > 0  # [problem, class]
        self.n_classes, self.dim = present.shape[1], moments.mean.shape[2]
        self.problem = torch.arange(n_problems, device=present.device).repeat_interleave(self.n_strengths)
        # of two classes, scikit-learn has one weight vector: it is penalised as twice two opposite ones
        per_problem = torch.where(present.sum(1) == 2, 2.0, 1.0) / items.total
        # [fit] factor of ½‖W‖² beside the mean loss, float64
        self.penalty = per_problem[self.problem] / strengths.to(present.device).flatten()
        self.mean = moments.mean[self.problem, 0].float()  # [fit, dim]
        self.std = moments.std[self.problem, 0].float()  # [fit, dim]
        self.absent = torch.where(present, 0.0, IMPOSSIBLE)  # [problem, class] added to the intercepts

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


class Objective:
    """Mean loss with penalty over the items of a source of one layer, of any of the fits.

    Class is the slowest axis and item the fastest: softmax then runs along whole vectors of items.
    """

    def __init__(self, fits: Fits, source: FeatureSource, items: Items) -> None:
        self._fits, self._source, self._items = fits, source, items
        self._used = items.used

    def __call__(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``[n]`` (float64) and gradients ``[n, parameter]`` of the fits ``rows`` at ``points``."""
        fits, items, problem = self._fits, self._items, self._fits.problem[rows]
        raw, offsets = fits.for_raw(rows, points)
        n, n_classes, dim = raw.shape
        coefficients, intercepts = raw.transpose(0, 1).reshape(n_classes * n, dim), offsets.T.reshape(-1, 1)
        loss_sums = torch.zeros(n, dtype=torch.float64, device=raw.device)
        weight_sums = torch.zeros_like(coefficients)
        bias_sums = torch.zeros(n_classes, n, dtype=torch.float64, device=raw.device)
        for chunk in self._source.chunks():
            numbers, vectors = (part.to(points.device) for part in without_unused(*chunk, self._used))
            scores = torch.addmm(intercepts, coefficients, vectors[0].T).view(n_classes, n, -1)
            residual = scores.softmax(0)  # [class, n, m]
            index = items.labels[:, numbers][problem][None]
            at_label = residual.gather(0, index)
            loss = -at_label.clamp(min=_UNDERFLOW).log_()[0]
            if (at_label < _UNDERFLOW).any():
                loss = scores.logsumexp(0) - scores.gather(0, index)[0]
            residual.scatter_(0, index, at_label - 1)
            if not items.are_equal:
                counts = items.weights[:, numbers][problem]
                loss *= counts
                residual *= counts
            loss_sums += loss.sum(1, dtype=torch.float64)
            bias_sums += residual.sum(2)
            weight_sums.addmm_(residual.flatten(0, 1), vectors[0])
            del chunk, vectors, scores, residual, index, at_label, loss  # or held while the next are read
        total = items.total[problem].clamp(min=1e-30)
        penalty, (weights, _) = fits.penalty[rows], fits.split(points)
        value = loss_sums / total + 0.5 * penalty * weights.flatten(1).square().sum(1, dtype=torch.float64)
        # Sums for vectors as they come, turned into means for standardised ones.
        slopes, biases = weight_sums.view(n_classes, n, dim).transpose(0, 1), bias_sums.T.float()
        slopes = (slopes - biases[:, :, None] * fits.mean[rows][:, None]) / fits.std[rows][:, None]
        gradient = torch.cat([slopes, biases[:, :, None]], dim=2) / total.float()[:, None, None]
        gradient[:, :, :-1] += penalty.float()[:, None, None] * weights
        return value, gradient.flatten(1)


class Spread(NamedTuple):
    """How the features of a sample of one layer vary together."""

    correlations: Tensor  # [dim, dim]
    spectrum: Tensor  # [dim] eigenvalues of them
    basis: Tensor  # [dim, dim] eigenvectors, in columns


def spread_of(sample: Sample) -> Spread:
    vectors = sample.source.layer(0)  # [item, dim], changed in place: another copy would be as large
    vectors -= vectors.mean(0)
    vectors /= vectors.square().mean(0).clamp(min=1e-12).sqrt()
    vectors -= vectors.mean(0)
    correlations = vectors.T @ vectors / len(vectors)
    spectrum, basis = _spectrum(correlations)
    return Spread(correlations, spectrum, basis.contiguous())


def _spectrum(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors, in columns, of symmetric matrices."""
    try:
        values, vectors = torch.linalg.eigh(matrices)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        # Features that are nearly copies of each other, as of a model whose layers have collapsed.
        values, vectors = (part.to(matrices) for part in torch.linalg.eigh(matrices.double()))
    return values, vectors


def bound(fits: Fits, spread: Spread) -> Precondition:
    """Division by an upper bound of the Hessian that is the same at every point."""
    half_spectrum = 0.5 * spread.spectrum.clamp(min=0)

    def divided(rows: Tensor, gradient: Tensor) -> Tensor:
        weights, biases = fits.split(gradient)
        result = torch.empty_like(gradient).view(len(rows), fits.n_classes, -1)
        rotated = weights.contiguous() @ spread.basis / (half_spectrum + fits.penalty[rows].float()[:, None, None])
        result[:, :, :-1] = rotated @ spread.basis.T
        result[:, :, -1] = 2 * biases
        return result.flatten(1)

    return divided


@dataclass(frozen=True)
class _Blocks:
    """Curvatures of classes in problems with the same labels; each block is one class, or several that share one."""

    classes: Tensor  # [block, c] the classes of each block
    mean: Tensor  # [block, 1, dim] mean of the features, each item counted by its p (1 − p)
    basis: Tensor  # [block, dim, dim] eigenvectors, in columns, of their covariance counted the same way
    spectrum: Tensor  # [block, 1, dim] its eigenvalues

    def divide(self, gradient: Tensor, uncertainty: Tensor, penalty: Tensor) -> Tensor:
        """``[n, class, dim + 1]`` over ``uncertainty`` ``[n, class]`` times the curvature, and the ``[n]`` penalty.

        The intercept, which is not penalised, is eliminated first: what is left for the coefficients is the covariance.
        """
        n, (n_blocks, n_alike) = len(gradient), self.classes.shape

        def by_block(values: Tensor) -> Tensor:  # [n, class, …] to [block, n · c, …]
            return values[:, self.classes].transpose(0, 1).flatten(1, 2)

        slopes, size = by_block(gradient), by_block(uncertainty)[:, :, None]
        intercept = slopes[:, :, -1:]
        rotated = torch.bmm(slopes[:, :, :-1] - intercept * self.mean, self.basis)
        rotated /= size * self.spectrum + penalty.repeat_interleave(n_alike)[:, None]
        weights = torch.bmm(rotated, self.basis.mT)
        solution = torch.cat([weights, intercept / size - (weights * self.mean).sum(2, keepdim=True)], dim=2)
        return solution.view(n_blocks, n, n_alike, -1).transpose(0, 1)


def curvature(
    fits: Fits, sample: Sample, items: Items, points: Tensor, correlations: Tensor, *, memory: int
) -> Precondition:
    """Division by the curvature of each class near ``points [fit, parameter]``, and the penalty.

    It is measured on a sample with labels and weights ``items``. The rarest classes share their eigenvectors where
    ``memory`` bytes are too few.
    """
    first: dict[bytes, int] = {}
    alike = [first.setdefault(row.cpu().numpy().tobytes(), problem) for problem, row in enumerate(items.labels)]
    most_blocks = max(1, memory // (4 * fits.dim**2 * len(set(alike))))
    coefficients, intercepts = fits.for_raw(torch.arange(len(fits), device=points.device), points)
    uncertainty = torch.empty(len(fits), fits.n_classes, device=points.device)  # mean p (1 − p)
    blocks: dict[int, Sequence[_Blocks]] = {}  # by first problem with the same labels
    vectors = sample.source.layer(0)  # [item, dim]
    n_strengths = fits.n_strengths
    for problem, first_alike in enumerate(alike):
        rows, middle = slice(problem * n_strengths, (problem + 1) * n_strengths), problem * n_strengths
        middle += n_strengths // 2
        scores = torch.baddbmm(intercepts[rows, :, None], coefficients[rows], vectors.T.expand(n_strengths, -1, -1))
        variance = scores.softmax(1)  # [strength, class, item]
        del scores
        variance *= 1 - variance
        variance *= items.weights[problem] / items.total[problem].clamp(min=1e-30).float()
        frequency = items.frequency[problem]
        uncertainty[rows] = variance.sum(2).maximum(_LEAST * frequency * (1 - frequency))
        if first_alike == problem:
            at_middle = fits.mean[middle], fits.std[middle], variance[n_strengths // 2], uncertainty[middle]
            blocks[problem] = _blocks(vectors, *at_middle, frequency > 0, correlations, most_blocks)
        del variance
    del vectors, coefficients, intercepts
    give_back_freed_memory()  # what stays of a layer lies between what does not
    first_of, coupled = torch.tensor(alike, device=points.device), _COUPLING * uncertainty

    def divided(rows: Tensor, gradient: Tensor) -> Tensor:
        whole = gradient.view(len(rows), fits.n_classes, -1)
        result = torch.zeros_like(whole)
        problems, penalty = first_of[fits.problem[rows]], fits.penalty[rows].float()
        for problem, blocks_of_problem in blocks.items():
            chosen = (problems == problem).nonzero().squeeze(1)
            if len(chosen):
                for of_classes in blocks_of_problem:
                    solution = of_classes.divide(whole[chosen], coupled[rows[chosen]], penalty[chosen])
                    result[chosen[:, None, None], of_classes.classes] = solution
        return result.flatten(1)

    return divided


def _blocks(
    vectors: Tensor,
    mean: Tensor,
    std: Tensor,
    variance: Tensor,
    uncertainty: Tensor,
    present: Tensor,
    correlations: Tensor,
    most: int,
) -> list[_Blocks]:
    """Blocks of a problem, from ``[item, dim]`` vectors, not standardised yet, and ``[class, item]`` variances.

    The variances of a class sum to its ``uncertainty``.
    """
    n_uncertain = min(_UNCERTAIN * vectors.shape[1], len(vectors))
    blocks = []
    for several in _shared_out(uncertainty, present, most):
        means, covariances = [], []
        for classes in several:
            weight, items = variance[classes].sum(0).topk(n_uncertain)
            rows, whole = (vectors[items] - mean) / std, uncertainty[classes].sum()
            means.append(weight @ rows / whole)
            second = (rows * weight[:, None]).T @ rows + (whole - weight.sum()).clamp(min=0) * correlations
            covariances.append(second / whole - means[-1][:, None] * means[-1])
        spectrum, basis = _spectrum(torch.stack(covariances))
        blocks.append(_Blocks(several, torch.stack(means)[:, None], basis, spectrum.clamp_(min=0)[:, None]))
    return blocks


def _shared_out(uncertainty: Tensor, present: Tensor, most: int) -> list[Tensor]:
    """The classes that occur, those that matter most alone, the others together if there are more than ``most``."""
    classes = uncertainty.where(present, -1.0).argsort(descending=True, stable=True)[: int(present.sum())]
    if len(classes) == 2:  # their p (1 − p) are one
        return [classes[None]]
    alone = len(classes) if len(classes) <= most else most - 1
    return [part for part in (classes[:alone, None], classes[None, alone:]) if part.numel()]


class Minima(NamedTuple):
    """The end of the minimisation of each function."""

    points: Tensor  # [function, parameter]
    gradient_norm: Tensor  # [function] largest absolute component of the gradient there, float64
    iterations: Tensor  # [function] evaluations until it arrived, or all there were
    converged: Tensor  # [function] whether the gradient norm met the tolerance


def minimise(
    evaluate: Evaluate,
    start: Tensor,
    *,
    precondition: Precondition,
    max_iter: int,
    tolerance: float,
    relative: float = 0.0,
    report: Callable[[int, int], None],
) -> Minima:
    """Minimise functions of one shape by preconditioned L-BFGS, each with its own step, all evaluated together.

    A function leaves as soon as the largest absolute component of its gradient is within its tolerance, or no more than
    the part ``relative`` of what it was at ``start [function, parameter]``; after ``max_iter`` evaluations all do. The
    report is called with the number of evaluations so far and the number of functions that are left.
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
    """The functions still under way: where each is, the step it tries next, and its last steps.

    Of each step are kept the change of the gradient and its image under the preconditioner: the recursion of Nocedal &
    Wright (2006, algorithm 7.4) applies the preconditioner to the gradient less a sum of changes, which then is a sum
    of known images.
    """

    def __init__(self, evaluate: Evaluate, precondition: Precondition, start: Tensor) -> None:
        self._evaluate, self._precondition = evaluate, precondition
        self.rows = torch.arange(len(start), device=start.device)
        self.points = start.clone()
        self._value, self._gradient = evaluate(self.rows, self.points)
        self._image = precondition(self.rows, self._gradient)
        self._most = max(3, min(_MEMORY, _MEMORY_BYTES // (3 * start.nbytes)))
        self._past: list[tuple[Tensor, ...]] = []  # step, change, image and curvature
        self._scale: Tensor | None = None
        self._direction = torch.zeros_like(start)
        self._slope = torch.zeros_like(self._value)
        self._length = torch.ones_like(self._value)

    def norms(self) -> Tensor:
        return self._gradient.abs().amax(1).double()

    def keep(self, left: Tensor) -> None:
        for name, values in vars(self).items():
            if isinstance(values, Tensor):
                setattr(self, name, values[left])
        for place in range(len(self._past)):
            self._past[place] = tuple(values[left] for values in self._past[place])

    def step(self) -> None:
        """Try a step of every function; where it does not go down enough, shorten the next one."""
        fresh = self._length == 1.0  # the last step was taken, or there was none
        if fresh.any():
            self._direction = torch.where(fresh[:, None], self._downwards(), self._direction)
            self._slope = (self._direction * self._gradient).sum(1, dtype=torch.float64)
        step = self._length[:, None].to(self.points.dtype) * self._direction
        value, gradient = self._evaluate(self.rows, self.points + step)
        expected = self._length * self._slope
        good = value <= self._value + _SUFFICIENT * expected + _NOISE * self._value.abs()
        taken = good[:, None]
        step = torch.where(taken, step, 0.0)
        gradient = torch.where(taken, gradient, self._gradient)
        image = self._precondition(self.rows, gradient)
        self._remember(step, gradient - self._gradient, image - self._image)
        # the minimum of the parabola through what is known of a rejected step
        shorter = (-0.5 * expected / (value - self._value - expected)).nan_to_num(nan=0.1).clamp(0.1, 0.5)
        self._length = torch.where(good, 1.0, self._length * shorter)
        self.points = self.points + step
        self._value = torch.where(good, value, self._value)
        self._gradient, self._image = gradient, image

    def _remember(self, step: Tensor, change: Tensor, image: Tensor) -> None:
        """A function that did not move, or saw no curvature, adds nothing."""
        curvature = (step * change).sum(1)
        useful = curvature > 1e-10 * step.norm(dim=1) * change.norm(dim=1)
        scale = torch.where(useful, curvature / (change * image).sum(1), 1.0)
        self._scale = scale if self._scale is None else torch.where(useful, scale, self._scale)
        rows = [torch.where(useful[:, None], new, 0.0) for new in (step, change, image)]
        self._past.append((*rows, torch.where(useful, curvature, torch.inf)))
        del self._past[: -self._most]

    def _downwards(self) -> Tensor:
        """The quasi-Newton direction of descent."""
        rest, image = self._gradient.clone(), self._image.clone()
        amounts: list[Tensor] = []
        for step, change, its_image, curvature in reversed(self._past):
            amounts.append(((step * rest).sum(1) / curvature)[:, None])
            rest -= amounts[-1] * change
            image -= amounts[-1] * its_image
        if self._scale is not None:
            image *= self._scale[:, None]
        for (step, change, _, curvature), amount in zip(self._past, reversed(amounts), strict=True):
            image += (amount - ((change * image).sum(1) / curvature)[:, None]) * step
        return -image
