"""What of an experiment is computed together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bertology._files import canonical_json, digest
from bertology.probing import RepresentationProbe
from bertology.runner._cells import Cell
from bertology.runner._draws import Weights
from bertology.runner._plan import BaselineCells, Group, Plan


@dataclass(frozen=True, eq=False)
class Unit:
    """Cells that are computed together: the baselines of a task, or its fits on one initialisation of a model.

    Draws of random weights belong together, as their scores are averaged.
    """

    plan: Plan
    part: Group | BaselineCells

    @property
    def cells(self) -> tuple[Cell, ...]:
        """What is computed."""
        parts = self.groups or (self.part,)
        return tuple(cell for part in parts for cell in part.cells.values())

    @property
    def groups(self) -> tuple[Group, ...]:
        """What is fitted: each reading of the task that is fitted together, on each draw; none for baselines."""
        return tuple(group for draws in self.by_draw for group in draws)

    @property
    def by_draw(self) -> tuple[tuple[Group, ...], ...]:
        """By reading of the task, its group on each draw of weights; none for baselines."""
        return () if isinstance(self.part, BaselineCells) else self.part.by_draw

    @property
    def weights(self) -> tuple[Weights, ...]:
        """The weights that are read."""
        return tuple(dict.fromkeys(group.weights for group in self.groups))

    @cached_property
    def key(self) -> str:
        """Hash of its cells."""
        return digest([canonical_json(sorted(cell.id for cell in self.cells))])

    @property
    def reads_vectors(self) -> bool:
        """Whether it needs the model's vectors of the corpus."""
        return isinstance(self.part, Group) and isinstance(self.part.probe, RepresentationProbe)

    @property
    def title(self) -> str:
        """What a person calls it."""
        where = f"{self.part.probe.task} on {self.plan.corpus.name}"
        if isinstance(self.part, BaselineCells):
            return f"{where}, baselines"
        if len(self.plan.readings_of(self.part.probe)) > 1:
            where += f" by {self.part.reading.title}"
        fresh = self.part.init == "random" and self.plan.request.init != "random"
        return f"{where}, {self.plan.source.title}{' with random weights' if fresh else ''}"
