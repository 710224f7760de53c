"""The tidy tables of a run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertology._files import write_atomically
from bertology.results._parquet import read_parquet, to_parquet
from bertology.results._rows import ComparisonRow, ResultRow
from bertology.results._schema import rows_to_table, table_to_rows

RESULTS = "results.parquet"
COMPARISONS = "comparisons.parquet"


def write_results(folder: Path, rows: Sequence[ResultRow], *, comparisons: Sequence[ComparisonRow] = ()) -> None:
    """Write ``results.parquet`` and ``comparisons.parquet`` into ``folder``.

    The same rows give the same bytes, in whatever order they come.

    Raises:
        StoreError: the folder cannot be written.
    """
    # The file that says that a run is there comes last.
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
    """The rows of ``comparisons.parquet`` in ``folder``.

    Raises:
        ResultsError: the file is missing or broken, or lacks columns.
    """
    path = folder / COMPARISONS
    return table_to_rows(read_parquet(path, what="the comparisons of a run"), ComparisonRow, where=str(path))
