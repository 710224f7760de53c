"""Scores over the checkpoints of a training: intervals over sentences and pretraining seeds, and what comes first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._names import layer_label, short_names
from bertology.errors import ResultsError
from bertology.families.contract import family_of
from bertology.families.models import metric_of, scored_items, scores_of_cells, shared_items
from bertology.measures import multibootstrap, over_runs
from bertology.measures.intervals import MultiBootstrap, before, mean_over_steps, step_reached
from bertology.measures.metrics import CONTROLS
from bertology.probing import get_probe
from bertology.results import OverSteps, ResultRow, Results
from bertology.results import table as shown
from bertology.results.rows import Score, grouped, mean_score, own_baselines
from bertology.results.table import NOTHING, Cell, Note, Table
from bertology.results.views import StepTable, is_score_of_layer

N_REPLICATES = 1000
"""Number of bootstrap replicates, that of the notebooks of Sellam et al. (2022)."""
SHARES = (0.9, 0.97)
"""Shares of the gain of the last checkpoint over the first, of which the steps are shown that reach them."""
_NOTES = {
    "gain": "of the last checkpoint over the first",
    "by": f"the first checkpoint with that share of the gain; {NOTHING} where it cannot be told from 0",
    "mean": "over the training: the area under the curve, divided by the number of updates",
}
_LEAST_GAIN = 0.01  # minimum gain over the first checkpoint for scores without an interval
_Cells = Mapping[int, Sequence[ResultRow]]  # the rows of all fits of one checkpoint of one pretraining seed, by layer
_Steps = Mapping[tuple[int | None, int], _Cells]  # the cells by pretraining seed and step


def over_steps(results: Results, *, n_resamples: int = N_REPLICATES, seed: int = 0) -> OverSteps:
    """Each task that was read at several checkpoints of a training: see :meth:`bertology.results.Results.over_steps`.

    Raises:
        ResultsError: no training has two checkpoints.
    """
    same = ("task", "task_version", "corpus", "corpus_fingerprint", "split", "metric", "pooling", "reading")
    scores = [row for row in results.rows if is_score_of_layer(row)]
    names, settings = short_names(row.training for row in scores), {"n_resamples": n_resamples, "seed": seed}
    tables = [
        _curve(results, rows, names[rows[0].training], settings)
        for rows in grouped(scores, *same, "training", "init").values()
        if len({row.step for row in rows}) > 1
    ]
    if not tables:
        raise ResultsError("no training has two checkpoints here: probe a model with checkpoints=, such as all")
    # Tables of one task and training are named by their corpus or readout too.
    keys = [(table.task, table.training) for table in tables]
    several = len({(table.row.corpus, table.row.split) for table in tables}) > 1
    for place, (key, table) in enumerate(zip(keys, tables, strict=True)):
        if keys.count(key) > 1:
            about = table.row
            more = [f"{about.corpus} {about.split}"] if several else [about.reading, about.pooling or ""]
            title = table.title.replace(table.task, " ".join([table.task, *more]), 1)
            tables[place] = replace(table, title=title)
    return OverSteps(tuple(tables), tuple(_orders(tables)))


def _curve(results: Results, rows: Sequence[ResultRow], name: str, settings: Mapping[str, int]) -> StepTable:
    """The table of one task over one training, or over several that differ in their seed."""
    first = rows[0]
    cells = {key: grouped(of, "layer") for key, of in grouped(rows, "pretraining_seed", "step").items()}
    seeds = sorted({of for of, _ in cells}, key=lambda of: of or 0)
    by_seed = [{step for of, step in cells if of == seed} for seed in seeds]
    known = set.intersection(*by_seed)
    if len(known) < 2:
        raise ResultsError(f"task {first.task}, {name}: pretraining seeds have fewer than two steps in common")
    steps, left_out = sorted(known), tuple(sorted(set.union(*by_seed) - known))
    every = {(of, step): cells[of, step] for of in seeds for step in steps}
    layers = sorted(set.intersection(*(set(of) for of in every.values())))
    bootstrapped = _bootstrapped(results, rows, every, layers, name, settings)
    sign, lines, drawn = (1.0 if first.higher_is_better else -1.0), dict[Any, list[Any]](), {}
    for place, layer in enumerate(layers):
        scores = list[Score]()
        for number, step in enumerate(steps):
            fits = [row for of in seeds for row in every[of, step][layer]]
            if len(seeds) > 1 and bootstrapped:
                parts = (getattr(bootstrapped[number][0], part)[place] for part in ("values", "ci_low", "ci_high"))
                scores.append(Score(*map(float, parts)))
            elif len(seeds) > 1:
                scores.append(Score(float(np.mean([row.value for row in fits]))))
            elif (score := mean_score(fits)) is not None:  # with its interval; every row has a value
                scores.append(score)
        replicates = np.stack([one.replicates[:, place] for _, one in bootstrapped], -1) if bootstrapped else None
        gained, drawn[layer] = _gains(scores, replicates, steps, sign)
        lines[layer] = [*gained, *scores]
    best = max(layers, key=lambda layer: (sign * lines[layer][-1].value, -layer))
    baselines = _baselines(results, first)
    n_columns = len(lines[best]) - len(steps)
    lines |= {label: [""] * n_columns + [score] * len(steps) for label, score in baselines.items()}
    n_resamples = settings["n_resamples"] if bootstrapped else 0
    variance = ""
    if bootstrapped and len(seeds) > 1:
        variance = _variance(bootstrapped[-1][1], layers.index(best), best, first.clusters)
    covers = _covers(first, len(seeds), n_resamples)
    notes = {
        "training": name + (f", {len(seeds)} pretraining seeds" if len(seeds) > 1 else ""),
        **{note.about: note.text for note in shown.data_notes(first) if note.about != "model"},
        **_NOTES,
        shown.INTERVAL: f"[ ] 95 %, {covers}; of all steps in the figure and in the CSV",
        "variance": variance,
        "left out": f"steps that not all seeds have: {', '.join(map(str, left_out))}" if left_out else "",
    }
    return StepTable.of(
        f"{first.task} · {shown.metric_title(first.metric)} by updates of training{shown.unit(first.metric)}",
        ["gain", *(f"{share:.0%} by" for share in SHARES), "mean", *(f"{step:,}" for step in steps)],
        lines,
        [Note(about, text) for about, text in notes.items() if text],
        metric=first.metric,
        intervals={n_columns + len(steps) - 1},
        labels={key: layer_label(key) if isinstance(key, int) else key for key in lines},
        baselines=baselines,
        about=first,
        behind={layer: every[seeds[0], steps[0]][layer][0] for layer in layers},
        series=len(steps),
        training=name,
        steps=tuple(steps),
        n_seeds=len(seeds),
        best_layer=best,
        drawn=drawn[best],
    )


def _baselines(results: Results, first: ResultRow) -> dict[str, Score]:
    """The baselines of the task of a row, by what tables call them."""
    same = ("task", "corpus_fingerprint", "split", "metric", "group")
    of_task = [row for row in results.rows if row.is_baseline and row.value is not None]
    of_task = [row for row in of_task if all(getattr(row, one) == getattr(first, one) for one in same)]
    baselines = {}
    for control in CONTROLS:
        own = own_baselines([row for row in of_task if row.control == control], None)
        if score := mean_score(own[:1]):
            baselines[own[0].note[0]] = score
    return baselines


def _variance(found: MultiBootstrap, place: int, layer: int, clusters: str) -> str:
    """Shares that pretraining seeds, clusters of items, and both together have in the variance of a layer's score."""
    shares = found.variance.shares[:, place]
    parts = zip(shares.tolist(), ("pretraining seeds", clusters, "both together"), strict=True)
    text = ", ".join(f"{share:.0%} {what}" for share, what in parts)
    return "" if np.isnan(shares).any() else f"of the last score of layer {layer}: {text}"


