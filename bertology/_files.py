"""Files that are either whole or absent, hashes and checksums of what is in them, and the folder of what is cached."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock

from bertology._inputs import opened
from bertology._temporary import temporary_affixes
from bertology.errors import BertologyError, StoreError, quoted

if TYPE_CHECKING:
    from pydantic import TypeAdapter

CHECKSUMS = "checksums.json"
FORMAT = 2
"""Format of all that is kept: runs, cells, fits, and vectors in the cache. Cells and vectors are found by it among
others, so that nothing of another format is ever taken for what this version writes."""
_DIGEST_BYTES = 16
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_REMEDIES: dict[int | None, str] = {
    **dict.fromkeys(_NO_SPACE, "free some space or choose another folder"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "choose another folder, or ask for its permissions"),
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "mend the link, or name what it should lead to",
}
_OS_ERROR = re.compile(r"\(os error (\d{1,3})\)")
_WRITER_OF_TORCH = "inline_container.cc"
_MOST_SHOWN = 300
"""Characters of a path in a message."""


@contextlib.contextmanager
def explained_write_errors(path: Path, *, remedy: str = "choose another folder", verb: str = "write") -> Iterator[None]:
    """Turn an OSError while writing ``path``, or another ``verb``, into a :class:`StoreError` with a remedy.

    Errors by which libraries of other languages report one of the system (:func:`system_error`) likewise.
    """
    try:
        yield
    except Exception as error:
        if (cause := system_error(error)) is None:
            raise
        if cause.errno in _NO_SPACE:
            raise StoreError(f"no space left to {verb} {shortened(path)}: free some, or {remedy}") from error
        raise StoreError(f"cannot {verb} {shortened(path)} ({_reason(cause)}): {remedy}") from error


@contextlib.contextmanager
def explained_system_errors() -> Iterator[None]:
    """Turn any OSError into a :class:`StoreError` of one line; the outermost handler, where no path is known.

    A text that no file or library takes, as it holds half of a surrogate pair, is named as well.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":
            raise
        problem = "half of a surrogate pair in it, which is no character"
        raise BertologyError(f"{quoted(error.object)}: {problem}: read the source as UTF-8") from None
    except Exception as error:
        cause = system_error(error)
        if cause is None or cause.errno == errno.EBADF or isinstance(cause, BrokenPipeError):
            raise  # a file that is closed already is a fault of the program, a closed pipe none at all
        where = "" if cause.filename is None else f"{shortened(cause.filename)}: "
        remedy = _REMEDIES.get(cause.errno, "check the path" if where else "try again")
        raise StoreError(f"{where}{_reason(cause)}; {remedy}") from error


def system_error(error: Exception) -> OSError | None:
    """The error of the system that another one reports: safetensors, tokenizers and torch have no OSError of it."""
    if isinstance(error, OSError):
        return error
    if isinstance(error, BertologyError):
        return None
    if found := _OS_ERROR.search(str(error)):
        return OSError(int(found[1]), os.strerror(int(found[1])))
    if isinstance(error, RuntimeError) and _WRITER_OF_TORCH in str(error):
        return OSError(errno.EIO, "torch could not write all of a file; the disk may be full")
    return None


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
    """The folder of everything cached, which need not exist: ``BERTOLOGY_CACHE``, or the user's of this system."""
    chosen = os.environ.get("BERTOLOGY_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("bertology", appauthor=False))


def write_atomically(
    path: Path, content: bytes | Sequence[bytes | memoryview], *, remedy: str = "choose another folder"
) -> None:
    """Write ``content``, or its parts, next to ``path``, then rename the file: readers see all of it or nothing."""
    with explained_write_errors(path, remedy=remedy):
        prefix, suffix = temporary_affixes(path.name)
        for tries_left in (2, 1, 0):
            try:
                handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=suffix)
                break
            except FileNotFoundError:
                if not tries_left:
                    raise
                # A folder that is empty may be deleted by another thread before there is a file in it.
                path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
            os.chmod(temporary, 0o644)  # noqa: PTH101 (a Path of every file costs more than the call)
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


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
    """Inode, size and modification time: a signature of a file that is quick to read; the file has to exist."""
    status = os.stat(path)  # noqa: PTH116  # a path is not made into an object for every one of many cells
    return status.st_ino, status.st_size, status.st_mtime_ns


def digest_file(path: Path) -> str:
    """BLAKE2b of a file's bytes, as 32 hexadecimal digits, in bounded memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=_DIGEST_BYTES)).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits, in bounded memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path, *, what: str, form: Any = Any, remedy: str = "delete it and run again") -> Any:
    """The JSON in ``path`` as a value of type ``form``, such as a dataclass; errors name it as ``what``."""
    with opened(path, missing=f"it should be {what}") as file:
        content = file.read()
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


@dataclass(frozen=True)
class Checksums:
    """SHA-256 of the files of a run, by their paths in its folder; also of those derived later, such as a report.

    A file without a checksum cannot be distinguished from one that was added by hand.
    """

    format: Literal[2]
    """:data:`FORMAT`."""
    sha256: dict[str, str]

    def is_altered(self, folder: Path, name: str) -> bool:
        """Whether a file of ``folder`` differs from its checksum; False where it has none."""
        return name in self.sha256 and self.sha256[name] != file_sha256(folder / name)


def read_checksums(folder: Path) -> Checksums | None:
    """The checksums of a folder; ``None`` where it has none, an error where they are not as they were written."""
    path, remedy = folder / CHECKSUMS, "run it again into another folder"
    if not path.exists():
        return None
    checksums: Checksums = read_json(path, what="the checksums of a run", form=Checksums, remedy=remedy)
    return checksums


@contextlib.contextmanager
def changed_checksums(folder: Path, *, remedy: str) -> Iterator[dict[str, str]]:
    """The checksums of a folder for changes, written at the end of the block under a lock."""
    locks = folder / "locks"
    with explained_write_errors(locks, remedy=remedy):
        locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / "checksums.lock"):
        before = read_checksums(folder)
        checksums = dict(before.sha256) if before is not None else {}
        yield checksums
        plain = {"format": FORMAT, "sha256": dict(sorted(checksums.items()))}
        write_atomically(folder / CHECKSUMS, json.dumps(plain, indent=1).encode(), remedy=remedy)


def write_derived(folder: Path, files: Mapping[str, bytes], *, remedy: str = "choose another folder") -> None:
    """Write files derived from a run, by name; where the folder has checksums, theirs are added."""
    for name, content in files.items():
        write_atomically(folder / name, content, remedy=remedy)
    if (folder / CHECKSUMS).exists():
        with changed_checksums(folder, remedy=remedy) as checksums:
            checksums.update({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
