"""Heatmaps of one head and of layers by heads, for print and colour-blind readers, without pyplot's global state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bertology._figures import DARK_SHADE, GREY, SHADES, TEXT, Fonts, ShownFigure, new_figure, write_caption
from bertology.encoders import LabelledArray
from bertology.errors import ResultsError

_CELL = 0.3
_MOST_WRITTEN = 12
"""Most heads in a layer whose values are still legible in their cells."""
_COLUMNS = 3
_LETTERS = 13
"""Letters of a title in an inch."""
_MOST_UNITS = 160
"""Rows or columns of a map that a page can hold with names beside them."""
_FEW_UNITS, _MANY_UNITS = 16, 48
_NAME_SIZE, _MOST_LETTERS = 8.0, 24


def plot_head(
    maps: LabelledArray | Sequence[LabelledArray],
    *,
    title: str | Sequence[str] | None = None,
    label: str = "attention weight",
) -> ShownFigure:
    """Draw the attention map of a head as shades, from the words of rows to those of columns, which label them.

    Args:
        maps: ``[from, to]`` of one head, such as ``encoder.attention("…").at(layer=8, head=10)``; several are drawn
            side by side on one scale.
        title: above each map; the name of the head, such as ``L8H10``, when left out.
        label: of the colour bar.

    Returns:
        The figure: shows itself in a notebook, and has ``.save(path)``.

    Raises:
        ResultsError: an array is not one map, or has too many rows or columns for a figure.
    """
    maps = [maps] if isinstance(maps, LabelledArray) else list(maps)
    for one in maps:
        _check_map(one)
    titles = [_name_of(one) for one in maps] if title is None else [title] if isinstance(title, str) else list(title)
    fonts = Fonts.of(str(unit) for one in maps for units in one.labels.values() for unit in units)
    longest = max(fonts.width(_clipped(unit), _NAME_SIZE) for one in maps for unit in one.labels["from"]) / 72
    cell = 0.3 if max(max(one.shape) for one in maps) <= _MANY_UNITS else 0.16
    sides = [[max(1.6, cell * size) for size in one.shape] for one in maps]
    size = (sum(longest + width + 0.9 for _, width in sides) + 0.9, max(height for height, _ in sides) + longest + 1.0)
    figure = new_figure(*size)
    most = max(float(one.values.max()) for one in maps) or 1.0
    axes = figure.subplots(1, len(maps), squeeze=False, width_ratios=[longest + width for _, width in sides])[0]
    for ax, one, name in zip(axes, maps, titles, strict=True):
        _draw_map(ax, one, name, most, fonts)
    bar = figure.colorbar(axes[0].collections[0], ax=axes, fraction=0.3 / size[0], aspect=14 * max(1, size[1] / 3))
    bar.set_label(label, fontsize=7.5, color=TEXT)
    bar.ax.tick_params(labelsize=7, color=GREY, labelcolor=TEXT)
    bar.outline.set_visible(False)
    if note := fonts.note():
        write_caption(figure, note)
    return figure


def _check_map(one: LabelledArray) -> None:
    if list(one.labels) != ["from", "to"]:
        raise ResultsError(
            f"an array of {', '.join(one.labels)} is not the map of one head: choose one, such as "
            "encoder.attention(text).at(layer=2, head=1)"
        )
    if max(one.shape) > _MOST_UNITS:
        raise ResultsError(
            f"{max(one.shape)} units are too many for a figure with room for {_MOST_UNITS}: take a shorter text, or "
            "the page of bertology.attention.view"
        )


def _name_of(one: LabelledArray) -> str:
    return "".join(
        f"{letter}{one.chosen[axis]}" for axis, letter in (("layer", "L"), ("head", "H")) if axis in one.chosen
    )


def _clipped(unit: str) -> str:
    return unit if len(unit) <= _MOST_LETTERS else f"{unit[: _MOST_LETTERS - 1]}…"


def _draw_map(ax: Axes, one: LabelledArray, title: str, most: float, fonts: Fonts) -> None:
    """Rows from the top down, as they are read; columns from left to right."""
    values = np.asarray(one.values, dtype=np.float64)
    ax.pcolormesh(values, cmap=SHADES, vmin=0, vmax=most, edgecolors="white", linewidth=0.4)
    ax.set_aspect("equal")
    ax.set_anchor("N")
    ax.invert_yaxis()
    if max(values.shape) <= _FEW_UNITS:
        _write(ax, values, values / most)
    for axis, name in ((ax.yaxis, "from"), (ax.xaxis, "to")):
        axis.set_ticks(np.arange(len(one.labels[name])) + 0.5, [fonts.drawable(_clipped(u)) for u in one.labels[name]])
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0, labelsize=_NAME_SIZE, labelcolor=TEXT)
    # A dollar sign begins no formula.
    text: dict[str, Any] = {"fontfamily": list(fonts.families), "parse_math": False}
    for tick in ax.get_yticklabels():
        tick.set(**text)
    for tick in ax.get_xticklabels():
        tick.set(rotation=90, ha="center", va="bottom", **text)
    ax.set_ylabel("from (rows)", fontsize=_NAME_SIZE, color=GREY)
    ax.set_xlabel("to (columns)", fontsize=_NAME_SIZE, color=GREY)
    for place in one.breaks.get("from", ()):
        ax.axhline(place, color=TEXT, linewidth=1)
    for place in one.breaks.get("to", ()):
        ax.axvline(place, color=TEXT, linewidth=1)
    ax.set_title(fonts.drawable(title), loc="left", fontsize=9.5, fontweight="bold", color=TEXT, parse_math=False)
    ax.spines[:].set_visible(False)


def plot_heads(panels: Sequence[tuple[str, NDArray[np.float64]]], layers: Sequence[int]) -> ShownFigure:
    """Draw each statistic, its name and ``[layer, head]`` values, in a panel: layers from the bottom up, heads from
    left to right.

    Shades run from the least to the greatest head of each statistic, which is written in its caption; one statistic's
    cannot be compared with another's.

    Raises:
        ResultsError: there is nothing to draw.
    """
    if not panels:
        raise ResultsError("there are no statistics to draw")
    n_heads = panels[0][1].shape[1]
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (columns * _width(n_heads), rows * (0.85 + _CELL * len(layers)) + 0.3)
    figure = new_figure(*size)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (name, values) in zip(axes, panels, strict=False):
        _draw(ax, name, values, layers)
    for ax in axes[len(panels) :]:
        ax.remove()
    write_caption(figure, "Shades run from the least to the greatest head of each statistic (in brackets).")
    return figure


def _width(n_heads: int) -> float:
    """Inches of a panel."""
    return 0.9 + _CELL * n_heads


def _draw(ax: Axes, name: str, values: NDArray[np.float64], layers: Sequence[int]) -> None:
    finite, n_heads, name = values[np.isfinite(values)], values.shape[1], name.replace("_", " ")
    least, greatest = (float(finite.min()), float(finite.max())) if len(finite) else (math.nan, math.nan)
    spread = greatest - least
    # Where all heads are alike none stands out.
    shades = (values - least) / spread if spread > 0 else np.where(np.isfinite(values), 0.0, np.nan)
    ax.pcolormesh(shades, cmap=SHADES, vmin=0, vmax=1, edgecolors="white", linewidth=0.8)
    if n_heads <= _MOST_WRITTEN:
        _write(ax, values, shades)
    ax.set_xticks(np.arange(n_heads) + 0.5, list(map(str, range(1, n_heads + 1))), fontsize=6.5, color=TEXT)
    ax.set_yticks(np.arange(len(layers)) + 0.5, list(map(str, layers)), fontsize=6.5, color=TEXT)
    ax.tick_params(length=0)
    bounds = f"({least:.2f}…{greatest:.2f})" if len(finite) else "(nothing to count)"
    # Where there is no room for it in one line next to the next panel's, in two.
    is_long = len(f"{name} {bounds}") > _LETTERS * _width(n_heads)
    ax.set_title(f"{name}\n{bounds}" if is_long else f"{name} {bounds}", fontsize=8.5, color=TEXT)
    ax.set_xlabel("head", fontsize=7.5, color=TEXT)
    ax.set_ylabel("layer", fontsize=7.5, color=TEXT)
    ax.spines[:].set_visible(False)


def _write(ax: Axes, values: NDArray[np.float64], shades: NDArray[np.float64]) -> None:
    """Values in their cells: hundredths of what is at most 1, else one decimal."""
    finite = values[np.isfinite(values)]
    fraction = len(finite) > 0 and float(np.abs(finite).max()) <= 1
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.2f}".removeprefix("0") if fraction else f"{value:.1f}"
            color = "white" if shades[row, column] > DARK_SHADE else TEXT
            ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=5.5, color=color)
