"""What a result was made with."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import Any


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, bertology and ``packages``; nothing is imported."""
    return {"python": platform.python_version(), **{name: _version(name) for name in ("bertology", *packages)}}


@dataclass(frozen=True)
class Stopwatch:
    """When a fit began."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.perf_counter)

    def provenance(self, *packages: str, device: str, n_cells: int = 1) -> dict[str, Any]:
        """What is kept of each of ``n_cells`` that are finished now: versions, device, when they were begun, and an
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
