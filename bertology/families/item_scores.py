"""Scores made anew from the predictions of finished cells, on items that several models share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertology.errors import ResultsError
from bertology.families.contract import family_of
from bertology.families.vectors import VectorFamily
from bertology.measures import METRICS, N_RESAMPLES, Bootstrap, Metric, bootstrap
from bertology.probing import get_probe
from bertology.results import Predictions, ResultRow, Results
from bertology.results.predictions import PredictionFolder, parts_of, prediction_table, read_outcomes
from bertology.results.rows import ATTENTION, is_statistic


def metric_of(row: ResultRow) -> Metric | None:
    """The metric of a row, if it is made of counts of single items over all groups; None of statistics."""
    if is_statistic(row) or row.readout in ATTENTION:
        return None
    metrics = {**METRICS, **{metric.name: metric for metric in get_probe(row.task).scores}}
    metric = metrics.get(row.metric)
    return None if metric is None or metric.which is not None else metric


def kept_of(results: Results, row: ResultRow) -> Predictions:
    """The predictions of the cell of a row.

    Raises:
        ResultsError: none are kept.
    """
    if row.cell_id not in results.kept:
        raise ResultsError(f"task {row.task}, layer {row.layer}: no predictions kept of cell {row.cell_id}")
    return results.kept[row.cell_id]


def scored_items(results: Results, row: ResultRow) -> list[str]:
    """The items that the cell of a row was scored on."""
    kept = kept_of(results, row)
    reasons = kept.extra["reason"] if kept.is_cloze else [""] * len(kept.item_ids)
    return [item for item, reason in zip(kept.item_ids, reasons, strict=True) if not reason]


def shared_items(scored: Sequence[Sequence[str]], where: str) -> tuple[str, ...]:
    """The items that are in all of several lists, in the order of the first.

    Raises:
        ResultsError: there are none.
    """
    in_all = set(scored[0]).intersection(*scored[1:])
    if not in_all:
        raise ResultsError(f"{where}: the models have no item in common")
    return tuple(item for item in scored[0] if item in in_all)


def scores_of_cells(
    results: Results,
    rows: Sequence[ResultRow],
    metric: Metric,
    *,
    items: Sequence[str] | None = None,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> Bootstrap:
    """The metric of cells of one model and fit, over some of their items alone; over all of them where none are given.

    Args:
        results: that hold their predictions.
        rows: one of each cell; the columns of what is returned.
        metric: made of counts of items.
        items: those that are scored.
        n_resamples: of the bootstrap over clusters.
        seed: of the resampling.
    """
    ids = [row.cell_id for row in rows]
    kept = _folder_of(results, ids) if items is None else None
    source: Path | Mapping[str, Any] = kept_tables(results, rows, items) if kept is None else kept
    family = family_of(get_probe(rows[0].task))
    if isinstance(family, VectorFamily):
        counts, labels = family.count(source, ids, (metric,))
    else:
        outcomes = read_outcomes(source, ids)
        counts, labels = outcomes.counts(metric.count_kind), outcomes.groups
    return bootstrap(counts, [metric], labels=labels, n_resamples=n_resamples, seed=seed)[metric.name]


def _folder_of(results: Results, ids: Sequence[str]) -> Path | None:
    """The folder that keeps the predictions of all of some cells, so that only columns that are needed are read."""
    for part in parts_of(results.kept):
        if isinstance(part, PredictionFolder) and all(cell in part for cell in ids):
            part.check(ids)
            return part.folder
    return None


def kept_tables(results: Results, rows: Sequence[ResultRow], items: Sequence[str] | None) -> dict[str, Any]:
    """By cell the predictions for some of its items, or for all, as readers of predictions take them.

    Raises:
        ResultsError: none are kept.
    """
    tables = {}
    for row in rows:
        kept = kept_of(results, row)
        table = prediction_table(kept)
        if items is not None:
            place = {item: number for number, item in enumerate(kept.item_ids)}
            table = table.take([place[item] for item in items])
        tables[row.cell_id] = table
    return tables
