"""Attention heads: what they look at, and a viewer of their maps.

Importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertology.attention.viewer import AttentionReading, AttentionView, read_attention, view

__all__ = ["AttentionReading", "AttentionView", "read_attention", "view"]

# Found when first used.
_HOME = {
    "AttentionReading": "viewer",
    "AttentionView": "viewer",
    "read_attention": "viewer",
    "view": "viewer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
