"""What was unusual in a corpus but no error: counted, never silent."""

from __future__ import annotations


class Oddities:
    """Counts of what was unusual, each with the place where it was first seen."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def note(self, kind: str, where: str, *, times: int = 1) -> None:
        """Count something of ``kind`` (a phrase a person understands), seen at ``where`` (``file:line``)."""
        self._counts[kind] = self._counts.get(kind, 0) + times
        self._first.setdefault(kind, where)

    def notes(self) -> dict[str, str]:
        """Kind → how often, and where first; the notes of a corpus."""
        return {kind: f"{count}, first at {self._first[kind]}" for kind, count in self._counts.items()}
