"""Tasks on which heads are measured: a loss and a score by item. To restore masked words, and to sort texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertology.activations import Progress
from bertology.attention._pass import MOST_WORKERS, on_each_core
from bertology.attention._ratios import Floats, Integers, Scope
from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong
from bertology.encoders.batching import Batch, padded, padded_inputs, plan_batches
from bertology.encoders.masked_loss import SHARE, MaskedBatch, MaskedText
from bertology.errors import CorpusError, ModelError


@dataclass(frozen=True, eq=False)
class Answers:
    """Loss and score of the items of a batch."""

    nats: Tensor
    """``[item]`` loss, −ln of the probability of what is correct; gradients flow from it to the gates of heads."""
    right: Tensor
    """``[item]`` bool, whether the model is correct."""
    rows: Tensor
    """``[item]`` the row of the batch that each is in."""


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """A few texts, and how a model is scored on them."""

    ids: Tensor
    """``[row, piece]`` vocabulary numbers."""
    mask: Tensor | None
    """``[row, piece]`` 1 for pieces, 0 for padding; None where nothing is padded."""
    clusters: Integers
    """``[row]`` the cluster of sentences that each belongs to."""
    ask: Callable[[Encoder], Answers]
    """Read the texts with the task's encoder, or a twin of it, in its present state: heads gated, hooks on its blocks.
    """


class ScoredTask:
    """A task that a model does item by item; the items are the same whatever is done to the model.

    Args:
        encoder: the model.
        n_texts: number of texts; of many some neighbours share a cluster.
    """

    batches: tuple[TaskBatch, ...]
    """All items, each once; set by subclasses."""

    def __init__(self, encoder: Encoder, n_texts: int) -> None:
        self.encoder = encoder
        self.layers = tuple(range(1, encoder.n_layers + 1))
        self._scope = Scope(n_texts, self.layers, encoder.n_heads, "piece")
        self.n_clusters = self._scope.n_clusters
        """Number of clusters of texts over which scores are summed: one a text, as long as there are few enough."""


def summed(
    task: ScoredTask,
    shapes: Sequence[tuple[int, ...]],
    add: Callable[[Encoder, TaskBatch, Sequence[Floats]], None],
    *,
    passes: int,
    progress: Progress,
) -> list[Floats]:
    """Sums of these shapes over all batches of a task, a batch a core: ``add`` adds what a batch comes to with an
    encoder that no other thread uses, and counts its ``passes``. A :class:`ModelError` where heads are gated already.
    """
    if task.encoder.is_gated:
        raise ModelError("heads are gated already: measure them outside gated_heads")
    progress.start(len(task.batches) * passes, unit="passes")

    def work(reader: Encoder, part: slice) -> list[Floats]:
        sums = [np.zeros(shape) for shape in shapes]
        for batch in task.batches[part]:
            add(reader, batch, sums)
        return sums

    first, *others = on_each_core(task.encoder, work, most=min(MOST_WORKERS, len(task.batches)))
    progress.finish()
    for other in others:
        for total, part in zip(first, other, strict=True):
            total += part
    return first


class MaskedWords(ScoredTask):
    """Restore masked words: an item is a word, all its pieces masked at once.

    Its loss is −ln of the probability of all its pieces, and it is correct where each of them is the most probable one.
    In each sentence the same words are masked as by :func:`masked_lm_loss`.

    Args:
        encoder: a masked language model.
        sentences: the text; of many sentences some neighbours share a cluster.
        share: of a sentence's words that are masked, at least one.
        seed: of the choice of words.
        on_long: what to do with a sentence longer than the model takes, as in :meth:`Encoder.tokenize`.

    Raises:
        ModelError: no masked-LM head, a share outside 0…1, or no word to mask.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        share: float = SHARE,
        seed: int = 0,
        on_long: OnLong = "window",
    ) -> None:
        super().__init__(encoder, len(sentences))
        self._text = MaskedText(encoder, sentences, share=share, seed=seed, on_long=on_long)
        self.batches = tuple(self._batch(masked) for masked in self._text.batches())

    def _batch(self, masked: MaskedBatch) -> TaskBatch:
        words = self._text.places.word[masked.places]
        distinct, first, of_piece = np.unique(words, return_index=True, return_inverse=True)
        item = torch.from_numpy(of_piece.astype(np.int64))
        rows = masked.positions[torch.from_numpy(first), 0]

        def ask(encoder: Encoder) -> Answers:
            nats, best = masked.ask(encoder)
            by_word = item.to(nats.device)
            wrong = torch.bincount(by_word, weights=(~best).double(), minlength=len(distinct))
            summed = nats.new_zeros(len(distinct)).index_add(0, by_word, nats)
            return Answers(summed, wrong == 0, rows.to(nats.device))

        sentences = self._text.pieces.window_sentence[masked.windows].astype(np.int64)
        return TaskBatch(masked.ids, masked.mask, self._scope.clusters(sentences), ask)


