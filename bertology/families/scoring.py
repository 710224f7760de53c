"""From finished cells to scores with intervals: cells that share their items are counted and resampled together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.families.cells import Cell, CellRecord, read_cell
from bertology.families.tasks import BaselineCells, FitCells, Scoring
from bertology.measures import Bootstrap, Metric, bootstrap, over_runs
from bertology.results.predictions import Kept

# Bytes of the counts of several seeds that are scored together.
_TOGETHER = 1 << 26


@dataclass(frozen=True)
class Score:
    """A score that is not made of counts, as it is called in the column ``metric``."""

    name: str
    higher_is_better: bool


Scored = Metric | Score


@dataclass(frozen=True)
class Column:
    """Finished cells that share their items, scored together: the layers of one control and seed."""

    cells: tuple[Cell, ...]
    layers: tuple[int | None, ...]
    records: tuple[CellRecord, ...]
    scores: Mapping[str, Bootstrap]
    by_group: Mapping[tuple[str, str], Bootstrap] = field(default_factory=dict)
    """Of items that stand in groups, by metric and group."""
    n_entering: Mapping[str, int] = field(default_factory=dict)
    """By metric how many sentences enter it, of metrics that not every sentence enters."""


@dataclass(frozen=True)
class Mean:
    """The mean over several runs of the same cells, and its intervals over runs and sentences."""

    n_runs: int
    scores: Mapping[str, Bootstrap]
    by_group: Mapping[tuple[str, str], Bootstrap] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Sequence[Sequence[Column]]) -> Mean | None:
        """Of columns by draw of weights and seed; None of a single one.

        Several seeds of each of several draws are averaged within the draw, which is then what is resampled.
        """
        n_runs = sum(map(len, columns))
        if n_runs < 2:
            return None

        def mean(by_draw: Sequence[Sequence[Bootstrap]]) -> Bootstrap:
            many = len(by_draw) > 1
            return over_runs([over_runs(runs, draws_runs=False) for runs in by_draw] if many else by_draw[0])

        first = columns[0][0]
        return cls(
            n_runs,
            {name: mean([[one.scores[name] for one in of_draw] for of_draw in columns]) for name in first.scores},
            {key: mean([[one.by_group[key] for one in of_draw] for of_draw in columns]) for key in first.by_group},
        )


Counts = tuple[NDArray[Any], tuple[str, ...]]
"""``[layer, cluster, label, kind]`` counts, and the labels."""
Count = Callable[[Kept, Sequence[str], Sequence[Metric]], Counts]
"""Counts what metrics are made of, in the predictions of cells (by id) in a run's folder that share their items."""


def score_fits(
    cells: FitCells, scoring: Scoring, *, count: Count, metrics: Mapping[str, Sequence[Metric]]
) -> dict[tuple[str, int], Column]:
    """Columns by control and seed; predictions are read and counted for the metrics of each control."""
    columns: dict[tuple[str, int], Column] = {}
    for control in dict.fromkeys(control for control, _, _ in cells.cells):
        seeds = tuple(dict.fromkeys(seed for of, seed, _ in cells.cells if of == control))
        by_seed = [tuple(cells.cells[control, seed, layer] for layer in cells.layers) for seed in seeds]
        scored = _scored(by_seed, cells.layers, scoring, count, metrics[control])
        columns |= {(control, seed): column for seed, column in zip(seeds, scored, strict=True)}
    return columns


def score_baselines(
    baselines: BaselineCells, scoring: Scoring, *, count: Count, metrics: Sequence[Metric]
) -> dict[str, Column]:
    """Columns by baseline."""
    cells = baselines.cells.items()
    return {control: next(_scored([(cell,)], (None,), scoring, count, metrics)) for control, cell in cells}


def records_of(run: Path, cells: Sequence[Cell]) -> tuple[CellRecord, ...]:
    """The records of finished cells."""
    records = []
    for cell in cells:
        if (record := read_cell(run, cell)) is None:
            raise RuntimeError(f"cell {cell.id} is not finished")
        records.append(record)
    return tuple(records)


def _scored(
    problems: Sequence[tuple[Cell, ...]],
    layers: tuple[int | None, ...],
    scoring: Scoring,
    count: Count,
    metrics: Sequence[Metric],
) -> Iterator[Column]:
    """A column for each of several problems; those with counts of one shape are resampled together."""
    waiting: list[tuple[tuple[Cell, ...], Counts]] = []
    for cells in problems:
        counts, labels = count(scoring.run, [cell.id for cell in cells], metrics)
        if waiting:
            first, first_labels = waiting[0][1]
            alike = first_labels == labels and first.shape == counts.shape
            if not alike or (len(waiting) + 1) * first.nbytes > _TOGETHER:
                yield from _resampled(waiting, layers, scoring, metrics)
                waiting = []
        waiting.append((cells, (counts, labels)))
    yield from _resampled(waiting, layers, scoring, metrics)


def _resampled(
    problems: Sequence[tuple[tuple[Cell, ...], Counts]],
    layers: tuple[int | None, ...],
    scoring: Scoring,
    metrics: Sequence[Metric],
) -> Iterator[Column]:
    every, labels = np.concatenate([counts for _, (counts, _) in problems]), problems[0][1][1]
    scores = bootstrap(every, metrics, labels=labels, n_resamples=scoring.n_resamples, seed=scoring.seed)
    for number, (cells, (counts, _)) in enumerate(problems):
        places = slice(number * len(layers), (number + 1) * len(layers))
        entering = {metric.name: int(metric.enters(counts[0], labels).sum()) for metric in metrics if metric.enters}
        of_cells = {name: _columns_of(whole, places) for name, whole in scores.items()}
        yield Column(cells, layers, records_of(scoring.run, cells), of_cells, n_entering=entering)


def _columns_of(scores: Bootstrap, places: slice) -> Bootstrap:
    """Some of the columns of a bootstrap."""
    by_column = ("values", "stderr", "ci_low", "ci_high", "ci_methods")
    chosen = {name: getattr(scores, name)[places] for name in by_column}
    chosen |= {name: getattr(scores, name)[:, places] for name in ("replicates", "jackknife")}
    return replace(scores, **chosen)
