"""Chance that a seed fixes, on every machine and every Python."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TypeVar

T = TypeVar("T")


def drawn_order(things: Sequence[T], seed: str) -> list[T]:
    """The things in an order that the seed decides and nothing else.

    Args:
        things: what is brought into another order; no two places are alike, whatever stands there.
        seed: any text.
    """
    places = sorted(range(len(things)), key=lambda place: sha256(f"{seed} {place}".encode()).digest())
    return [things[place] for place in places]


def shuffled_words(words: Sequence[str], seed: str) -> list[str]:
    """The words in an order that is not the one they are in.

    Raises:
        ValueError: they are all the same, or there are fewer than two.
    """
    if len(set(words)) < 2:
        raise ValueError(f"{' '.join(words)!r} has no other order")
    turn = 0
    while (found := drawn_order(words, f"{seed} {turn}")) == list(words):
        turn += 1
    return found
