"""The check that hidden states, attention maps, norms and logits of an encoder are finite."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from bertology.errors import SignalError


def check_finite(
    what: str, signals: Mapping[int, Tensor], *, name: str, model: nn.Module, by_head: bool = False
) -> None:
    """Check that a signal holds no NaN or infinity, from which later steps would compute scores like any other.

    The sum of a signal is NaN or infinite where one of its values is, so that a finite signal costs one reduction.

    Args:
        what: the kind of signal, in the plural, for the message.
        signals: by layer; with ``by_head``, ``[batch, head, …]``.
        name: of the model, for the message.
        model: the modules that computed them; their weights are searched for the cause.
        by_head: name the head as well.

    Raises:
        SignalError: a signal is not finite; the first layer, and with ``by_head`` its first head, is named.
    """
    with torch.no_grad():
        sums = torch.stack([signal.sum(dtype=torch.float32) for signal in signals.values()])
        if bool(sums.isfinite().all()):
            return
        for layer, signal in signals.items():
            damaged = ~signal.isfinite()
            if bool(damaged.any()):
                place = f"layer {layer}"
                if by_head:
                    place = f"L{layer}H{int(damaged.transpose(0, 1).flatten(1).any(1).nonzero()[0]) + 1}"
                raise SignalError(f"model {name}: the {what} of {place} are not finite; {_cause(model)}")


def _cause(model: nn.Module) -> str:
    """Why a signal is not finite, and what to do."""
    weight = damaged_weight(model)
    if weight is not None:
        return refused_weight(weight)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    if dtype != "float32":
        return f"its weights are, so a value is too large for {dtype}: compute in float32 (--dtype float32)"
    return "its weights are, but too large: save or download the model again"


def refused_weight(weight: str) -> str:
    return f"its weights hold NaN or infinity ({weight}): save or download the model again"


def damaged_weight(model: nn.Module, *, left_out: str | None = None) -> str | None:
    """The first weight that is not finite."""
    for name, values in model.named_parameters():
        if left_out is not None and left_out in name:
            continue
        if not bool(values.detach().sum(dtype=torch.float32).isfinite()) and not bool(values.isfinite().all()):
            return name
    return None
