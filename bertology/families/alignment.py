"""How the words of a split align with a model's subwords: which have no vector, and which share all their subwords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology._files import canonical_json, digest
from bertology.activations import Entry
from bertology.corpora import Sentence, Sentences
from bertology.corpora.prompts import with_masks
from bertology.encoders.alignment import SHARED

if TYPE_CHECKING:
    from bertology.encoders import Encoder, Pieces

Reasons = Mapping[int, str]
"""Words of a split that are left out, by number, and why."""
Windows = Mapping[str, NDArray[np.int64]]
"""By split the window that each word is read from, −1 where there is none."""
DIVIDED = "spans that divide words sharing all subwords"
"""Why a span of words is left out, whose vectors are those of another span."""


@dataclass(frozen=True)
class Alignment:
    """How a model reads the words of a text."""

    skipped: Reasons = field(default_factory=dict)
    """Words without a vector, and why."""
    joined: frozenset[int] = frozenset()
    """Words with exactly the subwords of the word before them."""
    n_unknown: int = 0
    """Number of words with an unknown subword."""
    n_long: int = 0
    """Number of words in sentences longer than the model takes: read in several windows, or skipped."""

    @classmethod
    def of_pieces(cls, pieces: Pieces) -> Alignment:
        """The alignment of a text that was tokenised."""
        skipped = {one.word: _without_numbers(one.reason) for one in pieces.skipped}
        return cls(skipped, frozenset(pieces.joined.tolist()), pieces.n_unknown, pieces.n_long)

    @classmethod
    def of_entry(cls, entry: Entry) -> Alignment:
        """The alignment of a text whose vectors are stored."""
        stored = entry.manifest
        return cls(skipped_in(entry), frozenset(stored.joined), stored.n_unknown, stored.n_long)

    @cached_property
    def shared(self) -> frozenset[int]:
        """Words with exactly the subwords of another word."""
        return self.joined | {word - 1 for word in self.joined}

    def left_out(self, shared: str) -> Reasons:
        """Words that are left out under a treatment of words that share all their subwords, and why."""
        return {**self.skipped, **(dict.fromkeys(self.shared, SHARED) if shared == "exclude" else {})}

    @property
    def counts(self) -> dict[str, Any]:
        """The columns of rows that count words of the text."""
        return {"n_unknown": self.n_unknown, "n_shared": len(self.shared), "n_long": self.n_long}


def text_counts(encoder: Encoder, texts: Iterable[str]) -> dict[str, Any]:
    """The same columns of texts that are no sentences of a corpus: their words are what spaces part."""
    mask = str(encoder.tokenizer.mask_token)
    sentences = [Sentence.from_words(with_masks(text, mask).split()) for text in dict.fromkeys(texts)]
    return Alignment.of_pieces(encoder.tokenize(Sentences(sentences))).counts


def skipped_in(entry: Entry) -> Reasons:
    """Words without a vector in stored vectors, and why."""
    return {word: _without_numbers(reason) for word, _, _, reason in entry.manifest.skipped}


def fingerprint_of(
    unreadable: Mapping[str, Reasons], windows: Windows, joined: Mapping[str, frozenset[int]] = MappingProxyType({})
) -> str:
    """Hash of which words of which splits are left out, and, where it matters, of the windows of the others.

    Words that share all their subwords are left out alone, and not with the spans that they are part of: which of them
    do so with the word before (``joined``) is in the hash as well.
    """
    words = {name: windows[name].tolist() if name in windows else sorted(unreadable[name]) for name in unreadable}
    shared = {name: sorted(some) for name, some in joined.items() if some and name in unreadable}
    return digest([canonical_json([words, shared] if shared else words)])


def _without_numbers(reason: str) -> str:
    """A reason as it is counted: without the length of the sentence, which differs from one to the next."""
    return re.sub(r"\d+", "…", reason)