def _covers(about: ResultRow, n_seeds: int, n_resamples: int) -> str:
    """The sampling that intervals cover; without replicates, where predictions of items are not kept, none of steps."""
    if not n_resamples:
        return "of scores as in the tables by layer; predictions of items are not kept, so there are none of steps"
    if n_seeds > 1:
        return f"over pretraining seeds × test {about.clusters} (multi-bootstrap, {n_resamples:,} replicates)"
    alone = "not over pretraining seeds, of which there is one"
    return f"over test {about.clusters} ({n_resamples:,} replicates); {alone}"


def _bootstrapped(
    results: Results,
    rows: Sequence[ResultRow],
    every: _Steps,
    layers: Sequence[int],
    name: str,
    settings: Mapping[str, int],
) -> list[tuple[Any, MultiBootstrap]]:
    """The mean over seeds with its interval, and the multi-bootstrap, of all layers, by step.

    Nothing where predictions of items are not kept that the metric can be made of anew. The runs of one step are in
    memory at a time.
    """
    metric, task = metric_of(rows[0]), rows[0].task
    has_all = all(row.cell_id in results.kept for row in rows)
    if metric is None or not has_all or not family_of(get_probe(task)).keeps_items:
        return []
    firsts, items = [next(iter(cells.values()))[0] for cells in every.values()], None
    if len({row.n_items for row in firsts}) > 1 or any(row.n_skipped for row in firsts):
        # The items that all checkpoints were scored on, unless these are all items of each.
        items = shared_items([scored_items(results, row) for row in firsts], f"task {task}, {name}")
    found = []
    for step in sorted({step for _, step in every}):
        runs = []
        for cells in (cells for (_, at), cells in every.items() if at == step):
            by_fit = zip(*(cells[layer] for layer in layers), strict=False)  # the fits that all layers have
            runs.append([scores_of_cells(results, list(fits), metric, items=items, **settings) for fits in by_fit])
        mean = over_runs([over_runs(of_seed, draws_runs=False) for of_seed in runs])
        found.append((mean, multibootstrap(runs, rescaled=True)))
    return found


