"""Distillation: a student of fewer layers is trained to predict what its teacher predicts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bertology._folder import check_plan, one_process
from bertology._training import Steps, train, weight_groups
from bertology.compression._methods import CompressedModel, Method
from bertology.corpora import Sentences, load_corpus
from bertology.encoders import Encoder, Pieces
from bertology.encoders.batching import Batch, plan_batches
from bertology.errors import CorpusError, ModelError

_HELD_OUT_SENTENCES = 200
_MASKED, _SHOWN = 0.8, 0.9
Rows = dict[str, Tensor]
"""A batch with some of its pieces masked, ``[row, piece]``: ``input_ids``, ``attention_mask`` (0 at padding), and
``places``, bool, the pieces to predict."""


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
        text, held_out = self._text()
        with compressed.encoder() as teacher:
            if not teacher.has_masked_lm_head:
                raise ModelError(
                    f"model {teacher.name}: no masked-LM head in its weights, which distillation needs; choose a "
                    "masked language model, or methods such as layers and neurons"
                )
            keep = np.linspace(1, n_layers, self.layers).round().astype(int).tolist()
            compressed.keep_layers(keep)
            with compressed.encoder() as student, one_process(compressed.state, "trains here"):
                identity = {"settings": asdict(self), "teacher": teacher.fingerprint, "text": text.text_fingerprint}
                check_plan(compressed.state, json.loads(json.dumps(identity)), unplanned=lambda: None)
                lesson, others = Lesson(self, teacher, student), Examples(self, teacher, held_out)
                before = lesson.mean_loss(others)
                lesson.train(Examples(self, teacher, text), compressed)
                after = lesson.mean_loss(others)
        compressed.adopt(lesson.model.to("cpu").requires_grad_(False))
        compressed.storage.clear()
        outcome = {"started_from_layers": keep, "loss_before": before, "loss_after": after}
        return {**outcome, "sentences": len(text), "text_fingerprint": text.text_fingerprint}

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

    def drawn(self, step: int) -> Rows:
        """The batch of a step, drawn at random."""
        chance = np.random.default_rng([self._method.seed, 0, step])
        return self._masked(self.batches[chance.integers(len(self.batches))], chance)

    def each(self) -> list[Rows]:
        """All batches, once, with masks of their own."""
        seeds = ([self._method.seed, 1, number] for number in range(len(self.batches)))
        return [
            self._masked(batch, np.random.default_rng(seed)) for batch, seed in zip(self.batches, seeds, strict=True)
        ]

    def _masked(self, batch: Batch, chance: np.random.Generator) -> Rows:
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
        rows = {"input_ids": ids, "attention_mask": (column < lengths).astype(np.int64), "places": places}
        return {name: torch.from_numpy(values).to(encoder.device) for name, values in rows.items()}


class Lesson:
    """A teacher, a student, and what the student is to predict."""

    def __init__(self, method: Distil, teacher: Encoder, student: Encoder) -> None:
        self.method, self.teacher, self.student = method, teacher, student
        self.model = cast(Any, student.model.with_head)
        size = student.n_layers
        self.pairs = [(i, round(i * teacher.n_layers / size)) for i in range(1, size + 1)]

    def loss(self, rows: Rows) -> Tensor:
        """The loss of one batch, with gradients for the student unless these are off."""
        self.model.eval()  # nothing is dropped out
        with torch.no_grad():
            wanted, target = self._outputs(self.teacher, rows)
        (states, logits), heat = self._outputs(self.student, rows), self.method.temperature
        loss = heat**2 * functional.kl_div(
            (logits / heat).log_softmax(-1), (target / heat).log_softmax(-1), reduction="batchmean", log_target=True
        )
        if self.method.hidden_weight:
            real = rows["attention_mask"].bool()
            parts = [functional.mse_loss(states[own][real], wanted[other][real]) for own, other in self.pairs]
            loss = loss + self.method.hidden_weight * torch.stack(parts).mean()
        return loss

    def _outputs(self, encoder: Encoder, rows: Rows) -> tuple[tuple[Tensor, ...], Tensor]:
        """``[row, piece, dim]`` by layer from 0, the last as the head reads it; and ``[place, piece]`` logits."""
        body, head, mask = cast(Any, encoder.model.body), encoder.masked_head, rows["attention_mask"]
        # Attention without a mask is faster.
        inputs = {"input_ids": rows["input_ids"]} | ({} if bool(mask.all()) else {"attention_mask": mask})
        output = body(**inputs, output_hidden_states=True, return_dict=True)
        states = (*output.hidden_states[: encoder.n_layers], output.last_hidden_state)
        return states, head.logits(head.features(states[-1][rows["places"]]))

    @torch.no_grad()
    def mean_loss(self, examples: Examples) -> float:
        """The mean loss of all batches of a text."""
        return float(np.mean([float(self.loss(rows)) for rows in examples.each()]))

    def train(self, examples: Examples, compressed: CompressedModel) -> None:
        """Train the student to the last step, from the last checkpoint where there is one."""
        method, progress = self.method, compressed.progress
        warm = max(1, method.steps // 10)

        def began(step: int, n_steps: int) -> None:
            progress.start(n_steps, unit="steps")
            progress.skip(step)

        # What a student does not need in prediction, such as a pooler, gets no gradient and stays.
        self.model.requires_grad_(True)
        train(
            self.model,
            Steps(examples.drawn, method.steps),
            torch.optim.AdamW(weight_groups(self.model, 0.01)),
            folder=compressed.state,
            device=self.student.device,
            clip_norm=1.0,
            checkpoint_every=method.checkpoint_every,
            remedy="lower lr or hidden_weight",
            loss=self.loss,
            rate=lambda step: method.lr * min((step + 1) / warm, (method.steps - step) / max(1, method.steps - warm)),
            began=began,
            stepped=lambda step, loss: progress.advance(1),
            max_steps=method.steps,
            save_total_limit=1,
        )
        progress.finish()
