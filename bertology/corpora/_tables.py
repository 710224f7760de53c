"""Tables of sentences: which columns hold what, files of tables and data in memory, and the sentences of rows."""

from __future__ import annotations

import ast
import csv
import json
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bertology._files import NotJson, described, digest, opened, parsed_json, taken
from bertology._names import name_not_found
from bertology.corpora._corpus import SPLITS, TEXTS, UNLABELLED, Corpus, Format
from bertology.corpora._files import (
    Oddities,
    at_least_one,
    corpus_name,
    first_line,
    numbered_lines,
    split_files,
    split_named,
    split_of,
    suffix_of,
    text_lines,
)
from bertology.corpora._sentences import IGNORED, Sentence, Sentences, Target, as_one
from bertology.corpora._words import sentence_of_text, spacing_in, with_iob2, words_within
from bertology.corpora.formats.spacy_docs import sentences_of_docs
from bertology.errors import CorpusError, cut, cut_path, listed, quoted

# Which columns hold what.

_REMEDY = "name the columns as in columns='text=sentence,label=label' (--columns)"
_LAYERS = ("upos", "xpos", "lemma", "feats", "deprel", "ner", "chunk")
_PAIRS = (("sentence1", "sentence2"), ("text1", "text2"), ("premise", "hypothesis"), ("text", "text2"))
_KEYS = ("text", "text2", "at", "at2", "words", "label", "tags", "split", "group", "id")
"""Keys of tables of sentences.

``text`` is the text of a sentence, or of the first of a pair, whose second one is ``text2``. ``at`` and ``at2`` are the
place of the word, or words, in them that a label is about, if not all: a number from 0, or ``first-last``, of what
spaces separate. ``words`` is a list of words, or one text with spaces between them. Each ``label`` becomes targets of
its name, each column of ``tags``, lists as long as those of the words, a layer of its name. Splits that are made never
divide a ``group``.
"""
_NEEDED = {"at": "label", "at2": "text2", "tags": "words", "language": "text"}
"""Keys that stand with another one alone."""
Stated = str | Sequence[str]
"""Columns as a person names them: ``"text=sentence,label=stars+topic"``, or its parts."""


