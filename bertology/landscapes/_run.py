"""Loss landscapes: the loss of a model at many weights, its curvature there, and the table and figure of these.

A point, and a direction, is one vector with all weights of a module, tied ones once.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import stdtrit
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parameters_to_vector

from bertology._files import given_path, taken, write_derived
from bertology._folder import versions
from bertology._lazy import figures
from bertology._machine import explained
from bertology._names import folder_name, short_names
from bertology._settings import checked
from bertology.activations.progress import BarProgress, Progress, can_show, silent
from bertology.corpora import Sentences, load_corpus
from bertology.encoders import Encoder, ModelSource, load_encoder, model_fingerprint, model_name, resolve_model
from bertology.encoders.heads import HeadKind
from bertology.encoders.loading import load_tunable
from bertology.encoders.masked_loss import MaskedText
from bertology.errors import BertologyError, CorpusError, ModelError, SignalError
from bertology.finetuning import load_tuned, output_of
from bertology.landscapes._settings import MOST_MODELS, LandscapeSettings
from bertology.results.rows import Score, frame_to_parquet
from bertology.results.table import Note, Table, Tables, formatted_cell

_LEAST_SINE = 1e-3
_BATCH = 64
_CONFIDENCE = 0.975
Step = Callable[[], None]
_DIRECTIONS, _START = 1, 2
_POOLER = ".pooler."


@contextlib.contextmanager
def placed(module: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """A module with other weights by name inside the context; afterwards it has its own, bit for bit.

    The values of parameters are exchanged, not the parameters.
    """
    parameters = dict(module.named_parameters())
    before = {name: parameter.data for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = weights[name]
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = before[name]


def point_of(module: nn.Module) -> Tensor:
    """All parameters of a module, copied into one vector ``[weight]``."""
    return parameters_to_vector(module.parameters()).detach()


def cut(module: nn.Module, point: Tensor) -> dict[str, Tensor]:
    """A point as weights by name."""
    parameters = dict(module.named_parameters())
    parts = torch.split(point, [parameter.numel() for parameter in parameters.values()])
    shapes = [parameter.shape for parameter in parameters.values()]
    return {name: part.view(shape) for name, part, shape in zip(parameters, parts, shapes, strict=True)}


def filter_normalised(weights: Mapping[str, Tensor], *, seed: int | Sequence[int]) -> Tensor:
    """A random direction whose rows are as long as those of the weights (Li et al. 2018, section 4).

    Each tensor of two or more dimensions gets normal noise, of which every slice along the first axis (of a linear
    layer an output, of an embedding table an entry) is scaled to the norm of the same slice of the weights. Biases and
    the parameters of norms, tensors of one dimension, get 0. Weights of the same names and shapes get the same noise
    by the ``seed`` before it is scaled.
    """
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
    parts = []
    for value in weights.values():
        part = torch.zeros_like(value)
        if value.ndim > 1:
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
            scale = value.flatten(1).norm(dim=1) / noise.flatten(1).norm(dim=1)
            part = noise * scale.reshape(-1, *[1] * (value.ndim - 1))
        parts.append(part.flatten())
    return torch.cat(parts)


def gram_matrix(directions: Sequence[Tensor]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Inner products of all pairs of directions, ``[direction, direction]``, in float64."""
    return np.array([[float(one.double() @ other.double()) for other in directions] for one in directions])


def project(displacement: Tensor, directions: Sequence[Tensor]) -> tuple[tuple[float, ...], float]:
    """The nearest point to a displacement in the line or plane spanned by directions; sums are in float64.

    Of one direction these are x and y of Hao et al. (2019): x = ⟨d, δ⟩ / ‖δ‖², y = √(‖d‖² − x²‖δ‖²) / ‖δ‖. Returns its
    step in each direction, and the distance from it, as a multiple of the length of the first direction.
    """
    gram, rest = gram_matrix(directions), displacement.double()
    steps = np.linalg.solve(gram, [float(rest @ direction.double()) for direction in directions]).tolist()
    for step, direction in zip(steps, directions, strict=True):
        rest = rest - step * direction.double()
    return tuple(steps), float(rest.norm() / gram[0, 0] ** 0.5)


