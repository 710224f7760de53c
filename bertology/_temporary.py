"""Cleanup after killed processes: stale temporary files and folders are deleted, and orphaned workers end.

The name of a temporary file has a mark of its owner: host, process id and start of the process. Files that the owner
could not delete are recognised by that mark and deleted when the folder is used next.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_SUFFIX = ".tmp"
_MARKED = re.compile(r"\..*\.(?P<host>[0-9a-f]{8})-(?P<pid>\d{1,7})-(?P<start>\d+)\.[^.]+\.tmp")
_MOST_CHARACTERS = 50
"""Characters of the final name in a temporary one: at most 200 bytes of the 255 that a name may have."""
_FOREIGN_AGE_S = 24 * 3600.0
_REFRESH_S = 3600.0
_UNKNOWN = "0"
_LOOK_S = 0.25


def temporary_affixes(name: str) -> tuple[str, str]:
    """Prefix and suffix of a temporary name for ``name``; a unique part goes between them."""
    return f".{name[:_MOST_CHARACTERS]}.{_mark(os.getpid())}.", _SUFFIX


@contextlib.contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """A hidden folder in ``parent`` while in the ``with`` block."""
    prefix, suffix = temporary_affixes(name)
    with tempfile.TemporaryDirectory(dir=parent, prefix=prefix, suffix=suffix) as made:
        ended = threading.Event()

        def refresh() -> None:
            # Processes of other hosts know only by its age that a folder is in use.
            while not ended.wait(_REFRESH_S):
                os.utime(made)

        threading.Thread(target=refresh, daemon=True, name="temporary-folder").start()
        try:
            yield Path(made)
        finally:
            ended.set()


def sweep(*folders: Path) -> None:
    """Delete the temporary files and folders directly in ``folders`` whose owner has ended.

    Whether a process of another host has ended is unknown: its files are deleted when they are a day old. Files that
    cannot be deleted are kept.
    """
    for folder in folders:
        # There may be no such folder, or it is not for this user to read.
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208 (a Path of every file costs more than the name)
                if name.endswith(_SUFFIX) and (match := _MARKED.fullmatch(name)) is not None:
                    _delete_if_left(folder / name, **match.groupdict())


def _delete_if_left(path: Path, *, host: str, pid: str, start: str) -> None:
    # Others may sweep the same folder at once, the disk may be read-only, and another user's files are that user's.
    with contextlib.suppress(OSError):
        if host == _host():
            is_used = _is_alive(int(pid), start)
        else:
            is_used = time.time() - path.lstat().st_mtime <= _FOREIGN_AGE_S
        if is_used:
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@functools.lru_cache(maxsize=1)
def _mark(pid: int) -> str:
    return f"{_host()}-{pid}-{_state_and_start(pid)[1]}"


@functools.cache
def _host() -> str:
    """Eight hexadecimal digits for this host; containers count processes of their own, and are hosts of their own."""
    try:
        processes = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:  # not Linux
        processes = ""
    return hashlib.blake2b(f"{socket.gethostname()} {processes}".encode(), digest_size=4).hexdigest()


def _is_alive(pid: int, start: str) -> bool:
    """Whether the process that had this id when it started at ``start`` runs; its id may be another's by now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # of another user
    state, now = _state_and_start(pid)
    return state not in ("Z", "X") and (_UNKNOWN in (start, now) or start == now)


def _state_and_start(pid: int) -> tuple[str, str]:
    """State of a process and when it started, in ticks since the system did; unknown where the system has no /proc."""
    try:
        # The name of the program, which stands before, may hold blanks and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", _UNKNOWN
    return fields[0], fields[19]


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