@dataclass(frozen=True)
class Columns:
    """Columns of a table by key."""

    by_key: Mapping[str, tuple[str, ...]]
    language: str | None = None
    """Language of the texts, by whose rules words are found."""
    inferred: bool = field(default=False, compare=False)

    def __getitem__(self, key: str) -> tuple[str, ...]:
        return self.by_key.get(key, ())

    def one(self, key: str) -> str | None:
        """The column of a key that has at most one."""
        return names[0] if (names := self[key]) else None

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are read."""
        return tuple(name for names in self.by_key.values() for name in names)

    @property
    def has_names(self) -> bool:
        """Whether columns are called by names that the first row of a file holds, not by their numbers alone."""
        return not all(name.isdecimal() for name in self.named)

    def __str__(self) -> str:
        return ",".join(f"{key}={'+'.join(names)}" for key, names in self.by_key.items())


def stated_columns(columns: Stated, keys: Sequence[str], several: Sequence[str], remedy: str) -> Columns:
    """The columns that a person names by ``keys``, of which ``several`` may have several columns, joined by ``+``."""
    parts, language = split_language(columns)
    chosen: dict[str, tuple[str, ...]] = {}
    for key, equals, value, part in parts_of(parts or ()):
        if not equals or not value:
            raise CorpusError(f"columns: {quoted(part)} is not key=column; {remedy}")
        if key not in keys:
            raise name_not_found("key of columns", key, (*keys, "language"))
        if key in chosen:
            plural = " and ".join(f"{name}=" for name in several)
            raise CorpusError(f"columns: {key}= stands twice; write {plural} of several columns with +")
        chosen[key] = tuple(map(str.strip, value.split("+"))) if key in several else (value,)
    return Columns({key: chosen[key] for key in keys if key in chosen}, language)


def parts_of(columns: Stated) -> list[tuple[str, str, str, str]]:
    """The parts of stated columns: key, ``=`` if it is there, value, and the part as it is written."""
    parts = columns.split(",") if isinstance(columns, str) else columns
    cells = (tuple(map(str.strip, part.partition("="))) for part in parts)
    return [(key, equals, value, part) for (key, equals, value), part in zip(cells, parts, strict=True)]


def split_language(columns: Stated | None) -> tuple[list[str] | None, str | None]:
    """Columns without the language of texts, ``language=zh``, by whose rules words are found; and that language.

    Raises:
        CorpusError: there are two.
    """
    parts = parts_of(columns or ())
    stated = [value for key, _, value, _ in parts if key == "language"]
    if len(stated) > 1 or "" in stated:
        raise CorpusError("columns: write language= once, with a code such as language=zh")
    rest = [part.strip() for key, *_, part in parts if key != "language"]
    return rest or None, next(iter(stated), None)


def _stated(columns: Stated) -> Columns:
    """Columns of a table of sentences as stated; keys that need another one must have it."""
    chosen = stated_columns(columns, _KEYS, ("label", "tags"), _REMEDY)
    if not (chosen["text"] or chosen["words"]):
        raise CorpusError(f"columns: neither text= nor words= is there; {_REMEDY}")
    for key in (*chosen.by_key, *(["language"] if chosen.language else [])):
        if (of := _NEEDED.get(key)) and not chosen[of]:
            raise CorpusError(f"columns: {key}= stands without {of}=; name that column too, or leave it out")
    return chosen


def _recognised(names: Collection[str]) -> Columns | None:
    """Columns by the obvious names among those of a table; None where no column is known to hold texts or words."""
    of = {name.lower(): name for name in names}
    pair = next((pair for pair in _PAIRS if of.keys() >= set(pair)), ())
    texts = [of[name] for name in pair] or [of[name] for name in ("text", "sentence") if name in of][:1]
    words = [of[name] for name in ("words", "tokens") if name in of][:1]
    if not texts and not words:
        return None
    tagged = [of[name] for name in of if name == "tags" or name.endswith("_tags") or name in _LAYERS]
    found = {"text": texts[:1], "text2": texts[1:], "words": words, "label": [of[n] for n in ("label",) if n in of]}
    found |= {"tags": tagged if words else [], "split": [of[name] for name in ("split",) if name in of]}
    return Columns({key: tuple(columns) for key, columns in found.items() if columns}, inferred=True)


def no_columns(columns: Stated, name: str) -> CorpusError:
    """The error for column names given with a corpus that has no columns to name."""
    what = "tables" if is_of_table(columns) else "column files"
    return CorpusError(f"columns={quoted(columns)} is for {what}; leave it out for {cut_path(name)}")


def columns_found(names: Collection[str]) -> str:
    """The columns of a table for an error about missing ones, with a remedy where a wrong mark separates them."""
    only = next(iter(names), "") if len(names) == 1 else ""
    part = next((what for mark, what in (("\t", "tabs"), (",", "commas"), (";", "semicolons")) if mark in only), "")
    hint = f" (it has {part}: name a file with tabs .tsv, one with commas or semicolons .csv)" if part else ""
    return f"among {listed(names)}{hint}"


def is_of_table(columns: Stated) -> bool:
    """Whether columns are those of a table, ``text=sentence``, not of a file with one word a line, ``form,xpos``."""
    return any("=" in part for part in ([columns] if isinstance(columns, str) else columns))


# Tables, and the sentences of their rows.

_LIST = re.compile(r"\[\s*(['\"\d-]|None|null|nan\b).*\]|\[\s*\]", re.DOTALL)
"""A cell of text that is a list as JSON or Python writes it."""
_LABEL_KINDS = {str: "text", bool: "a truth value", int: "a number", float: "a number"}


@dataclass(frozen=True)
class Table:
    """Rows of one split, or of a corpus that is not split yet."""

    columns: Mapping[str, Sequence[Any]]
    """The values of all rows, by column."""
    source: Path | str
    """The file, or what data in memory are called."""
    lines: Sequence[int] | None = None
    """The line of each row in a file that has lines."""

    def place(self, row: int) -> str:
        """Place of a row (from 0), for messages."""
        return f"{self.source}, row {row}" if self.lines is None else f"{self.source}:{self.lines[row]}"

    def number(self, row: int) -> int:
        """The line of a row (from 0), or its number from 1."""
        return row + 1 if self.lines is None else self.lines[row]

    def check(self, columns: Columns) -> None:
        """Raise :class:`~bertology.errors.NameNotFoundError` where a named column is lacking."""
        for column in columns.named:
            if column not in self.columns:
                raise name_not_found(f"column of {self.source}", column, self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


Row = tuple[str | None, Sentence]
"""A sentence of a table, and its split if it states one."""


def _corpus_of_tables(name: str, tables: Mapping[str | None, Table], columns: Stated | None) -> Corpus:
    """The corpus in tables of the same columns, one a split; one under None is split by its column, or here."""
    oddities = Oddities()
    chosen = _columns_of(name, tables, columns)
    rows = _rows_of_tables(tables, chosen, oddities, language=chosen.language)
    notes = {"columns": f"{chosen}, by their names"} if chosen.inferred else {}
    corpus = corpus_of_rows(name, list(rows), by=chosen.one("group"), notes=notes, oddities=oddities)
    return replace(corpus, language=chosen.language)


def _columns_of(name: str, tables: Mapping[str | None, Table], columns: Stated | None) -> Columns:
    """The columns of tables, as stated or by their names; there must be some row."""
    first = next(iter(tables.values()))
    chosen = _recognised(first.columns) if columns is None else _stated(columns)
    if chosen is None:
        raise CorpusError(f"{name}: no column of texts or words {columns_found(first.columns)}; {_REMEDY}")
    for table in tables.values():
        table.check(chosen)
    if not any(map(len, tables.values())):
        raise CorpusError(f"{name}: no row in it; give some sentences")
    return chosen


def _rows_of_tables(
    tables: Mapping[str | None, Table], columns: Columns, oddities: Oddities, **words: Any
) -> Iterator[Row]:
    """The sentences of tables, in their order; ``words`` are options of :func:`sentence_of_text`."""
    spelt = {label: _spelling(label, tables, in_lists=False) for label in columns["label"]}
    spelt |= {tags: _spelling(tags, tables, in_lists=True) for tags in columns["tags"]}
    for split, table, number in ((*of, number) for of in tables.items() for number in range(len(of[1]))):
        where, one = table.place(number), columns.one
        cells = {name: table.columns[name][number] for name in columns.named}
        name = name_cell(cells[column], where, column) if (column := one("id")) else str(number)
        text = text_cell(cells[column], where, column) if (column := one("text")) else None
        if column := one("words"):
            given = list_cell(cells[column], where, column)
            for place, word in enumerate(given or [None], 1):
                if not isinstance(word, str) or not word.strip():
                    what = "is empty" if isinstance(word, str) or _is_missing(word) else f"is {quoted(word)}, no text"
                    what = f"word {place} of column {quoted(column)} {what}; give every word, or leave the row out"
                    raise CorpusError(f"{where}: {what}")
            spaced = None if text is None else spacing_in(text, given)
            if text is not None and spaced is None:
                oddities.note("sentences whose words do not spell their text, joined by single spaces", where)
            sentence = Sentence.from_words(given, id=name, space_after=spaced)
        else:
            sentence = sentence_of_text(text or "", name=name, where=f"{where}: ", **words)
        n, layers, span2 = len(sentence), dict[str, tuple[str | None, ...]](), None
        span1 = (0, n)
        if column := one("at"):
            span1 = _words_at(cells[column], sentence, where, column, by_spaces=not columns["words"])
        if column := one("text2"):
            other = sentence_of_text(text_cell(cells[column], where, column), where=f"{where}: ", **words)
            first, last = 0, len(other)
            if column := one("at2"):
                first, last = _words_at(cells[column], other, where, column, by_spaces=True)
            sentence, span2 = joined(sentence, other), (first + n, last + n)
        for column in columns["tags"]:
            if _is_missing(cells[column]):
                oddities.note(f"rows without a label in {column}", where)
                continue
            values = list_cell(cells[column], where, column)
            if len(values) != n:
                what = f"{n} words in column {quoted(one('words'))} but {len(values)} labels"
                raise CorpusError(f"{where}: {what} in {quoted(column)}; give one a word")
            layers[column] = (*map(spelt[column], values), *[None] * (len(sentence) - n))
        targets = dict(sentence.targets)
        for column in columns["label"]:
            if (label := spelt[column](cells[column])) is None:
                oddities.note(f"rows without a label in {column}", where)
            else:
                targets[column] = (Target(span1, label, span2),)
        group = _plain(cells[column]) if (column := one("group")) else None
        if column := one("split"):
            split = split_named(name_cell(cells[column], where, column))
        layers = {tags: values for tags, values in layers.items() if any(values)}
        yield split, replace(sentence, layers=layers, targets=targets, group="" if _is_missing(group) else str(group))


def _words_at(value: Any, sentence: Sentence, where: str, column: str, *, by_spaces: bool) -> tuple[int, int]:
    """The words at a place that a column states, a number or ``first-last``."""
    stated = name_cell(value, where, column)
    # Words of a text are counted as people do, by spaces; the tokenizer may part them further.
    parts = [one.span() for one in re.finditer(r"\S+", sentence.text)] if by_spaces else sentence.spans
    match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", stated)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if not first <= last < len(parts):
        due = f"give the number of a word, 0 to {len(parts) - 1}, or first-last"
        raise CorpusError(f"{where}: column {quoted(column)} is {quoted(stated)}, no place among its words; {due}")
    return words_within(list(sentence.spans), parts[first][0], parts[last][1])


def corpus_of_rows(
    name: str,
    rows: Sequence[Row],
    *,
    by: str | None = None,
    notes: Mapping[str, str] = MappingProxyType({}),
    oddities: Oddities | None = None,
) -> Corpus:
    """The corpus of some sentences, all in splits, or in none: then divided, or all ``test`` if none is annotated.

    ``by`` names their groups, where a person named them; ``oddities`` are listed in its notes.
    """
    oddities = oddities or Oddities()
    by_split: dict[str, list[Sentence]] = {split: [] for split in SPLITS}
    for split, sentence in rows:
        by_split.setdefault(split or "test", []).append(sentence)
    groups = f"groups by {by}" if by not in (None, "document") else "documents"
    parts = {split: Sentences(part) for split, part in by_split.items() if part}
    corpus = Corpus(name, parts, notes=notes, groups=groups)
    if rows and rows[0][0] is None and any(one.layers or one.targets or one.heads for one in by_split["test"]):
        corpus = corpus.divided(by=by)

    def place(sentences: Sentences, word: int) -> str:
        return f"{name}, row {sentences.id(int(sentences.sentence_of_word[word]))}"

    splits = {split: with_iob2(part, partial(place, part), oddities) for split, part in corpus.splits.items()}
    return replace(corpus, splits=splits, notes={**corpus.notes, **oddities.notes()})


def joined(first: Sentence, second: Sentence) -> Sentence:
    """Two texts as one sentence, a space between them; the targets ``texts`` are the two."""
    n, both = len(first), as_one([first, second])
    texts = (Target((0, n), "1"), Target((n, len(both)), "2"))
    return replace(both, targets={TEXTS: texts}, derived=frozenset({TEXTS}))


def _spelling(column: str, tables: Mapping[str | None, Table], *, in_lists: bool) -> Callable[[Any], str | None]:
    """The spelling of labels of a column: text as it is, numbers by ``repr``, all as floats if one is a float."""
    kinds: dict[str, str] = {}
    types: set[type] = set()
    for table, row in ((one, row) for one in tables.values() for row in range(len(one))):
        cell = table.columns[column][row]
        where = table.place(row) if in_lists and isinstance(cell, str) else ""
        for value in map(_plain, list_cell(cell, where, column) if in_lists and not _is_missing(cell) else [cell]):
            if _is_missing(value) or str(value) in IGNORED or type(value) in types:
                continue
            kind = next((kind for known, kind in _LABEL_KINDS.items() if isinstance(value, known)), None)
            if kind is None:
                what = f"is {quoted(value)} ({type(value).__name__})"
                raise CorpusError(f"{table.place(row)}: column {quoted(column)} {what}; give text or a number")
            types.add(type(value))
            kinds.setdefault(kind, f"{table.place(row)}: {quoted(value)}")
    if len(kinds) > 1:
        mixed = "; ".join(f"{kind} ({where})" for kind, where in kinds.items())
        raise CorpusError(f"column {quoted(column)} mixes {mixed}; make all of one kind, as by astype(str)")

    def spelt(value: Any) -> str | None:
        value = _plain(value)
        if _is_missing(value):
            return None
        return value if isinstance(value, str) else repr(float(value) if float in types else value)

    return spelt


def is_list(value: Any) -> bool:
    """Whether a value is a list, or an array of one dimension."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1


