"""The loss whose landscape is shown, weights of a model as points, and the curvature of the loss there."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from bertology.corpora import Sentences
from bertology.encoders import Encoder, ModelSource, load_encoder
from bertology.encoders.loading import HeadKind, load_tunable
from bertology.encoders.masked_loss import MaskedText
from bertology.errors import CorpusError, ModelError, SignalError
from bertology.finetuning import TunedModel, load_tuned
from bertology.landscapes._settings import LandscapeSettings

Weights = Mapping[str, Tensor]
"""Weights by name, tied ones once."""
_LEAST_SINE = 1e-3
_BATCH = 64


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's weights by name; what is tied is there once."""
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


@contextlib.contextmanager
def placed(module: nn.Module, weights: Weights) -> Iterator[None]:
    """A module with other weights inside the context; afterwards it has its own, bit for bit.

    Args:
        module: of which the values of parameters are exchanged, not the parameters.
        weights: for each of its parameters, of the same shape, dtype and device.
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


def moved(origin: Weights, directions: Sequence[Weights], steps: Sequence[float]) -> dict[str, Tensor]:
    """``origin`` plus each direction times its step."""
    point = dict(origin)
    for direction, step in zip(directions, steps, strict=True):
        point = {name: value + step * direction[name] for name, value in point.items()}
    return point


def difference(end: Weights, start: Weights) -> dict[str, Tensor]:
    """The direction from ``start`` to ``end``."""
    return {name: value - start[name] for name, value in end.items()}


def filter_normalised(weights: Weights, *, seed: int | Sequence[int]) -> dict[str, Tensor]:
    """A random direction whose rows are as long as those of the weights (Li et al. 2018, section 4).

    Each tensor of two or more dimensions gets normal noise, of which every slice along the first axis (of a linear
    layer an output, of an embedding table an entry) is scaled to the norm of the same slice of the weights. Biases and
    the parameters of norms, tensors of one dimension, get 0.

    Args:
        weights: by name.
        seed: of the noise; weights of the same names and shapes get the same noise before it is scaled.
    """
    number = np.random.SeedSequence(seed).generate_state(1)[0]
    generator = torch.Generator().manual_seed(int(number))
    direction = {}
    for name, value in weights.items():
        direction[name] = torch.zeros_like(value)
        if value.ndim > 1:
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
            scale = value.flatten(1).norm(dim=1) / noise.flatten(1).norm(dim=1)
            direction[name] = noise * scale.reshape(-1, *[1] * (value.ndim - 1))
    return direction


def project(displacement: Weights, directions: Sequence[Weights]) -> tuple[tuple[float, ...], float]:
    """The nearest point to a displacement in the line or plane spanned by directions; sums are in float64.

    Of one direction these are x and y of Hao et al. (2019): x = ⟨d, δ⟩ / ‖δ‖², y = √(‖d‖² − x²‖δ‖²) / ‖δ‖.

    Returns:
        Its step in each direction, and the distance from it, as a multiple of the length of the first direction.
    """
    gram = gram_matrix(directions)
    steps = np.linalg.solve(gram, [_dot(displacement, direction) for direction in directions])
    rest = 0.0
    for name, value in displacement.items():
        nearest = sum(step * direction[name].double() for step, direction in zip(steps, directions, strict=True))
        rest += float((value.double() - nearest).square().sum())
    return tuple(steps.tolist()), float(np.sqrt(rest / gram[0, 0]))


def gram_matrix(directions: Sequence[Weights]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Inner products of all pairs of directions, ``[direction, direction]``."""
    return np.array([[_dot(one, other) for other in directions] for one in directions])


def check_spans(directions: Sequence[Weights], names: Sequence[str]) -> None:
    """Check that directions from the first named model to each of the others span a line or plane.

    Raises:
        ModelError: two models are the same, or three lie on a line.
    """
    gram = gram_matrix(directions)
    for number, name in enumerate(names[1:]):
        if gram[number, number] == 0:
            raise ModelError(f"models {names[0]} and {name} have the same weights, which span nothing: give others")
    if len(directions) == 2:
        sine = 1 - gram[0, 1] ** 2 / (gram[0, 0] * gram[1, 1])
        if sine < _LEAST_SINE**2:
            raise ModelError(f"models {', '.join(names)} lie on a line and span no plane: leave one of them out")


