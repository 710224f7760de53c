"""Edges of trees as arcs over or under the words: which tree has them, how high they rise, where the words stand."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

Kind = Literal["both", "gold", "predicted", "alone"]
"""The trees that have an edge; alone where there is no gold tree to compare with."""

# All in points.
_GAP = 9.0  # between two words
_PORT = 5.0
"""Between two arcs that end at one word."""
_LABEL_ROOM = 13.0
_LEAST_SPAN = 12.0


@dataclass(frozen=True)
class Words:
    """The words of a sentence as pictures show them, under a title; mirrored where they run from right to left."""

    texts: tuple[str, ...]
    scored: tuple[bool, ...]
    """Whether each counts; the others are pale."""
    title: str
    mirrored: bool


@dataclass(frozen=True)
class Arc:
    """An edge between two words, or the line from above to the root."""

    left: int
    right: int
    """Places of its words in the sentence, the smaller first; both the same for the line to the root."""
    kind: Kind
    dependent: int | None = None
    """The word that its arrow points at; None without direction."""
    label: str = ""

    @property
    def length(self) -> int:
        """Words from one end to the other; 0 for the line to the root."""
        return self.right - self.left

    @property
    def reach(self) -> float:
        """Its length, by which the line to the root rises above all others."""
        return self.length or math.inf


def levels(arcs: Sequence[Arc]) -> dict[Arc, int]:
    """The height of each arc, 1 for those nearest to the words: above shorter ones that it shares a gap with."""
    highest: dict[int, int] = defaultdict(int)
    level_of = {}
    # The line to the root comes last, to rise above all beside it.
    for arc in sorted(arcs, key=lambda arc: (arc.reach, arc.left)):
        gaps = range(arc.left, arc.right) if arc.length else range(arc.left - 1, arc.right + 1)
        level_of[arc] = max(highest[gap] for gap in gaps) + 1
        highest.update(dict.fromkeys(gaps, level_of[arc]))
    return level_of


def _port_order(place: int, arc: Arc) -> tuple[int, float]:
    return (1, -arc.length) if arc.left == place != arc.right else (0, arc.reach)


@dataclass(frozen=True)
class Line:
    """A sentence in one line, as it is before it is broken into rows."""

    centres: tuple[float, ...]
    """``[word]`` points from the beginning of the line."""
    widths: tuple[float, ...]
    """``[word]`` of its letters, or of the arcs that end at it."""
    ports: tuple[dict[tuple[int, Arc], float], ...]
    """Points from the middle of a word to where an arc touches it, by the word's place and the arc: of the arcs over
    the words, and of those under them."""

    @classmethod
    def of(cls, widths: Sequence[float], sides: Sequence[Sequence[Arc]], label_width: Callable[[str], float]) -> Line:
        """Words of some widths side by side, moved apart where the arcs over and under them need room for labels."""
        ports: list[dict[tuple[int, Arc], float]] = [{} for _ in sides]
        cells, gaps = list(widths), [_GAP] * len(widths)
        for arcs, of_side in zip(sides, ports, strict=True):
            for place in range(len(cells)):
                # Those to the left, the shortest first, the line to the root, those to the right, the shortest last, so
                # that arcs from one word do not cross.
                touching = [arc for arc in arcs if place in (arc.left, arc.right)]
                touching.sort(key=partial(_port_order, place))
                for number, arc in enumerate(touching):
                    of_side[place, arc] = _PORT * (number - (len(touching) - 1) / 2)
                    cells[place] = max(cells[place], 2 * abs(of_side[place, arc]))
        for arcs, of_side in zip(sides, ports, strict=True):
            for arc in sorted((arc for arc in arcs if arc.length), key=lambda arc: (arc.length, arc.left)):
                span = (cells[arc.left] + cells[arc.right]) / 2 + of_side[arc.right, arc] - of_side[arc.left, arc]
                span += sum(cells[arc.left + 1 : arc.right]) + sum(gaps[arc.left : arc.right])
                lacking = max(label_width(arc.label) + _LABEL_ROOM, _LEAST_SPAN) - span
                for place in range(arc.left, arc.right):
                    gaps[place] += max(0.0, lacking) / arc.length
        ends = itertools.accumulate(map(sum, zip(cells, gaps, strict=True)))
        centres = tuple(end - gap - cell / 2 for end, gap, cell in zip(ends, gaps, cells, strict=True))
        return cls(centres, tuple(cells), tuple(ports))

    def span(self, row: range) -> tuple[float, float]:
        """Where the words of a row begin and end."""
        first, last = row[0], row[-1]
        return self.centres[first] - self.widths[first] / 2, self.centres[last] + self.widths[last] / 2

    def length(self, row: range) -> float:
        """The length of a row in points."""
        start, end = self.span(row)
        return end - start

    def rows(self, limit: float) -> list[range]:
        """The words of each row: rows about equally long, and no longer than ``limit`` points."""
        everything = range(len(self.centres))
        for n_rows in itertools.count(1):
            # A word stands in the row in which its middle lies.
            row_of = [int(n_rows * centre / self.span(everything)[1]) for centre in self.centres]
            grouped = (list(places) for _, places in itertools.groupby(everything, row_of.__getitem__))
            rows = [range(places[0], places[-1] + 1) for places in grouped]
            if all(self.length(row) <= limit or len(row) == 1 for row in rows):
                break
        return rows
