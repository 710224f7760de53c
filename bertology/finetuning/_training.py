"""The model that is trained, with its head or adapters, and its training by the Trainer of transformers."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import Dataset

from bertology._files import explained_write_errors, real_path, write_atomically
from bertology._memory import explained_shortage
from bertology._names import layer_number
from bertology.activations.progress import Progress
from bertology.encoders import Encoder, ModelSource
from bertology.encoders.loading import TunableModel, load_tunable
from bertology.encoders.resolving import merge_adapters
from bertology.encoders.sources import one_line, quiet_loading, save_model
from bertology.errors import BertologyError, FitError, ModelError
from bertology.finetuning._items import IGNORED, Collator, Kind, Row, TuningTask
from bertology.finetuning._settings import FineTuneSettings

if TYPE_CHECKING:
    from transformers import Trainer


_FOUR = 4
_MOST_KEPT = 1 << 30
_INPUTS = "input_ids", "attention_mask", "token_type_ids"


def layers_read(features: str, n_layers: int, *, name: str) -> tuple[int, ...]:
    """The layers of each choice of features; 0 is the embedding output.

    Raises:
        ModelError: the model has fewer layers.
    """
    if features.startswith("layer:"):
        chosen: tuple[int, ...] = (layer_number(int(features.partition(":")[2]), n_layers),)
    else:
        chosen = {
            "embeddings": (0,),
            "second_to_last": (n_layers - 1,),
            "last": (n_layers,),
            "sum_last_four": tuple(range(n_layers - _FOUR + 1, n_layers + 1)),
            "concat_last_four": tuple(range(n_layers - _FOUR + 1, n_layers + 1)),
            "sum_all": tuple(range(1, n_layers + 1)),
        }[features]
    if not 0 <= chosen[-1] <= n_layers or (len(chosen) == _FOUR and chosen[0] < 1):
        raise ModelError(f"features {features}: model {name} has {n_layers} layers; choose another")
    return chosen


class FrozenStates:
    """Hidden states of a frozen encoder, ``[layer, input, piece, dim]``; of inputs that were kept they are read once.

    A head is trained for many epochs on the same inputs, and nothing that it reads changes. What is kept depends on the
    inputs alone, so that a run that goes on after a stop has the same states, bit for bit.
    """

    def __init__(self, encoder: Encoder, layers: Sequence[int]) -> None:
        self._encoder, self._layers = encoder, tuple(layers)
        self._kept: dict[bytes, Tensor] = {}

    def keep(self, n_pieces: int, batches: Iterable[Mapping[str, Tensor]]) -> None:
        """Read the inputs of some batches, unless all of them would take more than 1 GiB.

        Args:
            n_pieces: of all batches, padding left out.
            batches: with ``input_ids``, ``attention_mask`` and maybe ``token_type_ids``, ``[input, piece]``.
        """
        if 4 * n_pieces * len(self._layers) * self._encoder.dim > _MOST_KEPT:
            return
        for batch in batches:
            ids, mask, types = (_on(batch.get(name), self._encoder.device) for name in _INPUTS)
            assert ids is not None
            assert mask is not None
            states = self._read(ids, mask, types)
            for place, (key, length) in enumerate(_keys(ids, mask, types)):
                self._kept[key] = states[:, place, :length].clone()

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """The states of a batch; of padding they are arbitrary."""
        keys = _keys(input_ids, attention_mask, token_type_ids) if self._kept else [(b"", 0)]
        if any(key not in self._kept for key, _ in keys):
            return self._read(input_ids, attention_mask, token_type_ids)
        shape = len(self._layers), *input_ids.shape, self._encoder.dim
        states = torch.zeros(shape, device=input_ids.device)
        for place, (key, length) in enumerate(keys):
            states[:, place, :length] = self._kept[key]
        return states

    def _read(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        states = self._encoder.hidden_states(
            input_ids, attention_mask, layers=self._layers, token_type_ids=token_type_ids
        )
        # Copies: what was computed in inference mode cannot take part in gradients.
        return torch.stack([states[layer] for layer in self._layers]).float().clone()


def _keys(input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> list[tuple[bytes, int]]:
    """A key that identifies each input, and its length; padding is on the right."""
    lengths = attention_mask.sum(1).tolist()
    columns = [one.cpu().numpy() for one in (input_ids, token_type_ids) if one is not None]
    return [
        (b"".join(column[place, :length].tobytes() for column in columns), length)
        for place, length in enumerate(lengths)
    ]


def _on(value: Tensor | None, device: str | torch.device) -> Tensor | None:
    return None if value is None else value.to(device)


class Mix(nn.Module):
    """A weighted sum of layers: weights that sum to 1, times one scale (Peters et al. 2018, eq. 1)."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(n_layers))
        self.scale = nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Tensor:
        """``[layer]`` the weights, which sum to 1."""
        return self.scores.softmax(0)

    def forward(self, states: Tensor) -> Tensor:
        """``[input, piece, dim]`` from ``[layer, input, piece, dim]``."""
        return self.scale * torch.einsum("l,lbpd->bpd", self.weights, states)