def _dot(one: Weights, other: Weights) -> float:
    return sum(float((value.double() * other[name].double()).sum()) for name, value in one.items())


_DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Loss(ABC):
    """A mean over items that stay the same, as a function of the weights of a module."""

    module: nn.Module
    """In evaluation mode; its parameters are the weights."""
    unit: str
    """Unit of the loss: ``bits``, or ``squared error``."""
    n_items: int
    """Items that the mean is over."""

    @abstractmethod
    def parts(self) -> Iterator[tuple[Tensor, int]]:
        """For each batch, the sum of the loss over its items, a scalar, and their number."""


@torch.no_grad()
def mean_loss(loss: Loss) -> float:
    """The loss at the present weights."""
    return math.fsum(float(summed) for summed, _ in loss.parts()) / loss.n_items


class MaskedPieces(Loss):
    """Cross-entropy of masked pieces in bits; which are masked was drawn once."""

    unit = "bits"

    def __init__(self, encoder: Encoder, sentences: Sentences, *, share: float, seed: int, dtype: str) -> None:
        text = MaskedText(encoder, sentences, share=share, seed=seed, on_long="window")
        self._encoder = encoder
        self._batches = list(text.batches())
        self.n_items = sum(len(batch.distinct) for batch in self._batches)
        self.module = encoder.model.outermost.to(_DTYPES[dtype])

    def parts(self) -> Iterator[tuple[Tensor, int]]:
        """See :meth:`Loss.parts`."""
        head, device, body = self._encoder.masked_head, self._encoder.device, self._encoder.model.body
        for batch in self._batches:
            inputs = {"input_ids": batch.ids.to(device)}
            if batch.mask is not None:
                inputs["attention_mask"] = batch.mask.to(device)
            states = body(**inputs, return_dict=True).last_hidden_state
            distinct = batch.distinct
            rows, columns = batch.positions[distinct].to(device).unbind(1)
            logits = head.logits(head.features(states[rows, columns]))
            nats = nn.functional.cross_entropy(logits, batch.gold[distinct].to(device), reduction="sum")
            yield nats / math.log(2), len(distinct)


class TaskLabels(Loss):
    """The loss of a fine-tuned model with its task head, as in training but without dropout.

    Raises:
        ModelError: its encoder was frozen: no model of transformers has its head.
        CorpusError: the sentences have no label that the model knows.
    """

    def __init__(self, head: Path, tuned: TunedModel, *, dtype: str) -> None:
        task = tuned.record.task_of_labels
        if tuned.record.settings.layers == "none":
            raise ModelError(
                f"{head}: its encoder was frozen, so the loss is that of a head alone; fine-tune layers of it"
            )
        rows = replace(tuned.inputs, rows=[row for row in tuned.inputs.rows if row.is_learnable])
        self._batches = [(tuned.collator(some), sum(row.n_labels for row in some)) for some in rows.batches(_BATCH)]
        if not self._batches:
            raise CorpusError(f"task {task.name}: no item has a label that {head} knows; give data of the same task")
        self.n_items = sum(number for _, number in self._batches)
        self.unit, self._scale = ("squared error", 1.0) if task.kind == "numbers" else ("bits", 1 / math.log(2))
        self.module = tuned.model.to(_DTYPES[dtype]).requires_grad_(False).eval()

    def parts(self) -> Iterator[tuple[Tensor, int]]:
        """See :meth:`Loss.parts`."""
        device = next(self.module.parameters()).device
        for inputs, n_items in self._batches:
            output = self.module(**{name: value.to(device) for name, value in inputs.items()})
            yield output["loss"] * n_items * self._scale, n_items


