"""Files that are either whole or absent, hashes of what is in them, and the folder of everything cached."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertology._temporary import temporary_affixes
from bertology.errors import BertologyError, StoreError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_DIGEST_BYTES = 16
_READ_BYTES = 1 << 22


@contextlib.contextmanager
def explained_write_errors(path: Path, *, remedy: str = "choose another folder", verb: str = "write") -> Iterator[None]:
    """Turn an OSError while writing ``path``, or another ``verb``, into a :class:`StoreError` with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StoreError(f"no space left to {verb} {shortened(path)}: free some, or {remedy}") from error
        raise StoreError(f"cannot {verb} {shortened(path)} ({_reason(error)}): {remedy}") from error


@contextlib.contextmanager
def explained_system_errors() -> Iterator[None]:
    """Turn any OSError into a :class:`StoreError` of one line; the outermost handler, where no path is known."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EBADF or isinstance(error, BrokenPipeError):
            raise  # a file that is closed already is a fault of the program, a closed pipe none at all
        where = "" if error.filename is None else f"{shortened(error.filename)}: "
        remedy = _REMEDIES.get(error.errno, "check the path" if where else "try again")
        raise StoreError(f"{where}{_reason(error)}; {remedy}") from error


_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_REMEDIES: dict[int | None, str] = {
    **dict.fromkeys(_NO_SPACE, "free some space or choose another folder"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "choose another folder, or ask for its permissions"),
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "mend the link, or name what it should lead to",
}
_MOST_SHOWN = 300
"""Characters of a path in a message."""


def _reason(error: OSError) -> str:
    return error.strerror or next(iter(str(error).splitlines()), type(error).__name__)


def shortened(path: object) -> str:
    """A path or another text for a message; the middle of a long one is replaced by an ellipsis."""
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN // 2]}…{text[-_MOST_SHOWN // 2 :]}"


def real_path(path: str | Path) -> Path:
    """A path with links and dots resolved; links in a loop are resolved as far as possible."""
    return Path(os.path.realpath(path))


def cache_folder() -> Path:
    """The folder of everything cached: ``BERTOLOGY_CACHE``, else the user's cache folder of this system.

    The folder may not exist yet; the first write into it makes it.
    """
    chosen = os.environ.get("BERTOLOGY_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("bertology", appauthor=False))


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
    prefix, suffix = temporary_affixes(path.name)
    return tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=suffix)


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
    """Inode, size and modification time: a signature of a file that is quick to read.

    Raises:
        FileNotFoundError: there is no such file.
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


def read_json(path: Path, *, what: str, form: Any = Any, remedy: str = "delete it and run again") -> Any:
    """The JSON in ``path`` as a value of type ``form``, of which dataclasses are made as well.

    Raises:
        BertologyError: the file is missing, broken or of another form; names it as ``what``, and the place in it.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise BertologyError(f"{path}: no such file; it should be {what}") from None
    return parse_json(content, where=str(path), what=what, form=form, remedy=remedy)


def parse_json(
    content: str | bytes, *, where: str, what: str, form: Any = Any, remedy: str = "delete it and run again"
) -> Any:
    """JSON from ``where``; otherwise as :func:`read_json`."""
    from pydantic import ValidationError

    try:
        return _adapter(form).validate_json(content, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = shortened(".".join(map(str, first["loc"])))
        reason = f"{place}: {first['msg']}" if place else first["msg"]
        raise BertologyError(f"{where}: not readable as {what} ({reason}); {remedy}") from None


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    """A validator of JSON, kept because it takes longer to make than to use."""
    from pydantic import TypeAdapter

    return TypeAdapter(form)
