"""Seeded choice, built on nothing but uniform numbers so that a seed means the same text on every Python."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Iterable, MutableSequence, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Menu(Generic[T]):
    """Things to choose from, each with its weight."""

    __slots__ = ("_bounds", "items", "total")

    def __init__(self, weighted: Iterable[tuple[T, float]]) -> None:
        pairs = list(weighted)
        self.items = [item for item, _ in pairs]
        self._bounds = list(accumulate(weight for _, weight in pairs))
        self.total = self._bounds[-1] if pairs else 0.0

    def __len__(self) -> int:
        return len(self.items)

    def at(self, share: float) -> T:
        """The thing at ``share`` (0 to 1) of the total weight."""
        return self.items[bisect(self._bounds, share * self.total, 0, len(self.items) - 1)]


class Dice:
    """A stream of random decisions that its seed fixes."""

    __slots__ = ("_uniform",)

    def __init__(self, seed: str) -> None:
        self._uniform = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._uniform() < probability

    def below(self, bound: int) -> int:
        """An integer from 0 to ``bound`` − 1."""
        return int(self._uniform() * bound)

    def one_of(self, things: Sequence[T]) -> T:
        """One of them, all equally likely."""
        return things[int(self._uniform() * len(things))]

    def choose(self, menu: Menu[T]) -> T:
        """One thing of a menu, by weight."""
        return menu.at(self._uniform())

    def shuffle(self, things: MutableSequence[Any]) -> None:
        """Bring them into random order, in place."""
        for last in range(len(things) - 1, 0, -1):
            other = self.below(last + 1)
            things[last], things[other] = things[other], things[last]