class SequenceClassifier(ScoredTask):
    """Sort texts with a model that was fine-tuned for it (Michel et al. 2019, section 2.3): an item is a text.

    Args:
        encoder: from :func:`load_classifier`.
        texts: what to sort; where pairs are sorted, the first of each.
        labels: ``[text]`` the correct class of each, as the model numbers them.
        pairs: the second text of each.

    Raises:
        ModelError: the encoder has no classifier, or a text is longer than the model takes.
        CorpusError: no texts, or not a label (and a second text) for each, or a label that the model does not have.
    """

    def __init__(
        self, encoder: Encoder, texts: Sequence[str], labels: Sequence[int], *, pairs: Sequence[str] | None = None
    ) -> None:
        if encoder.model.classifier is None:
            raise ModelError(f"model {encoder.name} has no classifier of texts: load one with load_classifier")
        _check_texts(texts, labels, pairs, n_classes=int(encoder.model.classifier.config.num_labels))
        super().__init__(encoder, len(texts))
        encoded = encoder.tokenizer(list(texts), None if pairs is None else list(pairs), verbose=False)
        self._labels = torch.tensor(list(labels))
        self._ids, self._types = encoded["input_ids"], encoded.get("token_type_ids")
        lengths = np.array([len(ids) for ids in self._ids])
        for number in np.flatnonzero(lengths > encoder.max_pieces).tolist():
            most = f"model {encoder.name} takes {encoder.max_pieces}"
            raise ModelError(f"text {number} has {lengths[number]} pieces: {most}; shorten it")
        self.batches = tuple(self._batch(planned) for planned in plan_batches(lengths))

    def _batch(self, planned: Batch) -> TaskBatch:
        texts = planned.windows.tolist()
        ids, padding = padded_inputs([self._ids[text] for text in texts], planned, self.encoder.pad_id)
        segments: Tensor | None = None
        if self._types is not None:
            segments = torch.from_numpy(padded([self._types[text] for text in texts], planned.length, 0))
        gold = self._labels[torch.from_numpy(planned.windows)]

        def ask(encoder: Encoder) -> Answers:
            logits = encoder.class_logits(ids, padding, token_type_ids=segments).float()
            labels = gold.to(logits.device)
            nats = -logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
            return Answers(nats, logits.detach().argmax(1) == labels, torch.arange(len(labels), device=logits.device))

        return TaskBatch(ids, padding, self._scope.clusters(planned.windows), ask)


def _check_texts(texts: Sequence[str], labels: Sequence[int], pairs: Sequence[str] | None, *, n_classes: int) -> None:
    if not texts:
        raise CorpusError("there is no text to sort: give texts with their labels")
    if len(labels) != len(texts) or (pairs is not None and len(pairs) != len(texts)):
        second = "" if pairs is None else f" and {len(pairs)} second texts"
        raise CorpusError(f"{len(texts)} texts have {len(labels)} labels{second}: give one for each")
    for number, label in enumerate(labels):
        if not 0 <= label < n_classes:
            raise CorpusError(f"text {number} has label {label}: the model's classes are 0…{n_classes - 1}")
