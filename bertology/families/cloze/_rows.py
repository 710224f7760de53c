"""Rows of cloze tasks: scores over all items, over groups of relations or constructions, and in each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.families.cells import Cell, CellRecord
from bertology.families.cloze._ask import by_frequency, coded, counts_of
from bertology.families.contract import Family
from bertology.families.rows import ByControl, baseline_columns, cell_rows, scored_tables, task_columns
from bertology.families.scoring import Column, records_of
from bertology.families.tasks import BaselineCells, FitCells, Scoring, Tables
from bertology.measures import METRICS, Bootstrap, CountKind, Metric, bootstrap
from bertology.probing import ClozeItems, ClozeProbe
from bertology.results import ResultRow
from bertology.results.predictions import ClozeOutcomes, read_outcomes, read_predictions


def tables(family: Family, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
    """The rows and comparisons of a readout configuration on each draw of its weights."""
    probe, first, request = draws[0].probe, draws[0], scoring.pair.request
    assert isinstance(probe, ClozeProbe)
    # The replicates of single groups are kept where a mean over draws is to be made.
    columns = [_columns(one, probe, scoring, keep=len(draws) > 1) for one in draws]
    asked = {note.name for note in family.baselines(probe)} & {*request.controls}
    has_majority = first.weights.init == request.init and "majority" in asked

    def more(control: str, by_control: ByControl, _: Sequence[Mapping[str, Any]]) -> Sequence[ResultRow]:
        is_last = control == list(by_control)[-1]
        return _majority_of_asked(family, first, probe, scoring) if is_last and has_majority else ()

    # What a change of the text moves is neither good nor bad: no layer is the best at it.
    is_ranked = probe.asks != "changes"
    return scored_tables(family, draws, columns, scoring, metrics=probe.scores, more=more, is_ranked=is_ranked)


def baseline_tables(family: Family, baselines: BaselineCells, scoring: Scoring) -> Tables:
    """The rows of the most frequent answers."""
    probe = baselines.probe
    assert isinstance(probe, ClozeProbe)
    shared, rows = baseline_columns(family, baselines, scoring), list[ResultRow]()
    for control, cell in baselines.cells.items():
        outcomes, records = read_outcomes(scoring.run, [cell.id]), records_of(scoring.run, (cell,))
        column = _scored(outcomes, records, (cell,), (None,), probe, scoring, only="answers")
        rows += cell_rows(column, 0, {**shared, "control": control}, metrics=probe.scores)
    return Tables.of(rows)


def _majority_of_asked(family: Family, cells: FitCells, probe: ClozeProbe, scoring: Scoring) -> Sequence[ResultRow]:
    """The baseline ``majority``, counted and scored on the items that the layers are scored on.

    They belong to the first cell. There are none where all items were scored: the baseline of all items is the same.
    """
    cell, run = cells.cells["none", 0, cells.layers[0]], scoring.run
    items: ClozeItems = scoring.pair.splits.items[probe.task]
    outcomes = read_outcomes(run, [cell.id])
    by_name = {item.id: item for item in items.items}
    if len(outcomes.item_ids) == len(by_name):
        return ()
    answers = by_frequency(replace(items, items=tuple(by_name[name] for name in outcomes.item_ids)))
    (record,) = records_of(run, (cell,))
    settings = {"settings": cells.config.changes} if cells.config.changes else {}
    record = replace(record, facts={**record.facts, "params": settings})
    outcomes = replace(outcomes, rank=answers.rank)
    column = _scored(outcomes, (record,), (cell,), (None,), probe, scoring, only="answers")
    shared = {**task_columns(family, probe, scoring), "model": scoring.pair.source.name, "control": "majority"}
    return cell_rows(column, 0, shared, metrics=probe.scores)


def _columns(cells: FitCells, probe: ClozeProbe, scoring: Scoring, *, keep: bool) -> dict[tuple[str, int], Column]:
    """Columns by control and seed: controls are scored on none but the items that the layers are scored on."""
    columns: dict[tuple[str, int], Column] = {}
    run, scored_items = scoring.run, None
    for control, seed in dict.fromkeys((control, seed) for control, seed, _ in cells.cells):
        of_problem = tuple(cells.cells[control, seed, layer] for layer in cells.layers)
        ids, records = [cell.id for cell in of_problem], records_of(run, of_problem)
        outcomes = read_outcomes(run, ids, among=scored_items)
        if scored_items is None:
            scored_items = outcomes.item_ids
        elif len(outcomes.item_ids) < records[0].facts["n_items"]:
            counts = _recounted(run, ids[0], among=cells.cells["none", seed, cells.layers[0]].id)
            records = tuple(replace(record, facts={**record.facts, **counts}) for record in records)
        columns[control, seed] = _scored(outcomes, records, of_problem, cells.layers, probe, scoring, keep=keep)
    return columns


def _recounted(run: Path, cell_id: str, *, among: str) -> dict[str, Any]:
    """How many items of a cell are scored, and why not the others, among the items scored in another cell."""
    kept, others = (read_predictions(run, name) for name in (cell_id, among))
    left_out = dict(zip(others.item_ids, others.extra["reason"], strict=True))
    reasons = [reason or left_out[item] for item, reason in zip(kept.item_ids, kept.extra["reason"], strict=True)]
    return counts_of(reasons, np.asarray(kept.cluster, dtype=np.int64), *coded(kept.extra["group"]))


def _scored(
    outcomes: ClozeOutcomes,
    records: tuple[CellRecord, ...],
    cells: tuple[Cell, ...],
    layers: tuple[int | None, ...],
    probe: ClozeProbe,
    scoring: Scoring,
    *,
    only: CountKind | None = None,
    keep: bool = False,
) -> Column:
    """Scores by all metrics of the probe over all groups and in each, or ``only`` by those of one kind of count.

    The replicates of single groups are dropped unless they are to be kept, as many groups would have very many.
    """
    scores: dict[str, Bootstrap] = {}
    by_group: dict[tuple[str, str], Bootstrap] = {}

    def resampled(counts: NDArray[Any], metrics: Sequence[Metric], groups: Sequence[str] = ()) -> dict[str, Bootstrap]:
        return bootstrap(counts, metrics, labels=groups, n_resamples=scoring.n_resamples, seed=scoring.seed)

    for kind in dict.fromkeys(metric.count_kind for metric in probe.scores if only in (None, metric.count_kind)):
        metrics = [metric for metric in probe.scores if metric.count_kind == kind]
        counts = outcomes.counts(kind)
        scores |= resampled(counts, [metric for metric in metrics if metric.which is None], outcomes.groups)
        for metric in [metric for metric in metrics if metric.which is not None]:
            members = [n for n, group in enumerate(outcomes.groups) if metric.which and metric.which(group)]
            # Only the clusters of those groups are drawn: their number decides how sure the score is.
            clusters = outcomes.clusters_of(*members)
            if len(clusters):
                labels = [outcomes.groups[member] for member in members]
                scores |= resampled(counts[:, clusters][:, :, members], [metric], labels)
        # Metrics over all items, or over some groups, would repeat themselves in a single group.
        alone = [metric for metric in metrics if metric.name in METRICS and not metric.name.startswith("micro_")]
        for number, group in enumerate(outcomes.groups if len(outcomes.groups) > 1 else ()):
            # A group is drawn from its own clusters alone, as above.
            of_group = counts[:, outcomes.clusters_of(number), number : number + 1]
            for name, score in resampled(of_group, alone).items() if of_group.shape[1] else ():
                lean = replace(score, replicates=score.replicates[:0], jackknife=score.jackknife[:0])
                by_group[name, group] = score if keep else lean
    ordered = {metric.name: scores[metric.name] for metric in probe.scores if metric.name in scores}
    return Column(cells, layers, records, ordered, by_group)
