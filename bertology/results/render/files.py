"""The figures that a folder of results holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bertology.results._view import View
    from bertology.results.over_steps import OverSteps

_MOST_GROUPS = 40


def files_of(
    view: View,
    *,
    tables: Sequence[str],
    plots: Sequence[str],
    over_steps: OverSteps | None = None,
    every_step: Callable[[], View] | None = None,
) -> dict[str, bytes]:
    """Tables and figures as files, by their names.

    Args:
        view: what is shown; of checkpoints of a training the last one.
        tables: ``md``, ``csv`` and ``tex``.
        plots: ``png``, ``svg`` and ``pdf``.
        over_steps: of checkpoints, the tables and figures over them.
        every_step: of checkpoints, gives the view of all of them.
    """
    texts = {"layers.md": view.to_markdown, "layers.csv": view.to_csv, "layers.tex": view.to_latex}
    if view.groups:
        # The lines of layers.csv are layers.
        texts["groups.csv"] = view.by_group().to_csv
    if view.head_tables:
        texts["heads.csv"] = view.heads().to_csv
    if over_steps is not None and every_step is not None:
        texts |= {"over-steps.md": over_steps.to_markdown, "over-steps.csv": over_steps.to_csv}
        texts |= {"over-steps.tex": over_steps.to_latex, "layers.csv": lambda: every_step().to_csv()}
    files = {name: text().encode() for name, text in texts.items() if name.endswith(tuple(tables))}
    if plots:
        from bertology._figures import figure_bytes

        figures = {**figures_of(view), **(over_steps.figures() if over_steps is not None else {})}
        for name, figure in figures.items():
            files |= {f"{name}.{image}": figure_bytes(figure, image) for image in plots}
    return files


def figures_of(view: View) -> dict[str, Figure]:
    """The figures there are, by the names of their files."""
    from bertology.results.render.figures import plot_groups, plot_head_table, plot_step_table

    def named_after(*parts: str) -> str:
        return re.sub(r"[^\w.-]+", "-", "-".join(filter(None, parts)))

    figures = {"layers": view.plot()} if view.tables else {}
    if len(view.overview) > 1:
        figures["heatmap"] = view.heatmap()
    if view.pipelines:
        figures["pipeline"] = view.plot_pipeline()
    for table in view.head_tables:
        figures.setdefault(named_after("heads", table.task, table.metric), plot_head_table(table))
    for steps in view.step_tables:
        name = named_after("layers" if steps.of_layers else "steps", steps.task, steps.metric)
        figures.setdefault(name, plot_step_table(steps))
    shown = [groups for groups in view.groups if 2 <= len(groups.lines) <= _MOST_GROUPS]
    times: Counter[str] = Counter()
    for groups in shown:
        name = named_after("groups", groups.table.task)
        times[name] += 1
        again = f"-{times[name]}" if times[name] > 1 else ""
        figures["groups" if len(shown) == 1 else f"{name}{again}"] = plot_groups(groups)
    return figures
