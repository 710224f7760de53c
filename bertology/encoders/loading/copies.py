"""Copies of models that were in memory, or had adapters: listed, and deleted when a person says so. Needs no torch."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from bertology._files import cache_folder, explained_write_errors

MODELS = "models"
"""Folder of the copies in the cache folder: ``<fingerprint>/<title>``."""
_SECONDS_A_DAY = 86400
_FINGERPRINT = frozenset("0123456789abcdef")
_REMEDY = "name another folder in BERTOLOGY_CACHE"


@dataclass(frozen=True)
class ModelCopy:
    """The files of a model that a person had in memory, or of one with its adapters merged into it."""

    folder: Path
    """The name by which runs find the model."""
    n_bytes: int
    last_read: float
    """Time when it was last written or read, in seconds since the epoch."""

    @property
    def name(self) -> str:
        """The folder under the cache folder."""
        return f"{MODELS}/{self.folder.parent.name}"

    def describe(self) -> str:
        """Its content in one line."""
        return f"{self.folder.name}: a copy of a model in memory, or of one with adapters, by which runs find it"


def model_copies() -> list[ModelCopy]:
    """The copies there are, in the order of their names; what else lies there is left out."""
    parent, found = cache_folder() / MODELS, []
    with explained_write_errors(parent, verb="read", remedy=_REMEDY):
        for folder in sorted(parent.glob("*/*")) if parent.is_dir() else ():
            is_own = set(folder.parent.name) <= _FINGERPRINT and (folder / "config.json").is_file()
            if is_own and not folder.is_symlink() and not folder.parent.is_symlink():
                stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
                read = max(max(stat.st_atime, stat.st_mtime) for stat in stats)
                found.append(ModelCopy(folder, sum(stat.st_size for stat in stats), read))
    return found


def prune_copies(*, older_than_days: float = 0.0, dry_run: bool = False) -> list[ModelCopy]:
    """Delete copies that were not read for so many days; return those that were deleted, or would be."""
    latest = time.time() - older_than_days * _SECONDS_A_DAY
    gone = [copy for copy in model_copies() if copy.last_read <= latest]
    for copy in gone if not dry_run else ():
        with explained_write_errors(copy.folder, verb="delete", remedy=_REMEDY):
            shutil.rmtree(copy.folder.parent)
    return gone
