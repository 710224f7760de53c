"""Tables of sentences: which columns hold what, files of tables and data in memory, and the sentences of their rows."""

from __future__ import annotations

import ast
import csv
import json
import re
from array import array
from bertology._files import digest
from bertology._inputs import NotJson, described, opened, parsed_json, taken
from bertology._names import name_not_found
from bertology.corpora._corpus import Corpus, UNLABELLED
from bertology.corpora._corpus import SPLITS, divided
from bertology.corpora._files import Oddities, corpus_name, first_line, json_objects, split_files, split_named, split_of, suffix_of, text_lines
from bertology.corpora._sentences import IGNORED, Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora._words import with_iob2
from bertology.corpora._words import sentence_of_text, spacing_in, words_within
from bertology.corpora.formats.spacy_docs import sentences_of_docs
from bertology.errors import CorpusError, cut, cut_path, listed, quoted
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

COLUMNS_REMEDY = "name the columns as in columns='text=sentence,label=label' (--columns)"
_LAYERS = ("upos", "xpos", "lemma", "feats", "deprel", "ner", "chunk")
_PAIRS = (("sentence1", "sentence2"), ("text1", "text2"), ("premise", "hypothesis"), ("text", "text2"))


@dataclass(frozen=True)
class StatedColumns:
    """Which columns of a table hold what: fields are keys, tuples those under which several columns may be named."""

    remedy: ClassVar[str] = COLUMNS_REMEDY
    synonyms: ClassVar[Mapping[str, str]] = {}
    """Other names of keys."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Keys that hold no column."""

    @classmethod
    def stated(cls, columns: str | Sequence[str]) -> Self:
        """As given by the user, ``"text=sentence,label=stars+topic"``.

        Raises:
            CorpusError: a part is not ``key=column``, or a key stands twice.
            NameNotFoundError: there is no such key.
        """
        keys = {item.name: isinstance(item.default, tuple) for item in cls._keys()}
        chosen: dict[str, Any] = {}
        for part in columns.split(",") if isinstance(columns, str) else columns:
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or not value:
                raise CorpusError(f"columns: {quoted(part)} is not key=column; {cls.remedy}")
            key = cls.synonyms.get(key, key)
            if key not in keys:
                raise name_not_found("key of columns", key, keys)
            if key in chosen:
                several = " and ".join(f"{name}=" for name in keys if keys[name])
                raise CorpusError(f"columns: {key}= stands twice; write {several} of several columns with +")
            names = tuple(name.strip() for name in value.split("+"))
            chosen[key] = names if keys[key] else value
        return cls(**chosen)

    @classmethod
    def _keys(cls) -> list[Field[Any]]:
        return [item for item in fields(cls) if item.name != "inferred"]

    @cached_property
    def by_key(self) -> dict[str, tuple[str, ...]]:
        """The columns of each key that has any."""
        values = {item.name: getattr(self, item.name) for item in self._keys()}
        return {key: value if isinstance(value, tuple) else (value,) for key, value in values.items() if value}

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are read."""
        return tuple(name for key, names in self.by_key.items() if key not in self.settings for name in names)

    @property
    def has_names(self) -> bool:
        """Whether columns are called by names that the first row of a file holds, not by their numbers alone."""
        return not all(name.isdecimal() for name in self.named)

    def __str__(self) -> str:
        return ",".join(f"{key}={'+'.join(names)}" for key, names in self.by_key.items())


@dataclass(frozen=True)
class TableColumns(StatedColumns):
    """Which columns of a table of sentences hold what."""

    settings: ClassVar[tuple[str, ...]] = ("language",)

    text: str | None = None
    """The text of a sentence, or of the first of a pair; words are found by :func:`sentence_of_text`."""
    text2: str | None = None
    """The second text of a pair."""
    at: str | None = None
    """The word, or words, that a label is about, if not all: its number from 0, or ``first-last``; words of a text are
    what spaces part."""
    at2: str | None = None
    """The same in the second text of a pair."""
    words: str | None = None
    """The words of a sentence: a list, or one text with spaces between them."""
    label: tuple[str, ...] = ()
    """Labels of the sentence, or of the pair: each column becomes targets of its name."""
    tags: tuple[str, ...] = ()
    """Labels of the words, a list as long as that of the words: each column becomes a layer of its name."""
    split: str | None = None
    group: str | None = None
    """What is never parted by splits that are made, such as a document."""
    id: str | None = None
    language: str | None = None
    """No column, but the language of all texts, by whose rules words are found."""
    inferred: bool = field(default=False, compare=False)

    @classmethod
    def stated(cls, columns: str | Sequence[str]) -> Self:
        """As of :class:`StatedColumns`; keys that need another one have it."""
        return super().stated(columns)._checked()

    @classmethod
    def recognised(cls, names: Collection[str]) -> TableColumns | None:
        """By the obvious names among those of a table; None where no column is known to hold texts or words."""
        of = {name.lower(): name for name in names}
        pair = next((pair for pair in _PAIRS if of.keys() >= set(pair)), None)
        first = pair or [name for name in ("text", "sentence") if name in of][:1]
        words = next((of[name] for name in ("words", "tokens") if name in of), None)
        if not first and words is None:
            return None
        tagged = [of[name] for name in of if name == "tags" or name.endswith("_tags") or name in _LAYERS]
        return cls(
            text=of[first[0]] if first else None,
            text2=of[pair[1]] if pair else None,
            words=words,
            label=(of["label"],) if "label" in of else (),
            tags=tuple(tagged) if words else (),
            split=of.get("split"),
            inferred=True,
        )

    def _checked(self) -> Self:
        if self.text is None and self.words is None:
            raise CorpusError(f"columns: neither text= nor words= is there; {COLUMNS_REMEDY}")
        if self.tags and self.words is None:
            raise CorpusError("columns: tags= are of words; name the column that has lists of words by words=")
        for name, of in (("at", "label"), ("at2", "text2"), ("language", "text")):
            if getattr(self, name) and not getattr(self, of):
                raise CorpusError(f"columns: {name}= stands without {of}=; name that column too, or leave it out")
        return self


def no_columns(columns: str | Sequence[str], name: str) -> CorpusError:
    """The error for column names given with a corpus that has no columns to name."""
    what = "tables" if is_of_table(columns) else "column files"
    return CorpusError(f"columns={quoted(columns)} is for {what}; leave it out for {cut_path(name)}")


def columns_found(names: Collection[str]) -> str:
    """The columns of a table for an error that says which are missing, with a remedy where they were not parted."""
    only = next(iter(names), "") if len(names) == 1 else ""
    part = next((what for mark, what in (("\t", "tabs"), (",", "commas"), (";", "semicolons")) if mark in only), "")
    hint = f" (it has {part}: name a file with tabs .tsv, one with commas or semicolons .csv)" if part else ""
    return f"among {listed(names)}{hint}"


def is_of_table(columns: str | Sequence[str]) -> bool:
    """Whether columns are those of a table, ``text=sentence``, not of a file with one word a line, ``form,xpos``."""
    return any("=" in part for part in ([columns] if isinstance(columns, str) else columns))


_LIST = re.compile(r"\[\s*(['\"\d-]|None|null|nan\b).*\]|\[\s*\]", re.DOTALL)
"""A cell of text that is a list as JSON or Python writes it."""
_KINDS_OF_LABELS = {str: "text", bool: "a truth value", int: "a number", float: "a number"}
TEXTS = "texts"
"""Name of the targets that are the two texts of a pair."""


@dataclass(frozen=True, slots=True)
class Row:
    """A sentence of a table."""

    sentence: Sentence
    split: str | None
    annotator: str = ""
    """What there is to say of who annotated it."""


@dataclass(frozen=True)
class Table:
    """Rows of one split, or of a corpus that is not split yet."""

    columns: Mapping[str, Sequence[Any]]
    """The values of all rows, by column."""
    source: Path | str
    """The file, or what data in memory are called."""
    lines: Sequence[int] | None = None
    """The line of each row, of a file that has lines."""

    def place(self, row: int) -> str:
        """Where a row (from 0) stands, for messages."""
        return f"{self.source}, row {row}" if self.lines is None else f"{self.source}:{self.lines[row]}"

    def number(self, row: int) -> int:
        """The line of a row (from 0), or its number from 1."""
        return row + 1 if self.lines is None else self.lines[row]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def with_names_of_classes(table: Table, features: Mapping[str, Any]) -> Table:
    """A table whose columns have names of classes in place of their numbers, −1 for none, where features state them.

    ``features`` are those of a data set of Hugging Face, or as it writes them into a file.
    """
    columns = dict(table.columns)
    for column, names in ((column, _class_names(feature)) for column, feature in features.items()):
        if names and column in columns:
            columns[column] = [_named_class(value, names) for value in columns[column]]
    return replace(table, columns=columns)


def _class_names(feature: Any) -> Sequence[str] | None:
    if isinstance(feature, list) and len(feature) == 1:
        return _class_names(feature[0])
    of = feature if isinstance(feature, Mapping) else getattr(feature, "__dict__", {})
    names: Sequence[str] | None = of.get("names") or getattr(feature, "names", None)
    return names or (_class_names(of["feature"]) if "feature" in of else None)


def _named_class(value: Any, names: Sequence[str]) -> Any:
    if is_list(value):
        return [_named_class(each, names) for each in value]
    return value if is_missing(value) else names[int(value)] if 0 <= int(value) < len(names) else None


def corpus_of_tables(name: str, tables: Mapping[str | None, Table], columns: str | Sequence[str] | None) -> Corpus:
    """The corpus in tables of the same columns, one a split; under None one that is split here.

    That is by the column of splits, else by :func:`corpus_of_rows`.

    Raises:
        CorpusError: a table or a value in it is not as it should be; the message names row and column.
        NameNotFoundError: there is no such column.
    """
    oddities = Oddities()
    rows, chosen = rows_of_tables(name, tables, columns, oddities)
    notes = {"columns": f"{chosen}, by their names"} if chosen.inferred else {}
    corpus = corpus_of_rows(name, list(rows), by=chosen.group, notes=notes, oddities=oddities)
    return replace(corpus, language=chosen.language)


def rows_of_tables(
    name: str,
    tables: Mapping[str | None, Table],
    columns: str | Sequence[str] | None,
    oddities: Oddities,
    **words: Any,
) -> tuple[Iterator[Row], TableColumns]:
    """The sentences of tables, in their order, and which columns they are from; see :func:`corpus_of_tables`.

    ``words`` are options of :func:`sentence_of_text`, by which words of texts are found.
    """
    first = next(iter(tables.values()))
    chosen = TableColumns.recognised(first.columns) if columns is None else TableColumns.stated(columns)
    if chosen is None:
        raise CorpusError(f"{name}: no column of texts or words {columns_found(first.columns)}; {COLUMNS_REMEDY}")
    for table in tables.values():
        for column in chosen.named:
            if column not in table.columns:
                raise name_not_found(f"column of {table.source}", column, table.columns)
    if not any(map(len, tables.values())):
        raise CorpusError(f"{name}: no row in it; give some sentences")
    reader = _RowReader(chosen, tables, oddities, {"language": chosen.language, **words})
    return (row for split, table in tables.items() for row in reader.rows(table, split)), chosen


def corpus_of_rows(
    name: str,
    rows: Sequence[Row],
    *,
    by: str | None = None,
    notes: Mapping[str, str],
    oddities: Oddities | None = None,
) -> Corpus:
    """The corpus of some sentences; those of no split are :func:`divided`, or all ``test`` where none is annotated.

    Args:
        name: what to call the corpus.
        rows: its sentences.
        by: what their groups are called, where a person named them.
        notes: those of the corpus.
        oddities: irregularities to be listed in its notes.

    Raises:
        CorpusError: there are too few sentences or groups, or a tag of ``ner`` or ``chunk`` is malformed.
    """
    notes, oddities = dict(notes), oddities or Oddities()
    by_split: dict[str, list[Sentence]] = {split: [] for split in SPLITS}
    undivided = [row.sentence for row in rows if row.split is None]
    if any(row.sentence.layers or row.sentence.targets or row.sentence.heads for row in rows) and undivided:
        by_split, notes["splits"] = divided(name, undivided, by=by)
        undivided = []
    for split, sentence in [*((row.split, row.sentence) for row in rows), *(("test", one) for one in undivided)]:
        if split is not None:
            by_split.setdefault(split, []).append(sentence)
    splits = {split: _with_spans(name, Sentences(part), oddities) for split, part in by_split.items() if part}
    groups = f"groups by {by}" if by not in (None, "document") else "documents"
    return Corpus(name, splits, notes={**notes, **oddities.notes()}, groups=groups)


def _with_spans(name: str, sentences: Sentences, oddities: Oddities) -> Sentences:
    def place(word: int) -> str:
        return f"{name}, row {sentences.id(int(sentences.sentence_of_word[word]))}"

    return with_iob2(sentences, place, oddities)


class _RowReader:
    """The sentences of tables that have the same columns."""

    def __init__(
        self,
        columns: TableColumns,
        tables: Mapping[str | None, Table],
        oddities: Oddities,
        words: Mapping[str, Any],
    ) -> None:
        self._columns, self._oddities, self._words = columns, oddities, words
        self._spelt = {name: _Spelling.of(name, tables, in_lists=False) for name in columns.label}
        self._spelt |= {name: _Spelling.of(name, tables, in_lists=True) for name in columns.tags}

    def rows(self, table: Table, split: str | None) -> Iterator[Row]:
        """The rows of a table, of the split that it is, or of that which a column states."""
        columns = self._columns
        for number in range(len(table)):
            where = table.place(number)
            cells = {name: table.columns[name][number] for name in columns.named}
            sentence = self._sentence(cells, number, where)
            group = None if columns.group is None else _plain(cells[columns.group])
            if not is_missing(group):
                sentence = replace(sentence, group=str(group))
            stated = split
            if columns.split is not None:
                stated = split_named(name_cell(cells[columns.split], where, columns.split))
            yield Row(sentence, stated)

    def _sentence(self, cells: Mapping[str, Any], row: int, where: str) -> Sentence:
        columns = self._columns
        name = name_cell(cells[columns.id], where, columns.id) if columns.id else str(row)
        sentence = self._first(cells, name, where)
        n, span1 = len(sentence), self._span(columns.at, cells, sentence, where)
        layers = {tags: self._tags(tags, cells, n, where) for tags in columns.tags}
        second = None
        if columns.text2 is not None:
            other = sentence_of_text(
                text_cell(cells[columns.text2], where, columns.text2), where=f"{where}: ", **self._words
            )
            first, last = self._span(columns.at2, cells, other, where)
            sentence, second = joined(sentence, other), (first + n, last + n)
            layers = {tags: (*values, *[None] * (len(sentence) - n)) for tags, values in layers.items()}
        targets = dict(sentence.targets)
        for column in columns.label:
            label = self._spelt[column](cells[column])
            if label is None:
                self._oddities.note(f"rows without a label in {column}", where)
            else:
                targets[column] = (Target(span1, label, second),)
        layers = {tags: values for tags, values in layers.items() if any(values)}
        return replace(sentence, layers=layers, targets=targets)

    def _first(self, cells: Mapping[str, Any], name: str, where: str) -> Sentence:
        """The sentence of the first text, or of the words."""
        columns = self._columns
        text = None if columns.text is None else text_cell(cells[columns.text], where, columns.text)
        if columns.words is None:
            return sentence_of_text(text or "", name=name, where=f"{where}: ", **self._words)
        words = list_cell(cells[columns.words], where, columns.words)
        if not words:
            raise CorpusError(f"{where}: column {quoted(columns.words)} has no word; leave the row out")
        for number, word in enumerate(words, 1):
            if not isinstance(word, str) or not word.strip():
                what = "is empty" if isinstance(word, str) or is_missing(word) else f"is {quoted(word)}, no text"
                raise CorpusError(f"{where}: word {number} of column {quoted(columns.words)} {what}; give every word")
        spaced = None if text is None else spacing_in(text, words)
        if text is not None and spaced is None:
            self._oddities.note("sentences whose words do not spell their text, joined by single spaces", where)
        return Sentence.from_words(words, id=name, space_after=spaced)

    def _span(self, column: str | None, cells: Mapping[str, Any], sentence: Sentence, where: str) -> tuple[int, int]:
        """The words that a label is about: all, or those at a place that a column states."""
        if column is None:
            return 0, len(sentence)
        stated = name_cell(cells[column], where, column)
        # Words of a text are counted as people do, by spaces; the tokenizer may part them further.
        parts = sentence.spans
        if self._columns.words is None or column == self._columns.at2:
            parts = tuple(match.span() for match in re.finditer(r"\S+", sentence.text))
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", stated)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < len(parts):
            due = f"give the number of a word, 0 to {len(parts) - 1}, or first-last"
            raise CorpusError(f"{where}: column {quoted(column)} is {quoted(stated)}, no place among its words; {due}")
        return words_within(list(sentence.spans), parts[first][0], parts[last][1])

    def _tags(self, column: str, cells: Mapping[str, Any], n: int, where: str) -> tuple[str | None, ...]:
        if is_missing(cells[column]):
            self._oddities.note(f"rows without a label in {column}", where)
            return (None,) * n
        values = list_cell(cells[column], where, column)
        if len(values) != n:
            words = quoted(self._columns.words)
            raise CorpusError(
                f"{where}: {n} words in column {words} but {len(values)} labels in {quoted(column)}; give one a word"
            )
        return tuple(self._spelt[column](value) for value in values)


def joined(first: Sentence, second: Sentence) -> Sentence:
    """Two texts as one sentence, a space between them; the targets ``texts`` tell where each stands."""
    shift = len(first.text) + 1
    spans = (*first.spans, *((start + shift, end + shift) for start, end in second.spans))
    n, words = len(first), first.words + second.words
    texts = (Target((0, n), "1"), Target((n, len(words)), "2"))
    text = f"{first.text} {second.text}"
    return Sentence(first.id, text, words, spans, targets={TEXTS: texts}, derived=frozenset({TEXTS}))


@dataclass(frozen=True)
class _Spelling:
    """How the labels of one column are spelt: text as it is, numbers by their ``repr``, all alike if one is a float."""

    as_float: bool

    @classmethod
    def of(cls, column: str, tables: Mapping[str | None, Table], *, in_lists: bool) -> _Spelling:
        kinds: dict[str, str] = {}
        types: set[type] = set()
        for table in tables.values():
            for row, cell in enumerate(table.columns[column]):
                where = table.place(row) if in_lists and isinstance(cell, str) else ""
                for value in list_cell(cell, where, column) if in_lists and not is_missing(cell) else [cell]:
                    value = _plain(value)
                    if is_missing(value) or str(value) in IGNORED or type(value) in types:
                        continue
                    kind = next((kind for known, kind in _KINDS_OF_LABELS.items() if isinstance(value, known)), None)
                    if kind is None:
                        what = f"is {quoted(value)} ({type(value).__name__})"
                        raise CorpusError(f"{table.place(row)}: column {quoted(column)} {what}; give text or a number")
                    types.add(type(value))
                    kinds.setdefault(kind, f"{table.place(row)}: {quoted(value)}")
        if len(kinds) > 1:
            mixed = "; ".join(f"{kind} ({where})" for kind, where in kinds.items())
            raise CorpusError(f"column {quoted(column)} mixes {mixed}; make all of one kind, as by astype(str)")
        return cls(float in types)

    def __call__(self, value: Any) -> str | None:
        value = _plain(value)
        if is_missing(value):
            return None
        return value if isinstance(value, str) else repr(float(value) if self.as_float else value)


def is_list(value: Any) -> bool:
    """Whether a value is a list, or an array of one dimension."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1


