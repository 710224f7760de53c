"""Heads and ways to disable them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Head = tuple[int, int]
"""Layer and head, both from 1."""
Way = Literal["off", "uniform"]
"""Gated by 0 (Michel et al. 2019), or made to attend to everything alike (Kovaleva et al. 2019)."""


@dataclass(frozen=True)
class Without:
    """A model with some heads disabled."""

    heads: frozenset[Head] = frozenset()
    """None of them: the model as it is."""
    way: Way = "off"

    @property
    def lowest(self) -> int | None:
        """The first layer in which something is disabled; None where nothing is."""
        return min((layer for layer, _ in self.heads), default=None)
