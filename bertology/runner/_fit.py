"""One group of cells: read the vectors, fit every layer at once, keep what was predicted."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Entry, Progress
from bertology.measures import majority, word_majority
from bertology.results import Predictions
from bertology.runner._cells import write_cell
from bertology.runner._plan import BaselineCells, Group, RowControl
from bertology.runner._provenance import versions
from bertology.runner._task_data import TaskData

if TYPE_CHECKING:
    from bertology.activations import WordVectors
    from bertology.corpora import Sentences
    from bertology.readouts import FittedReadout, Targets

# What is kept of converted vectors between passes over the training data; what does not fit is read again.
TRAIN_MEMORY = 2 << 30


@dataclass(frozen=True)
class _Problem:
    """One of the problems fitted over the same items."""

    control: RowControl
    seed: int

    def __str__(self) -> str:
        return f"{'the control task' if self.control == 'control_task' else 'the task itself'}, seed {self.seed}"


def fit_group(
    group: Group,
    data: TaskData,
    entries: Mapping[str, Entry],
    run: Path,
    *,
    device: str,
    progress: Progress,
) -> None:
    """Fit a group and write its cells into ``run``.

    Args:
        group: the cells.
        data: the items of the task.
        entries: stored vectors of the ``train``, ``dev`` and ``test`` split.
        run: the run's folder.
        device: where to fit.
        progress: told how far the fit is, and what a person should know.
    """
    from bertology.readouts import get_readout

    started, clock = datetime.now(UTC), time.perf_counter()
    layers = sorted({layer for _, _, layer in group.cells})
    problems = list(dict.fromkeys(_Problem(control, seed) for control, seed, _ in group.cells))
    data = data.without({split: _skipped(entry) for split, entry in entries.items()})
    sources = _sources(data, entries, layers)
    fitted = get_readout(group.readout).fit(
        sources["train"],
        _targets(data, problems, "train"),
        dev=sources["dev"],
        dev_targets=_targets(data, problems, "dev"),
        device=device,
        progress=progress.say,
    )
    progress.finish()
    found = fitted.predict(sources["test"])
    provenance = {
        "versions": versions("torch", "transformers", "numpy", "scikit-learn"),
        "device": device,
        "fit_started_utc": started.isoformat(timespec="seconds"),
        "wall_s": round(time.perf_counter() - clock, 3),
    }
    columns = _Columns(data)
    for number, problem in enumerate(problems):
        gold = data.test.codes if problem.control == "none" else _labels(data, problem, "test")
        for place, layer in enumerate(layers):
            facts = {**_counts(data), **_fit_facts(fitted, number, place)}
            write_cell(
                run,
                group.cells[problem.control, problem.seed, layer],
                columns.predictions(gold, found.labels[number, place], found.log_prob[number, place]),
                facts=facts,
                provenance=provenance,
                notes=data.splits.notes,
            )
    if note := _unconverged(group, fitted, problems, layers):
        progress.note(note)


def _sources(data: TaskData, entries: Mapping[str, Entry], layers: Sequence[int]) -> dict[str, WordVectors]:
    """The stored vectors of each split's items."""
    from bertology.activations import WordVectors

    return {
        split: WordVectors(
            entries[split], examples.words, layers=layers, memory=TRAIN_MEMORY if split == "train" else 0
        )
        for split, examples in data.items.items()
    }


def write_baselines(found: BaselineCells, data: TaskData, run: Path) -> None:
    """Compute the baselines that look at no vector and write their cells into ``run``."""
    train_words, test_words, n_words = data.word_forms()
    predicted = {
        "majority": np.full(len(data.test), majority(data.train.codes)),
        "word_majority": word_majority(train_words, data.train.codes, test_words, n_words=n_words),
    }
    columns = _Columns(data)
    for control, cell in found.cells.items():
        write_cell(
            run,
            cell,
            columns.predictions(data.test.codes, predicted[control], np.full(len(data.test), np.nan)),
            facts=_counts(data),
            provenance={"versions": versions("numpy"), "wall_s": 0.0},
            notes=data.splits.notes,
        )


class _Columns:
    """What the predictions of all cells of a task share."""

    def __init__(self, data: TaskData) -> None:
        sentences = data.splits.test
        clusters, self._cluster = np.unique(data.test.clusters, return_inverse=True)
        self._cluster_ids = tuple(_sentence_names(sentences, clusters.tolist()))
        inside = data.test.words - sentences.starts[data.test.clusters] + 1
        names = self._cluster_ids
        self._item_ids = tuple(f"{names[c]}:{w}" for c, w in zip(self._cluster.tolist(), inside.tolist(), strict=True))
        self._labels = data.labels

    def predictions(self, gold: NDArray[Any], pred: NDArray[Any], score: NDArray[Any]) -> Predictions:
        return Predictions(self._item_ids, self._cluster, self._cluster_ids, gold, pred, score, self._labels)


