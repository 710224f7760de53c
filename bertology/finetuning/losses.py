"""The task that a model has a head for, on which it is scored whatever is done to its attention heads."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertology._files import digest
from bertology._names import by_key
from bertology.attention.importance import Answers, GatedTask
from bertology.corpora import Sentences
from bertology.encoders import Encoder, ModelSource
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.heads import HeadKind, task_head
from bertology.encoders.sources import MemorySource, load_config
from bertology.errors import CorpusError, ModelError, listed, quoted
from bertology.finetuning import _items
from bertology.finetuning._run import RECORD, Record
from bertology.finetuning._settings import FineTuneSettings
from bertology.finetuning._training import HEAD_FILE, FrozenStates, reload
from bertology.measures.metrics import count_answers
from bertology.measures.sums import Integers
from bertology.probing import GeometryCounts

_OF_ITEMS = "one label of a text", "one number of a text", "a label of each word", "answers in a text"
_FORMS = dict(zip(("labels", "numbers", "tags", "answers"), _OF_ITEMS, strict=True))
_KINDS: dict[HeadKind | None, _items.Kind] = {"sentence": "labels", "words": "tags", "answers": "answers"}


def head_files(source: ModelSource) -> dict[str, str]:
    """A hash of the files of a fine-tuned model that are no weights of the encoder: its record, and a head apart."""
    paths = [] if isinstance(source, MemorySource) else [source.folder / name for name in (RECORD.name, HEAD_FILE)]
    found = [path.read_bytes() for path in paths if path.is_file()]
    return {"head_fingerprint": digest(found)} if found else {}


def _record(source: ModelSource) -> Record | None:
    is_tuned = not isinstance(source, MemorySource) and RECORD.is_in(source.folder)
    return RECORD.read(source.folder) if is_tuned else None


def _known(source: ModelSource, *, trust_remote_code: bool) -> _items.TuningTask:
    """The task of a model's record, else of its head by the configuration; a ModelError where it has no head."""
    if (record := _record(source)) is not None:
        return record.task_of_labels
    if isinstance(source, MemorySource):
        config, names = source.model.body.config, [type(source.model.with_task).__name__]
    else:
        config = load_config(source, trust_remote_code)
        names = config.architectures or []
    kind, problem = _KINDS.get(task_head(names)), getattr(config, "problem_type", None)
    is_several = problem == "multi_label_classification" or (problem == "regression" and config.num_labels > 1)
    if kind is None or is_several:
        forms = ", ".join(_OF_ITEMS)
        raise ModelError(f"model {source.name}: it has no head for a task that is known: give one tuned for {forms}")
    if kind == "labels" and config.num_labels == 1:
        kind = "numbers"
    n_labels = config.num_labels if kind in ("labels", "tags") else 0
    return _items.TuningTask("", 1, kind, {}, tuple(config.id2label[code] for code in range(n_labels)))


def check_task(
    task: str, source: ModelSource, texts: Mapping[str, Sentences], *, on_long: str, trust_remote_code: bool = False
) -> _items.TuningTask:
    """The task as the head of a model knows it, with the items of each text that has sentences.

    The labels are those of the record of a model that was fine-tuned here, else of ``id2label`` in the configuration.
    Without a record, an answer to a question may be none where some question of the texts has none. A ModelError is
    raised where the model has no head for the task or does not know a label, or ``on_long`` is not ``window``, as texts
    are read as in fine-tuning; a CorpusError where the texts lack the labels.
    """
    name, version, kind, _ = _items.meaning(task)
    if on_long != "window":
        remedy = "leave it out: texts are read as in fine-tuning, cut at their end or in windows"
        raise ModelError(f"on_long {on_long} is not for a task of a fine-tuned model; {remedy}")
    known = _known(source, trust_remote_code=trust_remote_code)
    if known.kind != kind:
        raise ModelError(f"model {source.name}: its head is for {_FORMS[known.kind]}, task {name} for {_FORMS[kind]}")
    splits = {split: _items.items_of(task, text) for split, text in texts.items() if len(text)}
    for split, items in splits.items() if known.labels else ():
        if unknown := sorted({*items.gold} - {*known.labels}):
            problem = f"label {quoted(unknown[0])} of {split} is none of those that model {source.name} knows"
            raise ModelError(f"{problem}, {listed(known.labels)}: give texts with these labels")
    if kind == "answers" and not known.name:
        unanswered = not all(one.table["answers"].map(len).all() for one in splits.values())
        known = replace(known, has_unanswered=unanswered)
    return replace(known, name=name, version=version, splits=splits)


class TaskBatch(NamedTuple):
    """Inputs of one forward pass."""

    rows: list[_items.Row]
    texts: Integers  # [row] the text of the batch that each is of: windows of a question share it
    clusters: Integers  # [text] cluster of each text
    ids: Tensor  # [row, piece]
    mask: Tensor  # [row, piece] 0 for padding
    types: Tensor | None  # [row, piece] token types, of models that have them


