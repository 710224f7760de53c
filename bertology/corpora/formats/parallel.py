"""Parallel text of one sentence a line, in a file a language or with ``|||`` between, and gold links of words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from bertology.corpora._corpus import Corpus
from bertology.corpora._files import corpus_name, split_files, split_of, text_lines
from bertology.corpora._parallel import Links
from bertology.corpora._sentences import Sentences
from bertology.corpora.formats._words import sentence_of_text
from bertology.corpora.formats.columns import looks_like_columns
from bertology.corpora.formats.text import load_text
from bertology.errors import CorpusError, quoted

_BETWEEN = "|||"
_LINK = re.compile(r"([0-9]{1,6})([-p])([0-9]{1,6})")
_TEXT = (".txt", "")
LinkStart = Literal[0, 1]


def is_text(path: Path, language: str) -> bool:
    """Whether a file is one of text, as its suffix ``.txt`` or ``.LANGUAGE`` shows; or all files of a folder are."""
    if path.is_dir():
        visible = [file for file in path.iterdir() if not file.name.startswith(".")]
        return bool(visible) and all(file.suffix == ".txt" and is_text(file, language) for file in visible)
    return path.suffix == f".{language}" or (path.suffix in _TEXT and path.is_file() and not looks_like_columns(path))


def load_lines(paths: Mapping[str, Path]) -> dict[str, Corpus]:
    """By language the corpora of texts whose sentences of one line translate each other, named by their lines.

    Raises:
        CorpusError: a file cannot be read, or texts of one split have different numbers of lines.
    """
    lengths: dict[str, tuple[Path, int]] = {}
    for path in paths.values():
        for split, files in split_files(path, [".txt"], what="text").items():
            length = sum(1 for file in files for _ in text_lines(file))
            other, expected = lengths.setdefault(split, (path, length))
            if length != expected:
                raise CorpusError(
                    f"{path}: {length:,} lines, but {other} has {expected:,}: line N of one should translate line N of "
                    "the other; give texts of the same length"
                )
    return {language: load_text(path) for language, path in paths.items()}


def load_bitext(path: Path, languages: Sequence[str]) -> dict[str, Corpus]:
    """By language the corpora of one file whose lines hold a sentence in each, with ``|||`` between.

    Raises:
        CorpusError: the file cannot be read, or a line has more or fewer sentences.
    """
    texts: dict[str, list[tuple[str, str]]] = {language: [] for language in languages}
    for number, line in enumerate(text_lines(path), 1):
        parts = line.split(_BETWEEN)
        if len(parts) != len(languages) and line.strip():
            what = f"{len(parts)} sentences with {_BETWEEN} between"
            raise CorpusError(f"{path}:{number}: {what}, but {len(languages)} languages: {'+'.join(languages)}")
        for language, text in zip(languages, parts, strict=False):
            if text.strip():
                texts[language].append((str(number), text.strip()))
    split = split_of(path) or "test"
    return {
        language: Corpus(
            corpus_name(path),
            {split: Sentences(sentence_of_text(text, split_at_spaces=True, name=name) for name, text in of)},
        )
        for language, of in texts.items()
    }


def read_links(
    path: Path, lengths: Mapping[int, tuple[int, int]], *, start: LinkStart | None = None
) -> dict[int, Links]:
    """Gold alignments, one line a pair of sentences: ``i-j`` links word i of the first with word j of the second.

    ``ipj`` is a possible link. Words are numbered from 0 or from 1; which of both is inferred where a 0 occurs, or a
    number that is as high as its sentence is long.

    Args:
        path: the file.
        lengths: by line, from 1, the numbers of words of both sentences; lines without both are left out.
        start: the number of a first word; inferred when left out.

    Returns:
        By line the links, words from 0; those of words that sentences do not have included.

    Raises:
        CorpusError: a link is not written so, the file has more or fewer lines than there are sentences, or nothing
            in it shows whether words are numbered from 0 or from 1.
    """
    by_line = {number: list(_links(path, number, line)) for number, line in enumerate(text_lines(path), 1)}
    if lengths and max(lengths) > len(by_line):
        raise CorpusError(f"{path}: {len(by_line):,} lines, but the texts have {max(lengths):,}; give a line for each")
    by_line = {number: links for number, links in by_line.items() if number in lengths}
    start = _start(path, by_line, lengths) if start is None else start
    return {
        number: Links(*(frozenset((i - start, j - start) for kind, i, j in links if kind == which) for which in "-p"))
        for number, links in by_line.items()
    }


def _links(path: Path, number: int, line: str) -> Iterator[tuple[str, int, int]]:
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise CorpusError(f"{path}:{number}: {quoted(text)} is no link: write 3-4, or 3p4 for a possible one")
        yield match[2], int(match[1]), int(match[3])


def _start(
    path: Path,
    by_line: Mapping[int, Collection[tuple[str, int, int]]],
    lengths: Mapping[int, tuple[int, int]],
) -> LinkStart:
    every = [(i, j, *lengths[number]) for number, links in by_line.items() for _, i, j in links]
    if any(min(i, j) == 0 for i, j, *_ in every):
        return 0
    if any(i == n_first or j == n_second for i, j, n_first, n_second in every):
        return 1
    raise CorpusError(
        f"{path}: no word is numbered 0, and none as high as its sentence is long: write links0= or links1= to state "
        "the number of a first word"
    )
