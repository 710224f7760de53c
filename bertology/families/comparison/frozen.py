"""Frozen readouts: fitted to the reference's vectors, put to the model's, beside readouts fitted to the model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertology.encoders import ModelShape
from bertology.errors import BertologyError, ModelError
from bertology.families.cells import Stopwatch, write_cell
from bertology.families.comparison._cells import pairs_by_depth, reference_of, reference_params
from bertology.families.item_vectors import items_param, readable, vectors_of
from bertology.families.items import ItemColumns, Problem, counts_of, targets_of
from bertology.families.labels import FAMILY as LABELS
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import ByControl, run_rows, scored_tables
from bertology.families.scoring import Column, Counts, score_fits
from bertology.families.task_data import TaskData, task_data
from bertology.families.tasks import CellGrid, Cost, FitCells, FitGroup, Job, Pair, Scoring, Tables
from bertology.families.vectors import VectorFamily
from bertology.measures import Metric, compare, over_runs
from bertology.measures.comparisons import difference
from bertology.probing import ControlNote, Probe, ReadoutComparison
from bertology.readouts import readout_kind
from bertology.results import ComparisonRow, ResultRow
from bertology.results.predictions import Kept
from bertology.results.rows import comparison_rows

_CONTROLS = ("none", "rescaled", "refit", "reference")
"""The frozen readout on the model; on its vectors with mean and spread of the reference's in each dimension, of the
training items; a readout fitted to the model; the frozen one on the reference."""
_NOTES = (
    ControlNote("rescaled", "rescaled", "the frozen readout on vectors with the reference's mean and spread"),
    ControlNote("refit", "refitted", "a readout fitted to the model itself"),
    ControlNote("reference", "reference", "the frozen readout on the reference, to which it was fitted"),
)
_CHANGES = {
    "scale_change": ("rescaled", "none"),
    "form_change": ("refit", "rescaled"),
    "content_change": ("reference", "refit"),
}
"""By metric, of which two the difference is."""


class _Frozen(VectorFamily):
    """What does a readout that was fitted to one model find in the vectors of another?"""

    most_draws = 1

    has_control_task = False

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, ReadoutComparison)

    def needs_reference(self, probe: Probe) -> bool:
        return True

    def asks_random_weights(self, probe: Probe) -> bool:
        """What random weights know, the task itself shows."""
        return False

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """Those of the task, of readouts that read one layer and predict labels."""
        assert isinstance(probe, ReadoutComparison)
        if not LABELS.answers(probe.of):
            raise BertologyError(f"task {probe.task}: the task after the colon has no labels of words or spans")
        configs = LABELS.configs(probe.of, asked, shape)
        for config in configs:
            if readout_kind(str(config.readout)).columns != "layer":
                problem = f"{config.readout} mixes layers, of which a frozen readout reads one: take {probe.of.readout}"
                raise BertologyError(f"task {probe.task}: {problem}")
            if config.codelength or config.erase:
                what = "codelength" if config.codelength else "erase"
                raise BertologyError(f"task {probe.task}: a frozen readout predicts labels: leave {what} out")
        return configs

    def fitted_together(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[tuple[ReadoutConfig, ...], ...]:
        """Each by itself."""
        return tuple((config,) for config in configs)

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """The models are of one width, and the corpus has the labels."""
        _check_widths(pair, probe)
        LABELS.check(pair, _of(probe), configs)

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        """That of the task, with its version."""
        return {**LABELS.task_identity(pair, _of(probe)), "of_version": _of(probe).version}

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer: of the frozen readout, of one fitted anew, and of the reference itself."""
        return replace(LABELS.grid(pair, _of(probe), config, init), controls=_CONTROLS)

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        """None: those of the task stand beside the task."""
        return ()

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        """The other three."""
        return _NOTES

    def compute_cells(self, cells: FitCells, job: Job) -> None:
        _fit_both(cells, job)

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        return LABELS.count(run, ids, metrics)

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """All four scores of each layer, their differences, and comparisons of the four."""
        metrics = draws[0].probe.scores
        by_control = dict.fromkeys(_CONTROLS, metrics)
        columns = [score_fits(one, scoring, count=self.count, metrics=by_control) for one in draws]

        def more(control: str, of_control: ByControl, shared: Sequence[Mapping[str, Any]]) -> Iterator[ResultRow]:
            return _changes(of_control, shared, metrics[0].name) if control == "none" else iter(())

        tables = scored_tables(self, draws, columns, scoring, metrics=metrics, more=more)
        return replace(tables, comparisons=(*tables.comparisons, *_compared(draws[0], columns[0], scoring)))

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """Two fits of the task."""
        _check_widths(pair, groups[0].probe)
        of_task = [replace(one, members=tuple(replace(c, probe=_of(c.probe)) for c in one.members)) for one in groups]
        cost = LABELS.cost(pair, of_task)
        return replace(cost, flops=cost.flops * 2 / len(_CONTROLS), memory=2 * cost.memory)


def _of(probe: Probe) -> Any:
    """The task whose labels are predicted."""
    assert isinstance(probe, ReadoutComparison)
    return probe.of


def _check_widths(pair: Pair, probe: Probe) -> None:
    if pair.reference is not None and pair.shape.dim != pair.reference.shape.dim:
        widths = f"vectors of {pair.reference.source.title} have {pair.reference.shape.dim} dimensions"
        problem = f"{widths}, those of {pair.source.title} {pair.shape.dim}"
        raise ModelError(f"task {probe.task}: {problem}: a readout can be put to vectors of its own width alone")


