"""Fits of label tasks: vectors in, every layer fitted at once, predictions kept; and the baselines without vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.errors import FitError
from bertology.families.cells import Stopwatch, versions, write_cell
from bertology.families.item_vectors import items_param, keep_fit, readable, vectors_of
from bertology.families.items import ItemColumns, Problem, counts_of, labels_of, targets_of
from bertology.families.labels._codelength import write_codes
from bertology.families.splits import Splits
from bertology.families.task_data import TaskData, task_data
from bertology.families.tasks import BaselineCells, FitCells, Job
from bertology.measures import majority
from bertology.measures.baselines import SpanWords, lexical_labels, word_majority
from bertology.probing import get_probe

if TYPE_CHECKING:
    from bertology.readouts import Erasure, FittedReadout


def fit(cells: FitCells, job: Job) -> None:
    """Fit a readout to all layers, controls and seeds of a configuration at once, and write the cells."""
    from bertology.readouts import KeptFit, get_readout

    watch = Stopwatch()
    problems = list(dict.fromkeys(Problem(control, seed) for control, seed, _ in cells.cells))
    data = readable(cells, task_data(cells.probe, job.pair.splits), job)
    erasure = _erasure(cells, data, job) if cells.config.erase is not None else None
    sources = {
        split: vectors_of(cells, data, job, split, memory=job.memory if split == "train" else 0, erasure=erasure)
        for split in data.items
    }
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
        n_threads=job.n_threads,
    )
    job.progress.finish()
    predicted = fitted.predict(sources["test"])
    packages = ("torch", "transformers", "numpy", "scikit-learn")
    provenance = watch.provenance(*packages, device=job.device, n_cells=len(cells.cells))
    columns = ItemColumns(data)
    own_weights = cells.weights.init == job.pair.request.init
    is_kept = own_weights and erasure is None
    for number, problem in enumerate(problems):
        counts = counts_of(data, seed=problem.seed, fraction=fraction)
        gold = data.test.codes if problem.control == "none" else labels_of(data, problem, "test")
        for place, layer in enumerate(cells.layers):
            cell = cells.cells[problem.control, problem.seed, layer]
            if is_kept and problem.control == "none":
                keep_fit(KeptFit.of(fitted, number, place), cells, data, job, cell)
            facts = _fit_facts(cells, fitted, number, place)
            facts["params"] |= items_param(data)
            write_cell(
                job.run,
                cell,
                columns.predictions(gold, predicted.labels[number, place], predicted.log_prob[number, place]),
                facts={**counts, **facts, **job.pair.alignment_counts()},
                provenance=provenance,
                notes=data.splits.notes,
            )
    for note in _notes(cells, fitted, problems):
        job.progress.note(note)


def write_baselines(baselines: BaselineCells, job: Job) -> None:
    """Compute the baselines that read no vector, on what the model can read, and write their cells."""
    data = task_data(baselines.probe, job.pair.splits)
    data = data.without(baselines.unreadable, job.pair.joined if baselines.unreadable else {})
    columns = ItemColumns(data)
    for control, cell in baselines.cells.items():
        facts, provenance = counts_of(data), {"versions": versions("numpy"), "wall_s": 0.0}
        if control == "lexical":
            watch = Stopwatch()
            predicted, params = _lexical(data)
            facts, provenance = {**facts, "params": params}, watch.provenance("numpy", "scikit-learn", device="cpu")
        else:
            predicted = _most_frequent(data, control)
        kept = columns.predictions(data.test.codes, predicted, np.full(len(data.test), np.nan))
        write_cell(job.run, cell, kept, facts=facts, provenance=provenance, notes=data.splits.notes)


def _most_frequent(data: TaskData, control: str) -> NDArray[Any]:
    """The label most frequent in training: of all items (``majority``), of those of the same form (``word_majority``)
    or of as many words (``length``)."""
    train = data.train.codes
    if control == "majority":
        return np.repeat(majority(train)[None], len(data.test), axis=0)
    if control == "length":
        train_words, test_words = (np.diff(part.spans).sum(axis=(1, 2)) for part in (data.train, data.test))
        n_words = int(train_words.max()) + 1
        test_words = np.where(np.isin(test_words, train_words), test_words, -1)
    else:
        train_words, test_words, n_words = data.word_forms()
    return word_majority(train_words, train, test_words, n_words=n_words)


def _lexical(data: TaskData) -> tuple[NDArray[Any], dict[str, Any]]:
    """What the spans' words and places tell, and what dev chose."""
    train, dev, test = (
        SpanWords(
            [sentences.written.values[code] for code in sentences.written.codes.tolist()],
            sentences.starts,
            data.items[split].spans,
        )
        for split, sentences in data.splits.by_name.items()
    )
    labels, dev_labels = (
        data.items[split].codes if data.train.is_multi_label else data.targets(split) for split in ("train", "dev")
    )
    predicted = lexical_labels(train, labels, dev=dev, dev_labels=dev_labels, test=test)
    return predicted.labels, {"strength": predicted.strength, "dev_score": round(predicted.dev_score, 6)}


def _fit_facts(cells: FitCells, fitted: FittedReadout, problem: int, column: int) -> dict[str, Any]:
    report, at = fitted.report, (problem, column)
    chosen = int(np.abs(np.array(report.strengths) - report.chosen[at]).argmin())
    gradient_norm = float(report.gradient_norm[at][chosen])
    tried = np.flatnonzero(~np.isnan(report.dev_accuracy[at]))
    params: dict[str, Any] = {
        "strength": float(report.chosen[at]),
        "strengths": [float(report.strengths[place]) for place in tried],
        "dev_accuracy": [round(float(report.dev_accuracy[at][place]), 6) for place in tried],
        "iterations": int(report.iterations[at][chosen]),
        "converged": bool(report.converged[at][chosen]),
        # JSON knows no NaN, which is what a readout without iterations has to say.
        "gradient_norm": gradient_norm if math.isfinite(gradient_norm) else None,
    }
    if end := report.end(*at):
        params["path_end"] = end
    if details := fitted.details(*at):
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
    model = {"random": "random weights", "random_blocks": "random blocks"}.get(cells.weights.init, "pretrained")
    model += f" (seed {cells.weights.seed})" if cells.weights.seed else ""
    for what, key, value in (
        ("fits that stopped before they converged", "converged", False),
        ("dev accuracy is best at the weakest strength tried", "path_end", "weakest"),
        ("dev accuracy is best at the strongest strength tried", "path_end", "strongest"),
    ):
        by_problem: dict[str, list[int | None]] = {}
        for (problem, layer), params in facts.items():
            if params.get(key) == value:
                by_problem.setdefault(problem, []).append(layer)
        if by_problem:
            where = [f"{_layers_named(layers)} of {problem}" for problem, layers in by_problem.items()]
            yield f"{cells.probe.task}, {model}: {what}: {'; '.join(where)}"


def _layers_named(layers: Sequence[int | None]) -> str:
    return "all layers" if layers == [None] else f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}"


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


def _erasure(cells: FitCells, data: TaskData, job: Job) -> Erasure:
    """What a linear readout could find of another task in each layer, or as many directions of any kind."""
    from bertology.activations import WordVectors
    from bertology.readouts import fit_erasure, random_erasure

    erased = erased_data(str(cells.config.erase), data.splits).without(job.pair.unreadable, job.pair.joined)
    vectors = WordVectors(job.entries["train"], erased.train.words, layers=cells.layers_read, memory=0)
    erasure = fit_erasure(vectors, np.asarray(erased.targets("train")), erased.n_train_labels, device=job.device)
    return erasure if cells.config.eraser == "leace" else random_erasure(erasure)