class Objective:
    """A loss on some sentences, and how the weights of each model become weights of its module.

    The loss is that of masked pieces by a model, or that of the task of a fine-tuned model, ``head``.

    Raises:
        ModelError: the model has no masked-LM head, or the encoder of the fine-tuned one was frozen.
        CorpusError: the sentences lack the labels of the task.
    """

    def __init__(
        self, source: ModelSource, head: Path | None, sentences: Sentences, settings: LandscapeSettings, device: str
    ) -> None:
        self.is_of_task, dtype = head is not None, settings.dtype
        self.encoder = load_encoder(source if head is None else str(head), device=device)
        if head is None:
            _check_masked(self.encoder)
            self.loss: Loss = MaskedPieces(
                self.encoder, sentences, share=settings.share, seed=settings.seed, dtype=dtype
            )
        else:
            self.loss = TaskLabels(head, load_tuned(self.encoder, sentences), dtype=dtype)

    def weights(self, source: ModelSource) -> dict[str, Tensor]:
        """The weights of a model, with the head of the task where it does not have that head itself.

        Raises:
            ModelError: the model has another shape or vocabulary, or no masked-LM head.
        """
        encoder = load_encoder(source, device="cpu")
        if encoder.tokenizer.get_vocab() != self.encoder.tokenizer.get_vocab():
            raise ModelError(
                f"model {encoder.name}: its vocabulary is not that of {self.encoder.name}; give models of one tokenizer"
            )
        reference, found = weights_of(self.loss.module), self._named(encoder)
        for name, value in reference.items():
            if name in found and found[name].shape != value.shape:
                shapes = f"{list(found[name].shape)}, and {list(value.shape)} in {self.encoder.name}"
                raise ModelError(f"model {encoder.name}: {name} is {shapes}: give models of one shape")
        needed = {name for name, in_body in self._names().items() if not self.is_of_task or in_body}
        if strange := sorted(found.keys() - reference.keys()) or sorted(needed - found.keys()):
            raise ModelError(
                f"model {encoder.name}: {strange[0]} is not both in it and in {self.encoder.name}: give others"
            )
        return {name: found[name].to(value) if name in found else value for name, value in reference.items()}

    def _names(self) -> dict[str, str | None]:
        """Names of the weights, with those in the encoder without its pooler, which every model must have."""
        body: Any = self.loss.module.base_model if self.is_of_task else nn.Module()
        of_body = {id(weight): name for name, weight in body.named_parameters() if not name.startswith("pooler.")}
        return {name: of_body.get(id(weight)) for name, weight in self.loss.module.named_parameters()}

    def _named(self, encoder: Encoder) -> Weights:
        """Weights of a model by their names in the loss's module."""
        if not self.is_of_task:
            _check_masked(encoder)
            return weights_of(encoder.model.outermost)
        module: Any = self.loss.module
        config, own = module.config, type(module).__name__
        other: Any = encoder.model.body.config
        if (other.architectures or [""])[0] == own and other.id2label == config.id2label:
            head = next(kind for end, kind in _HEADS.items() if own.endswith(end))
            return weights_of(load_tunable(encoder, head=head, seed=None).model)
        of_body = {in_body: name for name, in_body in self._names().items() if in_body}
        found = weights_of(encoder.model.body)
        return {of_body.get(name, name): value for name, value in found.items() if not name.startswith("pooler.")}


_HEADS: Mapping[str, HeadKind] = {
    "SequenceClassification": "sentence",
    "TokenClassification": "words",
    "QuestionAnswering": "answers",
}


def _check_masked(encoder: Encoder) -> None:
    if not encoder.has_masked_lm_head:
        raise ModelError(f"model {encoder.name}: no masked-LM head in its weights; for the loss of a task give --head")


_CONFIDENCE = 0.975
_DIRECTIONS, _START = 1, 2
Step = Callable[[], None]


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


def sharpness(
    loss: Loss, *, radius: float, n_directions: int, seed: int = 0, model: str = "", step: Step = lambda: None
) -> Sharpness:
    """The rise of a loss around the present weights of its module, which it has again afterwards.

    Rows are scaled by their own length (:func:`filter_normalised`), so that rescaling the weights of a layer that a
    norm follows changes nothing (Li et al. 2018; Dinh et al. 2017 on measures without it). Compare models at the same
    radius and loss; models of one shape get the same noise by the ``seed``. ``step`` is called after each evaluation.
    """
    from scipy.special import stdtrit

    origin, at_rest, rises = weights_of(loss.module), mean_loss(loss), []
    for number in range(n_directions):
        direction = filter_normalised(origin, seed=(seed, _DIRECTIONS, number))
        with placed(loss.module, moved(origin, [direction], [radius])):
            rises.append(mean_loss(loss) - at_rest)
        step()
    mean, error = float(np.mean(rises)), float(np.std(rises, ddof=1) / math.sqrt(n_directions))
    reach = float(stdtrit(n_directions - 1, _CONFIDENCE)) * error
    return Sharpness(model, mean, mean - reach, mean + reach, radius, tuple(rises))


