"""Tables: which columns hold what, files of tables and data in memory, and the sentences of rows."""

import ast
import contextlib
import csv
import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import filter as matching
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bertology._files import NotJson, digest, opened, parsed_json, taken
from bertology._names import by_key, check_name, name_not_found
from bertology.corpora import _files
from bertology.corpora._corpus import SPLITS, TEXTS, UNLABELLED, Corpus, Format
from bertology.corpora._files import Oddities, numbered_lines, text_lines, wrong
from bertology.corpora._sentences import IGNORED, Sentence, Sentences, Target, as_one, words_at
from bertology.corpora._words import sentence_of_text, spacing_in, with_iob2, words_within
from bertology.corpora.formats.spacy_docs import sentences_of_docs
from bertology.errors import CorpusError, cut, cut_path, listed, quoted

# Which columns hold what.

Stated = str | Sequence[str]
"""Columns as a person names them: ``"text=sentence,label=stars+topic"``, or its parts."""


Columns = Mapping[str, tuple[str, ...]]
"""Columns of a table by key."""


@dataclass(frozen=True)
class Form:
    """The columns that one kind of table has, by the keys with which people name them."""

    needs: tuple[str, ...]
    """Keys that must be there; of ``text|words`` one."""
    may: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    """Keys of any number of columns, joined by ``+``."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of columns by which a key is recognised, the preferred first, where it is not called as the key is."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Keys that stand with another one alone."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all columns that are read."""
        return (*(key for some in self.needs for key in some.split("|")), *self.may)

    @property
    def remedy(self) -> str:
        """How columns are named."""
        further = [key for key in ("label", "group") if key in self.may][:1]
        example = ",".join(f"{key}=COLUMN" for key in (*(some.split("|")[0] for some in self.needs), *further))
        return f"name the columns as in --columns {example} (by number, from 1, where the first row holds no names)"

    def recognised(self, names: Collection[str]) -> Columns | None:
        """The columns by the obvious names, in whatever case; None where one that is needed is lacking."""
        of = {name.lower(): name for name in names}
        known = {key: [of[name] for alias in self._names(key) for name in matching(of, alias)] for key in self.keys}
        known = {key: some if key in self.several else some[:1] for key, some in known.items()}
        found = {key: tuple(some) for key, some in known.items() if some and known.get(self.beside.get(key, key))}
        return None if self._lacking(found) else found

    def stated(self, columns: Stated) -> Columns:
        """The columns that a person names; errors also where one is lacking or of no use."""
        spelt = {alias: key for key in self.keys for alias in self._names(key)}
        chosen: dict[str, tuple[str, ...]] = {}
        for part in _parts(columns):
            written, _, value = map(str.strip, part.partition("="))
            if (key := spelt.get(written, written)) not in self.keys:
                raise name_not_found("key of columns", key, (*self.keys, "language"))
            values = tuple(map(str.strip, value.split("+"))) if key in self.several else (value,)
            if "" in values or key in chosen:
                raise wrong("columns", part, f"key=column, each key once; {self.remedy}")
            chosen[key] = values
        alone = (of for key, of in self.beside.items() if key in chosen and of not in chosen)
        if lacking := self._lacking(chosen) or next(alone, ""):
            raise CorpusError(f"columns: no {lacking.replace('|', '= or ')}= is there; {self.remedy}")
        return {key: chosen[key] for key in self.keys if key in chosen}

    def has_names(self, columns: Stated | None) -> bool:
        """Whether columns are called by names that the first row of a file holds, not by their numbers alone."""
        stated, _ = split_language(columns)
        return stated is None or not all("".join(names).isdecimal() for names in self.stated(stated).values())

    def unknown(self, source: object, names: Collection[str], *, nor: str = "") -> CorpusError:
        """The error for a table with no known columns: those that it has, and how to name them."""
        needed = " and ".join(filter(None, (", ".join(self.needs[:-1]), self.needs[-1]))).replace("|", " or ")
        return CorpusError(
            f"{source}: no columns {needed} among {listed(names)}{nor and f', nor {nor}'}; "
            f"{undivided(names) or self.remedy}"
        )

    def _names(self, key: str) -> tuple[str, ...]:
        return self.aliases.get(key, (key,))

    def _lacking(self, found: Mapping[str, Any]) -> str:
        return next((some for some in self.needs if not found.keys() & set(some.split("|"))), "")


