"""What is computed together: cells, and the family that computes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bertology._files import canonical_json, digest
from bertology.families.cells import Cell
from bertology.families.contract import Family
from bertology.families.registry import family_of
from bertology.families.tasks import BaselineCells, FitCells, FitGroup, Weights
from bertology.probing import Probe
from bertology.runner._plan import Plan


@dataclass(frozen=True, eq=False)
class Unit:
    """Cells that are computed together: the baselines of a task, or its fits on one initialisation of a model.

    Draws of random weights belong together, as their scores are averaged.
    """

    plan: Plan
    part: tuple[FitGroup, ...] | BaselineCells
    """A fit group on each draw of weights; or baselines."""

    @property
    def probe(self) -> Probe:
        """The probe of the task."""
        return self.part.probe if isinstance(self.part, BaselineCells) else self.part[0].probe

    @property
    def family(self) -> Family:
        """The family that answers the probe."""
        return family_of(self.probe)

    @property
    def draws(self) -> tuple[FitGroup, ...]:
        """What is fitted on each draw of weights; nothing for baselines."""
        return () if isinstance(self.part, BaselineCells) else self.part

    @property
    def by_config(self) -> tuple[tuple[FitCells, ...], ...]:
        """By readout configuration, its cells on each draw of weights; nothing for baselines."""
        return tuple(zip(*(group.members for group in self.draws), strict=True))

    @property
    def weights(self) -> tuple[Weights, ...]:
        """The weights that are read."""
        return tuple(group.weights for group in self.draws)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """What is computed."""
        if isinstance(self.part, BaselineCells):
            return tuple(self.part.cells.values())
        return tuple(cell for group in self.part for cell in group.cells)

    @cached_property
    def key(self) -> str:
        """Hash of its cells."""
        return digest([canonical_json(sorted(cell.id for cell in self.cells))])

    @property
    def reads_vectors(self) -> bool:
        """Whether it needs the stored vectors of the corpus."""
        return bool(self.draws) and self.family.reads_vectors

    @property
    def is_random_control(self) -> bool:
        """Whether it is on the random weights that a pretrained model is compared with."""
        return bool(self.draws) and self.draws[0].init == "random" and self.plan.pair.request.init != "random"

    @property
    def title(self) -> str:
        """Its name in messages."""
        where = f"{self.probe.task} on {self.plan.pair.corpus.name}"
        if not self.draws:
            return f"{where}, baselines"
        if len(self.plan.configs_of(self.probe)) > 1:
            where += f" by {self.draws[0].members[0].config.title}"
        model = self.plan.pair.source.title
        return f"{where}, {model}{' with random weights' if self.is_random_control else ''}"
