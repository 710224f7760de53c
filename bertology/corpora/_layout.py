"""What the columns of a column file hold: told, or seen by looking at them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bertology.corpora._conllu_block import N_COLUMNS
from bertology.corpora._iob import IOB_TAG
from bertology.corpora._lines import text_lines
from bertology.errors import CorpusError, cut, quoted

UPOS = frozenset({"ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON"}) | frozenset(
    {"PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"}
)
"""The part-of-speech tags of Universal Dependencies."""

_CHUNKS = frozenset(["ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP"])
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_COMMENT = re.compile(r"#\s*[a-z_]+( [a-z_]+)*(\s*=.*)?\s*")
_SAMPLE_LINES = 5000
IGNORED = "_"
_TOLD = (
    "say what each is by `--columns form,xpos,chunk`, or `columns: form,xpos,chunk` in an experiment (_ leaves one out)"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a file."""

    names: tuple[str, ...]
    """What each column holds: ``form``, ``id``, the name of a layer, or ``_`` for nothing of use."""
    tabbed: bool
    """Whether columns are parted by single tabs, else by spaces."""

    @property
    def form(self) -> int:
        """Which column holds the words."""
        return self.names.index("form")

    @property
    def layers(self) -> dict[str, int]:
        """Column of each annotation layer."""
        return {name: i for i, name in enumerate(self.names) if name not in ("form", "id", IGNORED)}

    def is_comment(self, line: str) -> bool:
        """Whether a line that begins with ``#`` is a comment, not the annotation of the word ``#``.

        Files that number their words have no other such lines; elsewhere a comment reads ``# key = value``.
        """
        if not line.startswith("#"):
            return False
        return "id" in self.names or (len(self.cells(line)) != len(self.names) and bool(_COMMENT.match(line)))

    def cells(self, line: str) -> list[str]:
        """The columns of a line."""
        return cells_of(line, tabbed=self.tabbed)


def cells_of(line: str, *, tabbed: bool) -> list[str]:
    """The columns of a line, parted by single tabs, or by any number of spaces (not white space of other kinds)."""
    line = line.rstrip("\r\n")
    if tabbed:
        return line.split("\t")
    cells = line.replace("\t", " ").split(" ")
    return [cell for cell in cells if cell] if "" in cells else cells


def layout_told(columns: str | Sequence[str], path: Path) -> Layout:
    """The layout that a person states, as ``"form,xpos,chunk"`` or a sequence of names.

    Raises:
        CorpusError: a name is no name of a column, stands twice, there is no ``form``, or there are more or fewer names
            than the first line has columns.
    """
    names = tuple(name.strip() for name in (columns.split(",") if isinstance(columns, str) else columns))
    for name in names:
        if name != IGNORED and not _NAME.fullmatch(name):
            raise CorpusError(
                f"columns: {quoted(name)} is no name for a column, which is small letters, digits and _; {_TOLD}"
            )
        if name == "head":
            raise CorpusError("columns: heads are read from CoNLL-U only; write _ for that column, or convert the file")
        if name != IGNORED and names.count(name) > 1:
            raise CorpusError(f"columns: {quoted(name)} stands twice; {_TOLD}")
    if "form" not in names:
        raise CorpusError(f"columns: none of {cut(', '.join(names))} is form, the words; {_TOLD}")
    rows, _ = _sample(path)
    tabbed = _is_tabbed(rows)
    first = cells_of(rows[0], tabbed=tabbed) if rows else names
    if len(first) != len(names):
        raise CorpusError(
            f"{path}: columns: {len(names)} names for the {len(first)} columns of its first line, "
            f"{quoted(' '.join(first))}; {_TOLD}"
        )
    return Layout(names, tabbed=tabbed)


def layout_seen(path: Path) -> Layout:
    """The layout that the first lines of a file show.

    A first column that numbers words is ``id``, the next ``form``. Then columns of IOB tags are ``chunk`` when their
    types are those of CoNLL-2000, else ``ner``; one of universal part-of-speech tags is ``upos``; a single other one
    is ``xpos``. The fourth and fifth column of numbered NER files (as of Universal NER) are left out.

    Raises:
        CorpusError: there is no row, or the columns do not say what they are.
    """
    rows, _ = _sample(path)
    if not rows:
        raise CorpusError(f"{path}: no word in it; give a file with one word and its tags a line")
    tabbed = _is_tabbed(rows)
    table = [cells_of(row, tabbed=tabbed) for row in rows]
    width = len(table[0])
    if width < 2:
        raise CorpusError(f"{path}: lines of one column; a word and its tags should be parted by a tab or a space")
    even = [row for row in table if len(row) == width]
    columns = [tuple(column) for column in zip(*even, strict=True)]
    numbered = columns[0][0] == "1" and all(cell.isdecimal() for cell in columns[0])
    first = 2 if numbered else 1
    if numbered and width == N_COLUMNS and tabbed:
        raise CorpusError(f"{path}: numbered lines of {N_COLUMNS} columns look like CoNLL-U; name the file .conllu")
    if sum(" " in form for form in columns[first - 1]) > len(even) / 2:
        raise CorpusError(f"{path}: column {first} holds whole sentences, not words; give one word a line")
    names = ["id", "form"] if numbered else ["form"]
    if numbered and width == 5 and set(columns[3]) == {"-"} and _role(columns[2]) == "ner":
        return Layout(("id", "form", "ner", IGNORED, IGNORED), tabbed=tabbed)
    names += [_role(column) for column in columns[first:]]
    for name in names:
        if names.count(name) > 1:
            places = [str(i + 1) for i, other in enumerate(names) if other == name]
            raise CorpusError(f"{path}: columns {cut(' and '.join(places))} both look like {name}; {_TOLD}")
    return Layout(tuple(names), tabbed=tabbed)


def looks_like_columns(path: Path) -> bool:
    """Whether a text file reads as one word a line with its tags, rather than as running text."""
    rows, blanks = _sample(path)
    if not rows:
        return False
    tabbed = _is_tabbed(rows)
    table = [cells_of(row, tabbed=tabbed) for row in rows[:20]]
    width = len(table[0])
    if width < 2 or any(len(row) != width for row in table):
        return False
    return tabbed or blanks or any(_role(column) != "xpos" for column in list(zip(*table, strict=True))[1:])


def _sample(path: Path) -> tuple[list[str], bool]:
    """The first lines that hold words, and whether a blank line stands between any of them."""
    rows: list[str] = []
    blank = blanks = False
    for line in islice(text_lines(path), _SAMPLE_LINES):
        if not line.strip():
            blank = bool(rows)
        elif not _COMMENT.fullmatch(line) and not line.startswith("-DOCSTART-"):
            rows.append(line)
            blanks = blanks or blank
    return rows, blanks


def _is_tabbed(rows: Sequence[str]) -> bool:
    return bool(rows) and "\t" in rows[0]


def _role(column: Sequence[str]) -> str:
    """What a column of tags holds."""
    values = set(column)
    if all(IOB_TAG.fullmatch(value) for value in values):
        types = {value[2:] for value in values if value != "O"}
        return "chunk" if types and types <= _CHUNKS else "ner"
    return "upos" if values - {"_"} <= UPOS else "xpos"