def _plain(value: Any) -> Any:
    """A value of Python in place of a scalar of numpy or torch."""
    return value.item() if hasattr(value, "item") and not isinstance(value, str) else value


def is_missing(value: Any) -> bool:
    """Whether a value is none: None, NaN, pandas' NA, or an empty text."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def text_cell(value: Any, where: str, column: str) -> str:
    """A text on one line, white space as single spaces."""
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        raise CorpusError(f"{where}: column {quoted(column)} is empty; give a text, or leave the row out")
    if not isinstance(value, str):
        raise CorpusError(
            f"{where}: column {quoted(column)} is {quoted(value)}, no text; make it text, or name another column"
        )
    return " ".join(value.split())


def name_cell(value: Any, where: str, column: str) -> str:
    """A text or number by which a row or split is called."""
    value = _plain(value)
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    return text_cell(str(int(value)) if is_whole else value, where, column)


def list_cell(value: Any, where: str, column: str) -> list[Any]:
    """The values of a list: as it is, in JSON, as Python writes it, or in a text with spaces between them."""
    if isinstance(value, str):
        if not _LIST.fullmatch(value):
            return value.split()
        for parse in (parsed_json, _of_python):
            try:
                items = parse(value)
            except (NotJson, ValueError, SyntaxError):
                continue
            if isinstance(items, list):
                return items
        remedy = 'write JSON, ["a", "b"], or values with spaces between them'
        raise CorpusError(f"{where}: column {quoted(column)} is {quoted(value)}, no list; {remedy}")
    if is_list(value):
        return list(value)
    raise CorpusError(f"{where}: column {quoted(column)} is {quoted(value)} where a list was due; {COLUMNS_REMEDY}")


def _of_python(text: str) -> Any:
    """What Python wrote by ``repr``; not what reads like it, as numpy's ``['a' 'b']``, which would be ``['ab']``."""
    value = ast.literal_eval(text)
    if repr(value) != text.strip():
        raise ValueError(text)
    return value


