"""Looking after the store: what is there, what is damaged, what can go.

An entry is known by the name of its folder (two hashes) and by holding nothing but files that extractions write,
whether the extraction ended or not. Whatever else is in the store's folder is named and left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from bertology._files import explained_write_errors
from bertology.activations._store import MANIFEST, Entry, is_entry_name, is_own_file, open_entry, store_folder
from bertology.errors import BertologyError

_SECONDS_A_DAY = 86400
_REMEDY = "name another folder in BERTOLOGY_CACHE"


@dataclass(frozen=True)
class StoreStatus:
    """What is at one place in the store's folder."""

    folder: Path
    entry: Entry | None = None
    """``None`` while its extraction is unfinished, and of what is no entry or has a damaged manifest."""
    n_bytes: int = 0
    """Of an entry's files."""
    last_read: float = 0.0
    """When it was last written or opened, in seconds since the epoch."""
    foreign: str = ""
    """Why it is no entry of the store; empty for one."""
    damage: str = ""
    """What is wrong with the manifest; empty if nothing is."""

    @property
    def name(self) -> str:
        """The folder's name, quoted where a terminal would not show it as it is."""
        name = self.folder.name
        return name if name.isprintable() else repr(name)

    @property
    def is_left_alone(self) -> bool:
        """Whether it is not for the store to delete."""
        return bool(self.foreign or self.damage)

    def describe(self) -> str:
        """What it holds, in one line."""
        if self.is_left_alone:
            return f"left alone: {self.foreign or self.damage}"
        if self.entry is None:
            return "unfinished; the run that needs it goes on with it"
        manifest = self.entry.manifest
        layers = ",".join(map(str, manifest.layers))
        recipe = manifest.recipe
        return f"{manifest.model}: layers {layers}, {manifest.n_words:,} words, {recipe.pooling}, {recipe.stored_dtype}"

    def problems(self) -> list[str]:
        """Files that are missing or altered; nothing for an unfinished entry, whose shards are checked on resuming."""
        if self.damage:
            return [self.damage]
        return [f"{path.name} is missing or damaged" for path in self.entry.damaged_files()] if self.entry else []


def store_status() -> list[StoreStatus]:
    """Everything in the store's folder but locks.

    Raises:
        StoreError: the folder cannot be read.
    """
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
        other = next((file for file in files if not is_own_file(file.name) or not _is_plain_file(file)), None)
        if other is not None:
            return StoreStatus(path, foreign=f"it holds {other.name!r}, which the store does not write")
        stats = {file.name: file.stat() for file in files}
        # Looking at an entry opens its manifest, which is no sign of use.
        used = [max(stat.st_atime, stat.st_mtime) for name, stat in stats.items() if name != MANIFEST]
        entry = open_entry(path)
    except OSError as error:
        return StoreStatus(path, foreign=f"it cannot be read ({error.strerror})")
    except BertologyError as error:
        return StoreStatus(path, damage=str(error))
    n_bytes = sum(stat.st_size for stat in stats.values())
    return StoreStatus(path, entry, n_bytes, max(used, default=path.stat().st_mtime))


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def prune_store(
    *,
    older_than_days: float = 0.0,
    only_unfinished: bool = False,
    dry_run: bool = False,
    confirm: Callable[[Sequence[StoreStatus]], None] = lambda _: None,
) -> list[StoreStatus]:
    """Delete entries; those that another process is writing stay, as does what is no entry or has a damaged manifest.

    Args:
        older_than_days: only entries that were not written or opened for so long.
        only_unfinished: only extractions that did not end.
        dry_run: delete nothing.
        confirm: called with what is to be deleted, if anything is, before it is; raises to keep it.

    Returns:
        What was (or would be) deleted.
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
    """Whether an entry was, or could be, deleted: not while another process writes it, nor after it was changed."""
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