SENTENCES = Form(
    needs=("text|words",),
    may=("text2", "choice", "at", "at2", "phrase", "start", "end", "label", "tags", "split", "group", "id"),
    several=("choice", "label", "tags"),
    aliases={
        "text": ("sentence1", "text1", "premise", "text", "sentence", "startphrase", "ctx", "question"),
        "text2": ("sentence2", "text2", "hypothesis"),
        "choice": ("choices", "endings", *(f"{stem}{number}" for stem in ("ending", "choice") for number in range(10))),
        "words": ("words", "tokens"),
        "tags": ("tags", "*_tags", "upos", "xpos", "lemma", "feats", "deprel", "ner", "chunk"),
        "label": ("label", "gold_label", "heuristic", "subcase", "template"),
        **dict.fromkeys(("at", "at2", "phrase", "start", "end", "group", "id"), ()),
    },
    beside={
        **{"tags": "words", "text2": "text", "choice": "text", "at": "label", "at2": "text2"},
        **{"phrase": "label", "start": "end", "end": "start"},
    },
)
"""Tables of sentences.

``text`` is the text of a sentence, or of the first of a pair, whose second one is ``text2``. ``at`` and ``at2`` are the
place of the word, or words, in them that a label is about, if not all: a number from 0, or ``first-last``, of what
spaces separate. ``phrase`` is the same place as the words themselves, ``start`` and ``end`` as characters from 0, end
exclusive. Rows that label parts of the same text are one sentence. ``words`` is a list of words, or one text with
spaces between them. Each ``label`` becomes targets of its name, each column of ``tags``, lists as long as those of the
words, a layer of its name. Splits that are made never divide a ``group``.

``choice`` are continuations of the text, or answers to it, one of which is right: columns of one text each, as those of
SWAG, or one column of lists, which may differ in length. The ``label`` is the number of the right one or, in all rows,
its text; numbers begin at 0 where one is 0, and at 1 where one is that of the last choice. Its target is a pair, the
text and the right choice.
"""


def _parts(columns: Stated) -> list[str]:
    return [part.strip() for part in (columns.split(",") if isinstance(columns, str) else columns)]


def split_language(columns: Stated | None) -> tuple[list[str] | None, str | None]:
    """Columns without the language of texts, ``language=zh``, by whose rules words are found; and that language.

    Raises:
        CorpusError: there are two.
    """
    parts = _parts(columns or ())
    stated = [part.partition("=")[2].strip() for part in parts if re.match(r"language\s*=", part)]
    if len(stated) > 1 or "" in stated:
        raise CorpusError("columns: write language= once, with a code such as language=zh")
    rest = [part for part in parts if not re.match(r"language\s*=", part)]
    return rest or None, next(iter(stated), None)


def no_columns(columns: Stated, name: object) -> CorpusError:
    """The error for column names given with a corpus that has no columns to name."""
    what = "tables" if is_of_table(columns) else "column files"
    return CorpusError(f"columns={quoted(columns)} is for {what}; leave it out for {cut_path(name)}")


def is_of_table(columns: Stated) -> bool:
    """Whether columns are those of a table, ``text=sentence``, not of a file with one word a line, ``form,xpos``."""
    return any("=" in part for part in _parts(columns))


# Tables and their cells.

_LIST = re.compile(r"\[\s*(['\"\d-]|None|null|nan\b).*\]|\[\s*\]", re.DOTALL)
"""A cell of text that is a list as JSON or Python writes it."""
_WHOLE = re.compile(r"(-?[0-9]{1,9})(?:\.0)?")
"""A label that is a whole number, also where missing ones beside it have made it a decimal one."""

