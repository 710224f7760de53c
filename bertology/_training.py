"""The training loop of all that changes the weights of a transformer: the Trainer of transformers, with resuming.

Fine-tuning trains by epochs on rows in random order; pretraining and distillation train by steps, on batches that
depend on their number alone.
"""

import math
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.data import DataLoader

from bertology._lazy import transformers
from bertology._machine import quiet_loading
from bertology._products import product
from bertology.errors import FitError, ModelError

_STATE = "trainer_state.json"
_MODEL_FILES = (".safetensors", ".json", ".txt", ".model")
"""Endings of the files of a checkpoint that stay when a run is finished: the model folder."""
_PARTIAL = "partial"
Batch = dict[str, Any]


def weight_groups(model: torch.nn.Module, decay: float) -> list[dict[str, Any]]:
    """The weights that are trained as groups of an optimizer: matrices decay, biases and norms do not."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]


_PARTS, _SHARES = "parts", "shares"
_PASS = 64  # pieces that take a processor about as long as what one more pass costs whatever its size


def of_one_length(rows: Sequence[Any]) -> list[list[Any]]:
    """Rows in parts of about one length, which take the least time where each part is padded to its longest row."""
    ordered = sorted(rows, key=len)
    best = [(0, 0)]  # [n] time of the n shortest rows, and where the last part of them starts
    for stop, longest in enumerate(map(len, ordered), 1):
        best.append(min((best[start][0] + _PASS + (stop - start) * longest, start) for start in range(stop)))
    parts, stop = list[list[Any]](), len(ordered)
    while stop:
        parts.append(ordered[best[stop][1] : stop])
        stop = best[stop][1]
    return parts


def in_parts(collate: Callable[[Sequence[Any]], Batch], n_labels: Callable[[Any], int]) -> Callable[..., Batch]:
    """Makes batches in parts of about one length, with the share of the loss that each part has."""

    def made(rows: Sequence[Any]) -> Batch:
        parts = of_one_length(rows)
        sizes = [sum(map(n_labels, part)) for part in parts]
        return {_PARTS: [*map(collate, parts)], _SHARES: [size / sum(sizes) for size in sizes]}

    return made


class _Rows(torch.autograd.Function):
    """Rows of a table, whose gradient is added to what the table has: no table of zeros is made for each part."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, table: Tensor, unused: int | None) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.table, ctx.unused = table, unused
        return table[ids]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[None, None, None]:
        (ids,) = ctx.saved_tensors
        if ctx.table.grad is None:
            ctx.table.grad = torch.zeros_like(ctx.table)
        if ctx.unused is not None:  # the row of padding does not learn
            slope = slope.masked_fill((ids == ctx.unused)[..., None], 0.0)
        ctx.table.grad.index_add_(0, ids.flatten(), slope.flatten(0, -2))
        return None, None, None


@contextmanager
def _fast_on_processor(model: torch.nn.Module, place: torch.device, *, in_half: bool) -> Iterator[None]:
    """Let the linear maps and tables of a model that is trained in float32 on a processor compute as here."""
    look_up: Any = _Rows.apply
    modules = [] if place.type != "cpu" or in_half else [one for one in model.modules() if "forward" not in vars(one)]
    for one in modules:
        if type(one) is torch.nn.Linear:
            vars(one)["forward"] = lambda values, of=one: product(values, of.weight, of.bias)
        elif type(one) is torch.nn.Embedding and one.max_norm is None and not one.weight._backward_hooks:
            vars(one)["forward"] = lambda ids, of=one: look_up(ids, of.weight, of.padding_idx)
    try:
        yield
    finally:
        for one in modules:
            vars(one).pop("forward", None)


