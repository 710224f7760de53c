"""Words and masks of some texts, read while what the model computes is changed at words that are found by alignment."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.activations._forward import WindowReader
from bertology.corpora import Sentences, as_sentences
from bertology.corpora.prompts import with_masks
from bertology.encoders import EncoderRun, LabelledArray, layers_from_end
from bertology.encoders.interventions import Intervention, Words, intervening
from bertology.errors import CorpusError, ModelError, listed, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder
    from bertology.encoders.batching import Batch

_Label = tuple[int, int, str]
"""Number of a text and of a word in it, from 1, and its form."""


def labelled_run(
    encoder: Encoder,
    texts: Any,
    *,
    interventions: Sequence[Intervention] = (),
    layers: int | Sequence[int] | Literal["all"] = "all",
    pooling: str = "mean",
) -> EncoderRun:
    """What a run with interventions gives: see :meth:`bertology.Encoder.run`."""
    has_mask = encoder.tokenizer.mask_token_id is not None
    sentences = Sentences(as_sentences(_spelled(texts, encoder.mask_token) if has_mask else texts))
    labels = [(n, k, form) for n, one in enumerate(sentences, 1) for k, form in enumerate(one.words, 1)]
    chosen = layers_from_end(layers, lowest=0, n_layers=encoder.n_layers)
    of_words = [None if one.words is None else _is_chosen(one.words, labels) for one in interventions]

    def around(batch: Batch) -> AbstractContextManager[None]:
        placed = [
            one if is_chosen is None else one.at(reader.pieces_in_rows(batch, is_chosen))
            for one, is_chosen in zip(interventions, of_words, strict=True)
        ]
        body, blocks = encoder.model.body, encoder.model.blocks
        return intervening(body, blocks, placed, n_heads=encoder.n_heads, family=encoder.family)

    reader = WindowReader(encoder, sentences, pooling=pooling, around=around)
    if len(reader.lengths) > len(sentences):
        raise ModelError(
            f"a text is longer than the {encoder.max_pieces} pieces that the model takes: give shorter ones"
        )
    masks = reader.read_at(encoder.mask_id) if has_mask else np.zeros(0, dtype=np.int64)
    vectors = reader.read_all((*chosen, encoder.n_layers))
    words = {"layer": chosen, "word": labels, "dim": range(encoder.dim)}
    parts = {"word": ("text", "place", "word")}
    logits = None
    if encoder.has_masked_lm_head and len(masks):
        logits = _logits(encoder, vectors[-1, torch.from_numpy(masks)], [labels[n] for n in masks])
    return EncoderRun(LabelledArray(vectors[:-1].numpy(), words, parts, n_layers=encoder.n_layers), logits)


def _spelled(texts: Any, mask: str) -> Any:
    """Texts whose masks are those of the model."""
    if isinstance(texts, str):
        return with_masks(texts, mask)
    return [_spelled(one, mask) for one in texts] if isinstance(texts, list | tuple) else texts


def _is_chosen(words: Words, labels: Sequence[_Label]) -> NDArray[np.bool_]:
    """``[word]`` whether a word is one of those named.

    Raises:
        CorpusError: one that is named stands in no text.
    """
    asked = [words] if isinstance(words, int | str) else list(words)
    chosen = np.zeros(len(labels), dtype=bool)
    for name in asked:
        of_name = [
            form.lower() == name.lower() if isinstance(name, str) else place == name for _, place, form in labels
        ]
        if not any(of_name):
            which = quoted(name) if isinstance(name, str) else str(name)
            raise CorpusError(
                f"word {which} of an intervention stands in none of the texts: their words are "
                f"{listed([f'{place} {form}' for _, place, form in labels])}"
            )
        chosen |= np.array(of_name)
    return chosen


def _logits(encoder: Encoder, states: torch.Tensor, masks: Sequence[_Label]) -> LabelledArray:
    """Logits of ``[mask, dim]`` states of the last layer."""
    dtype = next(encoder.model.body.parameters()).dtype
    with torch.inference_mode():
        features = encoder.head_features(states.to(encoder.device, dtype), layer=encoder.n_layers)
    logits = encoder.vocabulary_logits(features, layer=encoder.n_layers).float().cpu().numpy()
    entries = encoder.tokenizer.convert_ids_to_tokens(range(logits.shape[1]))
    return LabelledArray(logits, {"mask": masks, "entry": entries}, {"mask": ("text", "place", "word")})
