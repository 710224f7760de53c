"""Loss landscapes: one loss on the same items at many weights, curvature, the table and its figure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bertology._files import explained_system_errors, given_path, taken, write_derived
from bertology._folder import versions
from bertology._machine import explained_shortage
from bertology._names import folder_name, short_names
from bertology._settings import checked
from bertology.activations.progress import BarProgress, Progress, can_show, silent
from bertology.corpora import load_corpus
from bertology.encoders import ModelSource, model_fingerprint, model_name, resolve_model
from bertology.errors import BertologyError, ModelError, SignalError
from bertology.landscapes._losses import (
    Eigenvalue,
    Objective,
    Sharpness,
    check_spans,
    cut,
    filter_normalised,
    gram_matrix,
    project,
    sharpness,
    top_eigenvalue,
)
from bertology.landscapes._settings import MOST_MODELS, LandscapeSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bertology._figures import ShownFigure
    from bertology.encoders import Encoder


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
    """Unit of the loss."""
    n_items: int
    """Items that each loss is a mean over."""
    barrier: float | None
    """Highest loss on the line between the last two models above the straight line between their losses,
    max_α J(α) − (1 − α) J(0) − α J(1) for α in 0…1; None of one model."""
    sharpness: tuple[Sharpness, ...]
    """One result for each model; empty where it was left out."""
    top_eigenvalue: tuple[Eigenvalue, ...]
    """One result for each model; empty where it was left out."""
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

        found = {**self.details, **{one.name: getattr(self, one.name) for one in fields(self)[1:-1]}}
        record = json.dumps(found, indent=1, default=asdict) + "\n"
        files = {
            "landscape.parquet": frame_to_parquet(self.table),
            "landscape.svg": figure_bytes(self.plot(), "svg"),
            _RECORD: record.encode(),  # last: it makes the landscape finished
        }
        write_derived(given_path(folder), files, remedy="choose another --out")
        return given_path(folder)

    def __repr__(self) -> str:
        return f"<Landscape of {', '.join(self.models)}: {len(self.table)} points>"

    def _repr_html_(self) -> str:
        return str(self.table.to_html(index=False, float_format="{:.4f}".format, na_rep="–", max_rows=30))

    def _draw_line(self, axes: Axes, figure: ShownFigure) -> None:
        from bertology import _figures

        grid, models = self._rows("grid"), self._rows("model")
        axes.plot(grid["x"], grid["loss"], color=_figures.BLUE, linewidth=1.4)
        axes.plot(models["x"], models["loss"], "--", color=_figures.PALE, linewidth=0.9)
        self._draw_points(axes, "loss", linewidth=0.8, label="checkpoints, at their own weights")
        if len(self._rows("checkpoint")):
            axes.legend(fontsize=7, frameon=False)
        axes.set_xlabel(f"α, from {self.models[0]} to {self.models[1]}", fontsize=8)
        axes.set_ylabel(f"loss ({self.unit})", fontsize=8)

    def _draw_plane(self, axes: Axes, figure: ShownFigure) -> None:
        from bertology import _figures

        heights = self._rows("grid").pivot(index="y", columns="x", values="loss")
        values: Any = np.ma.masked_invalid(heights.to_numpy(dtype=np.float64))
        low, high = float(values.min()), float(values.max())
        middle = float(np.median(values.compressed())) - low
        if high <= low:
            levels = np.array([low - 0.5, low + 0.5])
        elif middle > 0 and (high - low) / middle > _WIDE:
            levels = low + np.geomspace((high - low) * 1e-3, high - low, _LEVELS)
        else:
            levels = np.linspace(low, high, _LEVELS)
        where = heights.columns, heights.index, values
        shades = axes.contourf(*where, levels=levels, cmap=_figures.SHADES, extend="both")
        axes.contour(*where, levels=levels, colors=_figures.GREY, linewidths=0.4)
        bar = figure.colorbar(shades, ax=axes)
        bar.set_label(f"loss ({self.unit})", fontsize=8)
        bar.ax.tick_params(labelsize=7)
        self._draw_points(axes, "y", linewidth=1.0)
        spanned = [f"{self.models[0]} → {name}" for name in self.models[1:]]
        labels = spanned or ["random direction 1, filter-normalised", "random direction 2"]
        axes.set_xlabel(labels[0], fontsize=8)
        axes.set_ylabel(labels[1], fontsize=8)

    def _draw_points(self, axes: Axes, height: str, **style: Any) -> None:
        """Draw models and checkpoints."""
        from bertology import _figures

        models, checkpoints = self._rows("model"), self._rows("checkpoint")
        if len(checkpoints):
            style |= {"color": _figures.GREEN, "markersize": 4, "markerfacecolor": "white"}
            axes.plot(checkpoints["x"], checkpoints[height], "s-", **style)
        axes.plot(models["x"], models[height], "o", color=_figures.VERMILION, markersize=5)
        for name, x, y in zip(models["name"], models["x"], models[height], strict=True):
            axes.annotate(name, (x, y), textcoords="offset points", xytext=(5, 5), fontsize=7)
        axes.tick_params(labelsize=7)

    def _rows(self, kind: str) -> pd.DataFrame:
        return self.table[self.table["kind"] == kind]


_AXES = 0
_CHECKPOINT = "checkpoint-"


@explained_system_errors()
@explained_shortage("this landscape")
def landscape(
    *models: str | Path | Encoder | tuple[Any, Any],
    corpus: Any = "pocket",
    columns: str | Sequence[str] | None = None,
    split: str = "dev",
    head: str | Path | None = None,
    trajectory: str | Path | Sequence[str | Path] = (),
    out: str | Path | None = None,
    overwrite: bool = False,
    device: str = "auto",
    progress: bool | None = None,
    **settings: Any,
) -> Landscape:
    """The loss around a model, on the line between two models, or in the plane of three.

    >>> from bertology import landscape
    >>> found = landscape("pocket", corpus="pocket", points=5)  # doctest: +SKIP

    Around one model two random directions are filter-normalised (Li et al. 2018). Between two the line is
    θ_0 + α (θ_1 − θ_0), of three the plane is θ_0 + α (θ_1 − θ_0) + β (θ_2 − θ_0) (Hao et al. 2019). Each loss is over
    the same items with the same masks. Losses of one model, and curvature, compare with those of another only on the
    same text, and curvature at about equal scale: slices and sharpness depend on the parametrisation.

    Args:
        models: one to three of one shape and tokenizer, as of :func:`bertology.probe`.
        corpus: as of :func:`bertology.load_corpus`.
        columns: of a table or column file, as of :func:`bertology.load_corpus`.
        split: whose sentences the loss is over.
        head: the folder of a model fine-tuned by :func:`bertology.finetune`, such as ``tuned/seed-1``: the loss is that
            of its task, and models without a head for these labels take its head. Left out, the loss is that of
            masked pieces in bits.
        trajectory: models, or a folder with ``checkpoint-N`` in it, that are projected onto the line or plane.
        out: a folder for table, record and figure.
        overwrite: whether a landscape that is in the folder already may be replaced.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        progress: whether to draw a bar; by default in a notebook, and if standard error is a terminal.
        settings: fields of :class:`bertology.landscapes.LandscapeSettings`, such as ``points`` or ``radius``.

    Returns:
        The losses: shows as a table in a notebook; has ``.table``, ``.plot()``, ``.barrier``, ``.sharpness``,
        ``.top_eigenvalue``, ``.summary()`` and ``.save(folder)``.

    Raises:
        BertologyError: models are of other shapes or tokenizers, lack the head, or span no plane; there is no such
            corpus, split or setting; or the folder holds a landscape.
    """
    chosen = checked(LandscapeSettings, settings, where="landscape")
    if out is not None and not overwrite and (given_path(out) / _RECORD).exists():
        raise BertologyError(f"{out} holds a landscape already: choose another --out, or give --overwrite")
    if not 1 <= len(models) <= MOST_MODELS:
        raise ModelError(f"{len(models)} models: give one to three; checkpoints go into trajectory")
    checkpoints: list[tuple[str, ModelSource]] = []
    for one in [trajectory] if isinstance(trajectory, str | Path) else taken(trajectory, "trajectory"):
        inside = {path.name.removeprefix(_CHECKPOINT): path for path in Path(one).glob(f"{_CHECKPOINT}*")}
        names = [str(inside[number]) for number in sorted(filter(str.isdecimal, inside), key=int)] or [str(one)]
        checkpoints += [(folder_name(name), resolve_model(name)) for name in names]
    if checkpoints and len(models) == 1:
        remedy = "give a second model, such as its last checkpoint"
        raise ModelError(f"trajectory: random directions hardly meet it; {remedy}")
    sources = [resolve_model(model_name(model)) for model in models]
    loaded = load_corpus(corpus, columns=columns)
    sentences = loaded[split][: chosen.sentences]
    objective = Objective(sources[0], None if head is None else given_path(head), sentences, chosen, device)
    shown = can_show() if progress is None else progress
    bar = BarProgress(f"landscape of {sources[0].title}") if shown else silent
    titles = [short_names([source.name for source in sources])[source.name] for source in sources]
    # The same model twice is numbered.
    names = [
        f"{title} ({titles[: place + 1].count(title)})" if titles.count(title) > 1 else title
        for place, title in enumerate(titles)
    ]
    found = _evaluated(objective, chosen, names, [objective.point(source) for source in sources], checkpoints, bar)
    bar.finish()
    details = {
        "settings": chosen.model_dump(),
        "corpus": loaded.name,
        "split": split,
        "text_fingerprint": sentences.text_fingerprint,
        "fingerprints": [model_fingerprint(source) for source in sources],
        "head": None if head is None else folder_name(str(head)),
        "direction_cosine": found.pop("cosine"),
        "device": str(objective.encoder.device),
        "versions": versions("torch", "transformers"),
    }
    loss = objective.loss
    result = Landscape(models=tuple(names), unit=loss.unit, n_items=loss.n_items, details=details, **found)
    if out is not None:
        result.save(out)
    return result


def _evaluated(
    objective: Objective,
    settings: LandscapeSettings,
    names: list[str],
    points: list[Any],
    checkpoints: Sequence[tuple[str, ModelSource]],
    bar: Progress,
) -> dict[str, Any]:
    """The table of losses, the barrier, sharpness, eigenvalues, and the cosine of the directions of a plane."""
    loss, origin, count = objective.loss, points[0], len(points)
    is_line = count == 2
    if count > 1:
        directions = [other - origin for other in points[1:]]
    else:
        weights = cut(loss.module, origin)
        directions = [filter_normalised(weights, seed=(settings.seed, _AXES, axis)) for axis in (0, 1)]
    if count == MOST_MODELS or (checkpoints and is_line):
        check_spans(directions, names)
    low, high = settings.extent or {1: (-1.0, 1.0), 2: (0.0, 1.0), 3: (-0.5, 1.5)}[count]
    # Rounded, so that 0 and 1 are exactly on an axis whose steps would meet them but for rounding.
    values = np.linspace(low, high, settings.points or (21 if is_line else 13)).tolist()
    axis = [round(value, 12) for value in values]
    cells = [(x, 0.0) for x in axis] if is_line else [(x, y) for y in axis for x in axis]
    line = np.linspace(0, 1, 21)[1:-1].tolist() if count == MOST_MODELS else []
    each = 1 + settings.directions + settings.iterations
    bar.start(len(cells) + len(line) + count * each + len(checkpoints), unit="evaluations")

    def at(x: float, y: float) -> float:
        """The loss at a point of the line or plane."""
        along = origin + x * directions[0]
        return evaluated(along if is_line else along + y * directions[1])

    def evaluated(point: Any, name: str | None = None) -> float:
        """The loss at a point, which has to be finite at a model's own weights."""
        with loss.at(point):
            value = loss.mean()
        bar.advance(1)
        if name is not None and not math.isfinite(value):
            raise SignalError(f"model {name}: its loss is {value}; give other items, or --set dtype=float64")
        return value

    places = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    rows: list[tuple[Any, ...]] = [
        ("model", name, *place, 0.0, evaluated(point, name))
        for name, point, place in zip(names, points, places, strict=False)
    ]
    ends = [row[-1] for row in rows][-2:]
    rows += [("grid", "", x, y, 0.0, at(x, y)) for x, y in cells]
    rows += [("line", "", 1 - alpha, alpha, 0.0, at(1 - alpha, alpha)) for alpha in line]
    for name, source in checkpoints:
        point = objective.point(source)
        steps, outside = project(point - origin, directions)
        rows.append(("checkpoint", name, *(*steps, 0.0)[:2], outside, evaluated(point, name)))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    between = table[table["kind"] == ("grid" if is_line else "line")]
    alphas = between["x" if is_line else "y"]
    above = between["loss"] - (1 - alphas) * ends[0] - alphas * ends[-1]
    sharp, top = [], []
    for name, point in zip(names, points, strict=True):
        common: dict[str, Any] = {"seed": settings.seed, "model": name, "step": lambda: bar.advance(1)}
        with loss.at(point):
            if n := settings.directions:
                sharp.append(sharpness(loss, radius=settings.radius, n_directions=n, **common))
            if n := settings.iterations:
                top.append(top_eigenvalue(loss, iterations=n, tolerance=settings.tolerance, **common))
    gram = gram_matrix(directions)
    return {
        "table": table,
        "barrier": max([0.0, *above[(alphas > 0) & (alphas < 1)]]) if count > 1 else None,
        "sharpness": tuple(sharp),
        "top_eigenvalue": tuple(top),
        "cosine": None if is_line else float(gram[0, 1] / math.sqrt(gram[0, 0] * gram[1, 1])),
    }
