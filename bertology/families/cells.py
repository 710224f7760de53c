"""Cells: one score each of a table to be, named by the hash of all that decides it, one JSON a cell with provenance."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bertology._files import FORMAT, canonical_json, digest, signature, write_atomically
from bertology.results import Predictions
from bertology.results.predictions import HeadSums, write_head_sums, write_predictions

_FOLDER = "cells"
KEPT = "probes"
"""The folder of a run in which families keep what is fitted, under the name of its cell."""
_Signature = tuple[int, int, int]
# Predictions whose checksum this process has seen to be right, by their path: what they were and what it is.
_CHECKED: dict[str, tuple[_Signature, str]] = {}
# Records that this process has believed, by their path, with their predictions.
_BELIEVED: dict[str, tuple[_Signature, _Signature]] = {}


@dataclass(frozen=True)
class Cell:
    """One task read from one layer of one model with one readout and seed; or a baseline that reads no layer."""

    identity: Mapping[str, Any]
    """All that decides the numbers: fingerprints, versions, settings. No names, no places, no time."""

    @cached_property
    def id(self) -> str:
        """Hash of the identity, 32 hexadecimal digits."""
        return digest([canonical_json({"format": FORMAT, **self.identity})])


@dataclass(frozen=True)
class CellRecord:
    """The record of a finished cell."""

    cell_id: str
    identity: Mapping[str, Any]
    facts: Mapping[str, Any]
    """Counts of items, skips and labels; the fit's strength and convergence."""
    provenance: Mapping[str, Any]
    predictions_sha256: str
    notes: tuple[str, ...] = field(default=())
    """Notes for the reader of the results."""


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


def read_cell(run: Path, cell: Cell) -> CellRecord | None:
    """The record of ``cell`` in folder ``run``.

    ``None`` where it is missing or half written, or where its predictions are not those it was written with: their
    checksum is taken once by each process, and again when the file has changed.
    """
    record_path, path = _record_path(run, cell.id), _predictions_path(run, cell.id)
    try:
        # Before they are read: what changes while it is being read is read once more.
        signatures = signature(record_path), signature(path)
        with open(record_path, "rb") as file:  # noqa: PTH123
            plain = json.loads(file.read())
        record = CellRecord(**{**plain, "notes": tuple(plain["notes"])})
        if (record.cell_id, record.predictions_sha256) != (cell.id, predictions_checksum(run, cell.id)):
            return None
    except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):  # the last: of ten thousand brackets
        return None
    _BELIEVED[record_path] = signatures
    return record


def is_finished(run: Path, cell: Cell) -> bool:
    """Whether :func:`read_cell` has a record; asked again, it looks only whether the files are still the same."""
    record_path = _record_path(run, cell.id)
    try:
        signatures = signature(record_path), signature(_predictions_path(run, cell.id))
    except FileNotFoundError:
        return False
    return _BELIEVED.get(record_path) == signatures or read_cell(run, cell) is not None


def predictions_checksum(run: Path, cell_id: str) -> str:
    """SHA-256 of a cell's predictions, which have to be there."""
    path = _predictions_path(run, cell_id)
    now = signature(path)
    known = _CHECKED.get(path)
    if known is not None and known[0] == now:
        return known[1]
    with open(path, "rb") as file:  # noqa: PTH123
        checksum = hashlib.sha256(file.read()).hexdigest()
    _CHECKED[path] = (now, checksum)
    return checksum


def all_finished(run: Path, cells: Iterable[Cell]) -> bool:
    """Whether folder ``run`` has the records of all ``cells``."""
    return all(map(partial(is_finished, run), cells))


def write_cell(
    run: Path,
    cell: Cell,
    predictions: Predictions | Sequence[HeadSums],
    *,
    facts: Mapping[str, Any],
    provenance: Mapping[str, Any],
    notes: tuple[str, ...] = (),
) -> None:
    """Write a cell's predictions, or sums, then its record, which makes it finished."""
    if isinstance(predictions, Predictions):
        checksum = write_predictions(run, cell.id, predictions)
    else:
        checksum = write_head_sums(run, cell.id, predictions)
    record = CellRecord(cell.id, dict(cell.identity), dict(facts), dict(provenance), checksum, notes)
    content = json.dumps(vars(record), indent=1, ensure_ascii=False).encode()
    write_atomically(run / _FOLDER / f"{cell.id}.json", content, remedy="name another folder with --out")


def item_facts(
    n_items: int,
    n_clusters: int,
    *,
    n_train: int = 0,
    n_classes: int = 0,
    skipped: Mapping[str, int] = MappingProxyType({}),
    n_unseen_label: int = 0,
    params: Mapping[str, Any] = MappingProxyType({}),
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Facts of a cell: counts of its items and, among its parameters, the ``changes`` of its readout's settings."""
    return {
        "n_train": n_train,
        "n_items": n_items,
        "n_clusters": n_clusters,
        "n_classes": n_classes,
        "n_skipped": sum(skipped.values()),
        "skip_reasons": dict(skipped),
        "n_unseen_label": n_unseen_label,
        "params": {**({"settings": changes} if changes else {}), **params},
    }


# As text: of a thousand cells, each asked about several times, the making of paths is most of the time.
def _record_path(run: Path, cell_id: str) -> str:
    return f"{run}/{_FOLDER}/{cell_id}.json"


def _predictions_path(run: Path, cell_id: str) -> str:
    return f"{run}/predictions/{cell_id}.parquet"


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, bertology and ``packages``; nothing is imported."""
    names = ("bertology", *packages)
    return {"python": platform.python_version(), **dict(zip(names, map(_version, names), strict=True))}


@dataclass(frozen=True)
class Stopwatch:
    """The time at which a fit began."""

    started: datetime = field(default_factory=partial(datetime.now, UTC))
    clock: float = field(default_factory=time.perf_counter)

    def provenance(self, *packages: str, device: str, n_cells: int = 1) -> dict[str, Any]:
        """The provenance of each of ``n_cells`` that are finished now: versions, device, when they were begun, and an
        equal share of the time that they took together."""
        return {
            "versions": versions(*packages),
            "device": device,
            "fit_started_utc": self.started.isoformat(timespec="seconds"),
            "wall_s": round((time.perf_counter() - self.clock) / n_cells, 6),
        }


@cache
def _version(package: str) -> str:
    # What is installed does not change under a process that has imported it.
    return metadata.version(package)
