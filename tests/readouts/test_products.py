"""Products by oneDNN: those of PyTorch, and their gradients, however matrices lie in memory."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bertology._products import product

LAID_OUT: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda matrix: matrix,
    "transposed": lambda matrix: matrix.mT.contiguous().mT,
    "with gaps": lambda matrix: torch.cat([matrix, matrix], dim=-1)[..., : matrix.shape[-1]],
    "columns with gaps": lambda matrix: torch.cat([matrix.mT, matrix.mT], dim=-1)[..., : matrix.shape[-2]].mT,
}


@pytest.mark.parametrize("how", LAID_OUT)
@pytest.mark.parametrize(
    ("left", "right"), [((5, 8), (3, 8)), ((2, 5, 8), (3, 8)), ((2, 5, 8), (2, 3, 8)), ((0, 8), (3, 8))]
)
def test_products_and_gradients(left: tuple[int, ...], right: tuple[int, ...], how: str) -> None:
    random = torch.Generator().manual_seed(1)
    given = [LAID_OUT[how](torch.randn(shape, generator=random)).requires_grad_() for shape in (left, right)]
    found, expected = product(*given), given[0] @ given[1].mT
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(product(*(one.detach() for one in given)), expected)
    if len(right) == 2:
        bias = torch.ones(len(given[1]), requires_grad=True)
        torch.testing.assert_close(product(*given, bias), expected + 1)
        (slope,) = torch.autograd.grad(product(*given, bias).sum(), bias)
        torch.testing.assert_close(slope, torch.full_like(bias, found.numel() / len(bias)))
    if found.numel():
        slope = torch.randn(found.shape, generator=random)
        torch.testing.assert_close(
            torch.autograd.grad(found, given, slope), torch.autograd.grad(expected, given, slope)
        )


def test_other_types_are_multiplied_as_ever() -> None:
    left, right = torch.eye(2, dtype=torch.float64), torch.tensor([[1.0, 1e-12]], dtype=torch.float64)
    assert product(left, right)[1, 0] == 1e-12
