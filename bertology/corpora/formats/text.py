"""Text without annotation, one sentence a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bertology.corpora._corpus import Corpus
from bertology.corpora._files import corpus_name, split_files, text_lines
from bertology.corpora._sentence import Sentence
from bertology.corpora._sentences import Sentences
from bertology.errors import CorpusError

_WORD = re.compile(r"\S+")


def read_text(path: str | Path) -> Iterator[Sentence]:
    """The sentences of a text file, one a line, words as white space parts them; blank lines are passed over.

    Such sentences carry no annotation: they serve to extract vectors, not to probe. For words and labels from a
    pipeline use :func:`~bertology.corpora.annotate_text`.

    Raises:
        CorpusError: the file cannot be read, or has no word in it.
    """
    path = Path(path)
    empty = True
    for number, line in enumerate(text_lines(path), 1):
        text = line.strip()
        if text:
            empty = False
            matches = list(_WORD.finditer(text))
            words = tuple(match[0] for match in matches)
            yield Sentence(str(number), text, words, tuple(match.span() for match in matches))
    if empty:
        raise CorpusError(f"{path}: no word in it; give one sentence a line")


def load_text(path: Path) -> Corpus:
    """The corpus in one text file: the split its name speaks of, else ``test``."""
    splits = {
        split: Sentences(sentence for file in files for sentence in read_text(file))
        for split, files in split_files(path, [".txt"], what="text").items()
    }
    return Corpus(corpus_name(path), splits, notes={"annotation": "none: one sentence a line, words by white space"})
