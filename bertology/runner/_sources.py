"""Where a fit takes its vectors from: the stored ones of a task's items, as its readout reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bertology.activations import Entry
from bertology.runner._plan import Group
from bertology.runner._task_data import TaskData

if TYPE_CHECKING:
    from bertology.readouts import FeatureSource

# What is kept of converted vectors between passes over the training data; what does not fit is read again.
TRAIN_MEMORY = 2 << 30


def skipped_words(entry: Entry) -> dict[int, str]:
    """Words without a vector, and why."""
    # Reasons are counted, so that what differs from sentence to sentence, its length, is taken out of them.
    return {word: re.sub(r"\d+", "…", reason) for word, _, _, reason in entry.manifest.skipped}


def sources_of(group: Group, data: TaskData, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """By split the vectors of the items of a task: of words, or of all words in their spans."""
    return {split: _source(group, data, entries, split) for split in data.items}


def _source(group: Group, data: TaskData, entries: Mapping[str, Entry], split: str) -> Any:
    from bertology.activations import WordVectors

    examples, entry = data.items[split], entries[split]
    memory = TRAIN_MEMORY if split == "train" else 0
    if group.readout.reads == "words" and examples.are_words:
        return WordVectors(entry, examples.words, layers=group.reads, memory=memory)
    from bertology.activations import SpanVectors
    from bertology.readouts import PooledSpans

    spans = SpanVectors(entry, examples.spans, layers=group.reads, memory=memory)
    if group.readout.reads == "spans":
        return spans
    # A readout of single vectors takes the mean of a span, of two spans one after the other.
    pooled: FeatureSource = PooledSpans(spans)
    return pooled
