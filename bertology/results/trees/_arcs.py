"""Edges of a reading as every picture shows them: agreed upon or not, directed or not, named or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bertology.results.trees._reading import TreeReading

Kind = Literal["both", "gold", "predicted", "alone"]
"""In which tree an edge is; alone where there is no gold tree to tell."""


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
    def head(self) -> int | None:
        """The word that its arrow comes from; None without direction, or for the line to the root."""
        if self.dependent is None or not self.length:
            return None
        return self.left if self.dependent == self.right else self.right


def gold_arcs(reading: TreeReading) -> tuple[Arc, ...]:
    """The gold edges between scored words; the root too, where the prediction has one to compare it with."""
    if reading.gold is None or reading.gold_edges is None:
        return ()
    arcs = _arcs(reading, reading.gold_edges, reading.gold, reading.gold_relations, other="gold")
    return (*arcs, *_roots(reading, reading.gold, other="gold")) if reading.heads else arcs


def predicted_arcs(reading: TreeReading) -> tuple[Arc, ...]:
    """The predicted edges, directed where the reading says how, and then the root."""
    other: Kind = "alone" if reading.gold is None else "predicted"
    arcs = _arcs(reading, reading.edges, reading.heads, reading.relations, other=other)
    return (*arcs, *_roots(reading, reading.heads, other=other)) if reading.heads else arcs


def _arcs(
    reading: TreeReading,
    edges: Sequence[tuple[int, int]],
    heads: tuple[int, ...] | None,
    names: tuple[str | None, ...] | None,
    *,
    other: Kind,
) -> tuple[Arc, ...]:
    shared = set(reading.shared_edges)
    found = []
    for left, right in edges:
        dependent = None if heads is None else left if heads[left] == right + 1 else right
        label = "" if names is None or dependent is None else names[dependent] or ""
        found.append(Arc(left, right, "both" if (left, right) in shared else other, dependent, label))
    return tuple(found)


def _roots(reading: TreeReading, heads: tuple[int, ...], *, other: Kind) -> tuple[Arc, ...]:
    """One for a tree, none where the root is not scored."""
    shared = set(_scored_roots(reading, reading.gold)) & set(_scored_roots(reading, reading.heads))
    return tuple(
        Arc(place, place, "both" if place in shared else other, place, "root")
        for place in _scored_roots(reading, heads)
    )


def _scored_roots(reading: TreeReading, heads: tuple[int, ...] | None) -> list[int]:
    return [place for place, head in enumerate(heads or ()) if head == 0 and reading.scored[place]]