_ALWAYS = (".csv", ".parquet")
JSON_SUFFIXES = (".json", ".jsonl")
TABLE_SUFFIXES = (*_ALWAYS, ".jsonl", ".tsv")
"""Ends of the names of tables, for telling them from what else lies in a folder."""
JSON_ARRAY = ".json"
"""End of the name of a table that is one array of JSON objects, or has one object a line."""
_LOOKED_AT = 5
_COLA = ("source", "label", "mark", "sentence")
_COLA_ROW = re.compile(r"[a-z][a-z&_-]*[0-9]{2}\t[01]\t[*? ]*\t[^\t]*\S[^\t]*\n?")
"""A row of GLUE's CoLA, which has no row of names: source (``gj04``), label, mark of the author (``*``), sentence."""


def load_tables(path: Path, *, columns: str | Sequence[str] | None = None) -> Corpus:
    """The corpus in a table, or in a folder of tables, one a split.

    A table is read as its suffix states: ``.csv``, ``.json``, ``.jsonl``, ``.parquet``, and any other as lines of
    values with tabs between them. Where the columns are named by numbers alone (``"text=4,label=2"``, from 1), the
    first line is a row like all others. GLUE's CoLA has no row of names: its columns are ``source``, ``label``,
    ``mark`` and ``sentence``. Where columns are recognised by their names, files without those of labels are left out,
    as GLUE's test files. One file whose name states no split is split here.

    Raises:
        CorpusError: a file, or a value in it, is not as it should be; the message names line and column.
        NameNotFoundError: there is no such column.
    """
    files = {split: file for split, (file,) in split_files(path, TABLE_SUFFIXES, what="table").items()}
    has_header = columns is None or TableColumns.stated(columns).has_names
    is_whole = path.is_file() and split_of(path) is None
    tables = {None if is_whole else split: read_table(file, has_header=has_header) for split, file in files.items()}
    recognised = TableColumns.recognised(next(iter(tables.values())).columns) if columns is None else None
    labels = set(recognised.label) if recognised is not None else set()
    unlabelled = {split: table for split, table in tables.items() if not labels <= table.columns.keys()}
    tables = {split: table for split, table in tables.items() if split not in unlabelled}
    corpus = corpus_of_tables(corpus_name(path), tables, columns)
    left_out = ", ".join(Path(table.source).name for table in unlabelled.values())
    return replace(corpus, notes={**corpus.notes, **({UNLABELLED: left_out} if left_out else {})})