_CELL = object()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    where: str
    """Its place, for messages."""
    index: int
    """Its number from 0."""
    number: int
    """Its line in a file that has lines; else its number from 1."""
    values: Mapping[str, Any]
    """Its values by column."""

    def error(self, column: str, due: str, *, found: Any = _CELL) -> CorpusError:
        """The error for the value of a column, or a part of it, where something else is ``due``."""
        value = self.values.get(column) if found is _CELL else found
        return wrong(f"{self.where}: column {quoted(column)}", value, due)

    def string(self, column: str, *, default: str | None = None) -> str:
        """A text without white space around it; it may be empty, and lacking where there is a default."""
        value = default if (value := self.values.get(column)) is None else value
        if not isinstance(value, str):
            raise self.error(column, "a text")
        return value.strip()

    def text(self, column: str, *, numbers: bool = False, found: Any = _CELL) -> str:
        """A text on one line, white space as single spaces, never empty; or a whole number where that may be.

        ``found`` is the text itself where the column has a list of such.
        """
        value = plain(self.values.get(column) if found is _CELL else found)
        if numbers and isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer():
            value = str(int(value))
        if isinstance(value, str) and (words := value.split()):
            return " ".join(words)
        raise self.error(column, f"a text{' or a whole number' * numbers}; mend the row or leave it out", found=found)

    def as_float(self, column: str) -> float:
        """A number; NaN where it is missing."""
        value = plain(self.values[column])
        if value is None or (isinstance(value, str) and value.strip() in ("", "NA", "NaN", "nan")):
            return math.nan
        with contextlib.suppress(TypeError, ValueError):
            if not isinstance(value, bool) and not math.isinf(number := float(value)):
                return number
        raise self.error(column, "a number, or NA where it is missing", found=value)

    def list(self, column: str) -> list[Any]:
        """The values of a list: as it is, in JSON, as Python writes it, or in a text with spaces between them."""
        value = self.values[column]
        if isinstance(value, str):
            if not _LIST.fullmatch(value):
                return value.split()
            for parse in (parsed_json, ast.literal_eval):
                with contextlib.suppress(NotJson, ValueError, SyntaxError):
                    items = parse(value)
                    # Numpy's ['a' 'b'] reads as if Python had written it, but would be ['ab'].
                    if isinstance(items, list) and (parse is parsed_json or repr(items) == value.strip()):
                        return items
        if not is_list(value):
            raise self.error(column, 'a list, as ["a", "b"], or values with spaces between them')
        return list(value)


@dataclass(frozen=True)
class Table:
    """Rows of one split, or of a corpus that is not split yet."""

    columns: Mapping[str, Sequence[Any]]
    """The values of all rows, by column."""
    source: Path | str
    """The file, or what data in memory are called."""
    lines: Sequence[int] | None = None
    """The line of each row in a file that has lines."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> Iterator[Row]:
        """The rows in their order."""
        for index, values in enumerate(zip(*self.columns.values(), strict=True)):
            number = index + 1 if self.lines is None else self.lines[index]
            where = f"{self.source}, row {index}" if self.lines is None else f"{self.source}:{number}"
            yield Row(where, index, number, dict(zip(self.columns, values, strict=True)))

    def chosen(self, form: Form, columns: Stated | None) -> Columns | None:
        """Its columns, which a person names or which have obvious names; None where these are unknown.

        Raises:
            NameNotFoundError: a named column is lacking.
        """
        return form.recognised(self.columns) if columns is None else self.checked(form.stated(columns))

    def checked(self, columns: Columns) -> Columns:
        """The columns, all of which it must have."""
        for column in (name for names in columns.values() for name in names):
            check_name(f"column of {self.source}", column, self.columns, remedy=undivided(self.columns))
        return columns


def undivided(names: Collection[str]) -> str:
    """The remedy where the names of all columns were read as one; empty where they were not."""
    is_one = len(names) == 1 and any(mark in name for name in names for mark in ",;|\t")
    return "its first row was read as one column: name a file with commas .csv, one with tabs .tsv" if is_one else ""


def is_list(value: Any) -> bool:
    """Whether a value is a list, or an array of one dimension."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1


def plain(value: Any) -> Any:
    """A value of Python in place of a scalar of numpy or torch."""
    return value.item() if hasattr(value, "item") and not isinstance(value, str) else value


def _is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, pandas' NA, or an empty text."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


# Sentences of tables.

Placed = tuple[str | None, Sentence]
"""A sentence of a table, and its split if it states one."""


def _corpus_of_tables(name: str, tables: Mapping[str | None, Table], columns: Stated | None) -> Corpus:
    """The corpus in tables of the same columns, one a split; one under None is split by its column, or here."""
    oddities, (stated, language) = Oddities(), split_language(columns)
    chosen = _columns_of(name, tables, stated)
    if language is not None and "text" not in chosen:
        raise CorpusError("columns: language= is that of texts, and no text= is there; leave it out")
    rows = list(_sentences_of_tables(tables, chosen, oddities, language=language))
    if {*_PLACES} & chosen.keys() and not {"text2", "choice"} & chosen.keys():
        rows = _one_a_text(rows, by_id="id" in chosen)
    spelt = ",".join(f"{key}={'+'.join(names)}" for key, names in chosen.items())
    notes = {"columns": f"{spelt}, by their names"} if stated is None else {}
    corpus = corpus_of_rows(name, rows, by=next(iter(chosen.get("group", ())), None), notes=notes, oddities=oddities)
    return replace(corpus, language=language)


