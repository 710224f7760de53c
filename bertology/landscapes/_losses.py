"""The loss whose landscape is shown: a mean over fixed items, of masked pieces or of a task's labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertology.corpora import Sentences
from bertology.encoders import Encoder, ModelSource, load_encoder
from bertology.encoders.loading import load_tunable
from bertology.encoders.masked_loss import MaskedText
from bertology.errors import ModelError
from bertology.finetuning import TaskBatches, task_batches
from bertology.landscapes._weights import Weights, weights_of

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Loss(ABC):
    """A mean over items that stay the same, as a function of the weights of a module."""

    module: nn.Module
    """In evaluation mode; its parameters are the weights."""
    unit: str
    """Of the loss: ``bits``, or ``squared error``."""
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
