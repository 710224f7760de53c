"""What was unusual in a corpus but no error: counted, never silent."""

from __future__ import annotations

_LISTED = 10


class Oddities:
    """Counts of what was unusual, each with the place where it was first seen; of what was left out, all places."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}
        self._skipped: dict[str, list[str]] = {}

    def note(self, kind: str, where: str, *, times: int = 1) -> None:
        """Count something of ``kind`` (a phrase a person understands), seen at ``where`` (``file:line``)."""
        self._counts[kind] = self._counts.get(kind, 0) + times
        self._first.setdefault(kind, where)

    def skip(self, kind: str, where: str) -> None:
        """Count something of ``kind`` that was left out, and keep ``where`` it stands (``file:line`` or an id)."""
        self._skipped.setdefault(kind, []).append(where)

    def notes(self) -> dict[str, str]:
        """Kind → how often, and where first, or for what was left out the first places; the notes of a corpus."""
        notes = {kind: f"{count}, first at {self._first[kind]}" for kind, count in self._counts.items()}
        for kind, places in self._skipped.items():
            more = f" and {len(places) - _LISTED} more" if len(places) > _LISTED else ""
            notes[kind] = f"{len(places)}: {', '.join(places[:_LISTED])}{more}"
        return notes

    def skipped(self) -> dict[str, tuple[str, ...]]:
        """Kind → every place of what was left out."""
        return {kind: tuple(places) for kind, places in self._skipped.items()}
