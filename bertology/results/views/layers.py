"""From tidy rows to what a person reads: a table of layers for each task."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertology._names import name_not_found
from bertology.errors import ResultsError
from bertology.measures.comparisons import best_set
from bertology.results.tables.controls import CONTROLS, is_baseline, note_of, own_baselines
from bertology.results.tables.rows import ComparisonRow, ResultRow, comparison_of, param_of, reading_of, reasons_of

FALSE_DISCOVERY_RATE = 0.05
INITS = {"pretrained": "", "random_blocks": "random blocks over pretrained embeddings", "random": "random weights"}
"""How a model's weights may have been initialised, and how tables put it."""
COLUMNS: Mapping[str, str] = {
    "main": "",
    "second": "",
    "random_init": "random init",
    "control_task": "control task",
    "selectivity": "selectivity",
    "blind": "blind",
    "rescaled": "rescaled",
    "refit": "refitted",
    "reference": "reference",
    "completeness": "gone",
    "others_kept": "others kept",
}
"""The scores of a :class:`LayerLine` by field, controls among them, and what every format of a table calls each; the
first two by their metric."""
_METRIC_ORDER = (
    *("accuracy", "macro_f1", "micro_f1", "uuas", "dspr", "root_accuracy", "nspr", "uas", "las"),
    *("p_at_1", "p_at_10", "mrr", "choice_accuracy", "sensitivity", "consistency", "moved", "probability_lost"),
)


@dataclass(frozen=True)
class Score:
    """A value with its interval; fractions, not percentages."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class LayerLine:
    """One layer of one table. Of several seeds or draws of random weights, scores are means over them, with intervals
    over runs and sentences; of some of the runs, bounds are means of bounds."""

    layer: int
    main: Score | None
    """None if its cells failed."""
    second: Score | None
    random_init: Score | None
    control_task: Score | None
    selectivity: Score | None
    seed_spread: float | None
    """Standard deviation over seeds of the main metric."""
    by_seed: Mapping[int, Score]
    """The main metric's score of each seed."""
    in_best_set: bool | None
    """Whether the layer is not separable from the best one; None where layers were not compared."""
    blind: Score | None = None
    """Of texts without what decides."""
    rescaled: Score | None = None
    """Of a frozen readout: on vectors with mean and spread of the reference's in each dimension."""
    refit: Score | None = None
    """Of a frozen readout's task: with a readout fitted to the model itself."""
    reference: Score | None = None
    """The same of the reference model, to which the frozen readout was fitted."""
    completeness: Score | None = None
    """Of an intervention: the share of what an oracle finds of the property that is gone."""
    others_kept: Score | None = None
    """Of an intervention: the share of what oracles find of other properties that is still there."""
    strengths: tuple[float, ...] = ()
    """The regularisation chosen on dev, scikit-learn's ``C``, of each seed that has another; of linear readouts."""


@dataclass(frozen=True)
class BaselineLine:
    """A baseline that looks at no vector."""

    control: str
    label: str
    main: Score
    second: Score | None
    n_items: int = 0
    model: str | None = None
    """Whose items they are; None where they are those of any model."""
    note: str = ""
    """What it is."""


