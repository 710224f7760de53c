"""From scores to tidy rows: what every family's rows have in common, means over runs, and which layers differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bertology.families.cells import columns_of
from bertology.families.contract import Family
from bertology.families.scoring import Column, Mean, Scored
from bertology.families.tasks import BaselineCells, FitCells, Pair, Scoring, Tables
from bertology.measures import Metric, compare, over_runs
from bertology.measures.comparisons import selectivity
from bertology.probing import Probe
from bertology.results import ComparisonRow, ResultRow
from bertology.results.rows import comparison_rows, score_of


def task_columns(family: Family, probe: Probe, scoring: Scoring) -> dict[str, Any]:
    """Columns that all rows of a task have in common."""
    return {
        "experiment": scoring.experiment,
        "task": probe.task,
        "task_version": f"v{probe.version}",
        "corpus": scoring.pair.corpus.name,
        **family.task_columns(scoring.pair, probe),
    }


def corpus_columns(pair: Pair) -> dict[str, Any]:
    """Columns of rows about the sentences of a corpus."""
    return {
        "corpus_fingerprint": pair.corpus.fingerprint,
        "split": pair.splits.tested_on,
        "language": pair.corpus.language,
        "annotation": "silver" if pair.corpus.is_silver else "gold",
        "n_repeated": pair.splits.n_repeated,
        "left_out": json.dumps({kind: len(places) for kind, places in pair.corpus.skipped.items()}, sort_keys=True),
    }


def fit_columns(family: Family, cells: FitCells, scoring: Scoring) -> dict[str, Any]:
    """Columns that all rows of a readout configuration on one set of weights have in common."""
    pair = scoring.pair
    name, _, version = cells.readout.rpartition(".")
    return {
        **task_columns(family, cells.probe, scoring),
        "model": pair.source.name,
        "model_fingerprint": pair.fingerprints[cells.weights],
        "init": cells.weights.init,
        "init_seed": None if cells.weights.init == "pretrained" else cells.weights.seed,
        "pretraining_seed": pair.request.pretraining_seed,
        "step": pair.request.step,
        "n_layers": pair.shape.n_layers,
        "readout": name,
        "readout_version": version,
        "dtype": pair.request.dtype,
        **family.fit_columns(pair, cells),
    }


def baseline_columns(family: Family, baselines: BaselineCells, scoring: Scoring) -> dict[str, Any]:
    """Columns that all rows of a task's baselines have in common."""
    # Leaving out what a model cannot read makes a baseline that model's own.
    model = scoring.pair.source.name if baselines.unreadable else None
    return {**task_columns(family, baselines.probe, scoring), "model": model}


def noted(family: Family, probe: Probe, tables: Tables) -> Tables:
    """The same rows, those of controls with what tables say of them, so that results can be read without the task."""
    notes = {note.name: note[1:] for note in (*family.controls(probe), *family.baselines(probe))}

    def with_note(row: ResultRow) -> ResultRow:
        if (note := notes.get(row.control)) is None:
            return row
        return replace(row, params_json=json.dumps({**json.loads(row.params_json), "note": note}, sort_keys=True))

    return replace(tables, rows=tuple(map(with_note, tables.rows)))


def failed_rows(family: Family, cells: FitCells, scoring: Scoring) -> Tables:
    """One row without a score for each cell that could not be computed."""
    shared = {**fit_columns(family, cells, scoring), "status": "failed"}
    shared |= dict.fromkeys(("n_train", "n_items", "n_clusters", "n_classes"), 0)
    if cells.config.changes:
        # By this the rows are distinguished from those of other configurations of the task.
        shared["params_json"] = json.dumps({"settings": cells.config.changes}, sort_keys=True)
    rows = []
    for (control, seed, layer), cell in cells.cells.items():
        where: dict[str, Any] = {"cell_id": cell.id, "control": control, "seed": seed, "layer": layer}
        metric = family.main_metric(cells, control)
        rows.append(ResultRow(**shared, **where, metric=metric, main_metric=control == "none"))
    return Tables(tuple(rows))


ByControl = Mapping[str, Sequence[Mapping[int, Column]]]
"""Columns by control, draw of weights and seed."""
MoreRows = Callable[[str, ByControl, Sequence[Mapping[str, Any]]], Iterable[ResultRow]]


def scored_tables(
    family: Family,
    draws: Sequence[FitCells],
    columns: Sequence[Mapping[tuple[str, int], Column]],
    scoring: Scoring,
    *,
    metrics: Sequence[Scored],
    more: MoreRows = lambda *_: (),
    is_ranked: bool = True,
) -> Tables:
    """Scores on each draw of weights, their means, and the comparisons of layers.

    Args:
        family: whose cells they are.
        draws: one readout configuration on each draw of its weights.
        columns: by draw its scored columns, by control and seed.
        scoring: the run's folder and the resampling.
        metrics: the main metric first.
        more: further rows of a control, given it, all columns and what the rows of each draw have in common.
        is_ranked: whether one layer can be better than another.
    """
    first, shared = draws[0], [fit_columns(family, one, scoring) for one in draws]
    by_control: ByControl = {
        control: [{seed: one for (of, seed), one in by_seed.items() if of == control} for by_seed in columns]
        for control in dict.fromkeys(control for control, _ in columns[0])
    }
    rows: list[ResultRow] = []
    for control, of_control in by_control.items():
        rows += run_rows(of_control, shared, {"control": control}, metrics)
        rows += more(control, by_control, shared)
    is_compared = scoring.compare_layers and is_ranked and first.weights.init == scoring.pair.request.init
    compared = _compare_layers(first, by_control, metrics[0].name, scoring) if is_compared else []
    return Tables.of(rows, compared)


