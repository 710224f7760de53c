"""Cells: one score each of a table to be, named by the hash of all that decides it, one JSON a cell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bertology._files import canonical_json, digest, write_atomically
from bertology.results import Predictions, write_predictions

CELL_FORMAT = 1
_FOLDER = "cells"


@dataclass(frozen=True)
class Cell:
    """One task read from one layer of one model with one readout and seed; or a baseline that reads no layer."""

    identity: Mapping[str, Any]
    """All that decides the numbers: fingerprints, versions, settings. No names, no places, no time."""

    @cached_property
    def id(self) -> str:
        """Hash of the identity, 32 hexadecimal digits."""
        return digest([canonical_json({"cell_format": CELL_FORMAT, **self.identity})])


@dataclass(frozen=True)
class CellRecord:
    """What is kept of a finished cell."""

    cell_id: str
    identity: Mapping[str, Any]
    facts: Mapping[str, Any]
    """Counts of items, skips and labels; the fit's strength and convergence."""
    provenance: Mapping[str, Any]
    predictions_sha256: str
    notes: tuple[str, ...] = field(default=())
    """What a person should know of it."""


def read_cell(run: Path, cell: Cell) -> CellRecord | None:
    """The record of ``cell`` in folder ``run``.

    ``None`` where it is missing or half written, or where its predictions are not those it was written with.
    """
    path = run / _FOLDER / f"{cell.id}.json"
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        record = CellRecord(**{**plain, "notes": tuple(plain["notes"])})
        predictions = (run / "predictions" / f"{cell.id}.parquet").read_bytes()
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    whole = record.cell_id == cell.id and record.predictions_sha256 == hashlib.sha256(predictions).hexdigest()
    return record if whole else None


def all_finished(run: Path, cells: Iterable[Cell]) -> bool:
    """Whether folder ``run`` has the records of all ``cells``."""
    return all(read_cell(run, cell) is not None for cell in cells)


def write_cell(
    run: Path,
    cell: Cell,
    predictions: Predictions,
    *,
    facts: Mapping[str, Any],
    provenance: Mapping[str, Any],
    notes: tuple[str, ...] = (),
) -> None:
    """Write a cell's predictions, then its record, which makes it finished."""
    checksum = write_predictions(run, cell.id, predictions)
    record = {
        "cell_id": cell.id,
        "identity": dict(cell.identity),
        "facts": dict(facts),
        "provenance": dict(provenance),
        "predictions_sha256": checksum,
        "notes": list(notes),
    }
    content = json.dumps(record, indent=1, ensure_ascii=False).encode()
    write_atomically(run / _FOLDER / f"{cell.id}.json", content, remedy="name another folder with --out")
