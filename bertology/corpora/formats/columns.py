"""Files of one word a line with its tags (CoNLL-2000, CoNLL-2003, IOB2 and BIOES NER files), or of plain text."""

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from bertology.corpora import _files
from bertology.corpora._corpus import Corpus, Format, corpus_at
from bertology.corpora._files import Oddities, wrong
from bertology.corpora._sentences import IGNORED, Sentence, Sentences
from bertology.corpora._words import JOINED, SPAN_TAG, sentence_of_text, spacing_in, with_iob2
from bertology.errors import CorpusError, cut

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
_REMEDY = "name the columns as in --columns form,xpos,chunk (_ leaves one out)"


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
        return any(map(_files.split_of, self.files(path))) if path.is_dir() else True

    def load(self, path: Path, *, columns: str | Sequence[str] | None = None) -> Corpus:
        """The corpus in a folder of column files, one a split, or in one file.

        Args:
            path: the folder or file.
            columns: contents of the columns, as ``"form,xpos,chunk"``: ``form``, ``id``, names of layers, ``_`` for a
                column of no use. Inferred from the first file when left out.
        """
        files, oddities = _files.split_files(path, self.suffixes, what=self.title), Oddities()
        first = next(iter(files.values()))[0]  # so that all splits have the same layers
        names, tabbed = _layout(first, columns)
        read = {split: [_read(file, names, tabbed, oddities) for file in paths] for split, paths in files.items()}
        splits = {split: parts[0] if len(parts) == 1 else chain.from_iterable(parts) for split, parts in read.items()}
        return corpus_at(path, splits, oddities, language=_files.language_of(files))


def _read(path: Path, names: Sequence[str], tabbed: bool, oddities: Oddities) -> Sentences:
    lines = array("q")
    sentences = Sentences(_sentences(path, names, tabbed, lines, oddities))
    if not len(sentences):
        raise CorpusError(f"{path}: no word in it; give a file with one word and its tags a line")
    return with_iob2(sentences, lambda word: f"{path}:{lines[word]}", oddities)


def _sentences(
    path: Path, names: Sequence[str], tabbed: bool, lines: "array[int]", oddities: Oddities
) -> Iterator[Sentence]:
    """Sentences as they stand in the file; the line of each word is put into ``lines``."""
    rows, comments = list[list[str]](), list[str]()
    count, documents, group = 0, 0, ""
    for number, line in enumerate(chain(_files.text_lines(path), [""]), 1):
        row = _cells_of(line, tabbed) if line.strip() else []
        # Files that number their words have no lines of a word # ; elsewhere a comment reads # key = value.
        if line.startswith("#") and not rows and ("id" in names or (len(row) != len(names) and _COMMENT.match(line))):
            comments.append(line.rstrip("\r\n")[1:])
            continue
        is_document = bool(row) and row[0] == _DOCUMENT
        if row and not is_document:
            if len(row) != len(names) or "" in row or (names[0] == "id" and row[0] != str(len(rows) + 1)):
                due = f"{len(names)} columns parted by {'tabs' if tabbed else 'spaces'} ({cut(', '.join(names))})"
                due += ", none empty, an id from 1; or name them by --columns"
                raise wrong(f"{path}:{number}", line.rstrip(), due)
            rows.append(row)
            lines.append(number)
            continue
        if is_document:
            oddities.note(f"{_DOCUMENT} lines, left out", f"{path.name}:{number}")
        if rows:
            count += 1
            columns = dict(zip(names, zip(*rows, strict=True), strict=True))
            stated = _files.stated_in(comments)
            space_after = spacing_in(stated["text"], columns["form"]) if "text" in stated else None
            if space_after is None:
                unspelt = "sentences whose words do not spell their `# text`, joined by single spaces"
                oddities.note(unspelt if "text" in stated else JOINED, f"{path.name}:{lines[-len(rows)]}")
            layers = {name: column for name, column in columns.items() if name not in ("form", "id", _UNUSED)}
            yield Sentence.from_words(
                columns["form"],
                id=stated.get("sent_id") or str(count),
                space_after=space_after,
                layers={name: [None if value == "_" else value for value in of] for name, of in layers.items()},
                comments=tuple(comments),
                group=group,
            )
            rows, comments = [], []
        if is_document:
            documents += 1 + bool(count and not documents)
            group = f"document-{documents}"


def _cells_of(line: str, tabbed: bool) -> list[str]:
    return line.rstrip("\r\n").split("\t") if tabbed else [cell for cell in re.split("[ \t\r\n]", line) if cell]


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
        named = [name for name in names if name != _UNUSED]
        width = len(table[0]) if table else len(names)
        is_known = all(map(_NAME.fullmatch, named)) and len(set(named)) == len(named) and "head" not in named
        if not is_known or "form" not in names or width != len(names):
            due = f"form (the words), names in small letters, each once, or _ for no use; no head; {width} in all"
            due += "; of a table whose first row has names, text=COLUMN,label=COLUMN"
            raise wrong(f"{path}: columns", ",".join(names), due)
        return tuple(names), tabbed
    width = len(table[0]) if table else 0
    even = [row for row in table if len(row) == width]
    inside = [tuple(column) for column in zip(*even, strict=True)] or [("",)]
    numbered = inside[0][0] == "1" and all(cell.isdecimal() for cell in inside[0])
    first = 1 + numbered
    names = [*["id"] * numbered, "form", *map(_role, inside[first:])]
    double = next((name for name in names if names.count(name) > 1), None)
    due = ""
    if width < 2:
        due = "a word and its tags, parted by a tab or a space"
    elif numbered and width == _N_CONLLU and tabbed:
        due = "other lines than those of CoNLL-U, whose files are named .conllu"
    elif sum(" " in form for form in inside[first - 1]) > len(even) / 2:
        due = f"one word in column {first}, not a sentence"
    elif numbered and width == 5 and set(inside[3]) == {"-"} and names[2] == "ner":
        return ("id", "form", "ner", _UNUSED, _UNUSED), tabbed
    elif double is not None:
        due = f"one column that looks like {double}, not {names.count(double)}; {_REMEDY}"
    if due:
        raise wrong(f"{path}: first line", " ".join(table[0]) if table else "", due)
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
    lines = list(islice(_files.text_lines(path), _SAMPLE_LINES))
    rows = [line for line in lines if line.strip() and not _COMMENT.fullmatch(line) and not line.startswith(_DOCUMENT)]
    blanks = bool(rows) and any(not line.strip() for line in lines[lines.index(rows[0]) : lines.index(rows[-1])])
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
        return path.is_file() and _files.suffix_of(path) in (*self.suffixes, "") and not looks_like_columns(path)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence a line, called by its number."""
        for number, line in _files.numbered_lines(file):
            yield sentence_of_text(line, split_at_spaces=True, name=str(number))

    def load(self, path: Path) -> Corpus:
        """The corpus in one text file, or in a folder of them."""
        return replace(super().load(path), notes={"annotation": BY_SPACES})
