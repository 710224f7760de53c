"""Names short enough for a figure: a path there would push aside what the figure shows."""

from __future__ import annotations

from pathlib import PurePath

_MOST_LETTERS = 44
_MOST_PARTS = 2


def brief(name: str | None) -> str:
    """A model's or corpus's name: of a local path its last part, and of a long name beginning and end."""
    parts = [_last_part(part) for part in str(name).split("+")]
    return shortened("+".join(parts), _MOST_LETTERS)


def shortened(text: str, most: int) -> str:
    """A text of at most ``most`` letters, cut in its middle: beginnings and ends tell names apart."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _last_part(name: str) -> str:
    # An organisation and its model, as on a hub, are one name.
    path = PurePath(name)
    return path.name if path.is_absolute() or len(path.parts) > _MOST_PARTS else name
