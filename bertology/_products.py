"""Products of float32 matrices on a processor, by oneDNN where PyTorch has it.

PyTorch multiplies float32 by MKL, which on some makes of processors takes twice as long as oneDNN.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@cache
def has_one_dnn() -> bool:
    """Whether PyTorch has the products of oneDNN, on an x86 processor."""
    is_there: Any = torch.backends.mkldnn.is_available
    return (
        is_there()
        and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right.mT`` of ``[…, m, k]`` and ``[n, k]``, or of ``[batch, m, k]`` and ``[batch, n, k]``.

    Gradients pass, but for second ones.
    """
    if left.device.type != "cpu" or left.dtype != torch.float32 or not has_one_dnn():
        return left @ right.mT
    if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
        found: Tensor = _Product.apply(left, right)  # type: ignore[no-untyped-call]
        return found
    return _multiplied(left, right)


def _multiplied(left: Tensor, right: Tensor) -> Tensor:
    if right.ndim > 2:
        return torch.stack([_multiplied(a, b) for a, b in zip(left, right, strict=True)])
    # With gaps between its rows or columns, a matrix would be read value by value.
    whole = (one if one.is_contiguous() or one.mT.is_contiguous() else one.contiguous() for one in (left, right))
    found: Tensor = torch.ops.mkldnn._linear_pointwise(*whole, None, "none", [], "none")
    return found


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        return _multiplied(left, right)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (left, right), (to_left, to_right) = ctx.saved_tensors, ctx.needs_input_grad
        of_left = _multiplied(slope, right.mT) if to_left else None
        if not to_right:
            return of_left, None
        if right.ndim == 2:
            slope, left = slope.flatten(0, -2), left.flatten(0, -2)
        # In memory as the matrix itself, which may be the transpose of a parameter: optimisers would copy it otherwise.
        is_transposed = right.mT.is_contiguous()
        return of_left, _multiplied(left.mT, slope.mT).mT if is_transposed else _multiplied(slope.mT, left.mT)
