"""Many smooth convex functions minimised side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From ``[n]`` numbers of functions and their ``[n, parameter]`` points to ``[n]`` float64 values and gradients."""
Precondition = Callable[[Tensor, Tensor], Tensor]
"""From ``[n]`` numbers of functions and ``[n, parameter]`` gradients to gradients over an approximate Hessian."""

_MEMORY = 10
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


class _History:
    """The last steps of each function and the changes of gradient that went with them."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []
        self.changes: list[Tensor] = []
        self.curvature: list[Tensor] = []

    def add(self, step: Tensor, change: Tensor) -> None:
        """Remember one step of every function; a function that did not move, or saw no curvature, adds nothing."""
        product = (step * change).sum(1)
        useful = product > 1e-10 * step.norm(dim=1) * change.norm(dim=1)
        self.steps.append(torch.where(useful[:, None], step, 0.0))
        self.changes.append(torch.where(useful[:, None], change, 0.0))
        self.curvature.append(torch.where(useful, product, torch.inf))
        if len(self.steps) > _MEMORY:
            del self.steps[0], self.changes[0], self.curvature[0]

    def keep(self, rows: Tensor) -> None:
        """Forget the functions that are not in ``rows``."""
        self.steps = [step[rows] for step in self.steps]
        self.changes = [change[rows] for change in self.changes]
        self.curvature = [value[rows] for value in self.curvature]

    def direction(self, gradient: Tensor, precondition: Callable[[Tensor], Tensor]) -> Tensor:
        """The quasi-Newton direction of descent (Nocedal & Wright 2006, algorithm 7.4)."""
        rest = gradient.clone()
        amounts = []
        for step, change, curvature in zip(
            reversed(self.steps), reversed(self.changes), reversed(self.curvature), strict=True
        ):
            amount = (step * rest).sum(1) / curvature
            rest -= amount[:, None] * change
            amounts.append(amount)
        rest = precondition(rest)
        for step, change, curvature, amount in zip(
            self.steps, self.changes, self.curvature, reversed(amounts), strict=True
        ):
            rest += (amount - (change * rest).sum(1) / curvature)[:, None] * step
        return -rest


def minimise(
    evaluate: Evaluate,
    start: Tensor,
    *,
    precondition: Precondition,
    max_iter: int,
    tolerance: float,
    report: Callable[[int, int], None],
) -> Minima:
    """Minimise functions of one shape by preconditioned L-BFGS, each with its own step, all evaluated together.

    A function leaves as soon as the largest component of its gradient is within ``tolerance``.

    Args:
        evaluate: values and gradients of the functions asked for.
        start: ``[function, parameter]`` where to begin.
        precondition: an approximate inverse Hessian for each function.
        max_iter: evaluations at most.
        tolerance: largest absolute gradient component of a function that has arrived.
        report: told after each evaluation how many there have been and how many functions are left.
    """
    n_functions = len(start)
    points = start.clone()
    norms = torch.full((n_functions,), torch.inf, dtype=torch.float64, device=start.device)
    iterations = torch.zeros(n_functions, dtype=torch.int64, device=start.device)
    rows = torch.arange(n_functions, device=start.device)  # functions still under way
    history = _History()
    here = start.clone()
    value, gradient = evaluate(rows, here)
    scale = torch.ones(len(rows), device=start.device)
    direction = torch.zeros_like(here)
    slope = torch.zeros_like(value)
    iteration = 1
    while True:
        norms[rows] = gradient.abs().amax(1).double()
        iterations[rows] = iteration
        points[rows] = here
        left = norms[rows] > tolerance
        report(iteration, int(left.sum()))
        if not left.any() or iteration == max_iter:
            break
        if not left.all():
            rows, here, value, gradient, scale = (t[left] for t in (rows, here, value, gradient, scale))
            direction, slope = direction[left], slope[left]
            history.keep(left)
        fresh = scale == 1.0
        if fresh.any():
            found = history.direction(gradient, lambda g: precondition(rows, g))  # noqa: B023
            direction = torch.where(fresh[:, None], found, direction)
            slope = torch.where(fresh, (direction * gradient).sum(1).double(), slope)
        step = scale[:, None] * direction
        new_value, new_gradient = evaluate(rows, here + step)
        iteration += 1
        bound = value + _SUFFICIENT * scale * slope + _NOISE * value.abs()
        good = new_value <= bound
        history.add(torch.where(good[:, None], step, 0.0), torch.where(good[:, None], new_gradient - gradient, 0.0))
        here = torch.where(good[:, None], here + step, here)
        # a rejected step is shortened to the minimum of the parabola through what is known
        excess = new_value - value - scale * slope
        shorter = (-slope * scale / (2 * excess)).clamp(0.1, 0.5) * scale
        scale = torch.where(good, 1.0, shorter.to(scale.dtype))
        value = torch.where(good, new_value, value)
        gradient = torch.where(good[:, None], new_gradient, gradient)
    return Minima(points, norms, iterations, norms <= tolerance)
