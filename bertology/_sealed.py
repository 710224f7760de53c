"""Checksums of the files of a run, also of those derived from it later, such as its report.

A file without a checksum cannot be distinguished from one that was added by hand.
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
        """Whether a file of ``folder`` differs from its checksum; False where it has none."""
        return name in self.sha256 and self.sha256[name] != file_sha256(folder / name)


def file_sha256(path: Path) -> str:
    """A file's SHA-256, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_checksums(folder: Path) -> Checksums | None:
    """The checksums of a folder; ``None`` where it has none.

    Raises:
        BertologyError: the file is not as it was written.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return None
    checksums: Checksums = read_json(
        path, what="the checksums of a run", form=Checksums, remedy="delete it and run the experiment again"
    )
    return checksums


@contextlib.contextmanager
def changed_checksums(folder: Path, *, remedy: str, anew: bool = False) -> Iterator[dict[str, str]]:
    """The checksums of a folder for changes, written at the end of the block under a lock.

    Args:
        folder: of a run.
        remedy: the remedy in the error where the folder cannot be written.
        anew: whether the tables of the run, and so its record, are rewritten; otherwise the format is kept.
    """
    locks = folder / "locks"
    with explained_write_errors(locks, remedy=remedy):
        locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / "checksums.lock"):
        before = read_checksums(folder)
        checksums = dict(before.sha256) if before is not None else {}
        yield checksums
        number = _FORMAT if anew or before is None else before.format
        plain = {"format": number, "sha256": dict(sorted(checksums.items()))}
        write_atomically(folder / CHECKSUMS, json.dumps(plain, indent=1).encode(), remedy=remedy)


def write_derived(folder: Path, files: Mapping[str, bytes], *, remedy: str = "choose another folder") -> None:
    """Write files derived from a run, by name; where the folder has checksums, theirs are added.

    Raises:
        StoreError: the folder cannot be written.
    """
    for name, content in files.items():
        write_atomically(folder / name, content, remedy=remedy)
    if (folder / CHECKSUMS).exists():
        with changed_checksums(folder, remedy=remedy) as checksums:
            checksums.update({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
