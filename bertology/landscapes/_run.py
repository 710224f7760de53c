"""Loss landscape: open the models, evaluate one loss on the same items at many weights, and measure curvature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bertology._files import explained_system_errors
from bertology._inputs import given_path, taken
from bertology._memory import explained_shortage
from bertology._names import folder_name, short_names
from bertology.activations import BarProgress, Progress, can_show, silent
from bertology.corpora import load_corpus
from bertology.encoders import ModelSource, model_fingerprint, model_name, resolve_model
from bertology.errors import ModelError, SignalError
from bertology.landscapes._curvature import Eigenvalue, Sharpness, sharpness, top_eigenvalue
from bertology.landscapes._losses import Objective, make_objective, mean_loss
from bertology.landscapes._result import COLUMNS, Landscape, check_free
from bertology.landscapes._settings import MOST_MODELS, LandscapeSettings, landscape_settings
from bertology.landscapes._weights import (
    Weights,
    check_spans,
    difference,
    filter_normalised,
    gram_matrix,
    moved,
    placed,
    project,
)

if TYPE_CHECKING:
    from bertology.encoders import Encoder

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
    found = work.run(checkpoints)
    text = {"corpus": loaded.name, "split": split, "text_fingerprint": sentences.text_fingerprint}
    details = {"settings": chosen.model_dump(), **text, **_details(work, sources, head)}
    result = Landscape(
        pd.DataFrame(found.rows, columns=list(COLUMNS)),
        tuple(work.names),
        opened.loss.unit,
        opened.loss.n_items,
        found.barrier,
        tuple(found.sharpness),
        tuple(found.eigenvalues),
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
        "versions": {name: version(name) for name in ("bertology", "torch", "transformers")},
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


class _Found:
    """What is measured, as it grows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.barrier: float | None = None
        self.sharpness: list[Sharpness] = []
        self.eigenvalues: list[Eigenvalue] = []


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
        self.cosine: float | None = None
        if len(weights) != 2:
            gram = gram_matrix(self.directions)
            self.cosine = float(gram[0, 1] / math.sqrt(gram[0, 0] * gram[1, 1]))

    def run(self, checkpoints: Sequence[tuple[str, ModelSource]]) -> _Found:
        """All losses, then the curvature at each model."""
        if checkpoints and self.is_line:
            check_spans(self.directions, self.names)
        settings, found, count = self.settings, _Found(), len(self.weights)
        axis = self._axis()
        cells = [(x, 0.0) for x in axis] if self.is_line else [(x, y) for y in axis for x in axis]
        line = self._line(axis) if count > 1 else []
        each = settings.directions + settings.iterations
        extra = len(line) if count == MOST_MODELS else 0
        self.bar.start(len(cells) + extra + count * (1 + each) + len(checkpoints), unit="evaluations")
        places = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
        for name, weights, (x, y) in zip(self.names, self.weights, places, strict=False):
            found.rows.append(("model", name, x, y, 0.0, self._own(name, weights)))
        found.rows += [("grid", "", x, y, 0.0, self._at(x, y)) for x, y in cells]
        if count > 1:
            found.barrier = self._barrier(found, line, [row[-1] for row in found.rows[:count]])
        for name, source in checkpoints:
            found.rows.append(self._checkpoint(name, source))
        for name, weights in zip(self.names, self.weights, strict=True):
            with placed(self.loss.module, weights):
                self._curvature(found, name)
        self.bar.finish()
        return found

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

    def _barrier(self, found: _Found, line: list[float], losses: list[float]) -> float:
        """The height of the barrier; of three models its line is evaluated."""
        if self.is_line:
            at = {row[2]: row[-1] for row in found.rows if row[0] == "grid"}
            heights = {alpha: at[alpha] for alpha in line}
        else:
            heights = {alpha: self._at(1 - alpha, alpha) for alpha in line}
            found.rows += [("line", "", 1 - alpha, alpha, 0.0, height) for alpha, height in heights.items()]
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

    def _curvature(self, found: _Found, name: str) -> None:
        settings, loss = self.settings, self.loss
        common: dict[str, Any] = {"seed": settings.seed, "model": name, "step": lambda: self.bar.advance(1)}
        if settings.directions:
            sharp = sharpness(loss, radius=settings.radius, n_directions=settings.directions, **common)
            found.sharpness.append(sharp)
        if settings.iterations:
            top = top_eigenvalue(loss, iterations=settings.iterations, tolerance=settings.tolerance, **common)
            found.eigenvalues.append(top)
