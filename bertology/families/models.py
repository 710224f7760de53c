"""Models compared on the items that all of them were scored on, made anew from kept predictions."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bertology.errors import ResultsError
from bertology.families.contract import family_of
from bertology.measures import Metric, bootstrap, compare, over_runs
from bertology.measures.intervals import N_RESAMPLES, Bootstrap
from bertology.measures.metrics import METRICS
from bertology.probing import get_probe
from bertology.results import Predictions, ResultRow, Results
from bertology.results.predictions import PredictionFolder, parts_of, prediction_table
from bertology.results.rows import ATTENTION, ComparisonRow, comparison_rows, counterpart, own_init

_Cells = Mapping[int, Mapping[int, ResultRow]]  # rows of one model by layer and seed
_Column = tuple[str, int, int]  # a model, the place of a layer among those that were read, and the layer


def compare_models(results: Results, *, reference: str | None = None) -> Results:
    """The same results with comparisons of their models, at each layer and at their best layers.

    Each task with item-wise predictions is compared by its main metric. Models are resampled together, on the items
    that all of them were scored on, as layers are: a pair of models has the same sentences and seeds. All pairs at all
    layers are one family of comparisons, those at best layers another (Benjamini–Hochberg). The best layer of a model
    is the one that scores best on these items, which flatters every model a little.

    With a ``reference`` each model is compared with it alone, each layer with the one at the same relative depth: of
    models of equal depth that is the one of the same number.

    Args:
        results: of several models on the same data, such as ``results_a + results_b``.
        reference: the name of a model in the rows.

    Raises:
        ResultsError: predictions are missing, or models have no item in common.
    """
    questions: dict[tuple[object, ...], dict[str, list[ResultRow]]] = defaultdict(lambda: defaultdict(list))
    for row in results.rows:
        is_whole = row.group is None and row.head is None and row.layer is not None
        if row.main_metric and row.control == "none" and row.status == "ok" and row.model and is_whole:
            key = (row.task, row.corpus_fingerprint, row.split, row.metric, row.pooling, row.reading)
            questions[key][row.model].append(row)
    rows: list[ComparisonRow] = []
    for models in questions.values():
        cells: dict[str, _Cells] = {}
        for model, of_model in models.items():
            # On its own weights, its first draw where they are drawn.
            init, by_layer = own_init(of_model), defaultdict[int, dict[int, ResultRow]](dict)
            draw = min(row.init_seed or 0 for row in of_model if row.init == init)
            for row in of_model:
                if row.init == init and (row.init_seed or 0) == draw and row.layer is not None:
                    by_layer[row.layer][row.seed or 0] = row
            cells[model] = dict(sorted(by_layer.items()))
        if len(cells) > 1 and (metric := metric_of(_first(next(iter(cells.values()))))) is not None:
            rows += _compared(results, cells, metric, reference)
    return replace(results, comparisons=tuple(dict.fromkeys((*results.comparisons, *rows))))


def _first(cells: _Cells) -> ResultRow:
    """The row of the first layer and seed of a model."""
    return next(iter(next(iter(cells.values())).values()))


def _compared(
    results: Results, models: Mapping[str, _Cells], metric: Metric, reference: str | None
) -> Iterator[ComparisonRow]:
    firsts = {model: _first(cells) for model, cells in models.items()}
    first = next(iter(firsts.values()))
    where, scores = f"task {first.task} on {first.corpus}", dict[str, Bootstrap]()
    seeds = sorted(set.intersection(*(set(cells) for of_model in models.values() for cells in of_model.values())))
    if not seeds:
        raise ResultsError(f"{where}: models have no seed in common; run them with the same seeds")
    shared = shared_items([scored_items(results, row) for row in firsts.values()], where)
    for model, by_layer in models.items():
        by_seed = ([cells[seed] for cells in by_layer.values()] for seed in seeds)
        runs = [scores_of_cells(results, rows, metric, items=shared) for rows in by_seed]
        scores[model] = over_runs(runs)
    columns = [(model, place, layer) for model, by_layer in models.items() for place, layer in enumerate(by_layer)]
    sign = 1 if first.higher_is_better else -1
    best = {model: int(np.nanargmax(sign * scores[model].values)) for model in models}
    of_best = [column for column in columns if best[column[0]] == column[1]]
    depths = {model: row.n_layers or 0 for model, row in firsts.items()}

    def are_beside(a: _Column, b: _Column) -> bool:
        """Whether two layers are compared: of any models those of the same number."""
        if reference is None:
            return a[2] == b[2]
        (of_model, _, layer), (of_reference, _, other) = (a, b) if b[0] == reference else (b, a)
        return of_reference == reference and other == counterpart(layer, depths[of_model], depths[of_reference])

    for name, chosen, is_pair in (
        ("models at each layer", columns, are_beside),
        ("models at their best layers", of_best, lambda a, b: reference in (None, a[0], b[0])),
    ):
        numbered = itertools.combinations(enumerate(chosen), 2)
        pairs = [(i, j) for (i, a), (j, b) in numbered if a[0] != b[0] and is_pair(a, b)]
        if not pairs:
            continue
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
        family += f", {first.reading}" if first.reading else ""
        layers = [layer for *_, layer in chosen]
        yield from comparison_rows(compared, family=family, metric=metric.name, cells=ids, layers=layers)


def metric_of(row: ResultRow) -> Metric | None:
    """The metric of a row if it is computed from counts of single items, all groups together; else None."""
    if row.is_statistic or row.readout in ATTENTION:
        return None
    metrics = {**METRICS, **{metric.name: metric for metric in get_probe(row.task).scores}}
    metric = metrics.get(row.metric)
    return None if metric is None or metric.which is not None else metric


def kept_of(results: Results, row: ResultRow) -> Predictions:
    """The predictions of the cell of a row."""
    if row.cell_id not in results.kept:
        raise ResultsError(f"task {row.task}, layer {row.layer}: no predictions kept of cell {row.cell_id}")
    return results.kept[row.cell_id]


def scored_items(results: Results, row: ResultRow) -> list[str]:
    """The items that the cell of a row was scored on."""
    kept = kept_of(results, row)
    reasons = kept.extra["reason"] if kept.is_cloze else [""] * len(kept.item_ids)
    return [item for item, reason in zip(kept.item_ids, reasons, strict=True) if not reason]


def shared_items(scored: Sequence[Sequence[str]], where: str) -> tuple[str, ...]:
    """The items that are in all of several lists, in the order of the first."""
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
    """The metric of cells of one model and fit, over some of their items or, without ``items``, over all."""
    ids = [row.cell_id for row in rows]
    source: Path | Mapping[str, Any] | None = None
    for part in parts_of(results.kept) if items is None else ():
        # A folder that keeps the predictions of all of them, so that only columns that are needed are read.
        if source is None and isinstance(part, PredictionFolder) and all(cell in part for cell in ids):
            part.check(ids)
            source = part.folder
    source = kept_tables(results, rows, items) if source is None else source
    counts, labels = family_of(get_probe(rows[0].task)).count(source, ids, (metric,))
    return bootstrap(counts, [metric], labels=labels, n_resamples=n_resamples, seed=seed)[metric.name]


def kept_tables(results: Results, rows: Sequence[ResultRow], items: Sequence[str] | None) -> dict[str, Any]:
    """The predictions of each cell for some of its items, or for all, as readers of predictions take them."""
    tables = {}
    for row in rows:
        kept = kept_of(results, row)
        table = prediction_table(kept)
        if items is not None:
            place = {item: number for number, item in enumerate(kept.item_ids)}
            table = table.take([place[item] for item in items])
        tables[row.cell_id] = table
    return tables
