"""Heatmaps of one head and of layers by heads, for print and colour-blind readers, without pyplot's global state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._figures import (
    GREY,
    TEXT,
    Fonts,
    ShownFigure,
    clipped,
    draw_bar,
    draw_shades,
    new_figure,
    write_caption,
)
from bertology.encoders import LabelledArray
from bertology.errors import ResultsError

_CELL, _COLUMNS = 0.3, 3
_MOST_WRITTEN = 12
"""Most heads in a layer whose values are still legible in their cells."""
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
        if list(one.labels) != ["from", "to"]:
            raise ResultsError(
                f"an array of {', '.join(one.labels)} is not the map of one head: choose one, such as "
                "encoder.attention(text).at(layer=2, head=1)"
            )
        if max(one.shape) > _MOST_UNITS:
            raise ResultsError(
                f"{max(one.shape)} units are too many for a figure with room for {_MOST_UNITS}: take a shorter text, "
                "or the page of bertology.attention.view"
            )
    letters = {"layer": "L", "head": "H"}
    titles = [title] if isinstance(title, str) else title
    titles = titles or [
        "".join(f"{letters[axis]}{one.chosen[axis]}" for axis in letters if axis in one.chosen) for one in maps
    ]
    fonts = Fonts.of(str(unit) for one in maps for units in one.labels.values() for unit in units)
    longest = max(fonts.width(clipped(unit, _MOST_LETTERS), _NAME_SIZE) for one in maps for unit in one.labels["from"])
    cell, names = 0.3 if max(max(one.shape) for one in maps) <= _MANY_UNITS else 0.16, longest / 72
    sides = [[max(1.6, cell * size) for size in one.shape] for one in maps]
    size = sum(names + width + 0.9 for _, width in sides) + 0.9, max(height for height, _ in sides) + names + 1.0
    figure = new_figure(*size)
    most = max(float(one.values.max()) for one in maps) or 1.0
    axes = figure.subplots(1, len(maps), squeeze=False, width_ratios=[names + width for _, width in sides])[0]
    # A dollar sign begins no formula.
    text: dict[str, Any] = {"fontfamily": list(fonts.families), "parse_math": False}
    for ax, one, name in zip(axes, maps, titles, strict=True):
        # Rows from the top down, as they are read; columns from left to right.
        values = np.asarray(one.values, dtype=np.float64)
        written = _written(values) if max(values.shape) <= _FEW_UNITS else {}
        rows, columns = ([fonts.drawable(clipped(u, _MOST_LETTERS)) for u in one.labels[k]] for k in ("from", "to"))
        style: dict[str, Any] = {"size": _NAME_SIZE, "text_size": 5.5, "linewidth": 0.4, "most": most}
        mesh = draw_shades(ax, values, rows=rows, columns=columns, texts=written, **style)
        ax.set(aspect="equal", anchor="N")
        ax.invert_yaxis()
        ax.xaxis.tick_top()
        ax.xaxis.set_label_position("top")
        ax.tick_params(length=0)
        for tick in ax.get_yticklabels():
            tick.set(**text)
        for tick in ax.get_xticklabels():
            tick.set(rotation=90, ha="center", va="bottom", **text)
        ax.set_ylabel("from (rows)", fontsize=_NAME_SIZE, color=GREY)
        ax.set_xlabel("to (columns)", fontsize=_NAME_SIZE, color=GREY)
        for draw, axis in ((ax.axhline, "from"), (ax.axvline, "to")):
            for place in one.breaks.get(axis, ()):
                draw(place, color=TEXT, linewidth=1)
        ax.set_title(fonts.drawable(name), loc="left", fontsize=9.5, fontweight="bold", color=TEXT, parse_math=False)
    draw_bar(figure, mesh, axes, label, fraction=0.3 / size[0], aspect=14 * max(1, size[1] / 3))
    write_caption(figure, fonts.note())
    return figure


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
    n_columns, width = min(_COLUMNS, len(panels)), 0.9 + _CELL * n_heads
    n_rows = math.ceil(len(panels) / n_columns)
    figure = new_figure(n_columns * width, n_rows * (0.85 + _CELL * len(layers)) + 0.3)
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for ax, (name, values) in zip(axes, panels, strict=False):
        finite, name = values[np.isfinite(values)], name.replace("_", " ")
        least, greatest = (float(finite.min()), float(finite.max())) if len(finite) else (math.nan, math.nan)
        # Where all heads are alike none stands out.
        spread = greatest - least
        shades = (values - least) / spread if spread > 0 else np.where(np.isfinite(values), 0.0, np.nan)
        names: dict[str, Any] = {"rows": list(map(str, layers)), "columns": list(map(str, range(1, n_heads + 1)))}
        texts = _written(values) if n_heads <= _MOST_WRITTEN else {}
        draw_shades(ax, shades, **names, texts=texts, size=6.5, text_size=5.5, linewidth=0.8)
        bounds = f"({least:.2f}…{greatest:.2f})" if len(finite) else "(nothing to count)"
        # Where there is no room for it in one line next to the next panel's, in two.
        is_long = len(f"{name} {bounds}") > _LETTERS * width
        ax.set_title(f"{name}\n{bounds}" if is_long else f"{name} {bounds}", fontsize=8.5, color=TEXT)
        ax.set_xlabel("head", fontsize=7.5, color=TEXT)
        ax.set_ylabel("layer", fontsize=7.5, color=TEXT)
    for ax in axes[len(panels) :]:
        ax.remove()
    write_caption(figure, "Shades run from the least to the greatest head of each statistic (in brackets).")
    return figure


def _written(values: NDArray[np.float64]) -> dict[tuple[int, ...], str]:
    """Values as texts of their cells: hundredths of what is at most 1, else one decimal."""
    finite = values[np.isfinite(values)]
    fraction = len(finite) > 0 and float(np.abs(finite).max()) <= 1
    cells = ((place, value) for place, value in np.ndenumerate(values) if np.isfinite(value))
    return {place: f"{value:.2f}".removeprefix("0") if fraction else f"{value:.1f}" for place, value in cells}
