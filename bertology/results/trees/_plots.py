"""Depths of words and distances between them, gold and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bertology._figures import BLUE, GREY, PALE, TEXT, new_figure, write_caption
from bertology._fonts import Fonts
from bertology.results.render.plot import draw_grid, style_axes
from bertology.results.trees._arcs import Words

# From near and deep to far and pale, in one hue, which survives print in grey.
_SHADES = LinearSegmentedColormap.from_list("distances", ["#08306b", "#2474b3", "#7fb8dc", "#c6dbef", "#f7fafd"])
_MOST_LETTERS = 18
_NAME_SIZE = 8.0
# In inches.
_WORD, _LEAST_WIDTH, _FAR, _HEIGHT = 0.3, 4.2, 0.75, 3.4
_CELL, _LEAST_PANEL, _BAR, _HEADER = 0.17, 1.6, 1.0, 0.8


def draw_depths(words: Words, depths: Sequence[float], gold: Sequence[int] | None) -> Figure:
    """Draw the predicted depth of each scored word, and the gold one where it is known, the root on top."""
    size = len(words.texts)
    figure = new_figure(max(_LEAST_WIDTH, _FAR + _WORD * size), _HEIGHT)
    ax = figure.subplots()
    places = [place for place in range(size) if words.scored[place]]
    predicted = [depths[place] for place in places]
    if gold is not None:
        of_gold = [gold[place] for place in places]
        ax.vlines(places, of_gold, predicted, color=PALE, linewidth=1.0, zorder=1)
        marks: dict[str, Any] = {"marker": "o", "markersize": 6, "markerfacecolor": "white"}
        ax.plot(places, of_gold, color=GREY, linewidth=1.0, label="gold", **marks)
    line: dict[str, Any] = {"marker": "s", "markersize": 4, "linewidth": 1.2, "linestyle": (0, (4, 2))}
    ax.plot(places, predicted, color=BLUE, label="predicted", **line)
    # The root on top, as trees are drawn; half an edge of air over it.
    ax.set_ylim(max([1.0, *predicted, *(gold or ())]) + 0.4, min([0.0, *predicted]) - 0.4)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    ax.set_ylabel("depth, edges below the root", fontsize=8.5, color=TEXT)
    ax.tick_params(axis="y", labelsize=8, color=GREY, labelcolor=TEXT)
    ends = (-0.7, size - 0.3)
    ax.set_xlim(ends[::-1] if words.mirrored else ends)
    draw_grid(ax)
    style_axes(ax)
    fonts = Fonts.of(words.texts)
    _name_words(ax, words, fonts, rotation=60.0)
    ax.set_title(words.title, loc="left", fontsize=10, fontweight="bold", color=TEXT, pad=18)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=2, fontsize=8, frameon=False, borderpad=0.2)
    _write_note(figure, fonts)
    return figure


def draw_distances(words: Words, distances: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Figure:
    """Draw ``[word, word]`` predicted distances, and the gold ones where they are known, on one scale."""
    panels: list[tuple[str, NDArray[np.float64]]] = [("predicted", np.asarray(distances, dtype=np.float64))]
    if gold is not None:
        panels.insert(0, ("gold", gold.astype(np.float64)))
    farthest = max(float(panels[0][1].max()), 1.0)
    fonts = Fonts.of(words.texts)
    names = max(fonts.width(_clipped(word), _NAME_SIZE) for word in words.texts) / 72
    side = max(_LEAST_PANEL, _CELL * len(words.texts))
    figure = new_figure((names + side + 0.3) * len(panels) + _BAR, _HEADER + side + names)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.08)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, values) in zip(axes, panels, strict=True):
        # A mesh stays sharp in vector formats, where an image would be resampled.
        mesh = ax.pcolormesh(values, cmap=_SHADES, vmin=0, vmax=farthest, edgecolors="white", linewidth=0.3)
        ax.set_title(name, loc="left", fontsize=9.5, color=TEXT)
        ax.invert_yaxis()
        if words.mirrored:
            ax.invert_xaxis()
        _name_words(ax, words, fonts, shift=0.5, rotation=90.0)
        _name_words(ax, words, fonts, shift=0.5)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    beyond = "max" if float(panels[-1][1].max()) > farthest else "neither"
    bar = figure.colorbar(mesh, ax=axes, extend=beyond, fraction=0.05, aspect=18)
    bar.set_label("squared distance" if gold is None else "edges; predicted: squared distance", fontsize=7, color=TEXT)
    bar.locator = MaxNLocator(integer=True, nbins=8)
    bar.ax.tick_params(labelsize=7.5, color=GREY, labelcolor=TEXT)
    bar.outline.set_visible(False)
    figure.suptitle(words.title, x=0.01, ha="left", fontsize=10, fontweight="bold", color=TEXT)
    _write_note(figure, fonts)
    return figure


def _clipped(word: str) -> str:
    """A word that names a row or column; of a web address, say, its beginning."""
    return word if len(word) <= _MOST_LETTERS else f"{word[: _MOST_LETTERS - 1]}…"


def _name_words(ax: Axes, words: Words, fonts: Fonts, *, shift: float = 0.0, rotation: float | None = None) -> None:
    """Set the words along the x axis at a rotation in degrees, or along the y axis without; pale if not scored."""
    axis = ax.yaxis if rotation is None else ax.xaxis
    axis.set_ticks(np.arange(len(words.texts)) + shift, [fonts.drawable(_clipped(word)) for word in words.texts])
    ax.tick_params(axis="y" if rotation is None else "x", labelsize=_NAME_SIZE, color=GREY, labelcolor=TEXT)
    for label, is_scored in zip(axis.get_ticklabels(), words.scored, strict=True):
        # A dollar sign begins no formula.
        label.set(fontfamily=list(fonts.families), parse_math=False, color=TEXT if is_scored else PALE)
        if rotation is not None:
            label.set(rotation=rotation, ha="right", va="center_baseline", rotation_mode="anchor")


def _write_note(figure: Figure, fonts: Fonts) -> None:
    """Say below a figure what its hollow squares stand for."""
    if note := fonts.note():
        write_caption(figure, note)
