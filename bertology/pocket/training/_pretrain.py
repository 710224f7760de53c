"""Pretraining of Pocket BERT on masked words and next sentences, resumable and reproducible."""

from __future__ import annotations

import io
import json
import math
import pickle
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology._files import canonical_json, digest, write_atomically
from bertology._temporary import sweep
from bertology._workers import choose_device
from bertology.errors import BertologyError
from bertology.pocket._items import AgreementItem, agreement_items
from bertology.pocket.bilingual.texts import bilingual_documents
from bertology.pocket.grammar.texts import pretraining_documents
from bertology.pocket.grammar.world import Fact, facts
from bertology.pocket.training._batches import Batch, Examples, encode
from bertology.pocket.training._evaluation import Evaluation, evaluate, longest_prompt, model_card
from bertology.pocket.training._model import (
    PretrainSettings,
    first_of_second,
    new_model,
    save_model,
    train_tokenizer,
)

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import BertForPreTraining

Echo = Callable[[str], None]
_HELD_OUT_SEED = 1_000_003
"""Added to the seed for text that is only evaluated on."""
_TOKENIZER_DOCUMENTS = 5000
_REPORT_SECONDS = 20.0
_STATE = "state.pt"
_CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Pretrained:
    """The result of a run of pretraining."""

    folder: Path
    """A model folder in Hugging Face layout."""
    evaluation: Evaluation
    """Held-out figures of the weights as stored."""


def pretrain(
    settings: PretrainSettings, out: Path, *, device: str = "auto", threads: int | None = None, echo: Echo = print
) -> Pretrained:
    """Generate the text, learn the vocabulary, train the model, and write its folder.

    A run that was killed resumes from its last state in ``out/training`` and ends with the same weights as an
    uninterrupted one.

    Args:
        settings: the recipe.
        out: folder for the model.
        device: ``auto`` takes a GPU where there is one.
        threads: processor threads for torch; its own choice when left out.
        echo: called with each line on progress.

    Raises:
        ModelError: there is no such device.
        BertologyError: ``out`` holds the state of a run with other settings, or cannot be written; ``max_pieces`` is
            too few for what is evaluated; or the loss or a weight is not finite, and then no model is written.
    """
    import torch
    from safetensors.torch import load_file

    if threads is not None:
        torch.set_num_threads(threads)
    # Of itself it takes a CUDA GPU or the processor alone: recipes were tried on these.
    device = str(choose_device(device)) if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    work = out / "training"
    sweep(out, work, *(out / _CHECKPOINTS).glob("*"))
    state = saved_state(work / _STATE, settings, device=device)
    tokenizer, examples, held_out = _text(settings, echo)
    _check_length(settings, tokenizer)
    model = new_model(settings, tokenizer.get_vocab_size(), second_from=first_of_second(tokenizer))
    torch.nn.Module.to(model, device)  # its own ``to`` is not typed for device names
    trainer = Trainer(settings, model, examples)
    if state is not None:
        trainer.resume(state)
        echo(f"going on from step {trainer.step}")

    def measured(*, at_last: bool = False) -> Evaluation:
        items = _agreement_items(settings, at_last=at_last)
        evaluation = evaluate(trainer.model, tokenizer, held_out=held_out, agreement=items, facts=facts())
        echo(f"step {trainer.step}: {_in_words(evaluation)}")
        return evaluation

    _train(trainer, tokenizer, out, measured, echo)
    save_model(trainer.model, tokenizer, out)
    # The figures are those of the weights after their rounding to float16.
    trainer.model.load_state_dict(load_file(out / "model.safetensors"), strict=False)
    evaluation = measured(at_last=True)
    card = model_card(settings, evaluation, vocabulary_size=tokenizer.get_vocab_size())
    write_atomically(out / "README.md", card.encode())
    _write_provenance(settings, out, evaluation, device=device)
    return Pretrained(out, evaluation)


def _agreement_items(settings: PretrainSettings, *, at_last: bool) -> tuple[AgreementItem, ...]:
    # The last figures are of items that no one has looked at while the recipe was made.
    return agreement_items(seed=settings.seed + at_last * _HELD_OUT_SEED)


