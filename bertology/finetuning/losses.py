"""The task that a model has a head for, on which it is scored whatever is done to its attention heads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertology._files import digest
from bertology._names import by_key
from bertology.attention.importance import Answers, GatedTask
from bertology.corpora import Sentences
from bertology.encoders import Encoder, ModelSource
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.heads import TASK_HEADS, HeadKind, task_head
from bertology.encoders.sources import MemorySource, load_config
from bertology.errors import CorpusError, ModelError, listed, quoted
from bertology.finetuning._items import (
    Collator,
    Inputs,
    Integers,
    Items,
    Kind,
    Row,
    TuningTask,
    encode,
    items_of,
    meaning,
    read_output,
)
from bertology.finetuning._run import RECORD, Record, read_record
from bertology.finetuning._settings import FineTuneSettings
from bertology.finetuning._training import HEAD_FILE, FrozenStates, reload
from bertology.measures.metrics import count_answers

_FORMS: dict[Kind, str] = {
    "labels": "one label of a text or a pair",
    "numbers": "one number of a text or a pair",
    "tags": "a label of each word",
    "answers": "answers in a text",
}


def head_files(source: ModelSource) -> dict[str, str]:
    """A hash of the files of a fine-tuned model that are no weights of the encoder: its record, and a head apart."""
    paths = [] if isinstance(source, MemorySource) else [source.folder / name for name in (RECORD.name, HEAD_FILE)]
    found = [path.read_bytes() for path in paths if path.is_file()]
    return {"head_fingerprint": digest(found)} if found else {}


def _record(source: ModelSource) -> Record | None:
    is_tuned = not isinstance(source, MemorySource) and RECORD.is_in(source.folder)
    return read_record(source.folder) if is_tuned else None


def _head_of(source: ModelSource, *, trust_remote_code: bool) -> tuple[Kind, tuple[str, ...]]:
    """What the head of a model predicts, and its labels, by its configuration; a ModelError where it has none."""
    if isinstance(source, MemorySource):
        config, names = source.model.body.config, [type(source.model.with_task).__name__]
    else:
        config = load_config(source, trust_remote_code)
        names = config.architectures or []
    kinds: dict[HeadKind | None, Kind] = {"sentence": "labels", "words": "tags", "answers": "answers"}
    kind, head = kinds.get(task_head(names)), task_head(names)
    if kind is None or getattr(config, "problem_type", None) == "multi_label_classification":
        there = (
            "it has no head for a task" if head is None else f"its head is for {TASK_HEADS[head]}, of several answers"
        )
        raise ModelError(f"model {source.name}: {there}: give a model fine-tuned for {', '.join(_FORMS.values())}")
    if kind == "labels" and config.num_labels == 1:
        kind = "numbers"
    has_labels = kind in ("labels", "tags")
    return kind, tuple(config.id2label[code] for code in range(config.num_labels)) if has_labels else ()


def check_task(
    task: str, source: ModelSource, texts: Mapping[str, Sentences], *, on_long: str, trust_remote_code: bool = False
) -> TuningTask:
    """The task as the head of a model knows it, with the items of each text that has sentences.

    The labels are those of the record of a model that was fine-tuned here, else of ``id2label`` in the configuration.
    Without a record, an answer to a question may be none where some question of the texts has none.

    Raises:
        ModelError: the model has no head for the task, or does not know a label of the texts; or ``on_long`` is not
            ``window``, as texts are read as in fine-tuning.
        CorpusError: the texts lack the labels.
    """
    name, version, kind, _ = meaning(task)
    if on_long != "window":
        remedy = "leave it out: texts are read as in fine-tuning, cut at their end or in windows"
        raise ModelError(f"on_long {on_long} is not for a task of a fine-tuned model; {remedy}")
    record = _record(source)
    if record is None:
        own, labels = _head_of(source, trust_remote_code=trust_remote_code)
    else:
        own, labels = record.kind, tuple(record.labels)
    if own != kind:
        raise ModelError(f"model {source.name}: its head is for {_FORMS[own]}, task {name} for {_FORMS[kind]}")
    splits = {split: items_of(task, text) for split, text in texts.items() if len(text)}
    for split, items in splits.items() if labels else ():
        if unknown := sorted({*items.gold} - {*labels}):
            problem = f"label {quoted(unknown[0])} of {split} is none of those that model {source.name} knows"
            raise ModelError(f"{problem}, {listed(labels)}: give texts with these labels")
    if record is None:
        unanswered = kind == "answers" and not all(one.table["answers"].map(len).all() for one in splits.values())
    else:
        unanswered = record.has_unanswered
    return TuningTask(name, version, kind, splits, labels, has_unanswered=unanswered)


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """Inputs of one forward pass."""

    rows: list[Row]
    texts: Integers
    """``[row]`` the text of the batch that each is of: the windows of a question share it."""
    clusters: Integers
    """``[text]`` cluster of each text."""
    inputs: Mapping[str, Tensor]
    """The arguments of the model, labels left out."""

    @property
    def ids(self) -> Tensor:
        """``[row, piece]`` vocabulary numbers."""
        return self.inputs["input_ids"]

    @property
    def mask(self) -> Tensor | None:
        """``[row, piece]`` 0 for padding; None where nothing is padded."""
        mask = self.inputs["attention_mask"]
        return None if bool(mask.all()) else mask


class HeadTask(GatedTask):
    """The task that a model has a head for: an item is a text, a pair, a word or a question.

    The loss is that of the model itself: −ln of the probability of the gold label, of answers the mean of that of their
    first and last piece, in windows the mean over these, of numbers the squared error. A label is correct where it is
    the most probable one, an answer where it matches a true one exactly. Padding takes no part: the loss of a text is
    that of its batch of one.

    Args:
        encoder: the model, from a folder that :func:`bertology.finetune` wrote, or from any other with such a head.
        task: as of :func:`bertology.finetune`.
        sentences: the texts with their labels.
        on_long: ``window``; texts are cut, or read in windows, as in fine-tuning.

    Raises:
        ModelError, CorpusError: as of :func:`check_task`.
    """

    def __init__(self, encoder: Encoder, task: str, sentences: Sentences, *, on_long: str = "window") -> None:
        source = encoder.source
        trusted = {"trust_remote_code": True}  # the encoder has been loaded, with whatever code it needs
        known = check_task(task, source, {"the texts": sentences}, on_long=on_long, **trusted)
        record = _record(source)
        settings = FineTuneSettings() if record is None else record.settings
        (items,) = known.splits.values()
        most = min(settings.max_pieces or encoder.max_pieces, encoder.max_pieces)
        stride = settings.stride if record is not None else min(settings.stride, most // 4)
        inputs = encode(known, items, encoder, max_pieces=most, stride=stride)
        self.known = known
        self.items: Items = inputs.items
        """The items that are predicted, with the numbers of those that are left out."""
        self.n_cut = inputs.n_cut
        """Number of texts of which only the beginning is read."""
        if not len(self.items):
            raise CorpusError(f"task {known.name}: there is no item that model {encoder.name} can read")
        self._head: Any = None
        if settings.layers == "none":
            head = reload(source.folder, encoder, known, settings, self.items)
            self._head = head.eval().requires_grad_(False).to(encoder.device)
        else:
            encoder.task_model  # noqa: B018 - read once, for all twins
        super().__init__(encoder, int(self.items.table["cluster_id"].max()) + 1)
        if known.kind == "numbers":
            self.unit, self.scale, self.scores = "squared_error", 1.0, ("squared_error",)
        self._collator = Collator(known, pad_id=encoder.pad_id, states=None)
        self.batches = tuple(self._batches(inputs))

    def _batches(self, inputs: Inputs) -> Iterator[TaskBatch]:
        """Texts of about one length together, all windows of a question in one batch."""
        is_asked = self.known.kind == "answers"
        rows = [row if self.encoder.n_segments > 1 else replace(row, types=None) for row in inputs.rows]
        rows = [row for row in rows if len(row.items)]
        by_text = by_key((int(row.items[0]) if is_asked else number, row) for number, row in enumerate(rows))
        texts = sorted(by_text.values(), key=lambda of_text: -max(map(len, of_text)))
        cluster, most = self.items.table["cluster_id"].to_numpy(), pieces_in_batch(self.encoder.device)
        while texts:
            lengths = itertools.accumulate(len(of_text) for of_text in texts)
            size = max(1, sum(1 for n_rows in lengths if n_rows * max(map(len, texts[0])) <= most))
            chosen, texts = texts[:size], texts[size:]
            of_batch = list(itertools.chain.from_iterable(chosen))
            numbers = np.repeat(np.arange(size), [len(of_text) for of_text in chosen])
            clusters = cluster[[of_text[0].items[0] for of_text in chosen]]
            yield TaskBatch(of_batch, numbers, clusters, self._collator.inputs(of_batch))

    def texts(self, batch: TaskBatch) -> Integers:
        """See :meth:`GatedTask.texts`."""
        return batch.texts

    def clusters(self, batch: TaskBatch) -> Integers:
        """``[text]`` the cluster of each text of a batch."""
        return self._scope.clusters(batch.clusters).astype(np.int64)

    def ask(self, encoder: Encoder, batch: TaskBatch) -> Answers:
        """See :meth:`GatedTask.ask`."""
        output = self._output(encoder, batch)
        texts = torch.from_numpy(batch.texts).to(encoder.device)
        if self.known.kind == "answers":
            return self._answers(output, batch, texts)
        logits, gold = output["logits"].float(), [row.label for row in batch.rows]
        if self.known.kind == "numbers":
            errors = (logits[:, 0] - torch.tensor(gold, device=logits.device)) ** 2
            return Answers(errors, torch.zeros_like(texts, dtype=torch.bool), texts)
        if self.known.kind == "tags":
            where = [(number, place) for number, row in enumerate(batch.rows) for place in row.places.tolist()]
            rows, places = torch.tensor(where, device=logits.device).T
            gold = [code for row in batch.rows for code in row.label[row.places].tolist()]
            logits, texts = logits[rows, places], texts[rows]
        codes = torch.tensor(gold, device=logits.device)
        loss = -logits.log_softmax(-1).gather(1, codes[:, None])[:, 0]
        return Answers(loss, logits.detach().argmax(-1) == codes, texts)

    def _output(self, encoder: Encoder, batch: TaskBatch) -> Any:
        if self._head is None:
            return encoder.task_output(**batch.inputs)
        states = FrozenStates(encoder, self._head.layers)(batch.rows, batch.inputs)
        given = {"attention_mask": batch.inputs["attention_mask"], "segments": self._collator.segments(batch.rows)}
        return self._head(states, **{name: values.to(encoder.device) for name, values in given.items()})

    def _answers(self, output: Any, batch: TaskBatch, texts: Tensor) -> Answers:
        """Losses of questions, the mean over their windows, and exact matches of the best answers in these."""
        ends = [output[f"{end}_logits"] for end in ("start", "end") if "logits" not in output]
        logits = (torch.stack(ends, -1) if ends else output["logits"]).float()  # [row, piece, end]
        padding = batch.inputs["attention_mask"].to(logits.device) == 0
        losses = -logits.masked_fill(padding[..., None], -math.inf).log_softmax(1)
        places = torch.tensor([row.label for row in batch.rows], device=logits.device)  # [row, end]
        by_row = losses.gather(1, places[:, None])[:, 0].mean(-1)
        n_texts = len(batch.clusters)
        loss = by_row.new_zeros(n_texts).index_add(0, texts, by_row) / torch.bincount(texts)
        best: dict[int, tuple[str, float]] = {}
        for item, answer, score in read_output(self.known, self.items, batch.rows, {"logits": logits.detach()}):
            if item not in best or score > best[item][1]:
                best[item] = answer, score
        true = [[answer.label for answer in self.items.table["answers"][item]] for item in best]
        guessed = [answer for answer, _ in best.values()]
        right = count_answers(true, guessed, np.arange(n_texts), n_clusters=n_texts)[0, :, 0, 0] > 0
        return Answers(loss, torch.from_numpy(right).to(logits.device), torch.arange(n_texts, device=logits.device))
