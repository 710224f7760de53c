"""Rows of label tasks: scores of labels or of codelengths, selectivity, and where mixtures of layers gain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertology.families.contract import Family
from bertology.families.rows import NO_INTERVALS, ByControl, cell_rows, run_rows, scored_tables, selectivity_rows
from bertology.families.scoring import Column, Counts, Score, Scored, records_of, score_fits
from bertology.families.tasks import FitCells, Scoring, Tables
from bertology.measures import Metric, bootstrap_ratio, count_labels, find_metric
from bertology.measures.comparisons import expected_layer, over_layers
from bertology.probing import Probe
from bertology.readouts import readout_kind
from bertology.results import ResultRow
from bertology.results.predictions import Kept, read_labels, read_scores, split_sets

_ACCURACY = find_metric("accuracy")


COMPRESSION, BITS = Score("compression", True), Score("codelength_bits", False)


def metrics_of(cells: FitCells) -> tuple[Scored, ...]:
    """What the cells of a readout configuration are scored by, the main metric first."""
    return (COMPRESSION, BITS) if cells.config.codelength else cells.probe.scores


def with_accuracy(probe: Probe) -> tuple[Metric, ...]:
    """The metrics of a probe, and accuracy among them: control tasks have no other."""
    metrics = probe.scores
    known = any(metric.name == _ACCURACY.name or metric.count_kind != "labels" for metric in metrics)
    return metrics if known else (*metrics, _ACCURACY)


def count(run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
    """Counts of labels in the predictions of cells."""
    kept = read_labels(run, ids)
    labels, members = split_sets(kept.labels) if kept.label_sets else (kept.labels, None)
    counts = count_labels(
        kept.gold, kept.pred, kept.cluster, n_labels=len(labels), n_clusters=kept.n_clusters, members=members
    )
    if tuple(metrics) == (_ACCURACY,):
        # It asks how many were right, and not of which label.
        return counts.sum(axis=2, keepdims=True), ()
    return counts, labels


def tables(family: Family, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
    """The rows and comparisons of a readout configuration on each draw of its weights."""
    if draws[0].config.codelength:
        columns = [_code_columns(one, scoring) for one in draws]
    else:
        # The labels of a control task mean nothing: only the share of right ones does.
        metrics = {"none": with_accuracy(draws[0].probe), "control_task": (_ACCURACY,)}
        columns = [score_fits(one, scoring, count=count, metrics=metrics) for one in draws]
    metrics_shown = metrics_of(draws[0])

    def more(control: str, by_control: ByControl, shared: Sequence[Mapping[str, Any]]) -> Iterator[ResultRow]:
        if control == "control_task":
            return selectivity_rows(by_control["none"], by_control["control_task"], shared)
        return _depth_rows(draws[0], by_control["none"], shared, metrics_shown[0])

    return scored_tables(family, draws, columns, scoring, metrics=metrics_shown, more=more)


def _code_columns(cells: FitCells, scoring: Scoring) -> dict[tuple[str, int], Column]:
    """Columns of codelengths, whose predictions are kept by training sentence."""
    columns: dict[tuple[str, int], Column] = {}
    for control, seed in dict.fromkeys((control, seed) for control, seed, _ in cells.cells):
        of_problem = tuple(cells.cells[control, seed, layer] for layer in cells.layers)
        log_probs, n_items = read_scores(scoring.run, [cell.id for cell in of_problem])
        records = records_of(scoring.run, of_problem)
        bits = -log_probs / math.log(2)
        facts = records[0].facts
        # Where a cell does not say what an item takes, each has one label.
        item_bits = facts["params"]["details"].get("item_bits", math.log2(facts["n_classes"]))
        uniform = np.array(n_items, dtype=np.float64) * item_bits
        chosen: dict[str, Any] = {"n_resamples": scoring.n_resamples, "seed": scoring.seed}
        per_sentence = np.full(bits.shape[1], 1 / bits.shape[1])
        scores = {
            COMPRESSION.name: bootstrap_ratio(uniform, bits, metric=COMPRESSION.name, **chosen),
            BITS.name: bootstrap_ratio(bits, per_sentence, metric=BITS.name, **chosen),
        }
        columns[control, seed] = Column(of_problem, cells.layers, records, scores)
    return columns


def _depth_rows(
    cells: FitCells, columns: Sequence[Mapping[int, Column]], shared: Sequence[Mapping[str, Any]], main: Scored
) -> Iterator[ResultRow]:
    """Where in the model a task is solved, from mixtures of layers: no layer's score, kept with the deepest cell."""
    mixes = readout_kind(cells.readout).columns
    where = {"control": "none"}
    if mixes == "below" and len(cells.layers) > 1:
        layers, name = cells.layers_read, main.name
        deepest = [{seed: _expected_layer(one, layers, name) for seed, one in of_draw.items()} for of_draw in columns]
        yield from run_rows(deepest, shared, where, ())
    elif mixes == "all":
        for of_draw, about in zip(columns, shared, strict=True):
            for seed, column in of_draw.items():
                details = column.records[0].facts["params"].get("details", {})
                first = cell_rows(column, 0, {**about, **where, "seed": seed, "layer": None}, metrics=(main,))[0]
                for name in ("center_of_gravity", "kl_from_uniform_bits"):
                    if name in details:
                        yield replace(first, metric=name, value=details[name], main_metric=False, **NO_INTERVALS)


def _expected_layer(column: Column, layers: Sequence[int], metric: str) -> Column:
    """The layer at which mixtures of layers gain, from their scores."""
    depth = over_layers(
        column.scores[metric],
        lambda scores: expected_layer(scores, layers=np.array(layers)).value,
        metric="expected_layer",
    )
    return Column(column.cells[-1:], (None,), column.records[-1:], {"expected_layer": depth})
