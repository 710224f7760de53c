"""Layers by heads as pictures, a panel for each thing that is asked; and what becomes of a model without heads."""

from __future__ import annotations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bertology.attention import plot_heads
from bertology.results._grid import is_fraction, metric_title
from bertology.results._head_tables import HeadTable, StepTable, head_place
from bertology.results._plot import LayerFigure

_MOST_PANELS = 12
# Okabe & Ito's colours, told apart by colour-blind readers; markers tell them apart in grey.
_LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))


def plot_head_table(table: HeadTable) -> Figure:
    """Draw the first twelve lines of a table, which are those with most items."""
    panels = []
    layers = sorted({head_place(head)[0] for line in table.lines for head in line.heads})
    n_heads = max(head_place(head)[1] for line in table.lines for head in line.heads)
    for line in table.lines[:_MOST_PANELS]:
        values = np.full((len(layers), n_heads), np.nan)
        for head, score in line.heads.items():
            layer, number = head_place(head)
            values[layers.index(layer), number - 1] = score.value
        panels.append((line.name if table.metric else metric_title(line.metric), values))
    return plot_heads(panels, layers)


def plot_step_table(table: StepTable) -> Figure:
    """Draw what becomes of the model with each step, a line for each order, with 95 % intervals."""
    figure = LayerFigure(figsize=(6.4, 4.2), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    scale = 100 if is_fraction(table.metric) else 1
    steps = list(table.lines)
    for order, (color, marker) in zip(table.orders, _LOOKS, strict=False):
        there = [(place, table.lines[step][order]) for place, step in enumerate(steps) if order in table.lines[step]]
        places = [place for place, _ in there]
        values = np.array([score.value for _, score in there]) * scale
        low, high = (
            np.array([np.nan if bound is None else bound for bound in bounds]) * scale
            for bounds in zip(*((score.low, score.high) for _, score in there), strict=True)
        )
        axes.fill_between(places, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(places, values, color=color, marker=marker, markersize=4, linewidth=1.5, label=order or None)
    axes.set_xticks(range(len(steps)), steps, fontsize=8)
    axes.set_ylabel(metric_title(table.metric) + (", %" if is_fraction(table.metric) else ""), fontsize=9)
    axes.set_title(
        f"{table.task}: {table.about.model} on {table.about.corpus} {table.about.split}", fontsize=10, loc="left"
    )
    axes.spines[["top", "right"]].set_visible(False)
    if any(table.orders):
        axes.legend(frameon=False, fontsize=8)
    return figure
