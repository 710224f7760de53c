"""Text without annotation, one sentence a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bertology.corpora._corpus import Corpus, Format
from bertology.corpora._files import Oddities, numbered_lines, suffix_of
from bertology.corpora._sentences import Sentence
from bertology.corpora._words import sentence_of_text
from bertology.corpora.formats.columns import looks_like_columns

BY_SPACES = "none: one sentence a line, words by white space"
"""The note on annotation of a corpus of raw text."""


class Text(Format):
    """One sentence a line, its words separated by white space; blank lines are passed over.

    Such sentences carry no annotation: they serve to extract vectors, not to probe. For words and labels from a
    pipeline use :func:`~bertology.corpora.annotate_text`.
    """

    title, suffixes = "text", (".txt",)

    def is_at(self, path: Path) -> bool:
        """Whether a file has running text; folders are read only where one is named as such."""
        return path.is_file() and suffix_of(path) in (*self.suffixes, "") and not looks_like_columns(path)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence a line, called by its number."""
        for number, line in numbered_lines(file, "no word in it; give one sentence a line"):
            yield sentence_of_text(line, split_at_spaces=True, name=str(number))

    def load(self, path: Path) -> Corpus:
        """The corpus in one text file, or in a folder of them."""
        return replace(super().load(path), notes={"annotation": BY_SPACES})
