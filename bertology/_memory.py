"""Memory that is free but not given back, and memory that cannot be had."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from bertology.errors import BertologyError, ShortMemoryError

_SIGNS = re.compile(
    r"can(?:'t|not) allocate memory|out of memory|bad_alloc|unable to allocate|could not create a primitive",
    re.I,
)
_AMOUNTS = re.compile(r"allocate (\d+) bytes|mmap (\d+) bytes|malloc of size (\d+)|allocate ([\d.]+ [KMGT]iB)")
REMEDY = "give fewer sentences or layers, compute in bfloat16 (--dtype), or run fewer processes (--jobs)"


def give_back_freed_memory() -> None:
    """Return freed memory to the operating system, where the C library has a call for it (glibc); else do nothing.

    Tensors of ever new shapes leave holes behind, and what a process holds would slowly grow with the corpus.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # no C library of that name, or another one than glibc
        return None
    return trim


@contextlib.contextmanager
def explained_shortage(doing: str, *, needed: int | None = None, remedy: str = REMEDY) -> Iterator[None]:
    """Turn an error for want of memory, whichever library raises it, into one line with a remedy.

    Args:
        doing: what takes the memory, as the message begins.
        needed: bytes, where they are known: the message compares them with what was free before. Otherwise it says how
            much was asked for last, where the error has it, and what is left.
        remedy: what takes less.

    Raises:
        ShortMemoryError: there was not enough memory.
    """
    before = None if needed is None else _free_memory()
    try:
        yield
    except BertologyError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        if needed is None:
            raise ShortMemoryError(shortage(doing, error, remedy=remedy)) from error
        raise ShortMemoryError(_line(doing, f"about {readable(needed)} needed", before, remedy)) from error


def shortage(doing: str, error: BaseException, *, remedy: str = REMEDY) -> str:
    """What to answer to an error for want of memory; arguments as those of :func:`explained_shortage`."""
    return _line(doing, _asked_for(error), _free_memory(), remedy)


def _line(doing: str, needed: str, free: int | None, remedy: str) -> str:
    amounts = filter(None, [needed, "" if free is None else f"{readable(free)} free"])
    return f"{doing}: not enough memory ({', '.join(amounts) or 'none left'}); {remedy}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is for want of memory. Several libraries raise theirs as errors that have only a message.

    That of oneDNN, which multiplies matrices for torch, names no reason, of which memory is the usual one.
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    if type(error).__name__ == "OutOfMemoryError":  # torch's, which is not imported for it
        return True
    return isinstance(error, Exception) and _SIGNS.search(str(error)) is not None


def readable(n_bytes: int) -> str:
    """A number of bytes in the unit that suits it."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:.1f} {name}"
    return f"{n_bytes} bytes"


def _asked_for(error: BaseException) -> str:
    found = _AMOUNTS.search(str(error))
    if found is None:
        return ""
    amount = next(filter(None, found.groups()))
    return f"{readable(int(amount)) if amount.isdigit() else amount} asked for at once"


def _free_memory() -> int | None:
    """Bytes that this process may still have: of the machine's, and under its own limit; None where not known."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            free = min(free, max(0, limit - pages * resource.getpagesize()))
    except (OSError, ImportError, StopIteration, ValueError, MemoryError):  # another system than Linux, or nothing left
        return None
    return free
