"""From finished cells to tidy tables: scores with intervals, selectivity, and which layers differ."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertology.measures import (
    Bootstrap,
    Metric,
    bootstrap,
    bootstrap_ratio,
    compare,
    count_label_sets,
    count_labels,
    expected_layer,
    find_metric,
    mean_over_seeds,
    over_layers,
    selectivity,
)
from bertology.results import (
    ComparisonRow,
    PredictionFolder,
    ResultRow,
    Results,
    comparison_rows,
    read_labels,
    read_scores,
    score_of,
    split_sets,
)
from bertology.runner._cells import Cell, CellRecord, read_cell
from bertology.runner._plan import BaselineCells, Group, Plan, RowControl

_ACCURACY = find_metric("accuracy")
# Bytes of the counts of several seeds that are scored together.
_TOGETHER = 1 << 26


class Scored(Protocol):
    """What scores are called, and which way is up."""

    @property
    def name(self) -> str:
        """As in the column ``metric``."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better."""
        ...


@dataclass(frozen=True)
class _Code:
    """A measure of codelength, which is not made of counts of labels."""

    name: str
    higher_is_better: bool


COMPRESSION, BITS = _Code("compression", True), _Code("codelength_bits", False)


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
        columns = self._codes(group) if group.reading.codelength else self._columns(group)
        shared, metrics = _shared(plan, group, self.experiment), metrics_of(group)
        for (control, seed), column in columns.items():
            where = {**shared, "control": control, "seed": seed}
            for place, layer in enumerate(column.layers):
                rows += _rows(column, place, {**where, "layer": layer}, metrics=metrics)
            rows += _depth_rows(group, column, where, metrics[0])
            if control == "control_task" and "accuracy" in columns["none", seed].scores:
                rows += _selectivity_rows(columns["none", seed], column, {**shared, "seed": seed})
        compared = self.compare_layers and group.init == plan.request.init and len(group.layers) > 1
        return Tables(tuple(rows), tuple(_compare_layers(plan, group, columns, metrics[0].name)) if compared else ())

    def of_baselines(self, plan: Plan, found: BaselineCells) -> Tables:
        """Scores of the baselines of a task."""
        rows: list[ResultRow] = []
        for control, cell in found.cells.items():
            (column,) = self._scored([(cell,)], (None,), _with_accuracy(found.probe.scores))
            where = {**_shared_task(plan, found.probe.task, found.probe.version, self.experiment), "control": control}
            rows += _rows(column, 0, where, metrics=found.probe.scores)
        return Tables(tuple(rows))

    def of_failed(self, plan: Plan, group: Group) -> Tables:
        """One row without a score for each cell of a group that could not be computed."""
        shared = _shared(plan, group, self.experiment)
        nothing: dict[str, Any] = dict.fromkeys(("n_train", "n_items", "n_clusters", "n_classes"), 0)
        if group.reading.changes:
            # By this the rows are told from those of other readings of the task.
            nothing["params_json"] = json.dumps({"settings": group.reading.changes}, sort_keys=True)
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
                    metric=_main_metric(group, control),
                    main_metric=control == "none",
                )
                for (control, seed, layer), cell in group.cells.items()
            )
        )

    def _columns(self, group: Group) -> dict[tuple[str, int], _Column]:
        layers, scores = group.layers, group.probe.scores
        columns: dict[tuple[str, int], _Column] = {}
        for control in dict.fromkeys(control for control, _, _ in group.cells):
            seeds = tuple(dict.fromkeys(seed for found, seed, _ in group.cells if found == control))
            cells = [tuple(group.cells[control, seed, layer] for layer in layers) for seed in seeds]
            # A control task has labels of its own, of which only the share of right ones means anything.
            metrics = _with_accuracy(scores) if control == "none" else (_ACCURACY,)
            for seed, column in zip(seeds, self._scored(cells, layers, metrics), strict=True):
                columns[control, seed] = column
        return columns

    def _codes(self, group: Group) -> dict[tuple[str, int], _Column]:
        """Columns of codelengths: what is kept by item is kept by training sentence."""
        columns: dict[tuple[str, int], _Column] = {}
        for control, seed in dict.fromkeys((control, seed) for control, seed, _ in group.cells):
            cells = tuple(group.cells[control, seed, layer] for layer in group.layers)
            log_probs, n_items = read_scores(self.run, [cell.id for cell in cells])
            records = self._records(cells)
            bits = -log_probs / math.log(2)
            facts = records[0].facts
            # Where a cell does not say what an item takes, each has one label.
            item_bits = facts["params"]["details"].get("item_bits", math.log2(facts["n_classes"]))
            uniform = np.array(n_items, dtype=np.float64) * item_bits
            chosen = {"n_resamples": self.n_resamples, "seed": self.seed}
            columns[control, seed] = _Column(
                cells,
                group.layers,
                records,
                {
                    COMPRESSION.name: bootstrap_ratio(uniform, bits, metric=COMPRESSION.name, **chosen),
                    BITS.name: bootstrap_ratio(
                        bits, np.full(bits.shape[1], 1 / bits.shape[1]), metric=BITS.name, **chosen
                    ),
                },
            )
        return columns

    def _records(self, cells: Sequence[Cell]) -> tuple[CellRecord, ...]:
        found = [(cell, read_cell(self.run, cell)) for cell in cells]
        for cell, record in found:
            if record is None:
                raise RuntimeError(f"cell {cell.id} is not finished")
        return tuple(record for _, record in found if record is not None)

    def _scored(
        self, cells: Sequence[tuple[Cell, ...]], layers: tuple[int | None, ...], metrics: Sequence[Metric]
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
        self, counted: Sequence[_Counted], layers: tuple[int | None, ...], metrics: Sequence[Metric]
    ) -> Iterator[_Column]:
        counts = np.concatenate([found.counts for found in counted])
        labels = counted[0].labels
        scores = bootstrap(counts, metrics, labels=labels, n_resamples=self.n_resamples, seed=self.seed)
        for number, found in enumerate(counted):
            places = slice(number * len(layers), (number + 1) * len(layers))
            own = {name: _columns_of(whole, places) for name, whole in scores.items()}
            yield _Column(found.cells, layers, found.records, own)

    def _count(self, cells: tuple[Cell, ...], metrics: Sequence[Metric]) -> _Counted:
        records = self._records(cells)
        found = read_labels(self.run, [cell.id for cell in cells])
        labels = found.labels
        if found.label_sets:
            labels, members = split_sets(found.labels)
            counts = count_label_sets(
                found.gold, found.pred, found.cluster, members=members, n_clusters=found.n_clusters
            )
        else:
            counts = count_labels(
                found.gold, found.pred, found.cluster, n_labels=len(labels), n_clusters=found.n_clusters
            )
        if tuple(metrics) == (_ACCURACY,):
            # It asks how many were right, and not of which label.
            return _Counted(cells, records, counts.sum(axis=2, keepdims=True), ())
        return _Counted(cells, records, counts, labels)


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
    name, _, version = group.readout.name.rpartition(".")
    of_train = {"split": plan.request.train_split} if group.reading.codelength else {}
    return {
        **_shared_task(plan, group.probe.task, group.probe.version, experiment),
        **of_train,
        "model": plan.source.name,
        "model_fingerprint": plan.fingerprints[group.init],
        "init": group.init,
        "n_layers": plan.shape.n_layers,
        "pooling": plan.request.pooling,
        "readout": name,
        "readout_version": version,
        "dtype": plan.request.dtype,
    }


