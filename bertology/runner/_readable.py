"""Which words a model cannot read: known from its tokenizer alone, before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bertology._files import canonical_json, digest
from bertology.activations import Entry, Recipe, find_entry
from bertology.corpora import Sentences
from bertology.encoders import ModelSource
from bertology.runner._request import ProbeRequest

if TYPE_CHECKING:
    from bertology.encoders._tokenize import PieceReader

Reasons = Mapping[int, str]
"""Words of a split that have no vector, by number, and why."""


def recipe_for(request: ProbeRequest, model_fingerprint: str, sentences: Sentences) -> Recipe:
    """What decides the vectors of a split."""
    return Recipe(
        model_fingerprint=model_fingerprint,
        text_fingerprint=sentences.text_fingerprint,
        pooling=request.pooling,
        compute_dtype=request.dtype,
        stored_dtype=request.stored_dtype,  # type: ignore[arg-type]
        on_long=request.on_long,
        max_pieces=request.max_pieces,
    )


def unreadable_words(
    splits: Mapping[str, Sentences],
    request: ProbeRequest,
    source: ModelSource,
    *,
    fingerprint: str,
    layers: tuple[int, ...],
) -> dict[str, Reasons]:
    """By split the words that a model cannot read; only splits that have some.

    What is in the store knows; of what is not read yet the tokenizer does, without the model's weights. A sentence that
    ``on_long`` forbids is no concern here: it is refused when it is read.

    Args:
        splits: the text.
        request: how it is read.
        source: the model's files.
        fingerprint: of the model.
        layers: those that are read.

    Raises:
        ModelError: the tokenizer or the configuration cannot be loaded.
        CorpusError: a text cannot be encoded.
    """
    reader: PieceReader | None = None
    found: dict[str, Reasons] = {}
    for name, sentences in splits.items():
        entry = find_entry(recipe_for(request, fingerprint, sentences), layers)
        if entry is not None:
            found[name] = skipped_words(entry)
            continue
        from bertology.encoders import load_reader
        from bertology.encoders._tokenize import tokenize

        reader = reader or load_reader(
            source, trust_remote_code=request.trust_remote_code, max_pieces=request.max_pieces
        )
        pieces = tokenize(sentences, reader, on_long="skip" if request.on_long == "skip" else "window")
        found[name] = _by_word((skipped.word, skipped.reason) for skipped in pieces.skipped)
    return {name: words for name, words in found.items() if words}


def skipped_words(entry: Entry) -> Reasons:
    """Words without a vector, and why."""
    return _by_word((word, reason) for word, _, _, reason in entry.manifest.skipped)


def _by_word(skipped: Iterable[tuple[int, str]]) -> Reasons:
    # Reasons are counted, so that what differs from sentence to sentence, its length, is taken out of them.
    return {word: re.sub(r"\d+", "…", reason) for word, reason in skipped}


def fingerprint_of(unreadable: Mapping[str, Reasons]) -> str:
    """Hash of which words of which splits cannot be read."""
    return digest([canonical_json({name: sorted(words) for name, words in unreadable.items()})])
