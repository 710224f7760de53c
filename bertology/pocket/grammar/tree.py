"""What the grammar builds sentences of: trees of words, and dice that decide between them.

A phrase names, for each of its parts, the Universal Dependencies relation that the part's head word bears to the
phrase's own head word. Constituents are the phrases; dependencies follow from the heads; roles, entities and
reference are marked where the grammar decides them.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Generic, NamedTuple, TypeAlias, TypeVar

HEAD = "head"
"""The relation of the part that a phrase takes its head word from."""


class Word(NamedTuple):
    """A word form with its morphology: the same object wherever the form is used."""

    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str | None = None
    glued: bool = False
    """Written without a space before it: punctuation, *n't*, *'s*."""
    novelty: str | None = None
    """``held`` for words kept out of the probing splits, ``new`` for words kept out of pretraining too."""
    sure: tuple[int, ...] = ()
    """In a translation, the places of the words that this one translates."""
    possible: tuple[int, ...] = ()
    """In a translation, the places of grammatical words that this one has suffixes for."""


class Part(NamedTuple):
    """A part of a phrase, and its relation to the head word of the phrase."""

    relation: str
    tree: Tree
    role: str | None = None
    """The semantic role of this part, when the head word is a predicate: ``A0``, ``A1``, ``AM-LOC`` …"""


class Phrase(NamedTuple):
    """A constituent. With the label ``None`` it only groups its parts and is no constituent."""

    label: str | None
    parts: tuple[Part, ...]
    entity: str | None = None
    """The kind of entity that the whole phrase names: ``PER``, ``LOC``, ``ORG``."""
    referent: int = 0
    """Number of the referent in its sentence; mentions of one number corefer. 0 for none."""
    gap: str | None = None
    """In a relative clause, the role that the modified noun phrase plays in it."""


Tree: TypeAlias = Word | Phrase


def head(tree: Tree) -> Part:
    """The part that gives a phrase its head word."""
    return Part(HEAD, tree)


def phrase(label: str | None, *parts: Part) -> Phrase:
    """A phrase of these parts, exactly one of which is its :func:`head`."""
    return Phrase(label, parts)


def first_word(tree: Tree) -> Word:
    """The leftmost word of a tree."""
    while isinstance(tree, Phrase):
        tree = tree.parts[0].tree
    return tree


T = TypeVar("T")


class Menu(Generic[T]):
    """Things to choose from by weight."""

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
    """A stream of random decisions determined by a seed."""

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

    def shuffled(self, things: Iterable[T]) -> list[T]:
        """The things in random order."""
        order = list(things)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order