def _columns_of(name: str, tables: Mapping[str | None, Table], columns: Stated | None) -> Columns:
    """The columns of tables of sentences, those of the first by their names; there must be some row."""
    first = next(iter(tables.values()))
    if (chosen := first.chosen(SENTENCES, columns)) is None:
        raise SENTENCES.unknown(name, first.columns)
    for table in tables.values():
        table.checked(chosen)
    if not any(map(len, tables.values())):
        raise CorpusError(f"{name}: no row in it; give some sentences")
    if "choice" in chosen and "text2" in chosen:
        raise CorpusError(f"{name}: a text has choices or a second text; name its columns by choice= or text2= alone")
    places, others = (list(filter(chosen.__contains__, keys)) for keys in (_PLACES, ("words", "text2", "choice")))
    if len(places) > 1:
        raise CorpusError("columns: the place of a label is at=, phrase=, or start= and end=: name it by one of them")
    if places and "label" not in chosen:
        raise CorpusError(f"columns: {places[0]}= is the place of a label, and no label= is there; {SENTENCES.remedy}")
    if others and places not in ([], ["at"]):
        raise CorpusError(f"columns: {places[0]}= is a place in text= alone: leave {others[0]}= out, or take at=")
    return chosen


_PLACES = ("at", "phrase", "start")
"""Keys of columns that state the place of the words that a label is about."""


def _one_a_text(rows: Sequence[Placed], *, by_id: bool) -> list[Placed]:
    """Rows that label parts of the same text (of one id where these are named) as one sentence with all of them.

    The model reads it once, and intervals are over sentences, which would be too narrow over rows. A span that is
    labelled again is that of another sentence with the same text.
    """
    found, times = dict[tuple[Any, ...], Placed](), Counter[tuple[Any, ...]]()
    for split, one in rows:
        key = split, one.text, one.words, one.group, one.id if by_id else "", *sorted(one.layers.items())
        span = next((target.span1 for (target,) in one.targets.values()), None)
        first = found.setdefault((*key, times[*key, span]), (split, replace(one, targets={})))[1]
        targets = {column: (*first.targets.get(column, ()), *new) for column, new in one.targets.items()}
        found[*key, times[*key, span]] = split, replace(first, targets={**first.targets, **targets})
        times[*key, span] += span is not None
    return list(found.values())


def _sentences_of_tables(
    tables: Mapping[str | None, Table], columns: Columns, oddities: Oddities, **words: Any
) -> Iterator[Placed]:
    """The sentences of tables, in their order; ``words`` are options of :func:`sentence_of_text`."""
    labels, tags, choices = (columns.get(key, ()) for key in ("label", "tags", "choice"))
    spelt = {column: _spelling(column, tables, in_lists=column in tags) for column in (*labels, *tags)}
    first_number = {column: _first_number(column, tables, choices, spelt[column]) for column in labels if choices}
    one = {key: names[0] for key, names in columns.items()}.get
    for split, row in ((split, row) for split, table in tables.items() for row in table.rows()):
        name = row.text(column, numbers=True) if (column := one("id")) else str(row.index)
        text = row.text(column) if (column := one("text")) else None
        if column := one("words"):
            given = row.list(column)
            if not given or not all(isinstance(word, str) and word.strip() for word in given):
                raise row.error(column, "a list of words, none of them empty; mend the row or leave it out")
            spaced = None if text is None else spacing_in(text, given)
            if text is not None and spaced is None:
                oddities.note("sentences whose words do not spell their text, joined by single spaces", row.where)
            sentence = Sentence.from_words(given, id=name, space_after=spaced)
        else:
            sentence = sentence_of_text(text or "", name=name, where=f"{row.where}: ", **words)
        n, layers, span2 = len(sentence), dict[str, tuple[str | None, ...]](), None
        span1 = _labelled_words(row, columns, sentence)
        if column := one("text2"):
            other = sentence_of_text(row.text(column), where=f"{row.where}: ", **words)
            first, last = _words_at(row, column, other, by_spaces=True) if (column := one("at2")) else (0, len(other))
            sentence, span2 = joined(sentence, other), (first + n, last + n)
        if choices:
            given = _choices(row, choices)
            sentence = joined(sentence, *(sentence_of_text(one, where=f"{row.where}: ", **words) for one in given))
        for column in tags:
            if _is_missing(row.values[column]):
                oddities.note(f"rows without a label in {column}", row.where)
                continue
            if len(values := row.list(column)) != n:
                raise row.error(column, f"{n} labels, one a word", found=f"{len(values)} labels")
            layers[column] = (*map(spelt[column], values), *[None] * (len(sentence) - n))
        targets = dict(sentence.targets)
        for column in labels:
            if (label := spelt[column](row.values[column])) is None:
                oddities.note(f"rows without a label in {column}", row.where)
                continue
            if choices:
                span2 = sentence.targets[TEXTS][1 + _right(row, column, label, given, first_number[column])].span1
            targets[column] = (Target(span1, label, span2),)
        group = plain(row.values[column]) if (column := one("group")) else None
        stated = _files.split_named(row.text(column, numbers=True)) if (column := one("split")) else split
        layers = {column: values for column, values in layers.items() if any(values)}
        yield stated, replace(sentence, layers=layers, targets=targets, group="" if _is_missing(group) else str(group))


