"""Scores over the checkpoints of a training: tables of layers by steps, and which task comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertology._names import layer_label
from bertology.results.tables.rows import ResultRow, clusters_of, training_of
from bertology.results.views.grid import (
    NOTHING,
    Cell,
    Grid,
    GridLine,
    Note,
    alignment_notes,
    data_of,
    metric_title,
    score_cell,
    unit,
)
from bertology.results.views.layers import Score

SHARES = (0.9, 0.97)
"""Of the gain of the last checkpoint over the first, of which it is said when they are reached."""
_MOST_STEPS = 9


@dataclass(frozen=True)
class LayerOverSteps:
    """One layer of one task over a training."""

    layer: int
    scores: tuple[Score, ...]
    """``[step]``"""
    gain: Score
    """Of the last checkpoint over the first, above 0 where it is better, whichever way the metric points."""
    p_gain: float | None
    """One-sided: that there is no gain; None where there is no interval."""
    reached: Mapping[float, Score | None]
    """By share of the gain the first checkpoint that has it; None where there is no gain to tell from 0."""
    mean: Score
    """Over the training: the area under the curve, divided by the number of updates."""
    variance: tuple[float, float, float] | None = None
    """Shares that pretraining seeds, clusters of items, and both together have in the variance of the last score; None
    of a single seed."""


@dataclass(frozen=True)
class TrainingTable:
    """One task over one training, or over several that differ in their seed alone."""

    task: str
    metric: str
    training: str
    """What the checkpoints have in common of their names."""
    steps: tuple[int, ...]
    lines: tuple[LayerOverSteps, ...]
    about: ResultRow
    pretraining_seeds: tuple[int | None, ...]
    n_resamples: int
    """Of the bootstrap; 0 where predictions of items are not kept, so that there are no intervals over them."""
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


@dataclass(frozen=True)
class OrderTable:
    """Which task reaches a share of its gain first, each at the layer that is best at the last step."""

    training: str
    share: float
    tasks: tuple[str, ...]
    """With their layers, in the order in which they reach it."""
    before: Mapping[tuple[int, int], tuple[float, float]]
    """By places of two tasks: the share of replicates in which the first comes at an earlier checkpoint, and in which
    both come at the same one."""
    about: TrainingTable


def is_score_of_layer(row: ResultRow) -> bool:
    """Whether a row is the main score of a task at one layer of one checkpoint, as curves over steps are made of."""
    whole = row.group is None and row.head is None and row.layer is not None and row.step is not None
    return whole and row.main_metric and row.control == "none" and row.status == "ok" and row.init != "random"


def has_steps(rows: Sequence[ResultRow]) -> bool:
    """Whether some task has scores of layers at two checkpoints of a training."""
    return bool(_over_steps(rows))


def _over_steps(rows: Sequence[ResultRow]) -> set[tuple[str, str]]:
    """The tasks and trainings of which there are scores of layers at two checkpoints."""
    steps: dict[tuple[str, str], set[int | None]] = defaultdict(set)
    for row in filter(is_score_of_layer, rows):
        steps[row.task, training_of(row)].add(row.step)
    return {key for key, of in steps.items() if len(of) > 1}


def beside_steps(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """What curves over steps do not show: models without steps, and tasks such as those of heads, at the last step."""
    shown = _over_steps(rows)
    left = [row for row in last_steps(rows) if row.step is None or (row.task, training_of(row)) not in shown]
    tasks = {row.task for row in left if row.model is not None}  # the others have baselines alone
    return tuple(row for row in left if row.task in tasks)


def last_steps(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows without those of all but the last checkpoint of each training and pretraining seed."""
    last: dict[tuple[str, int | None], int] = {}
    for row in rows:
        if row.step is not None:
            key = training_of(row), row.pretraining_seed
            last[key] = max(row.step, last.get(key, 0))
    return tuple(row for row in rows if row.step is None or row.step == last[training_of(row), row.pretraining_seed])


def steps_shown(steps: Sequence[int], most: int = _MOST_STEPS) -> list[int]:
    """Places of at most so many steps, the first and the last among them."""
    if len(steps) <= most:
        return list(range(len(steps)))
    return sorted({round(place * (len(steps) - 1) / (most - 1)) for place in range(most)})


