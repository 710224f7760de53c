"""Directions, sharpness and eigenvalues on losses whose curvature is known."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertology.errors import SignalError
from bertology.landscapes import placed
from bertology.landscapes._run import Loss, cut, filter_normalised, point_of, project, sharpness, top_eigenvalue


def bowl_of(hessian: Tensor) -> Loss:
    """½ wᵀHw of the weights w of one layer around where it was made, in two batches of one and three items."""
    module = nn.Linear(3, 4, dtype=torch.float64).requires_grad_(False)
    centre = point_of(module)

    def parts() -> Iterator[Tensor]:
        away = torch.cat([parameter.flatten() for parameter in module.parameters()]) - centre
        for n_items in (1, 3):
            yield n_items * away @ hessian @ away / 2

    return Loss(module, "bits", 4, parts)


def bowl(eigenvalues: list[float]) -> Loss:
    """A bowl with these eigenvalues, the rest of them 0.1, in a random basis."""
    size = 4 * 3 + 4
    values = torch.tensor([*eigenvalues, *[0.1] * (size - len(eigenvalues))], dtype=torch.float64)
    basis, _ = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    return bowl_of(basis * values @ basis.T)


def nothing() -> None:
    pass


@pytest.mark.parametrize("eigenvalues", [[7.5, 3.0, -2.0], [-9.0, 4.0, 1.0]])
def test_the_top_eigenvalue_is_the_known_one(eigenvalues: list[float]) -> None:
    """The second bowl's eigenvalue of greatest magnitude is negative: it is found, too."""
    found = top_eigenvalue(bowl(eigenvalues), iterations=400, tolerance=1e-6, step=nothing)
    assert found.value == pytest.approx(max(eigenvalues), rel=1e-4)
    assert found.least == pytest.approx(min(eigenvalues), rel=1e-4)
    assert found.converged
    assert max(found.residual, found.least_residual) <= 1e-6
    assert (found.n_weights, found.dtype) == (16, "float64")


def test_sharpness_by_hand() -> None:
    """With H = h·I a step d raises the loss by h/2 ‖d‖², and ‖d‖² is radius² times that of the matrix."""
    toy = bowl_of(3.0 * torch.eye(16, dtype=torch.float64))
    found = sharpness(toy, radius=0.2, n_directions=10, step=nothing)
    expected = 1.5 * 0.2**2 * float(toy.module.get_parameter("weight").square().sum())
    assert found.value == pytest.approx(expected, rel=1e-9)
    assert found.ci_low == pytest.approx(expected, rel=1e-9)
    assert len(found.rises) == 10


def test_the_interval_of_sharpness_is_that_of_the_mean_of_directions() -> None:
    from scipy.stats import t

    toy = bowl([7.5, 3.0, -2.0])
    found = sharpness(toy, radius=0.2, n_directions=10, seed=4, step=nothing)
    rises = np.array(found.rises)
    low, high = t.interval(0.95, 9, loc=rises.mean(), scale=rises.std(ddof=1) / np.sqrt(10))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high))
    assert low < found.value < high
    again = sharpness(toy, radius=0.2, n_directions=10, seed=4, step=nothing)
    assert again.rises == found.rises


def test_rows_of_directions_are_as_long_as_those_of_the_weights() -> None:
    module = nn.Sequential(nn.Embedding(9, 5, padding_idx=0), nn.Linear(5, 4), nn.LayerNorm(4))
    weights = cut(module, point_of(module))
    direction = cut(module, filter_normalised(weights, seed=1))
    for name, value in weights.items():
        if value.ndim == 1:
            assert not direction[name].any(), name
        else:
            torch.testing.assert_close(direction[name].norm(dim=1), value.norm(dim=1))
            assert not torch.allclose(direction[name][1:], value[1:])
    assert not direction["0.weight"][0].any()  # of padding, whose weights are 0
    other = cut(module, filter_normalised(weights, seed=2))
    assert not torch.equal(direction["1.weight"], other["1.weight"])


def test_weights_are_the_same_bits_afterwards_also_after_an_error() -> None:
    toy = bowl([7.5, 3.0])
    before, learns = point_of(toy.module), [p.requires_grad for p in toy.module.parameters()]
    places = [parameter.data_ptr() for parameter in toy.module.parameters()]

    def stop() -> None:
        raise KeyboardInterrupt

    sharpness(toy, radius=0.1, n_directions=2, step=nothing)
    for measure in (
        lambda: sharpness(toy, radius=0.1, n_directions=3, step=stop),
        lambda: top_eigenvalue(toy, iterations=30, tolerance=0.01, step=stop),
    ):
        with pytest.raises(KeyboardInterrupt):
            measure()
    with pytest.raises(KeyError), placed(toy.module, {"weight": torch.ones(4, 3, dtype=torch.float64)}):
        pass  # it has a bias as well
    assert torch.equal(point_of(toy.module), before)
    assert [parameter.data_ptr() for parameter in toy.module.parameters()] == places
    assert [parameter.requires_grad for parameter in toy.module.parameters()] == learns


def test_projection_by_hand_and_as_hao() -> None:
    first, second = torch.tensor([2.0, 0.0, 0.0]), torch.tensor([1.0, 1.0, 0.0])
    d = torch.tensor([3.0, 1.0, 4.0], dtype=torch.float64)
    found = project(d.float(), [first, second])
    assert found[0] == pytest.approx((1.0, 1.0))
    assert found[1] == pytest.approx(2.0)  # 4, of a direction of length 2
    x = float(d @ first.double()) / 4
    line = project(d, [first])
    assert line[0] == pytest.approx((x,))
    assert line[1] == pytest.approx(np.sqrt(float(d @ d) - x**2 * 4) / 2)


def test_mistakes() -> None:
    with pytest.raises(SignalError, match="not finite"):
        top_eigenvalue(
            bowl_of(torch.full((16, 16), torch.nan, dtype=torch.float64)), iterations=3, tolerance=0.01, step=nothing
        )
