"""The model that is trained: one of transformers with its head, maybe adapters, or a head on a frozen encoder."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from bertology._files import explained_write_errors, real_path
from bertology._memory import explained_shortage
from bertology.encoders import Encoder, ModelSource
from bertology.encoders.loading import TunableModel, load_tunable
from bertology.encoders.resolving import merge_adapters
from bertology.encoders.sources import one_line, quiet_loading, save_model
from bertology.errors import BertologyError, ModelError
from bertology.finetuning._features import FrozenHead, FrozenStates
from bertology.finetuning._items import TuningTask
from bertology.finetuning._settings import FineTuneSettings

HEAD_FILE = "head.safetensors"
ADAPTER = "adapter"
_TRAINED = ("classifier", "score", "qa_outputs")
"""Modules of a task head that peft trains besides the adapters."""


@dataclass(frozen=True)
class Trained:
    """A model with what is needed to save it."""

    model: Any
    """What the Trainer trains."""
    encoder: Encoder
    """The encoder as it was before."""
    settings: FineTuneSettings

    @property
    def is_frozen(self) -> bool:
        """Whether only a head on the encoder is trained."""
        return self.settings.layers == "none"

    @property
    def has_adapters(self) -> bool:
        """Whether adapters of peft are trained."""
        return self.settings.layers in ("lora", "ia3")

    def mix_weights(self) -> dict[str, float] | None:
        """The weight of each layer in a learned mix; None where there is none."""
        if not isinstance(self.model, FrozenHead) or self.model.mix is None:
            return None
        weights = self.model.mix.weights.detach().cpu().tolist()
        return {str(layer): weight for layer, weight in zip(self.model.layers, weights, strict=True)}

    def save(self, folder: Path) -> None:
        """Write a model folder: the trained encoder with its head; adapters are merged into it and kept as well."""
        tokenizer = self.encoder.tokenizer
        model = self.encoder.model.outermost if self.is_frozen else self.model
        if self.has_adapters:
            save_model(model, folder / ADAPTER, tokenizer=tokenizer)
            model = merge_adapters(model)
        save_model(model, folder, tokenizer=tokenizer)
        if self.is_frozen:
            state = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
            with explained_write_errors(folder):
                save_file(state, folder / HEAD_FILE)


def build(
    encoder: Encoder,
    task: TuningTask,
    settings: FineTuneSettings,
    *,
    seed: int,
    states: FrozenStates | None = None,
    trust_remote_code: bool = False,
) -> Trained:
    """A model to train, its new weights drawn by the seed; with ``layers: none`` on states that may have been kept.

    Raises:
        ModelError: the model has no such head or layers, or cannot take adapters.
        BertologyError: adapters are asked for and peft is not installed.
    """
    if settings.layers == "none":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            head = _frozen_head(encoder, task, settings, are_pairs=task.train.are_pairs, states=states)
        return Trained(head, encoder, settings)
    if settings.features != "last" or settings.head != "linear":
        raise BertologyError("features and head are those of a frozen encoder: set layers to none, or leave them out")
    labels = task.labels or None
    with explained_shortage(f"loading model {encoder.name}"):
        tunable = load_tunable(encoder, head=task.head, labels=labels, seed=seed, trust_remote_code=trust_remote_code)
    how, _, number = settings.layers.partition(":")
    if how == "frozen":
        tunable.freeze_to(int(number))
    elif how == "top":
        tunable.freeze_to(encoder.n_layers - int(number))
    elif how in ("lora", "ia3"):
        return Trained(_with_adapters(tunable, encoder.source, task, settings, seed=seed), encoder, settings)
    return Trained(tunable.model, encoder, settings)


def _frozen_head(
    encoder: Encoder,
    task: TuningTask,
    settings: FineTuneSettings,
    *,
    are_pairs: bool,
    states: FrozenStates | None = None,
) -> FrozenHead:
    return FrozenHead(
        encoder,
        features=settings.features,
        head=settings.head,
        kind=task.kind,
        are_pairs=are_pairs and task.kind in ("labels", "numbers"),
        n_outputs=len(task.labels) or (2 if task.kind == "answers" else 1),
        states=states,
    )


def _with_adapters(
    tunable: TunableModel, source: ModelSource, task: TuningTask, settings: FineTuneSettings, *, seed: int
) -> Any:
    """The model with adapters to train; all that was drawn anew is saved with them, as no other file has it."""
    if importlib.util.find_spec("peft") is None:
        raise BertologyError(f"layers {settings.layers} needs peft: pip install 'bertology[peft]'")
    with quiet_loading():
        import peft
    kinds = {"sentence": "SEQ_CLS", "words": "TOKEN_CLS", "answers": "QUESTION_ANS"}
    model = tunable.model
    common: dict[str, Any] = {"task_type": kinds[task.head], "modules_to_save": sorted(_kept_whole(tunable))}
    if settings.layers == "lora":
        # peft computes with any number, though it declares whole ones.
        alpha: Any = settings.lora_alpha
        config: Any = peft.LoraConfig(**common, r=settings.lora_rank, lora_alpha=alpha)
    else:
        config = peft.IA3Config(**common)
    failed = one_line(
        f"model {model.config.model_type}: peft knows no place for {settings.layers}", remedy="tune it all"
    )
    with quiet_loading(), failed, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = peft.get_peft_model(model, config)
    # By this, others find the model that the adapters belong to.
    config.base_model_name_or_path = source.name if source.revision else str(real_path(source.folder))
    config.revision = source.revision
    for name, weight in adapted.named_parameters():
        # Of what is new the last layer is trained, as peft does; a new layer below it is a fixed projection.
        path, is_kept, _ = name.partition(".modules_to_save.")
        if is_kept and not path.endswith(_TRAINED):
            weight.requires_grad_(False)
    return adapted


def _kept_whole(tunable: TunableModel) -> Iterator[str]:
    """Modules with weights that were drawn anew: those that peft knows of a head, and single layers of all others."""
    model = tunable.model
    for name in tunable.drawn:
        top = model if hasattr(model, name) else model.base_model
        module, path = getattr(top, name), name if top is model else f"{model.base_model_prefix}.{name}"
        if name in _TRAINED:
            yield path
        else:
            own = (place for place, layer in module.named_modules() if layer._parameters)
            yield from (f"{path}.{place}".rstrip(".") for place in own)


def reload(folder: Path, encoder: Encoder, task: TuningTask, settings: FineTuneSettings, *, are_pairs: bool) -> Trained:
    """The model that :meth:`Trained.save` wrote, for predictions.

    Raises:
        ModelError: the folder lacks the head.
    """
    if settings.layers != "none":
        return Trained(load_tunable(encoder, head=task.head, seed=None).model, encoder, settings)
    head, path = _frozen_head(encoder, task, settings, are_pairs=are_pairs), folder / HEAD_FILE
    if not path.is_file():
        raise ModelError(f"{path}: no such file, the head of this model; fine-tune it again")
    head.load_state_dict(load_file(path))
    return Trained(head, encoder, settings)
