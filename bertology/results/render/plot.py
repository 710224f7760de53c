"""Score by layer as a figure: for print, for colour-blind readers, without touching pyplot's state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FixedLocator, MaxNLocator
from numpy.typing import NDArray

from bertology._figures import BLUE, GREEN, GREY, PURPLE, TEXT, VERMILION, new_figure, write_caption
from bertology.errors import ResultsError
from bertology.results.tables.rows import answers_itself, clusters_of
from bertology.results.views.grid import axis_ends, brief, is_fraction, metric_title, number, unit
from bertology.results.views.layers import COLUMNS, LayerTable, Score

_PANEL = (6.4, 4.2)
_SMALL_PANEL = (4.6, 3.5)
_LABEL_GAP = 0.062
_MOST_TICKS = 13


def style_axes(ax: Axes) -> None:
    """Leave only the left and bottom axis, in grey."""
    ax.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)


def draw_grid(ax: Axes) -> None:
    """Draw pale lines across, behind all else."""
    ax.grid(axis="y", color="#E3E3E3", linewidth=0.7)
    ax.set_axisbelow(True)


@dataclass(frozen=True)
class _Label:
    """A name at the right end of a line."""

    y: float
    text: str
    color: str
    bold: bool = False


def plot_tables(tables: Sequence[LayerTable], *, ax: Axes | None = None) -> Figure:
    """Draw each table in a panel of its own; among several, those without scores are left out."""
    # What failed is told in its table; there is nothing of it to draw.
    tables = [table for table in tables if any(line.main for line in table.lines)] or tables
    if not tables:
        raise ResultsError("there are no scores to draw")
    if ax is not None:
        if len(tables) > 1:
            raise ResultsError(f"{len(tables)} tables do not fit one plot: choose one by only(task=…), or leave ax out")
        _draw(ax, tables[0])
        figure = ax.figure
        while isinstance(figure, SubFigure):
            figure = figure.figure
        return figure
    columns = min(3, len(tables)) if len(tables) != 4 else 2
    rows = math.ceil(len(tables) / columns)
    width, height = _PANEL if len(tables) == 1 else _SMALL_PANEL
    figure = new_figure(width * columns, height * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, table in zip(panels, tables, strict=False):
        _draw(panel, table)
    for panel in panels[len(tables) :]:
        panel.remove()
    over = dict.fromkeys(clusters_of(table.about) for table in tables)
    caption = f"Bands: 95 % intervals over {' or '.join(over)}."
    if any(table.compared for table in tables):
        best = "Filled: layers not separable from the best (paired bootstrap, Benjamini–Hochberg q < .05)."
        caption = f"{best}\n{caption}"
    write_caption(figure, caption)
    return figure


def _draw(ax: Axes, table: LayerTable) -> None:
    scale = 100.0 if is_fraction(table.metric) else 1.0
    main = {line.layer: line.main for line in table.lines if line.main is not None}
    if not main:
        raise ResultsError(f"task {table.task}: there are no scores to draw")
    labels = []
    for field, color, marker in (
        ("control_task", GREEN, "^"),
        ("blind", GREEN, "v"),
        ("random_init", VERMILION, "s"),
        ("rescaled", VERMILION, "v"),
        ("refit", GREEN, "D"),
        ("reference", PURPLE, "s"),
    ):
        name = COLUMNS[field]
        scores = {line.layer: score for line in table.lines if (score := getattr(line, field)) is not None}
        if scores:
            _, y = _draw_line(ax, scores, scale, color=color, marker=marker, markersize=4, linewidth=1.2, zorder=3)
            of_another = field == "control_task" and table.metric != table.control_metric
            labels.append(_Label(y[-1], f"{name} ({table.control_metric})" if of_another else name, color))
    x, y = _draw_line(ax, main, scale, color=BLUE, linewidth=1.8, zorder=4)
    filled = [BLUE if line.in_best_set else "white" for line in table.lines if line.main is not None]
    ax.scatter(x, y, s=34, c=filled, edgecolors=BLUE, linewidths=1.4, zorder=5)
    is_frozen = any(line.refit for line in table.lines)
    own = "own head" if answers_itself(table.about) else "frozen" if is_frozen else "probe"
    labels.append(_Label(y[-1], own, BLUE, bold=True))
    _style(ax, table, list(main))
    labels += _draw_baselines(ax, table, scale)
    _place_labels(ax, labels)


def _draw_line(
    ax: Axes, scores: Mapping[int, Score], scale: float, *, color: str, **style: Any
) -> tuple[list[int], list[float]]:
    """Draw scores by layer with a band of their intervals; returns where the line runs."""
    x, y = list(scores), [score.value * scale for score in scores.values()]
    low, high = bounds_of(list(scores.values()), scale)
    if len(x) > 1:
        ax.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0, zorder=2)
    else:
        ax.vlines(x, low, high, color=color, linewidth=1.2, zorder=2)
    ax.plot(x, y, color=color, **style)
    return x, y


def bounds_of(scores: Sequence[Score], scale: float) -> NDArray[np.float64]:
    """``[2, score]`` lower and upper bounds, NaN where there are none."""
    bounds = [(score.low, score.high) for score in scores]
    return scale * np.array(bounds, dtype=np.float64).reshape(-1, 2).T


def _style(ax: Axes, table: LayerTable, layers: Sequence[int]) -> None:
    silver = ", silver labels" if table.about.annotation == "silver" else ""
    title = f"{table.task} · {metric_title(table.metric)}{unit(table.metric)}"
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold", color=TEXT, pad=18)
    source = f"{brief(table.about.model)} · {brief(table.about.corpus)} {table.about.split}{silver}"
    above: dict[str, Any] = {"xytext": (0, 6), "xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(source, (0, 1), **above, fontsize=8.5, color=GREY)
    ax.set_xlabel("layer (0: embeddings)", fontsize=9, color=TEXT)
    ax.xaxis.set_major_locator(FixedLocator(layers) if len(layers) <= _MOST_TICKS else MaxNLocator(integer=True))
    ax.set_xlim(min(layers) - 0.3, max(layers) + 0.3)
    ax.tick_params(labelsize=8.5, color=GREY, labelcolor=TEXT)
    draw_grid(ax)
    style_axes(ax)


def _draw_baselines(ax: Axes, table: LayerTable, scale: float) -> list[_Label]:
    """Dashed lines; a baseline far below all else is named at the lower edge, not drawn to scale."""
    end_axis(ax, table.metric)
    labels, (low, high) = [], ax.get_ylim()
    for baseline in sorted(table.baselines, key=lambda line: -line.main.value):
        y = baseline.main.value * scale
        text = f"{baseline.label} {number(baseline.main.value, metric=table.metric)}"
        if y < low - 0.35 * (high - low):
            labels.append(_Label(low, f"↓ {text}", GREY))
            continue
        dashes = (0, (1, 2)) if baseline.control == "majority" else (0, (5, 3))
        ax.axhline(y, color=GREY, linewidth=1.0, linestyle=dashes, zorder=1)
        labels.append(_Label(y, text, GREY))
        end_axis(ax, table.metric)
        low = ax.get_ylim()[0]
    return labels


def end_axis(ax: Axes, metric: str, *, margin: float = 0.08) -> None:
    """End the vertical axis around all that is drawn on it, in all panels that share it, never past a bound."""
    scale = 100.0 if is_fraction(metric) else 1.0
    drawn = np.concatenate([one.dataLim.intervaly for one in ax.get_shared_y_axes().get_siblings(ax)]) / scale
    if np.isfinite(drawn).any():
        drawn = drawn[np.isfinite(drawn)]
        low, high = axis_ends(drawn.min(), drawn.max(), metric=metric, margin=margin)
        ax.set_ylim(scale * low, scale * high)


def _place_labels(ax: Axes, labels: Sequence[_Label]) -> None:
    """Names to the right of the lines' ends, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    gap = _LABEL_GAP * (high - low)
    ordered = sorted(labels, key=lambda label: label.y)
    places = [label.y for label in ordered]
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + gap)
    places[-1] -= max(0.0, places[-1] - high)
    for index in range(len(places) - 2, -1, -1):
        places[index] = min(places[index], places[index + 1] - gap)
    for label, place in zip(ordered, places, strict=True):
        at: dict[str, Any] = {"xytext": (6, 0), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        weight = "bold" if label.bold else "normal"
        ax.annotate(label.text, (1, place), **at, va="center", fontsize=8.5, color=label.color, fontweight=weight)
