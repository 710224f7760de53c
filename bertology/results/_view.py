"""Results as people read them: tables in every format, and figures."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertology.results.render.exports import (
    grid_to_html,
    grid_to_markdown,
    grids_to_csv,
    grids_to_latex,
    tables_to_csv,
    tables_to_json,
)
from bertology.results.views.across import GroupTable, group_grid, group_table_of, model_grid, seed_grid, summary_grid
from bertology.results.views.grid import Grid
from bertology.results.views.heads import (
    HeadTable,
    StepTable,
    best_head_grid,
    every_head_grid,
    head_table_of,
    step_grid,
    step_table_of,
)
from bertology.results.views.layer_grid import layer_grid
from bertology.results.views.layers import LayerTable
from bertology.results.views.pipeline import CUMULATIVE, PipelineLine, pipeline_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult


class _Exports(ABC):
    """What all tables of text can be written as."""

    @abstractmethod
    def _written(self) -> tuple[Grid, ...]: ...

    def to_markdown(self) -> str:
        """Pipe tables."""
        return "\n".join(map(grid_to_markdown, self._written()))

    def to_latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        """Booktabs tables, numbers aligned by siunitx, the best set in bold, the protocol in small letters below.

        Args:
            caption: of the first table, as LaTeX; one sentence on what is shown when left out.
            label: of the first table, such as ``tab:probing``.
        """
        return grids_to_latex(self._written(), caption=caption, label=label)

    def to_html(self) -> str:
        """Tables for a page or notebook, with all of their style inline."""
        return "\n".join(map(grid_to_html, self._written()))

    def _repr_html_(self) -> str:
        return self.to_html()


@dataclass(frozen=True, repr=False)
class GridView(_Exports):
    """Tables that look across models or seeds, or at heads or groups."""

    grids: tuple[Grid, ...]

    def _written(self) -> tuple[Grid, ...]:
        return self.grids

    def to_csv(self) -> str:
        """One line a number; fractions, not percentages."""
        return grids_to_csv(self.grids)

    def __repr__(self) -> str:
        return self.to_markdown()


@dataclass(frozen=True)
class View(_Exports):
    """Results as people read them: a table of layers for each task, and one of layers by tasks.

    What shows or draws tables of one kind raises a :class:`ResultsError` where there are none.
    """

    tables: tuple[LayerTable, ...]
    pipelines: tuple[PipelineLine, ...] = ()
    """Of tasks that were read by mixtures of layers."""
    groups: tuple[GroupTable, ...] = ()
    """Of tasks whose items are in groups, and of those that have further statistics of each layer."""
    head_tables: tuple[HeadTable, ...] = ()
    """Of tasks about attention heads."""
    step_tables: tuple[StepTable, ...] = ()
    """Of tasks about the whole model with more and more heads off."""
    wholes: tuple[Grid, ...] = ()
    """Of tasks about whole models and their references."""

    @property
    def overview(self) -> tuple[LayerTable, ...]:
        """The tables that are laid side by side: of tasks read from single layers, those alone."""

        def question(table: LayerTable) -> tuple[str | None, ...]:
            about = table.about
            return (about.task, about.corpus, about.split, about.model, about.pooling)

        single = {question(table) for table in self.tables if table.about.readout != CUMULATIVE}
        cumulative = [table for table in self.tables if table.about.readout == CUMULATIVE]
        left_out = {id(table) for table in cumulative if question(table) in single}
        return tuple(table for table in self.tables if id(table) not in left_out)

    def _with_sources(self) -> Iterator[tuple[Grid, LayerTable | GroupTable | HeadTable | None]]:
        """All grids, those of layers, groups and heads with what they were made of."""
        groups_of: dict[int, list[GroupTable]] = {}
        for groups in self.groups:
            groups_of.setdefault(id(groups.table), []).append(groups)
        for table in self.tables:
            yield layer_grid(table), table
            yield from ((group_grid(groups), groups) for groups in groups_of.get(id(table), ()))
        if len(self.overview) > 1:
            yield summary_grid(self.overview), None
        if self.pipelines:
            yield pipeline_grid(self.pipelines), None
        yield from ((best_head_grid(heads), heads) for heads in self.head_tables)
        yield from ((step_grid(steps), None) for steps in self.step_tables)
        yield from ((grid, None) for grid in self.wholes)

    def grids(self) -> tuple[Grid, ...]:
        """The tables as text in cells, each with its groups; the summary last, where there are several tasks."""
        return tuple(grid for grid, _ in self._with_sources())

    def _written(self) -> tuple[Grid, ...]:
        return self.grids()

    def to_csv(self) -> str:
        """One line a layer and baseline, or where there are only heads one a number; fractions, not percentages."""
        if not self.tables and self.head_tables:
            return grids_to_csv([*map(every_head_grid, self.head_tables), *map(step_grid, self.step_tables)])
        return tables_to_csv(self.tables) if self.tables or not self.wholes else grids_to_csv(self.wholes)

    def to_json(self) -> str:
        """The tables with all their fields; fractions, not percentages."""
        return tables_to_json(self.tables, self.head_tables, self.step_tables)

    def to_text(self, *, width: int = 100) -> str:
        """As in a terminal of ``width`` columns, without colour."""
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=width, no_color=True, highlight=False).print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"

    def plot(self, ax: Axes | None = None) -> Figure:
        """Score by layer, with intervals and baselines; several tasks side by side, or one where ``ax`` is given."""
        from bertology.results.render.plot import plot_tables

        if ax is None and not self.tables and self.head_tables:
            return self.plot_heads()
        return plot_tables(self.tables, ax=ax)

    def heatmap(self) -> Figure:
        """Layers by tasks: shades within a task, values written, the best set framed."""
        from bertology.results.render.figures import plot_heatmap

        return plot_heatmap(self.overview)

    def models(self) -> GridView:
        """Models by tasks: the best layer of each, its score and number."""
        return GridView((model_grid(self.tables),))

    def seeds(self) -> GridView:
        """Layers by seeds, a table for each task."""
        return GridView(tuple(map(seed_grid, self.tables)))

    def heads(self) -> GridView:
        """Attention heads by all that is measured of them, such as relations, the best head of each marked."""
        head_table_of(self.head_tables)
        return GridView(tuple(map(every_head_grid, self.head_tables)))

    def plot_heads(self, task: str | None = None) -> Figure:
        """The same of one task as a picture, layers by heads, a panel for each thing measured."""
        from bertology.results.render.figures import plot_head_table

        return plot_head_table(head_table_of(self.head_tables, task))

    def plot_steps(self, metric: str | None = None) -> Figure:
        """What becomes of the whole model as heads go, or without each of its layers: lines with intervals.

        The ``metric`` is the main one when left out.
        """
        from bertology.results.render.figures import plot_step_table

        return plot_step_table(step_table_of(self.step_tables, metric))

    def by_group(self) -> GridView:
        """Groups of items, such as relations or constructions, by layers, a table for each task that has them."""
        if not self.groups:
            group_table_of(self.groups)
        return GridView(tuple(map(group_grid, self.groups)))

    def plot_groups(self, task: str | None = None) -> Figure:
        """The same of one task as a picture: values written, the intervals of the last layer next to them."""
        from bertology.results.render.figures import plot_groups

        return plot_groups(group_table_of(self.groups, task))

    def pipeline(self) -> GridView:
        """Tasks by where in the model they are solved: centre of gravity, expected layer (Tenney et al. 2019b)."""
        return GridView((pipeline_grid(self.pipelines),))

    def plot_pipeline(self) -> Figure:
        """The same as bars, with the weight and the gain of each layer."""
        from bertology.results.render.figures import plot_pipeline

        return plot_pipeline(self.pipelines)

    def __str__(self) -> str:
        return self.to_text()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from bertology.results.render.terminal import render_grids

        yield render_grids(self._with_sources(), width=options.max_width)
