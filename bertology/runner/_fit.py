"""One group of cells: read the vectors, fit every layer at once, keep what was predicted."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Entry, Progress
from bertology.measures import fraction_mask, majority, majority_labels, word_majority, word_majority_labels
from bertology.runner._cells import write_cell
from bertology.runner._items import ItemColumns
from bertology.runner._plan import BaselineCells, Group, RowControl
from bertology.runner._provenance import versions
from bertology.runner._sources import skipped_words, sources_of
from bertology.runner._task_data import Labels, TaskData

if TYPE_CHECKING:
    from bertology.readouts import FittedReadout, Targets


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
    problems = list(dict.fromkeys(_Problem(control, seed) for control, seed, _ in group.cells))
    data = data.without({split: skipped_words(entry) for split, entry in entries.items()})
    sources = sources_of(group, data, entries)
    fitted = get_readout(group.readout.name, **group.reading.settings).fit(
        sources["train"],
        _targets(group, data, problems, "train"),
        dev=sources["dev"],
        dev_targets=_targets(group, data, problems, "dev"),
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
    columns = ItemColumns(data)
    for number, problem in enumerate(problems):
        gold = data.test.codes if problem.control == "none" else _labels(data, problem, "test")
        for place, layer in enumerate(group.layers):
            write_cell(
                run,
                group.cells[problem.control, problem.seed, layer],
                columns.predictions(gold, found.labels[number, place], found.log_prob[number, place]),
                facts={**_counts(data), **_fit_facts(group, fitted, number, place)},
                provenance=provenance,
                notes=data.splits.notes,
            )
    if note := _unconverged(group, fitted, problems):
        progress.note(note)


def write_baselines(found: BaselineCells, data: TaskData, run: Path) -> None:
    """Compute the baselines that look at no vector and write their cells into ``run``."""
    train_words, test_words, n_words = data.word_forms()
    train = data.train.codes
    of_all: NDArray[Any]
    if train.ndim == 1:
        of_all = np.full(len(data.test), majority(train))
        of_words: NDArray[Any] = word_majority(train_words, train, test_words, n_words=n_words)
    else:
        of_all = np.tile(majority_labels(train), (len(data.test), 1))
        of_words = word_majority_labels(train_words, train, test_words, n_words=n_words)
    predicted = {"majority": of_all, "word_majority": of_words}
    columns = ItemColumns(data)
    for control, cell in found.cells.items():
        write_cell(
            run,
            cell,
            columns.predictions(data.test.codes, predicted[control], np.full(len(data.test), np.nan)),
            facts=_counts(data),
            provenance={"versions": versions("numpy"), "wall_s": 0.0},
            notes=data.splits.notes,
        )


def _targets(group: Group, data: TaskData, problems: Sequence[_Problem], split: str) -> Targets:
    from bertology.readouts import Targets

    labels = np.stack([_labels(data, problem, split) for problem in problems])
    fraction = group.reading.fraction
    weighted = split == "train" and (fraction < 1 or any(problem.seed for problem in problems))
    weights = np.stack([_weights(data, problem.seed, fraction) for problem in problems]) if weighted else None
    names = tuple(f"task {data.probe.task}: {problem}" for problem in problems)
    leaders = tuple(problems.index(_Problem("none", problem.seed)) for problem in problems)
    return Targets(labels, data.n_train_labels, weights, names, leaders)


def _labels(data: TaskData, problem: _Problem, split: str) -> Labels:
    return data.targets(split) if problem.control == "none" else data.control(split, seed=problem.seed)


def _weights(data: TaskData, seed: int, fraction: float) -> NDArray[np.float32]:
    """How often each training item counts: once under seed 0, else as often as its sentence is drawn.

    Of a share of the sentences the others count nothing; a smaller share is part of every larger one.
    """
    n_sentences, of_item = len(data.splits.train), data.train.clusters
    weights = np.ones(len(data.train), dtype=np.float32)
    if seed:
        drawn = np.random.default_rng(seed).integers(0, n_sentences, n_sentences)
        weights = np.bincount(drawn, minlength=n_sentences)[of_item].astype(np.float32)
    return weights * fraction_mask(of_item, fraction, seed=seed)


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


def _fit_facts(group: Group, fitted: FittedReadout, problem: int, column: int) -> dict[str, Any]:
    report = fitted.report
    chosen = int(np.abs(np.array(report.strengths) - report.chosen[problem, column]).argmin())
    gradient_norm = float(report.gradient_norm[problem, column, chosen])
    tried = np.flatnonzero(~np.isnan(report.dev_accuracy[problem, column]))
    params: dict[str, Any] = {
        "strength": float(report.chosen[problem, column]),
        "strengths": [float(report.strengths[place]) for place in tried],
        "dev_accuracy": [round(float(report.dev_accuracy[problem, column, place]), 6) for place in tried],
        "iterations": int(report.iterations[problem, column, chosen]),
        "converged": bool(report.converged[problem, column, chosen]),
        # JSON knows no NaN, which is what a readout without iterations has to say.
        "gradient_norm": gradient_norm if math.isfinite(gradient_norm) else None,
    }
    details = fitted.details(problem, column)
    if details:
        params["details"] = dict(details)
    if group.reading.changes:
        params["settings"] = group.reading.changes
    return {"n_params": fitted.n_params, "params": params}


def _unconverged(group: Group, fitted: FittedReadout, problems: Sequence[_Problem]) -> str | None:
    """One line on all fits of a group that stopped early at the strength that was chosen."""
    found = []
    for number, problem in enumerate(problems):
        facts = [_fit_facts(group, fitted, number, place)["params"] for place in range(len(group.layers))]
        left = [
            "all layers" if layer is None else str(layer)
            for layer, params in zip(group.layers, facts, strict=True)
            if not params["converged"]
        ]
        if left:
            found.append(f"layer{'s' * (len(left) > 1)} {', '.join(left)} of {problem}")
    if not found:
        return None
    model = "random weights" if group.init == "random" else "pretrained"
    return f"{group.probe.task}, {model}: fits that stopped before they converged: {'; '.join(found)}"
