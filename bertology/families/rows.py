"""Scores with intervals of finished cells, and tidy rows and comparisons of layers made of them.

Cells that share their items are a :class:`Column`: they are counted and resampled together, by :func:`score_cells`
where predictions are kept, by :mod:`bertology.families.sums` where sums are. :func:`scored_rows` makes rows of columns,
means over runs, and comparisons of layers.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter, methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from bertology.families.contract import Counts, Family, FitCells, Problem, Scoring, TaskRows
from bertology.measures import Metric, bootstrap, compare, over_runs
from bertology.measures.intervals import Bootstrap, selectivity
from bertology.probing import Probe
from bertology.results import ResultRow
from bertology.results.cells import Cell, CellRecord, columns_of, read_record
from bertology.results.rows import comparison_rows, score_of

# Bytes of the counts of several seeds that are scored together.
_TOGETHER = 1 << 26
_BY_COLUMN = ("values", "stderr", "ci_low", "ci_high", "ci_methods")
NO_INTERVALS: Mapping[str, Any] = {
    **dict.fromkeys(("stderr", "ci_low", "ci_high", "ci_method"), None),
    **dict.fromkeys(("mean", "mean_stderr", "mean_ci_low", "mean_ci_high", "mean_ci_method"), None),
    "n_runs": 1,
}


@dataclass(frozen=True)
class Column:
    """Finished cells that share their items, scored together: the layers of one control and seed."""

    cells: tuple[Cell, ...]
    layers: tuple[int | None, ...]
    records: tuple[CellRecord, ...]
    scores: Mapping[str, Bootstrap]
    by_group: Mapping[tuple[str, str], Bootstrap] = field(default_factory=dict)
    """The scores of single groups of items, by metric and group."""
    n_entering: Mapping[str, int] = field(default_factory=dict)
    """The number of sentences that enter a metric, for metrics that not every sentence enters."""


Columns = Mapping[Problem, Column]  # the columns of a readout configuration on one draw of its weights
ByControl = Mapping[str, Sequence[Mapping[int, Column]]]  # columns by control, draw of weights and seed
MoreRows = Callable[[str, ByControl, Sequence[Mapping[str, Any]]], Iterable[ResultRow]]


@dataclass(frozen=True)
class Mean:
    """The mean over several runs of the same cells, and its intervals over runs and sentences."""

    n_runs: int
    scores: Mapping[str, Bootstrap]
    by_group: Mapping[tuple[str, str], Bootstrap]

    @classmethod
    def of(cls, columns: Sequence[Sequence[Column]]) -> "Mean | None":
        """The mean of columns by draw of weights and seed; None of a single one.

        Several seeds of each of several draws are averaged within the draw, which is then what is resampled.
        """
        if (n_runs := sum(map(len, columns))) < 2:
            return None
        means: dict[str, dict[Any, Bootstrap]] = {"scores": {}, "by_group": {}}
        for kind, of_kind in means.items():
            for key in getattr(columns[0][0], kind):
                runs = [[getattr(one, kind)[key] for one in of_draw] for of_draw in columns]
                of_draws = [over_runs(run, draws_runs=False) for run in runs] if len(runs) > 1 else runs[0]
                of_kind[key] = over_runs(of_draws)
        return cls(n_runs, **means)


def records_of(run: Path, cells: Sequence[Cell]) -> tuple[CellRecord, ...]:
    """The records of finished cells."""
    records = list[CellRecord]()
    for cell in cells:
        if (record := read_record(run, cell.id)) is None:
            raise RuntimeError(f"cell {cell.id} is not finished in {run}")
        records.append(record)
    return tuple(records)


def score_cells(
    family: Family, cells: FitCells, scoring: Scoring, metrics: Mapping[str, Sequence[Metric]]
) -> dict[Problem, Column]:
    """Scores of all layers by control and seed, computed from kept predictions with the metrics of each control."""
    columns, waiting, layers = dict[Problem, Column](), dict[Problem, Counts](), cells.layers

    def resample() -> None:
        """Score the problems that wait, which are of one control and have counts of one shape."""
        (_, labels), every = next(iter(waiting.values())), list(map(itemgetter(0), waiting.values()))
        asked = metrics[next(iter(waiting)).control]
        how: dict[str, Any] = {"labels": labels, "n_resamples": scoring.n_resamples, "seed": scoring.seed}
        scores = bootstrap(np.concatenate(every), asked, **how)
        for number, (problem, counts) in enumerate(zip(waiting, every, strict=True)):
            places, chosen, entering = slice(number * len(layers), (number + 1) * len(layers)), {}, {}
            for metric in asked:
                whole = scores[metric.name]
                parts = attrgetter(*_BY_COLUMN)(whole)
                own: dict[str, Any] = dict(zip(_BY_COLUMN, map(itemgetter(places), parts), strict=True))
                own |= {"replicates": whole.replicates[:, places], "jackknife": whole.jackknife[:, places]}
                chosen[metric.name] = replace(whole, **own)
                if metric.enters:
                    entering[metric.name] = int(metric.enters(counts[0], labels).sum())
            some = cells.cells_of(problem)
            columns[problem] = Column(some, layers, records_of(scoring.run, some), chosen, n_entering=entering)
        waiting.clear()

    for problem in cells.problems:
        ids = list(map(attrgetter("id"), cells.cells_of(problem)))
        counts, labels = family.count(scoring.run, ids, metrics[problem.control])
        if waiting:
            control, (first, first_labels) = next(iter(waiting)).control, next(iter(waiting.values()))
            alike = control == problem.control and first_labels == labels and first.shape == counts.shape
            if not alike or (len(waiting) + 1) * first.nbytes > _TOGETHER:
                resample()
        waiting[problem] = counts, labels
    if waiting:
        resample()
    return columns


def task_columns(family: Family, cells: FitCells, scoring: Scoring) -> dict[str, Any]:
    """Columns that all rows of a readout configuration on one set of weights, or of baselines, have in common."""
    pair, probe = scoring.pair, cells.probe
    config = None if cells.is_baseline else cells.config
    columns = {
        "experiment": scoring.experiment,
        "task": probe.task,
        "task_version": f"v{probe.version}",
        "corpus": pair.corpus.name,
        **family.columns(pair, probe, config),
    }
    if cells.is_baseline:
        # Leaving out what a model cannot read makes a baseline that model's own.
        return {**columns, "model": pair.source.name if cells.unreadable else None}
    name, _, version = cells.readout.rpartition(".")
    return {
        **columns,
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
    }


def noted(family: Family, probe: Probe, tables: TaskRows, *, left_out: str | None = None) -> TaskRows:
    """The same rows, those of controls with their notes, so that results can be read without the task.

    Rows of the task itself have what was ``left_out`` of the name such as ``feats:all`` by which it was asked for.
    """
    notes, rows = dict[str, Any](), list(tables.rows)
    for note in (*family.controls(probe), *family.baselines(probe)):
        notes[note.name] = note[1:]
    for place, row in enumerate(rows):
        more = {"note": notes[row.control]} if row.control in notes else {}
        if left_out and row.control == "none":
            more["left_out"] = left_out
        if more:
            params = {**json.loads(row.params_json), **more}
            rows[place] = replace(row, params_json=json.dumps(params, sort_keys=True))
    return replace(tables, rows=tuple(rows))


def failed_rows(family: Family, cells: FitCells, scoring: Scoring) -> TaskRows:
    """One row without a score for each cell that could not be computed."""
    shared = {**task_columns(family, cells, scoring), "status": "failed"}
    shared |= dict.fromkeys(("n_train", "n_items", "n_clusters", "n_classes"), 0)
    if cells.config.changes:
        # By this the rows are distinguished from those of other configurations of the task.
        shared["params_json"] = json.dumps({"settings": cells.config.changes}, sort_keys=True)
    rows = []
    for (control, seed, layer), cell in cells.cells.items():
        where: dict[str, Any] = {"cell_id": cell.id, "control": control, "seed": seed, "layer": layer}
        metric = family.main_metric(cells, control)
        rows.append(ResultRow(**shared, **where, metric=metric, main_metric=control == "none"))
    return TaskRows(tuple(rows))


def scored_rows(
    family: Family,
    draws: Sequence[FitCells],
    columns: Sequence[Columns],
    scoring: Scoring,
    *,
    metrics: Sequence[Metric],
    more: MoreRows = lambda *_: (),
    is_ranked: bool = True,
) -> TaskRows:
    """Scores on each draw of weights, their means, and the comparisons of layers.

    Args:
        family: the family of the task.
        draws: one readout configuration on each draw of its weights.
        columns: the scored columns of each draw.
        scoring: the run directory and the resampling.
        metrics: the main metric first.
        more: further rows of a control, given it, all columns and the common columns of the rows of each draw.
        is_ranked: whether one layer can be better than another.
    """
    first, shared, pair = draws[0], [task_columns(family, one, scoring) for one in draws], scoring.pair
    by_control: dict[str, list[dict[int, Column]]] = {}
    for number, of_draw in enumerate(columns):
        for (control, seed), column in of_draw.items():
            by_control.setdefault(control, [{} for _ in columns])[number][seed] = column
    rows: list[ResultRow] = []
    for control, of_control in by_control.items():
        rows += run_rows(of_control, shared, control, metrics)
        rows += more(control, by_control, shared)
    is_compared = scoring.compare_layers and is_ranked and first.weights.init == pair.request.init
    if not is_compared or len(first.layers) < 2:
        return TaskRows.of(rows)
    # All pairs of layers, resampled together: the same sentences and the same seeds for both of a pair.
    of_task, main = list(by_control["none"][0].values()), metrics[0].name
    scores = over_runs([column.scores[main] for column in of_task])
    compared = compare(scores.values, scores.replicates, n_clusters=scores.n_clusters, by_run=scores.by_run)
    name = f"{first.probe.task} on {pair.corpus.name}: layers of {pair.source.name} by {main}"
    if len(pair.request.configs_of(first.probe.task)) > 1:
        name += f", {first.config.title}"
    ids, layers = [cell.id for cell in of_task[0].cells], [one for one in of_task[0].layers if one is not None]
    return TaskRows.of(rows, tuple(comparison_rows(compared, family=name, metric=main, cells=ids, layers=layers)))


def scored_baselines(
    family: Family, baselines: FitCells, columns: Columns, scoring: Scoring, *, metrics: Sequence[Metric]
) -> TaskRows:
    """The rows of the scored columns of baselines."""
    shared, rows = task_columns(family, baselines, scoring), list[ResultRow]()
    for (control, _), column in columns.items():
        rows += cell_rows(column, 0, {**shared, "control": control}, metrics=metrics)
    return TaskRows.of(rows)


def run_rows(
    columns: Sequence[Mapping[int, Column]],
    shared: Sequence[Mapping[str, Any]],
    control: str,
    metrics: Sequence[Metric] = (),
) -> Iterator[ResultRow]:
    """The rows of the same cells of a control by draw of weights and seed, with columns ``shared`` by each draw."""
    mean = Mean.of(list(map(list, map(methodcaller("values"), columns))))
    for by_seed, of_draw in zip(columns, shared, strict=True):
        for seed, column in by_seed.items():
            for place, layer in enumerate(column.layers):
                about = {**of_draw, "control": control, "seed": seed, "layer": layer}
                yield from cell_rows(column, place, about, metrics=metrics, mean=mean)


def selectivity_rows(
    by_control: ByControl, shared: Sequence[Mapping[str, Any]], *, metric: str = "accuracy"
) -> Iterator[ResultRow]:
    """A score of the task less that of its control task, as rows of the task's own cells."""

    def less(one: Column, of_control: Column) -> Column:
        score = selectivity(one.scores[metric], of_control.scores[metric])
        return replace(one, scores={"selectivity": score}, by_group={})

    differences = [
        {seed: less(one, of_control[seed]) for seed, one in of_draw.items() if metric in one.scores}
        for of_draw, of_control in zip(by_control["none"], by_control["control_task"], strict=True)
    ]
    return run_rows(differences, shared, "none")


