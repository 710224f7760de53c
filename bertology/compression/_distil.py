"""Distillation: a student of fewer layers is trained to predict what its teacher predicts."""

from __future__ import annotations

import io
import math
import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bertology._files import canonical_json, digest, write_atomically
from bertology._folder import one_process
from bertology.compression._methods import CompressedModel, Method
from bertology.corpora import Sentences, load_corpus
from bertology.encoders import Encoder, Pieces
from bertology.encoders.batching import Batch, plan_batches
from bertology.errors import BertologyError, CorpusError, ModelError

_STATE = "state.pt"
_HELD_OUT_SENTENCES = 200
_MASKED, _SHOWN = 0.8, 0.9


@dataclass(frozen=True)
class Distil(Method):
    """Train a student of fewer layers on what its teacher, the model as it is, predicts (Sanh et al. 2019).

    The student begins as the teacher's embeddings, head and layers at even distances (1, 3, 5, 8, 10 and 12 for six of
    twelve, as DistilBERT). Its loss is KL(teacher ‖ student) of the masked-LM predictions at masked pieces, at a
    temperature T and times T², plus ``hidden_weight`` times the mean squared difference of hidden states: of its layer
    i of n and the teacher's layer round(i · L / n). Pieces are masked as by Devlin et al. (2019), nothing is dropped
    out; AdamW with a linear warm-up over a tenth of the steps and a linear decay. A stopped run goes on from its last
    state.
    """

    name = "distil"

    layers: int
    """Layers of the student."""
    steps: int = 2000
    """Optimisation steps."""
    corpus: str = "pocket"
    """Text to train on, its first split; losses before and after are of its split ``dev``, where it has one, else of
    every tenth sentence, which is not trained on."""
    lr: float = 5e-4
    """Highest learning rate."""
    batch_pieces: int = 1024
    """Pieces in a batch, padding included."""
    mask_rate: float = 0.15
    """Share of pieces that are predicted."""
    temperature: float = 2.0
    """Both distributions are those of logits divided by it."""
    hidden_weight: float = 1.0
    """Weight of the difference of hidden states in the loss; 0 leaves it out."""
    checkpoint_every: int = 200
    """Steps between states from which a stopped run goes on."""
    seed: int = 0
    """Decides batches and masks."""

    def __post_init__(self) -> None:
        for name in ("layers", "steps", "batch_pieces", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ModelError(f"distil: {name} is {getattr(self, name)}; give 1 or more")
        if not (0 < self.mask_rate < 1 and 0 < self.lr < 1 and self.temperature > 0 and self.hidden_weight >= 0):
            raise ModelError(
                "distil: mask_rate and lr lie between 0 and 1; temperature is above 0, hidden_weight 0 or more"
            )

    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        n_layers = len(compressed.blocks)
        if self.layers > n_layers:
            raise ModelError(f"distil: the model has {n_layers} layers, so a student cannot have {self.layers}")
        train, held_out = self._text()
        with compressed.encoder() as teacher:
            if not teacher.has_masked_lm_head:
                raise ModelError(
                    f"model {teacher.name}: no masked-LM head in its weights, which distillation needs; choose a "
                    "masked language model, or methods such as layers and neurons"
                )
            keep = np.linspace(1, n_layers, self.layers).round().astype(int).tolist()
            compressed.keep_layers(keep)
            with compressed.encoder() as student:
                identity = digest(
                    [canonical_json(asdict(self)), teacher.fingerprint.encode(), train.text_fingerprint.encode()]
                )
                trainer = _Trainer(self, teacher, student, Examples(self, teacher, train))
                with one_process(compressed.state, "trains here"):
                    before = trainer.loss(Examples(self, teacher, held_out))
                    trainer.run(compressed.state / _STATE, identity, compressed)
                    after = trainer.loss(Examples(self, teacher, held_out))
        compressed.adopt(trainer.model.to("cpu").requires_grad_(False))
        compressed.storage.clear()
        outcome = {"started_from_layers": keep, "loss_before": before, "loss_after": after}
        return {**outcome, "sentences": len(train), "text_fingerprint": train.text_fingerprint}

    def _text(self) -> tuple[Sentences, Sentences]:
        """Sentences to train on, and others."""
        corpus = load_corpus(self.corpus)
        train = corpus[next(iter(corpus.splits))]
        if "dev" in corpus and next(iter(corpus.splits)) != "dev":
            return train, corpus["dev"][:_HELD_OUT_SENTENCES]
        if len(train) < 10:
            raise CorpusError(f"corpus {corpus.name}: {len(train)} sentences are too few to train on; give 10 or more")
        others = Sentences(sentence for number, sentence in enumerate(train) if number % 10 != 9)
        return others, train[9::10][:_HELD_OUT_SENTENCES]


@dataclass(frozen=True, eq=False)
class MaskedRows:
    """A batch with some of its pieces masked."""

    inputs: dict[str, Tensor]
    """``input_ids`` and, where something is padded, ``attention_mask``: ``[row, piece]``."""
    real: Tensor
    """``[row, piece]`` bool, pieces that are no padding."""
    places: Tensor
    """``[row, piece]`` bool, pieces to predict."""


class Examples:
    """Batches of a text with masked pieces; each depends on the seed and its number alone."""

    def __init__(self, method: Distil, encoder: Encoder, sentences: Sentences) -> None:
        self._method, self._encoder = method, encoder
        self._pieces: Pieces = encoder.tokenize(sentences)
        if not self._pieces.n_windows:
            raise CorpusError("distil: there is no text that the model can read; give another corpus")
        self.batches = plan_batches(self._pieces.window_lengths, pieces=method.batch_pieces)
        special = set(encoder.tokenizer.all_special_ids)
        self._ordinary = np.array([i for i in range(len(encoder.tokenizer)) if i not in special])

    def drawn(self, step: int) -> MaskedRows:
        """The batch of a step, drawn at random."""
        chance = np.random.default_rng([self._method.seed, 0, step])
        return self._masked(self.batches[chance.integers(len(self.batches))], chance)

    def each(self) -> list[MaskedRows]:
        """All batches, once, with masks of their own."""
        seeds = ([self._method.seed, 1, number] for number in range(len(self.batches)))
        return [
            self._masked(batch, np.random.default_rng(seed)) for batch, seed in zip(self.batches, seeds, strict=True)
        ]

    def _masked(self, batch: Batch, chance: np.random.Generator) -> MaskedRows:
        encoder = self._encoder
        ids = self._pieces.batch_ids(batch.windows, batch.length)
        lengths = self._pieces.window_lengths[batch.windows][:, None]
        column = np.arange(batch.length)
        text = (column >= encoder.n_prefix) & (column < lengths - encoder.n_suffix)
        places = text & (chance.random(ids.shape) < self._method.mask_rate)
        row = int(chance.integers(len(ids)))
        places[row, encoder.n_prefix] = text[row, encoder.n_prefix]  # one place at least
        kind = chance.random(ids.shape)
        other = self._ordinary[chance.integers(len(self._ordinary), size=ids.shape)]
        ids = np.where(places & (kind < _MASKED), encoder.mask_id, ids)
        ids = np.where(places & (kind >= _MASKED) & (kind < _SHOWN), other, ids)
        inputs = {"input_ids": ids, "attention_mask": (column < lengths).astype(np.int64)}
        device = encoder.device
        tensors = {name: torch.from_numpy(values).to(device) for name, values in inputs.items()}
        real = tensors["attention_mask"].bool()
        if not batch.is_padded:
            del tensors["attention_mask"]  # attention without a mask is faster
        return MaskedRows(tensors, real, torch.from_numpy(places).to(device))


class _Trainer:
    """A student, its teacher, its optimizer, and the step it has reached."""

    def __init__(self, method: Distil, teacher: Encoder, student: Encoder, examples: Examples) -> None:
        self.method, self.teacher, self.student, self.examples = method, teacher, student, examples
        self.step = 0
        self.model = cast(Any, student.model.with_head)
        # What a student does not need in prediction, such as a pooler, gets no gradient and stays.
        parameters = list(self.model.requires_grad_(True).parameters())
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.01},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0)  # set before each step
        size = student.n_layers
        self.pairs = [(i, round(i * teacher.n_layers / size)) for i in range(1, size + 1)]

    def _states(self, encoder: Encoder, rows: MaskedRows) -> tuple[Tensor, ...]:
        """``[row, piece, dim]`` by layer from 0; the last as the head reads it."""
        body: Any = encoder.model.body
        output = body(**rows.inputs, output_hidden_states=True, return_dict=True)
        return (*output.hidden_states[: encoder.n_layers], output.last_hidden_state)

    def batch_loss(self, rows: MaskedRows) -> Tensor:
        """The loss of one batch, with gradients for the student unless these are off."""
        with torch.no_grad():
            wanted = self._states(self.teacher, rows)
            target = self._logits(self.teacher, wanted, rows)
        states = self._states(self.student, rows)
        logits, heat = self._logits(self.student, states, rows), self.method.temperature
        loss = heat**2 * functional.kl_div(
            (logits / heat).log_softmax(-1), (target / heat).log_softmax(-1), reduction="batchmean", log_target=True
        )
        if self.method.hidden_weight:
            real = rows.real
            parts = [functional.mse_loss(states[own][real], wanted[other][real]) for own, other in self.pairs]
            loss = loss + self.method.hidden_weight * torch.stack(parts).mean()
        return loss

    def _logits(self, encoder: Encoder, states: tuple[Tensor, ...], rows: MaskedRows) -> Tensor:
        head = encoder.masked_head
        return head.logits(head.features(states[-1][rows.places]))

    @torch.no_grad()
    def loss(self, examples: Examples) -> float:
        """The mean loss of all batches of a text."""
        return float(np.mean([float(self.batch_loss(rows)) for rows in examples.each()]))

    def run(self, path: Path, identity: str, compressed: CompressedModel) -> None:
        """Train to the last step, from the state in ``path`` where there is one."""
        method, progress = self.method, compressed.progress
        if path.exists():
            self._resume(path, identity)
        progress.start(method.steps, unit="steps")
        progress.skip(self.step)
        while self.step < method.steps:
            self._advance()
            progress.advance(1)
            if self.step % method.checkpoint_every == 0 and self.step < method.steps:
                self._save(path, identity)
        progress.finish()

    def _advance(self) -> None:
        steps = self.method.steps
        warm = max(1, steps // 10)
        for group in self.optimizer.param_groups:
            group["lr"] = self.method.lr * min((self.step + 1) / warm, (steps - self.step) / max(1, steps - warm))
        loss = self.batch_loss(self.examples.drawn(self.step))
        if not math.isfinite(float(loss.detach())):
            raise BertologyError(
                f"distil: the loss is {float(loss.detach())} at step {self.step}: lower lr or hidden_weight"
            )
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1

    def _save(self, path: Path, identity: str) -> None:
        buffer = io.BytesIO()
        state = {"identity": identity, "step": self.step}
        torch.save({**state, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, buffer)
        write_atomically(path, buffer.getvalue())

    def _resume(self, path: Path, identity: str) -> None:
        try:
            state: Any = torch.load(path, map_location=self.student.device, weights_only=True)
            found = state["identity"]
        except (RuntimeError, EOFError, OSError, ValueError, KeyError, TypeError, pickle.UnpicklingError):
            raise BertologyError(f"{path}: not a whole training state; delete it to start over") from None
        if found != identity:
            raise BertologyError(f"{path}: from a run with other settings; delete it or choose another --out")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = int(state["step"])
