"""What leaves an encoder is finite: one check of hidden states, attention maps, norms and logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bertology.errors import ModelError, SignalError

if TYPE_CHECKING:
    from bertology.encoders._encoder import Encoder


def check_finite(
    what: str, signals: Mapping[int, Tensor], *, name: str, model: nn.Module, by_head: bool = False
) -> None:
    """Refuse a signal that holds NaN or infinity, of which every later step would compute a score like any other.

    The sum of a signal is NaN or infinite where one of its values is, so that a finite signal costs one reduction.

    Args:
        what: the kind of signal, as the message calls it, in the plural.
        signals: by layer; with ``by_head``, ``[batch, head, …]``.
        name: what the model is called.
        model: the modules that computed them, whose weights are searched for the cause.
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


def check_weights(encoder: Encoder) -> None:
    """Refuse weights that hold NaN or infinity, by the first signal that they spoil.

    Signals alone do not show them all: a fused attention may take a row of NaN for one that attends to nothing.

    Raises:
        SignalError: a weight is not finite; the layer and head that it spoils first are named where one shows it.
    """
    weight = _damaged_weight(encoder.model.outermost, left_out="pooler.")  # part of no signal
    if weight is None:
        return
    body = encoder.model.body
    ids = torch.arange(body.get_input_embeddings().num_embeddings)[-7:][None]  # type: ignore[operator]
    try:
        with encoder.plain_attention():
            encoder.hidden_states(ids, layers=[0])
            for layer in range(1, encoder.n_layers + 1):
                encoder.attentions(ids, layers=[layer])
                encoder.hidden_states(ids, layers=[layer])
            if encoder.has_masked_lm_head:
                encoder.masked_logits(ids, torch.tensor([[0, 0]]))
    except ModelError as error:
        if isinstance(error, SignalError):
            raise
    # Nothing that was tried shows it, or the family gives no maps.
    raise SignalError(f"model {encoder.name}: {_refused(weight)}")


def _cause(model: nn.Module) -> str:
    """Why a signal is not finite, and what to do."""
    weight = _damaged_weight(model)
    if weight is not None:
        return _refused(weight)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    if dtype != "float32":
        return f"its weights are, so a value is too large for {dtype}: compute in float32 (--dtype float32)"
    return "its weights are, but too large: save or download the model again"


def _refused(weight: str) -> str:
    return f"its weights hold NaN or infinity ({weight}): save or download the model again"


def _damaged_weight(model: nn.Module, *, left_out: str | None = None) -> str | None:
    """The first weight that is not finite."""
    for name, values in model.named_parameters():
        if left_out is not None and left_out in name:
            continue
        if not bool(values.detach().sum(dtype=torch.float32).isfinite()) and not bool(values.isfinite().all()):
            return name
    return None