def _plain(value: Any) -> Any:
    """A value of Python in place of a scalar of numpy or torch."""
    return value.item() if hasattr(value, "item") and not isinstance(value, str) else value


def _is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, pandas' NA, or an empty text."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def text_cell(value: Any, where: str, column: str) -> str:
    """A text on one line, white space as single spaces."""
    if isinstance(value, str) and (words := value.split()):
        return " ".join(words)
    what = "empty; give a text, or leave the row out"
    if not (_is_missing(value) or isinstance(value, str)):
        what = f"{quoted(value)}, no text; make it text, or name another column"
    raise CorpusError(f"{where}: column {quoted(column)} is {what}")


def name_cell(value: Any, where: str, column: str) -> str:
    """A text or number by which a row or split is called."""
    value = _plain(value)
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    return text_cell(str(int(value)) if is_whole else value, where, column)


def list_cell(value: Any, where: str, column: str) -> list[Any]:
    """The values of a list: as it is, in JSON, as Python writes it, or in a text with spaces between them."""
    if is_list(value):
        return list(value)
    trouble = f"where a list was due; {_REMEDY}"
    if isinstance(value, str):
        if not _LIST.fullmatch(value):
            return value.split()
        for parse in (parsed_json, ast.literal_eval):
            try:
                items = parse(value)
            except (NotJson, ValueError, SyntaxError):
                continue
            # Numpy's ['a' 'b'] reads as if Python had written it, but would be ['ab'].
            if isinstance(items, list) and (parse is parsed_json or repr(items) == value.strip()):
                return items
        trouble = ', no list; write JSON, ["a", "b"], or values with spaces between them'
    raise CorpusError(f"{where}: column {quoted(column)} is {quoted(value)} {trouble}")


