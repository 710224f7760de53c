"""Memory that is free but not given back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


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
