"""How sharp a minimum is: the rise of the loss at a fixed radius, and both ends of the Hessian's spectrum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from bertology.errors import BertologyError, SignalError
from bertology.landscapes._losses import Loss, filter_normalised, mean_loss, moved, placed, weights_of

_CONFIDENCE = 0.975
_DIRECTIONS, _START = 1, 2


@dataclass(frozen=True)
class Sharpness:
    """The mean rise of the loss at a fixed radius, over random filter-normalised directions."""

    model: str
    value: float
    """Mean over directions of L(θ + r·d) − L(θ), in the unit of the loss."""
    ci_low: float
    """Lower end of the 95 % interval for other directions, by Student's t."""
    ci_high: float
    radius: float
    """r: each row of a weight matrix moves by this share of its own length."""
    rises: tuple[float, ...]
    """Rise of the loss in each direction."""


@dataclass(frozen=True)
class Eigenvalue:
    """The greatest and the least eigenvalue of the Hessian of the mean loss, by the Lanczos method.

    Where the least is negative, the weights are no minimum: the loss falls in its direction. Where it is larger in
    magnitude, the greatest alone says little of the curvature.
    """

    model: str
    value: float
    """Greatest Ritz value, in the unit of the loss: never above the eigenvalue, but for rounding."""
    residual: float
    """‖Hv − λv‖ / |λ| of its Ritz vector: some eigenvalue is not further from ``value`` than this share of it."""
    least: float
    """Least Ritz value: never below the least eigenvalue, but for rounding."""
    least_residual: float
    """‖Hv − λv‖ of its Ritz vector, over the larger magnitude of the two."""
    n_iterations: int
    """Products of the Hessian and a vector, each over all items."""
    converged: bool
    """Whether both residuals came under the tolerance."""
    n_weights: int
    dtype: str


def sharpness(
    loss: Loss,
    *,
    radius: float,
    n_directions: int,
    seed: int = 0,
    model: str = "",
    step: Callable[[], None] | None = None,
) -> Sharpness:
    """The rise of a loss around the present weights of its module.

    Rows are scaled by their own length (:func:`filter_normalised`), so that rescaling the weights of a layer that a
    norm follows changes nothing (Li et al. 2018; Dinh et al. 2017 on measures without it). Compare models at the same
    radius and loss.

    Args:
        loss: with its module at the weights in question, which it has again afterwards.
        radius: multiple of the normalised directions.
        n_directions: at least 2.
        seed: of the directions; models of one shape get the same noise.
        model: a name for the result.
        step: is called after each evaluation.

    Raises:
        BertologyError: fewer than two directions, or a radius of 0 or less.
    """
    from scipy.special import stdtrit

    if n_directions < 2 or not radius > 0:
        raise BertologyError(
            f"directions {n_directions}, radius {radius}: give 2 directions or more, and a radius above 0"
        )
    origin, at_rest, rises = weights_of(loss.module), mean_loss(loss), []
    for number in range(n_directions):
        direction = filter_normalised(origin, seed=(seed, _DIRECTIONS, number))
        with placed(loss.module, moved(origin, [direction], [radius])):
            rises.append(mean_loss(loss) - at_rest)
        if step is not None:
            step()
    mean, error = float(np.mean(rises)), float(np.std(rises, ddof=1) / math.sqrt(n_directions))
    reach = float(stdtrit(n_directions - 1, _CONFIDENCE)) * error
    return Sharpness(model, mean, mean - reach, mean + reach, radius, tuple(rises))


