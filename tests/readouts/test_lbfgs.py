"""The minimiser against scipy's, function by function."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from bertology.readouts._logistic import minimise


def bowls(n: int, dim: int) -> tuple[Tensor, Tensor]:
    """Matrices and shifts of ``n`` convex functions Σ log cosh(Ax − b) + ½ |x|² / 10, some far worse conditioned."""
    random = torch.Generator().manual_seed(0)
    matrices = torch.randn(n, 2 * dim, dim, generator=random, dtype=torch.float64)
    matrices *= torch.logspace(0, -2, dim, dtype=torch.float64) ** torch.linspace(0, 1, n)[:, None, None]
    return matrices, 3 * torch.randn(n, 2 * dim, generator=random, dtype=torch.float64)


def evaluate(matrices: Tensor, shifts: Tensor, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    inside = torch.einsum("nij,nj->ni", matrices[rows], points.double()) - shifts[rows]
    value = (inside.abs() + torch.log1p(torch.exp(-2 * inside.abs()))).sum(1) + 0.05 * points.double().square().sum(1)
    gradient = torch.einsum("nij,ni->nj", matrices[rows], inside.tanh()) + 0.1 * points
    return value, gradient.to(points.dtype)


def test_minima_are_those_of_scipy() -> None:
    matrices, shifts = bowls(6, 8)
    calls: list[tuple[int, int]] = []
    found = minimise(
        lambda rows, points: evaluate(matrices, shifts, rows, points),
        torch.zeros(6, 8, dtype=torch.float64),
        precondition=lambda rows, gradient: gradient,
        max_iter=300,
        tolerance=1e-8,
        report=lambda iteration, left: calls.append((iteration, left)),
    )
    assert found.converged.all()
    for number in range(6):

        def one(point: np.ndarray, number: int = number) -> tuple[float, np.ndarray]:
            value, gradient = evaluate(matrices, shifts, torch.tensor([number]), torch.from_numpy(point)[None])
            return float(value), gradient[0].numpy()

        peer = minimize(one, np.zeros(8), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15})
        np.testing.assert_allclose(found.points[number].numpy(), peer.x, atol=1e-5)
    assert [iteration for iteration, _ in calls] == list(range(1, int(found.iterations.max()) + 1))
    assert [left for _, left in calls] == [int((found.iterations > i).sum()) for i, _ in calls]


def test_each_function_goes_its_own_way() -> None:
    matrices, shifts = bowls(4, 5)

    def run(numbers: list[int]) -> Tensor:
        chosen = torch.tensor(numbers)
        return minimise(
            lambda rows, points: evaluate(matrices, shifts, chosen[rows], points),
            torch.zeros(len(numbers), 5, dtype=torch.float64),
            precondition=lambda rows, gradient: gradient * (1 + chosen[rows])[:, None],
            max_iter=40,
            tolerance=1e-6,
            report=lambda iteration, left: None,
        ).points

    together = run([0, 1, 2, 3])
    for number in range(4):
        torch.testing.assert_close(together[number], run([number])[0], rtol=1e-9, atol=1e-9)


def test_steps_that_overshoot_are_shortened() -> None:
    matrices, shifts = bowls(3, 5)
    values: list[Tensor] = []

    def watched(rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = evaluate(matrices, shifts, rows, points)
        values.append(value)
        return value, gradient

    found = minimise(
        watched,
        torch.zeros(3, 5, dtype=torch.float64),
        precondition=lambda rows, gradient: 1e4 * gradient,
        max_iter=200,
        tolerance=1e-6,
        report=lambda iteration, left: None,
    )
    assert (values[1] > values[0]).any()  # the first step was too long
    assert found.converged.all()


def test_limits() -> None:
    matrices, shifts = bowls(3, 5)
    start = torch.zeros(3, 5, dtype=torch.float64)
    first = evaluate(matrices, shifts, torch.arange(3), start)[1].abs().amax(1)

    def run(max_iter: int, tolerance: float, relative: float) -> tuple[Tensor, Tensor, Tensor]:
        found = minimise(
            lambda rows, points: evaluate(matrices, shifts, rows, points),
            start,
            precondition=lambda rows, gradient: gradient,
            max_iter=max_iter,
            tolerance=tolerance,
            relative=relative,
            report=lambda iteration, left: None,
        )
        return found.gradient_norm, found.iterations, found.converged

    norms, iterations, converged = run(1, 1e-6, 0.0)
    torch.testing.assert_close(norms, first)
    assert iterations.tolist() == [1, 1, 1]
    assert not converged.any()
    norms, _, converged = run(200, 1e-9, 0.1)
    assert converged.all()
    assert (norms <= 0.1 * first).all()
    assert (norms > 1e-9).all()
    assert run(200, 1e9, 0.0)[1].tolist() == [1, 1, 1]
