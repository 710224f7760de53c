"""Which models differ: compared as layers are, paired on the items that all of them were asked about."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bertology.errors import ResultsError
from bertology.families.contract import family_of
from bertology.families.vectors import VectorFamily
from bertology.measures import METRICS, Bootstrap, Metric, bootstrap, compare, over_runs
from bertology.probing import get_probe
from bertology.results import ComparisonRow, Predictions, ResultRow, Results, comparison_rows, read_outcomes, reading_of
from bertology.results.tables.predictions import prediction_table
from bertology.results.views.layers import own_init

_Cells = Mapping[int, Mapping[int, ResultRow]]
"""Rows of one model by layer and seed."""


def compare_models(results: Results) -> Results:
    """The same results with comparisons of their models, at each layer and at their best layers.

    Each task with item-wise predictions is compared by its main metric. Models are resampled together, on the items
    that all of them were scored on, as layers are: a pair of models has the same sentences and seeds. All pairs at all
    layers are one family of comparisons, those at best layers another (Benjamini–Hochberg). The best layer of a model
    is the one that scores best on these items, which flatters every model a little.

    Args:
        results: of several models on the same data, such as ``results_a + results_b``.

    Raises:
        ResultsError: predictions are missing, or models have no item in common.
    """
    questions: dict[tuple[object, ...], dict[str, list[ResultRow]]] = defaultdict(lambda: defaultdict(list))
    for row in results.rows:
        is_whole = row.group is None and row.head is None and row.layer is not None
        if row.main_metric and row.control == "none" and row.status == "ok" and row.model and is_whole:
            key = (row.task, row.corpus_fingerprint, row.split, row.metric, row.pooling, reading_of(row))
            questions[key][row.model].append(row)
    rows: list[ComparisonRow] = []
    for models in questions.values():
        cells = {model: _by_layer(of_model) for model, of_model in models.items()}
        if len(cells) > 1 and (metric := _metric_of(next(iter(next(iter(cells.values())).values()))[0])) is not None:
            rows += _compared(results, cells, metric)
    return replace(results, comparisons=tuple(dict.fromkeys((*results.comparisons, *rows))))


def _by_layer(rows: Sequence[ResultRow]) -> _Cells:
    """The cells of a model on its own weights, its first draw where they are drawn."""
    init = own_init(rows)
    draw = min(row.init_seed or 0 for row in rows if row.init == init)
    cells: dict[int, dict[int, ResultRow]] = defaultdict(dict)
    for row in rows:
        if row.init == init and (row.init_seed or 0) == draw and row.layer is not None:
            cells[row.layer][row.seed or 0] = row
    return dict(sorted(cells.items()))


def _metric_of(row: ResultRow) -> Metric | None:
    """The metric of a row, if it is made of counts of single items over all groups."""
    metrics = {**METRICS, **{metric.name: metric for metric in get_probe(row.task).scores}}
    metric = metrics.get(row.metric)
    return None if metric is None or metric.which is not None else metric


def _compared(results: Results, models: Mapping[str, _Cells], metric: Metric) -> Iterator[ComparisonRow]:
    first = next(iter(next(iter(next(iter(models.values())).values())).values()))
    where = f"task {first.task} on {first.corpus}"
    scores: dict[str, Bootstrap] = {}
    seeds = sorted(set.intersection(*(set(cells) for of_model in models.values() for cells in of_model.values())))
    if not seeds:
        raise ResultsError(f"{where}: models have no seed in common; run them with the same seeds")
    shared = _shared_items(results, models, where)
    for model, by_layer in models.items():
        runs = [_scores(results, [cells[seed] for cells in by_layer.values()], shared, metric) for seed in seeds]
        scores[model] = over_runs(runs)
    columns = [(model, place, layer) for model, by_layer in models.items() for place, layer in enumerate(by_layer)]
    sign = 1 if first.higher_is_better else -1
    best = {model: int(np.nanargmax(sign * scores[model].values)) for model in models}
    of_best = [column for column in columns if best[column[0]] == column[1]]
    for name, chosen, is_pair in (
        ("models at each layer", columns, lambda a, b: a[2] == b[2]),
        ("models at their best layers", of_best, lambda a, b: True),
    ):
        numbered = itertools.combinations(enumerate(chosen), 2)
        pairs = [(i, j) for (i, a), (j, b) in numbered if a[0] != b[0] and is_pair(a, b)]
        by_run = [of.by_run[:, place] for model, place, _ in chosen if (of := scores[model]).by_run is not None]
        compared = compare(
            [scores[model].values[place] for model, place, _ in chosen],
            np.stack([scores[model].replicates[:, place] for model, place, _ in chosen], axis=1),
            n_clusters=next(iter(scores.values())).n_clusters,
            by_run=np.stack(by_run, axis=1) if by_run else None,
            pairs=pairs,
        )
        ids = [models[model][layer][seeds[0]].cell_id for model, _, layer in chosen]
        family = f"{first.task} on {first.corpus}: {name} by {metric.name}"
        family += f", {reading_of(first)}" if reading_of(first) else ""
        layers = [layer for *_, layer in chosen]
        yield from comparison_rows(compared, family=family, metric=metric.name, cells=ids, layers=layers)


def _kept(results: Results, row: ResultRow) -> Predictions:
    if row.cell_id not in results.kept:
        raise ResultsError(f"task {row.task}, layer {row.layer}: no predictions kept of cell {row.cell_id}")
    return results.kept[row.cell_id]


def _shared_items(results: Results, models: Mapping[str, _Cells], where: str) -> tuple[str, ...]:
    """The items that every model was scored on, in the order of the first; layers of a model share theirs."""
    scored = []
    for by_layer in models.values():
        kept = _kept(results, next(iter(next(iter(by_layer.values())).values())))
        reasons = kept.extra["reason"] if kept.is_cloze else [""] * len(kept.item_ids)
        scored.append([item for item, reason in zip(kept.item_ids, reasons, strict=True) if not reason])
    in_all = set(scored[0]).intersection(*scored[1:])
    if not in_all:
        raise ResultsError(f"{where}: the models have no item in common")
    return tuple(item for item in scored[0] if item in in_all)


def _scores(results: Results, rows: Sequence[ResultRow], items: Sequence[str], metric: Metric) -> Bootstrap:
    """The metric of cells of one model and seed, over some of their items alone."""
    tables, ids = {}, [row.cell_id for row in rows]
    for row in rows:
        kept = _kept(results, row)
        place = {item: number for number, item in enumerate(kept.item_ids)}
        tables[row.cell_id] = prediction_table(kept).take([place[item] for item in items])
    family = family_of(get_probe(rows[0].task))
    if isinstance(family, VectorFamily):
        counts, labels = family.count(tables, ids, (metric,))
    else:
        outcomes = read_outcomes(tables, ids)
        counts, labels = outcomes.counts(metric.count_kind), outcomes.groups
    return bootstrap(counts, [metric], labels=labels)[metric.name]