def _sentence_names(sentences: Sentences, numbers: Sequence[int]) -> list[str]:
    """Names of sentences, by which items are grouped again when they are read: no two alike."""
    names = [sentences.id(number) for number in numbers]
    times = Counter(names)
    return [
        name if name and times[name] == 1 else f"{name}#{number + 1}"
        for name, number in zip(names, numbers, strict=True)
    ]


def _skipped(entry: Entry) -> dict[int, str]:
    """Words without a vector, and why."""
    # Reasons are counted, so that what differs from sentence to sentence, its length, is taken out of them.
    return {word: re.sub(r"\d+", "…", reason) for word, _, _, reason in entry.manifest.skipped}


def _targets(data: TaskData, problems: Sequence[_Problem], split: str) -> Targets:
    from bertology.readouts import Targets

    labels = np.stack([_labels(data, problem, split) for problem in problems])
    resampled = split == "train" and any(problem.seed for problem in problems)
    weights = np.stack([_weights(data, problem.seed) for problem in problems]) if resampled else None
    names = tuple(f"task {data.probe.task}: {problem}" for problem in problems)
    leaders = tuple(problems.index(_Problem("none", problem.seed)) for problem in problems)
    return Targets(labels, data.n_train_labels, weights, names, leaders)


def _labels(data: TaskData, problem: _Problem, split: str) -> NDArray[np.int64]:
    return data.targets(split) if problem.control == "none" else data.control(split, seed=problem.seed)


def _weights(data: TaskData, seed: int) -> NDArray[np.float32]:
    """How often each training item counts: once under seed 0, else as often as its sentence is drawn."""
    if seed == 0:
        return np.ones(len(data.train), dtype=np.float32)
    n_sentences = len(data.splits.train)
    drawn = np.random.default_rng(seed).integers(0, n_sentences, n_sentences)
    return np.bincount(drawn, minlength=n_sentences)[data.train.clusters].astype(np.float32)


def _counts(data: TaskData) -> dict[str, Any]:
    test = data.test
    return {
        "n_train": len(data.train),
        "n_items": len(test),
        "n_clusters": len(np.unique(test.clusters)),
        "n_classes": data.n_train_labels,
        "n_skipped": sum(test.skipped.values()),
        "skip_reasons": dict(test.skipped),
        "n_unseen_label": data.n_unseen_label,
    }


def _fit_facts(fitted: FittedReadout, problem: int, layer: int) -> dict[str, Any]:
    report = fitted.report
    chosen = int(np.abs(np.array(report.strengths) - report.chosen[problem, layer]).argmin())
    gradient_norm = float(report.gradient_norm[problem, layer, chosen])
    tried = np.flatnonzero(~np.isnan(report.dev_accuracy[problem, layer]))
    return {
        "n_params": fitted.n_params,
        "params": {
            "strength": float(report.chosen[problem, layer]),
            "strengths": [float(report.strengths[place]) for place in tried],
            "dev_accuracy": [round(float(report.dev_accuracy[problem, layer, place]), 6) for place in tried],
            "iterations": int(report.iterations[problem, layer, chosen]),
            "converged": bool(report.converged[problem, layer, chosen]),
            # JSON knows no NaN, which is what a readout without iterations has to say.
            "gradient_norm": gradient_norm if math.isfinite(gradient_norm) else None,
        },
    }


def _unconverged(
    group: Group, fitted: FittedReadout, problems: Sequence[_Problem], layers: Sequence[int]
) -> str | None:
    """One line on all fits of a group that stopped early at the strength that was chosen."""
    found = []
    for number, problem in enumerate(problems):
        facts = (_fit_facts(fitted, number, place)["params"] for place in range(len(layers)))
        left = [str(layer) for layer, params in zip(layers, facts, strict=True) if not params["converged"]]
        if left:
            found.append(f"layer{'s' * (len(left) > 1)} {', '.join(left)} of {problem}")
    if not found:
        return None
    model = "random weights" if group.init == "random" else "pretrained"
    return f"{group.probe.task}, {model}: fits that stopped before they converged: {'; '.join(found)}"
