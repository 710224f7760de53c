"""A fine-tuned model with its head and labelled items of its task: what predictions on other data are made with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.finetuning._inputs import Collator, Inputs, encode
from bertology.finetuning._items import Items, items_of
from bertology.finetuning._model import reload
from bertology.finetuning._predict import Variant, predictions
from bertology.finetuning._record import Record, read_record
from bertology.finetuning._scores import scores
from bertology.measures import Bootstrap


@dataclass(frozen=True, eq=False)
class TunedModel:
    """A fine-tuned model and items of its task; made by :func:`load_tuned`."""

    record: Record
    """What was trained on what."""
    encoder: Encoder
    """The encoder, loaded apart from :attr:`model`."""
    model: Any
    """The model of transformers with the task's head; of a frozen encoder the head alone."""
    items: Items
    inputs: Inputs

    def predictions(self) -> pd.DataFrame:
        """A row for each item: ``item_id``, ``cluster_id``, ``gold``, ``pred``, and the ``score`` of the prediction."""
        return self.predictions_under([nullcontext])[0]

    def predictions_under(self, variants: Sequence[Variant]) -> list[pd.DataFrame]:
        """The table of :meth:`predictions` of each variant of the model.

        Args:
            variants: each makes a context manager inside which the model is changed, or is as it is. A batch of items
                is read by all variants in turn before the next batch: what one pass computes can be kept for those
                that follow it.
        """
        task = self.record.task_of_labels
        with_segments = self.record.settings.layers == "none"
        collator = Collator(task, pad_id=self.encoder.pad_id, with_segments=with_segments)
        return predictions(self.model, task, self.items, self.inputs, collator, variants)

    def scores(self, predictions: pd.DataFrame) -> dict[str, Bootstrap]:
        """The metrics of the task, the main one first, with 95 % intervals over clusters of items."""
        return scores_of(self.record, predictions)


def load_tuned(folder: Path | Encoder, sentences: Sentences, *, device: str = "auto") -> TunedModel:
    """Load a fine-tuned model with its head, and the items of its task in some sentences.

    Args:
        folder: of the fine-tuned model, with its ``finetune.json``; or its encoder, where that is loaded already.
        sentences: with labels under the same name as those of its training.
        device: to compute on; that of the encoder where one is given.

    Raises:
        BertologyError: the folder is of no fine-tuned model.
        ModelError: it lacks the head.
        CorpusError: the sentences lack such labels.
    """
    path = folder.source.folder if isinstance(folder, Encoder) else folder
    record = read_record(path)
    task, settings = record.task_of_labels, record.settings
    encoder = folder if isinstance(folder, Encoder) else load_encoder(str(path), device=device)
    items = items_of(task.name, sentences)
    model = reload(path, encoder, task, settings, are_pairs=items.are_pairs).model.to(encoder.device)
    inputs = encode(task, items, encoder, max_pieces=settings.max_pieces, stride=settings.stride)
    return TunedModel(record, encoder, model, inputs.items, inputs)


def scores_of(record: Record, predictions: pd.DataFrame) -> dict[str, Bootstrap]:
    """The metrics of a fine-tuned model's task, of its predictions."""
    return scores(predictions, record.kind, record.labels, positive=record.settings.positive)