class HeadTask(GatedTask):
    """The task that a model has a head for: an item is a text, a pair, a word or a question.

    The loss is that of the model itself: −ln of the probability of the gold label, of answers the mean of that of their
    first and last piece, in windows the mean over these, of numbers the squared error. A label is correct where it is
    the most probable one, an answer where it matches a true one exactly. Padding takes no part: the loss of a text is
    that of its batch of one. Arguments and errors are those of :func:`check_task`.
    """

    def __init__(self, encoder: Encoder, task: str, sentences: Sentences, *, on_long: str = "window") -> None:
        source, texts = encoder.source, {"the texts": sentences}
        self.known = check_task(task, source, texts, on_long=on_long, trust_remote_code=True)  # as it is loaded
        record = _record(source)
        settings = FineTuneSettings() if record is None else record.settings
        most = min(settings.max_pieces or encoder.max_pieces, encoder.max_pieces)
        stride = min(settings.stride, most // 4) if record is None else settings.stride
        (items,) = self.known.splits.values()
        inputs = _items.encode(self.known, items, encoder, max_pieces=most, stride=stride)
        self.items = inputs.items
        """The items that are predicted."""
        if not len(self.items):
            raise CorpusError(f"task {self.known.name}: there is no item that model {encoder.name} can read")
        self._head: Any = None
        if settings.layers == "none":
            head = reload(source.folder, encoder, self.known, settings, self.items)
            self._head = head.eval().requires_grad_(False).to(encoder.device)
        else:
            encoder.task_model  # noqa: B018 - read once, for all twins
        super().__init__(encoder, int(self.items.table["cluster_id"].max()) + 1)
        if self.known.kind == "numbers":
            self.unit, self.scale, self.scores = "squared_error", 1.0, ("squared_error",)
        self.counts = GeometryCounts(len(self.items), 0, len(self.known.labels), 0, dict(self.items.skipped))
        self.notes = (("texts", f"{inputs.n_cut:,} were cut at their end"),) if inputs.n_cut else ()
        self.batches = tuple(self._batches(inputs.rows))

    def _batches(self, rows: list[_items.Row]) -> Iterator[TaskBatch]:
        """Texts of about one length together, all windows of a question in one batch."""
        is_asked = self.known.kind == "answers"
        rows = rows if self.encoder.n_segments > 1 else [replace(row, types=None) for row in rows]
        by_text = by_key((int(row.items[0]) if is_asked else number, row) for number, row in enumerate(rows))
        texts = sorted(by_text.values(), key=lambda of_text: -max(map(len, of_text)))
        cluster, most = self.items.table["cluster_id"].to_numpy(), pieces_in_batch(self.encoder.device)
        collator = _items.Collator(self.known, pad_id=self.encoder.pad_id, states=None)
        while texts:
            most_rows = most // max(map(len, texts[0]))
            n_rows = itertools.takewhile(most_rows.__ge__, itertools.accumulate(map(len, texts)))
            size = max(1, sum(1 for _ in n_rows))
            chosen, texts = texts[:size], texts[size:]
            of_batch = list(itertools.chain.from_iterable(chosen))
            numbers = np.repeat(np.arange(size), list(map(len, chosen)))
            clusters = cluster[[of_text[0].items[0] for of_text in chosen]]
            inputs = collator.inputs(of_batch)
            ids, mask = inputs["input_ids"], inputs["attention_mask"]
            yield TaskBatch(of_batch, numbers, clusters, ids, mask, inputs.get("token_type_ids"))

    def clusters(self, batch: TaskBatch) -> Integers:
        """See :meth:`GatedTask.clusters`."""
        return self._scope.clusters(batch.clusters)

    def ask(self, encoder: Encoder, batch: TaskBatch) -> Answers:
        """See :meth:`GatedTask.ask`."""
        if self._head is None:
            output = encoder.task_output(batch.ids, attention_mask=batch.mask, token_type_ids=batch.types)
        else:
            states = FrozenStates(encoder, self._head.layers)
            given = _items.Collator(self.known, pad_id=encoder.pad_id, states=states)(batch.rows)
            output = self._head(**{name: values.to(encoder.device) for name, values in given.items()})
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

    def _answers(self, output: Any, batch: TaskBatch, texts: Tensor) -> Answers:
        """Losses of questions, the mean over their windows, and exact matches of the best answers in these."""
        ends = [output[f"{end}_logits"] for end in ("start", "end") if "logits" not in output]
        logits = (torch.stack(ends, -1) if ends else output["logits"]).float()  # [row, piece, end]
        padding = batch.mask.to(logits.device) == 0
        losses = -logits.masked_fill(padding[..., None], -math.inf).log_softmax(1)
        places = torch.tensor([row.label for row in batch.rows], device=logits.device)  # [row, end]
        by_row, n_texts = losses.gather(1, places[:, None])[:, 0].mean(-1), len(batch.clusters)
        loss = by_row.new_zeros(n_texts).index_add(0, texts, by_row) / torch.bincount(texts)
        best: dict[int, tuple[str, float]] = {}
        for item, answer, score in _items.read_output(self.known, self.items, batch.rows, {"logits": logits.detach()}):
            if item not in best or score > best[item][1]:
                best[item] = answer, score
        true = [[answer.label for answer in self.items.table["answers"][item]] for item in best]
        guessed, places = [answer for answer, _ in best.values()], torch.arange(n_texts, device=logits.device)
        right = count_answers(true, guessed, np.arange(n_texts), n_clusters=n_texts)[0, :, 0, 0] > 0
        return Answers(loss, torch.from_numpy(right).to(logits.device), places)
