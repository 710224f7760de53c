"""Where the numbers come from: versions, fingerprints, devices, seeds, timings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from bertology.results._rows import ResultRow
from bertology.results.report._runs import Run
from bertology.results.report._summary import counted

_SHARED_TIME = 3
"""The schema since which rows share the time of their fit."""


def provenance(run: Run) -> list[tuple[str, str]]:
    """Heading and value of everything a run says of how it was made."""
    rows = run.results.rows
    found = [
        ("folder", run.name),
        ("experiment", _all(row.experiment for row in rows)),
        ("tables", f"schema {_all(str(row.schema_version) for row in rows)}, {counted(len(rows), 'row')}, "
                   f"{counted(len({row.cell_id for row in rows}), 'cell')}"),
        ("tasks", _all(f"{row.task} {row.task_version}" for row in rows)),
        ("models", _all(f"{run.models[row.model]}, {row.init}: {row.model_fingerprint}" for row in rows if row.model)),
        ("corpora", _all(f"{row.corpus} {row.split}: {row.corpus_fingerprint}" for row in rows)),
        ("readouts", _all(f"{row.readout}.{row.readout_version}" for row in rows if row.readout)),
        ("pooling", _all(row.pooling for row in rows)),
        ("seeds", _all(None if row.seed is None else str(row.seed) for row in rows)),
        ("device", _all(row.device for row in rows)),
        ("dtype", _all(row.dtype for row in rows)),
        ("versions", _versions(rows)),
        ("intervals", _all(method for row in rows for method in (row.ci_method, row.mean_ci_method))),
        ("started", _started(rows)),
        ("fitting took", _took(rows)),
        ("predictions", f"{counted(sum(row.predictions_sha256 is not None for row in _cells(rows)), 'cell')} kept, "
                        "with SHA-256"),
    ]  # fmt: skip
    return [(heading, value) for heading, value in found if value]


def _all(values: Iterable[str | None]) -> str:
    """The values there are, in order of first appearance."""
    return "; ".join(dict.fromkeys(value for value in values if value))


def _cells(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """A row of each cell."""
    return list({row.cell_id: row for row in rows}.values())


def _versions(rows: Sequence[ResultRow]) -> str:
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, version in json.loads(row.versions).items():
            found.setdefault(str(name), set()).add(str(version))
    return "; ".join(f"{name} {' and '.join(sorted(found[name]))}" for name in sorted(found))


def _started(rows: Sequence[ResultRow]) -> str:
    times = sorted({row.started_utc for row in rows if row.started_utc})
    return times[0] if len(times) == 1 else f"{times[0]} to {times[-1]}" if times else ""


def _took(rows: Sequence[ResultRow]) -> str:
    """The time of all fits. Before schema 3 cells that were fitted together have the same one, counted once here."""
    timed = [row for row in rows if row.wall_s is not None and row.started_utc]
    jobs: dict[tuple[Any, ...], float] = {}
    for row in timed:
        shared = row.schema_version >= _SHARED_TIME
        job = (row.task, row.model, row.init, row.started_utc, None if shared else row.wall_s)
        jobs[job] = (row.wall_s or 0.0) + (jobs.get(job, 0.0) if shared else 0.0)
    return f"{sum(jobs.values()):,.1f} s in {counted(len(jobs), 'fit')}" if jobs else ""
