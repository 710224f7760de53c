"""Distances between all words, gold beside predicted."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bertology.errors import ResultsError
from bertology.results.trees._canvas import GREY, TEXT, foot_note, framed, heading, name_words
from bertology.results.trees._fonts import Fonts, is_right_to_left
from bertology.results.trees._reading import TreeReading

# From near and deep to far and pale, in one hue, which survives print in grey.
_SHADES = LinearSegmentedColormap.from_list("distances", ["#08306b", "#2474b3", "#7fb8dc", "#c6dbef", "#f7fafd"])
_INCHES_A_WORD, _LEAST_PANEL, _FAR = 0.165, 1.9, 0.9


def draw_distances(reading: TreeReading) -> Figure:
    """See :func:`bertology.results.trees.plot_distances`."""
    if reading.distances is None:
        raise ResultsError("the reading has no predicted distances: read the sentence with a probe of distance")
    gold, predicted = reading.gold_distances, reading.distances
    panels = [("predicted", predicted)] if gold is None else [("gold", gold), ("predicted", predicted)]
    farthest = max(float(panels[0][1].max()), 1.0)
    panel = max(_LEAST_PANEL, _INCHES_A_WORD * len(reading.words))
    figure, axes = framed((panel + _FAR) * len(panels) + _FAR, panel + 1.3, panels=len(panels))
    fonts = Fonts.of(reading.words)
    for ax, (name, distances) in zip(axes, panels, strict=True):
        # A mesh stays sharp in vector formats, where an image would be resampled.
        mesh = ax.pcolormesh(distances, cmap=_SHADES, vmin=0, vmax=farthest, edgecolors="white", linewidth=0.3)
        _style(ax, name, reading, fonts)
    beyond = "max" if float(predicted.max()) > farthest else "neither"
    bar = figure.colorbar(mesh, ax=list(axes), shrink=0.8, aspect=25, pad=0.02, extend=beyond)
    bar.set_label("distance, edges (predicted: squared distance)", fontsize=7.5, color=TEXT)
    bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    bar.ax.tick_params(labelsize=7.5, color=GREY, labelcolor=TEXT)
    bar.outline.set_visible(False)
    figure.suptitle(heading(reading), x=0.01, ha="left", fontsize=10, fontweight="bold", color=TEXT)
    foot_note(figure, fonts)
    return figure


def _style(ax: Axes, name: str, reading: TreeReading, fonts: Fonts) -> None:
    ax.set_title(name, loc="left", fontsize=9.5, color=TEXT)
    ax.set_aspect("equal")
    ax.invert_yaxis()
    if is_right_to_left(reading.words):
        ax.invert_xaxis()
    for axis in ("x", "y"):
        name_words(ax, axis, reading, fonts, shift=0.5)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
