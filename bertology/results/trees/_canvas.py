"""What the pictures of trees share: colours, words measured and set in points, headings."""

from __future__ import annotations

from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from bertology.results._names import brief
from bertology.results._plot import LayerFigure
from bertology.results.trees._fonts import Fonts
from bertology.results.trees._reading import TreeReading

# Okabe & Ito's colours, told apart by colour-blind readers; line styles and markers tell them apart in grey.
BLUE, VERMILION, PURPLE, GREY, PALE, TEXT = "#0072B2", "#D55E00", "#CC79A7", "#5A5A5A", "#8C8C8C", "#222222"
POINTS = 72.0
"""An inch."""
_DPI = 200
_MOST_LETTERS = 18
NAME_SIZE = 8.0


class Ruler:
    """How wide words are when drawn."""

    def __init__(self, fonts: Fonts) -> None:
        self._fonts = fonts

    def width(self, text: str, size: float, *, bold: bool = False) -> float:
        """Points from the first letter to the last."""
        font = FontProperties(family=list(self._fonts.families), size=size, weight="bold" if bold else "normal")
        width, _, _ = text_to_path.get_text_width_height_descent(self._fonts.drawable(text), font, ismath=False)
        return width


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of that many points, and axes over all of it on which a unit is a point."""
    figure = LayerFigure(figsize=(width / POINTS, height / POINTS), dpi=_DPI)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(0, width)
    ax.set_ylim(0, height)
    ax.set_axis_off()
    return figure, ax


def clipped(word: str) -> str:
    """A word that names a row or column; of a web address, say, its beginning."""
    return word if len(word) <= _MOST_LETTERS else f"{word[: _MOST_LETTERS - 1]}…"


def name_words(
    ax: Axes,
    along: Literal["x", "y"],
    reading: TreeReading,
    fonts: Fonts,
    *,
    shift: float = 0.0,
    rotation: float = 60.0,
) -> None:
    """Set the words along an axis, pale where they are not scored.

    Args:
        ax: the panel.
        along: the axis.
        reading: whose words.
        fonts: that draw them.
        shift: of each word from its place.
        rotation: of the words along x, in degrees.
    """
    axis = ax.xaxis if along == "x" else ax.yaxis
    places = [place + shift for place in range(len(reading.words))]
    axis.set_ticks(places, [fonts.drawable(clipped(word)) for word in reading.words])
    ax.tick_params(axis=along, labelsize=NAME_SIZE, color=GREY, labelcolor=TEXT)
    for label, scored in zip(axis.get_ticklabels(), reading.scored, strict=True):
        # A dollar sign begins no formula.
        label.set(fontfamily=list(fonts.families), parse_math=False, color=TEXT if scored else PALE)
        if along == "x":
            label.set(rotation=rotation, ha="right", va="center_baseline", rotation_mode="anchor")


def foot_note(figure: Figure, fonts: Fonts) -> None:
    """Say below a figure what its hollow squares stand for."""
    if note := fonts.note():
        figure.supxlabel(note, fontsize=7.5, color=GREY, x=0.01, ha="left", multialignment="left")


def write(ax: Axes, x: float, y: float, text: str, fonts: Fonts, **style: Any) -> None:
    """Set words as they stand: a dollar sign begins no formula."""
    ax.text(x, y, fonts.drawable(text), family=list(fonts.families), parse_math=False, **style)


def heading(reading: TreeReading) -> str:
    """What was read."""
    return f"{brief(reading.model)} · layer {reading.layer}"


def score(reading: TreeReading) -> str:
    """How much of the gold tree was found; empty without one."""
    if reading.uuas is None or reading.gold_edges is None:
        return ""
    return f"UUAS {100 * reading.uuas:.1f}: {len(reading.shared_edges)} of {len(reading.gold_edges)} gold edges"
