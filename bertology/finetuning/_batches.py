"""Labelled inputs of a fine-tuned model's task, in batches: what its loss can be computed on anywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.loading import HeadKind
from bertology.errors import CorpusError, ModelError
from bertology.finetuning._inputs import IGNORED, Collator, encode, learnable
from bertology.finetuning._items import items_of
from bertology.finetuning._record import read_record

_BATCH = 64


@dataclass(frozen=True)
class TaskBatches:
    """The items of one split with their labels; made by :func:`task_batches`."""

    task: str
    head: HeadKind
    """The head of transformers that predicts this."""
    unit: str
    """Of the loss over ln 2 ``bits``, of numbers ``squared error``."""
    batches: list[tuple[dict[str, Tensor], int]]
    """Arguments of the model, labels included, and the number of items that its mean loss is over."""

    @property
    def n_items(self) -> int:
        """Items in all batches."""
        return sum(number for _, number in self.batches)


def task_batches(folder: Path, encoder: Encoder, sentences: Sentences) -> TaskBatches:
    """The items of the task of a fine-tuned model in other sentences; labels that it does not know are left out.

    Args:
        folder: of the fine-tuned model, with its ``finetune.json``.
        encoder: loaded from it.
        sentences: with labels under the same name as those of its training.

    Raises:
        BertologyError: the folder is of no fine-tuned model.
        ModelError: its encoder was frozen: no model of transformers has its head.
        CorpusError: the sentences have no such labels, or none that the model knows.
    """
    record = read_record(folder)
    task, settings = record.task_of_labels, record.settings
    if settings.layers == "none":
        raise ModelError(
            f"{folder}: its encoder was frozen, so the loss is that of a head alone; fine-tune layers of it"
        )
    items = items_of(task.name, sentences)
    inputs = encode(task, items, encoder, max_pieces=settings.max_pieces, stride=settings.stride)
    known = replace(inputs, rows=learnable(inputs))
    if not known.rows:
        raise CorpusError(f"task {task.name}: no item has a label that {folder} knows; give data of the same task")
    collator, batches = Collator(task, pad_id=encoder.pad_id, with_segments=False), []
    for numbers in known.batches(_BATCH):
        rows = [known.rows[number] for number in numbers]
        n_labels = (
            sum(int(np.count_nonzero(row.label != IGNORED)) for row in rows) if task.kind == "tags" else len(rows)
        )
        batches.append((collator(rows), n_labels))
    return TaskBatches(task.name, task.head, "squared error" if task.kind == "numbers" else "bits", batches)