def cell_rows(
    column: Column, place: int, where: Mapping[str, Any], *, metrics: Sequence[Metric], mean: Mean | None = None
) -> list[ResultRow]:
    """One row a metric of one cell, with the mean over all runs of it."""
    record, n_runs = column.records[place], mean.n_runs if mean else 1
    groups = record.facts.get("groups", {})
    shared = {**where, **columns_of(record)}
    by_name = dict(zip(map(attrgetter("name"), metrics), metrics, strict=True))
    main = metrics[0].name if metrics else ""
    rows: dict[str, ResultRow] = {}
    for name, scores in column.scores.items():
        metric = by_name.get(name)
        row = ResultRow(
            **shared,
            # A difference of scores, such as selectivity, is no metric of its own; more of it is better.
            higher_is_better=metric is None or metric.higher_is_better,
            main_metric=where["control"] != "control_task" and name == main,
            **score_of(scores, place, mean=mean.scores[name] if mean else None, n_runs=n_runs),
        )
        if metric is not None and metric.which:  # it is about some of the groups, and has their counts
            chosen = [counts for group, counts in groups.items() if metric.which(group)]
            n_items, n_skipped = (sum(counts[kind] for counts in chosen) for kind in (0, 2))
            row = replace(row, **_counted(n_items, scores.n_clusters, n_skipped))
        if n_left := row.n_items - column.n_entering.get(name, row.n_items):  # some sentences do not enter it
            reasons = {**json.loads(row.skip_reasons), f"no part of {row.metric}": n_left}
            counts = _counted(row.n_items - n_left, row.n_items - n_left, row.n_skipped + n_left)
            row = replace(row, **{**counts, "skip_reasons": json.dumps(reasons, sort_keys=True)})
        rows[name] = row
    of_groups = []
    for (name, group), scores in column.by_group.items():
        score = score_of(scores, place, mean=mean.by_group[name, group] if mean else None, n_runs=n_runs)
        of_groups.append(replace(rows[name], group=group, **_counted(*groups[group]), **score))
    if main in rows and len(groups) > 1:
        # A row without a score for each group of which no item could be scored.
        nothing = {"value": None, **NO_INTERVALS}
        for group, counts in groups.items():
            if not counts[0]:
                of_groups.append(replace(rows[main], group=group, **_counted(*counts), **nothing))
    return [*rows.values(), *of_groups]


def _counted(n_items: int, n_clusters: int, n_skipped: int) -> dict[str, Any]:
    return {"n_items": n_items, "n_clusters": n_clusters, "n_skipped": n_skipped, "skip_reasons": "{}"}
