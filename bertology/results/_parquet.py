"""Parquet files that are the same, byte for byte, for the same content."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bertology.errors import ResultsError

if TYPE_CHECKING:
    import pyarrow as pa


def to_parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", version="2.6")
    return bytes(sink.getvalue())


def read_parquet(path: Path, *, what: str) -> pa.Table:
    """The table in ``path``.

    Raises:
        ResultsError: the file is missing or broken.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # As one file: the reader of data sets would import pandas, half a second that nothing here needs.
        with pq.ParquetFile(path) as file:
            return file.read()
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file; it should be {what}") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise ResultsError(f"{path}: not readable as {what} ({reason}); delete it and run again") from error
