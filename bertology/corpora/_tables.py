"""Tables with a text, or a list of words, in each row: what their columns hold, and the sentences made of the rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertology._inputs import NotJson, parsed_json
from bertology._names import name_not_found
from bertology.corpora._corpus import Corpus
from bertology.corpora._divided import SPLITS, divided
from bertology.corpora._files import Oddities, split_named
from bertology.corpora._sentence import IGNORED, Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora._table_columns import COLUMNS_REMEDY, TableColumns, columns_found
from bertology.corpora.formats._spans import with_iob2
from bertology.corpora.formats._words import sentence_of_text, spacing_in, words_within
from bertology.errors import CorpusError, quoted

_LIST = re.compile(r"\[\s*(['\"\d-]|None|null|nan\b).*\]|\[\s*\]", re.DOTALL)
"""A cell of text that is a list as JSON or Python writes it."""
_KINDS = {str: "text", bool: "a truth value", int: "a number", float: "a number"}
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
                    kind = next((kind for known, kind in _KINDS.items() if isinstance(value, known)), None)
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
