"""Lines of a text file, and one-line errors where it is not one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from bertology._inputs import opened
from bertology.errors import CorpusError


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file with their line feeds, one at a time; a byte order mark is taken off.

    Raises:
        CorpusError: there is no such file, it is no regular one or cannot be read, or a line is not UTF-8.
    """
    with opened(path, error=CorpusError) as file:
        try:
            with io.TextIOWrapper(file, encoding="utf-8-sig") as lines:
                yield from lines
        except UnicodeDecodeError:
            raise _not_utf8(path) from None


def _not_utf8(path: Path) -> CorpusError:
    """The error for the first line that does not decode, found by reading once more by line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte {line[error.start]:#04x} (the line's {error.start + 1}.)"
                return CorpusError(f"{path}:{number}: {byte} is not UTF-8; save the file as UTF-8")
    return CorpusError(f"{path}: changed while it was read; read it again")
