"""Scores over the checkpoints of a training: intervals over sentences and pretraining seeds, and what comes first."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._names import short_names
from bertology.errors import ResultsError
from bertology.families.contract import family_of
from bertology.families.models import metric_of, scored_items, scores_of_cells, shared_items
from bertology.measures import multibootstrap, over_runs
from bertology.measures.intervals import MultiBootstrap, before, mean_over_steps, step_reached
from bertology.measures.metrics import CONTROLS
from bertology.probing import get_probe
from bertology.results import OverSteps, ResultRow, Results
from bertology.results.rows import Score, mean_score, own_baselines
from bertology.results.views import SHARES, LayerOverSteps, OrderTable, TrainingTable, is_score_of_layer

N_REPLICATES = 1000
"""Number of bootstrap replicates, that of the notebooks of Sellam et al. (2022)."""
_LEAST_GAIN = 0.01  # minimum gain over the first checkpoint for scores without an interval
_Cells = Mapping[int, Sequence[ResultRow]]  # the rows of all fits of one checkpoint of one pretraining seed, by layer
_Steps = Mapping[tuple[int | None, int], _Cells]  # the cells by pretraining seed and step
_Reached = Mapping[tuple[int, float], NDArray[np.float64]]
"""The ``[resample]`` step at which a share is reached, by layer and share; none without replicates."""


def over_steps(results: Results, *, n_resamples: int = N_REPLICATES, seed: int = 0) -> OverSteps:
    """Each task that was read at several checkpoints of a training: see :meth:`bertology.results.Results.over_steps`.

    Raises:
        ResultsError: no training has two checkpoints.
    """
    trainings: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in results.rows:
        if is_score_of_layer(row):
            same = row.task, row.task_version, row.corpus, row.corpus_fingerprint, row.split, row.metric, row.pooling
            trainings[*same, row.reading, row.training, row.init].append(row)
    names = short_names(row.training for rows in trainings.values() for row in rows)
    curves = [
        _Training(results, rows, names[rows[0].training], n_resamples, seed).curve()
        for rows in trainings.values()
        if len({row.step for row in rows}) > 1
    ]
    if not curves:
        raise ResultsError("no training has two checkpoints here: probe a model with checkpoints=, such as all")
    tables = _apart([table for table, _ in curves])
    return OverSteps(tables, tuple(_orders(tables, [reached for _, reached in curves])))


def _apart(tables: Sequence[TrainingTable]) -> tuple[TrainingTable, ...]:
    """The tables, those of one task and training named by their corpus or readout too."""
    keys = [(table.task, table.training) for table in tables]
    corpora = {(table.about.corpus, table.about.split) for table in tables}
    named = []
    for key, table in zip(keys, tables, strict=True):
        about = table.about
        more = [f"{about.corpus} {about.split}"] if len(corpora) > 1 else [about.reading, about.pooling or ""]
        named.append(replace(table, task=" ".join([table.task, *more])) if keys.count(key) > 1 else table)
    return tuple(named)


@dataclass(frozen=True)
class _Training:
    """The rows of one task over one training, or over several that differ in their seed."""

    results: Results
    rows: Sequence[ResultRow]
    name: str
    n_resamples: int
    seed: int

    def curve(self) -> tuple[TrainingTable, _Reached]:
        """The table of this task and training, and what an order of tasks is made of."""
        steps, every, left_out = self._steps()
        seeds = tuple(dict.fromkeys(of for of, _ in every))
        layers = sorted(set.intersection(*(set(cells) for cells in every.values())))
        first, bootstrapped = self.rows[0], self._bootstrapped(every, steps, seeds, layers)
        lines, reached = list[LayerOverSteps](), dict[tuple[int, float], NDArray[np.float64]]()
        for place, layer in enumerate(layers):
            scores = tuple(
                _score([row for of in seeds for row in every[of, step][layer]], one, place, n_seeds=len(seeds))
                for step, one in itertools.zip_longest(steps, (scores for scores, _ in bootstrapped))
            )
            replicates = np.stack([one.replicates[:, place] for _, one in bootstrapped], -1) if bootstrapped else None
            line, steps_of = _line(layer, scores, replicates, steps, higher_is_better=first.higher_is_better)
            if bootstrapped and len(seeds) > 1:
                shares = bootstrapped[-1][1].variance.shares[:, place].tolist()
                line = replace(line, variance=None if np.isnan(shares).any() else tuple(shares))
            lines.append(line)
            reached |= {(layer, share): at for share, at in steps_of.items()}
        table = TrainingTable(
            first.task, first.metric, self.name, tuple(steps), tuple(lines), first, seeds,
            self.n_resamples if bootstrapped else 0, self._baselines(), left_out,
        )  # fmt: skip
        return table, reached

    def _steps(self) -> tuple[list[int], _Steps, tuple[int, ...]]:
        """The steps that all pretraining seeds have, their cells, and the other steps."""
        cells: dict[tuple[int | None, int], dict[int, list[ResultRow]]] = defaultdict(lambda: defaultdict(list))
        for row in self.rows:
            assert row.step is not None and row.layer is not None  # noqa: PT018 - rows without were left out before
            cells[row.pretraining_seed, row.step][row.layer].append(row)
        by_seed: dict[int | None, set[int]] = defaultdict(set)
        for of, step in cells:
            by_seed[of].add(step)
        known = set.intersection(*by_seed.values())
        if len(known) < 2:
            raise ResultsError(
                f"task {self.rows[0].task}, {self.name}: pretraining seeds have fewer than two steps in common"
            )
        others = set.union(*by_seed.values()) - known
        ordered = sorted(cells.items(), key=lambda one: (one[0][0] or 0, one[0][1]))
        return sorted(known), {key: of for key, of in ordered if key[1] in known}, tuple(sorted(others))

    def _bootstrapped(
        self, every: _Steps, steps: Sequence[int], seeds: Sequence[int | None], layers: Sequence[int]
    ) -> list[tuple[Any, MultiBootstrap]]:
        """The mean over seeds with its interval, and the multi-bootstrap, of all layers, by step.

        Nothing where predictions of items are not kept that the metric can be made of anew. The runs of one step are in
        memory at a time.
        """
        first, metric = self.rows[0], metric_of(self.rows[0])
        has_all = all(row.cell_id in self.results.kept for row in self.rows)
        if metric is None or not has_all or not family_of(get_probe(first.task)).keeps_items:
            return []
        firsts, items = [next(iter(cells.values()))[0] for cells in every.values()], None
        if len({row.n_items for row in firsts}) > 1 or any(row.n_skipped for row in firsts):
            # The items that all checkpoints were scored on, unless these are all items of each.
            scored = [scored_items(self.results, row) for row in firsts]
            items = shared_items(scored, f"task {first.task}, {self.name}")
        settings: dict[str, Any] = {"items": items, "n_resamples": self.n_resamples, "seed": self.seed}
        found = []
        for step in steps:
            runs = []
            for cells in (every[of, step] for of in seeds):
                fits = range(min(len(cells[layer]) for layer in layers))
                by_fit = ([cells[layer][fit] for layer in layers] for fit in fits)
                runs.append([scores_of_cells(self.results, rows, metric, **settings) for rows in by_fit])
            mean = over_runs([over_runs(of_seed, draws_runs=False) for of_seed in runs])
            found.append((mean, multibootstrap(runs, rescaled=True)))
        return found

    def _baselines(self) -> dict[str, Score]:
        """The baselines of the task, by what tables call them."""
        first = self.rows[0]
        same = ("task", "corpus_fingerprint", "split", "metric", "group")
        of_task = [row for row in self.results.rows if all(getattr(row, name) == getattr(first, name) for name in same)]
        found = {}
        for control in CONTROLS:
            of_control = [row for row in of_task if row.control == control and row.is_baseline]
            rows = own_baselines([row for row in of_control if row.value is not None], None)
            if score := mean_score(rows[:1]):
                found[rows[0].note[0]] = score
        return found


def _score(rows: Sequence[ResultRow], over_seeds: Any, place: int, *, n_seeds: int) -> Score:
    """The score at one step: of one pretraining seed that of its rows, with their interval."""
    if n_seeds > 1 and over_seeds is not None:
        return Score(*(float(getattr(over_seeds, name)[place]) for name in ("values", "ci_low", "ci_high")))
    if n_seeds > 1:
        return Score(float(np.mean([row.value for row in rows])))
    score = mean_score(rows)
    assert score is not None  # every row has a value
    return score


def _line(
    layer: int,
    scores: tuple[Score, ...],
    replicates: NDArray[np.float64] | None,
    steps: Sequence[int],
    *,
    higher_is_better: bool,
) -> tuple[LayerOverSteps, dict[float, NDArray[np.float64]]]:
    """A layer of a table, and by share the steps ``[resample]`` at which replicates ``[resample, step]`` reach it."""
    sign = 1.0 if higher_is_better else -1.0
    values = sign * np.array([score.value for score in scores])
    gain = float(values[-1] - values[0])
    mean = Score(sign * float(mean_over_steps(values, steps)))
    if replicates is None:
        at = {share: Score(float(step_reached(values, steps, share))) for share in SHARES}
        reached = at if gain > _LEAST_GAIN else dict.fromkeys(SHARES)
        return LayerOverSteps(layer, scores, Score(gain), None, reached, mean), {}
    signed = sign * replicates
    gains = signed[:, -1] - signed[:, 0]
    low, high = np.quantile(gains, (0.025, 0.975)).tolist()
    drawn = {share: step_reached(signed, steps, share) for share in SHARES}
    bounds = {
        share: (float(np.quantile(of, 0.025, method="lower")), float(np.quantile(of, 0.975, method="higher")))
        for share, of in drawn.items()
    }
    is_gain = low > 0 and gain > 0
    reached = {
        share: Score(float(step_reached(values, steps, share)), *bounds[share]) if is_gain else None for share in SHARES
    }
    means = np.quantile(sign * mean_over_steps(signed, steps), (0.025, 0.975)).tolist()
    p_gain = max(float((gains <= 0).mean()), 1 / len(gains))
    line = LayerOverSteps(layer, scores, Score(gain, low, high), p_gain, reached, Score(mean.value, *means))
    return line, drawn if is_gain else {}


def _orders(tables: Sequence[TrainingTable], reached: Sequence[_Reached]) -> Iterator[OrderTable]:
    """For each training and share of the gain, the tasks that reach it, each at its best layer at the last step."""
    for training in dict.fromkeys(table.training for table in tables):
        for share in SHARES:
            known = [
                (table, steps[table.best_line.layer, share])
                for table, steps in zip(tables, reached, strict=True)
                if table.training == training and (table.best_line.layer, share) in steps
            ]
            if len(known) < 2:
                continue
            known.sort(key=lambda one: float(one[1].mean()))
            pairs = itertools.permutations(range(len(known)), 2)
            tasks = tuple(f"{table.task}, layer {table.best_line.layer}" for table, _ in known)
            chances = {(a, b): before(known[a][1], known[b][1]) for a, b in pairs}
            yield OrderTable(training, share, tasks, chances, known[0][0])
