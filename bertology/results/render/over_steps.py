"""Figures of scores over the checkpoints of a training: lines by task, a panel a layer; layers by steps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from bertology._figures import BLUE, GREEN, GREY, PURPLE, TEXT, VERMILION, new_figure, write_caption
from bertology.errors import ResultsError
from bertology.results.render.figures import _draw_cells, _label, _scaled, _write
from bertology.results.render.plot import bounds_of, draw_grid, end_axis, style_axes
from bertology.results.views.grid import brief, data_of, is_fraction, metric_title, number, unit
from bertology.results.views.over_steps import TrainingTable, steps_shown

_COLORS = (BLUE, VERMILION, GREEN, PURPLE, "#56B4E9", "#E69F00", "#000000")
_MARKERS = "os^Dvxp"
_STYLES = ("-", "--", ":", "-.")
_PANEL = (3.4, 2.9)
_MOST_PANELS, _MOST_COLUMNS, _MOST_TICKS = 12, 4, 6


def plot_over_steps(tables: Sequence[TrainingTable]) -> Figure:
    """Draw score by step with intervals: a line for each task and training, a panel for each layer.

    All tables should be in one unit, such as fractions.

    Steps stand on a logarithmic scale, 0 before its beginning. Of more than twelve layers some are left out, never the
    first or the last.
    """
    if not tables:
        raise ResultsError("there are no scores over steps to draw")
    layers = sorted({line.layer for table in tables for line in table.lines})
    layers = [layers[place] for place in steps_shown(layers, _MOST_PANELS)]
    n_columns = min(_MOST_COLUMNS, len(layers), max(3, math.ceil(len(layers) / 3)))
    n_rows = math.ceil(len(layers) / n_columns)
    figure = new_figure(_PANEL[0] * n_columns, _PANEL[1] * n_rows + 0.5)
    panels = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True).ravel()
    names = _names(tables)
    for layer, ax in zip(layers, panels, strict=False):
        for place, table in enumerate(tables):
            _draw(ax, table, layer, names[place], place)
        ax.set_title("embeddings" if layer == 0 else f"layer {layer}", loc="left", fontsize=9.5, color=TEXT)
        draw_grid(ax)
        style_axes(ax)
    for place, ax in enumerate(panels):
        if place >= len(layers):
            ax.remove()
        elif place + n_columns >= len(layers):
            ax.tick_params(labelbottom=True)  # below it is no panel that would have them
    end_axis(panels[0], tables[0].metric)
    _scale_steps(panels[0], sorted({step for table in tables for step in table.steps}))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=min(4, len(labels)), frameon=False, fontsize=8.5)
    over = "pretraining seeds × test sentences" if any(table.n_seeds > 1 for table in tables) else "test sentences"
    data = "; ".join(dict.fromkeys(data_of(table.about) for table in tables))
    trainings = ", ".join(dict.fromkeys(brief(table.training) for table in tables))
    write_caption(figure, f"{trainings} on {data}. Updates of training from left to right. Bands: 95 % over {over}.")
    return figure


def _names(tables: Sequence[TrainingTable]) -> list[str]:
    several = len({table.training for table in tables}) > 1
    titles = (f"{table.task}, {metric_title(table.metric)}{unit(table.metric)}" for table in tables)
    trainings = (f" · {brief(table.training)}" if several else "" for table in tables)
    return [title + training for title, training in zip(titles, trainings, strict=True)]


def _draw(ax: Axes, table: TrainingTable, layer: int, name: str, place: int) -> None:
    scale = 100.0 if is_fraction(table.metric) else 1.0
    line = next((line for line in table.lines if line.layer == layer), None)
    color, marker = _COLORS[place % len(_COLORS)], _MARKERS[place % len(_MARKERS)]
    style = _STYLES[place // len(_COLORS) % len(_STYLES)]
    scores = line.scores if line else ()
    steps = table.steps if line else ()
    values = [scale * score.value for score in scores]
    ax.plot(steps, values, style, color=color, marker=marker, markersize=3.5, linewidth=1.4, label=name)
    if line:
        ax.fill_between(steps, *bounds_of(scores, scale), color=color, alpha=0.16, linewidth=0)


def _scale_steps(ax: Axes, steps: Sequence[int]) -> None:
    positive = [step for step in steps if step > 0]
    if positive and max(positive) >= 10 * min(positive):
        ax.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
    ticks = [steps[place] for place in steps_shown(steps, _MOST_TICKS)]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xticks(ticks, [_brief_number(step) for step in ticks])
    for one in ax.figure.axes:
        one.tick_params(labelsize=8, color=GREY, labelcolor=TEXT)


def _brief_number(step: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if step >= size:
            return f"{step / size:g}{letter}"
    return str(step)


def plot_layers_by_steps(table: TrainingTable) -> Figure:
    """Draw layers (rows, the embeddings at the bottom) by steps (columns); shades run over the whole picture."""
    shown = steps_shown(table.steps, 2 * _MOST_PANELS)
    values = np.array([[line.scores[place].value for place in shown] for line in table.lines])
    shades = _scaled(values if table.about.higher_is_better else -values)
    figure = new_figure(1.4 + 0.62 * len(shown), 1.5 + 0.36 * len(table.lines))
    ax = figure.subplots()
    _draw_cells(ax, shades, linewidth=1.0)
    for (row, column), value in np.ndenumerate(values):
        text = number(float(value), metric=table.metric)
        _write(ax, (row, column), text, float(shades[row, column]), fontsize=7.5, fontweight="normal")
    _label(ax, [_brief_number(table.steps[place]) for place in shown], [str(line.layer) for line in table.lines])
    ax.set_ylabel("layer (0: embeddings)", fontsize=9, color=TEXT)
    title = f"{table.task} · {metric_title(table.metric)}{unit(table.metric)}"
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold", color=TEXT, pad=22)
    write_caption(figure, f"{brief(table.training)} on {data_of(table.about)}. Columns: updates of training.")
    return figure


def figures_over_steps(tables: Sequence[TrainingTable]) -> Mapping[str, Figure]:
    """The lines of all tables, and a heat map of each, by the names of their files."""
    by_unit: dict[str, list[TrainingTable]] = {}
    for table in tables:
        by_unit.setdefault("" if is_fraction(table.metric) else f"-{table.metric}", []).append(table)
    figures = {f"over-steps{name}": plot_over_steps(of_unit) for name, of_unit in by_unit.items()}
    several = len({table.training for table in tables}) > 1
    for table in tables:
        parts = ["over-steps", table.task, *([brief(table.training)] if several else [])]
        name = re.sub(r"[^\w.-]+", "-", "-".join(parts))
        figures.setdefault(name, plot_layers_by_steps(table))
    return figures
