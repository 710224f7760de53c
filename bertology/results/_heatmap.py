"""Layers by tasks as a picture: shades within a task, values written, the best set framed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from bertology.errors import ResultsError
from bertology.results._grid import is_fraction, metric_title, number, summary_headers
from bertology.results._names import brief
from bertology.results._plot import LayerFigure
from bertology.results._view import LayerTable

# One hue from pale to deep, which survives print in grey and every kind of colour blindness.
SHADES = LinearSegmentedColormap.from_list("layers", ["#f4f8fc", "#c6dbef", "#7fb8dc", "#2474b3"])
GREY, TEXT, _FRAME = "#5A5A5A", "#222222", "#111111"
DARK = 0.82
_CELL = (1.0, 0.36)
_FEW = 12
_VALUE_SIZE = (8.5, 7.0)
_LONG_HEADER = 14
_INCHES_A_LETTER = 0.05
"""That a slanted header rises."""


def plot_heatmap(tables: Sequence[LayerTable]) -> Figure:
    """Draw layers (rows, the embeddings at the bottom) by tasks (columns).

    Shades run from the worst to the best layer of each task, since scores of different tasks are not comparable; the
    numbers are the scores themselves.

    Raises:
        ResultsError: there are no scores to draw.
    """
    layers = sorted({line.layer for table in tables for line in table.lines if line.main})
    if not layers:
        raise ResultsError("there are no scores to draw")
    width = 1.1 + max(4.2, _CELL[0] * len(tables))
    height = 1.5 + _CELL[1] * len(layers) + _INCHES_A_LETTER * _slanted(tables)
    figure = LayerFigure(figsize=(width, height), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    shades = np.full((len(layers), len(tables)), np.nan)
    for column, table in enumerate(tables):
        for layer, shade in _shades(table).items():
            shades[layers.index(layer), column] = shade
    # A mesh stays sharp in vector formats, where an image would be resampled.
    ax.pcolormesh(shades, cmap=SHADES, vmin=0, vmax=1, edgecolors="white", linewidth=1.2)
    for column, table in enumerate(tables):
        _write_values(ax, table, column, layers, shades[:, column], fontsize=_VALUE_SIZE[len(tables) > _FEW])
    _style(ax, tables, layers)
    figure.supxlabel(_caption(tables), fontsize=7.5, color=GREY, x=0.01, ha="left", multialignment="left")
    return figure


def _write_values(
    ax: Axes,
    table: LayerTable,
    column: int,
    layers: Sequence[int],
    shades: NDArray[np.float64],
    *,
    fontsize: float,
) -> None:
    """The scores of one task, its best set in bold and framed."""
    for line in table.lines:
        if line.main is None:
            continue
        row = layers.index(line.layer)
        ax.text(
            column + 0.5,
            row + 0.5,
            number(line.main.value, metric=table.metric),
            ha="center",
            va="center",
            fontsize=fontsize,
            color="white" if shades[row] > DARK else TEXT,
            fontweight="bold" if line.in_best_set else "normal",
        )
        if line.in_best_set:
            place = (column + 0.04, row + 0.08)
            ax.add_patch(Rectangle(place, 0.92, 0.84, fill=False, edgecolor=_FRAME, linewidth=1.6))


def _style(ax: Axes, tables: Sequence[LayerTable], layers: Sequence[int]) -> None:
    ax.set_xticks(np.arange(len(tables)) + 0.5, _headers(tables), fontsize=8.5, color=TEXT)
    ax.set_yticks(np.arange(len(layers)) + 0.5, [str(layer) for layer in layers], fontsize=8.5, color=TEXT)
    ax.xaxis.tick_top()
    if _slanted(tables):
        for label in ax.get_xticklabels():
            label.set(rotation=40, ha="left", rotation_mode="anchor")
    ax.tick_params(length=0)
    ax.set_ylabel("layer (0: embeddings)", fontsize=9, color=TEXT)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _headers(tables: Sequence[LayerTable]) -> list[str]:
    return [_header(header, table) for header, table in zip(_brief_headers(tables), tables, strict=True)]


def _brief_headers(tables: Sequence[LayerTable]) -> tuple[str, ...]:
    """Headers without the folders of corpora, unless folders are all that tells two apart."""
    headers = summary_headers(tables)
    shorter = []
    for header, table in zip(headers, tables, strict=True):
        for name in filter(None, (table.about.model, table.about.corpus)):
            header = header.replace(name, brief(name))
        shorter.append(header)
    return tuple(shorter) if len(set(shorter)) == len(set(headers)) else headers


def _slanted(tables: Sequence[LayerTable]) -> int:
    """Letters of the longest header, where some are too long to stand side by side; else 0."""
    longest = max(len(part) for header in _headers(tables) for part in header.split("\n"))
    return longest if len(tables) > 1 and longest > _LONG_HEADER else 0


def _shades(table: LayerTable) -> dict[int, float]:
    """0 for the worst layer of a task, 1 for the best; 0.5 where all are alike."""
    sign = 1.0 if table.higher_is_better else -1.0
    values = {line.layer: sign * line.main.value for line in table.lines if line.main}
    least = min(values.values(), default=0.0)
    range_ = max(values.values(), default=0.0) - least
    return {layer: (value - least) / range_ if range_ else 0.5 for layer, value in values.items()}


def _header(header: str, table: LayerTable) -> str:
    """What sets a column apart; the metric goes to the next line."""
    title = metric_title(table.metric)
    rest = header.replace(f"{table.task} {title}", table.task, 1)
    return f"{rest}\n{title}{', %' if is_fraction(table.metric) else ''}"


def _caption(tables: Sequence[LayerTable]) -> str:
    parts = ["Shades run from each task's worst to its best layer; numbers are the scores."]
    if any(table.compared for table in tables):
        parts.append("Framed: not separable from the best (paired bootstrap, Benjamini–Hochberg q < .05).")
    return "\n".join(parts)
