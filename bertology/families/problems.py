"""The problems that are fitted together over the items of a task: itself and its control task, under each seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.families.task_data import Labels, TaskData
from bertology.measures import fraction_mask

if TYPE_CHECKING:
    from bertology.readouts import Targets


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

    Args:
        data: the items of the task.
        problems: over the same items.
        split: of train, the items count as often as the seed draws their sentence.
        fraction: how much of train's sentences to use.
        resampled: False to let every item count once, whatever the seed.
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
        drawn = np.random.default_rng(seed).integers(0, n_sentences, n_sentences)
        weights = np.bincount(drawn, minlength=n_sentences)[of_item].astype(np.float32)
    return weights * fraction_mask(of_item, fraction, seed=seed)


def counts_of(data: TaskData, *, seed: int = 0, fraction: float = 1.0) -> dict[str, Any]:
    """How many items there are, of how many sentences and classes, and how many were left out.

    Args:
        data: the items of the task.
        seed: decides which sentences a share of them is.
        fraction: how much of train's sentences is fitted on.
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
