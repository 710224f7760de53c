"""The tidy tables as Parquet files: their schema, rows in and out, the same bytes for the same content."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bertology._files import shortened, write_atomically
from bertology.errors import BertologyError, ResultsError
from bertology.results.tables.rows import SCHEMA_VERSION, ComparisonRow, ResultRow, field_kinds, sort_key

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

RowT = TypeVar("RowT", ResultRow, ComparisonRow)

RESULTS = "results.parquet"
COMPARISONS = "comparisons.parquet"


def write_results(folder: Path, rows: Sequence[ResultRow], *, comparisons: Sequence[ComparisonRow] = ()) -> None:
    """Write ``results.parquet`` and ``comparisons.parquet`` into ``folder``; the same rows give the same bytes."""
    # The file that marks the folder as a run comes last.
    write_atomically(folder / COMPARISONS, to_parquet(rows_to_table(comparisons, ComparisonRow), checksums=True))
    write_atomically(folder / RESULTS, to_parquet(rows_to_table(rows, ResultRow), checksums=True))


def read_result_rows(folder: Path) -> tuple[ResultRow, ...]:
    """The rows of ``results.parquet`` in ``folder``.

    Raises:
        ResultsError: the file is missing or broken, or lacks columns.
    """
    path = folder / RESULTS
    return table_to_rows(read_parquet(path, what="the scores of a run"), ResultRow, where=str(path))


def read_comparison_rows(folder: Path) -> tuple[ComparisonRow, ...]:
    """The rows of ``comparisons.parquet`` in ``folder``; raises as :func:`read_result_rows`."""
    path = folder / COMPARISONS
    return table_to_rows(read_parquet(path, what="the comparisons of a run"), ComparisonRow, where=str(path))


def row_schema(kind: type[ResultRow] | type[ComparisonRow]) -> pa.Schema:
    """The columns of a table: the fields of its rows, ``schema_version`` first."""
    import pyarrow as pa

    arrow: dict[type, Any] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    fields = [pa.field(name, arrow[of_field]) for name, of_field in field_kinds(kind).items()]
    fields.sort(key=lambda field: field.name != "schema_version")
    what = "results" if kind is ResultRow else "comparisons"
    return pa.schema(fields, metadata={"bertology": f"{what} {SCHEMA_VERSION}"})


def rows_to_table(rows: Sequence[RowT], kind: type[RowT]) -> pa.Table:
    """Rows in their fixed order as an Arrow table."""
    import pyarrow as pa

    ordered, schema = sorted(rows, key=sort_key), row_schema(kind)
    columns = [pa.array([getattr(row, field.name) for row in ordered], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_to_pandas(rows: Sequence[RowT], kind: type[RowT]) -> pd.DataFrame:
    """Rows in their fixed order as a data frame; whole numbers stay whole where some are missing."""
    import pandas as pd

    ordered = [dataclasses.asdict(row) for row in sorted(rows, key=sort_key)]
    frame = pd.DataFrame(ordered, columns=row_schema(kind).names)
    types = {str: "string", int: "Int64", float: "float64", bool: "bool"}
    return frame.astype({name: types[of_field] for name, of_field in field_kinds(kind).items()})


def table_to_rows(table: pa.Table, kind: type[RowT], *, where: str) -> tuple[RowT, ...]:
    """Rows of an Arrow table read from ``where``, which a :class:`ResultsError` names that says what is wrong in it."""
    # Another schema may have other columns, so the version is checked first.
    versions = table["schema_version"].to_pylist() if "schema_version" in table.column_names else []
    other = next((version for version in versions if version != SCHEMA_VERSION), SCHEMA_VERSION)
    if other != SCHEMA_VERSION:
        known = f"this version of bertology reads schema {SCHEMA_VERSION}"
        raise ResultsError(f"{where}: written in schema {shortened(other)}, {known}: run it again")
    wanted = list(field_kinds(kind))
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise ResultsError(f"{where}: no column {', '.join(missing)}; was it written by bertology?")
    try:
        return tuple(kind(**row) for row in table.select(wanted).to_pylist())
    except BertologyError as error:
        raise ResultsError(f"{where}: {error}; write it anew by running the same again") from None


def frame_to_parquet(frame: pd.DataFrame) -> bytes:
    """The columns of a frame, without its index, as a Parquet file with checksums."""
    import pyarrow as pa

    return to_parquet(pa.Table.from_pandas(frame, preserve_index=False), checksums=True)


def to_parquet(table: pa.Table, *, checksums: bool = False) -> bytes:
    """A table as the bytes of a Parquet file, with checksums of its pages if nothing else is known of its content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", version="2.6", write_page_checksum=checksums)
    return bytes(sink.getvalue())


def read_parquet(path: Path, *, what: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The table in ``path``, or only some of its columns; those that it does not have are left out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.is_fifo():
        raise ResultsError(f"{path}: a pipe where {what} was due; delete it and run again")
    try:
        # As one file: the reader of data sets would import pandas, half a second that nothing here needs. On this
        # thread: to wake others takes longer than a column of a few thousand words.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(list(columns) if columns is not None else None, use_threads=columns is None)
        table.validate(full=True)
        return table
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file; it should be {what}") from None
    except (OSError, pa.ArrowException) as error:
        reason = shortened(next(iter(str(error).splitlines()), type(error).__name__))
        raise ResultsError(f"{path}: not readable as {what} ({reason}); delete it and run again") from error