def _is_cola(path: Path) -> bool:
    lines = list(islice(text_lines(path), _LOOKED_AT))
    return bool(lines) and all(map(_COLA_ROW.fullmatch, lines))


def looks_like_table(path: Path) -> bool:
    """Whether a file is a table of which a column is known to hold texts or words."""
    if suffix_of(path) in _ALWAYS:
        return True
    names = names_of_columns(path)
    return names is not None and "targets" not in names and TableColumns.recognised(names) is not None


def names_of_columns(path: Path) -> Collection[str] | None:
    """What the first row of a table calls the columns, of JSON the first object; None of a file that is no table."""
    suffix = suffix_of(path)
    if suffix == ".parquet":
        return _parquet(path).columns
    if suffix not in JSON_SUFFIXES:
        if suffix == ".tsv" and _is_cola(path):
            return _COLA
        rows = (_csv_rows if suffix == ".csv" else _tab_rows)(path, array("q"))
        return [name.strip() for name in next(iter(rows), [])]
    try:
        value = parsed_json(first_line(path))
    except NotJson:
        value = None
    if suffix == JSON_ARRAY and not isinstance(value, dict) and first_line(path).lstrip().startswith("["):
        return _json_array(path).columns
    return value if isinstance(value, dict) else None


def read_table(path: Path, *, has_header: bool = True) -> Table:
    """The rows of one file; without a header columns are called by their numbers, from 1."""
    suffix = suffix_of(path)
    if suffix == ".parquet":
        return _parquet(path)
    if suffix in JSON_SUFFIXES:
        return _json_array(path) if first_line(path).lstrip().startswith("[") else _json_lines(path)
    lines = array("q")
    rows = _csv_rows(path, lines) if suffix == ".csv" else _tab_rows(path, lines)
    if has_header and suffix == ".tsv" and _is_cola(path):
        table = _table_of_rows(path, rows, lines, has_header=False)
        return replace(table, columns=dict(zip(_COLA, table.columns.values(), strict=True)))
    return _table_of_rows(path, rows, lines, has_header=has_header)


