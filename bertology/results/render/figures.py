"""Figures next to score by layer: shaded cells of layers by tasks and of groups, attention heads, depth of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator
from numpy.typing import NDArray

from bertology._figures import (
    BLUE,
    DARK_SHADE,
    GREEN,
    GREY,
    PURPLE,
    SHADES,
    TEXT,
    VERMILION,
    new_figure,
    write_caption,
)
from bertology.attention import plot_heads
from bertology.errors import ResultsError
from bertology.results.render.plot import bounds_of, end_axis, style_axes
from bertology.results.tables.rows import answers_itself
from bertology.results.views.across import GroupTable, summary_headers
from bertology.results.views.grid import (
    NOTHING,
    brief,
    covered,
    data_of,
    interval_of,
    is_fraction,
    metric_title,
    number,
    shortened,
    unit,
    without_folders,
)
from bertology.results.views.heads import HeadTable, StepTable, head_place, line_label
from bertology.results.views.layers import INITS, LayerTable
from bertology.results.views.pipeline import PipelineLine

_MOST_PANELS = 12
_LOOKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (PURPLE, "D"))
_BAR = 0.36
_MOST_TICKS = 9
_WIDTH, _HEIGHT = 9.2, 0.52
_FRAME = "#111111"
_CELL = (1.0, 0.36)
_FEW = 12
_VALUE_SIZE = (8.5, 7.0)
_LONG_HEADER = 14
_INCHES_A_LETTER = 0.05
"""That a slanted header rises."""
# Of pictures of groups, in inches.
_ROW, _COLUMN, _LEAST_WIDTH = 0.27, 0.46, 6.4
_NAME_INCHES_A_LETTER = 0.062
_BESIDE = 2.0
_SMALL, _LARGE = 7.5, 8.5
_MOST_LETTERS = 60


def plot_heatmap(tables: Sequence[LayerTable]) -> Figure:
    """Draw layers (rows, the embeddings at the bottom) by tasks (columns).

    Shades run from the worst to the best layer of each task, since scores of different tasks are not comparable.
    """
    layers = sorted({line.layer for table in tables for line in table.lines if line.main})
    if not layers:
        raise ResultsError("there are no scores to draw")
    headers = _headers(tables)
    longest = max(len(part) for header in headers for part in header.split("\n"))
    slanted = len(tables) > 1 and longest > _LONG_HEADER
    height = 1.5 + _CELL[1] * len(layers) + (_INCHES_A_LETTER * longest if slanted else 0)
    figure = new_figure(1.1 + max(4.2, _CELL[0] * len(tables)), height)
    ax = figure.subplots()
    values = np.full((len(layers), len(tables)), np.nan)
    scored = [
        ((layers.index(line.layer), column), table, line, line.main.value)
        for column, table in enumerate(tables)
        for line in table.lines
        if line.main
    ]
    for place, table, _, value in scored:
        values[place] = value if table.higher_is_better else -value
    shades = np.stack([_scaled(column) for column in values.T], axis=1)
    _draw_cells(ax, shades, linewidth=1.2)
    size = _VALUE_SIZE[len(tables) > _FEW]
    for place, table, line, value in scored:
        weight = "bold" if line.in_best_set else "normal"
        _write(ax, place, number(value, metric=table.metric), shades[place], fontsize=size, fontweight=weight)
        if line.in_best_set:
            corner = (place[1] + 0.04, place[0] + 0.08)
            ax.add_patch(Rectangle(corner, 0.92, 0.84, fill=False, edgecolor=_FRAME, linewidth=1.6))
    _label(ax, headers, list(map(str, layers)))
    ax.set_ylabel("layer (0: embeddings)", fontsize=9, color=TEXT)
    for label in ax.get_xticklabels() if slanted else ():
        label.set(rotation=40, ha="left", rotation_mode="anchor")
    text = "Shades run from each task's worst to its best layer; numbers are the scores."
    if any(table.compared for table in tables):
        text += "\nFramed: not separable from the best (paired bootstrap, Benjamini–Hochberg q < .05)."
    write_caption(figure, text)
    return figure


def _draw_cells(ax: Axes, shades: NDArray[np.float64], *, linewidth: float) -> None:
    # A mesh stays sharp in vector formats, where an image would be resampled.
    masked = np.ma.masked_invalid(shades)
    ax.pcolormesh(masked, cmap=SHADES, vmin=0, vmax=1, edgecolors="white", linewidth=linewidth)


def _write(ax: Axes, place: tuple[int, int], text: str, shade: float, *, fontsize: float, fontweight: str) -> None:
    row, column = place
    color = "white" if shade > DARK_SHADE else TEXT
    style: dict[str, Any] = {"fontsize": fontsize, "fontweight": fontweight, "color": color}
    ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", **style)


def _label(ax: Axes, columns: Sequence[str], rows: Sequence[str]) -> None:
    """Names above the columns and to the left of the rows; no axes."""
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, fontsize=8.5, color=TEXT)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=8.5, color=TEXT)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _headers(tables: Sequence[LayerTable]) -> list[str]:
    """What sets each column apart, without folders unless these are all that does; the metric goes to the next line."""
    headers = summary_headers(tables)
    shorter = []
    for header, table in zip(headers, tables, strict=True):
        for name in filter(None, (table.about.model, table.about.corpus)):
            header = header.replace(name, brief(name))
        shorter.append(without_folders(header))
    two_lines = []
    for header, table in zip(shorter if len(set(shorter)) == len(set(headers)) else headers, tables, strict=True):
        title = metric_title(table.metric)
        rest = header.replace(f"{table.task} {title}", table.task, 1)
        two_lines.append(f"{rest}\n{title}{unit(table.metric)}")
    return two_lines


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 for the least value, 1 for the greatest; 0.5 where all are alike."""
    if np.isnan(values).all():
        return values
    least, most = np.nanmin(values), np.nanmax(values)
    return (values - least) / (most - least) if most > least else np.where(np.isnan(values), np.nan, 0.5)


