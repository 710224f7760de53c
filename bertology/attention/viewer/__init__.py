"""The viewer: one page that shows the attention maps of a sentence, head by head, and needs nothing beside itself.

Importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bertology.attention.viewer._heads import parse_heads
from bertology.attention.viewer._kinds import LEVELS, WEIGHTS, Level, Weights

if TYPE_CHECKING:
    from bertology.attention.viewer._read import AttentionReading, read_attention
    from bertology.attention.viewer._view import AttentionView, view

__all__ = [
    "LEVELS",
    "WEIGHTS",
    "AttentionReading",
    "AttentionView",
    "Level",
    "Weights",
    "parse_heads",
    "read_attention",
    "view",
]

_NEED_TORCH = {"AttentionReading": "_read", "AttentionView": "_view", "read_attention": "_read", "view": "_view"}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NEED_TORCH[name]}"), name)