@dataclass(frozen=True)
class LayerTable:
    """Scores of one task in all layers of one model, with controls and baselines."""

    task: str
    metric: str
    second_metric: str | None
    control_metric: str
    """Of the control task: accuracy, unless the task itself is not scored by it."""
    higher_is_better: bool
    lines: tuple[LayerLine, ...]
    baselines: tuple[BaselineLine, ...]
    about: ResultRow
    """A row of the table, for what all of them share: model, corpus, readout, counts of items."""
    skip_reasons: Mapping[str, int]
    ci_methods: tuple[str, ...]
    """How the main metric's intervals were made."""
    n_seeds: int
    n_draws: int
    """Draws of random weights that ``random_init`` is the mean of; 0 where there is none."""
    n_failed: int
    path_ends: Mapping[str, tuple[int, ...]]
    """Layers whose regularisation is at an end of the path of strengths, by end and, of random weights, with these."""
    reading: str
    """How the vectors were read: readout, settings, share of the training data."""
    notes: Mapping[str, tuple[str, str]]
    """By control that is computed by layer what it is called, and what it is; of ``none`` what the task itself fits."""
    one_of_several: bool
    """Whether the same task, on the same data, was read off the same model in other ways too."""

    @property
    def compared(self) -> bool:
        """Whether layers were compared, so that a best set is known."""
        return any(line.in_best_set is not None for line in self.lines)

    @property
    def best_line(self) -> LayerLine | None:
        """The layer that scores best, the lowest of equals; None if no layer has a score."""
        sign = 1 if self.higher_is_better else -1
        scored = [(sign * line.main.value, -line.layer, line) for line in self.lines if line.main]
        return max(scored, key=lambda scores: scores[:2])[2] if scored else None


def layer_tables(
    rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow], *, metric: str | None = None
) -> tuple[LayerTable, ...]:
    """A table for each task, corpus, split, model and reading, in order of first appearance.

    Readings of one task stand together, ordered by a setting that is a number.
    """
    refuse_mixtures(rows)
    tables: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    baselines: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        question = (row.task, row.corpus, row.split)
        if row.group is not None or row.head is not None:
            continue
        if is_baseline(row):
            baselines[question].append(row)
        elif row.layer is not None:
            tables[*question, row.model, row.pooling, reading_of(row)].append(row)
    times = Counter(key[:-1] for key in tables)
    # Readings of one question stand where the first of them does.
    place = {question: number for number, question in enumerate(times)}
    return tuple(
        _table(
            tables[key],
            own_baselines(baselines[key[:3]], tables[key][0].model, param_of(tables[key][0], "settings", {})),
            comparisons,
            metric,
            one_of_several=times[key[:-1]] > 1,
        )
        for key in sorted(tables, key=lambda key: (place[key[:-1]], natural_order(str(key[-1]))))
    )


def natural_order(text: str) -> list[tuple[str, float]]:
    """What texts are sorted by so that ``rank 8`` comes before ``rank 16``."""
    parts = [*re.split(r"(\d+(?:\.\d+)?)", text), "0"]
    return list(zip(parts[::2], map(float, parts[1::2]), strict=True))


def refuse_mixtures(rows: Sequence[ResultRow]) -> None:
    """Scores on different data, tasks or weights are not comparable, whatever their names."""
    pretrained = [row for row in rows if row.init == "pretrained"]
    for some, within, field in (
        (rows, ("task",), "task_version"),
        (rows, ("task", "corpus"), "corpus_fingerprint"),
        (pretrained, ("model",), "model_fingerprint"),
    ):
        first: dict[tuple[str, ...], str] = {}
        for row in some:
            key, value = tuple(str(getattr(row, name)) for name in within), str(getattr(row, field))
            if first.setdefault(key, value) != value:
                place = ", ".join(f"{name} {part}" for name, part in zip(within, key, strict=True))
                both = " and ".join(sorted((first[key], value)))
                raise ResultsError(
                    f"{place}: rows of {field} {both} cannot stand in one view; keep one with only({field}=…)"
                )


