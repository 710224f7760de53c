"""Parquet files that are the same, byte for byte, for the same content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertology._files import shortened
from bertology.errors import ResultsError

if TYPE_CHECKING:
    import pyarrow as pa


def to_parquet(table: pa.Table, *, checksums: bool = False) -> bytes:
    """A table as the bytes of a Parquet file, with checksums of its pages if nothing else is known of its content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", version="2.6", write_page_checksum=checksums)
    return bytes(sink.getvalue())


def read_parquet(path: Path, *, what: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The table in ``path``, or only some of its columns; those that it does not have are left out.

    Raises:
        ResultsError: the file is missing or broken.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

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