class FrozenHead(nn.Module):
    """Hidden states of some layers, a mix of them, maybe an LSTM, and a linear layer.

    Of a text it reads the mean over its pieces; of a pair the means u and v of both texts, |u − v| and u · v by
    dimension (Conneau et al. 2017); of words their first piece; of answers each piece.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        features: str,
        head: str,
        kind: Kind,
        are_pairs: bool,
        n_outputs: int,
        states: FrozenStates | None = None,
    ) -> None:
        super().__init__()
        self.layers = layers_read(features, encoder.n_layers, name=encoder.name)
        self._states = FrozenStates(encoder, self.layers) if states is None else states
        self.kind, self.are_pairs = kind, are_pairs
        self.mix = Mix(len(self.layers)) if features.startswith("sum_") else None
        width = encoder.dim * (len(self.layers) if self.mix is None else 1)
        self.lstm: nn.LSTM | None = None
        if head == "bilstm":
            self.lstm = nn.LSTM(width, encoder.dim, num_layers=2, batch_first=True, bidirectional=True)
            width = 2 * encoder.dim
        self.output = nn.Linear(width * (4 if are_pairs else 1), n_outputs)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segments: Tensor,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """``logits [input, class]``, or by piece, and with labels the ``loss``; inputs are ``[input, piece]``."""
        states = self._states(input_ids, attention_mask, token_type_ids)
        vectors = self.mix(states) if self.mix is not None else states.permute(1, 2, 0, 3).flatten(2)
        if self.lstm is not None:
            lengths = attention_mask.sum(1).cpu()
            packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
            vectors, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=input_ids.shape[1])
        if self.kind in ("tags", "answers"):
            logits = self.output(vectors)
        else:
            logits = self.output(self._pooled(vectors, segments))
        loss = _loss(self.kind, logits, labels, start_positions, end_positions)
        return {"logits": logits} | ({} if loss is None else {"loss": loss})

    def _pooled(self, vectors: Tensor, segments: Tensor) -> Tensor:
        first = _mean(vectors, segments == 0)
        if not self.are_pairs:
            return first
        second = _mean(vectors, segments == 1)
        return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


def _mean(vectors: Tensor, chosen: Tensor) -> Tensor:
    weights = chosen.to(vectors.dtype).unsqueeze(-1)
    return (vectors * weights).sum(1) / weights.sum(1).clamp(min=1)


def _loss(
    kind: Kind, logits: Tensor, labels: Tensor | None, starts: Tensor | None, ends: Tensor | None
) -> Tensor | None:
    if starts is not None and ends is not None:
        return (cross_entropy(logits[..., 0], starts) + cross_entropy(logits[..., 1], ends)) / 2
    if labels is None:
        return None
    if kind == "numbers":
        return mse_loss(logits[..., 0], labels.to(logits.dtype))
    return cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)


HEAD_FILE = "head.safetensors"
ADAPTER = "adapter"
_TRAINED = ("classifier", "score", "qa_outputs")
"""Modules of a task head that peft trains besides the adapters."""


@dataclass(frozen=True)
class Trained:
    """A model with what is needed to save it."""

    model: Any
    """The module that the Trainer trains."""
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


_STATE = "trainer_state.json"
_MODEL_FILES = (".safetensors", ".json", ".txt", ".model")
"""Endings of the files of a checkpoint that stay when a run is finished: the model folder."""
_PARTIAL = "partial"
_HISTORY = "history.json"
_EPS = 1e-6
Measured = Callable[[], dict[str, float]]


class UncorrectedAdamW(torch.optim.Optimizer):
    """AdamW whose moments are not corrected for starting at 0, as the code of Devlin et al. (2019) has it."""

    def __init__(self, groups: Sequence[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr, "betas": (0.9, 0.999), "eps": _EPS, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step on the gradients as they are; there is no ``closure``."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            first, second = group["betas"]
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight] = {name: torch.zeros_like(weight) for name in ("mean", "square")}
            gradients = [weight.grad for weight in weights]
            means, squares = ([self.state[weight][name] for weight in weights] for name in ("mean", "square"))
            torch._foreach_lerp_(means, gradients, 1 - first)
            torch._foreach_mul_(squares, second)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
            divisors = torch._foreach_sqrt(squares)
            torch._foreach_add_(divisors, group["eps"])
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_addcdiv_(weights, means, divisors, -group["lr"])


def make_optimizer(model: torch.nn.Module, settings: FineTuneSettings) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices alone, over the weights that are trained."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    if settings.bias_correction:
        return torch.optim.AdamW(groups, lr=settings.lr, eps=_EPS)
    return UncorrectedAdamW(groups, settings.lr)


class _Rows(Dataset[Row]):
    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Row:
        return self._rows[number]


def train(
    model: Any,
    rows: Sequence[Row],
    settings: FineTuneSettings,
    *,
    seed: int,
    folder: Path,
    device: torch.device,
    collator: Collator,
    tokenizer: Any,
    measure: Measured,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Train a model in place, from the last whole checkpoint in ``folder`` where there is one.

    Args:
        model: with a ``loss`` in what it gives.
        rows: inputs of the training split.
        settings: the recipe.
        seed: of the order of inputs and of dropout.
        folder: of the checkpoints; ``history.json`` in it has the records of the epochs so far.
        device: to train on.
        collator: makes batches of rows.
        tokenizer: is saved with each checkpoint.
        measure: scores on dev, taken after each epoch.
        progress: counts steps.

    Returns:
        A record of each epoch: ``epoch``, ``step``, ``train_loss``, and the scores under ``dev``.

    Raises:
        FitError: the loss is NaN or infinite.
        BertologyError: accelerate, which the Trainer needs, is not installed.
    """
    _check_installed()
    n_steps = math.ceil(len(rows) / settings.batch_size)
    last = last_checkpoint(folder)
    with quiet_loading(), _own_random_state():
        trainer = _trainer(
            model,
            _arguments(settings, folder, device, seed=seed, n_steps=n_steps * settings.epochs),
            _Rows(rows),
            collator,
            tokenizer,
            make_optimizer(model, settings),
        )
        trainer.add_callback(_recorder(trainer, measure, progress, folder))
        try:
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
        finally:
            progress.finish()
    return _epochs(trainer.state)


