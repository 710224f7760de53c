"""Looking after the store: what is there, what is damaged, what can go."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from bertology.activations._entry import MANIFEST, Entry, all_entries

_SECONDS_A_DAY = 86400


@dataclass(frozen=True)
class StoreStatus:
    """One folder of the store."""

    folder: Path
    entry: Entry | None
    """``None`` while its extraction is unfinished."""
    n_bytes: int
    last_read: float
    """When it was last written or opened, in seconds since the epoch."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    def describe(self) -> str:
        """What it holds, in one line."""
        if self.entry is None:
            return "unfinished; the run that needs it goes on with it"
        manifest = self.entry.manifest
        layers = ",".join(map(str, manifest.layers))
        recipe = manifest.recipe
        return f"{manifest.model}: layers {layers}, {manifest.n_words:,} words, {recipe.pooling}, {recipe.stored_dtype}"

    def problems(self) -> list[str]:
        """Files that are missing or altered; nothing for an unfinished entry, whose shards are checked on resuming."""
        return [f"{path.name} is missing or damaged" for path in self.entry.damaged_files()] if self.entry else []


def store_status() -> list[StoreStatus]:
    """Every folder of the store."""
    found = []
    for folder, entry in all_entries():
        stats = {path.name: path.stat() for path in folder.iterdir()}
        # Looking at an entry opens its manifest, which is no sign of use.
        used = [max(stat.st_atime, stat.st_mtime) for name, stat in stats.items() if name != MANIFEST]
        n_bytes = sum(stat.st_size for stat in stats.values())
        found.append(StoreStatus(folder, entry, n_bytes, max(used, default=folder.stat().st_mtime)))
    return found


def prune_store(
    *, older_than_days: float = 0.0, only_unfinished: bool = False, dry_run: bool = False
) -> list[StoreStatus]:
    """Delete entries; those that another process is writing stay.

    Args:
        older_than_days: only entries that were not written or opened for so long.
        only_unfinished: only extractions that did not end.
        dry_run: delete nothing.

    Returns:
        What was (or would be) deleted.
    """
    latest = time.time() - older_than_days * _SECONDS_A_DAY
    gone = []
    for status in store_status():
        if status.last_read > latest or (only_unfinished and status.entry is not None):
            continue
        lock = status.folder.with_suffix(".lock")
        try:
            with FileLock(lock, timeout=0):
                if not dry_run:
                    shutil.rmtree(status.folder)
        except Timeout:
            continue
        if not dry_run:
            lock.unlink(missing_ok=True)
        gone.append(status)
    return gone
