"""Groups of items by layers as a picture: shades and values, the intervals of the last layer beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bertology.errors import ResultsError
from bertology.results._grid import is_fraction, metric_title, number
from bertology.results._groups import GroupLine, GroupTable
from bertology.results._heatmap import DARK, GREY, SHADES, TEXT
from bertology.results._names import brief, shortened
from bertology.results._plot import LayerFigure
from bertology.results._view import INITS

_ROW = 0.27
_COLUMN = 0.46
_SMALL, _LARGE = 7.5, 8.5
_INCHES_A_LETTER = 0.062
_BESIDE = 2.0
"""Inches for intervals and counts."""
_LEAST_WIDTH = 6.4
_MOST_LETTERS = 60


def plot_groups(groups: GroupTable) -> Figure:
    """Draw groups (rows, the first at the top) by layers (columns).

    Shades run from the least to the greatest score of the picture: groups are scored alike, so that they may be
    compared. To the right stand the last layer's intervals, the numbers of items and, where it is not the same for all
    groups, chance.

    Raises:
        ResultsError: there are no scores to draw.
    """
    lines, layers = groups.lines, [line.layer for line in groups.table.lines]
    values = np.array([[_value(line, layer) for layer in layers] for line in lines], dtype=np.float64)
    if np.isnan(values).all():
        raise ResultsError(f"task {groups.table.task}: there are no scores of groups to draw")
    names = [shortened(line.name, _MOST_LETTERS) for line in lines]
    width = _INCHES_A_LETTER * max(map(len, names)) + _COLUMN * len(layers) + _BESIDE
    figure = LayerFigure(figsize=(max(_LEAST_WIDTH, width), 1.55 + _ROW * len(lines)), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    shades = _shades(values)
    # A mesh stays sharp in vector formats, where an image would be resampled.
    ax.pcolormesh(np.ma.masked_invalid(shades), cmap=SHADES, vmin=0, vmax=1, edgecolors="white", linewidth=1.0)
    ax.invert_yaxis()
    _write_values(ax, values, shades, groups.table.metric)
    _write_beside(ax, groups, layers)
    _style(ax, groups, names, layers)
    figure.supxlabel(_caption(groups, layers), fontsize=_SMALL, color=GREY, x=0.01, ha="left", multialignment="left")
    return figure


def _value(line: GroupLine, layer: int) -> float:
    return line.by_layer[layer].value if layer in line.by_layer else np.nan


def _shades(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 for the least score, 1 for the greatest; 0.5 where all are alike."""
    least, most = np.nanmin(values), np.nanmax(values)
    return (values - least) / (most - least) if most > least else np.where(np.isnan(values), np.nan, 0.5)


def _write_values(ax: Axes, values: NDArray[np.float64], shades: NDArray[np.float64], metric: str) -> None:
    for (row, column), value in np.ndenumerate(values):
        known = not np.isnan(value)
        ax.text(
            column + 0.5,
            row + 0.5,
            number(float(value), metric=metric) if known else "–",
            ha="center",
            va="center",
            fontsize=_SMALL,
            color="white" if known and shades[row, column] > DARK else TEXT,
        )


def _write_beside(ax: Axes, groups: GroupTable, layers: Sequence[int]) -> None:
    """Intervals, counts and chances, in columns to the right of the last layer."""
    metric = groups.table.metric
    columns = [(f"95 % of {layers[-1]}", [_interval(line, layers[-1], metric) for line in groups.lines], 76)]
    columns.append(("items", [f"{line.n_items:,}" for line in groups.lines], 112))
    if len({line.chance for line in groups.lines}) > 1:
        chances = ["–" if line.chance is None else number(line.chance) for line in groups.lines]
        columns.append(("chance", chances, 150))
    for header, texts, points in columns:
        for row, text in enumerate([header, *texts]):
            ax.annotate(
                text,
                (1, 1) if row == 0 else (1, row - 0.5),
                xytext=(points, 3.5 if row == 0 else 0),
                xycoords="axes fraction" if row == 0 else ("axes fraction", "data"),
                textcoords="offset points",
                ha="right",
                va="bottom" if row == 0 else "center",
                fontsize=_LARGE if row == 0 else _SMALL,
                color=TEXT if row == 0 else GREY,
            )


def _interval(line: GroupLine, layer: int, metric: str) -> str:
    score = line.by_layer.get(layer)
    if score is None or score.low is None or score.high is None:
        return "–"
    return f"[{number(score.low, metric=metric)}, {number(score.high, metric=metric)}]"


def _style(ax: Axes, groups: GroupTable, names: Sequence[str], layers: Sequence[int]) -> None:
    table = groups.table
    unit = ", %" if is_fraction(table.metric) else ""
    ax.set_title(
        f"{table.task} · {metric_title(table.metric)}{unit}",
        loc="left",
        fontsize=11,
        fontweight="bold",
        color=TEXT,
        pad=22,
    )
    ax.set_xticks(np.arange(len(layers)) + 0.5, [str(layer) for layer in layers], fontsize=_LARGE, color=TEXT)
    ax.set_yticks(np.arange(len(names)) + 0.5, names, fontsize=_LARGE, color=TEXT)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _caption(groups: GroupTable, layers: Sequence[int]) -> str:
    table, about = groups.table, groups.table.about
    reading = f" · {table.reading}" if table.one_of_several else ""
    init = INITS[about.init or "pretrained"]
    weights = f", {init}" if init else ""
    chances = {line.chance for line in groups.lines}
    chance = next(iter(chances)) if len(chances) == 1 else None
    by_chance = f" By chance {number(chance)} %." if chance is not None else ""
    return "\n".join(
        [
            f"{brief(about.model)}{weights} · {brief(about.corpus)} {about.split}{reading}",
            f"Columns: layers (0: embeddings; {layers[-1]}: the model's own answer)."
            if layers[-1] == about.n_layers
            else "Columns: layers (0: embeddings).",
            f"Shades run from the least to the greatest score shown.{by_chance}",
        ]
    )
