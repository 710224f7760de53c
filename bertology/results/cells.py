"""Files of finished cells; cells that are computed together share a file of predictions and one of records.

``predictions/<name>.parquet`` keeps each cell in row groups of its own, so that it is read without the others.
``cells/<name>.jsonl`` has a record a line; a cell is finished when its record is there and agrees with its predictions.
The name is a hash of the cells' ids, so that two processes never write different cells under one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from bertology import _files
from bertology._lazy import pa, pq
from bertology.errors import ResultsError
from bertology.results.rows import opened_parquet

PREDICTIONS, RECORDS = "predictions", "cells"
_WHAT = "the predictions of cells"
CELLS = b"cells"


@dataclass(frozen=True)
class Cell:
    """One task read from one layer of one model with one readout and seed; or a baseline that reads no layer."""

    identity: Mapping[str, Any]
    """All that decides the numbers: fingerprints, versions, settings. No names, no places, no time."""

    @cached_property
    def id(self) -> str:
        """Hash of the identity, 32 hexadecimal digits."""
        return _files.digest([_files.canonical_json({"format": _files.FORMAT, **self.identity})])


@dataclass(frozen=True)
class CellRecord:
    """The record of a finished cell."""

    cell_id: str
    identity: Mapping[str, Any]
    notes: tuple[str, ...]
    """Notes for the reader of the results."""
    facts: Mapping[str, Any]
    """Counts of items, skips and labels; the fit's strength and convergence."""
    provenance: Mapping[str, Any]
    predictions_sha256: str


def columns_of(record: CellRecord) -> dict[str, Any]:
    """The columns of ``results.parquet`` that all rows of a cell have in common."""
    facts, provenance = dict(record.facts), record.provenance
    # By group they belong to some of the rows.
    facts.pop("groups", None)
    return {
        "cell_id": record.cell_id,
        "skip_reasons": json.dumps(facts.pop("skip_reasons"), sort_keys=True),
        "params_json": json.dumps(facts.pop("params", {}), sort_keys=True),
        **facts,
        "versions": json.dumps(provenance["versions"], sort_keys=True),
        "device": provenance.get("device"),
        "wall_s": provenance["wall_s"],
        "started_utc": provenance.get("fit_started_utc"),
        "predictions_sha256": record.predictions_sha256,
    }


def name_of(cell_ids: Iterable[str]) -> str:
    """The name of the files of cells that are written together."""
    return _files.digest([_files.canonical_json(sorted(cell_ids))])


class Part(NamedTuple):
    """A cell in a file of predictions."""

    row_groups: tuple[int, ...]
    sha256: str


def parts_in(content: Any, about: pq.FileMetaData) -> dict[str, Part]:
    """The cells of a file of predictions; their checksums do not depend on what else is in it."""
    parts, last, plain = {}, 0, memoryview(content)
    for cell_id, n_groups in json.loads(about.metadata[CELLS]).items():
        row_groups, state = tuple(range(last, last + n_groups)), hashlib.sha256()
        for group in map(about.row_group, row_groups):
            for column in map(group.column, range(group.num_columns)):
                first = column.dictionary_page_offset or column.data_page_offset
                state.update(plain[first : first + column.total_compressed_size])
        parts[cell_id], last = Part(row_groups, state.hexdigest()), last + n_groups
    return parts


@lru_cache(maxsize=1 << 14)
def _parts(path: str, signed: tuple[int, int, int]) -> dict[str, Part]:
    with opened_parquet(Path(path), what=_WHAT) as file:
        return parts_in(Path(path).read_bytes(), file.metadata)


@lru_cache(maxsize=16)
def _records(path: str, signed: tuple[int, int, int]) -> dict[str, CellRecord]:
    """The records in a file; lines that are none are left out."""
    records = {}
    for line in Path(path).read_bytes().splitlines():
        try:
            plain = json.loads(line)
            records[plain["cell_id"]] = CellRecord(**{**plain, "notes": tuple(plain["notes"])})
        except (ValueError, TypeError, KeyError, RecursionError):  # the last: of ten thousand brackets
            continue
    return records


@lru_cache(maxsize=1 << 14)
def _whole(records: str, predictions: str, *signed: tuple[int, int, int]) -> frozenset[str]:
    """The cells of a file that are finished."""
    try:
        parts = _parts(predictions, signed[1]).items()
    except (ResultsError, OSError):
        return frozenset()
    told = {cell_id: record.predictions_sha256 for cell_id, record in _records(records, signed[0]).items()}
    return frozenset(cell_id for cell_id, part in parts if told.get(cell_id) == part.sha256)