def _fit_both(cells: FitCells, job: Job) -> None:
    """Fit a readout to each model, all layers and seeds at once, and write the cells of all four scores."""
    from bertology.readouts import get_readout, moments, rescaled

    _check_widths(job.pair, cells.probe)
    watch, other = Stopwatch(), reference_of(job)
    pairs = pairs_by_depth(cells.layers_read, job.pair, other.pair)
    problems = [Problem("none", seed) for seed in dict.fromkeys(seed for _, seed, _ in cells.cells)]
    of_task = replace(cells, probe=_of(cells.probe))
    of_reference = replace(of_task, layers_read=tuple(layer for _, layer in pairs))
    data = _readable(of_task, job, other)

    def vectors(of: FitCells, where: Job, split: str) -> Any:
        return vectors_of(of, data, where, split, memory=job.memory // 2 if split == "train" else 0)

    def fit(of: FitCells, where: Job) -> Any:
        readout = get_readout(cells.readout, **cells.config.settings)
        targets = targets_of(data, problems, "train", fraction=cells.config.fraction)
        dev, dev_targets = vectors(of, where, "dev"), targets_of(data, problems, "dev")
        train = vectors(of, where, "train")
        return readout.fit(
            train, targets, dev=dev, dev_targets=dev_targets, device=job.device, progress=job.progress.say
        )

    frozen, refitted = fit(of_reference, other), fit(of_task, job)
    job.progress.finish()
    test = vectors(of_task, job, "test")
    own, others = (moments(vectors(*which, "train")) for which in ((of_task, job), (of_reference, other)))
    predicted = {
        "none": (frozen, frozen.predict(test)),
        "rescaled": (frozen, frozen.predict(rescaled(test, own, others))),
        "refit": (refitted, refitted.predict(test)),
        "reference": (frozen, frozen.predict(vectors(of_reference, other, "test"))),
    }
    columns, gold = ItemColumns(data), data.test.codes
    provenance = watch.provenance(
        "torch", "transformers", "numpy", "scikit-learn", device=job.device, n_cells=len(cells.cells)
    )
    for (control, seed, layer), cell in cells.cells.items():
        fitted, answers = predicted[control]
        at = problems.index(Problem("none", seed)), cells.layers.index(layer)
        params = {"strength": float(fitted.report.chosen[at]), **items_param(data), **reference_params(other.pair)}
        params["reference_layer"] = dict(pairs)[int(layer or 0)]
        if cells.config.changes:
            params["settings"] = cells.config.changes
        counts = counts_of(data, seed=seed, fraction=cells.config.fraction)
        counts |= {"n_params": fitted.n_params, "params": params, **job.pair.alignment_counts(beside=other.pair)}
        write_cell(
            job.run,
            cell,
            columns.predictions(gold, answers.labels[at], answers.log_prob[at]),
            facts=counts,
            provenance=provenance,
            notes=data.splits.notes,
        )


def _readable(cells: FitCells, job: Job, other: Job) -> TaskData:
    """The items of the task that both models can read."""
    data = readable(cells, task_data(cells.probe, job.pair.splits), job)
    return data.without(other.pair.unreadable, other.pair.joined)


def _changes(by_control: ByControl, shared: Sequence[Mapping[str, Any]], metric: str) -> Iterator[ResultRow]:
    """Differences of the four scores by layer, as rows of the frozen readout's own cells."""
    for name, (one, less) in _CHANGES.items():
        columns = [
            {
                seed: replace(
                    frozen,
                    scores={name: difference(of_one[seed].scores[metric], of_less[seed].scores[metric], metric=name)},
                    by_group={},
                )
                for seed, frozen in of_frozen.items()
            }
            for of_frozen, of_one, of_less in zip(by_control["none"], by_control[one], by_control[less], strict=True)
        ]
        yield from run_rows(columns, shared, {"control": "none"}, ())


def _compared(cells: FitCells, columns: Mapping[tuple[str, int], Column], scoring: Scoring) -> Iterator[ComparisonRow]:
    """The four scores of each layer with each other, corrected together; with several seeds their means."""
    pair, metric = scoring.pair, cells.probe.scores[0].name
    by_control = {
        control: over_runs([column.scores[metric] for (of, _), column in columns.items() if of == control])
        for control in _CONTROLS
    }
    scores = list(by_control.values())
    n = len(cells.layers)
    pairs = [
        (a * n + layer, b * n + layer)
        for layer in range(n)
        for a, b in itertools.combinations(range(len(_CONTROLS)), 2)
    ]
    by_run = [one.by_run for one in scores if one.by_run is not None]
    compared = compare(
        np.concatenate([one.values for one in scores]),
        np.concatenate([one.replicates for one in scores], axis=1),
        n_clusters=scores[0].n_clusters,
        by_run=np.concatenate(by_run, axis=1) if by_run else None,
        pairs=pairs,
    )
    reference = pair.reference
    assert reference is not None
    first = min(seed for _, seed in columns)
    family = f"{cells.probe.task} on {pair.corpus.name}: {pair.source.name} and {reference.source.name} by {metric}"
    if len(pair.request.configs_of(cells.probe.task)) > 1:
        family += f", {cells.config.title}"
    ids = [columns[control, first].cells[place].id for control in _CONTROLS for place in range(n)]
    layers = [layer for _ in _CONTROLS for layer in cells.layers if layer is not None]
    yield from comparison_rows(compared, family=family, metric=metric, cells=ids, layers=layers)


FAMILY = _Frozen()
