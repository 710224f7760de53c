"""What a landscape holds: a table of losses, barrier, sharpness and eigenvalues, its figure and its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bertology._files import write_derived
from bertology._inputs import given_path
from bertology.errors import BertologyError
from bertology.landscapes._curvature import Eigenvalue, Sharpness

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bertology._figures import ShownFigure

_RECORD = "landscape.json"
COLUMNS = ("kind", "name", "x", "y", "outside", "loss")
_LEVELS = 14
_WIDE = 20.0
"""Ratio of highest to lowest rise of the loss above which contours are spaced by its logarithm."""


@dataclass(frozen=True)
class Landscape:
    """Losses at many weights of one shape, on the same items; returned by :func:`bertology.landscape`."""

    table: pd.DataFrame
    """A row for each point. ``kind``: ``grid``, ``line`` (between the last two of three models), ``model`` or
    ``checkpoint``; ``name`` of the latter two; ``x`` and ``y``, steps in the two directions (of a line ``y`` is 0), of
    a checkpoint those after projection; ``outside``, its distance from the line or plane as a multiple of the length
    of the first direction; ``loss``, of a checkpoint at its own weights."""
    models: tuple[str, ...]
    unit: str
    """Of the loss."""
    n_items: int
    """Items that each loss is a mean over."""
    barrier: float | None
    """Highest loss on the line between the last two models above the straight line between their losses,
    max_α J(α) − (1 − α) J(0) − α J(1) for α in 0…1; None of one model."""
    sharpness: tuple[Sharpness, ...]
    """By model; empty where it was left out."""
    top_eigenvalue: tuple[Eigenvalue, ...]
    """By model; empty where it was left out."""
    details: Mapping[str, Any]
    """Settings, fingerprints and versions."""

    @property
    def is_line(self) -> bool:
        """Whether it is a line between two models, not a plane."""
        return len(self.models) == 2

    def summary(self) -> str:
        """Losses of the models, barrier, sharpness and eigenvalues, in lines for a terminal."""
        unit = self.unit
        of_models = self.table[self.table["kind"] == "model"]
        lines = [f"{row.name}: loss {row.loss:.4f} {unit}" for row in of_models.itertuples(index=False)]
        if self.barrier is not None:
            lines.append(f"barrier between {self.models[-2]} and {self.models[-1]}: {self.barrier:.4f} {unit}")
        for one in self.sharpness:
            interval = f"95 % interval {one.ci_low:.4f} to {one.ci_high:.4f}, {len(one.rises)} directions"
            lines.append(f"{one.model}: sharpness {one.value:.4f} {unit} at radius {one.radius:g} ({interval})")
        for top in self.top_eigenvalue:
            state = "converged" if top.converged else "not converged"
            residuals = f"residuals {top.residual:.2g} and {top.least_residual:.2g}"
            how = f"{state} after {top.n_iterations} products, {residuals}, {top.dtype}"
            warning = "; the least is larger in magnitude: no minimum" if -top.least > top.value else ""
            ends = f"top Hessian eigenvalue {top.value:.4g}, least {top.least:.4g}"
            lines.append(f"{top.model}: {ends} ({how}){warning}")
        return "\n".join(lines)

    def plot(self, *, title: str | None = None) -> ShownFigure:
        """The loss along a line, or as contours over a plane, with models and checkpoints."""
        from bertology import _figures

        figure = _figures.new_figure(5.2, 3.4 if self.is_line else 4.4)
        axes = figure.add_subplot()
        (self._draw_line if self.is_line else self._draw_plane)(axes, figure)
        if title is not None:
            axes.set_title(title, fontsize=9, color=_figures.TEXT)
        _figures.write_caption(figure, f"Mean of {self.n_items:,} items, the same at every point.")
        return figure

    def save(self, folder: str | Path) -> Path:
        """Write ``landscape.parquet``, ``landscape.json`` and ``landscape.svg`` into a folder.

        Raises:
            BertologyError: the folder cannot be written.
        """
        from bertology._figures import figure_bytes
        from bertology.results.rows import frame_to_parquet

        path = given_path(folder)
        found = {
            **self.details,
            "models": self.models,
            "unit": self.unit,
            "n_items": self.n_items,
            "barrier": self.barrier,
            "sharpness": [asdict(one) for one in self.sharpness],
            "top_eigenvalue": [asdict(one) for one in self.top_eigenvalue],
        }
        files = {
            "landscape.parquet": frame_to_parquet(self.table),
            "landscape.svg": figure_bytes(self.plot(), "svg"),
            _RECORD: (json.dumps(found, indent=1) + "\n").encode(),  # last: it makes the landscape finished
        }
        write_derived(path, files, remedy="choose another --out")
        return path

    def __repr__(self) -> str:
        return f"<Landscape of {', '.join(self.models)}: {len(self.table)} points>"

    def _repr_html_(self) -> str:
        return str(self.table.to_html(index=False, float_format="{:.4f}".format, na_rep="–", max_rows=30))

    def _rows(self, kind: str) -> pd.DataFrame:
        return self.table[self.table["kind"] == kind]

    def _draw_line(self, axes: Axes, figure: ShownFigure) -> None:
        from bertology import _figures

        grid, models, checkpoints = self._rows("grid"), self._rows("model"), self._rows("checkpoint")
        axes.plot(grid["x"], grid["loss"], color=_figures.BLUE, linewidth=1.4)
        axes.plot(models["x"], models["loss"], "--", color=_figures.PALE, linewidth=0.9)
        axes.plot(models["x"], models["loss"], "o", color=_figures.VERMILION, markersize=5)
        if len(checkpoints):
            style: dict[str, Any] = {
                "color": _figures.GREEN,
                "markersize": 4,
                "linewidth": 0.8,
                "markerfacecolor": "white",
            }
            axes.plot(checkpoints["x"], checkpoints["loss"], "s-", label="checkpoints, at their own weights", **style)
            axes.legend(fontsize=7, frameon=False)
        for name, x, height in zip(models["name"], models["x"], models["loss"], strict=True):
            _name_point(axes, name, x, height)
        axes.set_xlabel(f"α, from {self.models[0]} to {self.models[1]}", fontsize=8)
        axes.set_ylabel(f"loss ({self.unit})", fontsize=8)
        axes.tick_params(labelsize=7)

    def _draw_plane(self, axes: Axes, figure: ShownFigure) -> None:
        from bertology import _figures

        grid, checkpoints = self._rows("grid"), self._rows("checkpoint")
        heights = grid.pivot(index="y", columns="x", values="loss")
        values = np.ma.masked_invalid(heights.to_numpy(dtype=np.float64))
        levels = _levels(values)
        shades = axes.contourf(
            heights.columns, heights.index, values, levels=levels, cmap=_figures.SHADES, extend="both"
        )
        axes.contour(heights.columns, heights.index, values, levels=levels, colors=_figures.GREY, linewidths=0.4)
        bar = figure.colorbar(shades, ax=axes)
        bar.set_label(f"loss ({self.unit})", fontsize=8)
        bar.ax.tick_params(labelsize=7)
        if len(checkpoints):
            style: dict[str, Any] = {
                "color": _figures.GREEN,
                "markersize": 4,
                "linewidth": 1,
                "markerfacecolor": "white",
            }
            axes.plot(checkpoints["x"], checkpoints["y"], "s-", **style)
        models = self._rows("model")
        axes.plot(models["x"], models["y"], "o", color=_figures.VERMILION, markersize=5)
        for name, x, y in zip(models["name"], models["x"], models["y"], strict=True):
            _name_point(axes, name, x, y)
        spanned = [f"{self.models[0]} → {name}" for name in self.models[1:]]
        labels = spanned or ["random direction 1, filter-normalised", "random direction 2"]
        axes.set_xlabel(labels[0], fontsize=8)
        axes.set_ylabel(labels[1], fontsize=8)
        axes.tick_params(labelsize=7)


def check_free(folder: Path) -> None:
    """Raise a BertologyError where a folder holds a landscape."""
    if (folder / _RECORD).exists():
        raise BertologyError(f"{folder} holds a landscape already: choose another --out, or give --overwrite")


def _name_point(axes: Axes, name: str, x: float, y: float) -> None:
    axes.annotate(name, (x, y), textcoords="offset points", xytext=(5, 5), fontsize=7)


def _levels(values: Any) -> Any:
    """Heights of contours, spaced by the logarithm of the rise where this is many times higher at some points."""
    low, high = float(values.min()), float(values.max())
    if high <= low:
        return np.array([low - 0.5, low + 0.5])
    middle = float(np.median(values.compressed())) - low
    if middle > 0 and (high - low) / middle > _WIDE:
        return low + np.geomspace((high - low) * 1e-3, high - low, _LEVELS)
    return np.linspace(low, high, _LEVELS)
