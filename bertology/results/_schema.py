"""The tidy tables as Arrow schemas, and rows in and out of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from bertology.errors import BertologyError, ResultsError
from bertology.results._rows import SCHEMA_VERSION, ComparisonRow, ResultRow, field_kinds, sort_key

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

RowT = TypeVar("RowT", ResultRow, ComparisonRow)

_SINCE = {
    2: ("group",),
    3: (*("init_seed", "n_runs", "mean", "mean_stderr", "mean_ci_low", "mean_ci_high", "mean_ci_method"),),
}
"""Columns that older schemas do not have."""


def result_schema() -> pa.Schema:
    """Columns of ``results.parquet``: the fields of :class:`ResultRow`, ``schema_version`` first."""
    return _schema(ResultRow)


def comparison_schema() -> pa.Schema:
    """Columns of ``comparisons.parquet``: the fields of :class:`ComparisonRow`."""
    return _schema(ComparisonRow)


def rows_to_table(rows: Sequence[RowT], kind: type[RowT]) -> pa.Table:
    """Rows in their fixed order as an Arrow table."""
    import pyarrow as pa

    ordered, schema = sorted(rows, key=sort_key), _schema(kind)
    columns = [pa.array([getattr(row, field.name) for row in ordered], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_to_pandas(rows: Sequence[RowT], kind: type[RowT]) -> pd.DataFrame:
    """Rows in their fixed order as a data frame; whole numbers stay whole where some are missing."""
    import pandas as pd

    frame = pd.DataFrame([dataclasses.asdict(row) for row in sorted(rows, key=sort_key)], columns=_schema(kind).names)
    types = {str: "string", int: "Int64", float: "float64", bool: "bool"}
    return frame.astype({name: types[found] for name, found in field_kinds(kind).items()})


def table_to_rows(table: pa.Table, kind: type[RowT], *, where: str) -> tuple[RowT, ...]:
    """Rows of an Arrow table read from ``where``.

    Raises:
        ResultsError: columns are missing, a value is of another type than its column's, or the table was written by a
            newer version.
    """
    # A newer version may have other columns, so that is what to say first.
    versions = table["schema_version"].to_pylist() if "schema_version" in table.column_names else []
    newest = max((version for version in versions if isinstance(version, int)), default=0)
    if newest > SCHEMA_VERSION:
        raise ResultsError(f"{where}: written in schema {newest}, this version reads up to {SCHEMA_VERSION}: upgrade")
    added = {name for version, names in _SINCE.items() if newest < version for name in names}
    wanted = [name for name in field_kinds(kind) if name not in added]
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise ResultsError(f"{where}: no column {', '.join(missing)}; was it written by bertology?")
    try:
        return tuple(kind(**row) for row in table.select(wanted).to_pylist())
    except BertologyError as error:
        raise ResultsError(f"{where}: {error}; write it anew by running the same again") from None


def _schema(kind: type[ResultRow] | type[ComparisonRow]) -> pa.Schema:
    import pyarrow as pa

    arrow: dict[type, Any] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    kinds = field_kinds(kind)
    names = sorted(kinds, key=lambda name: name != "schema_version")
    what = "results" if kind is ResultRow else "comparisons"
    fields = [pa.field(name, arrow[kinds[name]]) for name in names]
    return pa.schema(fields, metadata={"bertology": f"{what} {SCHEMA_VERSION}"})