def _choices(row: Row, columns: Sequence[str]) -> list[str]:
    """The texts that a row has to choose from: those of several columns, or of one that has lists."""
    if len(columns) > 1:
        return [row.text(column, numbers=True) for column in columns]
    value = row.values[columns[0]]
    found = [] if isinstance(value, str) and not _LIST.fullmatch(value) else row.list(columns[0])
    if len(found) < 2:
        raise row.error(columns[0], 'a list of two choices or more, as ["a", "b"]')
    return [row.text(columns[0], numbers=True, found=one) for one in found]


def _first_number(
    column: str, tables: Mapping[str | None, Table], choices: Sequence[str], spelt: Callable[[Any], str | None]
) -> int | None:
    """The number of the first choice by a column of labels, 0 or 1; None where all of them are texts of choices."""
    rows = [(row, spelt(row.values[column])) for table in tables.values() for row in table.rows()]
    found = [(row, label, _choices(row, choices)) for row, label in rows if label is not None]
    are_texts = all(" ".join(label.split()) in texts for _, label, texts in found)
    others = [row for row, label, _ in found if not _WHOLE.fullmatch(label)]
    if others and not are_texts:
        raise others[0].error(column, "the number of a choice, or in all rows its text")
    if others or not found:
        return None
    numbers = {(int(label.removesuffix(".0")), len(texts)) for _, label, texts in found}
    begins = 0 if any(not number for number, _ in numbers) else 1 if any(n == last for n, last in numbers) else None
    if are_texts or begins is None:
        problem = "could be texts of choices" if are_texts else "could count choices from 0 or from 1"
        raise CorpusError(
            f"the numbers in column {quoted(column)} {problem}: give texts of choices that are no numbers"
        )
    return begins


def _right(row: Row, column: str, label: str, choices: Sequence[str], first: int | None) -> int:
    """The place of the right choice by a label, from 0."""
    if first is None:
        if choices.count(text := " ".join(label.split())) != 1:
            raise row.error(column, "the text of one choice alone")
        return choices.index(text)
    place = int(label.removesuffix(".0")) - first
    if not 0 <= place < len(choices):
        raise row.error(column, f"the number of a choice, {first} to {len(choices) - 1 + first}")
    return place


def _words_at(row: Row, column: str, sentence: Sentence, *, by_spaces: bool) -> tuple[int, int]:
    """The words at a place that a column states, a number or ``first-last``."""
    # Words of a text are counted as people do, by spaces; the tokenizer may part them further.
    parts = [one.span() for one in re.finditer(r"\S+", sentence.text)] if by_spaces else sentence.spans
    match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", row.text(column, numbers=True))
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if not first <= last < len(parts):
        raise row.error(column, f"the number of a word, 0 to {len(parts) - 1}, or first-last")
    return words_within(list(sentence.spans), parts[first][0], parts[last][1])


def _labelled_words(row: Row, columns: Columns, sentence: Sentence) -> tuple[int, int]:
    """The words of a text that a label is about, all where no column states a place."""
    if "at" in columns:
        return _words_at(row, columns["at"][0], sentence, by_spaces="words" not in columns)
    if not {*_PLACES} & columns.keys():
        return 0, len(sentence)
    phrase, span = None, None
    if "phrase" in columns:
        phrase = row.text(columns["phrase"][0], numbers=True)
    else:
        span = _character(row, columns, "start"), _character(row, columns, "end")
    try:
        words = words_at(sentence, phrase, span=span)
    except CorpusError as error:
        raise CorpusError(f"{row.where}: {error}") from None
    return words.start, words.stop


def _character(row: Row, columns: Columns, key: str) -> int:
    """A place in the text of a sentence, which has single spaces where that of the table may have more."""
    text, column = row.values[columns["text"][0]], columns[key][0]
    if not (match := _WHOLE.fullmatch(row.text(column, numbers=True))):
        raise row.error(column, "the number of a character of the text, from 0")
    place = int(match[1])
    return len(" ".join(f"{text[:place]}x".split())) - 1 if 0 <= place <= len(text) else place


