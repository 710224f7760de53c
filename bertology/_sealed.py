"""Folders of runs whose files have checksums: what is derived from a run later, such as its report, is given one too.

A file written without a checksum cannot be told from one that somebody put there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock

from bertology._files import explained_write_errors, read_json, write_atomically

CHECKSUMS = "checksums.json"
_FORMAT = 2


@dataclass(frozen=True)
class Checksums:
    """SHA-256 of files, by their paths in the folder."""

    format: Literal[1, 2]
    """Since 2 the run's record bears a checksum of its own."""
    sha256: dict[str, str]

    def is_altered(self, folder: Path, name: str) -> bool:
        """Whether a file of ``folder`` is not what its checksum was taken of; False where none was."""
        return name in self.sha256 and self.sha256[name] != file_sha256(folder / name)


def file_sha256(path: Path) -> str:
    """A file's SHA-256, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_checksums(folder: Path) -> Checksums | None:
    """The checksums of a folder; ``None`` where none were taken.

    Raises:
        BertologyError: the file is not as it was written.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return None
    found: Checksums = read_json(
        path, what="the checksums of a run", form=Checksums, remedy="delete it and run the experiment again"
    )
    return found


@contextlib.contextmanager
def changed_checksums(folder: Path, *, remedy: str, anew: bool = False) -> Iterator[dict[str, str]]:
    """The checksums of a folder, to be changed: written when the block ends; other processes wait.

    Args:
        folder: of a run.
        remedy: what to do where it cannot be written.
        anew: whether the run's tables, and so its record, are written again; otherwise the format stays.
    """
    locks = folder / "locks"
    with explained_write_errors(locks, remedy=remedy):
        locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / "checksums.lock"):
        before = read_checksums(folder)
        found = dict(before.sha256) if before is not None else {}
        yield found
        number = _FORMAT if anew or before is None else before.format
        plain = {"format": number, "sha256": dict(sorted(found.items()))}
        write_atomically(folder / CHECKSUMS, json.dumps(plain, indent=1).encode(), remedy=remedy)


def write_derived(folder: Path, files: Mapping[str, bytes], *, remedy: str = "choose another folder") -> None:
    """Write files, by name, that were made of a run's results; where the folder has checksums, theirs are added.

    Raises:
        StoreError: the folder cannot be written.
    """
    for name, content in files.items():
        write_atomically(folder / name, content, remedy=remedy)
    if (folder / CHECKSUMS).exists():
        with changed_checksums(folder, remedy=remedy) as checksums:
            checksums.update({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