def _table(
    rows: Sequence[ResultRow],
    baselines: Sequence[ResultRow],
    comparisons: Sequence[ComparisonRow],
    metric: str | None,
    *,
    one_of_several: bool,
) -> LayerTable:
    scored = [row for row in rows if row.value is not None and row.status == "ok"]
    init = own_init(rows)
    of_init = [row for row in scored if row.init == init]
    own = [row for row in of_init if row.control == "none"]
    main, second = _metrics(own, metric, task=rows[0].task)
    of_main = _by_layer(own, main)
    # Labels drawn at random mean nothing but right or wrong; or how many bits they take.
    control_metric = "accuracy" if any(row.metric == "accuracy" for row in own) else main
    random = [row for row in scored if row.init == "random" and row.control == "none" and init != "random"]
    columns = {
        "main": of_main,
        "second": _by_layer(own, second) if second else {},
        "random_init": _by_layer(random, main),
        "control_task": _by_layer([row for row in of_init if row.control == "control_task"], control_metric),
        "selectivity": _by_layer(of_init, "selectivity"),
        "completeness": _by_layer(own, "completeness"),
        "others_kept": _by_layer(own, "others_kept"),
        **{
            control: _by_layer([row for row in of_init if row.control == control], main)
            for control in COLUMNS
            if control in CONTROLS and control != "control_task"
        },
    }
    about = next((row for row in own if row.metric == main), rows[0])
    higher = next((row.higher_is_better for row in own if row.metric == main), True)
    best = _best_layers(of_main, comparisons, main, higher_is_better=higher)
    return LayerTable(
        task=about.task,
        metric=main,
        second_metric=second,
        control_metric=control_metric,
        higher_is_better=higher,
        lines=tuple(
            _line(layer, columns, best.get(layer))
            for layer in sorted({row.layer for row in rows if row.init == init and row.layer is not None})
        ),
        baselines=_baselines(baselines, main, second),
        about=about,
        skip_reasons=reasons_of([row for row in rows if row.metric == main]),
        ci_methods=_ci_methods(of_main),
        n_seeds=len({row.seed for row in own}),
        n_draws=len({row.init_seed for of_layer in columns["random_init"].values() for row in of_layer}),
        path_ends=_path_ends(scored, main, init),
        n_failed=len({row.cell_id for row in rows if row.status == "failed"}),
        reading=reading_of(about),
        notes={str(row.control): note for row in rows if (note := note_of(row))[1]},
        one_of_several=one_of_several,
    )


def _line(layer: int, columns: Mapping[str, Mapping[int, Sequence[ResultRow]]], in_best_set: bool | None) -> LayerLine:
    runs = columns["main"].get(layer, ())
    scores = {name: mean_score(of_layer.get(layer, ())) for name, of_layer in columns.items()}
    values = np.array([[row.value] for row in runs], dtype=np.float64)
    by_seed = {row.seed: score_of_row(row) for row in runs if row.seed is not None}
    strengths = {param_of(row, "strength") for row in runs if row.readout == "linear"} - {None}
    return LayerLine(
        layer=layer,
        **scores,
        seed_spread=float(np.std(values, axis=0, ddof=1)[0]) if len(runs) > 1 else None,
        by_seed=dict(sorted(by_seed.items())),
        in_best_set=in_best_set,
        strengths=tuple(sorted(strengths)),
    )


def _path_ends(rows: Sequence[ResultRow], metric: str, init: str) -> dict[str, tuple[int, ...]]:
    """Layers whose strength is at an end of its path while dev accuracy still rises towards it, by that end."""
    layers: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        end = param_of(row, "path_end") if row.metric == metric and row.control == "none" else None
        if end is not None and row.layer is not None:
            layers[str(end) if row.init == init else f"{end}, random init"].add(row.layer)
    return {end: tuple(sorted(of_end)) for end, of_end in layers.items()}


def counterpart(layer: int, depth: int, other_depth: int) -> int:
    """The layer of another model at the same relative depth: of the same number in one of equal depth.

    The embeddings correspond to each other, and a block to a block.
    """
    return max(1, int(layer * other_depth / depth + 0.5)) if layer else 0


def own_init(rows: Sequence[ResultRow]) -> str:
    """Which weights the scores are about: where there are several, random ones are the control."""
    inits = {row.init for row in rows}
    return next((init for init in INITS if init in inits), "pretrained")


