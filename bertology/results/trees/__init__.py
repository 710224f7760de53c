"""Trees that a structural probe parses, drawn: arcs over the words, depths, distances; for papers and pages too."""

from bertology.results.trees._markup import to_displacy, to_tikz
from bertology.results.trees._reading import TreeReading, plot_arcs, plot_depths, plot_distances, to_png, to_svg

__all__ = ["TreeReading", "plot_arcs", "plot_depths", "plot_distances", "to_displacy", "to_png", "to_svg", "to_tikz"]
