"""Distances between all words, gold beside predicted."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bertology.errors import ResultsError
from bertology.results.trees._canvas import GREY, NAME_SIZE, TEXT, Ruler, blank, clipped, heading, name_words, write
from bertology.results.trees._direction import is_right_to_left
from bertology.results.trees._fonts import Fonts
from bertology.results.trees._reading import TreeReading

# From near and deep to far and pale, in one hue, which survives print in grey.
_SHADES = LinearSegmentedColormap.from_list("distances", ["#08306b", "#2474b3", "#7fb8dc", "#c6dbef", "#f7fafd"])
# All in points.
_CELL, _LEAST_PANEL = 12.0, 110.0
_MARGIN, _HEADER, _FOOTER = 14.0, 46.0, 14.0
_TICK, _BETWEEN = 6.0, 20.0
_BAR, _BAR_ROOM, _LONGEST_BAR = 9.0, 46.0, 170.0


def draw_distances(reading: TreeReading) -> Figure:
    """See :func:`bertology.results.trees.plot_distances`."""
    if reading.distances is None:
        raise ResultsError("the reading has no predicted distances: read the sentence with a probe of distance")
    gold, predicted = reading.gold_distances, ("predicted", np.asarray(reading.distances, dtype=np.float64))
    panels = [predicted] if gold is None else [("gold", gold.astype(np.float64)), predicted]
    farthest = max(float(panels[0][1].max()), 1.0)
    fonts = Fonts.of(reading.words)
    ruler = Ruler(fonts)
    names = _TICK + max(ruler.width(clipped(word), NAME_SIZE) for word in reading.words)
    side = max(_LEAST_PANEL, _CELL * len(reading.words))
    width = _MARGIN + (names + side + _BETWEEN) * len(panels) + _BAR + _BAR_ROOM
    figure, page = blank(max(width, 2 * _MARGIN + ruler.width(fonts.note(), 7.5)), _HEADER + side + names + _FOOTER)
    bottom = names + _FOOTER
    x = _MARGIN
    for name, distances in panels:
        ax = _panel(figure, x + names, bottom, side, side)
        # A mesh stays sharp in vector formats, where an image would be resampled.
        mesh = ax.pcolormesh(distances, cmap=_SHADES, vmin=0, vmax=farthest, edgecolors="white", linewidth=0.3)
        _style(ax, name, reading, fonts)
        x += names + side + _BETWEEN
    height = min(side, _LONGEST_BAR)
    beyond = "max" if float(reading.distances.max()) > farthest else "neither"
    bar = figure.colorbar(mesh, cax=_panel(figure, x, bottom + (side - height) / 2, _BAR, height), extend=beyond)
    unit = "squared distance" if gold is None else "edges; predicted: squared distance"
    bar.set_label(unit, fontsize=7, color=TEXT)
    bar.locator = MaxNLocator(integer=True, nbins=8)
    bar.ax.tick_params(labelsize=7.5, color=GREY, labelcolor=TEXT)
    bar.outline.set_visible(False)
    top = page.get_ylim()[1]
    write(page, _MARGIN, top - 14, heading(reading), fonts, size=10, weight="bold", va="center", color=TEXT)
    write(page, _MARGIN, 7, fonts.note(), fonts, size=7.5, va="center", color=GREY)
    return figure


def _panel(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Axes at a place of the figure, all in points."""
    across, up = figure.get_size_inches() * 72.0
    return figure.add_axes((x / across, y / up, width / across, height / up))


def _style(ax: Axes, name: str, reading: TreeReading, fonts: Fonts) -> None:
    ax.set_title(name, loc="left", fontsize=9.5, color=TEXT)
    ax.invert_yaxis()
    if is_right_to_left(reading.words):
        ax.invert_xaxis()
    name_words(ax, "x", reading, fonts, shift=0.5, rotation=90)
    name_words(ax, "y", reading, fonts, shift=0.5)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
