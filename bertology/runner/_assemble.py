"""From finished cells to tidy tables: scores with intervals, selectivity, and which layers differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import METRICS, Bootstrap, bootstrap, compare, count_labels, mean_over_seeds, selectivity
from bertology.results import (
    ComparisonRow,
    PredictionFolder,
    ResultRow,
    Results,
    comparison_rows,
    read_labels,
    score_of,
)
from bertology.runner._cells import Cell, CellRecord, read_cell
from bertology.runner._plan import BaselineCells, Group, Plan

# Bytes of the counts of several seeds that are scored together.
_TOGETHER = 1 << 26


@dataclass(frozen=True)
class _Column:
    """Finished cells that share their items, scored together: the layers of one control and seed."""

    cells: tuple[Cell, ...]
    layers: tuple[int | None, ...]
    records: tuple[CellRecord, ...]
    scores: Mapping[str, Bootstrap]


@dataclass(frozen=True)
class Tables:
    """Rows of one part of a run."""

    rows: tuple[ResultRow, ...]
    comparisons: tuple[ComparisonRow, ...] = ()


@dataclass(frozen=True)
class Assembler:
    """From the finished cells of folder ``run`` to rows."""

    run: Path
    experiment: str
    """What the rows are filed under."""
    n_resamples: int = 2000
    """Of the bootstrap over sentences."""
    seed: int = 0
    """Of the resampling."""
    compare_layers: bool = True

    def of_plan(self, plan: Plan) -> Results:
        """The results of a plan whose cells are all finished."""
        parts = [self.of_group(plan, group) for group in plan.groups]
        parts += [self.of_baselines(plan, found) for found in plan.baselines]
        rows = tuple(row for part in parts for row in part.rows)
        return Results(rows, tuple(row for part in parts for row in part.comparisons), PredictionFolder(self.run))

    def of_group(self, plan: Plan, group: Group) -> Tables:
        """Scores of a group, and the comparisons of its layers."""
        rows: list[ResultRow] = []
        columns = self._columns(group)
        shared = _shared(plan, group, self.experiment)
        for (control, seed), column in columns.items():
            for place, layer in enumerate(column.layers):
                where = {**shared, "control": control, "seed": seed, "layer": layer}
                rows += _rows(column, place, where, metrics=group.probe.metrics)
            if control == "control_task" and "accuracy" in columns["none", seed].scores:
                rows += _selectivity_rows(columns["none", seed], column, {**shared, "seed": seed})
        compared = self.compare_layers and group.init == plan.request.init
        return Tables(tuple(rows), tuple(_compare_layers(plan, group, columns)) if compared else ())

    def of_baselines(self, plan: Plan, found: BaselineCells) -> Tables:
        """Scores of the baselines of a task."""
        rows: list[ResultRow] = []
        for control, cell in found.cells.items():
            (column,) = self._scored([(cell,)], (None,), found.probe.metrics)
            where = {**_shared_task(plan, found.probe.task, found.probe.version, self.experiment), "control": control}
            rows += _rows(column, 0, where, metrics=found.probe.metrics)
        return Tables(tuple(rows))

    def of_failed(self, plan: Plan, group: Group) -> Tables:
        """One row without a score for each cell of a group that could not be computed."""
        shared = _shared(plan, group, self.experiment)
        nothing: dict[str, Any] = dict.fromkeys(("n_train", "n_items", "n_clusters", "n_classes"), 0)
        return Tables(
            tuple(
                ResultRow(
                    **shared,
                    **nothing,
                    cell_id=cell.id,
                    status="failed",
                    control=control,
                    seed=seed,
                    layer=layer,
                    metric=group.probe.metrics[0] if control == "none" else "accuracy",
                    main_metric=control == "none",
                )
                for (control, seed, layer), cell in group.cells.items()
            )
        )

    def _columns(self, group: Group) -> dict[tuple[str, int], _Column]:
        layers = tuple(dict.fromkeys(layer for _, _, layer in group.cells))
        columns: dict[tuple[str, int], _Column] = {}
        for control in dict.fromkeys(control for control, _, _ in group.cells):
            seeds = tuple(dict.fromkeys(seed for found, seed, _ in group.cells if found == control))
            cells = [tuple(group.cells[control, seed, layer] for layer in layers) for seed in seeds]
            # A control task has labels of its own, of which only the share of right ones means anything.
            metrics = group.probe.metrics if control == "none" else ("accuracy",)
            if control == "none" and "accuracy" not in metrics:
                metrics = (*metrics, "accuracy")
            for seed, column in zip(seeds, self._scored(cells, layers, metrics), strict=True):
                columns[control, seed] = column
        return columns

    def _scored(
        self, cells: Sequence[tuple[Cell, ...]], layers: tuple[int | None, ...], metrics: Sequence[str]
    ) -> Iterator[_Column]:
        """A column for each of several problems; those that are counted alike are resampled together."""
        waiting: list[_Counted] = []
        for found in cells:
            counted = self._count(found, metrics)
            if waiting and not waiting[0].goes_with(counted, len(waiting) + 1):
                yield from self._resampled(waiting, layers, metrics)
                waiting = []
            waiting.append(counted)
        yield from self._resampled(waiting, layers, metrics)

    def _resampled(
        self, counted: Sequence[_Counted], layers: tuple[int | None, ...], metrics: Sequence[str]
    ) -> Iterator[_Column]:
        counts = np.concatenate([found.counts for found in counted])
        labels = counted[0].labels
        scores = bootstrap(counts, metrics, labels=labels, n_resamples=self.n_resamples, seed=self.seed)
        for number, found in enumerate(counted):
            places = slice(number * len(layers), (number + 1) * len(layers))
            own = {name: _columns_of(whole, places) for name, whole in scores.items()}
            yield _Column(found.cells, layers, found.records, own)

    def _count(self, cells: tuple[Cell, ...], metrics: Sequence[str]) -> _Counted:
        records = []
        for cell in cells:
            record = read_cell(self.run, cell)
            if record is None:
                raise RuntimeError(f"cell {cell.id} is not finished")
            records.append(record)
        found = read_labels(self.run, [cell.id for cell in cells])
        counts = count_labels(
            found.gold, found.pred, found.cluster, n_labels=len(found.labels), n_clusters=found.n_clusters
        )
        if tuple(metrics) == ("accuracy",):
            # It asks how many were right, and not of which label.
            return _Counted(cells, tuple(records), counts.sum(axis=2, keepdims=True), ())
        return _Counted(cells, tuple(records), counts, found.labels)


@dataclass(frozen=True, eq=False)
class _Counted:
    """Finished cells that share their items, and what was found, claimed and missed in each."""

    cells: tuple[Cell, ...]
    records: tuple[CellRecord, ...]
    counts: NDArray[np.integer]
    """``[layer, cluster, label, 3]``"""
    labels: tuple[str, ...]

    def goes_with(self, other: _Counted, n: int) -> bool:
        """Whether both are resampled in one go, ``n`` of their size."""
        alike = self.labels == other.labels and self.counts.shape == other.counts.shape
        return alike and n * self.counts.nbytes <= _TOGETHER


def _columns_of(scores: Bootstrap, places: slice) -> Bootstrap:
    """Some of the columns of a bootstrap."""
    return replace(
        scores,
        values=scores.values[places],
        stderr=scores.stderr[places],
        ci_low=scores.ci_low[places],
        ci_high=scores.ci_high[places],
        ci_methods=scores.ci_methods[places],
        replicates=scores.replicates[:, places],
        jackknife=scores.jackknife[:, places],
    )


def _shared_task(plan: Plan, task: str, version: int, experiment: str) -> dict[str, Any]:
    return {
        "experiment": experiment,
        "task": task,
        "task_version": f"v{version}",
        "corpus": plan.corpus.name,
        "corpus_fingerprint": plan.corpus.fingerprint,
        "split": plan.request.test_split,
        "language": plan.corpus.language,
        "annotation": "silver" if plan.corpus.is_silver else "gold",
    }


def _shared(plan: Plan, group: Group, experiment: str) -> dict[str, Any]:
    name, _, version = group.readout.rpartition(".")
    return {
        **_shared_task(plan, group.probe.task, group.probe.version, experiment),
        "model": plan.source.name,
        "model_fingerprint": plan.fingerprints[group.init],
        "init": group.init,
        "n_layers": plan.shape.n_layers,
        "pooling": plan.request.pooling,
        "readout": name,
        "readout_version": version,
        "dtype": plan.request.dtype,
    }


def _rows(column: _Column, place: int, where: Mapping[str, Any], *, metrics: Sequence[str]) -> list[ResultRow]:
    """One row a metric of one cell."""
    record = column.records[place]
    facts, provenance = dict(record.facts), record.provenance
    shared = {
        **where,
        "cell_id": record.cell_id,
        "skip_reasons": json.dumps(facts.pop("skip_reasons"), sort_keys=True),
        "params_json": json.dumps(facts.pop("params", {}), sort_keys=True),
        **facts,
        "versions": json.dumps(provenance["versions"], sort_keys=True),
        "device": provenance.get("device"),
        "wall_s": provenance["wall_s"],
        "started_utc": provenance.get("fit_started_utc"),
        "predictions_sha256": record.predictions_sha256,
    }
    return [
        ResultRow(
            **shared,
            # A difference of scores, such as selectivity, is no metric of its own; more of it is better.
            higher_is_better=METRICS[name].higher_is_better if name in METRICS else True,
            main_metric=where["control"] != "control_task" and name == metrics[0],
            **score_of(scores, place),
        )
        for name, scores in column.scores.items()
    ]


def _selectivity_rows(task: _Column, control: _Column, where: Mapping[str, Any]) -> list[ResultRow]:
    """Accuracy on the task less accuracy on its control task, as rows of the task's own cells."""
    difference = selectivity(task.scores["accuracy"], control.scores["accuracy"])
    made = _Column(task.cells, task.layers, task.records, {"selectivity": difference})
    rows = []
    for place, layer in enumerate(task.layers):
        rows += _rows(made, place, {**where, "control": "none", "layer": layer}, metrics=("",))
    return rows


def _compare_layers(plan: Plan, group: Group, columns: Mapping[tuple[str, int], _Column]) -> list[ComparisonRow]:
    """All pairs of layers on the task's main metric, means over seeds, as one family."""
    metric = group.probe.metrics[0]
    of_task = [column for (control, _), column in columns.items() if control == "none"]
    scores = mean_over_seeds([column.scores[metric] for column in of_task])
    found = compare(scores.values, scores.replicates, n_clusters=scores.n_clusters)
    family = f"{group.probe.task} on {plan.corpus.name}: layers of {plan.source.name} by {metric}"
    cells, layers = [cell.id for cell in of_task[0].cells], [layer for layer in of_task[0].layers if layer is not None]
    return list(comparison_rows(found, family=family, metric=metric, cells=cells, layers=layers))
