"""Fits of label tasks: vectors in, every layer fitted at once, predictions kept; and the baselines without vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.families.cells import Stopwatch, versions, write_cell
from bertology.families.items import ItemColumns, Problem, counts_of, labels_of, targets_of
from bertology.families.labels._codelength import write_codes
from bertology.families.labels._sources import sources_of
from bertology.families.readable import skipped_words
from bertology.families.task_data import TaskData, task_data
from bertology.families.tasks import BaselineCells, FitCells, Job
from bertology.measures import (
    SpanWords,
    lexical_labels,
    majority,
    word_majority,
)

if TYPE_CHECKING:
    from bertology.readouts import FittedReadout


def fit(cells: FitCells, job: Job) -> None:
    """Fit a readout to all layers, controls and seeds at once, and write the cells.

    Args:
        cells: of one readout configuration.
        job: with the stored vectors of every split.
    """
    from bertology.readouts import get_readout

    watch = Stopwatch()
    problems = list(dict.fromkeys(Problem(control, seed) for control, seed, _ in cells.cells))
    data = task_data(cells.probe, job.pair.splits)
    data = data.without({split: skipped_words(entry) for split, entry in job.entries.items()})
    sources = sources_of(cells, data, job)
    if cells.config.codelength is not None:
        write_codes(cells, data, sources, job)
        return
    fraction = cells.config.fraction
    fitted = get_readout(cells.readout, **cells.config.settings).fit(
        sources["train"],
        targets_of(data, problems, "train", fraction=fraction),
        dev=sources["dev"],
        dev_targets=targets_of(data, problems, "dev"),
        device=job.device,
        progress=job.progress.say,
    )
    job.progress.finish()
    predicted = fitted.predict(sources["test"])
    packages = ("torch", "transformers", "numpy", "scikit-learn")
    provenance = watch.provenance(*packages, device=job.device, n_cells=len(cells.cells))
    columns = ItemColumns(data)
    for number, problem in enumerate(problems):
        counts = counts_of(data, seed=problem.seed, fraction=fraction)
        gold = data.test.codes if problem.control == "none" else labels_of(data, problem, "test")
        for place, layer in enumerate(cells.layers):
            write_cell(
                job.run,
                cells.cells[problem.control, problem.seed, layer],
                columns.predictions(gold, predicted.labels[number, place], predicted.log_prob[number, place]),
                facts={**counts, **_fit_facts(cells, fitted, number, place)},
                provenance=provenance,
                notes=data.splits.notes,
            )
    for note in _notes(cells, fitted, problems):
        job.progress.note(note)


def write_baselines(baselines: BaselineCells, data: TaskData, run: Path) -> None:
    """Compute the baselines that read no vector, on what the model can read, and write their cells into ``run``."""
    data = data.without(baselines.unreadable)
    columns = ItemColumns(data)
    for control, cell in baselines.cells.items():
        facts, provenance = counts_of(data), {"versions": versions("numpy"), "wall_s": 0.0}
        if control == "lexical":
            watch = Stopwatch()
            predicted, params = _lexical(data)
            facts, provenance = {**facts, "params": params}, watch.provenance("numpy", "scikit-learn", device="cpu")
        else:
            predicted = _most_frequent(data, control)
        write_cell(
            run,
            cell,
            columns.predictions(data.test.codes, predicted, np.full(len(data.test), np.nan)),
            facts=facts,
            provenance=provenance,
            notes=data.splits.notes,
        )


def _most_frequent(data: TaskData, control: str) -> NDArray[Any]:
    """The label most frequent in training: ``majority`` of all items, ``word_majority`` of those of the same form."""
    train = data.train.codes
    if control == "majority":
        return np.repeat(majority(train)[None], len(data.test), axis=0)
    train_words, test_words, n_words = data.word_forms()
    return word_majority(train_words, train, test_words, n_words=n_words)


def _lexical(data: TaskData) -> tuple[NDArray[Any], dict[str, Any]]:
    """What the spans' words and places tell, and what dev chose."""
    train, dev, test = (
        SpanWords(_words(sentences), sentences.starts, data.items[split].spans)
        for split, sentences in data.splits.by_name.items()
    )
    labels = data.train.codes if data.train.is_multi_label else data.targets("train")
    dev_labels = data.items["dev"].codes if data.train.is_multi_label else data.targets("dev")
    predicted = lexical_labels(train, labels, dev=dev, dev_labels=dev_labels, test=test)
    return predicted.labels, {"strength": predicted.strength, "dev_score": round(predicted.dev_score, 6)}


def _words(sentences: Sentences) -> list[str]:
    forms = sentences.forms
    return [forms.values[code] for code in forms.codes.tolist()]


def _fit_facts(cells: FitCells, fitted: FittedReadout, problem: int, column: int) -> dict[str, Any]:
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
    if end := report.end(problem, column):
        params["path_end"] = end
    details = fitted.details(problem, column)
    if details:
        params["details"] = dict(details)
    if cells.config.changes:
        params["settings"] = cells.config.changes
    return {"n_params": fitted.n_params, "params": params}


def _notes(cells: FitCells, fitted: FittedReadout, problems: Sequence[Problem]) -> Iterator[str]:
    """A line on each kind of fits of a group that a person should know of."""
    facts = {
        (str(problem), layer): _fit_facts(cells, fitted, number, place)["params"]
        for number, problem in enumerate(problems)
        for place, layer in enumerate(cells.layers)
    }
    model = {"random": "random weights", "random_blocks": "random blocks"}.get(cells.init, "pretrained")
    model += f" (seed {cells.weights.seed})" if cells.weights.seed else ""
    for what, of_kind in (
        ("fits that stopped before they converged", lambda params: not params["converged"]),
        ("dev accuracy is best at the weakest strength tried", lambda params: params.get("path_end") == "weakest"),
        ("dev accuracy is best at the strongest strength tried", lambda params: params.get("path_end") == "strongest"),
    ):
        by_problem: dict[str, list[int | None]] = {}
        for (problem, layer), params in facts.items():
            if of_kind(params):
                by_problem.setdefault(problem, []).append(layer)
        if by_problem:
            where = [f"{_layers_named(layers)} of {problem}" for problem, layers in by_problem.items()]
            yield f"{cells.probe.task}, {model}: {what}: {'; '.join(where)}"


def _layers_named(layers: Sequence[int | None]) -> str:
    return "all layers" if layers == [None] else f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}"
