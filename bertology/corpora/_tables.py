"""Tables with a text, or a list of words, in each row: what their columns hold, and the sentences made of the rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from bertology._files import digest
from bertology._inputs import NotJson, parsed_json
from bertology._names import name_not_found
from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities, split_named
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora._table_columns import COLUMNS_REMEDY, TableColumns
from bertology.corpora.formats._spans import with_iob2
from bertology.corpora.formats._words import english_sentence, spacing_in
from bertology.errors import CorpusError, listed, quoted

_LIST = re.compile(r"\[\s*(['\"\d-]|None|null|nan\b).*\]|\[\s*\]", re.DOTALL)
"""A cell of text that is a list as JSON or Python writes it."""
_KINDS = {str: "text", bool: "a truth value", int: "a number", float: "a number"}
_FEWEST_ROWS, _FEWEST_GROUPS = 10, 3


@dataclass(frozen=True)
class Table:
    """Rows of one split, or of a corpus that is not split yet."""

    columns: Mapping[str, Sequence[Any]]
    """The values of all rows, by column."""
    place: Callable[[int], str]
    """Where a row (from 0) stands, for messages."""

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
    return Table(columns, table.place)


def _class_names(feature: Any) -> Sequence[str] | None:
    if isinstance(feature, list) and len(feature) == 1:
        return _class_names(feature[0])
    of = feature if isinstance(feature, Mapping) else getattr(feature, "__dict__", {})
    names: Sequence[str] | None = of.get("names") or getattr(feature, "names", None)
    return names or (_class_names(of["feature"]) if "feature" in of else None)


def _named_class(value: Any, names: Sequence[str]) -> Any:
    if is_list(value):
        return [_named_class(each, names) for each in value]
    return value if _is_missing(value) else names[int(value)] if 0 <= int(value) < len(names) else None


def corpus_of_tables(name: str, tables: Mapping[str | None, Table], columns: str | Sequence[str] | None) -> Corpus:
    """The corpus in tables of the same columns, one a split; under None one that is split here.

    That is by the column of splits, else by :func:`made_splits`; a table without any annotation is all ``test``.

    Raises:
        CorpusError: a table or a value in it is not as it should be; the message names row and column.
        NameNotFoundError: there is no such column.
    """
    first = next(iter(tables.values()))
    chosen = TableColumns.recognised(first.columns) if columns is None else TableColumns.stated(columns)
    if chosen is None:
        raise CorpusError(f"{name}: no column of texts or words among {listed(first.columns)}; {COLUMNS_REMEDY}")
    for table in tables.values():
        for column in chosen.named:
            if column not in table.columns:
                raise name_not_found(f"column of {name}", column, table.columns)
    if not any(map(len, tables.values())):
        raise CorpusError(f"{name}: no row in it; give some sentences")
    oddities = Oddities()
    rows = _Rows(chosen, tables, oddities)
    notes = {"columns": f"{chosen}, by their names"} if chosen.inferred else {}
    by_split: dict[str | None, list[Sentence]] = {}
    keys: list[str] = []
    for split, table in tables.items():
        groups = table.columns[chosen.group] if chosen.group else repeat(None)
        stated = table.columns[chosen.split] if chosen.split else repeat(None)
        for row, (sentence, value, group) in enumerate(zip(rows.sentences(table), stated, groups, strict=False)):
            part = split if chosen.split is None else split_named(_named(value, table.place(row), chosen.split))
            by_split.setdefault(part, []).append(sentence)
            if part is None:
                keys.append(sentence.text if group is None else str(group))
    if None in by_split:
        made, note = made_splits(name, by_split[None], keys, by=chosen.group or "text")
        notes["splits"] = note
    else:
        made = {split: sentences for split, sentences in by_split.items() if split is not None}
    splits = {split: _with_spans(name, Sentences(sentences), oddities) for split, sentences in made.items()}
    return Corpus(name, splits, notes={**notes, **oddities.notes()})


def _with_spans(name: str, sentences: Sentences, oddities: Oddities) -> Sentences:
    def place(word: int) -> str:
        return f"{name}, row {sentences.id(int(sentences.sentence_of_word[word]))}"

    return with_iob2(sentences, place, oddities)


def made_splits(
    name: str, sentences: Sequence[Sentence], keys: Sequence[str], *, by: str
) -> tuple[dict[str, list[Sentence]], str]:
    """Splits of sentences that have none, and a note on them: 8 : 1 : 1, drawn by a hash of each sentence's key.

    They depend on the keys alone, not on their order; no key is in two splits. Sentences without annotation are all
    ``test``.

    Raises:
        CorpusError: there are too few sentences or keys.
    """
    if not any(sentence.layers or sentence.targets or sentence.heads for sentence in sentences):
        return {"test": list(sentences)}, "none: sentences without annotation are all test"
    n = len(sentences)
    sizes: dict[str, int] = {}
    for key in keys:
        sizes[key] = sizes.get(key, 0) + 1
    if n < _FEWEST_ROWS or len(sizes) < _FEWEST_GROUPS:
        few = f"{n} sentences" if n < _FEWEST_ROWS else f"{len(sizes)} values of {by}"
        least = _FEWEST_ROWS if n < _FEWEST_ROWS else _FEWEST_GROUPS
        raise CorpusError(
            f"{name}: {few}, of which train, dev and test are made; give {least} or more, or name the splits by split="
        )
    ordered = sorted(sizes, key=lambda key: (digest([key.encode("utf-8", "surrogatepass")]), key))
    split_of: dict[str, str] = {}
    for split in ("test", "dev"):
        size = 0
        while size < n / 10 and len(ordered) > (2 if split == "test" else 1):
            key = ordered.pop()
            split_of[key] = split
            size += sizes[key]
    made: dict[str, list[Sentence]] = {"train": [], "dev": [], "test": []}
    for sentence, key in zip(sentences, keys, strict=True):
        made[split_of.get(key, "train")].append(sentence)
    counts = ", ".join(f"{split} {len(part):,}" for split, part in made.items())
    return made, f"made by a hash of {by}, 8 : 1 : 1 ({counts})"


class _Rows:
    """The sentences of tables that have the same columns."""

    def __init__(self, columns: TableColumns, tables: Mapping[str | None, Table], oddities: Oddities) -> None:
        self._columns, self._oddities = columns, oddities
        self._spelt = {name: _Spelling.of(name, tables, in_lists=False) for name in columns.label}
        self._spelt |= {name: _Spelling.of(name, tables, in_lists=True) for name in columns.tags}

    def sentences(self, table: Table) -> Iterator[Sentence]:
        """One a row."""
        for row in range(len(table)):
            yield self._sentence({name: table.columns[name][row] for name in self._columns.named}, row, table.place)

    def _sentence(self, cells: Mapping[str, Any], row: int, place: Callable[[int], str]) -> Sentence:
        columns, where = self._columns, place(row)
        name = _named(cells[columns.id], where, columns.id) if columns.id else str(row)
        sentence = self._first(cells, name, where)
        n = len(sentence)
        layers = {tags: self._tags(tags, cells, n, where) for tags in columns.tags}
        second = None
        if columns.text2 is not None:
            sentence, second = _joined(sentence, english_sentence(_text(cells[columns.text2], where, columns.text2)))
            layers = {tags: (*values, *[None] * (len(sentence) - n)) for tags, values in layers.items()}
        targets = {}
        for column in columns.label:
            label = self._spelt[column](cells[column])
            if label is None:
                self._oddities.note(f"rows without a label in {column}", where)
            else:
                targets[column] = (Target((0, n), label, second),)
        layers = {tags: values for tags, values in layers.items() if any(values)}
        return Sentence(sentence.id, sentence.text, sentence.words, sentence.spans, layers, targets=targets)

    def _first(self, cells: Mapping[str, Any], name: str, where: str) -> Sentence:
        """The sentence of the first text, or of the words."""
        columns = self._columns
        text = None if columns.text is None else _text(cells[columns.text], where, columns.text)
        if columns.words is None:
            return english_sentence(text or "", name=name)
        words = _items(cells[columns.words], where, columns.words)
        if not words:
            raise CorpusError(f"{where}: column {quoted(columns.words)} has no word; leave the row out")
        for number, word in enumerate(words, 1):
            if not isinstance(word, str) or not word.strip():
                what = "is empty" if isinstance(word, str) or _is_missing(word) else f"is {quoted(word)}, no text"
                raise CorpusError(f"{where}: word {number} of column {quoted(columns.words)} {what}; give every word")
        spaced = None if text is None else spacing_in(text, words)
        if text is not None and spaced is None:
            self._oddities.note("sentences whose words do not spell their text, joined by single spaces", where)
        return Sentence.from_words(words, id=name, space_after=spaced)

    def _tags(self, column: str, cells: Mapping[str, Any], n: int, where: str) -> tuple[str | None, ...]:
        if _is_missing(cells[column]):
            self._oddities.note(f"rows without a label in {column}", where)
            return (None,) * n
        values = _items(cells[column], where, column)
        if len(values) != n:
            words = quoted(self._columns.words)
            raise CorpusError(
                f"{where}: {n} words in column {words} but {len(values)} labels in {quoted(column)}; give one a word"
            )
        return tuple(self._spelt[column](value) for value in values)


def _joined(first: Sentence, second: Sentence) -> tuple[Sentence, tuple[int, int]]:
    """Two texts as one sentence, a space between them, and the words of the second."""
    shift = len(first.text) + 1
    spans = (*first.spans, *((start + shift, end + shift) for start, end in second.spans))
    words = first.words + second.words
    return Sentence(first.id, f"{first.text} {second.text}", words, spans), (len(first), len(words))


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
                for value in _items(cell, where, column) if in_lists and not _is_missing(cell) else [cell]:
                    value = _plain(value)
                    if _is_missing(value) or type(value) in types:
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
        if _is_missing(value):
            return None
        return value if isinstance(value, str) else repr(float(value) if self.as_float else value)


def is_list(value: Any) -> bool:
    """Whether a value is a list, or an array of one dimension."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1


def _plain(value: Any) -> Any:
    """A value of Python in place of a scalar of numpy or torch."""
    return value.item() if hasattr(value, "item") and not isinstance(value, str) else value


def _is_missing(value: Any) -> bool:
    """Whether a value is none: None, NaN, pandas' NA, or an empty text."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _text(value: Any, where: str, column: str) -> str:
    """A text on one line, white space as single spaces."""
    if _is_missing(value) or (isinstance(value, str) and not value.strip()):
        raise CorpusError(f"{where}: column {quoted(column)} is empty; give a text, or leave the row out")
    if not isinstance(value, str):
        raise CorpusError(f"{where}: column {quoted(column)} is {quoted(value)}, no text; {COLUMNS_REMEDY}")
    return " ".join(value.split())


def _named(value: Any, where: str, column: str) -> str:
    """A text or number by which a row or split is called."""
    value = _plain(value)
    return _text(str(value) if isinstance(value, int) else value, where, column)


def _items(value: Any, where: str, column: str) -> list[Any]:
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
