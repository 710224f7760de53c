"""What a result was made with."""

from __future__ import annotations

import platform
from importlib.metadata import version


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, bertology and ``packages``; nothing is imported."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("bertology", *packages)}}