def corpus_of_rows(
    name: str,
    rows: Sequence[Placed],
    *,
    by: str | None = None,
    notes: Mapping[str, str] = MappingProxyType({}),
    oddities: Oddities | None = None,
) -> Corpus:
    """The corpus of some sentences, all in splits, or in none: then divided, or all ``test`` if none is annotated.

    ``by`` names their groups, where a person named them; ``oddities`` are listed in its notes.
    """
    oddities = oddities or Oddities()
    placed = ((split or "test", sentence) for split, sentence in rows)
    by_split = {split: list[Sentence]() for split in SPLITS} | by_key(placed)
    groups = f"groups by {by}" if by not in (None, "document") else "documents"
    parts = {split: Sentences(part) for split, part in by_split.items() if part}
    corpus = Corpus(name, parts, notes=notes, groups=groups)
    if rows and rows[0][0] is None and any(one.layers or one.targets or one.heads for one in by_split["test"]):
        corpus = corpus.divided(by=by)

    def place(sentences: Sentences, word: int) -> str:
        return f"{name}, row {sentences.id(int(sentences.sentence_of_word[word]))}"

    splits = {split: with_iob2(part, partial(place, part), oddities) for split, part in corpus.splits.items()}
    return replace(corpus, splits=splits, notes={**corpus.notes, **oddities.notes()})


def joined(*texts: Sentence) -> Sentence:
    """Several texts as one sentence, spaces between them; the targets ``texts`` are these."""
    ends = zip(texts, accumulate(map(len, texts)), range(1, len(texts) + 1), strict=True)
    targets = {TEXTS: tuple(Target((end - len(one), end), str(number)) for one, end, number in ends)}
    # The spans of the label of a pair show where its second text begins; between two choices nothing else does.
    derived = frozenset({TEXTS}) if len(texts) == 2 else frozenset[str]()
    return replace(as_one(texts), targets=targets, derived=derived)


def _spelling(column: str, tables: Mapping[str | None, Table], *, in_lists: bool) -> Callable[[Any], str | None]:
    """The spelling of labels of a column: text as it is, numbers by ``repr``, all as floats if one is a float."""
    types: dict[type, str] = {}
    for row in (row for table in tables.values() for row in table.rows()):
        cell = row.values[column]
        for value in map(plain, row.list(column) if in_lists and not _is_missing(cell) else [cell]):
            if not _is_missing(value) and str(value) not in IGNORED and type(value) not in types:
                if not isinstance(value, str | int | float):
                    raise row.error(column, "a text or a number", found=value)
                types[type(value)] = f"{row.where}: {quoted(value)}"
    if len({bool if kind is bool else str if issubclass(kind, str) else float for kind in types}) > 1:
        mixed = "; ".join(f"{kind.__name__} ({where})" for kind, where in types.items())
        raise CorpusError(f"column {quoted(column)} mixes {mixed}; make all of one type, as by astype(str)")

    def spelt(value: Any) -> str | None:
        value = plain(value)
        if _is_missing(value):
            return None
        return value if isinstance(value, str) else repr(float(value) if float in types else value)

    return spelt


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
        return [path] if path.is_file() and _files.suffix_of(path) == ".json" else super().files(path)

    def recognises(self, file: Path) -> bool:
        """Whether a column is known to hold texts or words."""
        if _files.suffix_of(file) in _ALWAYS:
            return True
        try:
            names = names_of_columns(file)
        except CorpusError:
            return _files.first_line(file).lstrip().startswith("[")
        return "targets" not in names and SENTENCES.recognised(names) is not None

    def load(self, path: Path, *, columns: Stated | None = None) -> Corpus:
        """The corpus in a table, or in a folder of tables, one a split.

        Where columns are recognised by their names, files without those of labels are left out, as GLUE's test files.
        One file whose name states no split is split here.
        """
        files = {split: file for split, (file,) in _files.split_files(path, self.suffixes, what=self.title).items()}
        is_whole = path.is_file() and _files.split_of(path) is None
        has_names = SENTENCES.has_names(columns)
        tables = {None if is_whole else split: read_table(file, has_names) for split, file in files.items()}
        first = next(iter(tables.values()))
        labels = (SENTENCES.recognised(first.columns) or {}).get("label", ()) if columns is None else ()
        labelled = {split: table for split, table in tables.items() if set(labels) <= table.columns.keys()}
        corpus = _corpus_of_tables(_files.corpus_name(path), labelled, columns)
        left_out = ", ".join(Path(tables[split].source).name for split in tables if split not in labelled)
        return replace(corpus, notes={**corpus.notes, **({UNLABELLED: left_out} if left_out else {})})


