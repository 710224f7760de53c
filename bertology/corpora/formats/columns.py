"""Files of one word a line with its tags (CoNLL-2000, CoNLL-2003, IOB2 and BIOES NER files), or of plain text."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from bertology.corpora._corpus import Corpus, Format, corpus_at
from bertology.corpora._files import (
    Oddities,
    language_of,
    numbered_lines,
    split_files,
    split_of,
    suffix_of,
    text_lines,
)
from bertology.corpora._sentences import IGNORED, Sentence, Sentences
from bertology.corpora._words import JOINED, SPAN_TAG, sentence_of_text, spacing_in, with_iob2
from bertology.errors import CorpusError, cut, quoted

_DOCUMENT = "-DOCSTART-"
_EMPTY = "no word in it; give a file with one word and its tags a line"
_UPOS = frozenset(
    [
        *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT"),
        *("SCONJ", "SYM", "VERB", "X", "_"),
    ]
)
_CHUNKS = frozenset(["ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP"])
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_COMMENT = re.compile(r"#\s*[a-z_]+( [a-z_]+)*(\s*=.*)?\s*")
_SAMPLE_LINES = 5000
_UNUSED = "_"
_N_CONLLU = 10
_REMEDY = (
    "say what each is by `--columns form,xpos,chunk`, or `columns: form,xpos,chunk` in an experiment (_ leaves one out)"
)


class Columns(Format):
    """One word and its tags a line, blank lines between sentences.

    Files do not state where spaces are: the natural text is the words joined by single spaces, unless a ``# text``
    comment holds just these words, as in the files of Universal NER. ``-DOCSTART-`` lines end a sentence; what follows
    is a document, its sentences are a group. Layers ``ner`` and ``chunk`` are given in IOB2, and the targets
    ``entities`` follow from ``ner``.
    """

    title = "column"
    described = "column files (.conll, .iob2, .txt …) with train, dev or test in the name"
    suffixes = (
        *(".annotated", ".bio", ".bioes", ".col", ".conll", ".iob", ".iob2", ".testa", ".testb", ".train"),
        *(".tsv", ".txt"),
    )

    def is_at(self, path: Path) -> bool:
        """Whether a folder has a file whose name states a split; any file may be one."""
        return any(map(split_of, self.files(path))) if path.is_dir() else True

    def load(self, path: Path, *, columns: str | Sequence[str] | None = None) -> Corpus:
        """The corpus in a folder of column files, one a split, or in one file.

        Args:
            path: the folder or file.
            columns: contents of the columns, as ``"form,xpos,chunk"``: ``form``, ``id``, names of layers, ``_`` for a
                column of no use. Inferred from the first file when left out.
        """
        files, oddities = split_files(path, self.suffixes, what=self.title), Oddities()
        first = next(iter(files.values()))[0]  # so that all splits have the same layers
        layout = _inferred_layout(first) if columns is None else _stated_layout(columns, first)
        read = {split: [_read(file, layout, oddities) for file in paths] for split, paths in files.items()}
        splits = {split: parts[0] if len(parts) == 1 else chain.from_iterable(parts) for split, parts in read.items()}
        return corpus_at(path, splits, oddities, language=language_of(files))


@dataclass(frozen=True, slots=True)
class _Layout:
    names: tuple[str, ...]
    """Content of each column: ``form``, ``id``, the name of a layer, or ``_`` for nothing of use."""
    tabbed: bool
    """Whether single tabs separate columns, else spaces."""

    def is_comment(self, line: str) -> bool:
        """Whether a line that begins with ``#`` is a comment, not the annotation of the word ``#``.

        Files that number their words have no other such lines; elsewhere a comment reads ``# key = value``.
        """
        if not line.startswith("#") or "id" in self.names:
            return line.startswith("#")
        return len(_cells_of(line, tabbed=self.tabbed)) != len(self.names) and bool(_COMMENT.match(line))

    def trouble(self, row: Sequence[str], due: int) -> str:
        """The mistake in the line of the word numbered ``due`` of its sentence; empty if there is none."""
        names = self.names
        if len(row) != len(names):
            columns, marks = f"{len(row)} column{'s' * (len(row) > 1)}", "tabs" if self.tabbed else "spaces"
            due_columns = f"where the file has {len(names)} ({cut(', '.join(names))}), parted by {marks}"
            return f"{columns} {due_columns}; mend the line, or name the columns by --columns"
        if "" in row:
            return f"column {row.index('') + 1} ({names[row.index('')]}) is empty; write _ for no value"
        if names[0] == "id" and row[0] != str(due):
            return f"id {cut(row[0])} where {due} was due; number the words of a sentence from 1"
        return ""


def _read(path: Path, layout: _Layout, oddities: Oddities) -> Sentences:
    lines = array("q")
    sentences = Sentences(_sentences(path, layout, lines, oddities))
    if not len(sentences):
        raise CorpusError(f"{path}: {_EMPTY}")
    return with_iob2(sentences, lambda word: f"{path}:{lines[word]}", oddities)


def _sentences(path: Path, layout: _Layout, lines: array[int], oddities: Oddities) -> Iterator[Sentence]:
    """Sentences as they stand in the file; the line of each word is put into ``lines``."""
    rows: list[list[str]] = []
    comments: list[str] = []
    count, documents, group = 0, 0, ""
    for number, line in enumerate(chain(text_lines(path), [""]), 1):
        if not rows and layout.is_comment(line):
            comments.append(line.rstrip("\r\n")[1:])
            continue
        row = _cells_of(line, tabbed=layout.tabbed) if line.strip() else []
        is_document = bool(row) and row[0] == _DOCUMENT
        if row and not is_document:
            if trouble := layout.trouble(row, len(rows) + 1):
                raise CorpusError(f"{path}:{number}: {trouble}")
            rows.append(row)
            lines.append(number)
            continue
        if is_document:
            oddities.note(f"{_DOCUMENT} lines, left out", f"{path.name}:{number}")
        if rows:
            count += 1
            where = f"{path.name}:{lines[-len(rows)]}"
            yield _sentence(rows, comments, layout, str(count), group, where, oddities)
            rows, comments = [], []
        if is_document:
            documents += 1 + bool(count and not documents)
            group = f"document-{documents}"


def _sentence(
    rows: Sequence[Sequence[str]],
    comments: Sequence[str],
    layout: _Layout,
    name: str,
    group: str,
    where: str,
    oddities: Oddities,
) -> Sentence:
    columns = dict(zip(layout.names, zip(*rows, strict=True), strict=True))
    forms = columns["form"]
    stated = {key.strip(): value.strip() for key, _, value in (comment.partition("=") for comment in comments)}
    space_after = spacing_in(stated["text"], forms) if "text" in stated else None
    if space_after is None:
        unspelt = "sentences whose words do not spell their `# text`, joined by single spaces"
        oddities.note(unspelt if "text" in stated else JOINED, where)
    further = {layer: column for layer, column in columns.items() if layer not in ("form", "id", _UNUSED)}
    layers = {layer: tuple(None if value == "_" else value for value in column) for layer, column in further.items()}
    return Sentence.from_words(
        forms,
        id=stated.get("sent_id") or name,
        space_after=space_after,
        layers={layer: values for layer, values in layers.items() if any(values)},
        comments=tuple(comments),
        group=group,
    )


def _cells_of(line: str, *, tabbed: bool) -> list[str]:
    line = line.rstrip("\r\n")
    if tabbed:
        return line.split("\t")
    cells = line.replace("\t", " ").split(" ")
    return [cell for cell in cells if cell] if "" in cells else cells


def _stated_layout(columns: str | Sequence[str], path: Path) -> _Layout:
    """The layout given by the user, as ``"form,xpos,chunk"`` or a sequence of names."""
    names = tuple(name.strip() for name in (columns.split(",") if isinstance(columns, str) else columns))
    for name in names:
        if name == "head":
            raise CorpusError("columns: heads are read from CoNLL-U only; write _ for that column, or convert the file")
        if name != _UNUSED and (names.count(name) > 1 or not _NAME.fullmatch(name)):
            what = "stands twice" if names.count(name) > 1 else "is no name for a column: small letters, digits and _"
            raise CorpusError(f"columns: {quoted(name)} {what}; {_REMEDY}")
    if "form" not in names:
        raise CorpusError(f"columns: none of {cut(', '.join(names))} is form, the words; {_REMEDY}")
    table, tabbed, _ = _sample(path)
    first = table[0] if table else names
    if len(first) != len(names):
        what = f"{len(names)} names for the {len(first)} columns of its first line, {quoted(' '.join(first))}"
        raise CorpusError(f"{path}: columns: {what}; {_REMEDY}")
    return _Layout(names, tabbed=tabbed)


def _inferred_layout(path: Path) -> _Layout:
    """The layout inferred from the first lines of a file.

    A first column that numbers words is ``id``, the next ``form``. Then columns of IOB tags are ``chunk`` when their
    types are those of CoNLL-2000, else ``ner``; one of universal part-of-speech tags is ``upos``; a single other one
    is ``xpos``. The fourth and fifth column of numbered NER files (as of Universal NER) are left out.
    """
    table, tabbed, _ = _sample(path)
    if not table:
        raise CorpusError(f"{path}: {_EMPTY}")
    width = len(table[0])
    if width < 2:
        raise CorpusError(f"{path}: lines of one column; a word and its tags should be parted by a tab or a space")
    even = [row for row in table if len(row) == width]
    columns = [tuple(column) for column in zip(*even, strict=True)]
    numbered = columns[0][0] == "1" and all(cell.isdecimal() for cell in columns[0])
    first = 2 if numbered else 1
    if numbered and width == _N_CONLLU and tabbed:
        raise CorpusError(f"{path}: numbered lines of {_N_CONLLU} columns look like CoNLL-U; name the file .conllu")
    if sum(" " in form for form in columns[first - 1]) > len(even) / 2:
        raise CorpusError(f"{path}: column {first} holds whole sentences, not words; give one word a line")
    if numbered and width == 5 and set(columns[3]) == {"-"} and _role(columns[2]) == "ner":
        return _Layout(("id", "form", "ner", _UNUSED, _UNUSED), tabbed=tabbed)
    names = [*["id"] * numbered, "form", *map(_role, columns[first:])]
    for name in names:
        if names.count(name) > 1:
            places = [str(i + 1) for i, other in enumerate(names) if other == name]
            raise CorpusError(f"{path}: columns {cut(' and '.join(places))} both look like {name}; {_REMEDY}")
    return _Layout(tuple(names), tabbed=tabbed)


def looks_like_columns(path: Path) -> bool:
    """Whether a text file has one word with its tags on each line, rather than running text."""
    table, tabbed, blanks = _sample(path)
    table = table[:20]
    if not table or len(table[0]) < 2 or any(len(row) != len(table[0]) for row in table):
        return False
    return tabbed or blanks or any(_role(column) != "xpos" for column in list(zip(*table, strict=True))[1:])


def _sample(path: Path) -> tuple[list[list[str]], bool, bool]:
    """The columns of the first lines with words, whether tabs separate them, whether a blank line is among them."""
    rows: list[str] = []
    blank = blanks = False
    for line in islice(text_lines(path), _SAMPLE_LINES):
        if not line.strip():
            blank = bool(rows)
        elif not _COMMENT.fullmatch(line) and not line.startswith(_DOCUMENT):
            rows.append(line)
            blanks = blanks or blank
    tabbed = bool(rows) and "\t" in rows[0]
    return [_cells_of(row, tabbed=tabbed) for row in rows], tabbed, blanks


def _role(column: Sequence[str]) -> str:
    """The layer that a column of tags holds."""
    values = set(column) - IGNORED
    if all(SPAN_TAG.fullmatch(value) for value in values):
        types = {value[2:] for value in values if value != "O"}
        return "chunk" if types and types <= _CHUNKS else "ner"
    return "upos" if values <= _UPOS else "xpos"


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