def _csv_rows(path: Path, lines: array[int]) -> Iterable[list[str]]:
    header = first_line(path)
    delimiter = next((mark for mark in (",", ";", "\t") if mark in header), ",")
    reader = csv.reader(text_lines(path), delimiter=delimiter, strict=True)
    before = 0
    try:
        for row in reader:
            if row:
                lines.append(before + 1)
                yield row
            before = reader.line_num
    except csv.Error as error:
        plain = ", or name the file .tsv, where quotation marks are plain text" if delimiter == "\t" else ""
        problem = str(error).replace("\t", "tab")
        raise CorpusError(f"{path}:{before + 1}: not CSV ({problem}); quote values as CSV does{plain}") from None


def _tab_rows(path: Path, lines: array[int]) -> Iterable[list[str]]:
    for number, line in enumerate(text_lines(path), 1):
        if line.strip():
            lines.append(number)
            yield [_unquoted(cell) for cell in line.rstrip("\r\n").split("\t")]


def _unquoted(cell: str) -> str:
    """A value that was quoted since it has quotation marks, which are doubled; others may begin with one (GLUE)."""
    inner = cell[1:-1]
    if len(cell) > 1 and cell[0] == cell[-1] == '"' and '""' in inner and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"')
    return cell


def _table_of_rows(path: Path, rows: Iterable[list[str]], lines: array[int], *, has_header: bool) -> Table:
    names: list[str] = []
    columns: list[list[str]] = []
    for row in rows:
        if not names:
            names = [name.strip() for name in row] if has_header else [str(number) for number in range(1, len(row) + 1)]
            double = next((name for name in names if names.count(name) > 1), None)
            if double is not None:
                raise CorpusError(f"{path}:{lines[0]}: two columns are called {quoted(double)}; rename one")
            columns = [[] for _ in names]
            if has_header:
                continue
        if len(row) != len(names):
            raise CorpusError(
                f"{path}:{lines[-1]}: {len(row)} values where the table has {len(names)} columns; mend the line, "
                "or write the table as CSV or JSON Lines"
            )
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    if not names:
        raise CorpusError(f"{path}: nothing in it; give a table with a row of names")
    return Table(dict(zip(names, columns, strict=True)), path, lines[1:] if has_header else lines)


