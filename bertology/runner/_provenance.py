"""What a result was made with."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, bertology and ``packages``; nothing is imported."""
    return {"python": platform.python_version(), **{name: _version(name) for name in ("bertology", *packages)}}


@cache
def _version(package: str) -> str:
    # What is installed does not change under a process that has imported it.
    return metadata.version(package)
