"""Figures of attention heads, of a model without some of them, and of the depth at which tasks are solved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from bertology.attention import plot_heads
from bertology.errors import ResultsError
from bertology.results.render.plot import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    TEXT,
    VERMILION,
    bounds_of,
    new_figure,
    style_axes,
    write_caption,
)
from bertology.results.views.grid import NOTHING, brief, covered, data_of, is_fraction, metric_title, unit
from bertology.results.views.heads import HeadTable, StepTable, head_place, line_label
from bertology.results.views.pipeline import PipelineLine

_MOST_PANELS = 12
_LOOKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (PURPLE, "D"))
_BAR = 0.36
_MOST_TICKS = 9
_WIDTH, _HEIGHT = 9.2, 0.52


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