def _check_length(settings: PretrainSettings, tokenizer: Tokenizer) -> None:
    """Refuse settings with which the model could not read what it is evaluated on."""
    items = (_agreement_items(settings, at_last=last) for last in (False, True))
    longest = max(longest_prompt(tokenizer, chosen, facts()) for chosen in items)
    if longest > settings.max_pieces:
        raise BertologyError(
            f"max_pieces is {settings.max_pieces}, but evaluation has prompts of {longest} pieces: "
            f"give {longest} or more, or a larger vocabulary_size"
        )


def _text(settings: PretrainSettings, echo: Echo) -> tuple[Tokenizer, Examples, list[Examples]]:
    """The tokenizer, examples to train on, and for each language examples to evaluate on."""
    echo(f"writing {settings.documents} documents" + " in two languages" * (settings.second_language is not None))
    text = _documents(settings, settings.documents)
    # Words of the other language among those of one are no part of its vocabulary, nor of what is evaluated.
    apart = settings.apart()
    known = text if apart == settings else _documents(apart, min(settings.documents, _TOKENIZER_DOCUMENTS))
    firsts, *others = (chain.from_iterable(documents[:_TOKENIZER_DOCUMENTS]) for documents in known)
    tokenizer = train_tokenizer(
        firsts,
        vocabulary_size=settings.vocabulary_size,
        others=chain.from_iterable(others),
        second=settings.second_language,
    )
    held_out = _documents(apart, settings.held_out_documents, seed=_HELD_OUT_SEED, stated=())
    encoded = encode(chain.from_iterable(text), tokenizer)
    echo(f"{encoded.n_sentences} sentences, {len(encoded.pieces)} pieces, {tokenizer.get_vocab_size()} known")
    examples = [Examples(encode(documents, tokenizer), tokenizer, settings) for documents in held_out]
    return tokenizer, Examples(encoded, tokenizer, settings), examples


def _documents(
    settings: PretrainSettings, n_documents: int, *, seed: int = 0, stated: Sequence[Fact] | None = None
) -> list[list[list[str]]]:
    """Documents of each language, as lists of sentences; ``seed`` is added to that of the settings."""
    second, seed = settings.second_language, settings.seed + seed
    if second is None:
        return [list(pretraining_documents(n_documents, seed=seed, stated=stated))]
    first_documents, second_documents = zip(
        *bilingual_documents(n_documents, second, seed=seed, stated=stated), strict=True
    )
    return [[*first_documents], [*second_documents]]


