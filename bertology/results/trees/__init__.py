"""Trees that a structural probe reads, drawn: arcs over the words, depths, distances; for papers and pages too."""

from bertology.results.trees._displacy import to_displacy
from bertology.results.trees._pictures import plot_arcs, plot_depths, plot_distances, to_png, to_svg
from bertology.results.trees._reading import TreeReading
from bertology.results.trees._tikz import to_tikz

__all__ = [
    "TreeReading",
    "plot_arcs",
    "plot_depths",
    "plot_distances",
    "to_displacy",
    "to_png",
    "to_svg",
    "to_tikz",
]
