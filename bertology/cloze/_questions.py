"""What is asked of a model: inputs with masks, places in them, vocabulary entries at those places; nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# So many inputs are sorted by length and read together; memory does not grow beyond them.
_INPUTS_AT_ONCE = 8192


@dataclass
class Questions:
    """Collects inputs until there are enough to be read together."""

    inputs: list[Integers] = field(default_factory=list)
    """Distinct ones, special tokens included."""
    _known: dict[bytes, int] = field(default_factory=dict)
    _places: dict[tuple[int, int], int] = field(default_factory=dict)
    _terms: list[tuple[int, int]] = field(default_factory=list)

    def place(self, ids: Sequence[int], piece: int) -> int:
        """The number of a place: one piece of an input."""
        array = np.asarray(ids, dtype=np.int64)
        number = self._known.setdefault(array.tobytes(), len(self.inputs))
        if number == len(self.inputs):
            self.inputs.append(array)
        return self._places.setdefault((number, piece), len(self._places))

    def term(self, place: int, entry: int) -> int:
        """The number of a term: a vocabulary entry at a place."""
        self._terms.append((place, entry))
        return len(self._terms) - 1

    @property
    def is_full(self) -> bool:
        """Whether there are enough inputs to be read together."""
        return len(self.inputs) >= _INPUTS_AT_ONCE

    @property
    def places(self) -> Integers:
        """``[place, 2]`` input and piece."""
        return np.array(list(self._places), dtype=np.int64).reshape(-1, 2)

    @property
    def terms(self) -> Integers:
        """``[term, 2]`` place and vocabulary entry."""
        return np.array(self._terms, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class Groups:
    """Members by the group that they are in."""

    order: Integers
    starts: Integers

    @classmethod
    def by(cls, group: Integers, n_groups: int) -> Groups:
        """Members ``0…`` whose groups are given, ``[member]``."""
        order = np.argsort(group, kind="stable")
        return cls(order, np.searchsorted(group[order], np.arange(n_groups + 1)))

    def of(self, groups: Integers) -> tuple[Integers, Integers]:
        """The members of some groups, and of each the place of its group among those: ``[member]`` both."""
        counts = self.starts[groups + 1] - self.starts[groups]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.order[np.repeat(self.starts[groups], counts) + within], np.repeat(np.arange(len(groups)), counts)