def check_spans(directions: Sequence[Tensor], names: Sequence[str]) -> None:
    """Raise :class:`ModelError` unless directions from the first model to the others span a line or plane."""
    gram = gram_matrix(directions)
    for number, name in enumerate(names[1:]):
        if gram[number, number] == 0:
            raise ModelError(f"models {names[0]} and {name} have the same weights, which span nothing: give others")
    if len(directions) == 2 and 1 - gram[0, 1] ** 2 / (gram[0, 0] * gram[1, 1]) < _LEAST_SINE**2:
        raise ModelError(f"models {', '.join(names)} lie on a line and span no plane: leave one of them out")


@dataclass(frozen=True)
class Loss:
    """A mean over items that stay the same, as a function of the weights of a module."""

    module: nn.Module
    """A module in evaluation mode; its parameters are the weights."""
    unit: str
    """Unit of the loss: ``bits``, or ``squared error``."""
    n_items: int
    """Items that the mean is over."""
    parts: Callable[[], Iterator[Tensor]]
    """For each batch, the sum of the loss over its items, a scalar."""
    head: HeadKind | None = None
    """The head of the task whose loss it is; None of masked pieces."""

    @torch.no_grad()
    def mean(self) -> float:
        """The loss at the present weights."""
        return math.fsum(float(summed) for summed in self.parts()) / self.n_items

    def at(self, point: Tensor) -> contextlib.AbstractContextManager[None]:
        """The module with the weights of a point inside the context."""
        return placed(self.module, cut(self.module, point))


def loss_of_masked(encoder: Encoder, sentences: Sentences, settings: LandscapeSettings) -> Loss:
    """Cross-entropy of masked pieces in bits; which are masked is drawn once."""
    text = MaskedText(encoder, sentences, share=settings.share, seed=settings.seed, on_long="window")
    batches, device = list(text.batches()), encoder.device
    module = encoder.model.outermost.to(getattr(torch, settings.dtype))

    def parts() -> Iterator[Tensor]:
        head = encoder.masked_head
        for batch in batches:
            inputs = {"input_ids": batch.ids.to(device)}
            if batch.mask is not None:
                inputs["attention_mask"] = batch.mask.to(device)
            states = encoder.model.body(**inputs, return_dict=True).last_hidden_state
            rows, columns = batch.positions[batch.distinct].to(device).unbind(1)
            logits = head.logits(head.features(states[rows, columns]))
            gold = batch.gold[batch.distinct].to(device)
            yield nn.functional.cross_entropy(logits, gold, reduction="sum") / math.log(2)

    return Loss(module, "bits", sum(len(batch.distinct) for batch in batches), parts)


def loss_of_task(encoder: Encoder, sentences: Sentences, settings: LandscapeSettings, head: Path) -> Loss:
    """The loss of a fine-tuned model with its task head, as in training but without dropout."""
    tuned = load_tuned(encoder, sentences)
    if tuned.record.settings.layers == "none":
        raise ModelError(f"{head}: its encoder was frozen, so the loss is that of a head alone; fine-tune layers of it")
    rows = replace(tuned.inputs, rows=[row for row in tuned.inputs.rows if row.is_learnable])
    batches = [(tuned.collator(some), sum(row.n_labels for row in some)) for some in rows.batches(_BATCH)]
    if not batches:
        name = tuned.record.task_of_labels.name
        raise CorpusError(f"task {name}: no item has a label that {head} knows; give data of the same task")
    is_number = tuned.record.task_of_labels.kind == "numbers"
    module = tuned.model.to(getattr(torch, settings.dtype)).requires_grad_(False).eval()

    def parts() -> Iterator[Tensor]:
        device = next(module.parameters()).device
        for inputs, n_items in batches:
            output = output_of(module, {name: value.to(device) for name, value in inputs.items()})
            yield output["loss"] * n_items * (1.0 if is_number else 1 / math.log(2))

    unit = "squared error" if is_number else "bits"
    return Loss(module, unit, sum(number for _, number in batches), parts, tuned.record.task_of_labels.head)