def train(
    model: Any,
    data: Sequence[Any],
    collate: Callable[[Sequence[Any]], Batch],
    optimizer: torch.optim.Optimizer,
    *,
    folder: Path,
    device: str | torch.device,
    clip_norm: float,
    checkpoint_every: int | None,
    remedy: str,
    loss: Callable[[Batch], Tensor] | None = None,
    n_labels: Callable[[Any], int] | None = None,
    rate: Callable[[int], float] | None = None,
    tokenizer: Any = None,
    measure: Callable[[], dict[str, float]] | None = None,
    progress: Any = None,
    began: Callable[[int, int], None] = lambda step, n_steps: None,
    stepped: Callable[[int, float], None] = lambda step, loss: None,
    **arguments: Any,
) -> list[dict[str, Any]]:
    """Train a model in place, from the last whole checkpoint in ``folder`` where there is one.

    Args:
        model: the module; where no ``loss`` of a batch is given, with a ``loss`` in its output.
        data: rows, of which ``collate`` makes batches; a ``range`` of steps is taken one by one in order.
        n_labels: of a row, how many labels the mean loss of a batch is over. With it, and without a ``loss``, the
            processor computes a batch in parts of rows of about one length: the same gradient, with less padding.
        optimizer: over the weights that are trained; by ``rate`` of each step from 0, or that of ``arguments``.
        folder: of the checkpoints, made every ``checkpoint_every`` steps, or after each epoch; with the ``tokenizer``.
        remedy: what to change where the loss is not finite.
        measure: scores, taken after each epoch.
        progress: a report that is started with the number of steps, and counts them.
        began: is called with the steps that are done already, and the number of all.
        stepped: is called after each step with the steps so far and its loss.
        arguments: of ``transformers.TrainingArguments``.

    Returns:
        With ``measure`` a record of each epoch: ``epoch``, ``step``, ``train_loss``, and the scores under ``dev``.

    Raises:
        FitError: the loss is NaN or infinite.
        ModelError: a GPU by its number is asked for.
    """
    place, last = torch.device(device), last_checkpoint(folder)
    if place.index not in (None, 0):
        raise ModelError(f"device {place}: training takes cpu, cuda or mps; choose a GPU by CUDA_VISIBLE_DEVICES")
    losses: list[float] = []

    batch_of = collate
    if n_labels is not None and loss is None and place.type == "cpu":
        batch_of = in_parts(collate, n_labels)

    def partial(state: Any) -> list[float]:
        """The losses of an epoch that is not finished, taken out of the Trainer's state."""
        is_there = state.log_history and _PARTIAL in state.log_history[-1]
        return list(state.log_history.pop()[_PARTIAL]) if is_there else []

    class Checked(transformers.Trainer):  # type: ignore[misc]
        """Stops at the first loss that is not finite, before it is in the weights."""

        def get_train_dataloader(self) -> Any:
            if not isinstance(data, range):
                return super().get_train_dataloader()
            steps: Any = data
            return self.accelerator.prepare(DataLoader(steps, batch_size=1, collate_fn=collate))

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if loss is not None:
                return loss(inputs)
            of_part = super().compute_loss
            if _PARTS not in inputs:
                return of_part(model, inputs, *args, **kwargs)
            by_part = zip(inputs[_SHARES], inputs[_PARTS], strict=True)
            return sum(share * of_part(model, part, *args, **kwargs) for share, part in by_part)

        def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
            found: Tensor = super().training_step(*args, **kwargs)
            value = float(found) * self.args.gradient_accumulation_steps
            if not math.isfinite(value):
                raise FitError(f"the loss is {value} at step {self.state.global_step + 1}: {remedy}")
            losses.append(value)
            return found

    class Record(transformers.TrainerCallback):  # type: ignore[misc]
        """Losses and scores of each epoch, kept in the Trainer's state and so in its checkpoints."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            losses[:] = partial(state)
            if progress is not None:
                progress.start(state.max_steps, unit="steps")
                progress.skip(state.global_step)
            began(state.global_step, state.max_steps)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if progress is not None:
                progress.advance(1)
            stepped(state.global_step, losses[-1])
            if measure is None:
                losses.clear()
            elif control.should_save:
                partial(state)
                state.log_history.append({_PARTIAL: list(losses)})

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            partial(state)
            if measure is None:
                return
            epoch = {"epoch": round(state.epoch), "step": state.global_step, "train_loss": sum(losses) / len(losses)}
            losses.clear()
            with torch.random.fork_rng(devices=[]):
                state.log_history.append({**epoch, "dev": measure()})

    chosen: Any = transformers.TrainingArguments(
        output_dir=str(folder),
        max_grad_norm=clip_norm,
        save_strategy="epoch" if checkpoint_every is None else "steps",
        save_steps=checkpoint_every or 500,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=place.type == "cpu",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        label_names=["labels"],
        **arguments,
    )
    if chosen.n_gpu > 1:
        chosen._n_gpu = 1  # replicas would change what a batch is
    schedule = None
    if rate is not None:
        for group in optimizer.param_groups:
            group["lr"] = 1.0  # times the rate of each step
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    try:
        with quiet_loading(), _own_random_state(), _fast_on_processor(model, place, in_half=chosen.bf16 or chosen.fp16):
            trainer = Checked(
                model,
                chosen,
                data_collator=batch_of,
                train_dataset=data,
                processing_class=tokenizer,
                optimizers=(optimizer, schedule),
                callbacks=[Record],
            )
            trainer.remove_callback(transformers.PrinterCallback)
            if loss is not None:
                trainer.loss_is_scaled_for_ga = False  # a mean over the part of a batch
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
    finally:
        if progress is not None:
            progress.finish()
    return [entry for entry in trainer.state.log_history if "dev" in entry]  # it adds one of its own


@contextmanager
def _own_random_state() -> Iterator[None]:
    """Leave the global generators as they were: the Trainer seeds them all."""
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def last_checkpoint(folder: Path) -> Path | None:
    """The last whole checkpoint; one that is damaged, or that a killed process left half written, is deleted."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    for path in reversed(found):
        try:
            transformers.TrainerState.load_from_json(str(path / _STATE))  # written last
            for weights in path.glob("*.safetensors"):
                safe_open(weights, "pt")
            is_whole = all(map(zipfile.is_zipfile, path.glob("*.pt*")))  # optimizer, learning rates, random numbers
        except (FileNotFoundError, TypeError, ValueError, SafetensorError):
            is_whole = False
        if is_whole:
            return path
        shutil.rmtree(path)
    return None


def tidy_checkpoints(folder: Path, *, keep: bool) -> None:
    """Keep the model folders of a finished run's checkpoints, or nothing."""
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.glob("checkpoint-*/*"):
        if path.suffix not in _MODEL_FILES or path.name == _STATE:
            path.unlink()