def run_rows(
    columns: Sequence[Mapping[int, Column]],
    shared: Sequence[Mapping[str, Any]],
    where: Mapping[str, Any],
    metrics: Sequence[Scored],
) -> Iterator[ResultRow]:
    """The rows of the same cells by draw of weights and seed, with columns ``shared`` by each draw, and ``where``."""
    mean = Mean.of([list(by_seed.values()) for by_seed in columns])
    for by_seed, of_draw in zip(columns, shared, strict=True):
        for seed, column in by_seed.items():
            for place, layer in enumerate(column.layers):
                about = {**of_draw, **where, "seed": seed, "layer": layer}
                yield from cell_rows(column, place, about, metrics=metrics, mean=mean)


def selectivity_rows(
    task: Sequence[Mapping[int, Column]],
    control: Sequence[Mapping[int, Column]],
    shared: Sequence[Mapping[str, Any]],
    *,
    metric: str = "accuracy",
) -> Iterator[ResultRow]:
    """A score of the task less that of its control task, as rows of the task's own cells."""

    def less(one: Column, of_control: Column) -> Column:
        score = selectivity(one.scores[metric], of_control.scores[metric])
        return replace(one, scores={"selectivity": score}, by_group={})

    differences = [
        {seed: less(one, of_control[seed]) for seed, one in of_draw.items() if metric in one.scores}
        for of_draw, of_control in zip(task, control, strict=True)
    ]
    return run_rows(differences, shared, {"control": "none"}, ())


def cell_rows(
    column: Column, place: int, where: Mapping[str, Any], *, metrics: Sequence[Scored], mean: Mean | None = None
) -> list[ResultRow]:
    """One row a metric of one cell, with what is known of the mean over all runs of it."""
    record, n_runs = column.records[place], mean.n_runs if mean else 1
    groups = record.facts.get("groups", {})
    shared = {**where, **columns_of(record)}
    # A difference of scores, such as selectivity, is no metric of its own; more of it is better.
    better = {metric.name: metric.higher_is_better for metric in metrics}
    main = metrics[0].name if metrics else ""
    rows = [
        ResultRow(
            **shared,
            higher_is_better=better.get(name, True),
            main_metric=where["control"] != "control_task" and name == main,
            **score_of(scores, place, mean=mean.scores[name] if mean else None, n_runs=n_runs),
        )
        for name, scores in column.scores.items()
    ]
    which = {metric.name: metric.which for metric in metrics if isinstance(metric, Metric) and metric.which}
    for place_of_row, row in enumerate(rows):
        if row.metric in which:  # it is about some of the groups, and has their counts
            chosen = [counts for group, counts in groups.items() if which[row.metric](group)]
            n_items, n_skipped = (sum(counts[kind] for counts in chosen) for kind in (0, 2))
            n_clusters = column.scores[row.metric].n_clusters
            row = replace(row, **_counted(n_items, n_clusters, n_skipped))
        rows[place_of_row] = _of_entering(row, column.n_entering.get(row.metric, row.n_items))
    of_whole = {row.metric: row for row in rows}
    for (name, group), scores in column.by_group.items():
        score = score_of(scores, place, mean=mean.by_group[name, group] if mean else None, n_runs=n_runs)
        rows.append(replace(of_whole[name], group=group, **_counted(*groups[group]), **score))
    if main in of_whole and len(groups) > 1:
        # A row without a score for each group of which no item could be scored.
        empty = [(group, counts) for group, counts in groups.items() if not counts[0]]
        nothing = {"value": None, **NO_INTERVALS}
        rows += [replace(of_whole[main], group=group, **_counted(*counts), **nothing) for group, counts in empty]
    return rows


def _counted(n_items: int, n_clusters: int, n_skipped: int) -> dict[str, Any]:
    return {"n_items": n_items, "n_clusters": n_clusters, "n_skipped": n_skipped, "skip_reasons": "{}"}


def _of_entering(row: ResultRow, n_entering: int) -> ResultRow:
    """A row of a metric of whole sentences that some of them have nothing to say to."""
    n_left = row.n_items - n_entering
    if not n_left:
        return row
    reasons = json.dumps({**json.loads(row.skip_reasons), f"no part of {row.metric}": n_left}, sort_keys=True)
    counts = _counted(n_entering, n_entering, row.n_skipped + n_left)
    return replace(row, **{**counts, "skip_reasons": reasons})


NO_INTERVALS: Mapping[str, Any] = {
    **dict.fromkeys(("stderr", "ci_low", "ci_high", "ci_method"), None),
    **dict.fromkeys(("mean", "mean_stderr", "mean_ci_low", "mean_ci_high", "mean_ci_method"), None),
    "n_runs": 1,
}


def _compare_layers(cells: FitCells, by_control: ByControl, metric: str, scoring: Scoring) -> list[ComparisonRow]:
    """All pairs of layers on the task's main metric, corrected together; with several seeds the means over them.

    Layers are resampled together: the same sentences and the same seeds for both of a pair.
    """
    if len(cells.layers) < 2:
        return []
    pair, of_task = scoring.pair, list(by_control["none"][0].values())
    scores = over_runs([column.scores[metric] for column in of_task])
    compared = compare(scores.values, scores.replicates, n_clusters=scores.n_clusters, by_run=scores.by_run)
    name = f"{cells.probe.task} on {pair.corpus.name}: layers of {pair.source.name} by {metric}"
    if len(pair.request.configs_of(cells.probe.task)) > 1:
        name += f", {cells.readout}" + "".join(f" {k}={v}" for k, v in cells.config.changes.items())
    ids = [cell.id for cell in of_task[0].cells]
    layers = [layer for layer in of_task[0].layers if layer is not None]
    return list(comparison_rows(compared, family=name, metric=metric, cells=ids, layers=layers))