def names_of_columns(path: Path) -> Collection[str]:
    """Names in the first row of a table; of JSON those of the first object."""
    return read_table(path, most=1).columns


def read_table(path: Path, has_names: bool = True, *, most: int | None = None) -> Table:
    """The first rows of one file, or all; without a row of names columns are called by their numbers, from 1."""
    if _files.suffix_of(path) == ".parquet":
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
    if _files.suffix_of(path) in JSON_SUFFIXES:
        return _read_objects(path, most)
    columns: dict[str, list[str]] = {}
    first = list(islice(text_lines(path), 5)) if has_names and _files.suffix_of(path) == ".tsv" else []
    lines, is_cola = array("q"), bool(first) and all(map(_COLA_ROW.fullmatch, first))
    for number, row in islice(_cells(path), most):
        is_header = has_names and not columns and not is_cola
        if not columns:
            names = [name.strip() for name in row] if is_header else [str(place) for place in range(1, len(row) + 1)]
            columns = _unique(_COLA if is_cola else names, [[] for _ in row], f"{path}:{number}")
        if len(row) != len(columns):
            raise wrong(f"{path}:{number}", f"{len(row)} values", f"{len(columns)}, one for each column of the table")
        if not is_header:
            lines.append(number)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    if not columns:
        raise CorpusError(f"{path}: the file is empty; give a table whose first row names the columns")
    return Table(columns, path, lines)


def _read_objects(path: Path, most: int | None) -> Table:
    """The table in a file of JSON: an array of objects, or one object a line."""
    is_array = _files.first_line(path).lstrip().startswith("[")
    lines, objects = array("q"), list[dict[str, Any]]()
    for number, text in [(0, "".join(text_lines(path)))] if is_array else islice(numbered_lines(path), most):
        where = str(path) if is_array else f"{path}:{number}"
        try:
            value = parsed_json(text)
        except NotJson as error:
            raise CorpusError(f"{where}: not JSON ({error}); expected an array of objects, or one a line") from None
        for row, one in enumerate(value if is_array else [value]):
            if not isinstance(one, dict):
                raise wrong(f"{path}, row {row}" if is_array else where, one, "an object of JSON")
            objects.append(one)
            lines.append(number)
    if not objects:
        raise CorpusError(f"{path}: nothing in it; give an array of objects, or one object a line")
    return _of_records(objects, path, None if is_array else lines)