class Objective:
    """The loss of masked pieces by a model, or of the task of a fine-tuned model ``head``; and models as its points."""

    def __init__(
        self, source: ModelSource, head: Path | None, sentences: Sentences, settings: LandscapeSettings, device: str
    ) -> None:
        self.encoder = load_encoder(source if head is None else str(head), device=device)
        if head is not None:
            self.loss = loss_of_task(self.encoder, sentences, settings, head)
        else:
            _check_masked(self.encoder)
            self.loss = loss_of_masked(self.encoder, sentences, settings)

    def point(self, source: ModelSource) -> Tensor:
        """The weights of a model, with the head of the task where it does not have that head itself."""
        encoder, own = load_encoder(source, device="cpu"), self.encoder.name
        if encoder.tokenizer.get_vocab() != self.encoder.tokenizer.get_vocab():
            vocabulary = f"its vocabulary is not that of {own}"
            raise ModelError(f"model {encoder.name}: {vocabulary}; give models of one tokenizer")
        module: Any = self.loss.module
        reference: dict[str, Tensor] = dict(module.named_parameters())
        needed = reference
        if self.loss.head is None:
            _check_masked(encoder)
            found = dict(encoder.model.outermost.named_parameters())
        else:
            # Every model has the weights of the encoder; one without the head takes it, and the pooler, from this one.
            body, other = f"{module.base_model_prefix}.", encoder.model.body
            needed = {name: value for name, value in reference.items() if name.startswith(body) and _POOLER not in name}
            found = {body + name: value for name, value in other.named_parameters() if _POOLER not in f".{name}"}
            config: Any = other.config
            is_alike = config.id2label == module.config.id2label
            if is_alike and (config.architectures or [""])[0] == type(module).__name__:
                found = dict(load_tunable(encoder, head=self.loss.head, seed=None).model.named_parameters())
        for name, value in reference.items():
            if name in found and found[name].shape != value.shape:
                shapes = f"{list(found[name].shape)}, and {list(value.shape)} in {own}"
                raise ModelError(f"model {encoder.name}: {name} is {shapes}: give models of one shape")
        if strange := sorted(found.keys() - reference.keys()) or sorted(needed.keys() - found.keys()):
            raise ModelError(f"model {encoder.name}: {strange[0]} is not both in it and in {own}: give others")
        values = [found.get(name, value).detach().to(value).flatten() for name, value in reference.items()]
        return torch.cat(values)


def _check_masked(encoder: Encoder) -> None:
    if not encoder.has_masked_lm_head:
        raise ModelError(f"model {encoder.name}: no masked-LM head in its weights; for the loss of a task give --head")


@dataclass(frozen=True)
class Sharpness:
    """The mean rise of the loss at a fixed radius, over random filter-normalised directions."""

    model: str
    value: float
    """Mean over directions of L(θ + r·d) − L(θ), in the unit of the loss."""
    ci_low: float
    """Lower end of the 95 % interval for other directions, by Student's t."""
    ci_high: float
    radius: float
    """r: each row of a weight matrix moves by this share of its own length."""
    rises: tuple[float, ...]
    """Rise of the loss in each direction."""


@dataclass(frozen=True)
class Eigenvalue:
    """The greatest and the least eigenvalue of the Hessian of the mean loss, by the Lanczos method.

    Where the least is negative, the weights are no minimum: the loss falls in its direction. Where it is larger in
    magnitude, the greatest alone says little of the curvature.
    """

    model: str
    value: float
    """Greatest Ritz value, in the unit of the loss: never above the eigenvalue, but for rounding."""
    residual: float
    """‖Hv − λv‖ / |λ| of its Ritz vector: some eigenvalue is not further from ``value`` than this share of it."""
    least: float
    """Least Ritz value: never below the least eigenvalue, but for rounding."""
    least_residual: float
    """‖Hv − λv‖ of its Ritz vector, over the larger magnitude of the two."""
    n_iterations: int
    """Products of the Hessian and a vector, each over all items."""
    converged: bool
    """Whether both residuals came under the tolerance."""
    n_weights: int
    dtype: str


def sharpness(loss: Loss, *, radius: float, n_directions: int, seed: int = 0, model: str = "", step: Step) -> Sharpness:
    """The rise of a loss around the present weights of its module, which it has again afterwards.

    Rows are scaled by their own length (:func:`filter_normalised`), so that rescaling the weights of a layer that a
    norm follows changes nothing (Li et al. 2018; Dinh et al. 2017 on measures without it). Compare models at the same
    radius and loss; models of one shape get the same noise by the ``seed``. ``step`` is called after each evaluation.
    """
    origin, at_rest, rises = point_of(loss.module), loss.mean(), []
    for number in range(n_directions):
        direction = filter_normalised(cut(loss.module, origin), seed=(seed, _DIRECTIONS, number))
        with loss.at(origin + radius * direction):
            rises.append(loss.mean() - at_rest)
        step()
    mean, error = float(np.mean(rises)), float(np.std(rises, ddof=1) / math.sqrt(n_directions))
    reach = float(stdtrit(n_directions - 1, _CONFIDENCE)) * error
    return Sharpness(model, mean, mean - reach, mean + reach, radius, tuple(rises))


