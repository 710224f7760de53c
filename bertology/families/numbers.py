"""Numbers of words and spans, such as lengths, frequencies or reading times: regressed on their vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bertology.encoders import ModelShape
from bertology.errors import BertologyError, FitError, quoted
from bertology.families.cells import Stopwatch, versions, write_cell
from bertology.families.item_vectors import check_pools, items_param, keep_fit, readable, vectors_of
from bertology.families.items import ItemColumns, Problem, counts_of, weights_of
from bertology.families.request import ReadoutConfig
from bertology.families.rows import ByControl, scored_tables, selectivity_rows
from bertology.families.scoring import Counts, score_fits
from bertology.families.task_data import TaskData, task_data
from bertology.families.tasks import (
    BaselineCells,
    Cost,
    FitCells,
    FitGroup,
    Job,
    Pair,
    Scoring,
    Tables,
)
from bertology.families.vectors import VectorFamily, checked_configs, control_task_notes
from bertology.measures import Metric, count_numbers
from bertology.measures.metrics import mean_numbers
from bertology.probing import ControlNote, Probe, RepresentationProbe
from bertology.readouts import make_readout, readout_kind
from bertology.results import Predictions, ResultRow
from bertology.results.predictions import Kept, read_labels

_BASELINES = (
    ControlNote("mean", "mean", "of the training numbers"),
    ControlNote("word_mean", "word mean", "of the training numbers of the same word form; for a new one, of all"),
)
_GAIN = 1e-4
"""Of R² on dev from the last strength but one to the weakest, above which the path should go on."""


class Numbers(VectorFamily):
    """Can a number be predicted from the vectors of a word or span, and in which layer?"""

    def answers(self, probe: Probe) -> bool:
        """Whether its readout predicts numbers."""
        return isinstance(probe, RepresentationProbe) and readout_kind(probe.readout).reads == "numbers"

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """Any regression; no codelength, nothing erased."""
        assert isinstance(probe, RepresentationProbe)
        configs = checked_configs(probe, asked, about="numbers", reads=("numbers",), width=shape.dim)
        if any(config.codelength is not None or config.erase is not None for config in configs):
            problem = "numbers have no codelength here, and nothing is erased before them"
            raise BertologyError(f"task {probe.task}: {problem}")
        return configs

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """All labels are numbers, of items that can be pooled."""
        data = task_data(probe, pair.splits)
        numbers_of(data)
        check_pools(pair, data, configs)

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        """The mean of the training numbers, and of those of the same word form."""
        return _BASELINES

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        """Forms with other numbers."""
        return control_task_notes("each form", "the number of a training item at random")

    def compute_cells(self, cells: FitCells, job: Job) -> None:
        """Numbers are drawn anew for each form where they are a control."""
        _fit(cells, job)

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        """From the numbers and words of the training split."""
        data = task_data(baselines.probe, job.pair.splits)
        data = data.without(baselines.unreadable, job.pair.joined if baselines.unreadable else {})
        numbers, columns = numbers_of(data), ItemColumns(data)
        train_words, test_words, n_words = data.word_forms()
        means = mean_numbers(train_words, numbers[data.train.codes], test_words, n_words=n_words)
        for control, cell in baselines.cells.items():
            kept = _kept(columns, numbers[data.test.codes], means[[note.name for note in _BASELINES].index(control)])
            provenance = {"versions": versions("numpy"), "wall_s": 0.0}
            write_cell(job.run, cell, kept, facts=_counts(data), provenance=provenance, notes=data.splits.notes)

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        """Sums of numbers, errors and ranks."""
        kept = read_labels(run, ids)
        numbers = np.array(list(map(float, kept.labels)))
        return count_numbers(numbers[kept.gold], numbers[kept.pred], kept.cluster, n_clusters=kept.n_clusters), ()

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """Scores with selectivity."""
        metrics = draws[0].probe.scores
        by_control = {"none": metrics, "control_task": metrics[:1]}
        columns = [score_fits(one, scoring, count=self.count, metrics=by_control) for one in draws]

        def more(control: str, scores: ByControl, shared: Sequence[Mapping[str, Any]]) -> Iterator[ResultRow]:
            if control == "control_task":
                yield from selectivity_rows(scores["none"], scores["control_task"], shared, metric=metrics[0].name)

        return scored_tables(self, draws, columns, scoring, metrics=metrics, more=more)

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """One pass over the training items for products of all features."""
        data, n_layers = task_data(groups[0].probe, pair.splits), len(pair.layers)
        check_pools(pair, data, [member.config for group in groups for member in group.members])
        weightings = sum(pair.request.seeds for group in groups for _ in group.members)
        flops = 2.0 * len(data.train) * pair.shape.dim**2 * n_layers * weightings
        return Cost(flops, 16.0 * n_layers * pair.shape.dim**2 * pair.request.seeds, len(data.test))


def numbers_of(data: TaskData) -> np.ndarray[Any, np.dtype[np.float64]]:
    """``[label]`` the labels of a task as numbers.

    Raises:
        FitError: a label is no finite number.
    """
    if data.train.is_multi_label:
        raise FitError(f"task {data.probe.task}: an item has several labels; give one number each")
    numbers = []
    for label in data.labels:
        try:
            numbers.append(float(label))
        except ValueError:
            numbers.append(np.nan)
        if not np.isfinite(numbers[-1]):
            raise FitError(
                f"task {data.probe.task}: label {quoted(label)} is no finite number; leave such items out, or ask for "
                "the task of labels"
            )
    return np.array(numbers)


def _fit(cells: FitCells, job: Job) -> None:
    """Regress all problems in all layers, and write the cells."""
    from bertology.readouts import KeptFit, NumberTargets, RidgeRegression

    watch = Stopwatch()
    problems = list(dict.fromkeys(Problem(control, seed) for control, seed, _ in cells.cells))
    data = readable(cells, task_data(cells.probe, job.pair.splits), job)
    numbers, fraction = numbers_of(data), cells.config.fraction
    values = {split: np.stack([numbers[_codes(data, problem, split)] for problem in problems]) for split in data.items}
    weights = np.stack([weights_of(data, problem.seed, fraction, True) for problem in problems]).astype(np.float64)
    sources = {split: vectors_of(cells, data, job, split) for split in data.items}
    readout = make_readout(cells.readout, **cells.config.settings)
    assert isinstance(readout, RidgeRegression)
    own_task = tuple(problems.index(Problem("none", problem.seed)) for problem in problems)
    targets = NumberTargets(values["train"], weights, own_task)
    fitted = readout.fit(sources["train"], targets, dev=sources["dev"], dev_values=values["dev"], device=job.device)
    job.progress.finish()
    predicted, columns = fitted.predict(sources["test"]), ItemColumns(data)
    provenance = watch.provenance("torch", "transformers", "numpy", device=job.device, n_cells=len(cells.cells))
    for number, problem in enumerate(problems):
        facts = _counts(data, seed=problem.seed, fraction=fraction)
        for place, layer in enumerate(cells.layers):
            chosen, scores = int(fitted.chosen[number, place]), fitted.dev_r2[number, place]
            params: dict[str, Any] = {
                "strength": fitted.strengths[chosen],
                "strengths": list(fitted.strengths),
                "dev_r2": [round(float(score), 6) if np.isfinite(score) else None for score in scores],
            }
            if chosen == len(scores) - 1 and len(scores) > 1 and scores[-1] - scores[-2] > _GAIN:
                params["path_end"] = "weakest"
            if cells.config.changes:
                params["settings"] = cells.config.changes
            cell = cells.cells[problem.control, problem.seed, layer]
            if problem.control == "none" and cells.weights.init == job.pair.request.init:
                keep_fit(KeptFit.of(fitted, number, place), cells, data, job, cell)
            params |= items_param(data)
            write_cell(
                job.run,
                cell,
                _kept(columns, values["test"][number], predicted[number, place]),
                facts={
                    **{**facts, "n_params": fitted.slopes.shape[-1] + 1, "params": params},
                    **job.pair.alignment_counts(),
                },
                provenance=provenance,
                notes=data.splits.notes,
            )


def _codes(data: TaskData, problem: Problem, split: str) -> Any:
    """``[item]`` places of the labels: the items' own, or one drawn at random for each form."""
    if problem.control == "none":
        return data.items[split].codes
    return data.control(split, seed=problem.seed)


def _counts(data: TaskData, **how: Any) -> dict[str, Any]:
    """Counts of items; numbers are no classes that training might lack."""
    return {**counts_of(data, **how), "n_classes": 0, "n_unseen_label": 0}


def _kept(columns: ItemColumns, gold: Any, pred: Any) -> Predictions:
    """Numbers as they are kept: nine digits, which is what float32 has."""
    texts, predicted = ([f"{number:.9g}" for number in numbers.tolist()] for numbers in (gold, pred))
    return columns.texts(texts, predicted, np.full(len(gold), np.nan))


FAMILY = Numbers()
