"""Upkeep of the store: listing, verifying and deleting entries.

An entry is recognised by the name of its folder (two hashes) and by holding only files that extractions write, finished
or not. Anything else in the folder of the store is listed and left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from bertology._files import explained_write_errors
from bertology.activations._store import CLS, MANIFEST, Entry, is_entry_name, is_own_file, open_entry, store_folder
from bertology.errors import BertologyError

_SECONDS_A_DAY = 86400
_REMEDY = "name another folder in BERTOLOGY_CACHE"


@dataclass(frozen=True)
class StoreStatus:
    """One file or folder in the folder of the store."""

    folder: Path
    entry: Entry | None = None
    """``None`` for an unfinished extraction, for what is no entry, and for one with a damaged manifest."""
    n_bytes: int = 0
    """Of the files of an entry."""
    last_read: float = 0.0
    """Time when it was last written or opened, in seconds since the epoch."""
    foreign: str = ""
    """Why it is no entry of the store; empty for an entry."""
    damage: str = ""
    """What is wrong with the manifest; empty if nothing is."""

    @property
    def name(self) -> str:
        """Name of the folder, quoted if it has characters that a terminal does not show."""
        name = self.folder.name
        return name if name.isprintable() else repr(name)

    @property
    def is_left_alone(self) -> bool:
        """Whether it is never deleted."""
        return bool(self.foreign or self.damage)

    def describe(self) -> str:
        """Its content in one line."""
        if self.is_left_alone:
            return f"left alone: {self.foreign or self.damage}"
        if self.entry is None:
            return "unfinished; the run that needs it goes on with it"
        manifest, recipe = self.entry.manifest, self.entry.manifest.recipe
        layers = ",".join(map(str, manifest.layers))
        what = "sentences" if recipe.pooling == CLS else "words"
        how = recipe.pooling if recipe.encoding is None else f"{recipe.pooling}, {recipe.encoding}"
        return f"{manifest.model}: layers {layers}, {manifest.n_words:,} {what}, {how}, {recipe.stored_dtype}"

    def problems(self) -> list[str]:
        """Missing or altered files; none for an unfinished entry, whose shards are checked on resuming."""
        if self.damage:
            return [self.damage]
        return [f"{path.name} is missing or damaged" for path in self.entry.damaged_files()] if self.entry else []


def store_status() -> list[StoreStatus]:
    """Everything in the folder of the store except locks; a :class:`StoreError` where that cannot be read."""
    store = store_folder()
    with explained_write_errors(store, verb="read", remedy=_REMEDY):
        try:
            paths = sorted(store.iterdir())
        except FileNotFoundError:
            return []
    return [_status(path) for path in paths if path.suffix != ".lock"]


def _status(path: Path) -> StoreStatus:
    if path.is_symlink() or not path.is_dir():
        return StoreStatus(path, foreign="a link" if path.is_symlink() else "a file")
    if not is_entry_name(path.name):
        return StoreStatus(path, foreign="not a folder of the store")
    try:
        files = list(path.iterdir())
        other = next(
            (file for file in files if not is_own_file(file.name) or file.is_symlink() or not file.is_file()), None
        )
        if other is not None:
            return StoreStatus(path, foreign=f"it holds {other.name!r}, which the store does not write")
        stats = {file.name: file.stat() for file in files}
        # The manifest is opened to list an entry, so its time is no sign of use.
        used = [max(stat.st_atime, stat.st_mtime) for name, stat in stats.items() if name != MANIFEST]
        entry = open_entry(path)
    except OSError as error:
        return StoreStatus(path, foreign=f"it cannot be read ({error.strerror})")
    except BertologyError as error:
        return StoreStatus(path, damage=str(error))
    n_bytes = sum(stat.st_size for stat in stats.values())
    return StoreStatus(path, entry, n_bytes, max(used, default=path.stat().st_mtime))


def prune_store(
    *,
    older_than_days: float = 0.0,
    only_unfinished: bool = False,
    dry_run: bool = False,
    confirm: Callable[[Sequence[StoreStatus]], None] = lambda _: None,
) -> list[StoreStatus]:
    """Delete entries, except those that another process is writing and those with a damaged manifest.

    Args:
        older_than_days: only entries that were not written or opened for so many days.
        only_unfinished: only entries whose extraction is unfinished.
        dry_run: delete nothing.
        confirm: called before deletion with what is to be deleted, if anything is; raises to keep it.

    Returns:
        Entries that were deleted, or would be.
    """
    latest = time.time() - older_than_days * _SECONDS_A_DAY
    wanted = [
        status
        for status in store_status()
        if not (status.is_left_alone or status.last_read > latest or (only_unfinished and status.entry is not None))
    ]
    if wanted and not dry_run:
        confirm(wanted)
    return [status for status in wanted if _delete(status, dry_run=dry_run)]


def _delete(status: StoreStatus, *, dry_run: bool) -> bool:
    """Whether an entry was, or could be, deleted: not while another process writes it, nor if it has changed since."""
    lock = status.folder.with_suffix(".lock")
    try:
        with FileLock(lock, timeout=0):
            if dry_run:
                return True
            if _status(status.folder) != status:
                return False
            for path in status.folder.iterdir():
                path.unlink()
            status.folder.rmdir()
    except Timeout:
        return False
    lock.unlink(missing_ok=True)
    return True
