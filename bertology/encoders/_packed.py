"""Linear maps of an encoder on packed weights: the same sums, in the layout that the processor multiplies fastest.

PyTorch multiplies float32 matrices by the BLAS library it was built with. oneDNN, which comes with PyTorch too, packs a
weight once into the blocks its kernels read; on AMD processors its products take about three quarters of the time, and
an exact GELU behind a linear map is computed while the result is still in the cache. Sums are in another order, so that
hidden states differ in the last digits of float32, as they do between processors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

_AfterProduct = Literal["none", "gelu"]


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether packed weights are known to be faster: in float32, on x86 processors, where PyTorch has oneDNN."""
    has_one_dnn: Callable[[], bool] = torch.backends.mkldnn.is_available
    return (
        device.type == "cpu"
        and dtype == torch.float32
        and has_one_dnn()
        and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def pack_if_faster(body: nn.Module) -> None:
    """:func:`pack`, where :func:`can_pack` allows."""
    first = next(body.parameters())
    if can_pack(first.device, first.dtype):
        pack(body)


def pack(body: nn.Module) -> None:
    """Pack the weights of all linear maps in ``body``, whose modules must be nobody else's.

    The weights themselves stay as they are; packed copies take as much memory once more. No gradients pass.
    """
    for module in body.modules():
        dense, activation = getattr(module, "dense", None), getattr(module, "intermediate_act_fn", None)
        if type(dense) is nn.Linear and _is_exact_gelu(activation):
            dense.__dict__["forward"] = _packed(dense, "gelu")
            module.intermediate_act_fn = nn.Identity()
    for module in body.modules():
        if type(module) is nn.Linear and "forward" not in module.__dict__:
            module.__dict__["forward"] = _packed(module, "none")


def _packed(linear: nn.Linear, after: _AfterProduct) -> Callable[[Tensor], Tensor]:
    """``linear`` as a function; it holds tensors alone, so that copies of the module share it."""
    multiply: Any = torch.ops.mkldnn._linear_pointwise
    with torch.inference_mode(mode=False):
        weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().contiguous())
    bias = None if linear.bias is None else linear.bias.detach()

    def forward(values: Tensor) -> Tensor:
        """``[…, out]`` of ``[…, in]``."""
        result: Tensor = multiply(values, weight, bias, after, [], "none")
        return result

    return forward


def _is_exact_gelu(activation: object) -> bool:
    """Whether it is the GELU by the error function, not one of its approximations."""
    if isinstance(activation, nn.GELU):
        return activation.approximate == "none"
    return type(activation).__name__ == "GELUActivation" and getattr(activation, "act", None) is nn.functional.gelu
