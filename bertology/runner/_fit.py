"""One group of cells: read the vectors, fit every layer at once, keep what was predicted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Entry
from bertology.errors import CorpusError
from bertology.measures import majority, word_majority
from bertology.results import Predictions
from bertology.runner._cells import write_cell
from bertology.runner._plan import BaselineCells, Group
from bertology.runner._provenance import versions
from bertology.runner._task_data import TaskData

if TYPE_CHECKING:
    from bertology.activations import WordVectors
    from bertology.readouts import FittedReadout

NO_VECTOR = "no vector"
# What is kept of converted vectors between passes over the training data; what does not fit is read again.
TRAIN_MEMORY = 2 << 30


@dataclass(frozen=True)
class _Problem:
    """One of the problems fitted over the same items."""

    control: str
    seed: int


def fit_group(
    group: Group,
    data: TaskData,
    entries: Mapping[str, Entry],
    run: Path,
    *,
    device: str,
    notify: Callable[[str], None],
) -> None:
    """Fit a group and write its cells into ``run``.

    Args:
        group: the cells.
        data: the items of the task.
        entries: stored vectors of the ``train``, ``dev`` and ``test`` split.
        run: the run's folder.
        device: where to fit.
        notify: told what a person should know.
    """
    from bertology.readouts import Targets, get_readout

    started, clock = datetime.now(UTC), time.perf_counter()
    layers = sorted({layer for _, _, layer in group.cells})
    problems = list(dict.fromkeys(_Problem(control, seed) for control, seed, _ in group.cells))
    data = _with_vectors(data, entries)
    sources = {
        split: _vectors(entries[split], examples.words, layers, TRAIN_MEMORY * (split == "train"))
        for split, examples in data.items.items()
    }

    def targets(split: str, *, weighted: bool) -> Targets:
        labels = np.stack([_labels(data, problem, split) for problem in problems])
        weights = np.stack([_weights(data, problem.seed) for problem in problems]) if weighted else None
        names = tuple(f"task {group.probe.task}, {p.control}, seed {p.seed}" for p in problems)
        return Targets(labels, data.n_train_labels, weights, names)

    fitted = get_readout(group.readout).fit(
        sources["train"],
        targets("train", weighted=len(problems) > 1),
        dev=sources["dev"],
        dev_targets=targets("dev", weighted=False),
        device=device,
    )
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
                group.cells[problem.control, problem.seed, layer],  # type: ignore[index]
                columns.predictions(gold, found.labels[number, place], found.log_prob[number, place]),
                facts=facts,
                provenance=provenance,
                notes=_warn(facts, layer, problem, notify),
            )


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
        )


class _Columns:
    """What the predictions of all cells of a task share."""

    def __init__(self, data: TaskData) -> None:
        sentences = data.splits.test
        clusters, self._cluster = np.unique(data.test.clusters, return_inverse=True)
        self._cluster_ids = [sentences.id(int(number)) or str(number) for number in clusters]
        inside = data.test.words - sentences.starts[data.test.clusters] + 1
        names = self._cluster_ids
        self._item_ids = [f"{names[c]}:{w}" for c, w in zip(self._cluster.tolist(), inside.tolist(), strict=True)]
        self._labels = data.labels

    def predictions(self, gold: NDArray[Any], pred: NDArray[Any], score: NDArray[Any]) -> Predictions:
        return Predictions(self._item_ids, self._cluster, self._cluster_ids, gold, pred, score, self._labels)


def _vectors(entry: Entry, words: NDArray[np.int64], layers: list[int], memory: int) -> WordVectors:
    from bertology.activations import WordVectors

    return WordVectors(entry, words, layers=layers, memory=memory)


def _with_vectors(data: TaskData, entries: Mapping[str, Entry]) -> TaskData:
    """The same data with those items left out, and counted, whose word has no vector."""
    keep = {split: entries[split].place[examples.words, 0] >= 0 for split, examples in data.items.items()}
    for split, has_vector in keep.items():
        if not has_vector.any():
            raise CorpusError(
                f"task {data.probe.task}: no word of the {split} split has a vector: was all of it skipped?"
            )
    return data.only(keep, reason=NO_VECTOR)


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
    chosen = int(np.flatnonzero(np.isclose(report.strengths, report.chosen[problem, layer]))[0])
    return {
        "n_params": fitted.n_params,
        "params": {
            "strength": float(report.chosen[problem, layer]),
            "strengths": [float(strength) for strength in report.strengths],
            "dev_accuracy": [round(float(value), 6) for value in report.dev_accuracy[problem, layer]],
            "iterations": int(report.iterations[problem, layer, chosen]),
            "converged": bool(report.converged[problem, layer, chosen]),
            "gradient_norm": float(report.gradient_norm[problem, layer, chosen]),
        },
    }


def _warn(facts: Mapping[str, Any], layer: int, problem: _Problem, notify: Callable[[str], None]) -> tuple[str, ...]:
    if facts["params"]["converged"]:
        return ()
    note = f"layer {layer} ({problem.control}, seed {problem.seed}): the fit stopped before it converged"
    notify(note)
    return (note,)
