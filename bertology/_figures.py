"""What all figures share: size, colours, and how they become files.

Layers run from left to right where they stand on the horizontal axis, and from the bottom up where they stand on the
vertical one: in figures, in the heatmaps of the report, and in the attention viewer. Tables list them from 0 down.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from numpy.typing import NDArray

from bertology._files import write_derived
from bertology._text import decimals
from bertology.errors import ResultsError, StoreError, quoted

# Okabe & Ito's colours, told apart by colour-blind readers; markers and line styles tell them apart in grey.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GREY, PALE, TEXT = "#5A5A5A", "#8C8C8C", "#222222"
# One hue from pale to deep, which survives print in grey and every kind of colour blindness.
SHADES = LinearSegmentedColormap.from_list("layers", ["#f4f8fc", "#c6dbef", "#7fb8dc", "#2474b3"])
DARK_SHADE = 0.82
"""Text is white on shades above this one."""
_FORMATS = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
_MARGIN = 0.06


class ShownFigure(Figure):
    """A figure that a notebook displays by itself, cropped to what is drawn."""

    def save(self, path: str | Path) -> Path:
        """Write the figure as ``.svg``, ``.pdf`` or ``.png``; text stays text, which can be searched and edited.

        Raises:
            StoreError: the name ends otherwise, or the file cannot be written.
        """
        path = Path(path)
        ending = path.suffix.lower().removeprefix(".")
        if ending not in _FORMATS:
            raise StoreError(f"cannot draw {quoted(path.name)}: name a file that ends in .svg, .pdf or .png")
        write_derived(path.parent, {path.name: figure_bytes(self, ending)}, remedy="name another file")
        return path

    def _repr_png_(self) -> bytes:
        return figure_bytes(self, "png")


def new_figure(width: float, height: float) -> ShownFigure:
    """An empty figure of so many inches, laid out by what stands in it."""
    figure = ShownFigure(figsize=(width, height), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def style_axes(ax: Axes) -> None:
    """Leave only the left and bottom axis, in grey."""
    ax.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)


def draw_grid(ax: Axes) -> None:
    """Draw pale lines across, behind all else."""
    ax.grid(axis="y", color="#E3E3E3", linewidth=0.7)
    ax.set_axisbelow(True)


def write_caption(figure: Figure, text: str) -> None:
    """Set small text below all panels, from the left."""
    figure.supxlabel(text, fontsize=7.5, color=GREY, x=0.01, ha="left", multialignment="left")


def draw_cells(
    values: NDArray[np.float64],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    caption: str,
    row_title: str = "",
    origin: Literal["upper", "lower"] = "upper",
) -> ShownFigure:
    """``[row, column]`` values as shades from 0 to 1 with their numbers; NaN is left empty."""
    figure = new_figure(1.6 + 0.62 * len(columns), 1.7 + 0.34 * len(rows))
    axes: Any = figure.subplots()
    axes.imshow(np.clip(values, 0, 1), cmap=SHADES, vmin=0, vmax=1, origin=origin, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=40, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    if row_title:
        axes.set_ylabel(row_title)
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            color = "white" if value > DARK_SHADE else "black"
            axes.text(j, i, decimals(float(value)), ha="center", va="center", fontsize=7, color=color)
    write_caption(figure, caption)
    return figure


def figure_bytes(figure: Figure, ending: str) -> bytes:
    """A figure as a file's content, cropped to what is drawn."""
    if ending not in _FORMATS:
        raise ResultsError(f"cannot draw a plot as {ending!r}: choose one of {', '.join(_FORMATS)}")
    # Laid out once: each time again everything moves by a fraction of a point.
    if not isinstance(figure.get_layout_engine(), PlaceHolderLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    out = io.BytesIO()
    # The same bytes for the same figure, and text that can be searched, selected and set in another font.
    with mpl.rc_context({"svg.hashsalt": "bertology", "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(out, format=ending, metadata=_FORMATS[ending], bbox_inches="tight", pad_inches=_MARGIN)
    return out.getvalue()
