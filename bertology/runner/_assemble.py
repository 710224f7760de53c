"""From finished cells to tidy tables: scores with intervals, selectivity, and which layers differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertology.measures import (
    N_RESAMPLES,
    Bootstrap,
    Metric,
    compare,
    expected_layer,
    over_layers,
    over_runs,
    selectivity,
)
from bertology.probing import ClozeProbe, HeadProbe, Probe, RepresentationProbe
from bertology.results import ComparisonRow, PredictionFolder, ResultRow, Results, comparison_rows, mean_of, score_of
from bertology.runner._baselines import baselines_of
from bertology.runner._cells import columns_of
from bertology.runner._head_rows import HeadRows
from bertology.runner._plan import BaselineCells, Group, Plan, RowControl
from bertology.runner._scored import Column, Mean, Scored, Scorer, metrics_of


@dataclass(frozen=True)
class Tables:
    """Rows of one part of a run."""

    rows: tuple[ResultRow, ...]
    comparisons: tuple[ComparisonRow, ...] = ()

    @classmethod
    def of(cls, rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow] = ()) -> Tables:
        """All rows of some cells, of which each takes its part of its cell's time."""
        times = Counter(row.cell_id for row in rows)
        shared = (replace(row, wall_s=None if row.wall_s is None else row.wall_s / times[row.cell_id]) for row in rows)
        return cls(tuple(shared), tuple(comparisons))


@dataclass(frozen=True)
class Assembler:
    """From the finished cells of folder ``run`` to rows."""

    run: Path
    experiment: str
    """What the rows are filed under."""
    n_resamples: int = N_RESAMPLES
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
        parts = [self.of_group(plan, draws) for draws in plan.by_draw]
        parts += [self.of_baselines(plan, found) for found in plan.baselines]
        rows = tuple(row for part in parts for row in part.rows)
        return Results(rows, tuple(row for part in parts for row in part.comparisons), PredictionFolder(self.run))

    def of_group(self, plan: Plan, draws: Sequence[Group]) -> Tables:
        """Scores of a group on each draw of its weights, their means, and the comparisons of its layers."""
        group = draws[0]
        if isinstance(group.probe, HeadProbe):
            cells = [(layer, cell) for (_, _, layer), cell in group.cells.items()]
            found = self._heads.of(cells, group.probe, _shared(plan, group, self.experiment))
            return Tables.of(tuple(found))
        rows: list[ResultRow] = []
        by_draw = [self._scorer.group(one, one_of_several=len(draws) > 1) for one in draws]
        shared, metrics = [_shared(plan, one, self.experiment) for one in draws], metrics_of(group)
        by_control = {
            control: [_of_control(columns, control) for columns in by_draw]
            for control in dict.fromkeys(control for control, _ in by_draw[0])
        }
        for control, columns in by_control.items():
            rows += _run_rows(columns, shared, {"control": control}, metrics)
            if control == "none":
                rows += _depth_rows(group, columns, shared, metrics[0])
            if control == "control_task":
                rows += _selectivity_rows(by_control["none"], columns, shared)
        # What a change of the text moves is neither good nor bad: no layer is the best at it.
        ranked = not (isinstance(group.probe, ClozeProbe) and group.probe.asks == "changes")
        rows += self._majority_of_asked(plan, group)
        compared = self.compare_layers and ranked and group.init == plan.request.init and len(group.layers) > 1
        return Tables.of(rows, _compare_layers(plan, group, by_control, metrics[0].name) if compared else ())

    def _majority_of_asked(self, plan: Plan, group: Group) -> list[ResultRow]:
        """The model's own majority baseline of a cloze task, where some items could not be asked of it."""
        probe, wanted = group.probe, baselines_of(group.probe, plan.request.controls)
        if not isinstance(probe, ClozeProbe) or "majority" not in wanted or group.init != plan.request.init:
            return []
        column = self._scorer.majority_of_asked(group, plan.splits.prompts[probe.task])
        if column is None:
            return []
        about = {**_shared_task(plan, probe, self.experiment), "model": plan.source.name, "control": "majority"}
        return _rows(column, 0, about, metrics=probe.scores)

    def of_baselines(self, plan: Plan, found: BaselineCells) -> Tables:
        """Scores of the baselines of a task."""
        rows: list[ResultRow] = []
        shared = _shared_task(plan, found.probe, self.experiment)
        # What is left out because a model cannot read it makes a baseline that model's own.
        shared["model"] = plan.source.name if found.unreadable else None
        if isinstance(found.probe, HeadProbe):
            for name, cell in found.cells.items():
                rows += self._heads.of([(None, cell)], found.probe, {**shared, "control": name})
            return Tables.of(rows)
        for control, column in self._scorer.baselines(found).items():
            rows += _rows(column, 0, {**shared, "control": control}, metrics=found.probe.scores)
        return Tables.of(rows)

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
        "model_fingerprint": plan.fingerprints[group.weights],
        "init": group.init,
        "init_seed": None if group.init == "pretrained" else group.weights.seed,
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


_BySeed = Mapping[int, Column]
"""The columns of one control on one draw of weights."""


