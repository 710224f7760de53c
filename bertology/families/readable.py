"""Which words a model cannot read: known from its tokenizer alone, before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology._files import canonical_json, digest
from bertology.activations import Entry, Recipe
from bertology.corpora import Sentences
from bertology.encoders import ModelSource
from bertology.families.request import ProbeRequest

if TYPE_CHECKING:
    from bertology.encoders import Pieces

Windows = Mapping[str, NDArray[np.int64]]
"""By split the window that each word is read from, −1 where there is none."""
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
    entries = {name: recipe_for(request, fingerprint, text).find(layers) for name, text in splits.items()}
    unknown = {name: text for name, text in splits.items() if entries[name] is None}
    skipped = {name: skipped_words(entry) for name, entry in entries.items() if entry is not None}
    skipped |= {name: _skipped_of(pieces) for name, pieces in _tokenized(unknown, request, source)}
    return {name: skipped[name] for name in splits if skipped[name]}


def windows_of_words(
    splits: Mapping[str, Sentences], request: ProbeRequest, source: ModelSource
) -> tuple[dict[str, Reasons], Windows]:
    """What heads are not asked about: by split the words that a model cannot read, and the windows of all words.

    Only splits that have such words, or sentences that are read in several windows.

    Args:
        splits: the text.
        request: how it is read.
        source: the model's files.

    Raises:
        ModelError: the tokenizer or the configuration cannot be loaded.
        CorpusError: a text cannot be encoded.
    """
    unreadable, windows = dict[str, Reasons](), dict[str, NDArray[np.int64]]()
    for name, pieces in _tokenized(splits, request, source):
        n_sentences = len(np.unique(pieces.window_sentence))
        if pieces.skipped or pieces.n_windows > n_sentences:
            unreadable[name], windows[name] = _skipped_of(pieces), pieces.word_window.astype(np.int64)
    return unreadable, windows


def _tokenized(
    splits: Mapping[str, Sentences], request: ProbeRequest, source: ModelSource
) -> Iterator[tuple[str, Pieces]]:
    """Splits as pieces of a model whose weights are not loaded."""
    if not splits:
        return
    from bertology.encoders import load_reader

    reader = load_reader(source, trust_remote_code=request.trust_remote_code, max_pieces=request.max_pieces)
    for name, sentences in splits.items():
        yield name, reader.tokenize(sentences, on_long="skip" if request.on_long == "skip" else "window")


def _skipped_of(pieces: Pieces) -> Reasons:
    return _by_word((skipped.word, skipped.reason) for skipped in pieces.skipped)


def skipped_words(entry: Entry) -> Reasons:
    """Words without a vector, and why."""
    return _by_word((word, reason) for word, _, _, reason in entry.manifest.skipped)


def _by_word(skipped: Iterable[tuple[int, str]]) -> Reasons:
    # Reasons are counted, so that what differs from sentence to sentence, its length, is taken out of them.
    return {word: re.sub(r"\d+", "…", reason) for word, reason in skipped}


def fingerprint_of(unreadable: Mapping[str, Reasons], windows: Windows) -> str:
    """Hash of which words of which splits cannot be read, and, where it matters, of the windows of the others."""
    words = {name: windows[name].tolist() if name in windows else sorted(unreadable[name]) for name in unreadable}
    return digest([canonical_json(words)])
