"""The items of a task as they are fitted (by control and seed) and kept: names, sentences, and labels as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.errors import BertologyError, quoted
from bertology.families.task_data import Labels, TaskData
from bertology.measures.baselines import fraction_mask
from bertology.probing import Examples
from bertology.results import Predictions
from bertology.results.fitted import written_place
from bertology.results.predictions import SET_MARK

if TYPE_CHECKING:
    from bertology.readouts import Targets


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
            problem = f"label {quoted(marked)} has a {SET_MARK}, which parts labels"
            raise BertologyError(f"task {data.probe.task}: {problem}: rename it")

    def predictions(self, gold: NDArray[Any], pred: NDArray[Any], score: NDArray[Any]) -> Predictions:
        """Predictions as they are kept.

        Args:
            gold: ``[item]`` labels, or ``[item, label]`` which of the labels each item has; of fewer labels than the
                task has, the first ones are meant.
            pred: as ``gold``.
            score: ``[item]`` natural logarithm of the probability of what is predicted.
        """
        shared, n_labels = (self._item_ids, self._cluster, self._cluster_ids), len(self._labels)
        if gold.ndim == 1:
            return Predictions(*shared, gold, pred, score, self._labels)
        whole = [np.pad(labels, ((0, 0), (0, n_labels - labels.shape[1]))) for labels in (gold, pred)]
        sets, codes = np.unique(np.concatenate(whole), axis=0, return_inverse=True)
        names = [SET_MARK.join(label for label, has in zip(self._labels, row, strict=True) if has) for row in sets]
        both = codes.reshape(2, -1)
        return Predictions(*shared, both[0], both[1], score, tuple(names), label_sets=True)

    def texts(self, gold: Sequence[str], pred: Sequence[str], score: NDArray[Any]) -> Predictions:
        """Predictions ``[item]`` that are texts of their own, such as trees, with how well the two agree, or NaN."""
        labels = {text: code for code, text in enumerate(dict.fromkeys((*gold, *pred)))}
        true, predicted = (np.array([labels[text] for text in texts], dtype=np.int64) for texts in (gold, pred))
        return Predictions(self._item_ids, self._cluster, self._cluster_ids, true, predicted, score, tuple(labels))


def _places(examples: Examples, sentences: Sentences) -> list[str]:
    """``[item]`` its words, counted from 1 in their sentence: ``3``; ``3-5`` for several; ``3-5,7`` for two spans."""
    inside = examples.spans - sentences.starts[examples.clusters][:, None, None]
    return [written_place(spans) for spans in inside.tolist()]


def sentence_names(sentences: Sentences, numbers: Sequence[int]) -> list[str]:
    """Names of some of the sentences, by which items are grouped again when they are read: no two of all alike."""
    names = [sentences.id(number) for number in range(len(sentences))]
    times = Counter(names)
    return [
        names[number] if names[number] and times[names[number]] == 1 else f"{names[number]}#{number + 1}"
        for number in numbers
    ]


@dataclass(frozen=True)
class Problem:
    """One of the problems fitted over the same items."""

    control: str
    seed: int

    def __str__(self) -> str:
        return f"{'the control task' if self.control == 'control_task' else 'the task itself'}, seed {self.seed}"


def targets_of(
    data: TaskData, problems: Sequence[Problem], split: str, *, fraction: float = 1.0, resampled: bool = True
) -> Targets:
    """What to predict in each problem from the items of a split.

    Of train only a fraction of the sentences is used, and each item counts as often as the seed draws its sentence;
    once, whatever the seed, unless they are ``resampled``.
    """
    from bertology.readouts import Targets

    labels: Any = np.stack([labels_of(data, problem, split) for problem in problems])
    weighted = split == "train" and (fraction < 1 or (resampled and any(problem.seed for problem in problems)))
    weights = np.stack([weights_of(data, p.seed, fraction, resampled) for p in problems]) if weighted else None
    names = tuple(f"task {data.probe.task}: {problem}" for problem in problems)
    leaders = tuple(problems.index(Problem("none", problem.seed)) for problem in problems)
    return Targets(labels, data.n_train_labels, weights, names, leaders)


def labels_of(data: TaskData, problem: Problem, split: str) -> Labels:
    """What the items of a split are labelled in a problem."""
    return data.targets(split) if problem.control == "none" else data.control(split, seed=problem.seed)


def weights_of(data: TaskData, seed: int, fraction: float, resampled: bool) -> NDArray[np.float32]:
    """How often each training item counts: once under seed 0, else as often as its sentence is drawn.

    Of a share of the sentences the others count nothing; a smaller share is part of every larger one.
    """
    n_sentences, of_item = len(data.splits.train), data.train.clusters
    weights = np.ones(len(data.train), dtype=np.float32)
    if seed and resampled:
        within = data.splits.within.get("train")
        sentences = np.arange(n_sentences) if within is None else np.flatnonzero(within)
        drawn = sentences[np.random.default_rng(seed).integers(0, len(sentences), len(sentences))]
        weights = np.bincount(drawn, minlength=n_sentences)[of_item].astype(np.float32)
    return weights * fraction_mask(of_item, fraction, seed=seed)


def counts_of(data: TaskData, *, seed: int = 0, fraction: float = 1.0) -> dict[str, Any]:
    """How many items there are, of how many sentences and classes, and how many were left out.

    The seed decides which sentences a fraction of train's is.
    """
    test = data.test
    return {
        "n_train": int(fraction_mask(data.train.clusters, fraction, seed=seed).sum()),
        "n_items": len(test),
        "n_clusters": len(np.unique(test.clusters)),
        # Trees are built, not chosen from a list.
        "n_classes": 0 if data.trees is not None else data.n_train_labels,
        "n_skipped": sum(test.skipped.values()),
        "skip_reasons": dict(test.skipped),
        "n_unseen_label": data.n_unseen_label,
    }
