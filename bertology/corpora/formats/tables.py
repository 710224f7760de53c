"""Files of tables: CSV, TSV, JSON, JSON Lines and Parquet."""

from __future__ import annotations

import csv
import json
import re
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from bertology._inputs import NotJson, described, opened, parsed_json
from bertology.corpora._corpus import UNLABELLED, Corpus
from bertology.corpora._files import (
    corpus_name,
    first_line,
    json_objects,
    split_files,
    split_of,
    suffix_of,
    text_lines,
)
from bertology.corpora._table_columns import TableColumns
from bertology.corpora._tables import Table, corpus_of_tables, with_names_of_classes
from bertology.errors import CorpusError, quoted

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
        table = _of_rows(path, rows, lines, has_header=False)
        return replace(table, columns=dict(zip(_COLA, table.columns.values(), strict=True)))
    return _of_rows(path, rows, lines, has_header=has_header)


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


def _of_rows(path: Path, rows: Iterable[list[str]], lines: array[int], *, has_header: bool) -> Table:
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