def plot_groups(groups: GroupTable) -> Figure:
    """Draw groups (rows, the first at the top) by layers (columns).

    Shades run from the least to the greatest score of the picture: groups are scored alike, so that they may be
    compared. To the right stand the last layer's intervals, numbers of items and, where groups differ in it, chance.
    """
    table, lines = groups.table, groups.lines
    layers = [line.layer for line in table.lines]
    scores = [[line.by_layer.get(layer) for layer in layers] for line in lines]
    values = np.array([[np.nan if score is None else score.value for score in row] for row in scores], dtype=np.float64)
    if np.isnan(values).all():
        raise ResultsError(f"task {table.task}: there are no scores of groups to draw")
    names = [shortened(line.name, _MOST_LETTERS) for line in lines]
    width = _NAME_INCHES_A_LETTER * max(map(len, names)) + _COLUMN * len(layers) + _BESIDE
    figure = new_figure(max(_LEAST_WIDTH, width), 1.55 + _ROW * len(lines))
    ax = figure.subplots()
    shades = _scaled(values)
    _draw_cells(ax, shades, linewidth=1.0)
    ax.invert_yaxis()
    for place, value in np.ndenumerate(values):
        text = NOTHING if np.isnan(value) else number(float(value), metric=table.metric)
        _write(ax, (place[0], place[1]), text, float(shades[place]), fontsize=_SMALL, fontweight="normal")
    _write_beside(ax, groups, layers)
    title = f"{table.task} · {metric_title(table.metric)}{unit(table.metric)}"
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold", color=TEXT, pad=22)
    _label(ax, list(map(str, layers)), names)
    write_caption(figure, _groups_caption(groups, layers))
    return figure


