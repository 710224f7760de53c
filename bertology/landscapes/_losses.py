"""The loss whose landscape is shown, and weights of a model as points: directions, planes, and being put there."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertology.corpora import Sentences
from bertology.encoders import Encoder, ModelSource, load_encoder
from bertology.encoders.loading import load_tunable
from bertology.encoders.masked_loss import MaskedText
from bertology.errors import ModelError
from bertology.finetuning import TaskBatches, task_batches

Weights = Mapping[str, Tensor]
"""Weights by name, tied ones once."""
_LEAST_SINE = 1e-3


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
    return {name: _like_rows(value, generator) for name, value in weights.items()}


def _like_rows(value: Tensor, generator: torch.Generator) -> Tensor:
    if value.ndim < 2:
        return torch.zeros_like(value)
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
    scale = value.flatten(1).norm(dim=1) / noise.flatten(1).norm(dim=1)
    scaled: Tensor = noise * scale.reshape(-1, *[1] * (value.ndim - 1))
    return scaled


@dataclass(frozen=True)
class Projection:
    """The place of a point in the line or plane spanned by directions."""

    steps: tuple[float, ...]
    """Steps in each direction to the nearest point of the line or plane."""
    outside: float
    """Distance from that nearest point, as a multiple of the length of the first direction."""


def project(displacement: Weights, directions: Sequence[Weights]) -> Projection:
    """The least-squares projection of a displacement onto directions; sums are in float64.

    Of one direction these are x and y of Hao et al. (2019): x = ⟨d, δ⟩ / ‖δ‖², y = √(‖d‖² − x²‖δ‖²) / ‖δ‖.
    """
    gram = gram_matrix(directions)
    against = np.array([_dot(displacement, direction) for direction in directions])
    steps = np.linalg.solve(gram, against)
    rest = sum(
        float(
            (value.double() - sum(s * d[name].double() for s, d in zip(steps, directions, strict=True))).square().sum()
        )
        for name, value in displacement.items()
    )
    return Projection(tuple(steps.tolist()), float(np.sqrt(rest / gram[0, 0])))


def gram_matrix(directions: Sequence[Weights]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """``[direction, direction]`` their inner products."""
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
            raise ModelError(f"models {', '.join(names)} lie on a line and span no plane: give two of them")


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
    """The loss of a fine-tuned model with its task head, as in training but without dropout."""

    def __init__(self, model: Any, batches: TaskBatches, *, dtype: str) -> None:
        self.unit = batches.unit
        self.n_items = batches.n_items
        self._batches = batches
        self._scale = 1 / math.log(2) if batches.unit == "bits" else 1.0
        self.module = model.to(_DTYPES[dtype]).requires_grad_(False).eval()

    def parts(self) -> Iterator[tuple[Tensor, int]]:
        """See :meth:`Loss.parts`."""
        device = next(self.module.parameters()).device
        for inputs, n_items in self._batches.batches:
            output = self.module(**{name: value.to(device) for name, value in inputs.items()})
            yield output["loss"] * n_items * self._scale, n_items


@dataclass(frozen=True)
class Objective:
    """A loss, and how the weights of each model become weights of its module."""

    loss: Loss
    encoder: Encoder
    """The model whose module it is."""
    head: Path | None
    """The folder of the fine-tuned model whose task it is; None of masked pieces."""

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
        reference = weights_of(self.loss.module)
        found = self._named(encoder)
        for name, value in reference.items():
            if name in found and found[name].shape != value.shape:
                shapes = f"{list(found[name].shape)}, and {list(value.shape)} in {self.encoder.name}"
                raise ModelError(f"model {encoder.name}: {name} is {shapes}: give models of one shape")
        if strange := sorted(found.keys() - reference.keys()) or sorted(self._needed() - found.keys()):
            raise ModelError(
                f"model {encoder.name}: {strange[0]} is not both in it and in {self.encoder.name}: give others"
            )
        return {name: found[name].to(value) if name in found else value for name, value in reference.items()}

    def _named(self, encoder: Encoder) -> Weights:
        """Weights of a model by their names in the loss's module."""
        if self.head is None:
            if not encoder.has_masked_lm_head:
                raise ModelError(
                    f"model {encoder.name}: no masked-LM head in its weights; for the loss of a task give --head"
                )
            return weights_of(encoder.model.outermost)
        if has_same_head(encoder, self.loss.module):
            return weights_of(_tuned(encoder, self.loss.module))
        names = {id(parameter): name for name, parameter in self.loss.module.named_parameters()}
        body: Any = self.loss.module.base_model
        of_body = {name: names[id(parameter)] for name, parameter in body.named_parameters()}
        found = weights_of(encoder.model.body)
        return {of_body.get(name, name): value for name, value in found.items() if not name.startswith("pooler.")}

    def _needed(self) -> set[str]:
        """Names of weights that every model must have: all, or those of the encoder without its pooler."""
        names = dict(self.loss.module.named_parameters())
        if self.head is None:
            return set(names)
        body: Any = self.loss.module.base_model
        of_body = {id(value) for name, value in body.named_parameters() if not name.startswith("pooler.")}
        return {name for name, value in names.items() if id(value) in of_body}


def has_same_head(encoder: Encoder, module: nn.Module) -> bool:
    """Whether a model was saved with a head of the same kind for the same labels."""
    config: Any = encoder.model.body.config
    own: Any = module.config
    return bool((config.architectures or [""])[0] == type(module).__name__ and config.id2label == own.id2label)


def _tuned(encoder: Encoder, module: nn.Module) -> nn.Module:
    kinds = {"SequenceClassification": "sentence", "TokenClassification": "words", "QuestionAnswering": "answers"}
    kind = next(head for end, head in kinds.items() if type(module).__name__.endswith(end))
    model: nn.Module = load_tunable(encoder, head=kind, seed=None).model  # type: ignore[arg-type]
    return model


def make_objective(
    source: ModelSource, head: Path | None, sentences: Sentences, *, share: float, seed: int, dtype: str, device: str
) -> Objective:
    """The loss on these sentences: of masked pieces by the model, or of the task of the fine-tuned model ``head``.

    Raises:
        ModelError: the model has no masked-LM head, or the encoder of the fine-tuned one was frozen.
        CorpusError: the sentences lack the labels of the task.
    """
    if head is None:
        encoder = load_encoder(source, device=device)
        if not encoder.has_masked_lm_head:
            raise ModelError(
                f"model {encoder.name}: no masked-LM head in its weights; for the loss of a task give --head"
            )
        return Objective(MaskedPieces(encoder, sentences, share=share, seed=seed, dtype=dtype), encoder, None)
    encoder = load_encoder(str(head), device=device)
    batches = task_batches(head, encoder, sentences)
    model = load_tunable(encoder, head=batches.head, seed=None).model.to(encoder.device)
    return Objective(TaskLabels(model, batches, dtype=dtype), encoder, head)
