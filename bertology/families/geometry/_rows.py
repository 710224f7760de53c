"""From finished cells of geometry to tidy rows: statistics with intervals over sentences, types or blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertology.families.cells import columns_of
from bertology.families.contract import Family
from bertology.families.rows import ByControl, scored_tables
from bertology.families.scoring import Column, Mean, records_of
from bertology.families.tasks import FitCells, Scoring, Tables
from bertology.measures import Bootstrap, bootstrap_ratio
from bertology.results import HeadSums, ResultRow, read_head_sums, score_of

_Key = tuple[str, str]
"""Metric and group."""


_CLUSTERS = {"sentences": "sentences", "types": "word types", "blocks": "blocks of neighbouring sentences"}
"""What is resampled, as tables call it."""


def geometry_tables(family: Family, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
    """The rows and comparisons of one configuration on each draw of its weights."""
    metrics = draws[0].probe.scores
    scored = [_scored(one, scoring) for one in draws]
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
    tables = scored_tables(family, draws, plain, scoring, metrics=metrics, more=by_group)
    n_clusters = {(name, ""): scores.n_clusters for name, scores in scored[0].scores.items()}
    n_clusters |= {key: scores.n_clusters for key, scores in scored[0].by_group.items()}
    kinds = _cluster_kinds(draws[0], scoring)
    # A statistic that is not defined for a layer, such as likeness with the layer before of the first, has no row.
    rows = [row for row in tables.rows if row.value is not None and np.isfinite(row.value)]
    return replace(tables, rows=tuple(_counted(row, n_clusters, kinds) for row in rows))


def _cluster_kinds(cells: FitCells, scoring: Scoring) -> dict[_Key, str]:
    """What each statistic is resampled over."""
    every = [sums for cell in cells.cells.values() for sums in read_head_sums(scoring.run, cell.id)]
    return {(sums.metric, sums.group): sums.unit for sums in every}


def _counted(row: ResultRow, n_clusters: Mapping[_Key, int], kinds: Mapping[_Key, str]) -> ResultRow:
    """A row with the clusters of its own statistic, which may be other ones than those of the next; types are items."""
    key = row.metric, row.group or ""
    params = json.dumps({**json.loads(row.params_json), "clusters": _CLUSTERS[kinds[key]]}, sort_keys=True)
    n_items = n_clusters[key] if kinds[key] == "types" else row.n_items
    return replace(row, n_items=n_items, n_clusters=n_clusters[key], params_json=params)


def _scored(cells: FitCells, scoring: Scoring) -> Column:
    """All statistics of the layers of one model, each resampled over its own clusters."""
    of_layers = tuple(cells.cells["none", 0, layer] for layer in cells.layers)
    kept: dict[_Key, dict[int, HeadSums]] = {}
    for place, cell in enumerate(of_layers):
        for sums in read_head_sums(scoring.run, cell.id):
            kept.setdefault((sums.metric, sums.group), {})[place] = sums
    scores = {key: _bootstrap(key[0], by_place, len(of_layers), scoring) for key, by_place in kept.items()}
    return Column(
        of_layers,
        cells.layers,
        records_of(scoring.run, of_layers),
        {metric: values for (metric, group), values in scores.items() if not group},
        {key: values for key, values in scores.items() if key[1]},
    )


def _bootstrap(metric: str, by_place: Mapping[int, HeadSums], n_layers: int, scoring: Scoring) -> Bootstrap:
    """One statistic of all layers, on the same resamples."""
    clusters = np.unique(np.concatenate([sums.clusters for sums in by_place.values()]))
    over, under = np.zeros((n_layers, len(clusters))), np.zeros((n_layers, len(clusters)))
    for place, sums in by_place.items():
        columns = np.searchsorted(clusters, sums.clusters)
        over[place, columns], under[place, columns] = sums.over[0], sums.under[0]
    return bootstrap_ratio(over, under, metric=metric, n_resamples=scoring.n_resamples, seed=scoring.seed)
