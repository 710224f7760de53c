"""Layers by heads as pictures, a panel for each thing that is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bertology.attention import plot_heads
from bertology.results._grid import metric_title
from bertology.results._head_tables import HeadTable, head_place

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_PANELS = 12


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
