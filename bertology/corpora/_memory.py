"""Data in memory as corpora and sentences: frames, data sets, lists, documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertology._files import digest
from bertology._inputs import taken
from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities, split_named
from bertology.corpora._sentence import Sentence
from bertology.corpora._sentences import Sentences
from bertology.corpora._table_columns import TableColumns, no_columns
from bertology.corpora._tables import (
    Row,
    Table,
    corpus_of_rows,
    corpus_of_tables,
    is_list,
    rows_of_tables,
    with_names_of_classes,
)
from bertology.corpora.formats._words import sentence_of_text
from bertology.corpora.formats.spacy_docs import sentences_of_docs
from bertology.corpora.formats.tables import read_table
from bertology.errors import CorpusError, cut, quoted

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