# Files of tables.

_ALWAYS = (".csv", ".parquet")
JSON_SUFFIXES = (".json", ".jsonl")
_COLA = ("source", "label", "mark", "sentence")
_COLA_ROW = re.compile(r"[a-z][a-z&_-]*[0-9]{2}\t[01]\t[*? ]*\t[^\t]*\S[^\t]*\n?")
"""A row of GLUE's CoLA, which has no row of names: source (``gj04``), label, mark of the author (``*``), sentence."""


class Tables(Format):
    """Tables: ``.csv``, ``.json`` (an array of objects), ``.jsonl``, ``.parquet``, and values with tabs between them.

    Where the columns are named by numbers alone (``"text=4,label=2"``, from 1), the first line is a row like all
    others. GLUE's CoLA has no row of names: its columns are ``source``, ``label``, ``mark`` and ``sentence``.
    """

    title, suffixes = "table", (*_ALWAYS, ".jsonl", ".tsv")
    described = "tables of texts (.csv, .tsv, .json, .jsonl, .parquet)"

    def files(self, path: Path) -> list[Path]:
        """The files of a folder, of which those of JSON are lines of objects; or one file."""
        return [path] if path.is_file() and suffix_of(path) == ".json" else super().files(path)

    def recognises(self, file: Path) -> bool:
        """Whether a column is known to hold texts or words."""
        if suffix_of(file) in _ALWAYS:
            return True
        names = names_of_columns(file)
        return names is not None and "targets" not in names and _recognised(names) is not None

    def load(self, path: Path, *, columns: Stated | None = None) -> Corpus:
        """The corpus in a table, or in a folder of tables, one a split.

        Where columns are recognised by their names, files without those of labels are left out, as GLUE's test files.
        One file whose name states no split is split here.
        """
        files = {split: file for split, (file,) in split_files(path, self.suffixes, what=self.title).items()}
        has_header = columns is None or _stated(columns).has_names
        is_whole = path.is_file() and split_of(path) is None
        tables = {None if is_whole else split: read_table(file, has_header=has_header) for split, file in files.items()}
        recognised = _recognised(next(iter(tables.values())).columns) if columns is None else None
        labels = set(recognised["label"]) if recognised is not None else set()
        labelled = {split: table for split, table in tables.items() if labels <= table.columns.keys()}
        corpus = _corpus_of_tables(corpus_name(path), labelled, columns)
        left_out = ", ".join(Path(tables[split].source).name for split in tables if split not in labelled)
        return replace(corpus, notes={**corpus.notes, **({UNLABELLED: left_out} if left_out else {})})


