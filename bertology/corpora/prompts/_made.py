"""Items that are read from nowhere: they are made here."""

from __future__ import annotations

from bertology.errors import CorpusError

MADE = "made"
"""The name, in place of a path, of items that are made by rule."""


def check_made(source: str, *, pocket: str) -> None:
    """Raise :class:`CorpusError` unless ``source`` is :data:`MADE`.

    Args:
        source: what was asked for.
        pocket: why the pocket world has no such items.
    """
    if source == MADE:
        return
    why = pocket if source == "pocket" else "items are made by rule and read from no file"
    raise CorpusError(f"{why}; give {MADE} for the corpus")
