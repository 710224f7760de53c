"""From statistics of layers, as sums over clusters, to cells and tidy rows with intervals: what cells keep of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.families.cells import Cell, columns_of
from bertology.families.contract import Family
from bertology.families.request import ReadoutConfig
from bertology.families.rows import ByControl, baseline_columns, cell_rows, scored_tables
from bertology.families.scoring import Column, Mean, records_of
from bertology.families.tasks import BaselineCells, FitCells, Scoring, Tables
from bertology.geometry import LayerSums
from bertology.measures import Bootstrap, Metric, bootstrap_ratio
from bertology.measures.metrics import Bounds
from bertology.probing import Probe
from bertology.results import ResultRow
from bertology.results.predictions import HeadSums, read_head_sums
from bertology.results.rows import score_of

_Key = tuple[str, str]
"""Metric and group."""


_CLUSTERS = {
    "sentences": "sentences",
    "types": "word types of these documents",
    "blocks": "blocks of neighbouring sentences",
    "documents": "blocks of whole documents",
    "frames": "frames of pairs",
}
"""What is resampled, as tables call it."""


def kept_sums(sums: LayerSums, layer: int | None) -> HeadSums:
    """What of a statistic belongs to one layer, or with None to none."""
    place = sums.layers.index(layer)
    over, under = sums.over[[place]], sums.under[[min(place, len(sums.under) - 1)]]
    used = np.flatnonzero((under != 0).any(axis=0))
    return HeadSums("test", sums.metric, sums.group, sums.clusters, used, over[:, used], under[:, used])


def layer_tables(family: Family, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
    """The rows and comparisons of one configuration on each draw of its weights."""
    metrics = _metrics(draws[0].probe, draws[0].config)
    scored = [_column(list(one.cells.values()), one.layers, scoring, metrics) for one in draws]
    columns = [{("none", 0): column} for column in scored]

    def by_group(control: str, of_control: ByControl, shared: Sequence[Mapping[str, Any]]) -> Iterator[ResultRow]:
        mean = Mean.of([[column] for column in scored])
        better = {metric.name: metric.higher_is_better for metric in metrics}
        for column, of_draw in zip(scored, shared, strict=True):
            for (metric, group), values in column.by_group.items():
                for place, (layer, record) in enumerate(zip(column.layers, column.records, strict=True)):
                    score = score_of(
                        values, place, mean=mean.by_group[metric, group] if mean else None, n_runs=len(scored)
                    )
                    where = {"control": "none", "seed": 0, "layer": layer, "group": group}
                    yield ResultRow(
                        **{**of_draw, **columns_of(record), **where, **score},
                        higher_is_better=better.get(metric, True),
                        main_metric=metric == metrics[0].name,
                    )

    plain = [{key: replace(column, by_group={}) for key, column in by_key.items()} for by_key in columns]
    # What no sampling decides has one cluster, and layers are not told apart by it.
    is_ranked = any(scores.n_clusters > 1 for scores in scored[0].scores.values())
    tables = scored_tables(family, draws, plain, scoring, metrics=metrics, more=by_group, is_ranked=is_ranked)
    every = [sums for cell in draws[0].cells.values() for sums in read_head_sums(scoring.run, cell.id)]
    return replace(tables, rows=_counted(tables.rows, scored[0], every))


def baseline_tables(family: Family, baselines: BaselineCells, scoring: Scoring) -> Tables:
    """The rows of baselines: the same statistics, of no layer."""
    shared = baseline_columns(family, baselines, scoring)
    metrics = _metrics(baselines.probe, baselines.config)
    better = {metric.name: metric.higher_is_better for metric in metrics}
    rows: list[ResultRow] = []
    for control, cell in baselines.cells.items():
        column = _column([cell], (None,), scoring, metrics)
        where = {**shared, "control": control}
        made = cell_rows(replace(column, by_group={}), 0, where, metrics=metrics)
        for (metric, group), values in column.by_group.items():
            of_group = {**where, **columns_of(column.records[0]), "group": group, **score_of(values, 0)}
            made.append(
                ResultRow(**of_group, higher_is_better=better.get(metric, True), main_metric=metric == metrics[0].name)
            )
        rows += _counted(made, column, read_head_sums(scoring.run, cell.id))
    return Tables.of(rows)


def _metrics(probe: Probe, config: ReadoutConfig) -> tuple[Metric, ...]:
    """Those of the question with the settings of a configuration."""
    return probe.with_settings(config.settings).scores


def _counted(rows: Sequence[ResultRow], column: Column, every: Sequence[HeadSums]) -> tuple[ResultRow, ...]:
    """Rows with the clusters of their own statistic, which may be other ones than those of the next.

    Where clusters are types, they are the items; where a statistic divides by numbers of items, these are.
    One that is not defined for a layer, such as likeness with the layer before of the first, has no row.
    """
    n_clusters = {(name, ""): scores.n_clusters for name, scores in column.scores.items()}
    n_clusters |= {key: scores.n_clusters for key, scores in column.by_group.items()}
    kinds = {(sums.metric, sums.group): sums.unit for sums in every}
    of_sentences = [sums for sums in every if sums.unit == "sentences"]
    n_items = {(s.metric, s.group): s.under.sum() for s in of_sentences if s.group or _counts_items(s.under)}
    counted = []
    for row in rows:
        if row.value is None or not np.isfinite(row.value):
            continue
        key = row.metric, row.group or ""
        params = json.dumps({**json.loads(row.params_json), "clusters": _CLUSTERS[kinds[key]]}, sort_keys=True)
        items = n_clusters[key] if kinds[key] == "types" else round(n_items.get(key, row.n_items))
        counted.append(replace(row, n_items=items, n_clusters=n_clusters[key], params_json=params))
    return tuple(counted)


def _counts_items(under: NDArray[np.float64]) -> bool:
    """Whether denominators are numbers of items; those that are all 1 weight clusters alike."""
    return bool((under == np.round(under)).all() and (under != 1).any())


def _column(
    cells: Sequence[Cell], layers: tuple[int | None, ...], scoring: Scoring, metrics: Sequence[Metric]
) -> Column:
    """All statistics of the cells of some layers of one model, each resampled over its own clusters."""
    bounds = {metric.name: metric.bounds for metric in metrics}
    kept: dict[_Key, dict[int, HeadSums]] = {}
    for place, cell in enumerate(cells):
        for sums in read_head_sums(scoring.run, cell.id):
            kept.setdefault((sums.metric, sums.group), {})[place] = sums
    scores = {
        key: _bootstrap(key[0], bounds.get(key[0], "none"), by_place, len(cells), scoring)
        for key, by_place in kept.items()
    }
    return Column(
        tuple(cells),
        layers,
        records_of(scoring.run, tuple(cells)),
        {metric: values for (metric, group), values in scores.items() if not group},
        {key: values for key, values in scores.items() if key[1]},
    )


def _bootstrap(
    metric: str, bounds: Bounds, by_place: Mapping[int, HeadSums], n_layers: int, scoring: Scoring
) -> Bootstrap:
    """One statistic of all layers, on the same resamples."""
    clusters = np.unique(np.concatenate([sums.clusters for sums in by_place.values()]))
    over, under = np.zeros((n_layers, len(clusters))), np.zeros((n_layers, len(clusters)))
    for place, sums in by_place.items():
        columns = np.searchsorted(clusters, sums.clusters)
        over[place, columns], under[place, columns] = sums.over[0], sums.under[0]
    return bootstrap_ratio(
        over, under, metric=metric, bounds=bounds, n_resamples=scoring.n_resamples, seed=scoring.seed
    )