def _gains(
    scores: Sequence[Score], replicates: NDArray[np.float64] | None, steps: Sequence[int], sign: float
) -> tuple[list[Any], Mapping[float, NDArray[np.float64]]]:
    """The columns before the scores of a layer, from these and their replicates ``[resample, step]``, whose gains have
    the sign; and the ``[resample]`` checkpoints that have each share of the gain, none where that is not sure."""
    values = sign * np.array([score.value for score in scores])
    gain, drawn = float(values[-1] - values[0]), dict[float, NDArray[np.float64]]()
    gain_bounds, mean_bounds, bounds, is_gain = [], [], dict[float, tuple[float, float]](), gain > _LEAST_GAIN
    if replicates is not None:
        signed = sign * replicates
        gains = signed[:, -1] - signed[:, 0]
        gain_bounds = np.quantile(gains, (0.025, 0.975)).tolist()
        mean_bounds = np.quantile(sign * mean_over_steps(signed, steps), (0.025, 0.975)).tolist()
        is_gain = gain_bounds[0] > 0 and gain > 0
        drawn = {share: step_reached(signed, steps, share) for share in SHARES if is_gain}
        for share, at in drawn.items():
            low, high = np.quantile(at, 0.025, method="lower"), np.quantile(at, 0.975, method="higher")
            bounds[share] = float(low), float(high)
    reached = {
        share: Score(float(step_reached(values, steps, share)), *bounds.get(share, ())) if is_gain else None
        for share in SHARES
    }
    mean = Score(sign * float(mean_over_steps(values, steps)), *mean_bounds)
    by = [shown.formatted_cell(reached[share], ",.0f") for share in SHARES]
    return [Score(gain, *gain_bounds), *by, mean], drawn


def _orders(tables: Sequence[StepTable]) -> Iterator[Table]:
    """For each training and share of the gain, how sure it is which of the tasks reaches it first."""
    numbers = (
        "% of replicates in which the task of the row comes at an earlier checkpoint than that of the column; in "
        "brackets those in which both come at the same one"
    )
    for training in dict.fromkeys(table.training for table in tables):
        for share in SHARES:
            known = [table for table in tables if table.training == training and share in table.drawn]
            if len(known) < 2:
                continue
            known.sort(key=lambda table: float(table.drawn[share].mean()))
            drawn = {f"{table.subject}, layer {table.best_layer}": table.drawn[share] for table in known}
            rows: dict[str, list[Cell | str]] = {}
            for task, own in drawn.items():
                shares = [before(own, other) for other in drawn.values()]
                rows[task] = [Cell(f"{100 * first:.0f}", f"({100 * same:.0f})", Score(first)) for first, same in shares]
                rows[task][list(drawn).index(task)] = ""
            notes = (
                Note("training", training),
                Note("numbers", numbers),
                Note("layers", "each task is read at the layer that is best at the last step"),
                Note("replicates", _covers(known[0].row, known[0].n_seeds, len(known[0].drawn[share]))),
                *shown.alignment_notes(known[0].row),
            )
            yield Table.of(f"which task reaches {share:.0%} of its gain first, %", drawn, rows, notes, corner="Task")
