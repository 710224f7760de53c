"""One group of cells: read the vectors, fit every layer at once, keep what was predicted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Entry, Progress
from bertology.corpora import Sentences
from bertology.measures import (
    SpanWords,
    lexical_labels,
    majority,
    word_majority,
)
from bertology.runner._baselines import Baseline
from bertology.runner._cells import write_cell
from bertology.runner._code import code_group
from bertology.runner._items import ItemColumns
from bertology.runner._plan import BaselineCells, Group, Plan
from bertology.runner._problems import Problem, counts_of, labels_of, targets_of
from bertology.runner._provenance import Stopwatch, versions
from bertology.runner._readable import skipped_words
from bertology.runner._sources import sources_of
from bertology.runner._task_data import TaskData
from bertology.runner._trees import fit_trees, write_chains

if TYPE_CHECKING:
    from bertology.readouts import FittedReadout


def fit_group(
    group: Group,
    data: TaskData,
    entries: Mapping[str, Entry],
    run: Path,
    *,
    plan: Plan,
    device: str,
    progress: Progress,
) -> None:
    """Fit a group, and those that are fitted with it, and write their cells into ``run``.

    Args:
        group: the cells.
        data: the items of the task.
        entries: stored vectors of the ``train``, ``dev`` and ``test`` split.
        run: the run's folder.
        plan: what the group is part of.
        device: where to fit.
        progress: told how far the fit is, and what a person should know.
    """
    from bertology.readouts import get_readout

    if data.trees is not None:
        fit_trees(group, data, entries, run, plan=plan, device=device, progress=progress)
        return
    watch = Stopwatch()
    problems = list(dict.fromkeys(Problem(control, seed) for control, seed, _ in group.cells))
    data = data.without({split: skipped_words(entry) for split, entry in entries.items()})
    sources = sources_of(group, data, entries, device=device)
    if group.reading.codelength is not None:
        code_group(group, data, sources, run, device=device, progress=progress)
        return
    fitted = get_readout(group.readout.name, **group.reading.settings).fit(
        sources["train"],
        targets_of(data, problems, "train", fraction=group.reading.fraction),
        dev=sources["dev"],
        dev_targets=targets_of(data, problems, "dev"),
        device=device,
        progress=progress.say,
    )
    progress.finish()
    found = fitted.predict(sources["test"])
    packages = ("torch", "transformers", "numpy", "scikit-learn")
    provenance = watch.provenance(*packages, device=device, n_cells=len(group.cells))
    columns = ItemColumns(data)
    for number, problem in enumerate(problems):
        counts = counts_of(data, seed=problem.seed, fraction=group.reading.fraction)
        gold = data.test.codes if problem.control == "none" else labels_of(data, problem, "test")
        for place, layer in enumerate(group.layers):
            write_cell(
                run,
                group.cells[problem.control, problem.seed, layer],
                columns.predictions(gold, found.labels[number, place], found.log_prob[number, place]),
                facts={**counts, **_fit_facts(group, fitted, number, place)},
                provenance=provenance,
                notes=data.splits.notes,
            )
    for note in _notes(group, fitted, problems):
        progress.note(note)


def write_baselines(found: BaselineCells, data: TaskData, run: Path) -> None:
    """Compute the baselines that look at no vector, on what the model can read, and write their cells into ``run``."""
    data = data.without(found.unreadable)
    if data.trees is not None:
        write_chains(found, data, run)
        return
    columns = ItemColumns(data)
    for control, cell in found.cells.items():
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


def _most_frequent(data: TaskData, control: Baseline) -> NDArray[Any]:
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
    found = lexical_labels(train, labels, dev=dev, dev_labels=dev_labels, test=test)
    return found.labels, {"strength": found.strength, "dev_score": round(found.dev_score, 6)}


def _words(sentences: Sentences) -> list[str]:
    forms = sentences.forms
    return [forms.values[code] for code in forms.codes.tolist()]


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
    if end := report.end(problem, column):
        params["path_end"] = end
    details = fitted.details(problem, column)
    if details:
        params["details"] = dict(details)
    if group.reading.changes:
        params["settings"] = group.reading.changes
    return {"n_params": fitted.n_params, "params": params}


def _notes(group: Group, fitted: FittedReadout, problems: Sequence[Problem]) -> Iterator[str]:
    """A line on each kind of fits of a group that a person should know of."""
    facts = {
        (str(problem), layer): _fit_facts(group, fitted, number, place)["params"]
        for number, problem in enumerate(problems)
        for place, layer in enumerate(group.layers)
    }
    model = {"random": "random weights", "random_blocks": "random blocks"}.get(group.init, "pretrained")
    model += f" (seed {group.weights.seed})" if group.weights.seed else ""
    for what, of_kind in (
        ("fits that stopped before they converged", lambda params: not params["converged"]),
        ("dev accuracy is best at the weakest strength tried", lambda params: params.get("path_end") == "weakest"),
        ("dev accuracy is best at the strongest strength tried", lambda params: params.get("path_end") == "strongest"),
    ):
        found: dict[str, list[int | None]] = {}
        for (problem, layer), params in facts.items():
            if of_kind(params):
                found.setdefault(problem, []).append(layer)
        if found:
            where = [f"{_layers_named(layers)} of {problem}" for problem, layers in found.items()]
            yield f"{group.probe.task}, {model}: {what}: {'; '.join(where)}"


def _layers_named(layers: Sequence[int | None]) -> str:
    return "all layers" if layers == [None] else f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}"