def training_grid(table: TrainingTable, *, every: bool = False) -> Grid:
    """Layers by steps; all steps, or as many as fit."""
    shown = list(range(len(table.steps))) if every else steps_shown(table.steps)
    lines = [
        GridLine(
            layer_label(line.layer),
            tuple(score_cell(line.scores[place], table.metric, interval=False) for place in shown),
        )
        for line in table.lines
    ]
    for name, score in table.baselines.items():
        cells = (score_cell(score, table.metric, interval=False),) * len(shown)
        lines.append(GridLine(name, cells, baseline=True))
    headers = tuple(f"{table.steps[place]:,}" for place in shown)
    title = f"{table.task} · {metric_title(table.metric)} by updates of training{unit(table.metric)}"
    notes = [*_about(table), Note("intervals", "are in the figure and in the CSV")]
    if hidden := len(table.steps) - len(shown):
        notes.append(Note("steps", f"{hidden} more in the CSV, for want of room"))
    if table.left_out:
        notes.append(Note("left out", f"steps that not all seeds have: {', '.join(map(str, table.left_out))}"))
    return Grid(title, headers, tuple(lines), tuple(notes))


def reached_grid(table: TrainingTable) -> Grid:
    """Layers by what is known of the whole training: the last score, when most of the gain is reached, the mean."""
    lines = []
    for line in table.lines:
        reached = (_step_cell(line.reached.get(share)) for share in SHARES)
        last = score_cell(line.scores[-1], table.metric)
        mean = score_cell(line.mean, table.metric, interval=False)
        lines.append(GridLine(layer_label(line.layer), (last, *reached, mean)))
    headers = (f"at {table.steps[-1]:,}", *(f"{share:.0%} by" for share in SHARES), "mean")
    title = f"{table.task} · {metric_title(table.metric)}{unit(table.metric)}, and when it is reached"
    return Grid(title, headers, tuple(lines), tuple(_reached_notes(table)))


def _step_cell(score: Score | None) -> Cell:
    if score is None:
        return Cell(NOTHING)
    bounds = [] if score.low is None or score.high is None else [score.low, score.high]
    interval = f"[{', '.join(f'{bound:,.0f}' for bound in bounds)}]" if bounds else ""
    return Cell(f"{score.value:,.0f}", interval, score)


def _about(table: TrainingTable) -> list[Note]:
    seeds = f", {table.n_seeds} pretraining seeds" if table.n_seeds > 1 else ""
    return [
        Note("training", f"{table.training}{seeds}"),
        Note("data", data_of(table.about)),
        *alignment_notes(table.about),
    ]


def _reached_notes(table: TrainingTable) -> list[Note]:
    least, most = (f"{share:.0%}" for share in SHARES)
    reached = f"the first checkpoint with {least} or {most} of the gain of the last one over the first"
    notes = [
        *_about(table),
        Note("by", f"{reached}; {NOTHING} where that gain cannot be told from 0"),
        Note("mean", "over the training: the area under the curve, divided by the number of updates"),
        Note("interval", f"[ ] 95 %, {_over(table)}"),
    ]
    variance = table.best_line.variance
    if variance is not None:
        parts = zip(variance, ("pretraining seeds", clusters_of(table.about), "both together"), strict=True)
        text = ", ".join(f"{share:.0%} {name}" for share, name in parts)
        notes.append(Note("variance", f"of the last score of layer {table.best_line.layer}: {text}"))
    return notes


def _over(table: TrainingTable) -> str:
    if not table.n_resamples:
        return "of scores as in the tables by layer; predictions of items are not kept, so there are none of steps"
    if table.n_seeds > 1:
        of = f"test {clusters_of(table.about)} (multi-bootstrap, {table.n_resamples:,} replicates)"
        return f"over pretraining seeds × {of}"
    return (
        f"over test {clusters_of(table.about)} ({table.n_resamples:,} replicates); not over pretraining seeds, of "
        "which there is one"
    )


def order_grid(order: OrderTable) -> Grid:
    """Tasks by tasks: how sure it is that one comes first."""
    places = range(len(order.tasks))
    lines = []
    for a in places:
        cells = []
        for b in places:
            first, same = order.before.get((a, b), (0.0, 0.0))
            cell = Cell(f"{100 * first:.0f}", f"({100 * same:.0f})", Score(first))
            cells.append(Cell("") if a == b else cell)
        lines.append(GridLine(order.tasks[a], tuple(cells)))
    notes = (
        Note("training", order.training),
        Note("numbers", "% of replicates in which the task of the row comes at an earlier checkpoint than that of the "
             "column; in brackets those in which both come at the same one"),
        Note("layers", "each task is read at the layer that is best at the last step"),
        Note("replicates", f"{_over(order.about)}"),
        *alignment_notes(order.about.about),
    )  # fmt: skip
    title = f"which task reaches {order.share:.0%} of its gain first, %"
    return Grid(title, order.tasks, tuple(lines), notes, corner="Task")