def _epochs(state: Any) -> list[dict[str, Any]]:
    """The records of epochs in the Trainer's state, which adds one of its own."""
    return [entry for entry in state.log_history if "dev" in entry]


def _check_installed() -> None:
    if importlib.util.find_spec("accelerate") is None:
        raise BertologyError("fine-tuning needs accelerate: pip install 'bertology[finetune]'")


@contextmanager
def _own_random_state() -> Iterator[None]:
    """Leave the global generators as they were: the Trainer seeds them all."""
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.random.set_rng_state(states[2])


def _arguments(settings: FineTuneSettings, folder: Path, device: torch.device, *, seed: int, n_steps: int) -> Any:
    from transformers import TrainingArguments

    every = settings.checkpoint_every
    arguments: Any = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=settings.batch_size // settings.accumulate,
        gradient_accumulation_steps=settings.accumulate,
        num_train_epochs=settings.epochs,
        learning_rate=settings.lr,
        lr_scheduler_type="constant_with_warmup" if settings.schedule == "constant" else settings.schedule,
        warmup_steps=round(settings.warmup * n_steps),
        max_grad_norm=settings.clip_norm,
        bf16=settings.precision == "bfloat16",
        save_strategy="epoch" if every is None else "steps",
        save_steps=every or 500,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=device.type == "cpu",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        label_names=["labels"],
        seed=seed,
    )
    if device.index not in (None, 0):
        raise ModelError(f"device {device}: fine-tuning takes cpu, cuda or mps; choose a GPU by CUDA_VISIBLE_DEVICES")
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # replicas would change what a batch is
    return arguments


