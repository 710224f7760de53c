"""Scores over the checkpoints of a training, as people read them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertology.errors import ResultsError
from bertology.results._view import _Exports
from bertology.results.render.exports import grids_to_csv
from bertology.results.views.grid import Grid
from bertology.results.views.over_steps import OrderTable, TrainingTable, order_grid, reached_grid, training_grid

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, repr=False)
class OverSteps(_Exports):
    """Layers by steps of each task and training, and which task comes first: what :meth:`Results.over_steps` returns.

    It shows as tables in a notebook, in ``print`` and in a rich console.
    """

    tables: tuple[TrainingTable, ...]
    orders: tuple[OrderTable, ...] = ()
    """Of trainings with several tasks."""

    def grids(self) -> tuple[Grid, ...]:
        """The tables as text in cells, at most nine steps of each."""
        of_tables = (grid for table in self.tables for grid in (training_grid(table), reached_grid(table)))
        return (*of_tables, *map(order_grid, self.orders))

    def _written(self) -> tuple[Grid, ...]:
        return self.grids()

    def to_csv(self) -> str:
        """One line a number, of all steps; fractions, not percentages."""
        of_tables = ((training_grid(table, every=True), reached_grid(table)) for table in self.tables)
        every = (grid for grids in of_tables for grid in grids)
        return grids_to_csv([*every, *map(order_grid, self.orders)])

    def to_text(self, *, width: int = 100) -> str:
        """As in a terminal of ``width`` columns, without colour."""
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=width, no_color=True, highlight=False).print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"

    def to_pandas(self) -> pd.DataFrame:
        """A line for each task, training, layer and step.

        Columns are ``task``, ``corpus``, ``training``, ``metric``, ``layer``, ``step``, ``value``, ``ci_low`` and
        ``ci_high`` (fractions).
        """
        import pandas as pd

        lines = [
            {
                **{"task": table.task, "corpus": table.about.corpus, "training": table.training},
                **{"metric": table.metric, "layer": line.layer, "step": step},
                **{"value": score.value, "ci_low": score.low, "ci_high": score.high},
            }
            for table in self.tables
            for line in table.lines
            for step, score in zip(table.steps, line.scores, strict=True)
        ]
        return pd.DataFrame(lines)

    def plot(self) -> Figure:
        """Score by step, a line a task with its interval, a panel a layer; of the tasks in the unit of the first."""
        from bertology.results.render.over_steps import figures_over_steps

        return next(iter(figures_over_steps(self.tables).values()))

    def heatmap(self, task: str | None = None) -> Figure:
        """Layers by steps of one task: shades and values.

        Raises:
            ResultsError: there is no such task.
        """
        from bertology.results.render.over_steps import plot_layers_by_steps

        for table in self.tables:
            if task in (None, table.task):
                return plot_layers_by_steps(table)
        raise ResultsError(f"task {task} has no scores over steps: there is {', '.join(t.task for t in self.tables)}")

    def figures(self) -> Mapping[str, Figure]:
        """All figures, by the names of their files in a run's folder."""
        from bertology.results.render.over_steps import figures_over_steps

        return figures_over_steps(self.tables)

    def __repr__(self) -> str:
        return self.to_text()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from bertology.results.render.terminal import render_grids

        yield render_grids(((grid, None) for grid in self.grids()), width=options.max_width)
