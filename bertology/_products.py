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
        and all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    )


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """``left @ right.mT`` of ``[…, m, k]`` and ``[n, k]``, plus ``bias [n]``; or of ``[b, m, k]`` and ``[b, n, k]``.

    Gradients pass, but for second ones.
    """
    is_fast = left.device.type == "cpu" and left.dtype == torch.float32 and has_one_dnn()
    if not is_fast or not left.numel():
        found = left @ right.mT
        return found if bias is None else found + bias
    if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in (left, right, bias)):
        with_gradients: Tensor = _Product.apply(left, right, bias)  # type: ignore[no-untyped-call]
        return with_gradients
    return _multiplied(left, right, bias)


def _multiplied(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    if right.ndim > 2:
        return torch.stack([_multiplied(a, b) for a, b in zip(left, right, strict=True)])
    # With gaps between its rows or columns, a matrix would be read value by value.
    whole = (one if one.is_contiguous() or one.mT.is_contiguous() else one.contiguous() for one in (left, right))
    found: Tensor = torch.ops.mkldnn._linear_pointwise(*whole, bias, "none", [], "none")
    return found


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(left, right)
        return _multiplied(left, right, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        (left, right), (to_left, to_right, to_bias) = ctx.saved_tensors, ctx.needs_input_grad
        of_left = _multiplied(slope, right.mT) if to_left else None
        if right.ndim == 2:
            slope, left = slope.flatten(0, -2), left.flatten(0, -2)
        of_right = None
        # In memory as the matrix itself, which may be the transpose of a parameter: optimisers would copy it otherwise.
        if to_right and right.mT.is_contiguous():
            of_right = _multiplied(left.mT, slope.mT).mT
        elif to_right:
            of_right = _multiplied(slope.mT, left.mT)
        return of_left, of_right, slope.sum(0) if to_bias else None
