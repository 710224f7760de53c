"""Many smooth convex functions minimised side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

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


@dataclass(frozen=True)
class Minima:
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

    A function leaves as soon as the largest absolute component of its gradient is within its tolerance.

    Args:
        evaluate: values and gradients of the functions asked for.
        start: ``[function, parameter]`` where to begin.
        precondition: an approximate inverse Hessian of each function.
        max_iter: evaluations at most.
        tolerance: gradient norm of a function that has arrived.
        relative: a function has arrived, too, when its gradient norm is this part of what it was at the start.
        report: told after each evaluation.
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
        """Leave out the functions that are not ``left``."""
        self.rows, self.points = self.rows[left], self.points[left]
        self._value, self._gradient, self._image = self._value[left], self._gradient[left], self._image[left]
        self._direction, self._slope, self._length = self._direction[left], self._slope[left], self._length[left]
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
            found = self._history.direction(self._gradient, self._image)
            self._direction = torch.where(fresh[:, None], found, self._direction)
            self._slope = (self._direction * self._gradient).sum(1, dtype=torch.float64)


class _History:
    """The last steps of each function and the changes of gradient that went with them.

    Kept with each change is its image under the preconditioner: the recursion of Nocedal & Wright (2006, algorithm
    7.4) applies the preconditioner to the gradient less a sum of changes, which then is a sum of known images.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._steps: list[Tensor] = []
        self._changes: list[Tensor] = []
        self._images: list[Tensor] = []
        self._curvatures: list[Tensor] = []
        self._scale: Tensor | None = None

    def add(self, step: Tensor, change: Tensor, image: Tensor) -> None:
        """Remember one step of every function; a function that did not move, or saw no curvature, adds nothing."""
        curvature = (step * change).sum(1)
        useful = curvature > 1e-10 * step.norm(dim=1) * change.norm(dim=1)
        scale = torch.where(useful, curvature / (change * image).sum(1), 1.0)
        self._scale = scale if self._scale is None else torch.where(useful, scale, self._scale)
        for column, new in ((self._steps, step), (self._changes, change), (self._images, image)):
            column.append(torch.where(useful[:, None], new, 0.0))
        self._curvatures.append(torch.where(useful, curvature, torch.inf))
        if len(self._steps) > self._length:
            for column in self._columns():
                del column[0]

    def keep(self, left: Tensor) -> None:
        """Forget the functions that are not ``left``."""
        for column in self._columns():
            column[:] = [values[left] for values in column]
        self._scale = None if self._scale is None else self._scale[left]

    def direction(self, gradient: Tensor, image: Tensor) -> Tensor:
        """The quasi-Newton direction of descent from ``gradient`` and its ``image`` under the preconditioner."""
        rest, image = gradient.clone(), image.clone()
        amounts: list[Tensor] = []
        past = list(zip(*self._columns(), strict=True))
        for step, change, its_image, curvature in reversed(past):
            amounts.append(((step * rest).sum(1) / curvature)[:, None])
            rest -= amounts[-1] * change
            image -= amounts[-1] * its_image
        if self._scale is not None:
            image *= self._scale[:, None]
        for (step, change, _, curvature), amount in zip(past, reversed(amounts), strict=True):
            image += (amount - ((change * image).sum(1) / curvature)[:, None]) * step
        return -image

    def _columns(self) -> tuple[list[Tensor], ...]:
        return self._steps, self._changes, self._images, self._curvatures
