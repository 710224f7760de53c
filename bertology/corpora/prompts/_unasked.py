"""Items of a source that cannot be asked, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unasked:
    """An item that its source has and that cannot be asked, and why."""

    id: str
    group: str
    reason: str
