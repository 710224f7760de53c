"""Files of one word a line with its tags (CoNLL-2000, CoNLL-2003, IOB2 and BIOES NER files), or of plain text."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from bertology.corpora._corpus import Corpus, Format, corpus_at
from bertology.corpora._files import Oddities, language_of, numbered_lines, split_files, split_of, suffix_of, text_lines
from bertology.corpora._sentences import IGNORED, Sentence, Sentences
from bertology.corpora._words import JOINED, SPAN_TAG, sentence_of_text, spacing_in, with_iob2
from bertology.errors import CorpusError, cut, quoted

_DOCUMENT = "-DOCSTART-"
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
        names, tabbed = _layout(first, columns)
        read = {split: [_read(file, names, tabbed, oddities) for file in paths] for split, paths in files.items()}
        splits = {split: parts[0] if len(parts) == 1 else chain.from_iterable(parts) for split, parts in read.items()}
        return corpus_at(path, splits, oddities, language=language_of(files))


def _read(path: Path, names: Sequence[str], tabbed: bool, oddities: Oddities) -> Sentences:
    lines = array("q")
    sentences = Sentences(_sentences(path, names, tabbed, lines, oddities))
    if not len(sentences):
        raise CorpusError(f"{path}: no word in it; give a file with one word and its tags a line")
    return with_iob2(sentences, lambda word: f"{path}:{lines[word]}", oddities)


def _sentences(
    path: Path, names: Sequence[str], tabbed: bool, lines: array[int], oddities: Oddities
) -> Iterator[Sentence]:
    """Sentences as they stand in the file; the line of each word is put into ``lines``."""
    rows: list[list[str]] = []
    comments: list[str] = []
    count, documents, group = 0, 0, ""
    for number, line in enumerate(chain(text_lines(path), [""]), 1):
        row = _cells_of(line, tabbed) if line.strip() else []
        # Files that number their words have no lines of a word # ; elsewhere a comment reads # key = value.
        if line.startswith("#") and not rows and ("id" in names or (len(row) != len(names) and _COMMENT.match(line))):
            comments.append(line.rstrip("\r\n")[1:])
            continue
        is_document = bool(row) and row[0] == _DOCUMENT
        if row and not is_document:
            if len(row) != len(names):
                columns, marks = f"{len(row)} column{'s' * (len(row) > 1)}", "tabs" if tabbed else "spaces"
                due = f"where the file has {len(names)} ({cut(', '.join(names))}), parted by {marks}"
                raise CorpusError(f"{path}:{number}: {columns} {due}; mend the line, or name the columns by --columns")
            if "" in row or (names[0] == "id" and row[0] != str(len(rows) + 1)):
                what = f"id {cut(row[0])} where {len(rows) + 1} was due; number the words of a sentence from 1"
                if "" in row:
                    what = f"column {row.index('') + 1} ({names[row.index('')]}) is empty; write _ for no value"
                raise CorpusError(f"{path}:{number}: {what}")
            rows.append(row)
            lines.append(number)
            continue
        if is_document:
            oddities.note(f"{_DOCUMENT} lines, left out", f"{path.name}:{number}")
        if rows:
            count += 1
            columns_of = dict(zip(names, zip(*rows, strict=True), strict=True))
            parts = (comment.partition("=") for comment in comments)
            stated = {key.strip(): value.strip() for key, _, value in parts}
            space_after = spacing_in(stated["text"], columns_of["form"]) if "text" in stated else None
            if space_after is None:
                unspelt = "sentences whose words do not spell their `# text`, joined by single spaces"
                oddities.note(unspelt if "text" in stated else JOINED, f"{path.name}:{lines[-len(rows)]}")
            further = {name: column for name, column in columns_of.items() if name not in ("form", "id", _UNUSED)}
            yield Sentence.from_words(
                columns_of["form"],
                id=stated.get("sent_id") or str(count),
                space_after=space_after,
                layers={
                    name: [None if value == "_" else value for value in column] for name, column in further.items()
                },
                comments=tuple(comments),
                group=group,
            )
            rows, comments = [], []
        if is_document:
            documents += 1 + bool(count and not documents)
            group = f"document-{documents}"


def _cells_of(line: str, tabbed: bool) -> list[str]:
    line = line.rstrip("\r\n")
    if tabbed:
        return line.split("\t")
    cells = line.replace("\t", " ").split(" ")
    return [cell for cell in cells if cell] if "" in cells else cells


def _layout(path: Path, columns: str | Sequence[str] | None) -> tuple[tuple[str, ...], bool]:
    """The content of each column, and whether tabs separate them: as stated, or inferred from a file's first lines.

    Contents are ``form``, ``id``, names of layers, or ``_`` for nothing of use. Where they are inferred, a first column
    that numbers words is ``id``, the next ``form``. Then columns of IOB tags are ``chunk`` when their types are those
    of CoNLL-2000, else ``ner``; one of universal part-of-speech tags is ``upos``; a single other one is ``xpos``. The
    fourth and fifth column of numbered NER files (as of Universal NER) are left out.
    """
    table, tabbed, _ = _sample(path)
    if columns is not None:
        names = [name.strip() for name in (columns.split(",") if isinstance(columns, str) else columns)]
        for name in names:
            if name == "head":
                raise CorpusError("columns: heads are read from CoNLL-U only; write _ for that column, or convert it")
            if name != _UNUSED and (names.count(name) > 1 or not _NAME.fullmatch(name)):
                what = "stands twice" if names.count(name) > 1 else "is no name for a column: small letters, digits, _"
                raise CorpusError(f"columns: {quoted(name)} {what}; {_REMEDY}")
        if "form" not in names:
            raise CorpusError(f"columns: none of {cut(', '.join(names))} is form, the words; {_REMEDY}")
        if table and len(table[0]) != len(names):
            what = f"{len(names)} names for the {len(table[0])} columns of its first line, {quoted(' '.join(table[0]))}"
            raise CorpusError(f"{path}: columns: {what}; {_REMEDY}")
        return tuple(names), tabbed
    width = len(table[0]) if table else 0
    even = [row for row in table if len(row) == width]
    inside = [tuple(column) for column in zip(*even, strict=True)] or [("",)]
    numbered = inside[0][0] == "1" and all(cell.isdecimal() for cell in inside[0])
    first = 1 + numbered
    names = [*["id"] * numbered, "form", *map(_role, inside[first:])]
    double = next((name for name in names if names.count(name) > 1), None)
    trouble = ""
    if width < 2:
        trouble = "lines of one column; a word and its tags should be parted by a tab or a space"
    elif numbered and width == _N_CONLLU and tabbed:
        trouble = f"numbered lines of {_N_CONLLU} columns look like CoNLL-U; name the file .conllu"
    elif sum(" " in form for form in inside[first - 1]) > len(even) / 2:
        trouble = f"column {first} holds whole sentences, not words; give one word a line"
    elif numbered and width == 5 and set(inside[3]) == {"-"} and names[2] == "ner":
        return ("id", "form", "ner", _UNUSED, _UNUSED), tabbed
    elif double is not None:
        places = [str(place) for place, name in enumerate(names, 1) if name == double]
        trouble = f"columns {cut(' and '.join(places))} both look like {double}; {_REMEDY}"
    if trouble:
        raise CorpusError(f"{path}: {trouble}")
    return tuple(names), tabbed


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
    return [_cells_of(row, tabbed) for row in rows], tabbed, blanks


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
        for number, line in numbered_lines(file):
            yield sentence_of_text(line, split_at_spaces=True, name=str(number))

    def load(self, path: Path) -> Corpus:
        """The corpus in one text file, or in a folder of them."""
        return replace(super().load(path), notes={"annotation": BY_SPACES})
