"""The figures that a folder of results holds."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from bertology.results.render.figures import plot_groups, plot_head_table, plot_step_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bertology.results._view import View

_MOST_GROUPS = 40


def figures_of(view: View) -> dict[str, Figure]:
    """The figures there are, by the names of their files."""

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
