"""What a model adds to the embedding of a piece besides the piece itself: its position and its segment."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from bertology.corpora import Texts, as_sentences
from bertology.encoders._modules import LoadedModel
from bertology.encoders.alignment.encodings import EncodedPieces, Encoding, encode
from bertology.encoders.alignment.pieces import OnLong, PieceReader
from bertology.errors import ModelError


class EncodedInputs:
    """The inputs of an encoder, and text in other encodings than its plain one."""

    name: str
    model: LoadedModel
    _reader: PieceReader

    @property
    def device(self) -> str:
        """The device that the model is on."""
        return str(next(self.model.body.parameters()).device)

    @property
    def n_segments(self) -> int:
        """Number of token types that the model takes; 1 where it has no segments."""
        body: Any = self.model.body
        if "token_type_ids" not in inspect.signature(body.forward).parameters:
            return 1
        return max(1, getattr(body.config, "type_vocab_size", 0) or 0)

    def encode(self, sentences: Texts, encoding: Encoding, *, on_long: OnLong = "window") -> EncodedPieces:
        """The windows of :meth:`tokenize` in another encoding; words of windows that it makes too long are skipped.

        Raises:
            ModelError: no window fits, or the tokenizer joins no two texts.
        """
        return encode(as_sentences(sentences), encoding, self._reader, on_long=on_long)

    def _inputs(
        self, ids: Tensor, mask: Tensor | None, types: Tensor | None, shift: Tensor | int = 0
    ) -> dict[str, Tensor]:
        tensors = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        tensors |= shifted_positions(self.model.body, ids, shift, name=self.name)
        return {name: tensor.to(self.device) for name, tensor in tensors.items() if tensor is not None}


def shifted_positions(body: Any, ids: Tensor, shift: Tensor | int, *, name: str) -> dict[str, Tensor]:
    """The input ``position_ids [1, piece]`` that adds ``shift`` to the positions that the model counts itself.

    Nothing without a shift, or where the model has relative positions alone, as T5 has.

    Args:
        body: the model.
        ids: ``[batch, piece]``
        shift: one number, or ``[piece]`` one for each.
        name: of the model, for errors.

    Raises:
        ModelError: the model takes no such input, or does not have so many positions.
    """
    shifts = torch.as_tensor(shift).cpu()
    if not shifts.any():
        return {}
    if "position_ids" not in inspect.signature(body.forward).parameters:
        if hasattr(body.config, "relative_attention_num_buckets"):
            return {}
        raise ModelError(
            f"model {name}: {type(body).__name__} takes no position_ids, so that its positions cannot be shifted: "
            "leave the shift out"
        )
    positions = torch.arange(ids.shape[1]) + shifts
    for place, module in body.named_modules():
        if place.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            if module.padding_idx is not None:
                positions = positions + module.padding_idx + 1  # RoBERTa and its kin count from there
            if (last := int(positions.max())) >= module.num_embeddings:
                raise ModelError(
                    f"model {name}: position {last} of {ids.shape[1]} pieces is not among its {module.num_embeddings} "
                    "positions: give a smaller shift or shorter texts"
                )
    return {"position_ids": positions[None]}