def top_eigenvalue(
    loss: Loss, *, iterations: int, tolerance: float, seed: int = 0, model: str = "", step: Step
) -> Eigenvalue:
    """The greatest and the least eigenvalue of the Hessian of the mean loss, biases and norms included.

    The Lanczos method on products of the Hessian and a vector (Pearlmutter 1994) finds the greatest eigenvalue
    whatever the sign of the one of greatest magnitude, and needs far fewer products than power iteration. Vectors are
    not orthogonalised again, which leaves the outermost Ritz values and their residuals right to the precision of the
    weights (Paige 1980). It stops after so many ``iterations``, or where both residuals are within ``tolerance``.

    Raises:
        SignalError: a product is not finite.
    """
    parameters = list(loss.module.parameters())
    learned = [parameter.requires_grad for parameter in parameters]
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence((seed, _START)).generate_state(1)[0]))
    n_weights = sum(parameter.numel() for parameter in parameters)
    start = torch.randn(n_weights, generator=generator, dtype=torch.float64).to(parameters[0])
    vector, before = start / start.norm(), torch.zeros_like(start)
    diagonal: list[float] = []
    beside: list[float] = []
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        while True:
            image = _hessian_times(loss, vector)
            if not bool(torch.isfinite(image).all()):
                remedy = "give other items, or float64"
                raise SignalError(f"model {model}: a product with the Hessian is not finite: {remedy}")
            step()
            diagonal.append(float(vector @ image))
            image = image - diagonal[-1] * vector - (beside[-1] if beside else 0.0) * before
            length = float(image.norm())
            values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
            least, greatest = float(values[0]), float(values[-1])
            scales = max(abs(least), abs(greatest)), abs(greatest)
            distances = length * np.abs(vectors[-1, [0, -1]])
            ends = zip(distances, scales, strict=True)
            residuals = [float(far / scale) if scale else (math.inf if far else 0.0) for far, scale in ends]
            if max(residuals) <= tolerance or len(diagonal) == iterations or length == 0:
                break
            beside.append(length)
            vector, before = image / length, vector
    finally:
        for parameter, learns in zip(parameters, learned, strict=True):
            parameter.requires_grad_(learns)
    converged, name = max(residuals) <= tolerance, str(start.dtype).removeprefix("torch.")
    return Eigenvalue(model, greatest, residuals[1], least, residuals[0], len(diagonal), converged, n_weights, name)


def _hessian_times(loss: Loss, vector: Tensor) -> Tensor:
    """``[weight]`` the Hessian of the mean loss times a vector."""
    parameters, parts = list(loss.module.parameters()), cut(loss.module, vector).values()
    total = torch.zeros_like(vector)
    # Second derivatives pass only the plain kernel of attention.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        for summed in loss.parts():
            slopes = torch.autograd.grad(summed, parameters, create_graph=True, materialize_grads=True)
            along = torch.stack([(slope * part).sum() for slope, part in zip(slopes, parts, strict=True)]).sum()
            products = torch.autograd.grad(along, parameters, materialize_grads=True)
            total += torch.cat([value.flatten() for value in products]) / loss.n_items
    return total


_RECORD = "landscape.json"
COLUMNS = ("kind", "name", "x", "y", "outside", "loss")
_LEVELS = 14
_WIDE = 20.0
"""Ratio of highest to lowest rise of the loss above which contours are spaced by its logarithm."""