def _with_accuracy(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """Metrics, and accuracy among them: control tasks know no other."""
    return metrics if any(metric.name == _ACCURACY.name for metric in metrics) else (*metrics, _ACCURACY)


def metrics_of(group: Group) -> tuple[Scored, ...]:
    """What the cells of a group are scored by, the main metric first."""
    return (COMPRESSION, BITS) if group.reading.codelength else group.probe.scores


def _main_metric(group: Group, control: RowControl) -> str:
    """What is said first of a cell: of control tasks accuracy, or how short their code is."""
    return metrics_of(group)[0].name if control == "none" or group.reading.codelength else _ACCURACY.name


def _rows(column: _Column, place: int, where: Mapping[str, Any], *, metrics: Sequence[Scored]) -> list[ResultRow]:
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
    # A difference of scores, such as selectivity, is no metric of its own; more of it is better.
    better = {metric.name: metric.higher_is_better for metric in metrics}
    main = metrics[0].name if metrics else ""
    return [
        ResultRow(
            **shared,
            higher_is_better=better.get(name, True),
            main_metric=where["control"] != "control_task" and name == main,
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
        rows += _rows(made, place, {**where, "control": "none", "layer": layer}, metrics=())
    return rows


def _depth_rows(group: Group, column: _Column, where: Mapping[str, Any], main: Scored) -> list[ResultRow]:
    """Where in the model a task is solved, of mixtures of layers: no layer's score, kept with the deepest cell."""
    if where["control"] != "none" or group.readout.columns == "layer":
        return []
    if group.readout.columns == "below":
        layers = np.array(group.reads)
        depth = over_layers(
            column.scores[main.name],
            lambda scores: expected_layer(scores, layers=layers).value,
            metric="expected_layer",
        )
        last = _Column(column.cells[-1:], (None,), column.records[-1:], {"expected_layer": depth})
        return _rows(last, 0, {**where, "layer": None}, metrics=())
    details = column.records[0].facts["params"].get("details", {})
    rows = _rows(column, 0, {**where, "layer": None}, metrics=(main,))[:1]
    unknown: dict[str, Any] = {"stderr": None, "ci_low": None, "ci_high": None, "ci_method": None, "main_metric": False}
    return [
        replace(row, metric=name, value=details[name], **unknown)
        for row in rows
        for name in ("center_of_gravity", "kl_from_uniform_bits")
        if name in details
    ]


def _compare_layers(
    plan: Plan, group: Group, columns: Mapping[tuple[str, int], _Column], metric: str
) -> list[ComparisonRow]:
    """All pairs of layers on the task's main metric, means over seeds, as one family."""
    of_task = [column for (control, _), column in columns.items() if control == "none"]
    scores = mean_over_seeds([column.scores[metric] for column in of_task])
    found = compare(scores.values, scores.replicates, n_clusters=scores.n_clusters)
    family = f"{group.probe.task} on {plan.corpus.name}: layers of {plan.source.name} by {metric}"
    if len(plan.readings_of(group.probe)) > 1:
        family += f", {group.readout.name}" + "".join(f" {k}={v}" for k, v in group.reading.changes.items())
    cells, layers = [cell.id for cell in of_task[0].cells], [layer for layer in of_task[0].layers if layer is not None]
    return list(comparison_rows(found, family=family, metric=metric, cells=cells, layers=layers))
