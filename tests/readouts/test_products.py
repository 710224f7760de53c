"""Products by oneDNN: those of PyTorch, and their gradients, however matrices lie in memory."""

import pytest
import torch

from bertology._products import product

SHAPES = [((5, 8), (3, 8)), ((2, 5, 8), (3, 8)), ((2, 5, 8), (2, 3, 8)), ((0, 8), (3, 8))]


@pytest.mark.parametrize("how", ["as they come", "transposed", "with gaps"])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_products_and_gradients(left: tuple[int, ...], right: tuple[int, ...], how: str) -> None:
    random = torch.Generator().manual_seed(1)
    given = [torch.randn(shape, generator=random) for shape in (left, right)]
    if "gaps" in how:
        given = [torch.cat([one, one], dim=-1)[..., :8] for one in given]
    if "transposed" in how:
        given = [one.mT.clone(memory_format=torch.contiguous_format).mT for one in given]
    given += [torch.randn(right[0], generator=random)] if len(right) == 2 else []
    given = [one.requires_grad_() for one in given]
    found, expected = product(*given), given[0] @ given[1].mT + (given[2] if len(given) > 2 else 0)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(product(*(one.detach() for one in given)), expected)
    slope = torch.randn(found.shape, generator=random)
    torch.testing.assert_close(torch.autograd.grad(found, given, slope), torch.autograd.grad(expected, given, slope))


def test_other_types_are_multiplied_as_ever() -> None:
    left, right = torch.eye(2, dtype=torch.float64), torch.tensor([[1.0, 1e-12]], dtype=torch.float64)
    assert product(left, right)[1, 0] == 1e-12