def _of_control(columns: Mapping[tuple[str, int], Column], control: str) -> _BySeed:
    return {seed: column for (found, seed), column in columns.items() if found == control}


def _run_rows(
    columns: Sequence[_BySeed],
    shared: Sequence[Mapping[str, Any]],
    where: Mapping[str, Any],
    metrics: Sequence[Scored],
) -> Iterator[ResultRow]:
    """The rows of the same cells in several runs: by draw of weights and seed.

    Args:
        columns: by draw and seed.
        shared: what the rows of each draw have in common.
        where: what all have in common.
        metrics: that they are scored by.
    """
    mean = Mean.of([list(by_seed.values()) for by_seed in columns])
    for by_seed, of_draw in zip(columns, shared, strict=True):
        for seed, column in by_seed.items():
            for place, layer in enumerate(column.layers):
                about = {**of_draw, **where, "seed": seed, "layer": layer}
                yield from _rows(column, place, about, metrics=metrics, mean=mean)


def _rows(
    column: Column, place: int, where: Mapping[str, Any], *, metrics: Sequence[Scored], mean: Mean | None = None
) -> list[ResultRow]:
    """One row a metric of one cell, with what is known of the mean over all runs of it."""
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
            **(mean_of(mean.scores[name], place, n_runs=mean.n_runs) if mean else {}),
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
        of_mean = mean_of(mean.by_group[name, group], place, n_runs=mean.n_runs) if mean else {}
        rows.append(replace(of_whole[name], group=group, **counted, **score_of(scores, place), **of_mean))
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
                **_NO_INTERVALS,
            )


_NO_INTERVALS: Mapping[str, Any] = {
    **dict.fromkeys(("stderr", "ci_low", "ci_high", "ci_method"), None),
    **dict.fromkeys(("mean", "mean_stderr", "mean_ci_low", "mean_ci_high", "mean_ci_method"), None),
    "n_runs": 1,
}


def _selectivity_rows(
    task: Sequence[_BySeed], control: Sequence[_BySeed], shared: Sequence[Mapping[str, Any]]
) -> Iterator[ResultRow]:
    """Accuracy on the task less accuracy on its control task, as rows of the task's own cells."""
    made = [
        {
            seed: replace(
                one,
                scores={"selectivity": selectivity(one.scores["accuracy"], beside[seed].scores["accuracy"])},
                by_group={},
            )
            for seed, one in of_draw.items()
            if "accuracy" in one.scores
        }
        for of_draw, beside in zip(task, control, strict=True)
    ]
    return _run_rows(made, shared, {"control": "none"}, ())


def _depth_rows(
    group: Group, columns: Sequence[_BySeed], shared: Sequence[Mapping[str, Any]], main: Scored
) -> Iterator[ResultRow]:
    """Where in the model a task is solved, of mixtures of layers: no layer's score, kept with the deepest cell."""
    if group.readout.columns == "layer":
        return
    where = {"control": "none"}
    if group.readout.columns == "below":
        deepest = [
            {seed: _expected_layer(column, group.reads, main.name) for seed, column in of_draw.items()}
            for of_draw in columns
        ]
        yield from _run_rows(deepest, shared, where, ())
        return
    for of_draw, about in zip(columns, shared, strict=True):
        for seed, column in of_draw.items():
            details = column.records[0].facts["params"].get("details", {})
            first = _rows(column, 0, {**about, **where, "seed": seed, "layer": None}, metrics=(main,))[0]
            for name in ("center_of_gravity", "kl_from_uniform_bits"):
                if name in details:
                    yield replace(first, metric=name, value=details[name], main_metric=False, **_NO_INTERVALS)


def _expected_layer(column: Column, layers: Sequence[int], metric: str) -> Column:
    """The layer at which mixtures of layers gain, from their scores."""
    depth = over_layers(
        column.scores[metric],
        lambda scores: expected_layer(scores, layers=np.array(layers)).value,
        metric="expected_layer",
    )
    return Column(column.cells[-1:], (None,), column.records[-1:], {"expected_layer": depth})


def _compare_layers(
    plan: Plan, group: Group, by_control: Mapping[str, Sequence[_BySeed]], metric: str
) -> list[ComparisonRow]:
    """All pairs of layers on the task's main metric, as one family; of several seeds means over them.

    Layers are drawn together: the same sentences and the same seeds for both of a pair.
    """
    of_task = list(by_control["none"][0].values())
    scores = over_runs([column.scores[metric] for column in of_task])
    found = compare(scores.values, scores.replicates, n_clusters=scores.n_clusters, by_run=scores.by_run)
    family = f"{group.probe.task} on {plan.corpus.name}: layers of {plan.source.name} by {metric}"
    if len(plan.readings_of(group.probe)) > 1:
        family += f", {group.readout.name}" + "".join(f" {k}={v}" for k, v in group.reading.changes.items())
    cells, layers = [cell.id for cell in of_task[0].cells], [layer for layer in of_task[0].layers if layer is not None]
    return list(comparison_rows(found, family=family, metric=metric, cells=cells, layers=layers))
