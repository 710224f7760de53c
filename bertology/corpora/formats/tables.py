"""Files of tables: CSV, TSV, JSON Lines and Parquet, with a text or a list of words in each row."""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertology._inputs import NotJson, opened, parsed_json
from bertology.corpora._corpus import Corpus
from bertology.corpora._files import corpus_name, first_line, json_objects, split_files, split_of, text_lines
from bertology.corpora._table_columns import TableColumns
from bertology.corpora._tables import Table, corpus_of_tables, with_names_of_classes
from bertology.errors import CorpusError, quoted

_ALWAYS = (".csv", ".parquet")
TABLE_SUFFIXES = (*_ALWAYS, ".jsonl", ".tsv")
"""Ends of the names of tables, for telling them from what else lies in a folder."""


def load_tables(path: Path, *, columns: str | Sequence[str] | None = None) -> Corpus:
    """The corpus in a table, or in a folder of tables, one a split.

    A table is read as its suffix states: ``.csv``, ``.jsonl``, ``.parquet``, and any other as lines of values with tabs
    between them. Where the columns are named by numbers alone (``"text=4,label=2"``, from 1), the first line is a row
    like all others. One file whose name states no split is split here.

    Raises:
        CorpusError: a file, or a value in it, is not as it should be; the message names line and column.
        NameNotFoundError: there is no such column.
    """
    files = split_files(path, TABLE_SUFFIXES, what="table")
    if path.is_file() and split_of(path) is None:
        return corpus_of_tables(corpus_name(path), {None: read_table(path, columns)}, columns)
    tables: dict[str | None, Table] = {split: read_table(file, columns) for split, (file,) in files.items()}
    return corpus_of_tables(corpus_name(path), tables, columns)


def looks_like_table(path: Path) -> bool:
    """Whether a file is a table of which a column is known to hold texts or words."""
    suffix = path.suffix.lower()
    if suffix in _ALWAYS or suffix not in TABLE_SUFFIXES:
        return suffix in _ALWAYS
    line = first_line(path)
    if suffix == ".tsv":
        return TableColumns.recognised(line.rstrip("\r\n").split("\t")) is not None
    try:
        value = parsed_json(line)
    except NotJson:
        return False
    return isinstance(value, dict) and "targets" not in value and TableColumns.recognised(value) is not None


def read_table(path: Path, columns: str | Sequence[str] | None = None) -> Table:
    """The rows of one file; ``columns`` as of :func:`load_tables`."""
    has_header = columns is None or not all(name.isdecimal() for name in TableColumns.stated(columns).named)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet(path)
    if suffix == ".jsonl":
        return _json_lines(path)
    lines = array("q")
    rows = _csv_rows(path, lines) if suffix == ".csv" else _tab_rows(path, lines)
    return _of_rows(path, rows, lines, has_header)


def _csv_rows(path: Path, lines: array[int]) -> Iterable[list[str]]:
    header = first_line(path)
    delimiter = ";" if ";" in header and "," not in header else ","
    reader = csv.reader(text_lines(path), delimiter=delimiter, strict=True)
    before = 0
    try:
        for row in reader:
            if row:
                lines.append(before + 1)
                yield row
            before = reader.line_num
    except csv.Error as error:
        raise CorpusError(f"{path}:{before + 1}: not CSV ({error}); quote values as CSV does") from None


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


def _of_rows(path: Path, rows: Iterable[list[str]], lines: array[int], has_header: bool) -> Table:
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
    first = 1 if has_header else 0
    return Table(dict(zip(names, columns, strict=True)), lambda row: f"{path}:{lines[first + row]}")


def _json_lines(path: Path) -> Table:
    lines = array("q")
    columns: dict[str, list[Any]] = {}
    for number, value in json_objects(path):
        for name in value.keys() - columns.keys():
            columns[name] = [None] * len(lines)
        lines.append(number)
        for name, column in columns.items():
            column.append(value.get(name))
    return Table(columns, lambda row: f"{path}:{lines[row]}")


def _parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    with opened(path, error=CorpusError) as file:
        try:
            table = pyarrow.parquet.read_table(file)
        except (pyarrow.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise CorpusError(f"{path}: not a Parquet file ({reason}); write it again") from error
    read = Table(table.to_pydict(), lambda row: f"{path}, row {row}")
    stated: Mapping[bytes, bytes] = table.schema.metadata or {}
    features = json.loads(stated.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    return with_names_of_classes(read, features)