def _metrics(own: Sequence[ResultRow], wanted: str | None, *, task: str) -> tuple[str, str | None]:
    """The metric a table is about, and the one next to it."""
    known = {row.metric for row in own if row.metric != "selectivity"}
    ordered = sorted(known, key=lambda m: (_METRIC_ORDER.index(m) if m in _METRIC_ORDER else 99, m))
    if wanted is not None and wanted not in known:
        raise name_not_found(f"metric of task {task}", wanted, known)
    flagged = sorted({row.metric for row in own if row.main_metric and row.metric in known})
    main = wanted or (flagged or ordered or ["accuracy"])[0]
    # Of the metrics there are, the one that adds most to the main one.
    return main, next((m for m in ("macro_f1", *ordered) if m in known and m != main), None)


def _by_layer(rows: Iterable[ResultRow], metric: str) -> dict[int, list[ResultRow]]:
    """The rows of each layer, one for each seed and draw of random weights."""
    by_layer: dict[int, list[ResultRow]] = defaultdict(list)
    cells: dict[tuple[int | None, ...], str] = {}
    for row in rows:
        if row.metric == metric and row.layer is not None:
            by_layer[row.layer].append(row)
            cell = cells.setdefault((row.layer, row.seed, row.init_seed), row.cell_id)
            if cell != row.cell_id:
                both = " and ".join(sorted((row.cell_id, cell)))
                where = f"task {row.task}, layer {row.layer}, seed {row.seed}"
                raise ResultsError(f"{where}: cells {both} give two scores; keep one with only(experiment=…)")
    return by_layer


def mean_score(rows: Sequence[ResultRow]) -> Score | None:
    """The mean over runs. Where its own interval is not known, means of bounds stand for it."""
    if not rows:
        return None
    first = rows[0]
    if first.mean is not None and first.n_runs == len(rows):
        return Score(first.mean, first.mean_ci_low, first.mean_ci_high)

    def mean(name: str) -> float | None:
        values = [getattr(row, name) for row in rows]
        return None if None in values else float(np.mean(values))

    return Score(float(np.mean([row.value for row in rows])), mean("ci_low"), mean("ci_high"))


def _ci_methods(by_layer: Mapping[int, Sequence[ResultRow]]) -> tuple[str, ...]:
    """How the intervals that :func:`mean_score` shows were made."""
    methods = {
        row.mean_ci_method if row.mean is not None and row.n_runs == len(rows) else row.ci_method
        for rows in by_layer.values()
        for row in rows
    }
    return tuple(sorted(filter(None, methods)))


def score_of_row(row: ResultRow) -> Score:
    """The score of a row that has one."""
    assert row.value is not None  # rows without a value were left out before
    return Score(row.value, row.ci_low, row.ci_high)


def _best_layers(
    by_layer: Mapping[int, Sequence[ResultRow]],
    comparisons: Sequence[ComparisonRow],
    metric: str,
    *,
    higher_is_better: bool,
) -> dict[int, bool]:
    """Which layers are in the best set; empty where layers were not compared."""
    layers = sorted(by_layer)
    column_of = {row.cell_id: column for column, layer in enumerate(layers) for row in by_layer[layer]}
    pairs = [
        comparison_of(row, column_of[row.cell_a], column_of[row.cell_b])
        for row in comparisons
        if row.metric == metric and row.cell_a in column_of and row.cell_b in column_of
    ]
    if not pairs:
        return {}
    values = [np.mean([row.value for row in by_layer[layer]]) for layer in layers]
    inside = best_set(values, pairs, q=FALSE_DISCOVERY_RATE, higher_is_better=higher_is_better)
    return dict(zip(layers, inside.tolist(), strict=True))


def _baselines(rows: Sequence[ResultRow], main: str, second: str | None) -> tuple[BaselineLine, ...]:
    lines = []
    for control in sorted({row.control for row in rows}, key=CONTROLS.index):
        of_control = [row for row in rows if row.control == control and row.value is not None]
        of_main, of_second = ([row for row in of_control if row.metric == metric][:1] for metric in (main, second))
        if (score := mean_score(of_main)) is not None:
            label, note = note_of(of_main[0])
            more = of_main[0].n_items, of_main[0].model, note
            lines.append(BaselineLine(control, label, score, mean_score(of_second), *more))
    return tuple(lines)