def top_eigenvalue(
    loss: Loss,
    *,
    iterations: int = 30,
    tolerance: float = 0.01,
    seed: int = 0,
    model: str = "",
    step: Callable[[], None] | None = None,
) -> Eigenvalue:
    """The greatest eigenvalue of the Hessian of the mean loss over all weights, biases and norms included; the least.

    The Lanczos method on products of the Hessian and a vector (Pearlmutter 1994), of which three vectors are held. It
    finds the greatest eigenvalue whatever the sign of the one of greatest magnitude, and needs far fewer products than
    power iteration where the next eigenvalue is near, as in encoders. Vectors are not orthogonalised again, which
    leaves the outermost Ritz values and their residuals right to the precision of the module's weights (Paige 1980).

    Args:
        loss: with its module at the weights in question.
        iterations: most products.
        tolerance: residual of both eigenvalues at which to stop.
        seed: of the first vector.
        model: a name for the result.
        step: is called after each product.

    Raises:
        BertologyError: no iterations, or a tolerance of 0 or less.
        SignalError: a product is not finite.
    """
    if iterations < 1 or not tolerance > 0:
        raise BertologyError(f"iterations {iterations}, tolerance {tolerance}: give 1 or more, and more than 0")
    parameters = list(loss.module.parameters())
    learned = [parameter.requires_grad for parameter in parameters]
    size = sum(parameter.numel() for parameter in parameters)
    dtype = parameters[0].dtype

    def product(vector: Tensor) -> Tensor:
        found = _hessian_times(loss, parameters, vector)
        if not bool(torch.isfinite(found).all()):
            raise SignalError(f"model {model}: a product with the Hessian is not finite: give other items, or float64")
        if step is not None:
            step()
        return found

    generator = torch.Generator().manual_seed(int(np.random.SeedSequence((seed, _START)).generate_state(1)[0]))
    start = torch.randn(size, generator=generator, dtype=torch.float64).to(parameters[0])
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        (least, greatest), residuals, count = _lanczos(product, start, iterations, tolerance)
    finally:
        for parameter, learns in zip(parameters, learned, strict=True):
            parameter.requires_grad_(learns)
    converged, name = max(residuals) <= tolerance, str(dtype).removeprefix("torch.")
    return Eigenvalue(model, greatest, residuals[1], least, residuals[0], count, converged, size, name)


def _lanczos(
    product: Callable[[Tensor], Tensor], start: Tensor, iterations: int, tolerance: float
) -> tuple[list[float], list[float], int]:
    """The least and the greatest Ritz value, the residuals of their vectors, and the products that it took."""
    vector, before = start / start.norm(), torch.zeros_like(start)
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        image = product(vector)
        diagonal.append(float(vector @ image))
        image = image - diagonal[-1] * vector - (beside[-1] if beside else 0.0) * before
        length = float(image.norm())
        values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
        ends = [float(values[end]) for end in (0, -1)]
        distances = [length * abs(float(vectors[-1, end])) for end in (0, -1)]
        scales = max(map(abs, ends)), abs(ends[1])
        residuals = [
            far / scale if scale else (math.inf if far else 0.0) for far, scale in zip(distances, scales, strict=True)
        ]
        if max(residuals) <= tolerance or len(diagonal) == iterations or length == 0:
            return ends, residuals, len(diagonal)
        beside.append(length)
        vector, before = image / length, vector


def _hessian_times(loss: Loss, parameters: list[torch.nn.Parameter], vector: Tensor) -> Tensor:
    """``[weight]`` the Hessian of the mean loss times a vector."""
    parts = [
        part.reshape(parameter.shape)
        for part, parameter in zip(torch.split(vector, [p.numel() for p in parameters]), parameters, strict=True)
    ]
    total = torch.zeros_like(vector)
    # Second derivatives pass only the plain kernel of attention.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        for summed, _ in loss.parts():
            slopes = torch.autograd.grad(summed, parameters, create_graph=True, materialize_grads=True)
            along = sum((slope * part).sum() for slope, part in zip(slopes, parts, strict=True))
            assert isinstance(along, Tensor)
            products = torch.autograd.grad(along, parameters, materialize_grads=True)
            total += torch.cat([value.flatten() for value in products]) / loss.n_items
    return total