def names_of_columns(path: Path) -> Collection[str] | None:
    """Names in the first row of a table, of JSON those of the first object; None of a file that is no table."""
    suffix = suffix_of(path)
    if suffix == ".parquet":
        return read_table(path).columns
    if suffix not in JSON_SUFFIXES:
        return _COLA if _is_cola(path) else [name.strip() for _, row in islice(_rows(path), 1) for name in row]
    first = first_line(path)
    try:
        value = parsed_json(first)
    except NotJson:
        value = None
    if suffix == ".json" and not isinstance(value, dict) and first.lstrip().startswith("["):
        return read_table(path).columns
    return value if isinstance(value, dict) else None


def read_table(path: Path, *, has_header: bool = True) -> Table:
    """The rows of one file; without a header columns are called by their numbers, from 1."""
    if suffix_of(path) == ".parquet":
        import pyarrow
        import pyarrow.parquet

        with opened(path, error=CorpusError) as file:
            try:
                table = pyarrow.parquet.read_table(file)
            except (pyarrow.ArrowException, OSError) as error:
                reason = " ".join(str(error).split())
                raise CorpusError(f"{path}: not a Parquet file ({reason}); write it again") from error
        stated: Mapping[bytes, bytes] = table.schema.metadata or {}
        features = json.loads(stated.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        return _with_names_of_classes(Table(table.to_pydict(), path), features)
    if suffix_of(path) in JSON_SUFFIXES:
        if not first_line(path).lstrip().startswith("["):
            numbers, objects = array("q"), list[dict[str, Any]]()
            rows_of_file = at_least_one(numbered_lines(path), f"{path}: nothing in it; give one JSON object a line")
            for number, line in rows_of_file:
                try:
                    value = parsed_json(line)
                except NotJson as error:
                    raise CorpusError(f"{path}:{number}: not JSON ({error}); one object a line is due") from None
                if not isinstance(value, dict):
                    raise CorpusError(f"{path}:{number}: {described(value)} where an object was due")
                numbers.append(number)
                objects.append(value)
            return _of_records(objects, path, numbers)
        try:
            rows = parsed_json("".join(text_lines(path)))
        except NotJson as error:
            due = "an array of objects, or one object a line, is due"
            raise CorpusError(f"{path}: not JSON ({error}); {due}") from None
        if (wrong := next((number for number, row in enumerate(rows) if not isinstance(row, dict)), None)) is not None:
            raise CorpusError(f"{path}, row {wrong}: {described(rows[wrong])} where an object was due")
        if not rows:
            raise CorpusError(f"{path}: nothing in it; give an array of objects")
        return _of_records(rows, path)
    columns: dict[str, list[str]] = {}
    lines, is_cola = array("q"), has_header and _is_cola(path)
    for number, row in _rows(path):
        is_header = has_header and not columns and not is_cola
        if not columns:
            names = [name.strip() for name in row] if is_header else [str(place) for place in range(1, len(row) + 1)]
            _check_names(names, f"{path}:{number}")
            columns = {name: [] for name in (_COLA if is_cola else names)}
        if len(row) != len(columns):
            what = f"{len(row)} values where the table has {len(columns)} columns"
            remedy = "mend the line, or write the table as CSV or JSON Lines"
            raise CorpusError(f"{path}:{number}: {what}; {remedy}")
        if not is_header:
            lines.append(number)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    if not columns:
        raise CorpusError(f"{path}: the file is empty; give a table whose first row names the columns")
    return Table(columns, path, lines)


def _check_names(names: Sequence[str], where: str) -> None:
    if (double := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise CorpusError(f"{where}: two columns are called {quoted(double)}; rename one")


def _is_cola(path: Path) -> bool:
    lines = list(islice(text_lines(path), 5)) if suffix_of(path) == ".tsv" else []
    return bool(lines) and all(map(_COLA_ROW.fullmatch, lines))


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    if suffix_of(path) != ".csv":
        yield from ((number, [_unquoted(cell) for cell in line.split("\t")]) for number, line in numbered_lines(path))
        return
    header = first_line(path)
    delimiter = next((mark for mark in (",", ";", "\t") if mark in header), ",")
    reader = csv.reader(text_lines(path), delimiter=delimiter, strict=True)
    before = 0
    try:
        for row in reader:
            if row:
                yield before + 1, row
            before = reader.line_num
    except csv.Error as error:
        plain = ", or name the file .tsv, where quotation marks are plain text" if delimiter == "\t" else ""
        problem = str(error).replace("\t", "tab")
        raise CorpusError(f"{path}:{before + 1}: not CSV ({problem}); quote values as CSV does{plain}") from None


def _unquoted(cell: str) -> str:
    """A value that was quoted since it has quotation marks, which are doubled; others may begin with one (GLUE)."""
    inner = cell[1:-1]
    if len(cell) > 1 and cell[0] == cell[-1] == '"' and '""' in inner and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"')
    return cell


def _of_records(rows: Sequence[Mapping[Any, Any]], source: Path | str, lines: Sequence[int] | None = None) -> Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return Table({str(name): [row.get(name) for row in rows] for name in names}, source, lines)


def _with_names_of_classes(table: Table, features: Mapping[str, Any]) -> Table:
    """A table whose columns have names of classes in place of their numbers, −1 for none, where features state them.

    ``features`` are those of a data set of Hugging Face, or as it writes them into a file.
    """

    def names_in(feature: Any) -> Sequence[str] | None:
        if isinstance(feature, list) and len(feature) == 1:
            return names_in(feature[0])
        of = feature if isinstance(feature, Mapping) else getattr(feature, "__dict__", {})
        names: Sequence[str] | None = of.get("names") or getattr(feature, "names", None)
        return names or (names_in(of["feature"]) if "feature" in of else None)

    def named(value: Any, names: Sequence[str]) -> Any:
        if is_list(value):
            return [named(each, names) for each in value]
        return value if _is_missing(value) else names[int(value)] if 0 <= int(value) < len(names) else None

    classes = {column: names_in(feature) for column, feature in features.items() if column in table.columns}
    columns = {column: [named(one, of) for one in table.columns[column]] for column, of in classes.items() if of}
    return replace(table, columns={**table.columns, **columns})


# Data in memory: frames, data sets, lists, documents.

IN_MEMORY = "data in memory"
_MOST_ROWS = 10_000_000
"""Most rows of data that do not state how many they are: more are taken for an iterable without end."""
DIGITS = 8
"""Digits of the hash in the name of what is in memory."""
_TABLES: dict[str, Table] = {}
"""Tables in memory that this process knows by name."""
_KINDS = (
    "give a DataFrame, a data set of Hugging Face, a list of texts, of (text, label), of (words, tags), of records, of "
    "spaCy documents, or a dict of such by split"
)
_UNSTATED = "not stated by the documents; taken for people (from_docs names a pipeline)"

Text = Sentence | str | Sequence[str]
"""Input of :func:`as_sentence`."""
Texts = Sentences | Sentence | str | Sequence[Text]
"""Input of :func:`as_sentences`."""


def corpus_of_data(data: Any, *, columns: Stated | None, name: str | None) -> Corpus:
    """The corpus in an object of Python, of the kinds that :func:`load_corpus` lists."""
    if isinstance(data, Corpus):
        if columns is not None:
            raise no_columns(columns, f"{data.name}, which is loaded already")
        return replace(data, name=name) if name else data
    name = name or IN_MEMORY
    parts: dict[str | None, Any] = {None: data}
    if _has_splits(data):
        parts = {split_named(str(key)): part for key, part in data.items()}
        if len(parts) < len(data):
            raise CorpusError(f"{name}: two of {cut(', '.join(map(str, data)))} are the same split; keep one")
    if list(parts) == ["train"]:  # as data sets come that have no splits
        parts = {None: parts["train"]}
    read = {split: _part(part, name if split is None else f"{name}, {split}", columns) for split, part in parts.items()}
    tables = {split: part for split, part in read.items() if isinstance(part, Table)}
    if len(tables) == len(read):
        return _corpus_of_tables(name, tables, columns)
    if tables:
        raise CorpusError(f"{name}: some splits are tables, others sentences; give all of one kind")
    if columns is not None:
        raise no_columns(columns, f"{name}, which has sentences")
    rows = [(split, one) for split, part in read.items() if not isinstance(part, Table) for one in part]
    annotated = any(isinstance(part, _OfDocs) for part in read.values())
    return corpus_of_rows(name, rows, notes={"annotator": _UNSTATED} if annotated else {})


def _has_splits(data: Any) -> bool:
    return isinstance(data, Mapping) and any(split_named(str(key)) in SPLITS for key in data)


def kept_table(data: Any) -> str | None:
    """The name by which :func:`known_table` finds a table in memory again, in this process; None of sentences."""
    if (table := table_of_data(data)) is None:
        return None
    content = repr([[name, list(values)] for name, values in table.columns.items()])
    name = f"{IN_MEMORY} #{digest([content.encode('utf-8', 'surrogatepass')])[:DIGITS]}"
    _TABLES[name] = table
    return name


def known_table(name: str) -> Table | None:
    """The table in memory of that name, if this process has it."""
    return _TABLES.get(name)


def as_sentence(text: Text, *, language: str | None = None, split_at_spaces: bool = False) -> Sentence:
    """One text as a sentence: a sentence as it is, a list of words, or a text (:func:`sentence_of_text`).

    Raises:
        CorpusError: it is nothing of the kind, or has no word.
    """
    if isinstance(text, str):
        return sentence_of_text(text, language=language, split_at_spaces=split_at_spaces)
    return text if isinstance(text, Sentence) else as_sentences([text])[0]


def as_sentences(text: Texts, *, language: str | None = None, split_at_spaces: bool = False) -> Sentences:
    """Anything given as text, as sentences: a text, texts, lists of words, sentences, or what a split is made of.

    Args:
        text: a :class:`Sentence`, :class:`Sentences`, a text, or data in memory as of :func:`load_corpus` without
            splits; a text is one sentence, and its words are found by :func:`sentence_of_text`. A list or tuple of
            words within a list is a sentence of these words.
        language: that of the texts, by whose rules words are found.
        split_at_spaces: white space separates the words of texts.

    Raises:
        CorpusError: it is nothing of the kind, or has no word.
    """
    if isinstance(text, Sentences):
        return text
    if isinstance(text, Corpus):
        raise CorpusError(f"{text.name} has splits, {cut(', '.join(text.splits))}; give one of them, as corpus['test']")
    rows: Any = [text] if isinstance(text, str | Sentence) else text
    if isinstance(rows, list | tuple):
        if not rows:
            return Sentences()
        wordy = [isinstance(row, tuple) and all(isinstance(word, str) for word in row) for row in rows]
        for number, row in enumerate(rows):
            if wordy[number] and any(len(word.split()) > 1 for word in row):
                what = f"{quoted(row)} is neither a text nor words; give texts alone, or lists of words"
                raise CorpusError(f"{IN_MEMORY}, row {number}: {what}")
        # With texts no labels are asked for.
        rows = [list(row) if is_words else row for row, is_words in zip(rows, wordy, strict=True)]
    part = _part(rows, IN_MEMORY, None)
    if not isinstance(part, Table):
        return Sentences(part)
    tables: dict[str | None, Table] = {None: part}
    options = {"language": language, "split_at_spaces": split_at_spaces}
    read = _rows_of_tables(tables, _columns_of(IN_MEMORY, tables, None), Oddities(), **options)
    return Sentences(sentence for _, sentence in read)


def table_of_data(data: Any) -> Table | None:
    """The table in an object of Python, whatever its columns hold; columns of tuples are called 1, 2 ….

    None where it holds annotated sentences or documents.
    """
    if _has_splits(data):
        if len(data) > 1:
            raise CorpusError(f"{IN_MEMORY}: a table was due, not splits ({cut(', '.join(map(str, data)))}); give one")
        (data,) = data.values()
    if isinstance(data, list | tuple) and data and all(isinstance(row, list | tuple) for row in data):
        for number, row in enumerate(data):
            if len(row) != len(data[0]):
                lengths = f"{len(row)} values where row 0 has {len(data[0])}"
                raise CorpusError(f"{IN_MEMORY}, row {number}: {lengths}; give tuples of one length")
        data = {str(number): list(values) for number, values in enumerate(zip(*data, strict=True), 1)}
    part = _part(data, IN_MEMORY, None)
    return part if isinstance(part, Table) else None


class _OfDocs(list[Sentence]):
    """Sentences of spaCy documents, which do not state who annotated them."""


def _part(data: Any, where: str, columns: Stated | None) -> Table | Iterable[Sentence]:
    if isinstance(data, str | Path):
        return read_table(Path(data), has_header=columns is None or _stated(columns).has_names)
    if isinstance(data, Sentences):
        return data
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        names = list(map(str, data.columns))
        _check_names(names, where)
        return Table({name: data.iloc[:, at].tolist() for at, name in enumerate(names)}, where)
    if hasattr(data, "to_pydict"):
        return Table(data.to_pydict(), where)
    if isinstance(data, Mapping):
        some = {str(name): values for name, values in data.items() if isinstance(values, Iterable)}
        held = {name: taken(values, f"{where}, column {name}", most=_MOST_ROWS) for name, values in some.items()}
        if len(held) < len(data) or len(set(map(len, held.values()))) != 1:
            sizes = cut(", ".join(f"{name} {len(values):,}" for name, values in held.items()))
            raise CorpusError(f"{where}: a dict should have splits, or columns of one length ({sizes}); {_KINDS}")
        return Table(held, where)
    if not isinstance(data, Iterable):
        raise CorpusError(f"{where}: {type(data).__name__} is no corpus; {_KINDS}")
    rows = list(data) if hasattr(data, "__len__") else taken(data, where, most=_MOST_ROWS)
    if not rows:
        raise CorpusError(f"{where}: nothing in it; {_KINDS}")
    if all(isinstance(row, Sentence) for row in rows):
        return rows
    if all(hasattr(row, "sents") and hasattr(row, "has_annotation") for row in rows):
        return _OfDocs(sentences_of_docs(rows))
    if all(isinstance(row, Mapping) for row in rows):
        part = _of_records(rows, where)
    else:
        shape = _shape(rows[0]) or ()
        if (wrong := next((number for number, row in enumerate(rows) if _shape(row) != shape), None)) is not None:
            what = f"{quoted(rows[wrong])} where {' and '.join(shape)} were due, as in row 0"
            raise CorpusError(
                f"{where}, row {wrong}: {what if shape else f'{quoted(rows[0])} is no sentence'}; {_KINDS}"
            )
        columns_of = list(zip(*rows, strict=True)) if len(shape) > 1 else [rows]
        part = Table({name: list(values) for name, values in zip(shape, columns_of, strict=True)}, where)
    features = getattr(data, "features", None) if hasattr(data, "column_names") else None
    return _with_names_of_classes(part, features) if features else part


def _shape(row: Any) -> tuple[str, ...] | None:
    """Column names of a row that is a string or tuple; None if it is not a valid row."""
    if isinstance(row, str):
        return ("text",)
    if isinstance(row, tuple) and len(row) > 1:
        kinds = ["text" if isinstance(part, str) else "list" if is_list(part) else "other" for part in row]
        if len(row) == 2 and kinds[0] == "list":
            return ("words", "tags") if kinds[1] == "list" else ("words", "label")
        if len(row) == 2 and kinds[0] == "text" and kinds[1] != "list":
            return ("text", "label")
        return (
            ("text", "text2", "label") if kinds[:2] == ["text"] * 2 and len(row) == 3 and kinds[2] != "list" else None
        )
    return ("words",) if is_list(row) and all(isinstance(word, str) for word in row) else None