def _trainer(
    model: Any, arguments: Any, rows: _Rows, collator: Collator, tokenizer: Any, optimizer: torch.optim.Optimizer
) -> Trainer:
    from transformers import PrinterCallback, Trainer

    class Checked(Trainer):  # type: ignore[misc]
        """Stops at the first loss that is not finite, before it is in the weights."""

        losses: list[float]

        def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
            loss: Tensor = super().training_step(*args, **kwargs)
            value = float(loss) * settings_parts
            if not math.isfinite(value):
                raise FitError(
                    f"the loss is {value} at step {self.state.global_step + 1}: set lr or clip_norm lower, or look "
                    "for numbers in the data that are out of range"
                )
            self.losses.append(value)
            return loss

    settings_parts = arguments.gradient_accumulation_steps
    trainer = Checked(
        model,
        arguments,
        data_collator=collator,
        train_dataset=rows,
        processing_class=tokenizer,
        optimizers=(optimizer, None),
    )
    trainer.losses = []
    trainer.remove_callback(PrinterCallback)
    return trainer


def _recorder(trainer: Any, measure: Measured, progress: Progress, folder: Path) -> Any:
    from transformers import TrainerCallback

    class Record(TrainerCallback):  # type: ignore[misc]
        """Losses and scores of each epoch, kept in the Trainer's state and so in its checkpoints."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            progress.start(state.max_steps, unit="steps")
            progress.skip(state.global_step)
            if state.log_history and _PARTIAL in state.log_history[-1]:
                trainer.losses[:] = state.log_history.pop()[_PARTIAL]

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            progress.advance(1)
            if control.should_save:
                self._drop_partial(state)
                state.log_history.append({_PARTIAL: list(trainer.losses)})

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._drop_partial(state)
            epoch = {"epoch": round(state.epoch), "step": state.global_step}
            loss = sum(trainer.losses) / len(trainer.losses)
            trainer.losses.clear()
            with torch.random.fork_rng(devices=[]):
                state.log_history.append({**epoch, "train_loss": loss, "dev": measure()})
            # For whoever looks at a run that goes on for hours.
            write_atomically(folder / _HISTORY, json.dumps(_epochs(state), indent=2).encode())

        def _drop_partial(self, state: Any) -> None:
            if state.log_history and _PARTIAL in state.log_history[-1]:
                state.log_history.pop()

    return Record()


def last_checkpoint(folder: Path) -> Path | None:
    """The last whole checkpoint; one that a killed process left half written is deleted."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    for path in reversed(found):
        try:
            json.loads((path / _STATE).read_text(encoding="utf-8"))  # written last
        except (FileNotFoundError, json.JSONDecodeError):
            shutil.rmtree(path)
            continue
        return path
    return None


def tidy_checkpoints(folder: Path, *, keep: bool) -> None:
    """Keep the model folders of a finished run's checkpoints, or nothing."""
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
        return
    (folder / _HISTORY).unlink(missing_ok=True)
    for path in folder.glob("checkpoint-*/*"):
        if path.suffix not in _MODEL_FILES or path.name == _STATE:
            path.unlink()
