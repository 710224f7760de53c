"""The decoder of an encoder-decoder (T5, BART): the attention by which it reads a target, and the source through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from bertology.encoders._modules import check_finite, no_parameters_learn
from bertology.encoders.heads import read_again
from bertology.encoders.sources import MemorySource, load_config, read_config
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
    """Read the whole encoder-decoder that an encoder is part of, with the plain ("eager") attention, from its files."""
    from transformers import AutoModel

    source, name = encoder.source, encoder.name
    if isinstance(source, MemorySource) or not read_config(source.folder).get("is_encoder_decoder"):
        raise ModelError(
            f"model {name}: a {encoder.family} model has no decoder to read a target: leave the target out, or "
            "choose an encoder-decoder such as T5 or BART"
        )
    if encoder.init == "random_blocks":
        raise ModelError(f"model {name}: a decoder over random_blocks is not defined: take init random")
    model = read_again(encoder, AutoModel, "decoder", config=load_config(source, False), attn_implementation="eager")
    no_parameters_learn(model)
    model.to(encoder.device)
    facts: list[int] = []
    for what, names in _FIELDS.items():
        value = next((value for one in names if (value := getattr(model.config, one, None)) is not None), None)
        if value is None:
            raise ModelError(f"{source.folder / 'config.json'}: no {names[0]}, so the {what} is not known; add it")
        facts.append(value)
    return SequenceModel(name, model, *facts)
