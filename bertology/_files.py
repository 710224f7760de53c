"""Files that are either whole or absent, and hashes of what is in them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bertology.errors import BertologyError, StoreError

_DIGEST_BYTES = 16
_READ_BYTES = 1 << 22


@contextlib.contextmanager
def explained_write_errors(path: Path, *, remedy: str = "choose another folder") -> Iterator[None]:
    """Turn the operating system's refusal to write ``path`` into one line with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(f"no space left to write {path}: free some, or {remedy}") from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST):
            raise StoreError(f"cannot write {path} ({os.strerror(error.errno)}): {remedy}") from error
        raise


def write_atomically(path: Path, content: bytes, *, remedy: str = "choose another folder") -> None:
    """Write ``content`` beside ``path`` and rename it into place, so that readers see all of it or nothing."""
    with explained_write_errors(path, remedy=remedy):
        try:
            handle, temporary = _temporary_beside(path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = _temporary_beside(path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)  # noqa: PTH101 (a Path of every file costs more than the call)
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _temporary_beside(path: Path) -> tuple[int, str]:
    return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")


def canonical_json(value: Any) -> bytes:
    """JSON that is the same for the same value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def digest(parts: Iterable[bytes | memoryview]) -> str:
    """BLAKE2b over length-prefixed parts, as 32 hexadecimal digits."""
    state = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        state.update(memoryview(part).nbytes.to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


def signature(path: str | Path) -> tuple[int, int, int]:
    """What changes when a file does, as far as it can be told without reading it.

    Raises:
        FileNotFoundError: there is none.
    """
    status = os.stat(path)  # noqa: PTH116  # a path is not made into an object for every one of many cells
    return status.st_ino, status.st_size, status.st_mtime_ns


def digest_file(path: Path) -> str:
    """BLAKE2b of a file's bytes, as 32 hexadecimal digits, in bounded memory."""
    state = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            state.update(block)
    return state.hexdigest()


def read_json(path: Path, *, what: str) -> Any:
    """The JSON in ``path``; a missing or broken file is an error that names it as ``what``."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BertologyError(f"{path}: no such file; it should be {what}") from None
    except (ValueError, RecursionError) as error:  # no JSON or UTF-8, a number of over 4300 digits, nested too deeply
        raise BertologyError(f"{path}: not readable as {what} ({error}); delete it and run again") from error