def _write_beside(ax: Axes, groups: GroupTable, layers: Sequence[int]) -> None:
    """Intervals, counts and chances, in columns to the right of the last layer."""
    metric, last = groups.table.metric, [line.by_layer.get(layers[-1]) for line in groups.lines]
    intervals = [interval_of(score, metric) or NOTHING for score in last]
    columns = [(f"95 % of {layers[-1]}", intervals, 76), ("items", [f"{line.n_items:,}" for line in groups.lines], 112)]
    if groups.chances_differ:
        chances = [NOTHING if line.chance is None else number(line.chance) for line in groups.lines]
        columns.append(("chance", chances, 150))
    for header, texts, points in columns:
        style: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
        above: dict[str, Any] = {"xytext": (points, 3.5), "xycoords": "axes fraction", "va": "bottom", "color": TEXT}
        ax.annotate(header, (1, 1), **style, **above, fontsize=_LARGE)
        beside: dict[str, Any] = {"xytext": (points, 0), "xycoords": ("axes fraction", "data"), "va": "center"}
        for row, text in enumerate(texts):
            ax.annotate(text, (1, row + 0.5), **style, **beside, fontsize=_SMALL, color=GREY)


def _groups_caption(groups: GroupTable, layers: Sequence[int]) -> str:
    table, about = groups.table, groups.table.about
    reading = f" · {without_folders(table.reading)}" if table.one_of_several else ""
    weights = ", ".join(filter(None, [brief(about.model), INITS[about.init or "pretrained"]]))
    chance = None if groups.chances_differ else groups.lines[0].chance
    by_chance = f" By chance {number(chance)} %." if chance is not None else ""
    is_answer = answers_itself(about) and layers[-1] == about.n_layers
    answer = f"; {layers[-1]}: the model's own answer" if is_answer else ""
    return (
        f"{weights} · {brief(about.corpus)} {about.split}{reading}\nColumns: layers (0: embeddings{answer}).\n"
        f"Shades run from the least to the greatest score shown.{by_chance}"
    )


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
        panels.append((line_label(table, line), values))
    return plot_heads(panels, layers)


