"""What is kept of the scored items of a task: their names, their sentences, and labels as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.errors import BertologyError, quoted
from bertology.families.task_data import TaskData
from bertology.probing import Examples
from bertology.results import SET_MARK, Predictions


class ItemColumns:
    """What the predictions of all cells of a task share."""

    def __init__(self, data: TaskData, *, split: str = "test") -> None:
        sentences, examples = data.splits.by_name[split], data.items[split]
        clusters, self._cluster = np.unique(examples.clusters, return_inverse=True)
        # Tuples, so that what all cells of a task share is made ready for writing once.
        self._cluster_ids = tuple(sentence_names(sentences, clusters.tolist()))
        names = [self._cluster_ids[place] for place in self._cluster.tolist()]
        places = _places(examples, sentences)
        self._item_ids = tuple(f"{name}:{place}" for name, place in zip(names, places, strict=True))
        self._labels = data.labels
        marked = next((label for label in data.labels if SET_MARK in label), None)
        if examples.is_multi_label and marked is not None:
            raise BertologyError(
                f"task {data.probe.task}: label {quoted(marked)} has a {SET_MARK}, which parts labels: rename it"
            )

    def predictions(self, gold: NDArray[Any], pred: NDArray[Any], score: NDArray[Any]) -> Predictions:
        """Predictions as they are kept.

        Args:
            gold: ``[item]`` labels, or ``[item, label]`` which of the labels each item has; of fewer labels than the
                task has, the first ones are meant.
            pred: as ``gold``.
            score: ``[item]`` natural logarithm of the probability of what is predicted.
        """
        shared = self._item_ids, self._cluster, self._cluster_ids
        if gold.ndim == 1:
            return Predictions(*shared, gold, pred, score, self._labels)
        sets, codes = np.unique(np.concatenate([self._whole(gold), self._whole(pred)]), axis=0, return_inverse=True)
        names = [SET_MARK.join(label for label, has in zip(self._labels, row, strict=True) if has) for row in sets]
        both = codes.reshape(2, -1)
        return Predictions(*shared, both[0], both[1], score, tuple(names), label_sets=True)

    def texts(self, gold: Sequence[str], pred: Sequence[str], score: NDArray[Any]) -> Predictions:
        """Predictions that are texts of their own, such as trees, as they are kept.

        Args:
            gold: ``[item]``
            pred: ``[item]``
            score: ``[item]`` how well the two agree, NaN where nothing says so.
        """
        labels = {text: code for code, text in enumerate(dict.fromkeys((*gold, *pred)))}
        true, found = (np.array([labels[text] for text in texts], dtype=np.int64) for texts in (gold, pred))
        return Predictions(self._item_ids, self._cluster, self._cluster_ids, true, found, score, tuple(labels))

    def _whole(self, labels: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """``[item, label]`` with a column for every label of the task."""
        return np.pad(labels, ((0, 0), (0, len(self._labels) - labels.shape[1])))


def _places(examples: Examples, sentences: Sentences) -> list[str]:
    """``[item]`` its words, counted from 1 in their sentence: ``3``; ``3-5`` for several; ``3-5,7`` for two spans."""
    inside = examples.spans - sentences.starts[examples.clusters][:, None, None]
    return [
        ",".join(str(first + 1) if last == first + 1 else f"{first + 1}-{last}" for first, last in spans)
        for spans in inside.tolist()
    ]


def sentence_names(sentences: Sentences, numbers: Sequence[int]) -> list[str]:
    """Names of sentences, by which items are grouped again when they are read: no two alike."""
    names = [sentences.id(number) for number in numbers]
    times = Counter(names)
    return [
        name if name and times[name] == 1 else f"{name}#{number + 1}"
        for name, number in zip(names, numbers, strict=True)
    ]
