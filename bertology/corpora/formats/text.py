"""Text without annotation, one sentence a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bertology.corpora._corpus import Corpus, corpus_from_files
from bertology.corpora._files import Oddities, at_least_one, text_lines
from bertology.corpora._sentences import Sentence
from bertology.corpora._words import sentence_of_text

BY_SPACES = "none: one sentence a line, words by white space"
"""The note on annotation of a corpus of raw text."""


def read_text(path: Path, oddities: Oddities | None = None) -> Iterator[Sentence]:
    """The sentences of a text file, one a line, words as white space parts them; blank lines are passed over.

    Such sentences carry no annotation: they serve to extract vectors, not to probe. For words and labels from a
    pipeline use :func:`~bertology.corpora.annotate_text`.

    Raises:
        CorpusError: the file cannot be read, or has no word in it.
    """
    return at_least_one(_sentences(path), f"{path}: no word in it; give one sentence a line")


def _sentences(path: Path) -> Iterator[Sentence]:
    for number, line in enumerate(text_lines(path), 1):
        if text := line.strip():
            yield sentence_of_text(text, split_at_spaces=True, name=str(number))


def load_text(path: Path) -> Corpus:
    """The corpus in one text file."""
    corpus = corpus_from_files(path, read_text, [".txt"], what="text", language=lambda _: None)
    return replace(corpus, notes={"annotation": BY_SPACES})
