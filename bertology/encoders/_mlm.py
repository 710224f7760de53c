"""The masked-LM head on its own: logits at chosen places, from any layer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from bertology.errors import ModelError

# The norm between the last block and the head, in families whose other hidden states come before it; none elsewhere.
_FINAL_NORM: dict[str, str | None] = {
    "albert": None,
    "bert": None,
    "camembert": None,
    "deberta": None,
    "deberta-v2": None,
    "distilbert": None,
    "electra": None,
    "modernbert": "final_norm",
    "mpnet": None,
    "roberta": None,
    "xlm-roberta": None,
    "xlm-roberta-xl": "encoder.LayerNorm",
}


def head_logits(model: Any, hidden: Tensor) -> Tensor:
    """What the masked-LM head of ``model`` says of hidden states of its last layer.

    The model's own forward runs with a body that hands it ``hidden``, so that the head is the model's, to the letter,
    in every family.

    Args:
        model: a model for masked language modelling, with its head.
        hidden: ``[place, dim]``

    Returns:
        ``[place, vocabulary]``
    """
    with _body_returning(model.base_model, hidden[None]):
        logits: Tensor = model(input_ids=hidden.new_zeros((1, len(hidden))).long(), return_dict=True).logits
    return logits[0]


@contextlib.contextmanager
def _body_returning(body: nn.Module, hidden: Tensor) -> Iterator[None]:
    from transformers.modeling_outputs import BaseModelOutput

    def forward(*args: Any, **kwargs: Any) -> Any:
        return BaseModelOutput(last_hidden_state=hidden)

    body.__dict__["forward"] = forward
    try:
        yield
    finally:
        del body.__dict__["forward"]


def for_head(body: nn.Module, hidden: Tensor, *, layer: int, n_layers: int, family: str) -> Tensor:
    """Hidden states of ``layer`` as the head expects them: past the model's final norm, where it has one.

    Raises:
        ModelError: it is not known whether this family has such a norm.
    """
    if layer == n_layers:
        return hidden
    if family not in _FINAL_NORM:
        raise ModelError(
            f"layer {layer}: the logit lens is not known for {family} models, only the last layer ({n_layers}) is"
        )
    norm = _FINAL_NORM[family]
    if norm is None:
        return hidden
    normed: Tensor = body.get_submodule(norm)(hidden)
    return normed