def plot_step_table(table: StepTable) -> Figure:
    """Draw what becomes of the model with each step, a line for each order, with 95 % intervals."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    scale = 100 if is_fraction(table.metric) else 1
    for order, (color, marker) in zip(table.orders, _LOOKS, strict=False):
        by_place = {place: scores[order] for place, scores in enumerate(table.lines.values()) if order in scores}
        places, scores = list(by_place), list(by_place.values())
        axes.fill_between(places, *bounds_of(scores, scale), color=color, alpha=0.15, linewidth=0)
        values = np.array([score.value for score in scores]) * scale
        axes.plot(places, values, color=color, marker=marker, markersize=4, linewidth=1.5, label=order or None)
    end_axis(axes, table.metric)
    axes.set_xticks(range(len(table.lines)), list(table.lines), fontsize=8)
    axes.set_ylabel(metric_title(table.metric) + unit(table.metric), fontsize=9)
    axes.set_title(f"{table.task}: {table.about.model} on {data_of(table.about)}", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if any(table.orders):
        axes.legend(frameon=False, fontsize=8)
    return figure


def plot_pipeline(lines: Sequence[PipelineLine]) -> Figure:
    """Draw for each task expected layer and centre of gravity, and next to them weights and gains by layer."""
    if not lines:
        raise ResultsError("no task was read by a mixture of layers: there is nothing to draw")
    figure = new_figure(_WIDTH, 1.7 + _HEIGHT * len(lines))
    left, middle, right = figure.subplots(1, 3, sharey=True, width_ratios=(1.25, 1, 1))
    _draw_depths(left, lines)
    _draw_profile(middle, [line.weights for line in lines], BLUE, first=0)
    _draw_profile(right, [tuple(100 * gain for gain in line.gains) for line in lines], VERMILION, first=1)
    for ax, title in ((left, "mean layer"), (middle, "weight of each layer"), (right, "gain of each layer, points")):
        ax.set_title(title, loc="left", fontsize=9.5, fontweight="bold", color=TEXT)
        ax.tick_params(labelsize=8, color=GREY, labelcolor=TEXT)
        style_axes(ax)
        # The first is explained by its legend.
        ax.set_xlabel("" if ax is left else "layer", fontsize=8.5, color=TEXT)
    several = len({line.about.model for line in lines}) > 1
    names = [f"{line.task}\n{brief(line.about.model)}" if several else line.task for line in lines]
    left.set_yticks(range(len(lines)), names, fontsize=8.5)
    left.set_ylim(len(lines) - 0.5, -0.6)
    sources = dict.fromkeys((line.about.model, line.about.corpus, line.about.split) for line in lines)
    source = "; ".join(f"{brief(model)}, {brief(corpus)} {split}" for model, corpus, split in sources)
    over = covered([line.n_seeds for line in lines])
    write_caption(figure, f"{source}. Layer 0: embeddings. Bars of the expected layer: 95 % intervals {over}.")
    return figure


def _draw_depths(ax: Axes, lines: Sequence[PipelineLine]) -> None:
    for place, line in enumerate(lines):
        expected, gravity = (line.expected_layer, -_BAR / 2, VERMILION), (line.center_of_gravity, _BAR / 2, BLUE)
        for score, shift, color in (expected, gravity):
            y = place + shift
            if score is None:
                ax.annotate(NOTHING, (0, y), xytext=(3, 0), textcoords="offset points", va="center", color=GREY)
                continue
            ax.barh(y, score.value, height=_BAR * 0.9, color=color, zorder=2)
            end = score.value
            if score.low is not None and score.high is not None:
                ax.hlines(y, score.low, score.high, color=TEXT, linewidth=1.1, zorder=3)
                end = max(score.value, score.high)
            style: dict[str, Any] = {"va": "center", "fontsize": 7.5, "color": TEXT}
            ax.annotate(f"{score.value:.2f}", (end, y), xytext=(3, 0), textcoords="offset points", **style)
    depth = max((line.about.n_layers or 0) for line in lines)
    ax.set_xlim(0, depth * 1.12)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    ax.plot([], [], color=VERMILION, linewidth=6, label="expected layer")
    ax.plot([], [], color=BLUE, linewidth=6, label="centre of gravity")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=2, fontsize=7.5, frameon=False)


def _draw_profile(ax: Axes, profiles: Sequence[tuple[float, ...]], color: str, *, first: int) -> None:
    """A row of small bars for each task, one a layer, each row to its own scale."""
    longest = max((len(profile) for profile in profiles), default=0)
    for place, profile in enumerate(profiles):
        if not profile:
            ax.annotate(NOTHING, (first, place), ha="center", va="center", color=GREY)
            continue
        # Room above the line for what is gained, and below it for what is lost.
        highest, lowest = max(0.0, *profile), min(0.0, *profile)
        scale = 0.74 / max(highest - lowest, 1e-12)
        line = place - 0.34 + highest * scale
        for layer, value in enumerate(profile, start=first):
            ax.bar(layer, -value * scale, bottom=line, width=0.8, color=color, alpha=1 if value >= 0 else 0.35)
        top = max(range(len(profile)), key=lambda at: abs(profile[at]))
        text, y = f"{profile[top]:.2g}".replace("-", "−"), line - profile[top] * scale
        side = "bottom" if profile[top] >= 0 else "top"
        ax.annotate(text, (top + first, y), ha="center", va=side, fontsize=6.5, color=GREY)
    ax.set_xlim(first - 0.6, first + longest - 0.4)
    every = FixedLocator(range(first, first + longest))
    ax.xaxis.set_major_locator(every if longest <= _MOST_TICKS else MaxNLocator(integer=True, nbins=_MOST_TICKS))