class Trainer:
    """A model, its optimizer, and the step they have reached."""

    def __init__(self, settings: PretrainSettings, model: BertForPreTraining, examples: Examples) -> None:
        import torch

        self.settings = settings
        self.model = model.train()
        self.examples = examples
        self.step = 0
        matrices, vectors = ([p for p in model.parameters() if (p.ndim > 1) == matrix] for matrix in (True, False))
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=0.0,  # set before each step
            betas=(0.9, 0.98),
            fused=True,
        )

    def advance(self) -> float:
        """Take one step; returns the loss, which must be finite."""
        import torch

        steps, rates = zip(*self.settings.learning_rates, strict=True)
        for group in self.optimizer.param_groups:
            group["lr"] = float(np.interp(self.step + 1, steps, rates))
        if self.settings.dropout:
            torch.manual_seed(self.settings.seed + self.step)  # so that a resumed run drops the same units
        loss = pretraining_loss(self.model, self.examples.batch(self.step))
        value = float(loss.detach())
        if not math.isfinite(value):
            raise BertologyError(
                f"the loss is {value} at step {self.step}: lower learning_rates, clip_norm or initializer_range"
            )
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return value

    def save(self, path: Path) -> None:
        """Write the state for resuming; the order of examples and their masks depend on the step only."""
        import torch

        buffer = io.BytesIO()
        state = {
            "settings": _settings_digest(self.settings),
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(state, buffer)
        write_atomically(path, buffer.getvalue())

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = int(state["step"])


def saved_state(path: Path, settings: PretrainSettings, *, device: str) -> dict[str, Any] | None:
    """The state of an earlier run, which must be whole and of the same settings; ``None`` if there is none."""
    import torch

    if not path.exists():
        return None
    try:
        state: Any = torch.load(path, map_location=device, weights_only=True)
        if not isinstance(state, dict) or not {"settings", "step", "model", "optimizer"} <= state.keys():
            raise ValueError
    except (RuntimeError, EOFError, OSError, ValueError, pickle.UnpicklingError):
        raise BertologyError(f"{path}: not a whole training state; delete it to start over") from None
    if state["settings"] != _settings_digest(settings):
        raise BertologyError(f"{path}: from a run with other settings; delete it or choose another --out")
    return state


def pretraining_loss(model: BertForPreTraining, batch: Batch) -> torch.Tensor:
    """Cross-entropy of the masked pieces plus that of the next sentence (Devlin et al. 2019, section 3.1).

    Only masked places go through the projection onto the vocabulary.
    """
    import torch
    from torch.nn.functional import cross_entropy

    def on_device(array: Any) -> torch.Tensor:
        return torch.from_numpy(array).to(model.device)

    hidden = model.bert(**batch.inputs(model.device))
    places = on_device(batch.masked).unsqueeze(-1).expand(-1, -1, hidden.last_hidden_state.shape[-1])
    masked, following = model.cls(hidden.last_hidden_state.gather(1, places), hidden.pooler_output)
    loss = cross_entropy(masked.flatten(0, 1), on_device(batch.masked_labels).flatten())
    if (batch.next_labels >= 0).any():
        loss = loss + cross_entropy(following, on_device(batch.next_labels))
    return loss


def _train(trainer: Trainer, tokenizer: Tokenizer, out: Path, measured: Callable[[], Evaluation], echo: Echo) -> None:
    settings, work = trainer.settings, out / "training"
    first, began, reported = trainer.step, time.monotonic(), time.monotonic()
    losses: list[float] = []
    while True:
        if trainer.step in settings.keep_checkpoints:
            save_model(trainer.model, tokenizer, out / _CHECKPOINTS / f"step-{trainer.step:06d}")
        if trainer.step >= settings.steps:
            return
        losses.append(trainer.advance())
        if trainer.step % settings.checkpoint_every == 0 or trainer.step == settings.steps:
            trainer.save(work / _STATE)
        if trainer.step % settings.evaluate_every == 0 and trainer.step < settings.steps:
            measured()
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            rate = (trainer.step - first) / (reported - began)
            left = (settings.steps - trainer.step) / rate / 60
            loss = sum(losses) / len(losses)
            echo(f"step {trainer.step}/{settings.steps}, loss {loss:.3f}, {rate:.1f} steps/s, {left:.0f} min left")
            losses.clear()


def _settings_digest(settings: PretrainSettings) -> str:
    return digest([canonical_json(settings.model_dump(mode="json"))])


def _in_words(evaluation: Evaluation) -> str:
    def table(shares: dict[int, float]) -> str:
        return " ".join(f"{key}:{share:.0%}" for key, share in shares.items())

    return (
        f"masked {_shares_in_words(evaluation.masked_accuracy, evaluation.second_masked_accuracy)}, "
        f"next sentence {_shares_in_words(evaluation.next_sentence_accuracy)}, "
        f"agreement by attractors {table(evaluation.agreement_by_attractors)}, "
        f"facts by exposure {table(evaluation.fact_recall_by_exposure)} "
        f"(among candidates {table(evaluation.candidate_recall_by_exposure)})"
    )


def _shares_in_words(*shares: float | None) -> str:
    return " and ".join(f"{share:.1%}" for share in shares if share is not None) or "not asked"


def _write_provenance(settings: PretrainSettings, out: Path, evaluation: Evaluation, *, device: str) -> None:
    versions = {"bertology": import_module("bertology").__version__, "python": platform.python_version()}
    versions |= {name: import_module(name).__version__ for name in ("torch", "transformers", "tokenizers")}
    record = {
        "settings": settings.model_dump(mode="json"),
        "evaluation": evaluation.to_dict(),
        "device": device,
        "versions": versions,
    }
    write_atomically(out / "training.json", (json.dumps(record, indent=2) + "\n").encode())