def _json_lines(path: Path) -> Table:
    lines = array("q")
    columns: dict[str, list[Any]] = {}
    for number, value in json_objects(path):
        for name in value.keys() - columns.keys():
            columns[name] = [None] * len(lines)
        lines.append(number)
        for name, column in columns.items():
            column.append(value.get(name))
    return Table(columns, path, lines)


def _json_array(path: Path) -> Table:
    """The objects of one array, whose values are columns."""
    try:
        rows = parsed_json("".join(text_lines(path)))
    except NotJson as error:
        raise CorpusError(f"{path}: not JSON ({error}); an array of objects, or one object a line, is due") from None
    if not rows:
        raise CorpusError(f"{path}: nothing in it; give an array of objects")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise CorpusError(f"{path}, row {number}: {described(row)} where an object was due")
    names = dict.fromkeys(name for row in rows for name in row)
    return Table({name: [row.get(name) for row in rows] for name in names}, path)


def _parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    with opened(path, error=CorpusError) as file:
        try:
            table = pyarrow.parquet.read_table(file)
        except (pyarrow.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise CorpusError(f"{path}: not a Parquet file ({reason}); write it again") from error
    read = Table(table.to_pydict(), path)
    stated: Mapping[bytes, bytes] = table.schema.metadata or {}
    features = json.loads(stated.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    return with_names_of_classes(read, features)


IN_MEMORY = "data in memory"
_MOST_ROWS = 10_000_000
"""Rows of data that do not say how many they are: more are taken for an iterable without end."""
DIGITS = 8
"""Of the hash in the name of what is in memory."""
_TABLES: dict[str, Table] = {}
"""Tables in memory that this process knows by name."""
_KINDS = (
    "give a DataFrame, a data set of Hugging Face, a list of texts, of (text, label), of (words, tags), of records, of "
    "spaCy documents, or a dict of such by split"
)
_UNSTATED = "not stated by the documents; taken for people (from_docs names a pipeline)"
_USUAL = ("train", "dev", "test")


def corpus_of_data(data: Any, *, columns: str | Sequence[str] | None, name: str | None) -> Corpus:
    """The corpus in an object of Python, of the kinds that :func:`load_corpus` lists.

    Raises:
        CorpusError: it is of no such kind, or something in it is not as it should be.
        NameNotFoundError: there is no such column.
    """
    if isinstance(data, Corpus):
        if columns is not None:
            raise no_columns(columns, f"{data.name}, which is loaded already")
        return replace(data, name=name) if name else data
    name = name or IN_MEMORY
    is_split = isinstance(data, Mapping) and any(split_named(str(key)) in _USUAL for key in data)
    parts: dict[str | None, Any] = {None: data}
    if is_split:
        parts = {split_named(str(key)): part for key, part in data.items()}
    if is_split and len(parts) < len(data):
        raise CorpusError(f"{name}: two of {cut(', '.join(map(str, data)))} are the same split; keep one")
    if list(parts) == ["train"]:  # as data sets come that have no splits
        parts = {None: parts["train"]}
    read = {split: _part(part, name if split is None else f"{name}, {split}", columns) for split, part in parts.items()}
    tables = {split: part for split, part in read.items() if isinstance(part, Table)}
    if len(tables) == len(read):
        return corpus_of_tables(name, tables, columns)
    if tables:
        raise CorpusError(f"{name}: some splits are tables, others sentences; give all of one kind")
    if columns is not None:
        raise no_columns(columns, f"{name}, which has sentences")
    rows = [replace(row, split=split) for split, part in read.items() if not isinstance(part, Table) for row in part]
    annotators = {row.annotator for row in rows} - {""}
    return corpus_of_rows(name, rows, notes={"annotator": "; ".join(annotators)} if annotators else {})


def kept_table(data: Any) -> str | None:
    """The name by which :func:`known_table` finds a table in memory again, in this process; None of sentences."""
    table = table_of_data(data)
    if table is None:
        return None
    content = repr([[name, list(values)] for name, values in table.columns.items()])
    name = f"{IN_MEMORY} #{digest([content.encode('utf-8', 'surrogatepass')])[:DIGITS]}"
    _TABLES[name] = table
    return name


def known_table(name: str) -> Table | None:
    """The table in memory of that name, if this process has it."""
    return _TABLES.get(name)


Texts = Sentences | Sentence | str | Sequence[Sentence | str | Sequence[str]]
"""What :func:`as_sentences` makes sentences of."""


Text = Sentence | str | Sequence[str]
"""What :func:`as_sentence` makes a sentence of."""


def as_sentence(text: Text, *, language: str | None = None, split_at_spaces: bool = False) -> Sentence:
    """One text as a sentence: a sentence as it is, a list of words, or a text, whose words are found by
    :func:`sentence_of_text`.

    Raises:
        CorpusError: it is nothing of the kind, or has no word.
    """
    if isinstance(text, str):
        return sentence_of_text(text, language=language, split_at_spaces=split_at_spaces)
    return text if isinstance(text, Sentence) else as_sentences([text])[0]


def as_sentences(text: Texts, *, language: str | None = None, split_at_spaces: bool = False) -> Sentences:
    """What is given as text, as sentences: a text, texts, lists of words, sentences, or what a split is made of.

    Args:
        text: a :class:`Sentence`, :class:`Sentences`, a text, or data in memory as of :func:`load_corpus` without
            splits; a text is one sentence, and its words are found by :func:`sentence_of_text`. A list or tuple of
            words within a list is a sentence of these words.
        language: of the texts, by whose rules words are found.
        split_at_spaces: words of texts are what white space parts.

    Raises:
        CorpusError: it is nothing of the kind, or has no word.
    """
    if isinstance(text, Sentences):
        return text
    if isinstance(text, list | tuple) and not text:
        return Sentences()
    if isinstance(text, Corpus):
        raise CorpusError(f"{text.name} has splits, {cut(', '.join(text.splits))}; give one of them, as corpus['test']")
    rows: Any = [text] if isinstance(text, str | Sentence) else text
    if isinstance(rows, list | tuple):
        rows = [_as_words(row, number) for number, row in enumerate(rows)]
    part = _part(rows, IN_MEMORY, None)
    if not isinstance(part, Table):
        return Sentences(row.sentence for row in part)
    words = {"language": language, "split_at_spaces": split_at_spaces}
    return Sentences(row.sentence for row in rows_of_tables(IN_MEMORY, {None: part}, None, Oddities(), **words)[0])


def _as_words(row: Any, number: int) -> Any:
    """A tuple of words, such as those of a sentence, as a list: of texts no labels are asked for."""
    if not isinstance(row, tuple) or not all(isinstance(word, str) for word in row):
        return row
    if any(len(word.split()) > 1 for word in row):
        raise CorpusError(
            f"{IN_MEMORY}, row {number}: {quoted(row)} is neither a text nor words; give texts alone, or lists of words"
        )
    return list(row)


def table_of_data(data: Any) -> Table | None:
    """The table in an object of Python, whatever its columns hold; columns of tuples are called 1, 2 ….

    None where it holds annotated sentences or documents.

    Raises:
        CorpusError: it is neither, or has splits of which none is given.
    """
    if isinstance(data, Mapping) and any(split_named(str(key)) in _USUAL for key in data):
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


def _part(data: Any, where: str, columns: str | Sequence[str] | None) -> Table | list[Row]:
    """The table, or sentences, in an object."""

    if isinstance(data, str | Path):
        return read_table(Path(data), has_header=columns is None or TableColumns.stated(columns).has_names)
    if isinstance(data, Sentences):
        return [Row(sentence, None) for sentence in data]
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        names = list(map(str, data.columns))
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise CorpusError(f"{where}: two columns are called {quoted(double)}; rename one")
        return Table({name: data.iloc[:, at].tolist() for at, name in enumerate(names)}, where)
    if hasattr(data, "to_pydict"):
        return Table(data.to_pydict(), where)
    if isinstance(data, Mapping):
        return _of_columns(data, where)
    if not isinstance(data, Iterable):
        raise CorpusError(f"{where}: {type(data).__name__} is no corpus; {_KINDS}")
    rows = list(data) if hasattr(data, "__len__") else taken(data, where, most=_MOST_ROWS)
    if not rows:
        raise CorpusError(f"{where}: nothing in it; {_KINDS}")
    part = _of_rows(rows, where)
    features = getattr(data, "features", None) if hasattr(data, "column_names") else None
    return with_names_of_classes(part, features) if features and isinstance(part, Table) else part


def _of_columns(data: Mapping[Any, Any], where: str) -> Table:
    columns = {
        str(name): taken(values, f"{where}, column {name}", most=_MOST_ROWS)
        for name, values in data.items()
        if isinstance(values, Iterable)
    }
    lengths = {name: len(values) for name, values in columns.items()}
    if not columns or len(columns) < len(data) or len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise CorpusError(f"{where}: a dict should have splits, or columns of one length ({cut(sizes)}); {_KINDS}")
    return Table(columns, where)


def _of_rows(rows: list[Any], where: str) -> Table | list[Row]:
    if all(isinstance(row, Sentence) for row in rows):
        return [Row(sentence, None) for sentence in rows]
    if all(hasattr(row, "sents") and hasattr(row, "has_annotation") for row in rows):
        return [Row(sentence, None, _UNSTATED) for sentence in sentences_of_docs(rows)]
    if all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(str(name) for row in rows for name in row)
        return Table({name: [row.get(name) for row in rows] for name in names}, where)
    shape = _shape(rows[0])
    if shape is None:
        raise CorpusError(f"{where}, row 0: {quoted(rows[0])} is no sentence; {_KINDS}")
    for number, row in enumerate(rows):
        if _shape(row) != shape:
            raise CorpusError(f"{where}, row {number}: {quoted(row)} where {' and '.join(shape)} were due, as in row 0")
    return Table({name: [row[at] if len(shape) > 1 else row for row in rows] for at, name in enumerate(shape)}, where)


def _shape(row: Any) -> tuple[str, ...] | None:
    """What the parts of a row of a list are; None for what is no row."""
    if isinstance(row, str):
        return ("text",)
    if isinstance(row, tuple) and len(row) > 1:
        texts = [isinstance(part, str) for part in row]
        lists = [is_list(part) for part in row]
        if lists[0] and len(row) == 2:
            return ("words", "tags") if lists[1] else ("words", "label")
        if texts[0] and len(row) == 2 and not lists[1]:
            return ("text", "label")
        return ("text", "text2", "label") if texts[:2] == [True, True] and len(row) == 3 and not lists[2] else None
    return ("words",) if is_list(row) and all(isinstance(word, str) for word in row) else None
