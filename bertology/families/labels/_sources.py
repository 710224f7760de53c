"""Where a fit takes its vectors from: the stored ones of a task's items, as its readout reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.activations import Entry
from bertology.errors import FitError
from bertology.families.readable import skipped_words
from bertology.families.splits import Splits
from bertology.families.task_data import SPAN_MEMORY, TRAIN_MEMORY, TaskData, task_data
from bertology.families.tasks import FitCells, Job
from bertology.probing import Examples, get_probe
from bertology.readouts import readout_kind

if TYPE_CHECKING:
    from bertology.readouts import Erasure


def sources_of(cells: FitCells, data: TaskData, job: Job) -> dict[str, Any]:
    """By split the vectors of the items of a task: of words, or of all words in their spans.

    Raises:
        CorpusError: what is to be erased is not there.
        FitError: what is to be erased is not a label of single words.
    """
    erasure = _erasure(cells, data, job.entries, job.device) if cells.config.erase is not None else None
    reads_spans = readout_kind(cells.readout).reads == "spans"
    train_memory = (SPAN_MEMORY if reads_spans else TRAIN_MEMORY) // job.side_by_side
    return {
        split: _source(cells, examples, job.entries[split], train_memory if split == "train" else 0, erasure)
        for split, examples in data.items.items()
    }


def erased_data(task: str, splits: Splits) -> TaskData:
    """The items of a task that is to be erased.

    Raises:
        CorpusError: there are none.
        FitError: they are not words of one label each.
    """
    erased = task_data(get_probe(task), splits)
    if not erased.train.are_words or erased.train.is_multi_label:
        raise FitError(f"task {task} cannot be erased: its items are not words of one label each")
    return erased


def _source(cells: FitCells, examples: Examples, entry: Entry, memory: int, erasure: Erasure | None) -> Any:
    from bertology.activations import SpanVectors, WordVectors
    from bertology.readouts import erased, pooled

    if readout_kind(cells.readout).reads == "words" and examples.are_words:
        words = WordVectors(entry, examples.words, layers=cells.layers_read, memory=memory)
        return words if erasure is None else erased(words, erasure)
    spans: Any = SpanVectors(entry, examples.spans, layers=cells.layers_read, memory=memory)
    if erasure is not None:
        spans = erased(spans, erasure)
    # A readout of single vectors takes the mean of a span, of two spans one after the other.
    return spans if readout_kind(cells.readout).reads == "spans" else pooled(spans)


def _erasure(cells: FitCells, data: TaskData, entries: Mapping[str, Entry], device: str) -> Erasure:
    """What a linear readout could find of another task in each layer, or as many directions of any kind."""
    from bertology.activations import WordVectors
    from bertology.readouts import fit_erasure, random_erasure

    erased = erased_data(str(cells.config.erase), data.splits).without(
        {split: skipped_words(entry) for split, entry in entries.items()}
    )
    vectors = WordVectors(entries["train"], erased.train.words, layers=cells.layers_read, memory=0)
    erasure = fit_erasure(vectors, np.asarray(erased.targets("train")), erased.n_train_labels, device=device)
    return erasure if cells.config.eraser == "leace" else random_erasure(erasure)
