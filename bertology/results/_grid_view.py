"""Tables of text in all formats."""

from __future__ import annotations

from dataclasses import dataclass

from bertology.results._exports import grid_to_html, grid_to_latex, grid_to_markdown, grids_to_csv
from bertology.results._grid import Grid


@dataclass(frozen=True, repr=False)
class GridView:
    """Tables that look across models or seeds."""

    grids: tuple[Grid, ...]

    def to_markdown(self) -> str:
        """Pipe tables."""
        return "\n".join(grid_to_markdown(grid) for grid in self.grids)

    def to_latex(self) -> str:
        """Booktabs tables, numbers aligned by siunitx."""
        return "\n".join(grid_to_latex(grid) for grid in self.grids)

    def to_html(self) -> str:
        """Tables that stand in a page or notebook without a style sheet."""
        return "\n".join(grid_to_html(grid) for grid in self.grids)

    def to_csv(self) -> str:
        """One line a number; fractions, not percentages."""
        return grids_to_csv(self.grids)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return self.to_markdown()
