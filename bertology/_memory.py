"""Memory: freed memory returned to the system, out-of-memory errors in one line, and sizes in readable units."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from bertology.errors import BertologyError, ShortMemoryError, quoted

_SIGNS = re.compile(
    r"can(?:'t|not) allocate memory|out of memory|bad_alloc|unable to allocate|could not create a primitive", re.I
)
_AMOUNTS = re.compile(r"allocate (\d+) bytes|mmap (\d+) bytes|malloc of size (\d+)|allocate ([\d.]+ [KMGT]iB)")
_UNKNOWN = 4e9
"""Free memory in bytes where the system does not tell."""
REMEDY = "give fewer sentences or layers, compute in bfloat16 (--dtype), or run fewer processes (--jobs)"


MEMORY_VARIABLE = "BERTOLOGY_MEMORY"
"""Environment variable with the memory that a run may use, for all its processes."""
_VECTORS = 4
"""One part of so many of that memory, or of the free memory, holds vectors."""
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)i?B?\s*", re.I)


def memory_for_vectors() -> int:
    """Bytes of vectors that the fits of a run may keep between passes: a quarter of the memory.

    The memory is what the environment variable ``BERTOLOGY_MEMORY`` names (``4GB``), else what is free.
    """
    given = os.environ.get(MEMORY_VARIABLE)
    return int((_size(given) if given else _free_memory() or _UNKNOWN) // _VECTORS)


def _size(text: str) -> float:
    if (match := _SIZE.fullmatch(text)) is None:
        raise BertologyError(f"memory {quoted(text)} is no size: give one such as 4GB or 500MB")
    return float(match[1]) * 1000.0 ** " kmgt".index(match[2].lower() or " ")


def give_back_freed_memory() -> None:
    """Return freed memory to the operating system, where the C library has a call for it (glibc); else do nothing.

    Tensors of ever new shapes leave holes behind, and what a process holds would slowly grow with the corpus.
    """
    with contextlib.suppress(
        OSError, TypeError, AttributeError
    ):  # no C library of that name, or another one than glibc
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def explained_shortage(doing: str, *, needed: int | None = None, remedy: str = REMEDY) -> Iterator[None]:
    """Turn an out-of-memory error of any library into a :class:`ShortMemoryError` on ``doing`` something.

    The message compares the bytes ``needed``, where they are known, with what was free before; otherwise it has how
    much was requested last, where the error has it, and what is left.
    """
    before = None if needed is None else _free_memory()
    try:
        yield
    except BertologyError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        known = None if needed is None else (f"about {size_in_words(needed)} needed", before)
        raise ShortMemoryError(shortage(doing, error, remedy=remedy, known=known)) from error


def shortage(
    doing: str, error: BaseException, *, remedy: str = REMEDY, known: tuple[str, int | None] | None = None
) -> str:
    """The message for an out-of-memory error; ``known`` is what was needed, and how many bytes were free before."""
    needed, free = known or (_asked_for(error), _free_memory())
    amounts = filter(None, [needed, "" if free is None else f"{size_in_words(free)} free"])
    return f"{doing}: not enough memory ({', '.join(amounts) or 'none left'}); {remedy}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out. Several libraries raise theirs as errors that have only a message.

    The error of oneDNN, which multiplies matrices for torch, states no reason; memory is the usual one.
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    is_torch_error = type(error).__name__ == "OutOfMemoryError"  # torch is not imported for it
    return is_torch_error or (isinstance(error, Exception) and _SIGNS.search(str(error)) is not None)


def size_in_words(n_bytes: float) -> str:
    """Bytes in the largest decimal unit of which there is at least one, to three digits: ``1.06 GB``, ``340 kB``."""
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
    unit, name = next((unit, name) for unit, name in units if n_bytes >= unit or unit == 1)
    amount = n_bytes / unit
    return f"{amount:.0f} {name}" if amount >= 99.5 else f"{amount:.3g} {name}"


def _asked_for(error: BaseException) -> str:
    match = _AMOUNTS.search(str(error))
    if match is None:
        return ""
    amount = next(filter(None, match.groups()))
    return f"{size_in_words(int(amount)) if amount.isdigit() else amount} asked for at once"


def _free_memory() -> int | None:
    """Bytes that this process may still have: of the machine's, and under its own limit; None where not known."""
    try:
        _, _, line = Path("/proc/meminfo").read_text(encoding="ascii").partition("MemAvailable:")
        free = int(line.split()[0]) * 1024
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            free = min(free, max(0, limit - pages * resource.getpagesize()))
    except (OSError, ImportError, IndexError, ValueError, MemoryError):  # another system than Linux, or nothing left
        return None
    return free
