"""Training by the Trainer of transformers: the optimizer, the record of each epoch, and how a stopped run goes on."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from bertology._files import write_atomically
from bertology.activations import Progress
from bertology.encoders.sources import quiet_loading
from bertology.errors import BertologyError, FitError, ModelError
from bertology.finetuning._inputs import Collator, Row
from bertology.finetuning._settings import FineTuneSettings

if TYPE_CHECKING:
    from transformers import Trainer

_STATE = "trainer_state.json"
_MODEL_FILES = (".safetensors", ".json", ".txt", ".model")
"""What stays of a checkpoint when a run is finished: the model folder."""
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
    """Of a finished run's checkpoints, keep the model folders, or nothing."""
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
        return
    (folder / _HISTORY).unlink(missing_ok=True)
    for path in folder.glob("checkpoint-*/*"):
        if path.suffix not in _MODEL_FILES or path.name == _STATE:
            path.unlink()
