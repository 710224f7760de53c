"""Files: given ones read and checked, written ones whole or absent, temporary ones, checksums, and the cache folder."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from bertology.errors import BertologyError, StoreError, cut, cut_path, quoted

if TYPE_CHECKING:
    from filelock import FileLock
    from pydantic import TypeAdapter

_SUFFIX = ".tmp"
_MARKED = re.compile(r"\..*\.(?P<host>[0-9a-f]{8})-(?P<pid>\d{1,7})\.[^.]+\.tmp")
_MOST_CHARACTERS = 50
"""Characters of the final name in a temporary one: at most 200 bytes of the 255 that a name may have."""
_FOREIGN_AGE_S = 7 * 24 * 3600.0
_LOOK_S = 0.25


def temporary_affixes(name: str) -> tuple[str, str]:
    """Prefix and suffix of a temporary name for ``name``; a unique part goes between them."""
    return f".{name[:_MOST_CHARACTERS]}.{_host()}-{os.getpid()}.", _SUFFIX


@contextlib.contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """A hidden folder in ``parent`` while in the ``with`` block."""
    prefix, suffix = temporary_affixes(name)
    with tempfile.TemporaryDirectory(dir=parent, prefix=prefix, suffix=suffix) as made:
        yield Path(made)


def sweep(*folders: Path) -> None:
    """Delete the temporary files and folders directly in ``folders`` whose process has ended.

    Whether a process of another host has ended is unknown: its files are deleted when they are a week old. Files that
    cannot be deleted are kept.
    """
    for folder in folders:
        # There may be no such folder, or it is not for this user to read.
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208 (a Path of every file costs more than the name)
                if not name.endswith(_SUFFIX) or (match := _MARKED.fullmatch(name)) is None:
                    continue
                # Others may sweep the same folder at once, and another user's files are that user's.
                path = folder / name
                with contextlib.suppress(OSError):
                    if match["host"] != _host():
                        is_used = time.time() - path.lstat().st_mtime <= _FOREIGN_AGE_S
                    else:
                        is_used = _is_alive(int(match["pid"]))
                    if not is_used:
                        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@functools.cache
def _host() -> str:
    """Eight hexadecimal digits for this host; containers count processes of their own, and are hosts of their own."""
    try:
        processes = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:  # not Linux
        processes = ""
    return hashlib.blake2b(f"{socket.gethostname()} {processes}".encode(), digest_size=4).hexdigest()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # a process of another user
    return True


def end_with_parent(parent: int) -> None:
    """End this process within a second of its parent (a process id), even in the middle of its work.

    Files are written whole or not at all and locks are the system's, so that nothing is left half done.
    """

    def watch() -> None:
        # The system gives a process another parent when its own has ended.
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


Value = TypeVar("Value")
_Kind = type[BertologyError]  # of the error that is raised

_NUMERAL = re.compile(r"[0-9]{1,18}", re.ASCII)


def taken(values: Iterable[Value], what: str, *, most: int = 100_000) -> list[Value]:
    """The values of an iterable, which need not have an end: refused where there are more than ``most``."""
    found = list(itertools.islice(values, most + 1))
    if len(found) > most:
        raise BertologyError(f"{what}: over {most:,} values, or no end of them; give fewer")
    return found


def described(value: Any) -> str:
    """A value of JSON for a message: ``missing``, or as it is written, of a long one the first 80 characters."""
    return "missing" if value is None else cut(json.dumps(value, ensure_ascii=False))


def is_numeral(text: str) -> bool:
    """Whether a text is a whole number in the digits 0 to 9, of at most 18, which any counter can hold."""
    return _NUMERAL.fullmatch(text) is not None


class NotJson(ValueError):  # noqa: N818 - turned into an error with its place by whoever knows file and line
    """The problem of a text that should be JSON, in a few words."""


def parsed_json(text: str) -> Any:
    """The value that a text of JSON holds, or a :class:`NotJson` with what is wrong with it."""
    from pydantic_core import from_json

    try:
        return from_json(text.encode(), allow_inf_nan=False)
    except ValueError as error:  # also of half of a surrogate pair, which no tokenizer or file takes
        raise NotJson(str(error)) from None


def given_path(name: str | Path, *, error: _Kind = BertologyError) -> Path:
    """A path given by the user, with ``~`` expanded; it need not exist, but has to be possible."""
    try:
        path = Path(name).expanduser()
        path.exists()
    except RuntimeError:
        raise error(f"{cut_path(name)}: there is no home of that name; write the whole path") from None
    except OSError as problem:
        raise error(f"{quoted(str(name))} cannot be looked up ({problem.strerror}); check the path") from None
    return path


def exists(name: str | Path) -> bool:
    """Whether a path given by the user exists; False for an impossible path."""
    try:
        return given_path(name).exists()
    except BertologyError:
        return False


@contextlib.contextmanager
def opened(path: Path, *, error: _Kind = BertologyError, missing: str = "check the path") -> Iterator[BinaryIO]:
    """A regular file given by the user, opened for reading bytes.

    Devices, pipes and sockets are refused before they are read: they may never end, or give other content each time.
    Errors are of the kind ``error``; ``missing`` is the remedy where there is no such file.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise error(f"{path}: a folder where a file was due; name a file in it")
        if not stat.S_ISREG(mode):
            raise error(f"{path}: not a regular file but a device, pipe or socket; write what it gives to a file")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise error(f"{path}: no such file; {missing}") from None
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        raise error(f"{cut_path(path)}: cannot be read ({reason}); check its path and permissions") from problem
    except ValueError as problem:
        if "\0" not in str(path) and not isinstance(problem, UnicodeEncodeError):
            raise
        raise error(f"{quoted(str(path))} cannot be the path of a file") from None


def read_text(path: Path, *, error: _Kind = BertologyError, missing: str = "check the path") -> str:
    """The text of a UTF-8 file without its byte order mark; errors as of :func:`opened`, and where it is not UTF-8."""
    with opened(path, error=error, missing=missing) as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(f"{path}:{line}: byte {content[problem.start]:#04x} is not UTF-8; save the file as UTF-8") from None


CHECKSUMS = "checksums.json"
FORMAT = 3
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
_MOST_SHOWN = 300  # characters of a path in a message


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


def shortened(path: object, most: int = _MOST_SHOWN) -> str:
    """A path or another text of at most so many letters, cut in its middle: beginnings and ends tell names apart."""
    text, half = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path), (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


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

    format: Literal[3]  # :data:`FORMAT`
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


def lock_in(run: Path, name: str, *, remedy: str, wait: bool = True) -> FileLock:
    """A lock in a run's folder that a process holds while it computes something, gone when it ends however it ends."""
    from filelock import FileLock as Lock

    with explained_write_errors(run / "locks", remedy=remedy):
        (run / "locks").mkdir(parents=True, exist_ok=True)
    return Lock(run / "locks" / f"{name}.lock", timeout=-1 if wait else 0)


@contextlib.contextmanager
def changed_checksums(folder: Path, *, remedy: str) -> Iterator[dict[str, str]]:
    """The checksums of a folder for changes, written at the end of the block under a lock."""
    with lock_in(folder, "checksums", remedy=remedy):
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
