"""Heatmaps of layers by heads, for print and for colour-blind readers, without pyplot's global state."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bertology.errors import ResultsError

# The shades of all heatmaps here: one hue from pale to deep, which survives print in grey.
_SHADES = LinearSegmentedColormap.from_list("heads", ["#f4f8fc", "#c6dbef", "#7fb8dc", "#2474b3"])
_GREY, _TEXT = "#5A5A5A", "#222222"
_DARK = 0.82
_CELL = 0.3
_MOST_WRITTEN = 12
"""Most heads in a layer whose values are still legible in their cells."""
_COLUMNS = 3
_LETTERS = 13
"""Letters of a title in an inch."""


class HeadFigure(Figure):
    """A figure that a notebook displays by itself."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", metadata={"Software": None})
        return out.getvalue()


def plot_heads(panels: Sequence[tuple[str, NDArray[np.float64]]], layers: Sequence[int]) -> Figure:
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
    figure = HeadFigure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (name, values) in zip(axes, panels, strict=False):
        _draw(ax, name, values, layers)
    for ax in axes[len(panels) :]:
        ax.remove()
    caption = "Shades run from the least to the greatest head of each statistic (in brackets)."
    figure.supxlabel(caption, fontsize=7.5, color=_GREY, x=0.01, ha="left")
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
    ax.pcolormesh(shades, cmap=_SHADES, vmin=0, vmax=1, edgecolors="white", linewidth=0.8)
    if n_heads <= _MOST_WRITTEN:
        _write(ax, values, shades)
    ax.set_xticks(np.arange(n_heads) + 0.5, list(map(str, range(1, n_heads + 1))), fontsize=6.5, color=_TEXT)
    ax.set_yticks(np.arange(len(layers)) + 0.5, list(map(str, layers)), fontsize=6.5, color=_TEXT)
    ax.tick_params(length=0)
    bounds = f"({least:.2f}…{greatest:.2f})" if len(finite) else "(nothing to count)"
    # Where there is no room for it in one line next to the next panel's, in two.
    is_long = len(f"{name} {bounds}") > _LETTERS * _width(n_heads)
    ax.set_title(f"{name}\n{bounds}" if is_long else f"{name} {bounds}", fontsize=8.5, color=_TEXT)
    ax.set_xlabel("head", fontsize=7.5, color=_TEXT)
    ax.set_ylabel("layer", fontsize=7.5, color=_TEXT)
    ax.spines[:].set_visible(False)


def _write(ax: Axes, values: NDArray[np.float64], shades: NDArray[np.float64]) -> None:
    """Values in their cells: hundredths of what is at most 1, else one decimal."""
    finite = values[np.isfinite(values)]
    fraction = len(finite) > 0 and float(np.abs(finite).max()) <= 1
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.2f}".removeprefix("0") if fraction else f"{value:.1f}"
            color = "white" if shades[row, column] > _DARK else _TEXT
            ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=5.5, color=color)
