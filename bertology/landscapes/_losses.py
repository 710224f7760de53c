"""The loss whose landscape is shown, weights of a model as points, and the curvature of the loss there.

A point, and a direction, is one vector with all weights of a module, tied ones once.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parameters_to_vector

from bertology.corpora import Sentences
from bertology.encoders import Encoder, ModelSource, load_encoder
from bertology.encoders.loading import HeadKind, load_tunable
from bertology.encoders.masked_loss import MaskedText
from bertology.errors import CorpusError, ModelError, SignalError
from bertology.finetuning import load_tuned
from bertology.landscapes._settings import LandscapeSettings

_LEAST_SINE = 1e-3
_BATCH = 64
_CONFIDENCE = 0.975
Step = Callable[[], None]
_DIRECTIONS, _START = 1, 2
_HEADS: Mapping[str, HeadKind] = {
    "SequenceClassification": "sentence",
    "TokenClassification": "words",
    "QuestionAnswering": "answers",
}


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
    """``[weight]`` a copy of a module's weights."""
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

    @torch.no_grad()
    def mean(self) -> float:
        """The loss at the present weights."""
        return math.fsum(float(summed) for summed in self.parts()) / self.n_items

    @contextlib.contextmanager
    def at(self, point: Tensor) -> Iterator[None]:
        """The module with the weights of a point inside the context."""
        with placed(self.module, cut(self.module, point)):
            yield


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
            output = module(**{name: value.to(device) for name, value in inputs.items()})
            yield output["loss"] * n_items * (1.0 if is_number else 1 / math.log(2))

    unit = "squared error" if is_number else "bits"
    return Loss(module, unit, sum(number for _, number in batches), parts)


class Objective:
    """The loss of masked pieces by a model, or of the task of a fine-tuned model ``head``; and models as its points."""

    def __init__(
        self, source: ModelSource, head: Path | None, sentences: Sentences, settings: LandscapeSettings, device: str
    ) -> None:
        self.is_of_task = head is not None
        self.encoder = load_encoder(source if head is None else str(head), device=device)
        if head is not None:
            self.loss = loss_of_task(self.encoder, sentences, settings, head)
            return
        _check_masked(self.encoder)
        self.loss = loss_of_masked(self.encoder, sentences, settings)

    def point(self, source: ModelSource) -> Tensor:
        """The weights of a model, with the head of the task where it does not have that head itself."""
        encoder, own = load_encoder(source, device="cpu"), self.encoder.name
        if encoder.tokenizer.get_vocab() != self.encoder.tokenizer.get_vocab():
            vocabulary = f"its vocabulary is not that of {own}"
            raise ModelError(f"model {encoder.name}: {vocabulary}; give models of one tokenizer")
        reference = dict(self.loss.module.named_parameters())
        body: Any = self.loss.module.base_model if self.is_of_task else nn.Module()
        # names of the weights in the encoder without its pooler, which every model must have
        in_body = {id(weight): name for name, weight in body.named_parameters() if not name.startswith("pooler.")}
        names = {in_body[id(weight)]: name for name, weight in reference.items() if id(weight) in in_body}
        found = self._named(encoder, names)
        for name, value in reference.items():
            if name in found and found[name].shape != value.shape:
                shapes = f"{list(found[name].shape)}, and {list(value.shape)} in {own}"
                raise ModelError(f"model {encoder.name}: {name} is {shapes}: give models of one shape")
        needed = set(names.values() if self.is_of_task else reference)
        if strange := sorted(found.keys() - reference.keys()) or sorted(needed - found.keys()):
            raise ModelError(f"model {encoder.name}: {strange[0]} is not both in it and in {own}: give others")
        values = [found.get(name, value).detach().to(value).flatten() for name, value in reference.items()]
        return torch.cat(values)

    def _named(self, encoder: Encoder, names: Mapping[str, str]) -> dict[str, Tensor]:
        """Weights of a model by their names in the loss's module; ``names`` are these by those in the encoder."""
        if not self.is_of_task:
            _check_masked(encoder)
            return dict(encoder.model.outermost.named_parameters())
        module: Any = self.loss.module
        own = type(module).__name__
        other: Any = encoder.model.body.config
        if (other.architectures or [""])[0] == own and other.id2label == module.config.id2label:
            head = next(kind for end, kind in _HEADS.items() if own.endswith(end))
            return dict(load_tunable(encoder, head=head, seed=None).model.named_parameters())
        found = encoder.model.body.named_parameters()
        return {names.get(name, name): value for name, value in found if not name.startswith("pooler.")}


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
    from scipy.special import stdtrit

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
            residuals = [
                float(far / scale) if scale else (math.inf if far else 0.0)
                for far, scale in zip(distances, scales, strict=True)
            ]
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
