"""The pictures of a reading; what draws them is imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bertology.errors import ResultsError
from bertology.results.trees._reading import TreeReading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Picture = Literal["arcs", "depths", "distances"]


def plot_arcs(reading: TreeReading, *, width: float = 10.0) -> Figure:
    """Draw the gold tree over the words and the predicted one under them.

    Edges found in both are alike on both sides; what was missed and what was invented differ in colour and in the
    style of the line. Arrows point at dependents where a tree is directed; relations are named where they are known.
    Without a gold tree the predicted one stands above, alone. Words of a script that runs from right to left are
    laid out so; words that are not scored are pale.

    Args:
        reading: what a probe read of one sentence.
        width: the most inches of a row of words; a longer sentence is broken into rows, and arcs go on from one
            to the next.

    Raises:
        ResultsError: the width leaves no room for words.
    """
    from bertology.results.trees._arc_plot import draw_arcs

    if not width >= 2:
        raise ResultsError(f"a picture of arcs cannot be {width} inches wide: give a width of 2 or more")
    return draw_arcs(reading, width=width)


def plot_depths(reading: TreeReading) -> Figure:
    """Draw the depth of each word, gold beside predicted, the root on top (Hewitt & Manning 2019, figure 3).

    Raises:
        ResultsError: the reading has no predicted depths.
    """
    from bertology.results.trees._depth_plot import draw_depths

    return draw_depths(reading)


def plot_distances(reading: TreeReading) -> Figure:
    """Draw the distances between all words, gold beside predicted, in shades of one scale.

    The scale is that of the gold tree, in edges; what is predicted to lie farther apart than any two words of the
    gold tree has the last shade. Without a gold tree the predicted distances stand alone, on their own scale.

    Raises:
        ResultsError: the reading has no predicted distances.
    """
    from bertology.results.trees._distance_plot import draw_distances

    return draw_distances(reading)


def to_svg(reading: TreeReading, *, picture: Picture = "arcs") -> bytes:
    """A picture as an SVG file; the same reading gives the same bytes.

    Raises:
        ResultsError: the reading lacks what the picture shows.
    """
    from bertology.results._plot import figure_bytes

    return figure_bytes(_draw(reading, picture), "svg")


def to_png(reading: TreeReading, *, picture: Picture = "arcs") -> bytes:
    """A picture as a PNG file; the same reading gives the same bytes.

    Raises:
        ResultsError: the reading lacks what the picture shows.
    """
    from bertology.results._plot import figure_bytes

    return figure_bytes(_draw(reading, picture), "png")


def _draw(reading: TreeReading, picture: Picture) -> Figure:
    pictures = {"arcs": plot_arcs, "depths": plot_depths, "distances": plot_distances}
    if picture not in pictures:
        raise ResultsError(f"there is no picture {picture!r}: choose one of {', '.join(pictures)}")
    return pictures[picture](reading)
