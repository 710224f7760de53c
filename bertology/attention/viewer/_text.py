"""What the model is given for a sentence or a pair of them, and how its pieces are shown."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bertology.errors import BertologyError, ModelError

if TYPE_CHECKING:
    from bertology.corpora import Sentence
    from bertology.encoders import Encoder


@dataclass(frozen=True)
class Units:
    """Words or pieces, special ones in their places, as they are shown."""

    labels: tuple[str, ...]
    special: tuple[bool, ...]
    segment: tuple[int, ...]
    """0 or 1: the first sentence or the second; special pieces go with the model's own token types."""
    first: tuple[int, ...]
    """First piece of each."""
    last: tuple[int, ...]
    """End of its pieces, exclusive."""
    word: tuple[int, ...]
    """Which word, counted through the sentences, it is or belongs to; −1 for special pieces."""


@dataclass(frozen=True)
class Input:
    """One input to the model."""

    ids: tuple[int, ...]
    types: tuple[int, ...] | None
    """Token types, where the model takes them and they are not all 0."""
    words: Units
    pieces: Units
    left_out: tuple[str, ...]
    """Words that have no piece of their own."""
    gaps: tuple[int, ...]
    """Pieces between those of one word that belong to none: white space."""


def lay_out(encoder: Encoder, sentences: Sequence[Sentence]) -> Input:
    """Pieces of one sentence or two with the model's special tokens around them, and the words among them.

    Raises:
        ModelError: they are longer than the model takes, or it takes no pairs.
        BertologyError: there is no word in a sentence.
    """
    for sentence in sentences:
        if not sentence.text.strip() or not sentence.words:
            raise BertologyError("there is no word in the sentence: give some text")
    pieces = encoder.tokenize(sentences)
    backend: Any = encoder.tokenizer.backend_tokenizer
    encoding = backend.encode(*(sentence.text for sentence in sentences))
    _check(encoder, encoding, len(sentences))
    starts = [encoding.sequence_ids.index(number) for number in range(len(sentences))]
    n_words = np.cumsum([0, *(len(sentence) for sentence in sentences)])
    spans: list[tuple[int, int] | None] = []
    gaps: list[int] = []
    for number, start in enumerate(starts):
        shift = start - encoder.n_prefix
        gaps += [int(place) + shift for place in np.flatnonzero(pieces.window_gaps(number))]
        for word in range(n_words[number], n_words[number + 1]):
            has = pieces.word_window[word] >= 0
            spans.append((int(pieces.word_first[word]) + shift, int(pieces.word_last[word]) + shift) if has else None)
    forms = [form for sentence in sentences for form in sentence.words]
    return Input(
        ids=tuple(encoding.ids),
        types=_types(encoder, encoding),
        words=_words(encoding, forms, spans),
        pieces=_pieces(encoder, encoding, sentences, spans, gaps),
        left_out=tuple(form for form, span in zip(forms, spans, strict=True) if span is None),
        gaps=tuple(gaps),
    )


def tensors(given: Input) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``[1, piece]`` vocabulary numbers, and token types where there are any."""
    return torch.tensor([given.ids]), None if given.types is None else torch.tensor([given.types])


def _check(encoder: Encoder, encoding: Any, n_sentences: int) -> None:
    if len(encoding.ids) > encoder.max_pieces:
        both = "the pair has" if n_sentences > 1 else "the sentence has"
        raise ModelError(
            f"{both} {len(encoding.ids)} pieces with special tokens, model {encoder.name} takes {encoder.max_pieces}: "
            "shorten it"
        )
    for number in range(n_sentences):
        if number not in encoding.sequence_ids:
            raise BertologyError("the tokenizer makes no piece of the sentence: give some other text")


def _types(encoder: Encoder, encoding: Any) -> tuple[int, ...] | None:
    body: Any = encoder.model.body
    n_types = getattr(body.config, "type_vocab_size", 0) or 0
    takes = "token_type_ids" in inspect.signature(body.forward).parameters
    return tuple(encoding.type_ids) if takes and 0 < max(encoding.type_ids) < n_types else None


def _words(encoding: Any, forms: Sequence[str], spans: Sequence[tuple[int, int] | None]) -> Units:
    """Words and special pieces in the order of their first piece."""
    segments = encoding.sequence_ids
    entries = [(span, form, number) for number, (form, span) in enumerate(zip(forms, spans, strict=True)) if span]
    own = [((place, place + 1), encoding.tokens[place], -1) for place, of in enumerate(segments) if of is None]
    ordered = sorted([*entries, *own], key=lambda entry: (entry[0][0], entry[2]))
    return Units(
        labels=tuple(label for _, label, _ in ordered),
        special=tuple(number < 0 for _, _, number in ordered),
        segment=tuple(_segment(encoding, span[0]) for span, _, _ in ordered),
        first=tuple(span[0] for span, _, _ in ordered),
        last=tuple(span[1] for span, _, _ in ordered),
        word=tuple(number for _, _, number in ordered),
    )


def _pieces(
    encoder: Encoder,
    encoding: Any,
    sentences: Sequence[Sentence],
    spans: Sequence[tuple[int, int] | None],
    gaps: Sequence[int],
) -> Units:
    n_pieces = len(encoding.ids)
    word = [-1] * n_pieces
    for number, span in reversed(list(enumerate(spans))):
        for place in range(*(span or (0, 0))):
            word[place] = -1 if place in gaps else number
    special = tuple(of is None for of in encoding.sequence_ids)
    return Units(
        labels=tuple(_label(encoder, encoding, sentences, place) for place in range(n_pieces)),
        special=special,
        segment=tuple(_segment(encoding, place) for place in range(n_pieces)),
        first=tuple(range(n_pieces)),
        last=tuple(range(1, n_pieces + 1)),
        word=tuple(word),
    )


def _segment(encoding: Any, place: int) -> int:
    """The sentence a piece stands in; special ones close the sentence before them."""
    before = [of for of in encoding.sequence_ids[: place + 1] if of is not None]
    return int(before[-1]) if before else 0


def _label(encoder: Encoder, encoding: Any, sentences: Sequence[Sentence], place: int) -> str:
    """A piece as a person reads it: byte-level and SentencePiece vocabularies spell white space in their own ways."""
    token, number = str(encoding.tokens[place]), encoding.sequence_ids[place]
    # A mere word-boundary mark is given the character after it as its own.
    if number is None or token.startswith("##") or token in (encoder.tokenizer.unk_token, "▁"):
        return token
    low, high = encoding.offsets[place]
    text = str(sentences[number].text)
    surface: str = text[low:high]
    if not surface.strip():
        return token
    continues = low > 0 and not surface[0].isspace() and text[low - 1].isalnum() and surface[0].isalnum()
    return ("##" if continues else "") + surface.strip()
