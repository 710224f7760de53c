"""The viewer: one page that shows the attention maps of a sentence, head by head, and needs nothing beside itself.

Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.attention.viewer._heads import parse_heads
from bertology.attention.viewer._kinds import LEVELS, WEIGHTS, Level, Weights

if TYPE_CHECKING:
    from bertology.attention.viewer._read import AttentionReading, read_attention
    from bertology.attention.viewer._view import AttentionView, view

__getattr__, __dir__ = lazy_attributes(__name__)

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
