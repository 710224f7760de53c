"""From finished cells to tidy tables: scores with intervals, selectivity, and which layers differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertology.measures import Bootstrap, Metric, compare, expected_layer, mean_over_seeds, over_layers, selectivity
from bertology.probing import ClozeProbe, HeadProbe, Probe, RepresentationProbe
from bertology.results import ComparisonRow, PredictionFolder, ResultRow, Results, comparison_rows, score_of
from bertology.runner._cells import columns_of
from bertology.runner._head_rows import HeadRows
from bertology.runner._plan import BaselineCells, Group, Plan, RowControl
from bertology.runner._scored import Column, Scored, Scorer, metrics_of


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

    @property
    def _scorer(self) -> Scorer:
        return Scorer(self.run, self.n_resamples, self.seed)

    @property
    def _heads(self) -> HeadRows:
        return HeadRows(self.run, self.n_resamples, self.seed)

    def of_plan(self, plan: Plan) -> Results:
        """The results of a plan whose cells are all finished."""
        parts = [self.of_group(plan, group) for group in plan.groups]
        parts += [self.of_baselines(plan, found) for found in plan.baselines]
        rows = tuple(row for part in parts for row in part.rows)
        return Results(rows, tuple(row for part in parts for row in part.comparisons), PredictionFolder(self.run))

    def of_group(self, plan: Plan, group: Group) -> Tables:
        """Scores of a group, and the comparisons of its layers."""
        if isinstance(group.probe, HeadProbe):
            cells = [(layer, cell) for (_, _, layer), cell in group.cells.items()]
            found = self._heads.of(cells, group.probe, _shared(plan, group, self.experiment))
            return Tables(tuple(found))
        rows: list[ResultRow] = []
        columns = self._scorer.group(group)
        shared, metrics = _shared(plan, group, self.experiment), metrics_of(group)
        for (control, seed), column in columns.items():
            where = {**shared, "control": control, "seed": seed}
            for place, layer in enumerate(column.layers):
                rows += _rows(column, place, {**where, "layer": layer}, metrics=metrics)
            rows += _depth_rows(group, column, where, metrics[0])
            if control == "control_task" and "accuracy" in columns["none", seed].scores:
                rows += _selectivity_rows(columns["none", seed], column, {**shared, "seed": seed})
        # What a change of the text moves is neither good nor bad: no layer is the best at it.
        ranked = not (isinstance(group.probe, ClozeProbe) and group.probe.asks == "changes")
        compared = self.compare_layers and ranked and group.init == plan.request.init and len(group.layers) > 1
        return Tables(tuple(rows), tuple(_compare_layers(plan, group, columns, metrics[0].name)) if compared else ())

    def of_baselines(self, plan: Plan, found: BaselineCells) -> Tables:
        """Scores of the baselines of a task."""
        rows: list[ResultRow] = []
        shared = _shared_task(plan, found.probe, self.experiment)
        if isinstance(found.probe, HeadProbe):
            for name, cell in found.cells.items():
                rows += self._heads.of([(None, cell)], found.probe, {**shared, "control": name})
            return Tables(tuple(rows))
        for control, column in self._scorer.baselines(found).items():
            # What is left out because a model cannot read it makes a baseline that model's own.
            where = {**shared, "control": control, "model": plan.source.name if found.unreadable else None}
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


def _shared_task(plan: Plan, probe: Probe, experiment: str) -> dict[str, Any]:
    shared = {
        "experiment": experiment,
        "task": probe.task,
        "task_version": f"v{probe.version}",
        "corpus": plan.corpus.name,
    }
    if isinstance(probe, ClozeProbe):
        items = plan.splits.prompts[probe.task]
        return {**shared, "corpus_fingerprint": items.fingerprint, "split": "all", "language": items.language}
    return {
        **shared,
        "corpus_fingerprint": plan.corpus.fingerprint,
        "split": plan.request.test_split,
        "language": plan.corpus.language,
        "annotation": "silver" if plan.corpus.is_silver else "gold",
    }


def _shared(plan: Plan, group: Group, experiment: str) -> dict[str, Any]:
    name, _, version = group.readout.name.rpartition(".")
    of_train = {"split": plan.request.train_split} if group.reading.codelength else {}
    return {
        **_shared_task(plan, group.probe, experiment),
        **of_train,
        "model": plan.source.name,
        "model_fingerprint": plan.fingerprints[group.init],
        "init": group.init,
        "n_layers": plan.shape.n_layers,
        "pooling": plan.request.pooling if isinstance(group.probe, RepresentationProbe) else None,
        "readout": name,
        "readout_version": version,
        "dtype": plan.request.dtype,
    }


def _main_metric(group: Group, control: RowControl) -> str:
    """What is said first of a cell: of control tasks accuracy, or how short their code is."""
    own = control != "control_task" or group.reading.codelength
    return metrics_of(group)[0].name if own else "accuracy"


def _rows(column: Column, place: int, where: Mapping[str, Any], *, metrics: Sequence[Scored]) -> list[ResultRow]:
    """One row a metric of one cell."""
    record = column.records[place]
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
            **score_of(scores, place),
        )
        for name, scores in column.scores.items()
    ]
    which = {metric.name: metric.which for metric in metrics if isinstance(metric, Metric) and metric.which}
    rows = [
        _of_some(row, [groups[group] for group in groups if which[row.metric](group)], column.scores[row.metric])
        if row.metric in which
        else row
        for row in rows
    ]
    rows = [_of_entering(row, column.n_entering.get(row.metric, row.n_items)) for row in rows]
    of_whole = {row.metric: row for row in rows}
    for (name, group), scores in column.by_group.items():
        n_items, n_clusters, n_skipped = groups[group]
        counted = {"n_items": n_items, "n_clusters": n_clusters, "n_skipped": n_skipped, "skip_reasons": "{}"}
        rows.append(replace(of_whole[name], group=group, **counted, **score_of(scores, place)))
    return [*rows, *_empty_groups(groups, of_whole.get(main))]


def _of_entering(row: ResultRow, n_entering: int) -> ResultRow:
    """A row of a metric of whole sentences that some of them have nothing to say to."""
    n_left = row.n_items - n_entering
    if not n_left:
        return row
    reasons = {**json.loads(row.skip_reasons), f"no part of {row.metric}": n_left}
    return replace(
        row,
        n_items=n_entering,
        n_clusters=n_entering,
        n_skipped=row.n_skipped + n_left,
        skip_reasons=json.dumps(reasons, sort_keys=True),
    )


def _of_some(row: ResultRow, groups: Sequence[Sequence[int]], scores: Bootstrap) -> ResultRow:
    """A row about some of the groups, with their own counts."""
    n_items, n_skipped = (sum(group[place] for group in groups) for place in (0, 2))
    return replace(row, n_items=n_items, n_clusters=scores.n_clusters, n_skipped=n_skipped, skip_reasons="{}")


def _empty_groups(groups: Mapping[str, Sequence[int]], row: ResultRow | None) -> Iterator[ResultRow]:
    """A row without a score for each group of which no item could be scored."""
    if row is None or len(groups) < 2:
        return
    for group, (n_items, n_clusters, n_skipped) in groups.items():
        if not n_items:
            yield replace(
                row,
                group=group,
                n_items=n_items,
                n_clusters=n_clusters,
                n_skipped=n_skipped,
                skip_reasons="{}",
                value=None,
                stderr=None,
                ci_low=None,
                ci_high=None,
                ci_method=None,
            )


def _selectivity_rows(task: Column, control: Column, where: Mapping[str, Any]) -> list[ResultRow]:
    """Accuracy on the task less accuracy on its control task, as rows of the task's own cells."""
    difference = selectivity(task.scores["accuracy"], control.scores["accuracy"])
    made = Column(task.cells, task.layers, task.records, {"selectivity": difference})
    rows = []
    for place, layer in enumerate(task.layers):
        rows += _rows(made, place, {**where, "control": "none", "layer": layer}, metrics=())
    return rows


def _depth_rows(group: Group, column: Column, where: Mapping[str, Any], main: Scored) -> list[ResultRow]:
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
        last = Column(column.cells[-1:], (None,), column.records[-1:], {"expected_layer": depth})
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
    plan: Plan, group: Group, columns: Mapping[tuple[str, int], Column], metric: str
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