def _unique(names: Sequence[str], columns: Iterable[Any], where: str) -> dict[str, Any]:
    """Columns by their names, no two of which may be the same."""
    if (double := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise CorpusError(f"{where}: two columns are called {quoted(double)}; rename one")
    return dict(zip(names, columns, strict=True))


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row of a file of text, with its line."""
    if _files.suffix_of(path) != ".csv":
        yield from ((number, [_unquoted(cell) for cell in line.split("\t")]) for number, line in numbered_lines(path))
        return
    header = _files.first_line(path)
    delimiter = next((mark for mark in (",", ";", "\t") if mark in header), ",")
    reader, before = csv.reader(text_lines(path), delimiter=delimiter, strict=True), 0
    try:
        for row in reader:
            if row:
                yield before + 1, row
            before = reader.line_num
    except csv.Error as error:
        problem = str(error).replace("\t", "tab")
        remedy = "quote values as CSV does, or name a file with tabs .tsv, where quotation marks are plain text"
        raise CorpusError(f"{path}:{before + 1}: not CSV ({problem}); {remedy}") from None


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
    "a DataFrame, a data set of Hugging Face, a list of texts, of (text, label), of (words, tags), of records, of "
    "spaCy documents, or a dict of such by split"
)
_SHAPES = {
    **{"s": ("text",), "l": ("words",), "ll": ("words", "tags")},
    **dict.fromkeys(("so", "ss"), ("text", "label")),
    **dict.fromkeys(("lo", "ls"), ("words", "label")),
    **dict.fromkeys(("sso", "sss"), ("text", "text2", "label")),
}
"""Names of the columns of rows that are tuples, by their parts: texts (s), lists (l) and others (o)."""
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
    name, parts = name or IN_MEMORY, dict[str | None, Any]({None: data})
    if _has_splits(data):
        parts = {_files.split_named(str(key)): part for key, part in data.items()}
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
    return isinstance(data, Mapping) and any(_files.split_named(str(key)) in SPLITS for key in data)


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
        # With texts no labels are asked for: a tuple of texts is words.
        wordy = [isinstance(row, tuple) and all(isinstance(word, str) for word in row) for row in rows]
        for number, row in enumerate(rows):
            if wordy[number] and any(len(word.split()) > 1 for word in row):
                raise wrong(f"{IN_MEMORY}, row {number}", row, "a text alone, or a list of words")
        rows = [list(row) if is_words else row for row, is_words in zip(rows, wordy, strict=True)]
    part = _part(rows, IN_MEMORY, None)
    if not isinstance(part, Table):
        return Sentences(part)
    tables: dict[str | None, Table] = {None: part}
    columns, options = _columns_of(IN_MEMORY, tables, None), {"language": language, "split_at_spaces": split_at_spaces}
    return Sentences(sentence for _, sentence in _sentences_of_tables(tables, columns, Oddities(), **options))


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
                raise wrong(f"{IN_MEMORY}, row {number}", f"{len(row)} values", f"{len(data[0])}, as in row 0")
        data = {str(number): list(values) for number, values in enumerate(zip(*data, strict=True), 1)}
    part = _part(data, IN_MEMORY, None)
    return part if isinstance(part, Table) else None


def list_column(source: Any, column: str, n: int) -> list[list[Any]]:
    """The lists in the first ``n`` rows of a column of a table: a file, or a table in memory, as a whole.

    A :class:`CorpusError` where the source is no single table, and a NameNotFoundError where it has no such column.
    """
    table = known_table(str(source)) if isinstance(source, str | Path) else table_of_data(source)
    if table is None and isinstance(source, str | Path) and Path(source).is_file():
        table = read_table(Path(source))
    if table is None:
        raise CorpusError(f"column {quoted(column)}: lists are read from one table, a file or one in memory: give one")
    check_name("column", column, table.columns)
    return [row.list(column) for row in islice(table.rows(), n)]


class _OfDocs(list[Sentence]):
    """Sentences of spaCy documents, which do not state who annotated them."""


def _part(data: Any, where: str, columns: Stated | None) -> Table | Iterable[Sentence]:
    if isinstance(data, str | Path):
        return read_table(Path(data), SENTENCES.has_names(columns))
    if isinstance(data, Sentences | Table):
        return data
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        names = list(map(str, data.columns))
        return Table(_unique(names, [data.iloc[:, at].tolist() for at in range(len(names))], where), where)
    if hasattr(data, "to_pydict"):
        return Table(data.to_pydict(), where)
    if isinstance(data, Mapping):
        some = {str(name): values for name, values in data.items() if isinstance(values, Iterable)}
        held = {name: taken(values, f"{where}, column {name}", most=_MOST_ROWS) for name, values in some.items()}
        if len(held) < len(data) or len(set(map(len, held.values()))) != 1:
            sizes = ", ".join(f"{name} {len(values):,}" for name, values in held.items())
            raise wrong(where, sizes, f"splits, or columns of one length; give {_KINDS}")
        return Table(held, where)
    if not isinstance(data, Iterable):
        raise wrong(where, type(data).__name__, _KINDS)
    rows = list(data) if hasattr(data, "__len__") else taken(data, where, most=_MOST_ROWS)
    if not rows:
        raise CorpusError(f"{where}: nothing in it; expected {_KINDS}")
    if all(isinstance(row, Sentence) for row in rows):
        return rows
    if all(hasattr(row, "sents") and hasattr(row, "has_annotation") for row in rows):
        return _OfDocs(sentences_of_docs(rows))
    if all(isinstance(row, Mapping) for row in rows):
        table = _of_records(rows, where)
    else:
        shape = _shape(rows[0])
        for number, row in enumerate(rows):
            if not shape or _shape(row) != shape:
                raise wrong(f"{where}, row {number}", row, f"{' and '.join(shape)}, as in row 0" if shape else _KINDS)
        columns_of = list(zip(*rows, strict=True)) if len(shape) > 1 else [rows]
        table = Table({name: list(values) for name, values in zip(shape, columns_of, strict=True)}, where)
    features = getattr(data, "features", None) if hasattr(data, "column_names") else None
    return _with_names_of_classes(table, features) if features else table


def _shape(row: Any) -> tuple[str, ...]:
    """Column names of a row that is a string, a list or a tuple; none if it is not a valid row."""
    parts = row if isinstance(row, tuple) and len(row) > 1 else (row,)
    return _SHAPES.get("".join("s" if isinstance(one, str) else "l" if is_list(one) else "o" for one in parts), ())
