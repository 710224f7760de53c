"""Loss landscapes: one loss on the same items at many weights, curvature, the table and its figure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bertology._files import explained_system_errors, write_derived
from bertology._folder import versions
from bertology._inputs import given_path, taken
from bertology._memory import explained_shortage
from bertology._names import folder_name, short_names
from bertology.activations.progress import BarProgress, Progress, can_show, silent
from bertology.corpora import load_corpus
from bertology.encoders import ModelSource, model_fingerprint, model_name, resolve_model
from bertology.errors import BertologyError, ModelError, SignalError
from bertology.landscapes._curvature import Eigenvalue, Sharpness, sharpness, top_eigenvalue
from bertology.landscapes._losses import (
    Objective,
    Weights,
    check_spans,
    difference,
    filter_normalised,
    gram_matrix,
    make_objective,
    mean_loss,
    moved,
    placed,
    project,
)
from bertology.landscapes._settings import MOST_MODELS, LandscapeSettings, landscape_settings

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


_AXES = 0
_CHECKPOINT = "checkpoint-"
Row = tuple[str, str, float, float, float, float]


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
    chosen = landscape_settings(settings)
    if out is not None and not overwrite:
        check_free(given_path(out))
    if not 1 <= len(models) <= MOST_MODELS:
        raise ModelError(f"{len(models)} models: give one to three; checkpoints go into trajectory")
    checkpoints = _checkpoints(trajectory)
    if checkpoints and len(models) == 1:
        raise ModelError(
            "trajectory: random directions hardly meet it; give a second model, such as its last checkpoint"
        )
    sources = [resolve_model(model_name(model)) for model in models]
    loaded = load_corpus(corpus, columns=columns)
    sentences = loaded[split][: chosen.sentences]
    opened = make_objective(
        sources[0],
        None if head is None else given_path(head),
        sentences,
        share=chosen.share,
        seed=chosen.seed,
        dtype=chosen.dtype,
        device=device,
    )
    shown = can_show() if progress is None else progress
    bar = BarProgress(f"landscape of {sources[0].title}") if shown else silent
    work = _Work(opened, chosen, _titles(sources), [opened.weights(source) for source in sources], bar)
    work.run(checkpoints)
    text = {"corpus": loaded.name, "split": split, "text_fingerprint": sentences.text_fingerprint}
    details = {"settings": chosen.model_dump(), **text, **_details(work, sources, head)}
    result = Landscape(
        pd.DataFrame(work.rows, columns=list(COLUMNS)),
        tuple(work.names),
        opened.loss.unit,
        opened.loss.n_items,
        work.barrier,
        tuple(work.sharpness),
        tuple(work.eigenvalues),
        details,
    )
    if out is not None:
        result.save(out)
    return result


def _details(work: _Work, sources: Sequence[ModelSource], head: str | Path | None) -> dict[str, Any]:
    return {
        "fingerprints": [model_fingerprint(source) for source in sources],
        "head": None if head is None else folder_name(str(head)),
        "direction_cosine": work.cosine,
        "device": str(work.opened.encoder.device),
        "versions": versions("torch", "transformers"),
    }


def _titles(sources: Sequence[ModelSource]) -> list[str]:
    """A different name for each model; the same model twice is numbered."""
    names = [source.name for source in sources]
    short = short_names(names)
    titles = [short[name] for name in names]
    return [
        f"{title} ({titles[: place + 1].count(title)})" if titles.count(title) > 1 else title
        for place, title in enumerate(titles)
    ]


def _checkpoints(trajectory: str | Path | Sequence[str | Path]) -> list[tuple[str, ModelSource]]:
    """Names and models of a trajectory in order; those of a folder with ``checkpoint-N`` by N."""
    given = [trajectory] if isinstance(trajectory, str | Path) else taken(trajectory, "trajectory")
    found = []
    for one in given:
        folder = Path(one)
        inside = [path for path in folder.glob(f"{_CHECKPOINT}*") if path.name.removeprefix(_CHECKPOINT).isdecimal()]
        ordered = sorted(inside, key=lambda path: int(path.name.removeprefix(_CHECKPOINT)))
        names = [str(path) for path in ordered] or [str(one)]
        found += [(folder_name(name), resolve_model(name)) for name in names]
    return found


class _Work:
    """Evaluations of one landscape."""

    def __init__(
        self,
        opened: Objective,
        settings: LandscapeSettings,
        names: list[str],
        weights: list[dict[str, Any]],
        bar: Progress,
    ) -> None:
        self.opened, self.loss, self.settings, self.names = opened, opened.loss, settings, names
        self.weights, self.bar = weights, bar
        self.origin: Weights = weights[0]
        if len(weights) > 1:
            self.directions: list[dict[str, Any]] = [difference(other, self.origin) for other in weights[1:]]
        else:
            self.directions = [filter_normalised(self.origin, seed=(settings.seed, _AXES, axis)) for axis in (0, 1)]
        if len(weights) == MOST_MODELS:
            check_spans(self.directions, names)
        self.is_line = len(weights) == 2
        self.rows: list[Row] = []
        self.barrier: float | None = None
        self.sharpness: list[Sharpness] = []
        self.eigenvalues: list[Eigenvalue] = []
        self.cosine: float | None = None
        if len(weights) != 2:
            gram = gram_matrix(self.directions)
            self.cosine = float(gram[0, 1] / math.sqrt(gram[0, 0] * gram[1, 1]))

    def run(self, checkpoints: Sequence[tuple[str, ModelSource]]) -> None:
        """All losses, then the curvature at each model."""
        if checkpoints and self.is_line:
            check_spans(self.directions, self.names)
        settings, count = self.settings, len(self.weights)
        axis = self._axis()
        cells = [(x, 0.0) for x in axis] if self.is_line else [(x, y) for y in axis for x in axis]
        line = self._line(axis) if count > 1 else []
        each = settings.directions + settings.iterations
        extra = len(line) if count == MOST_MODELS else 0
        self.bar.start(len(cells) + extra + count * (1 + each) + len(checkpoints), unit="evaluations")
        places = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
        for name, weights, (x, y) in zip(self.names, self.weights, places, strict=False):
            self.rows.append(("model", name, x, y, 0.0, self._own(name, weights)))
        self.rows += [("grid", "", x, y, 0.0, self._at(x, y)) for x, y in cells]
        if count > 1:
            self.barrier = self._barrier(line, [row[-1] for row in self.rows[:count]])
        for name, source in checkpoints:
            self.rows.append(self._checkpoint(name, source))
        for name, weights in zip(self.names, self.weights, strict=True):
            with placed(self.loss.module, weights):
                self._curvature(name)
        self.bar.finish()

    def _axis(self) -> list[float]:
        settings, count = self.settings, len(self.weights)
        low, high = settings.extent or {1: (-1.0, 1.0), 2: (0.0, 1.0), 3: (-0.5, 1.5)}[count]
        points = settings.points or (21 if count == 2 else 13)
        # Rounded, so that 0 and 1 are exactly on an axis whose steps would meet them but for rounding.
        return [round(value, 12) for value in np.linspace(low, high, points).tolist()]

    def _line(self, axis: list[float]) -> list[float]:
        """Places α between the last two models."""
        inside = [alpha for alpha in axis if 0 < alpha < 1] if self.is_line else np.linspace(0, 1, 21)[1:-1].tolist()
        return list(inside)

    def _barrier(self, line: list[float], losses: list[float]) -> float:
        """The height of the barrier; of three models its line is evaluated."""
        if self.is_line:
            at = {row[2]: row[-1] for row in self.rows if row[0] == "grid"}
            heights = {alpha: at[alpha] for alpha in line}
        else:
            heights = {alpha: self._at(1 - alpha, alpha) for alpha in line}
            self.rows += [("line", "", 1 - alpha, alpha, 0.0, height) for alpha, height in heights.items()]
        start, end = losses[-2:]
        return max([0.0, *(height - (1 - alpha) * start - alpha * end for alpha, height in heights.items())])

    def _at(self, x: float, y: float) -> float:
        steps = (x,) if self.is_line else (x, y)
        with placed(self.loss.module, moved(self.origin, self.directions, steps)):
            value = mean_loss(self.loss)
        self.bar.advance(1)
        return value

    def _own(self, name: str, weights: Weights) -> float:
        """The loss of a model at its own weights."""
        with placed(self.loss.module, weights):
            value = mean_loss(self.loss)
        if not math.isfinite(value):
            raise SignalError(f"model {name}: its loss is {value}; give other items, or --set dtype=float64")
        self.bar.advance(1)
        return value

    def _checkpoint(self, name: str, source: ModelSource) -> Row:
        weights = self.opened.weights(source)
        place = project(difference(weights, self.origin), self.directions)
        x, y = (*place.steps, 0.0)[:2]
        return "checkpoint", name, x, y, place.outside, self._own(name, weights)

    def _curvature(self, name: str) -> None:
        settings, loss = self.settings, self.loss
        common: dict[str, Any] = {"seed": settings.seed, "model": name, "step": lambda: self.bar.advance(1)}
        if settings.directions:
            sharp = sharpness(loss, radius=settings.radius, n_directions=settings.directions, **common)
            self.sharpness.append(sharp)
        if settings.iterations:
            top = top_eigenvalue(loss, iterations=settings.iterations, tolerance=settings.tolerance, **common)
            self.eigenvalues.append(top)