@dataclass
class _Index:
    """The files of predictions of a folder that hold a cell, as far as they have been looked at."""

    files: set[str] = field(default_factory=set)
    of_cell: dict[str, list[str]] = field(default_factory=dict)

    def look(self, folder: str, *, refuse: bool) -> None:
        """Look at files that are new; ``refuse`` those that cannot be read."""
        found = set[str]()
        with contextlib.suppress(OSError):
            found = {name[:-8] for name in os.listdir(folder) if name.endswith(".parquet") and name[0] != "."}  # noqa: PTH208
        for name in sorted(found - self.files):
            path = Path(folder, f"{name}.parquet")
            try:
                with opened_parquet(path, what=_WHAT) as file:
                    ids = list(json.loads(file.metadata.metadata[CELLS]))
            except ResultsError:
                if refuse:
                    raise
                continue
            self.files.add(name)
            for cell_id in ids:
                self.of_cell.setdefault(cell_id, []).append(name)


@lru_cache(maxsize=256)
def _index(folder: str) -> _Index:
    return _Index()


def _known(folder: Path, cell_id: str) -> str | None:
    """The name of the files, of those that were looked at, in which a cell is finished; checked when they change."""
    for name in _index(str(folder)).of_cell.get(cell_id, ()):
        paths = f"{folder}/{RECORDS}/{name}.jsonl", f"{folder}/{PREDICTIONS}/{name}.parquet"
        with contextlib.suppress(OSError):
            if cell_id in _whole(*paths, *map(_files.signature, paths)):
                return name
    return None


def _finished(folder: Path, cell_id: str, *, refuse: bool = False) -> str | None:
    """The name of the files in which a cell is finished; ``refuse`` files of predictions that cannot be read."""
    if (name := _known(folder, cell_id)) is None:
        _index(str(folder)).look(f"{folder}/{PREDICTIONS}", refuse=refuse)
        name = _known(folder, cell_id)
    return name


def file_with(folder: Path, cell_id: str, *, refuse: bool = False) -> str | None:
    """The name of the files that hold a cell; of several, one in which it is finished."""
    if (name := _finished(folder, cell_id, refuse=refuse)) is not None:
        return name
    # Results that were saved have no records; or the file was altered, which those who read it check.
    names = _index(str(folder)).of_cell.get(cell_id, ())
    return next((name for name in names if (folder / PREDICTIONS / f"{name}.parquet").exists()), None)


def cells_in(folder: Path) -> list[str]:
    """The ids of all cells whose predictions are in a folder; a ResultsError where a file cannot be read."""
    index = _index(str(folder))
    index.look(f"{folder}/{PREDICTIONS}", refuse=True)
    return sorted(cell_id for cell_id in list(index.of_cell) if file_with(folder, cell_id) is not None)


def read_record(run: Path, cell_id: str) -> CellRecord | None:
    """The record of a finished cell in folder ``run``; None where it is missing, or its predictions are others."""
    if (name := _finished(run, cell_id)) is None:
        return None
    path = f"{run}/{RECORDS}/{name}.jsonl"
    return _records(path, _files.signature(path))[cell_id]


def all_finished(run: Path, cells: Iterable[Cell]) -> bool:
    """Whether folder ``run`` has the records of all ``cells``."""
    return all(_finished(run, cell.id) is not None for cell in cells)


def located(folder: Path, cell_id: str) -> tuple[Path, Part]:
    """The file with a cell's predictions, and where they are in it."""
    path = folder / PREDICTIONS / f"{file_with(folder, cell_id, refuse=True)}.parquet"
    part = _parts(str(path), _files.signature(path)).get(cell_id) if path.exists() else None
    if part is None:
        raise ResultsError(f"{path.parent}: no file has the predictions of cell {cell_id}; run it again")
    return path, part


def read_tables(
    folder: Path, cell_ids: Sequence[str], columns: Sequence[str] | None = None
) -> Iterator[tuple[Path, pa.Table]]:
    """The predictions of cells, or some ``columns``, and the file of each; a ResultsError where it is broken."""
    found = [located(folder, cell_id) for cell_id in cell_ids]
    for path, parts in groupby(found, key=lambda one: one[0]):  # cells of one file stand together
        with opened_parquet(path, what=_WHAT) as file:
            for _, part in parts:
                # On this thread: to wake others takes longer than a column of a few thousand words.
                table = file.read_row_groups(part.row_groups, columns=columns, use_threads=columns is None)
                table.validate(full=True)
                yield path, table
