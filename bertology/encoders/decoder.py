"""The decoder of an encoder-decoder (T5, BART): the attention by which it reads a target, and the source through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from bertology.encoders._modules import check_finite, no_parameters_learn
from bertology.encoders.sources import MemorySource, drawn, load_config, pretrained, read_config
from bertology.errors import ModelError

if TYPE_CHECKING:
    from bertology.encoders.encoder import Encoder

DecoderKind = Literal["cross", "decoder"]
"""Attention from the decoder to the encoder's output (cross), or from the decoder to itself."""
# Names of the same field in different families.
_FIELDS = {
    "number of decoder layers": ("decoder_layers", "num_decoder_layers"),
    "number of decoder heads": ("decoder_attention_heads", "num_heads"),
    "piece that opens a target": ("decoder_start_token_id", "pad_token_id"),
}


@dataclass(frozen=True, eq=False)
class SequenceModel:
    """A whole encoder-decoder, made by :func:`load_sequence_model`; layers and heads of its decoder count from 1."""

    name: str
    model: Any
    n_layers: int
    """Blocks of the decoder."""
    n_heads: int
    """Heads in each of them."""
    start_id: int
    """Vocabulary number of what the decoder reads before the target."""

    def attentions(self, source: Sequence[int], target: Sequence[int]) -> dict[DecoderKind, dict[int, Tensor]]:
        """Attention maps of the decoder by layer, on the processor in float32.

        Args:
            source: vocabulary numbers that the encoder reads.
            target: vocabulary numbers that the decoder reads, :attr:`start_id` first.

        Returns:
            ``cross``: ``[head, target piece, source piece]`` attention to the encoder's output; ``decoder``: ``[head,
            target piece, target piece]``, of each piece to those up to itself.

        Raises:
            SignalError: maps that are not finite.
        """
        device = next(self.model.parameters()).device
        ids, labels = (torch.tensor([list(numbers)], device=device) for numbers in (source, target))
        with torch.inference_mode():
            output = self.model(input_ids=ids, decoder_input_ids=labels, output_attentions=True, return_dict=True)
        found: dict[DecoderKind, dict[int, Tensor]] = {}
        read: dict[DecoderKind, Any] = {"cross": output.cross_attentions, "decoder": output.decoder_attentions}
        for kind, maps in read.items():
            by_layer = dict(enumerate(maps, start=1))
            check_finite(f"{kind} attention maps", by_layer, name=self.name, model=self.model, by_head=True)
            found[kind] = {layer: one[0].float().cpu() for layer, one in by_layer.items()}
        return found


def load_sequence_model(encoder: Encoder) -> SequenceModel:
    """Read the whole encoder-decoder that an encoder is part of, with the plain ("eager") attention, from its files.

    Raises:
        ModelError: the model has no decoder, or none in its weights, or its configuration does not describe it.
    """
    if isinstance(encoder.source, MemorySource) or not read_config(encoder.source.folder).get("is_encoder_decoder"):
        raise ModelError(
            f"model {encoder.name}: a {encoder.family} model has no decoder to read a target: leave the target out, or "
            "choose an encoder-decoder such as T5 or BART"
        )
    if encoder.init == "random_blocks":
        raise ModelError(f"model {encoder.name}: a decoder over random_blocks is not defined: take init random")
    model = _load(encoder)
    config, path = model.config, encoder.source.folder / "config.json"
    no_parameters_learn(model)
    model.to(encoder.device)
    facts: dict[str, Any] = {what: _first_of(config, names) for what, names in _FIELDS.items()}
    for what, value in facts.items():
        if value is None:
            raise ModelError(f"{path}: no {_FIELDS[what][0]}, so the {what} is not known; add it")
    return SequenceModel(encoder.name, model, *facts.values())


def _load(encoder: Encoder) -> Any:
    from transformers import AutoModel

    dtype, config = getattr(torch, encoder.dtype), load_config(encoder.source, False)
    if encoder.init == "random":  # drawn as the encoder was: all of the model in one go
        return drawn(AutoModel, config, encoder.seed, dtype, attn_implementation="eager")
    model, missing = pretrained(AutoModel, encoder.source, config=config, dtype=dtype, attn_implementation="eager")
    if lost := sorted(missing):
        raise ModelError(
            f"model {encoder.name}: no decoder in its weights ({lost[0]} is missing); choose a model that was saved "
            "with it"
        )
    return model


def _first_of(config: Any, names: Sequence[str]) -> int | None:
    return next((value for name in names if (value := getattr(config, name, None)) is not None), None)