@dataclass(frozen=True, repr=False)
class Landscape(Tables):
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

    def shown(self) -> tuple[Table, ...]:
        """Loss, sharpness and eigenvalues of each model, and the barrier between the last two."""
        losses = self._rows("model")["loss"]
        rows = {name: [formatted_cell(Score(loss), ".4f")] for name, loss in zip(self.models, losses, strict=True)}
        notes = [Note("loss", f"mean in {self.unit} over {self.n_items:,} items, the same for all weights")]
        headers = [f"loss, {self.unit}"]
        if self.barrier is not None:
            notes.append(Note("barrier", f"{self.barrier:.4f} between {self.models[-2]} and {self.models[-1]}"))
        for one in self.sharpness:
            rows[one.model].append(formatted_cell(Score(one.value, one.ci_low, one.ci_high), ".4f"))
        if self.sharpness:
            headers.append("sharpness")
            how = f"mean rise of the loss at radius {one.radius:g}; [ ] 95 %, over {len(one.rises)} random directions"
            notes.append(Note("sharpness", how))
        headers += ["top eigenvalue", "least eigenvalue"] if self.top_eigenvalue else []
        for top in self.top_eigenvalue:
            rows[top.model] += [formatted_cell(Score(value), ".4g") for value in (top.value, top.least)]
            state = f"{'converged' if top.converged else 'not converged'} after {top.n_iterations} products"
            how = f"{state}, residuals {top.residual:.2g} and {top.least_residual:.2g}, {top.dtype}"
            warning = "; the least is larger in magnitude: no minimum" if -top.least > top.value else ""
            notes.append(Note(f"eigenvalues of {top.model}", how + warning))
        return (Table.of("Loss landscape", headers, rows, notes, corner="Model"),)

    def plot(self, *, title: str | None = None) -> "figures.ShownFigure":
        """The loss along a line, or as contours over a plane, with models and checkpoints."""
        is_line = len(self.models) == 2
        figure = figures.new_figure(5.2, 3.4 if is_line else 4.4)
        axes = figure.add_subplot()
        grid, models, checkpoints = (self._rows(kind) for kind in ("grid", "model", "checkpoint"))
        spanned = [f"{self.models[0]} → {name}" for name in self.models[1:]]
        if is_line:
            axes.plot(grid["x"], grid["loss"], color=figures.BLUE, linewidth=1.4)
            axes.plot(models["x"], models["loss"], "--", color=figures.PALE, linewidth=0.9)
            height, labels = "loss", [f"α, from {self.models[0]} to {self.models[1]}", f"loss ({self.unit})"]
        else:
            heights = grid.pivot(index="y", columns="x", values="loss")
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
            shades = axes.contourf(*where, levels=levels, cmap=figures.SHADES, extend="both")
            axes.contour(*where, levels=levels, colors=figures.GREY, linewidths=0.4)
            bar = figure.colorbar(shades, ax=axes)
            bar.set_label(f"loss ({self.unit})", fontsize=8)
            bar.ax.tick_params(labelsize=7)
            height, labels = "y", spanned or ["random direction 1, filter-normalised", "random direction 2"]
        if len(checkpoints):
            style: dict[str, Any] = {"color": figures.GREEN, "markersize": 4, "markerfacecolor": "white"}
            style["label"] = "checkpoints, at their own weights"
            axes.plot(checkpoints["x"], checkpoints[height], "s-", linewidth=0.8, **style)
            axes.legend(fontsize=7, frameon=False)
        axes.plot(models["x"], models[height], "o", color=figures.VERMILION, markersize=5)
        for name, x, y in zip(models["name"], models["x"], models[height], strict=True):
            axes.annotate(name, (x, y), textcoords="offset points", xytext=(5, 5), fontsize=7)
        axes.tick_params(labelsize=7)
        axes.set_xlabel(labels[0], fontsize=8)
        axes.set_ylabel(labels[1], fontsize=8)
        if title is not None:
            axes.set_title(title, fontsize=9, color=figures.TEXT)
        figures.write_caption(figure, f"Mean of {self.n_items:,} items, the same at every point.")
        return figure

    def save(self, folder: str | Path) -> Path:
        """Write ``landscape.parquet``, ``landscape.json`` and ``landscape.svg`` into a folder.

        Raises:
            BertologyError: the folder cannot be written.
        """
        found = {**self.details, **{one.name: getattr(self, one.name) for one in fields(self)[1:-1]}}
        record = json.dumps(found, indent=1, default=asdict) + "\n"
        files = {
            "landscape.parquet": frame_to_parquet(self.table),
            "landscape.svg": figures.figure_bytes(self.plot(), "svg"),
            _RECORD: record.encode(),  # last: it makes the landscape finished
        }
        write_derived(given_path(folder), files, remedy="choose another --out")
        return given_path(folder)

    def __repr__(self) -> str:
        return f"<Landscape of {', '.join(self.models)}: {len(self.table)} points>"

    def _rows(self, kind: str) -> pd.DataFrame:
        return self.table[self.table["kind"] == kind]


_AXES = 0
_CHECKPOINT = "checkpoint-"


@explained("this landscape")
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
        ``.top_eigenvalue`` and ``.save(folder)``.

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
