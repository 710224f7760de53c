"""Prompts and sentences in pieces, whole: what does not fit is told, never cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bertology.cloze._prompts import Prompt
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder

_NO_CHARACTER = "\ufffd"


def encode(encoder: Encoder, texts: Sequence[str], *, bare: bool = False) -> list[Any]:
    """Texts in pieces, ``tokenizers.Encoding`` objects, with special tokens around them unless ``bare``.

    Raises:
        ClozeError: one of them is no text.
    """
    broken = next((text for text in texts if any("\ud800" <= letter <= "\udfff" for letter in text)), None)
    if broken is not None:
        raise ClozeError(f"{broken!a}: half of a surrogate pair in it, which is no character: read the source as UTF-8")
    backend = encoder.tokenizer.backend_tokenizer
    # Whoever calls the tokenizer with padding or truncation leaves it so.
    backend.no_padding()
    backend.no_truncation()
    encodings: list[Any] = backend.encode_batch(list(texts), add_special_tokens=not bare)
    return encodings


def too_long(encoder: Encoder, n_pieces: int) -> str:
    """Why an input of so many pieces, special ones included, cannot be read; empty if it can."""
    if n_pieces <= encoder.max_pieces:
        return ""
    return f"too long: {n_pieces} pieces, the model takes {encoder.max_pieces}"


def mask_places(encoder: Encoder, prompt: Prompt, ids: Sequence[int]) -> list[int]:
    """Which pieces of an encoded prompt are its masks.

    Raises:
        ClozeError: not as many as it has.
    """
    mask_id = encoder.mask_id
    places = [piece for piece, entry in enumerate(ids) if entry == mask_id]
    if len(places) != prompt.n_masks:
        raise ClozeError(
            f"prompt {quoted(prompt.text)}: {prompt.n_masks} masks, of which the tokenizer reads {len(places)} as "
            f"{encoder.mask_token}; put spaces around them"
        )
    return places


def spell_pieces(encoder: Encoder, ids: Sequence[int]) -> list[str]:
    """Vocabulary entries as a person reads them: marks of a word's beginning left out, those inside words kept."""
    shown = []
    for number in ids:
        token = encoder.tokenizer.convert_ids_to_tokens(int(number))
        text = token if token is None or token.startswith("##") else encoder.tokenizer.decode([int(number)]).strip()
        if text is not None and _NO_CHARACTER in text:
            # Bytes that are no character by themselves are told apart by the tokenizer's own spelling alone.
            text = token
        shown.append(text or token or f"<{number}>")
    return shown
