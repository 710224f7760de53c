"""Weights of a model as points: directions between and around them, and putting a model at a point."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bertology.errors import ModelError

Weights = Mapping[str, Tensor]
"""By name, tied weights once."""
_LEAST_SINE = 1e-3


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's weights by name; what is tied is there once."""
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


@contextlib.contextmanager
def placed(module: nn.Module, weights: Weights) -> Iterator[None]:
    """A module with other weights inside the context; afterwards it has its own, bit for bit.

    Args:
        module: of which the values of parameters are exchanged, not the parameters.
        weights: for each of its parameters, of the same shape, dtype and device.
    """
    parameters = dict(module.named_parameters())
    before = {name: parameter.data for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = weights[name]
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = before[name]


def moved(origin: Weights, directions: Sequence[Weights], steps: Sequence[float]) -> dict[str, Tensor]:
    """``origin`` plus each direction times its step."""
    point = dict(origin)
    for direction, step in zip(directions, steps, strict=True):
        point = {name: value + step * direction[name] for name, value in point.items()}
    return point


def difference(end: Weights, start: Weights) -> dict[str, Tensor]:
    """The direction from ``start`` to ``end``."""
    return {name: value - start[name] for name, value in end.items()}


def filter_normalised(weights: Weights, *, seed: int | Sequence[int]) -> dict[str, Tensor]:
    """A random direction whose rows are as long as those of the weights (Li et al. 2018, section 4).

    Each tensor of two or more dimensions gets normal noise, of which every slice along the first axis (of a linear
    layer an output, of an embedding table an entry) is scaled to the norm of the same slice of the weights. Biases and
    the parameters of norms, tensors of one dimension, get 0.

    Args:
        weights: by name.
        seed: of the noise; weights of the same names and shapes get the same noise before it is scaled.
    """
    number = np.random.SeedSequence(seed).generate_state(1)[0]
    generator = torch.Generator().manual_seed(int(number))
    return {name: _like_rows(value, generator) for name, value in weights.items()}


def _like_rows(value: Tensor, generator: torch.Generator) -> Tensor:
    if value.ndim < 2:
        return torch.zeros_like(value)
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
    scale = value.flatten(1).norm(dim=1) / noise.flatten(1).norm(dim=1)
    scaled: Tensor = noise * scale.reshape(-1, *[1] * (value.ndim - 1))
    return scaled


@dataclass(frozen=True)
class Projection:
    """Where a point lies in the line or plane spanned by directions."""

    steps: tuple[float, ...]
    """Steps in each direction to the nearest point of the line or plane."""
    outside: float
    """Distance from that nearest point, as a multiple of the length of the first direction."""


def project(displacement: Weights, directions: Sequence[Weights]) -> Projection:
    """The least-squares projection of a displacement onto directions; sums are in float64.

    Of one direction these are x and y of Hao et al. (2019): x = ⟨d, δ⟩ / ‖δ‖², y = √(‖d‖² − x²‖δ‖²) / ‖δ‖.
    """
    gram = gram_matrix(directions)
    against = np.array([_dot(displacement, direction) for direction in directions])
    steps = np.linalg.solve(gram, against)
    rest = sum(
        float(
            (value.double() - sum(s * d[name].double() for s, d in zip(steps, directions, strict=True))).square().sum()
        )
        for name, value in displacement.items()
    )
    return Projection(tuple(steps.tolist()), float(np.sqrt(rest / gram[0, 0])))


def gram_matrix(directions: Sequence[Weights]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """``[direction, direction]`` their inner products."""
    return np.array([[_dot(one, other) for other in directions] for one in directions])


def check_spans(directions: Sequence[Weights], names: Sequence[str]) -> None:
    """Check that directions from the first named model to each of the others span a line or plane.

    Raises:
        ModelError: two models are the same, or three lie on a line.
    """
    gram = gram_matrix(directions)
    for number, name in enumerate(names[1:]):
        if gram[number, number] == 0:
            raise ModelError(f"models {names[0]} and {name} have the same weights, which span nothing: give others")
    if len(directions) == 2:
        sine = 1 - gram[0, 1] ** 2 / (gram[0, 0] * gram[1, 1])
        if sine < _LEAST_SINE**2:
            raise ModelError(f"models {', '.join(names)} lie on a line and span no plane: give two of them")


def _dot(one: Weights, other: Weights) -> float:
    return sum(float((value.double() * other[name].double()).sum()) for name, value in one.items())
