"""Scores over the checkpoints of a training: tables of layers by steps, and which task comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bertology._names import layer_label
from bertology.measures.descriptions import ITSELF
from bertology.results.rows import ResultRow, Score
from bertology.results.table import (
    INTERVAL,
    NOTHING,
    Cell,
    Column,
    Line,
    Note,
    Table,
    alignment_notes,
    data_notes,
    formatted_cell,
    metric_title,
    score_column,
    unit,
)

SHARES = (0.9, 0.97)
"""Shares of the gain of the last checkpoint over the first, of which the steps are shown that reach them."""
_MOST_STEPS = 9


@dataclass(frozen=True)
class LayerOverSteps:
    """One layer of one task over a training."""

    layer: int
    scores: tuple[Score, ...]
    """``[step]``"""
    gain: Score
    """Gain of the last checkpoint over the first, above 0 where it is better, whichever way the metric points."""
    p_gain: float | None
    """One-sided: that there is no gain; None where there is no interval."""
    reached: Mapping[float, Score | None]
    """The first checkpoint that has each share of the gain; None where the gain cannot be told from 0."""
    mean: Score
    """Mean over the training: the area under the curve, divided by the number of updates."""
    variance: tuple[float, float, float] | None = None
    """Shares that pretraining seeds, clusters of items, and both together have in the variance of the last score; None
    of a single seed."""


@dataclass(frozen=True)
class TrainingTable:
    """One task over one training, or over several that differ in their seed alone."""

    task: str
    metric: str
    training: str
    """The part of their names that the checkpoints have in common."""
    steps: tuple[int, ...]
    lines: tuple[LayerOverSteps, ...]
    about: ResultRow
    pretraining_seeds: tuple[int | None, ...]
    n_resamples: int
    """Replicates of the bootstrap; 0 where predictions of items are not kept, so that there are no intervals over
    them."""
    baselines: Mapping[str, Score]
    left_out: tuple[int, ...] = ()
    """Steps that not every pretraining seed has."""

    @property
    def n_seeds(self) -> int:
        """Number of trainings."""
        return len(self.pretraining_seeds)

    @property
    def best_line(self) -> LayerOverSteps:
        """The layer that is best at the last step, the lowest of equals."""
        sign = 1 if self.about.higher_is_better else -1
        return max(self.lines, key=lambda line: (sign * line.scores[-1].value, -line.layer))

    def table(self, *, every: bool = False) -> Table:
        """Layers by steps; all steps, or as many as fit."""
        shown = list(range(len(self.steps))) if every else steps_shown(self.steps)
        columns = []
        for place in shown:
            scores = {layer_label(line.layer): line.scores[place] for line in self.lines} | dict(self.baselines)
            columns.append(score_column(f"{self.steps[place]:,}", self.metric, scores, interval=False))
        title = f"{self.task} · {metric_title(self.metric)} by updates of training{unit(self.metric)}"
        notes = [*self._about(), Note("intervals", "are in the figure and in the CSV")]
        if hidden := len(self.steps) - len(shown):
            notes.append(Note("steps", f"{hidden} more in the CSV, for want of room"))
        if self.left_out:
            notes.append(Note("left out", f"steps that not all seeds have: {', '.join(map(str, self.left_out))}"))
        return Table.of(title, columns, notes, baselines=self.baselines)

    def reached(self) -> Table:
        """Layers by what is known of the whole training: the last score, when most of the gain is reached, the mean."""
        lines = {layer_label(line.layer): line for line in self.lines}
        last = {at: line.scores[-1] for at, line in lines.items()}
        columns = [score_column(f"at {self.steps[-1]:,}", self.metric, last)]
        for share in SHARES:
            cells = {at: formatted_cell(line.reached.get(share), ",.0f") for at, line in lines.items()}
            columns.append(Column(f"{share:.0%} by", cells))
        means = {at: line.mean for at, line in lines.items()}
        columns.append(score_column("mean", self.metric, means, interval=False))
        title = f"{self.task} · {metric_title(self.metric)}{unit(self.metric)}, and when it is reached"
        return Table.of(title, columns, self._reached_notes())

    def covers(self) -> str:
        """The sampling that intervals cover."""
        units = self.about.clusters
        if not self.n_resamples:
            return "of scores as in the tables by layer; predictions of items are not kept, so there are none of steps"
        if self.n_seeds > 1:
            return f"over pretraining seeds × test {units} (multi-bootstrap, {self.n_resamples:,} replicates)"
        alone = "not over pretraining seeds, of which there is one"
        return f"over test {units} ({self.n_resamples:,} replicates); {alone}"

    def _about(self) -> Iterator[Note]:
        seeds = f", {self.n_seeds} pretraining seeds" if self.n_seeds > 1 else ""
        yield Note("training", f"{self.training}{seeds}")
        yield from data_notes(self.about)

    def _reached_notes(self) -> Iterator[Note]:
        least, most = (f"{share:.0%}" for share in SHARES)
        reached = f"the first checkpoint with {least} or {most} of the gain of the last one over the first"
        yield from self._about()
        yield Note("by", f"{reached}; {NOTHING} where that gain cannot be told from 0")
        yield Note("mean", "over the training: the area under the curve, divided by the number of updates")
        yield Note(INTERVAL, f"[ ] 95 %, {self.covers()}")
        if (variance := self.best_line.variance) is not None:
            parts = zip(variance, ("pretraining seeds", self.about.clusters, "both together"), strict=True)
            text = ", ".join(f"{share:.0%} {name}" for share, name in parts)
            yield Note("variance", f"of the last score of layer {self.best_line.layer}: {text}")


@dataclass(frozen=True)
class OrderTable:
    """The order in which tasks reach a share of their gain, each at the layer that is best at the last step."""

    training: str
    share: float
    tasks: tuple[str, ...]
    """The tasks with their layers, in the order in which they reach it."""
    before: Mapping[tuple[int, int], tuple[float, float]]
    """Shares of replicates in which the first of two tasks comes at an earlier checkpoint, and in which both come at
    the same one, by the places of both tasks."""
    about: TrainingTable

    def table(self) -> Table:
        """Tasks by tasks: how sure it is that one comes first."""
        lines = []
        for a, task in enumerate(self.tasks):
            shares = [self.before.get((a, b), (0.0, 0.0)) for b in range(len(self.tasks))]
            cells = [Cell(f"{100 * first:.0f}", f"({100 * same:.0f})", Score(first)) for first, same in shares]
            cells[a] = Cell("")
            lines.append(Line(task, tuple(cells)))
        numbers = (
            "% of replicates in which the task of the row comes at an earlier checkpoint than that of the column; in "
            "brackets those in which both come at the same one"
        )
        notes = (
            Note("training", self.training),
            Note("numbers", numbers),
            Note("layers", "each task is read at the layer that is best at the last step"),
            Note("replicates", self.about.covers()),
            *alignment_notes(self.about.about),
        )
        title = f"which task reaches {self.share:.0%} of its gain first, %"
        return Table(title, self.tasks, tuple(lines), notes, corner="Task")


def is_score_of_layer(row: ResultRow) -> bool:
    """Whether a row is the main score of a task at one layer of one checkpoint, as curves over steps are made of."""
    whole = row.group is None and row.head is None and row.layer is not None and row.step is not None
    return whole and row.main_metric and row.control == ITSELF and row.status == "ok" and row.init != "random"


def has_steps(rows: Sequence[ResultRow]) -> bool:
    """Whether some task has scores of layers at two checkpoints of a training."""
    return bool(_over_steps(rows))


def _over_steps(rows: Sequence[ResultRow]) -> set[tuple[str, str]]:
    """The tasks and trainings of which there are scores of layers at two checkpoints."""
    steps: dict[tuple[str, str], set[int | None]] = defaultdict(set)
    for row in filter(is_score_of_layer, rows):
        steps[row.task, row.training].add(row.step)
    return {key for key, of in steps.items() if len(of) > 1}


def beside_steps(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows that curves over steps do not show: models without steps, and tasks of heads at the last step."""
    shown = _over_steps(rows)
    left = [row for row in last_steps(rows) if row.step is None or (row.task, row.training) not in shown]
    tasks = {row.task for row in left if row.model is not None}  # the others have baselines alone
    return tuple(row for row in left if row.task in tasks)


def last_steps(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows without those of all but the last checkpoint of each training and pretraining seed."""
    last: dict[tuple[str, int | None], int] = {}
    for row in rows:
        if row.step is not None:
            key = row.training, row.pretraining_seed
            last[key] = max(row.step, last.get(key, 0))
    return tuple(row for row in rows if row.step is None or row.step == last[row.training, row.pretraining_seed])


def steps_shown(steps: Sequence[int], most: int = _MOST_STEPS) -> list[int]:
    """Indices of a limited number of steps, including the first and the last."""
    if len(steps) <= most:
        return list(range(len(steps)))
    return sorted({round(place * (len(steps) - 1) / (most - 1)) for place in range(most)})
