"""Closed sets of the viewer."""

from __future__ import annotations

from typing import Literal

Level = Literal["word", "piece"]
Weights = Literal["raw", "norm"]
LEVELS: tuple[Level, ...] = ("word", "piece")
WEIGHTS: tuple[Weights, ...] = ("raw", "norm")
