"""Freed memory goes back to the operating system."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path
from typing import Any

import pytest

from bertology import _memory


def test_holes_are_given_back() -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("the C library is not glibc: there is nothing to call")
    blocks = [bytearray(100_000) for _ in range(2000)]
    keep = blocks[::100]  # so that the end of the heap cannot simply be cut off
    del blocks
    before = _resident()
    _memory.give_back_freed_memory()
    assert _resident() < before - 50_000_000
    assert len(keep) == 20


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(_: Any) -> Any:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    _memory._trim.cache_clear()
    try:
        _memory.give_back_freed_memory()
        assert _memory._trim() is None
    finally:
        _memory._trim.cache_clear()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