def top_eigenvalue(
    loss: Loss,
    *,
    iterations: int = 30,
    tolerance: float = 0.01,
    seed: int = 0,
    model: str = "",
    step: Step = lambda: None,
) -> Eigenvalue:
    """The greatest eigenvalue of the Hessian of the mean loss over all weights, biases and norms included; the least.

    The Lanczos method on products of the Hessian and a vector (Pearlmutter 1994), of which three vectors are held. It
    finds the greatest eigenvalue whatever the sign of the one of greatest magnitude, and needs far fewer products than
    power iteration where the next eigenvalue is near, as in encoders. Vectors are not orthogonalised again, which
    leaves the outermost Ritz values and their residuals right to the precision of the module's weights (Paige 1980).
    It stops after so many ``iterations``, or where both residuals are within ``tolerance``.

    Raises:
        SignalError: a product is not finite.
    """
    parameters = list(loss.module.parameters())
    learned = [parameter.requires_grad for parameter in parameters]
    size = sum(parameter.numel() for parameter in parameters)
    dtype = parameters[0].dtype

    def product(vector: Tensor) -> Tensor:
        found = _hessian_times(loss, parameters, vector)
        if not bool(torch.isfinite(found).all()):
            raise SignalError(f"model {model}: a product with the Hessian is not finite: give other items, or float64")
        step()
        return found

    generator = torch.Generator().manual_seed(int(np.random.SeedSequence((seed, _START)).generate_state(1)[0]))
    start = torch.randn(size, generator=generator, dtype=torch.float64).to(parameters[0])
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        (least, greatest), residuals, count = _lanczos(product, start, iterations, tolerance)
    finally:
        for parameter, learns in zip(parameters, learned, strict=True):
            parameter.requires_grad_(learns)
    converged, name = max(residuals) <= tolerance, str(dtype).removeprefix("torch.")
    return Eigenvalue(model, greatest, residuals[1], least, residuals[0], count, converged, size, name)


def _lanczos(
    product: Callable[[Tensor], Tensor], start: Tensor, iterations: int, tolerance: float
) -> tuple[list[float], list[float], int]:
    """The least and the greatest Ritz value, the residuals of their vectors, and the products that it took."""
    vector, before = start / start.norm(), torch.zeros_like(start)
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        image = product(vector)
        diagonal.append(float(vector @ image))
        image = image - diagonal[-1] * vector - (beside[-1] if beside else 0.0) * before
        length = float(image.norm())
        values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
        ends = [float(values[end]) for end in (0, -1)]
        distances = [length * abs(float(vectors[-1, end])) for end in (0, -1)]
        scales = max(map(abs, ends)), abs(ends[1])
        residuals = [
            far / scale if scale else (math.inf if far else 0.0) for far, scale in zip(distances, scales, strict=True)
        ]
        if max(residuals) <= tolerance or len(diagonal) == iterations or length == 0:
            return ends, residuals, len(diagonal)
        beside.append(length)
        vector, before = image / length, vector


def _hessian_times(loss: Loss, parameters: list[torch.nn.Parameter], vector: Tensor) -> Tensor:
    """``[weight]`` the Hessian of the mean loss times a vector."""
    parts = [
        part.reshape(parameter.shape)
        for part, parameter in zip(torch.split(vector, [p.numel() for p in parameters]), parameters, strict=True)
    ]
    total = torch.zeros_like(vector)
    # Second derivatives pass only the plain kernel of attention.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        for summed, _ in loss.parts():
            slopes = torch.autograd.grad(summed, parameters, create_graph=True, materialize_grads=True)
            along = sum((slope * part).sum() for slope, part in zip(slopes, parts, strict=True))
            assert isinstance(along, Tensor)
            products = torch.autograd.grad(along, parameters, materialize_grads=True)
            total += torch.cat([value.flatten() for value in products]) / loss.n_items
    return total
