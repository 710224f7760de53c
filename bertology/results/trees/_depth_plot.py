"""Depth of each word, gold beside predicted."""

from __future__ import annotations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bertology.errors import ResultsError
from bertology.results._plot import LayerFigure
from bertology.results.trees._canvas import BLUE, GREY, PALE, TEXT, foot_note, heading, name_words
from bertology.results.trees._direction import is_right_to_left
from bertology.results.trees._fonts import Fonts
from bertology.results.trees._reading import TreeReading

_INCHES_A_WORD, _LEAST_WIDTH, _HEIGHT = 0.3, 4.2, 3.4
_FAR = 0.75
"""Inches beside the words."""


def draw_depths(reading: TreeReading) -> Figure:
    """See :func:`bertology.results.trees.plot_depths`."""
    if reading.depths is None:
        raise ResultsError("the reading has no predicted depths: read the sentence with a probe of depth too")
    size = len(reading.words)
    width = max(_LEAST_WIDTH, _FAR + _INCHES_A_WORD * size)
    figure = LayerFigure(figsize=(width, _HEIGHT), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    places = [place for place in range(size) if reading.scored[place]]
    predicted = [reading.depths[place] for place in places]
    if reading.gold_depths is not None:
        gold = [reading.gold_depths[place] for place in places]
        ax.vlines(places, gold, predicted, color=PALE, linewidth=1.0, zorder=1)
        ax.plot(
            places, gold, color=GREY, marker="o", markersize=6, markerfacecolor="white", linewidth=1.0, label="gold"
        )
    ax.plot(places, predicted, color=BLUE, marker="s", markersize=4, linewidth=1.2, linestyle=(0, (4, 2)),
            label="predicted")  # fmt: skip
    # The root on top, as trees are drawn; half an edge of air over it.
    deepest = max([1.0, *predicted, *(reading.gold_depths or ())])
    ax.set_ylim(deepest + 0.4, min([0.0, *predicted]) - 0.4)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    ax.set_ylabel("depth, edges below the root", fontsize=8.5, color=TEXT)
    ax.tick_params(axis="y", labelsize=8, color=GREY, labelcolor=TEXT)
    ends = (-0.7, size - 0.3)
    ax.set_xlim(ends[::-1] if is_right_to_left(reading.words) else ends)
    ax.grid(axis="y", color="#E3E3E3", linewidth=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
    fonts = Fonts.of(reading.words)
    name_words(ax, "x", reading, fonts)
    ax.set_title(heading(reading), loc="left", fontsize=10, fontweight="bold", color=TEXT, pad=18)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=2, fontsize=8, frameon=False, borderpad=0.2)
    foot_note(figure, fonts)
    return figure
