"""Numbers of words and spans, such as lengths, frequencies or reading times: regressed on their vectors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertology import readouts
from bertology.errors import FitError, quoted
from bertology.families.contract import Counts, FitCells, Problem, Resources
from bertology.families.model_corpus import ModelCorpus
from bertology.families.request import ReadoutConfig
from bertology.families.vectors import Baseline, CellWriter, TaskData, VectorFamily, readable, task_data, vectors_of
from bertology.measures import Metric, count_numbers
from bertology.measures.metrics import mean_numbers
from bertology.probing import ControlNote, Probe
from bertology.readouts import ReadoutKind, make_readout
from bertology.results import Predictions
from bertology.results.predictions import Kept, Stopwatch, read_labels

_BASELINES = (
    ControlNote("mean", "mean", "of the training numbers"),
    ControlNote("word_mean", "word mean", "of the training numbers of the same word form; for a new one, of all"),
)
_GAIN = 1e-4  # gain of R² on dev from the last strength but one to the weakest, above which the path should go on
_NO_CLASSES: Mapping[str, Any] = {"n_classes": 0, "n_unseen_label": 0}
"""Numbers are no classes that training might lack."""


class _Numbers(VectorFamily):
    """Can a number be predicted from the vectors of a word or span, and in which layer?"""

    about, readouts, count_kinds = "numbers", ("numbers",), ("numbers",)

    def config_problem(self, kind: ReadoutKind, config: ReadoutConfig) -> str:
        if config.of_labels:
            return "numbers have no codelength or usable information here, and nothing is erased before them"
        return ""

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        super().check(pair, probe, configs)
        _numbers_of(task_data(probe, pair.splits))

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        return _BASELINES

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        text = "each form has the number of a random training item (Hewitt & Liang 2019)"
        return (ControlNote("control_task", "control", f"{text}; selectivity: score less control score"),)

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        """Regress all problems in all layers; where numbers are a control, they are drawn anew for each form."""
        watch, problems = Stopwatch(), cells.problems
        data = readable(cells, job)
        numbers, fraction = _numbers_of(data), cells.config.fraction
        values = {}
        for split, items in data.items.items():
            drawn = [
                items.codes if problem.control == "none" else data.control(split, seed=problem.seed)
                for problem in problems
            ]
            values[split] = numbers[np.stack(drawn)]
        weights = np.stack([data.weights(problem.seed, fraction) for problem in problems]).astype(np.float64)
        sources = {split: vectors_of(cells, data, job, split) for split in data.items}
        readout = make_readout(cells.readout, **cells.config.settings)
        assert isinstance(readout, readouts.linear.RidgeRegression)
        own_task = tuple(problems.index(Problem("none", problem.seed)) for problem in problems)
        targets = readouts.linear.NumberTargets(values["train"], weights, own_task)
        fitted = readout.fit(sources["train"], targets, dev=sources["dev"], dev_values=values["dev"], device=job.device)
        job.progress.finish()
        predicted = fitted.predict(sources["test"])
        provenance = watch.provenance("torch", "transformers", "numpy", device=job.device, n_cells=len(cells.cells))
        writer = CellWriter(cells, data, job, provenance)
        for number, problem in enumerate(problems):
            for place, cell in enumerate(cells.cells_of(problem)):
                chosen, scores = int(fitted.chosen[number, place]), fitted.dev_r2[number, place]
                params: dict[str, Any] = {
                    "strength": fitted.strengths[chosen],
                    "strengths": list(fitted.strengths),
                    "dev_r2": [round(float(score), 6) if np.isfinite(score) else None for score in scores],
                }
                if chosen == len(scores) - 1 and len(scores) > 1 and scores[-1] - scores[-2] > _GAIN:
                    params["path_end"] = "weakest"
                writer.keep_fit(fitted, number, place)
                kept = _kept(data, values["test"][number], predicted[number, place])
                n_params = fitted.slopes.shape[-1] + 1
                writer.add(cell, kept, problem.seed, params, n_params=n_params, **_NO_CLASSES)
        writer.finish()

    def baseline(self, data: TaskData, control: str) -> Baseline:
        numbers = _numbers_of(data)
        train_words, test_words, n_words = data.word_forms()
        means = mean_numbers(train_words, numbers[data.train.codes], test_words, n_words=n_words)
        place = [note.name for note in _BASELINES].index(control)
        return _kept(data, numbers[data.test.codes], means[place]), _NO_CLASSES, {}

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        kept = read_labels(run, ids)
        numbers = np.array(list(map(float, kept.labels)))
        return count_numbers(numbers[kept.gold], numbers[kept.pred], kept.cluster, n_clusters=kept.n_clusters), ()

    def metrics(self, probe: Probe) -> Mapping[str, Sequence[Metric]]:
        """The metrics of the probe; for the control task, its main metric only."""
        return {"none": probe.scores, "control_task": probe.scores[:1]}


def _numbers_of(data: TaskData) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The labels of a task as regression targets, ``[label]``."""
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


def _kept(data: TaskData, gold: Any, pred: Any) -> Predictions:
    """Numbers as they are kept: nine digits, which is what float32 has."""
    texts, predicted = ([f"{number:.9g}" for number in numbers.tolist()] for numbers in (gold, pred))
    return data.texts(texts, predicted, np.full(len(gold), np.nan))


FAMILY = _Numbers()
