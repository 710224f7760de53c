"""Tables that people read, made of tidy rows: layers of each task; tables across tasks, models, seeds and groups."""

from __future__ import annotations

import copy
import csv
import dataclasses
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bertology._names import layer_label, name_not_found
from bertology.errors import ResultsError
from bertology.measures.comparisons import best_set
from bertology.measures.descriptions import (
    ACCURACY,
    BLIND,
    CONTROL_TASK,
    CONTROLS,
    ITSELF,
    LAYER_COLUMNS,
    METRIC_ORDER,
    SECOND_METRIC,
    SELECTIVITY,
    metric_form,
)
from bertology.measures.intervals import CiMethod
from bertology.results.rows import (
    FALSE_DISCOVERY_RATE,
    INITS,
    INTERVENTIONS,
    VECTORS,
    ComparisonRow,
    ResultRow,
    Score,
    answers_itself,
    chances_of,
    clusters_of,
    comparison_of,
    is_baseline,
    is_statistic,
    mean_score,
    note_of,
    own_baselines,
    own_init,
    param_of,
    reading_of,
    reasons_of,
    score_of_row,
)
from bertology.results.table import (
    BEST_NOTE,
    INTERVAL,
    NOTHING,
    SEEDS,
    Cell,
    Line,
    Note,
    Table,
    alignment_notes,
    apart,
    count_cell,
    covered,
    data_notes,
    data_of,
    layers_named,
    metric_title,
    model_of,
    number,
    score_cell,
    unit,
)

_FEW_RUNS = 5
"""Fewer runs than these are too few to estimate how much runs differ."""


@dataclass(frozen=True)
class LayerLine:
    """One layer of one table. Of several seeds or draws of random weights, scores are means over them, with intervals
    over runs and sentences; of some of the runs, bounds are means of bounds."""

    layer: int
    scores: Mapping[str, Score | None]
    """Scores by name in :data:`~bertology.measures.descriptions.LAYER_COLUMNS`; attributes of the line, too."""
    seed_spread: float | None
    """Standard deviation over seeds of the main metric."""
    by_seed: Mapping[int, Score]
    """The main metric's score of each seed."""
    in_best_set: bool | None
    """Whether the layer is not separable from the best one; None where layers were not compared."""
    strengths: tuple[float, ...] = ()
    """The regularisation chosen on dev, scikit-learn's ``C``, of each seed that has another; of linear readouts."""

    def __getattr__(self, name: str) -> Score | None:
        if name in LAYER_COLUMNS:
            return self.scores.get(name)
        raise AttributeError(name)

    @property
    def strength(self) -> str:
        """``0.1``; of seeds that differ ``0.01 or 0.1``."""
        return " or ".join(f"{strength:g}" for strength in self.strengths)


@dataclass(frozen=True)
class BaselineLine:
    """A baseline that looks at no vector."""

    control: str
    label: str
    main: Score
    second: Score | None
    n_items: int = 0
    model: str | None = None
    """Model whose items they are; None where they are those of any model."""
    note: str = ""
    """Description of the baseline."""


@dataclass(frozen=True)
class LayerTable:
    """Scores of one task in all layers of one model, with controls and baselines."""

    task: str
    metric: str
    second_metric: str | None
    control_metric: str
    """Metric of the control task: accuracy, unless the task itself is not scored by it."""
    higher_is_better: bool
    lines: tuple[LayerLine, ...]
    baselines: tuple[BaselineLine, ...]
    about: ResultRow
    """A row of the table, for what all of them share: model, corpus, readout, counts of items."""
    skip_reasons: Mapping[str, int]
    ci_methods: tuple[str, ...]
    """Methods of the main metric's intervals."""
    n_seeds: int
    n_draws: int
    """Draws of random weights that ``random_init`` is the mean of; 0 where there is none."""
    n_failed: int
    path_ends: Mapping[str, tuple[int, ...]]
    """Layers whose regularisation is at an end of the path of strengths, by end and, of random weights, with these."""
    reading: str
    """Readout configuration: readout, settings, share of the training data."""
    notes: Mapping[str, tuple[str, str]]
    """Label and description of each control that is computed by layer; under ``none``, what the task itself fits."""
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

    def title(self, what: str) -> str:
        """``pos · accuracy by layer, %``, with the readout where one task was read in several ways."""
        reading = f" · {self.reading}" if self.one_of_several else ""
        return f"{self.task}{what} · {metric_title(self.metric)} by layer{unit(self.metric)}{reading}"

    def table(self) -> Table:
        """Layers, then baselines, then the notes that are needed to read them."""
        metrics = {"second": self.second_metric or "", CONTROL_TASK: self.control_metric}
        metrics |= {name: name for name, one in LAYER_COLUMNS.items() if one.source in ("metric", "derived")}
        columns = {
            name: (one.title or metric_title(metrics.get(name, self.metric)), metrics.get(name, self.metric))
            for name, one in LAYER_COLUMNS.items()
            if name == "main" or any(line.scores[name] is not None for line in self.lines)
        }
        with_spread = any(line.seed_spread is not None for line in self.lines)
        lines = []
        for line in self.lines:
            cells = [
                score_cell(line.scores[name], metric, interval=name in ("main", SELECTIVITY))
                for name, (_, metric) in columns.items()
            ]
            spread = line.seed_spread
            cells += [Cell(NOTHING if spread is None else number(spread, metric=self.metric))] * with_spread
            best = frozenset({0}) if line.in_best_set else frozenset[int]()
            lines.append(Line(layer_label(line.layer), tuple(cells), best))
        for baseline in self.baselines:
            of = {"main": score_cell(baseline.main, self.metric)}
            of["second"] = score_cell(baseline.second, self.second_metric or "", interval=False)
            cells = [of.get(name, Cell("")) for name in columns] + [Cell("")] * with_spread
            lines.append(Line(baseline.label, tuple(cells), baseline=True))
        silver = " · silver labels" if self.about.annotation == "silver" else ""
        headers = (*(title for title, _ in columns.values()), *["seed s.d."] * with_spread)
        return Table(self.title("") + silver, headers, tuple(lines), tuple(_notes(self)), is_drawn=True)

    def seeds(self) -> Table:
        """Layers by seeds: the main metric of each seed, and how much it varies."""
        seeds = sorted({seed for line in self.lines for seed in line.by_seed})
        lines = []
        for line in self.lines:
            scores = [*map(line.by_seed.get, seeds), line.main]
            cells = [score_cell(score, self.metric, interval=False) for score in scores]
            spread = None if line.seed_spread is None else Score(line.seed_spread)
            lines.append(Line(layer_label(line.layer), (*cells, score_cell(spread, self.metric))))
        notes = (
            Note("model", str(self.about.model)),
            *data_notes(self.about),
            Note("seeds", "seed 0 trains on all sentences of train, every other one on a resample of them"),
            Note("s.d.", "standard deviation over seeds"),
        )
        title = f"{self.task} by seed · {metric_title(self.metric)} by layer{unit(self.metric)}"
        return Table(title, (*(f"seed {seed}" for seed in seeds), "mean", "s.d."), tuple(lines), notes)

    def plain(self) -> dict[str, Any]:
        """The table with all its fields, as JSON has them."""
        fields = dataclasses.asdict(self)
        fields["about"] = plain_about(self.about)
        fields["lines"] = [_plain_line(line) for line in self.lines]
        return fields


_FIRST = tuple(LAYER_COLUMNS)[:5]
"""Columns that stand before the other fields of a line in JSON."""


def _plain_line(line: LayerLine) -> dict[str, Any]:
    scores = {name: score and dataclasses.asdict(score) for name, score in line.scores.items()}
    fields = dataclasses.asdict(replace(line, scores={}))
    del fields["scores"]
    layer, strengths = fields.pop("layer"), fields.pop("strengths")
    first = {name: scores.pop(name) for name in _FIRST}
    return {"layer": layer, **first, **fields, **scores, "strengths": strengths}


_OF_ONE_ROW = frozenset(
    {
        *("cell_id", "status", "layer", "seed", "control", "n_params", "params_json", "skip_reasons"),
        *("metric", "main_metric", "higher_is_better", "value", "stderr", "ci_low", "ci_high", "ci_method"),
        *("init_seed", "n_runs", "mean", "mean_stderr", "mean_ci_low", "mean_ci_high", "mean_ci_method"),
        *("device", "dtype", "wall_s", "started_utc", "predictions_sha256"),
    }
)


def plain_about(row: ResultRow) -> dict[str, Any]:
    """The fields of a row that all rows of a table share."""
    return {name: value for name, value in dataclasses.asdict(row).items() if name not in _OF_ONE_ROW}


def tables_to_json(tables: Iterable[Any]) -> str:
    """Tables with all their fields; numbers are those of ``results.parquet``, not percentages."""
    plain = [table.plain() for table in tables]
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_CSV_SCORES = {
    name: (name, f"{name}_ci_low", f"{name}_ci_high") if one.csv is None else one.csv
    for name, one in LAYER_COLUMNS.items()
}
"""The columns of CSV files for value and bounds, by column of a table."""
_CSV_FIELDS = (
    *("task", "model", "corpus", "split", "row", "layer", "metric", *_CSV_SCORES["main"], "in_best_set"),
    *("second_metric", *(field for name in _FIRST[1:] for field in _CSV_SCORES[name]), "seed_sd", BLIND, "strength"),
)
"""Columns of every table; those of further controls follow where there are any."""


def layers_to_csv(tables: Sequence[LayerTable]) -> str:
    """One line for each layer and baseline of each table; numbers are those of ``results.parquet``, not percentages."""
    lines: list[dict[str, Any]] = []
    for table in tables:
        common = {name: getattr(table.about, name) for name in ("task", "model", "corpus", "split")}
        common |= {"metric": table.metric, "second_metric": table.second_metric}
        for line in table.lines:
            place = {"row": layer_label(line.layer), "layer": line.layer, "in_best_set": line.in_best_set}
            more = {"seed_sd": line.seed_spread, "strength": line.strength}
            lines.append({**common, **place, **_csv_scores(line.scores), **more})
        for baseline in table.baselines:
            scores = _csv_scores({"main": baseline.main, "second": baseline.second})
            lines.append({**common, **scores, "row": baseline.control, "model": baseline.model or ""})
    out = io.StringIO()
    further = dict.fromkeys(name for line in lines for name in line if name not in _CSV_FIELDS)
    writer = csv.DictWriter(out, (*_CSV_FIELDS, *further), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _csv_scores(scores: Mapping[str, Score | None]) -> dict[str, float]:
    fields: dict[str, float] = {}
    for name, columns in _CSV_SCORES.items():
        if (score := scores.get(name)) is not None:
            values = zip(columns, (score.value, score.low, score.high), strict=False)
            fields |= {column: value for column, value in values if value is not None}
    return fields


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


def named(rows: Sequence[ResultRow], names: Mapping[str, str]) -> tuple[ResultRow, ...]:
    """The rows with their models called by :func:`short_names`."""

    def renamed(row: ResultRow) -> ResultRow:
        # Nothing but a text changes: to check all fields again takes far longer where rows are many.
        other = copy.copy(row)
        object.__setattr__(other, "model", names[str(row.model)])
        return other

    return tuple(row if names.get(row.model or "", row.model) == row.model else renamed(row) for row in rows)


def natural_order(text: str) -> list[tuple[str, float]]:
    """A sort key by which ``rank 8`` comes before ``rank 16``."""
    parts = [*re.split(r"(\d+(?:\.\d+)?)", text), "0"]
    return list(zip(parts[::2], map(float, parts[1::2]), strict=True))


def refuse_mixtures(rows: Sequence[ResultRow]) -> None:
    """Scores on different data, tasks or weights are not comparable, whatever their names."""
    pretrained = [row for row in rows if row.init == "pretrained"]
    for some, within, of in (
        (rows, ("task",), "task_version"),
        (rows, ("task", "corpus"), "corpus_fingerprint"),
        (pretrained, ("model",), "model_fingerprint"),
    ):
        first: dict[tuple[str, ...], str] = {}
        for row in some:
            key, value = tuple(str(getattr(row, name)) for name in within), str(getattr(row, of))
            if first.setdefault(key, value) != value:
                place = ", ".join(f"{name} {part}" for name, part in zip(within, key, strict=True))
                both = " and ".join(sorted((first[key], value)))
                raise ResultsError(f"{place}: rows of {of} {both} cannot stand in one view; keep one with only({of}=…)")


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
    own = [row for row in of_init if row.control == ITSELF]
    main, second = _metrics(own, metric, task=rows[0].task)
    # Labels drawn at random mean nothing but right or wrong; or how many bits they take.
    control_metric = ACCURACY if any(row.metric == ACCURACY for row in own) else main
    random = [row for row in scored if row.init == "random" and row.control == ITSELF and init != "random"]

    def by_layer(name: str, source: str) -> dict[int, list[ResultRow]]:
        if source == "task":
            wanted = main if name == "main" else second
            return _by_layer(own, wanted) if wanted else {}
        if source == "control":
            of_control = [row for row in of_init if row.control == name]
            return _by_layer(of_control, control_metric if name == CONTROL_TASK else main)
        return _by_layer({"init": random, "derived": of_init}.get(source, own), main if source == "init" else name)

    columns = {name: by_layer(name, one.source) for name, one in LAYER_COLUMNS.items()}
    of_main = columns["main"]
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
    spread = float(np.std(values, axis=0, ddof=1)[0]) if len(runs) > 1 else None
    by_seed = {row.seed: score_of_row(row) for row in runs if row.seed is not None}
    strengths = {param_of(row, "strength") for row in runs if row.readout == "linear"} - {None}
    return LayerLine(layer, scores, spread, dict(sorted(by_seed.items())), in_best_set, tuple(sorted(strengths)))


def _path_ends(rows: Sequence[ResultRow], metric: str, init: str) -> dict[str, tuple[int, ...]]:
    """Layers whose strength is at an end of its path while dev accuracy still rises towards it, by that end."""
    layers: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        end = param_of(row, "path_end") if row.metric == metric and row.control == ITSELF else None
        if end is not None and row.layer is not None:
            layers[str(end) if row.init == init else f"{end}, random init"].add(row.layer)
    return {end: tuple(sorted(of_end)) for end, of_end in layers.items()}


def _metrics(own: Sequence[ResultRow], wanted: str | None, *, task: str) -> tuple[str, str | None]:
    """The metric a table is about, and the one next to it."""
    known = {row.metric for row in own if row.metric != SELECTIVITY}
    ordered = sorted(known, key=lambda m: (METRIC_ORDER.index(m) if m in METRIC_ORDER else 99, m))
    if wanted is not None and wanted not in known:
        raise name_not_found(f"metric of task {task}", wanted, known)
    flagged = sorted({row.metric for row in own if row.main_metric and row.metric in known})
    main = wanted or (flagged or ordered or [ACCURACY])[0]
    return main, next((m for m in (SECOND_METRIC, *ordered) if m in known and m != main), None)


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


def _ci_methods(by_layer: Mapping[int, Sequence[ResultRow]]) -> tuple[str, ...]:
    """Methods of the intervals that :func:`mean_score` gives."""
    methods = {
        row.mean_ci_method if row.mean is not None and row.n_runs == len(rows) else row.ci_method
        for rows in by_layer.values()
        for row in rows
    }
    return tuple(sorted(filter(None, methods)))


def _best_layers(
    by_layer: Mapping[int, Sequence[ResultRow]],
    comparisons: Sequence[ComparisonRow],
    metric: str,
    *,
    higher_is_better: bool,
) -> dict[int, bool]:
    """Whether each layer is in the best set; empty where layers were not compared."""
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


def _notes(table: LayerTable) -> Iterator[Note]:
    """The notes that one needs to read the numbers."""
    about = table.about
    if table.compared:
        yield BEST_NOTE
    yield Note("data", f"{data_of(about)}: {_counts(table)}")
    yield from alignment_notes(about)
    is_cls = param_of(about, "settings", {}).get("pool") == "cls"
    pooled = f"{about.pooling} of a word's pieces" if about.pooling else ""
    depth = f"{about.n_layers} layers" if about.n_layers is not None else ""
    pooled = "the special token before the text" if is_cls else pooled
    yield Note("model", ", ".join(filter(None, [str(about.model), depth, INITS[about.init or "pretrained"], pooled])))
    if reference := param_of(about, "reference"):
        is_frozen = any(line.refit for line in table.lines)
        yield Note("reference", f"{reference}{', to which the readout was fitted' if is_frozen else ''}")
    yield Note("readout", _readout(table))
    for end, layers in table.path_ends.items():
        rises = f"dev accuracy still rises at the end of the path ({end}): {layers_named(layers)}"
        yield Note("strength", rises)
    yield Note(INTERVAL, f"[ ] 95 %, {_intervals(table)}")
    if table.n_draws:
        yield Note("random", _draws(table))
    if any(line.completeness for line in table.lines):
        yield Note("gone", "completeness: share of what an oracle finds of the property, beyond guessing, that is gone")
    if any(line.others_kept for line in table.lines):
        yield Note("others", "selectivity: share of what oracles find of other properties that is kept")
    yield from (Note(label, text) for control, (label, text) in table.notes.items() if control in LAYER_COLUMNS)
    if strengths := _strengths_in_words(table):
        yield Note("C", strengths)
    if chances := chances_of(about):
        yield Note("chance", f"{number(sum(chances.values()) / len(chances))} % of choices are right by chance")
    for line in table.baselines:
        of_other_items = f"over all {line.n_items:,} items" if line.n_items != about.n_items else ""
        if text := "; ".join(filter(None, [line.note, of_other_items])):
            yield Note(line.label, text)
    if table.n_failed:
        yield Note("failed", f"{table.n_failed} cell{'s' * (table.n_failed > 1)} without a score")


def _readout(table: LayerTable) -> str:
    """The readout, and the number of items that it was fitted to."""
    about, comma = table.about, "," * ("," in table.reading)
    if about.readout == INTERVENTIONS:
        fitted = f", as fitted to {about.n_train:,} words" if about.n_train else ""
        return f"none: the model's predictions with states changed{fitted}"
    if is_statistic(about):
        of = "vectors" if about.readout == VECTORS else "models"
        train = f", from {about.n_train:,} items of train" if about.n_train else ""
        _, fits = table.notes.get(ITSELF, ("", "the task's own" if train else ""))
        return f"{fits}{train}" if fits else f"none: statistics of the {of} themselves"
    if not answers_itself(about):
        folds = " in each fold" if param_of(about, "folds") else ""
        seeds = f", mean of {table.n_seeds} seeds" if table.n_seeds > 1 else ""
        return f"{table.reading}{comma} trained on {about.n_train:,} items{folds}{seeds}"
    if lens := param_of(about, "lens"):
        return f"{table.reading}{comma} fitted to masked words of {lens} train"
    return f"{table.reading}, the model's own head: nothing is trained"


def _intervals(table: LayerTable) -> str:
    """The method of the main metric's intervals, what they cover and what they leave out."""
    own_head, code = answers_itself(table.about), "codelength" in param_of(table.about, "settings", {})
    units = clusters_of(table.about)
    if not (own_head or is_statistic(table.about)):
        units = f"{'training' if code else 'test'} {units}"
    known: dict[str, str] = {
        CiMethod.BCA: f"bootstrap over {units}",
        CiMethod.RUNS_BCA: f"bootstrap over seeds × {units}",
        CiMethod.EXACT: f"exact over {units} where all are right or all wrong",
        CiMethod.NONE: f"none from a single {'cluster' if units.endswith('clusters') else 'sentence'}",
    }
    texts = []
    for method in table.ci_methods:
        name, resamples = re.fullmatch(r"(.*?)(?:-(\d+))?", method).groups()  # type: ignore[union-attr]
        times = f", {int(resamples):,} resamples" if resamples else ""
        texts.append(known.get(name, method) + (f" (BCa{times})" if name in (CiMethod.BCA, CiMethod.RUNS_BCA) else ""))
    over_seeds = any(method.startswith(CiMethod.RUNS_BCA) for method in table.ci_methods)
    if over_seeds and table.n_seeds < _FEW_RUNS:
        texts.append(f"{table.n_seeds} seeds say little of how much seeds differ")
    not_over = [SEEDS] if not own_head and not over_seeds and not is_statistic(table.about) else []
    not_over += ["draws of random weights"] if table.about.init not in (None, "pretrained") else []
    if not_over and table.ci_methods and set(table.ci_methods) != {CiMethod.NONE}:
        texts.append(f"not over {' or '.join(not_over)}")
    return "; ".join(texts) or "not computed"


def _draws(table: LayerTable) -> str:
    """The number of draws that the column of random weights is the mean of, and how sure the mean is."""
    if table.n_draws == 1:
        return "init: one draw of random weights; another may give other scores"
    scores = [line.random_init for line in table.lines if line.random_init]
    reach = [max(s.high - s.value, s.value - s.low) for s in scores if s.low is not None and s.high is not None]
    most = f", ± {number(max(reach), metric=table.metric)} at most (95 %, over draws × sentences)" if reach else ""
    return f"init: mean of {table.n_draws} draws of random weights{most}"


def _strengths_in_words(table: LayerTable) -> str:
    """The regularisation chosen for each layer, where it is not the same in all; else empty."""
    layers: dict[str, list[int]] = {}
    for line in table.lines:
        layers.setdefault(line.strength, []).append(line.layer)
    if len(layers) < 2:
        return ""
    chosen = "; ".join(f"{text or NOTHING} in {layers_named(of_text)}" for text, of_text in layers.items())
    compared = any(line.selectivity for line in table.lines)
    return f"chosen on dev: {chosen}{'; selectivity depends on it' if compared else ''}"


def _counts(table: LayerTable) -> str:
    about = table.about
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(table.skip_reasons.items()))
    skipped = f"{about.n_skipped:,} skipped{f' ({reasons})' if reasons else ''}" if about.n_skipped else "none skipped"
    parts = [
        f"{about.n_items:,} {param_of(about, 'unit', 'items')} in {about.n_clusters:,} {clusters_of(about)}",
        f"{about.n_classes} classes" if about.n_classes else "",
        skipped,
        f"{about.n_unseen_label:,} with a label unseen in training" if about.n_unseen_label else "",
        "labels made by a program (silver)" if about.annotation == "silver" else "",
    ]
    return ", ".join(filter(None, parts))


def summary_table(tables: Sequence[LayerTable]) -> Table:
    """Layers by tasks: the main metric of each table side by side."""
    of_layer = [{line.layer: line for line in table.lines} for table in tables]
    lines = []
    for layer in sorted(set().union(*of_layer)):
        row = [by_layer.get(layer) for by_layer in of_layer]
        cells = [score_cell(line.main if line else None, table.metric) for line, table in zip(row, tables, strict=True)]
        best = frozenset(column for column, line in enumerate(row) if line and line.in_best_set)
        lines.append(Line(layer_label(layer), tuple(cells), best))
    for label in baseline_labels(tables):
        scores = [{line.label: line.main for line in table.baselines}.get(label) for table in tables]
        cells = [score_cell(score, table.metric) for score, table in zip(scores, tables, strict=True)]
        lines.append(Line(label, tuple(cells), baseline=True))
    notes = [BEST_NOTE] if any(table.compared for table in tables) else []
    shared = [name for name in ("model", "corpus", "split") if not _differ(tables, name)]
    notes += [Note(name, str(getattr(tables[0].about, name))) for name in shared]
    notes += alignment_notes(*(table.about for table in tables))
    return Table("layers by tasks, %", summary_headers(tables), tuple(lines), tuple(notes))


def summary_headers(tables: Sequence[LayerTable]) -> tuple[str, ...]:
    """The task, its metric, and whatever else sets the tables apart."""
    fields = [name for name in ("model", "corpus", "split", "pooling") if _differ(tables, name)]
    keys = [(table.task, *(getattr(table.about, name) for name in fields)) for table in tables]
    headers = []
    for table, (task, *others) in zip(tables, keys, strict=True):
        reading = [table.reading] if keys.count((task, *others)) > 1 else []
        parts = [task, metric_title(table.metric), *(str(value) for value in others if value), *reading]
        headers.append(" ".join(parts))
    return tuple(headers)


def _differ(tables: Sequence[LayerTable], field: str) -> bool:
    """Whether there are several values of a field; one that does not apply to a table has none there."""
    return len({getattr(table.about, field) for table in tables} - {None}) > 1


def model_table(tables: Sequence[LayerTable]) -> Table:
    """Models by tasks: the score of each model's best layer, and the number of that layer."""
    by_question: dict[tuple[str, ...], list[tuple[str, LayerTable]]] = defaultdict(list)
    # The model, then what may set it apart.
    models = apart([(model_of(t.about), t.about.pooling or "", t.reading if t.one_of_several else "") for t in tables])
    for model, table in zip(models, tables, strict=True):
        by_question[table.task, table.metric, table.about.corpus, table.about.split].append((model, table))
    lines = []
    for model in dict.fromkeys(models):
        cells = []
        for entries in by_question.values():
            of_model = dict(entries).get(model)
            best = of_model.best_line if of_model else None
            number_of_layer = Cell(str(best.layer), score=Score(best.layer)) if best else Cell("")
            cells += [score_cell(best.main if best else None, entries[0][1].metric), number_of_layer]
        lines.append(Line(model, tuple(cells)))
    for name, scores in baseline_rows(list(by_question.values())):
        pairs = [(score_cell(score, key[1]), Cell("")) for score, key in zip(scores, by_question, strict=True)]
        lines.append(Line(name, tuple(cell for pair in pairs for cell in pair), baseline=True))
    # Task and metric, then corpus and split where they differ.
    differ = [part for part in (2, 3) if len({key[part] for key in by_question}) > 1]
    titles = (" ".join([key[0], metric_title(key[1]), *(key[part] for part in differ)]) for key in by_question)
    headers = tuple(header for title in titles for header in (title, "layer"))
    notes = (
        Note("data", "; ".join(dict.fromkeys(data_of(table.about) for table in tables))),
        *alignment_notes(*(table.about for table in tables)),
        Note(INTERVAL, f"[ ] 95 %, {covered([table.n_seeds for table in tables])}"),
        Note("score", "of the layer that scores best in the split shown, which flatters every model a little"),
        Note("models", "were not compared in pairs: overlapping intervals do not say that they are alike"),
    )
    percent = ", %" if all(metric_form(table.metric).is_fraction for table in tables) else ""
    return Table(f"models by tasks{percent}", headers, tuple(lines), notes, corner="Model")


def baseline_rows(questions: Sequence[Sequence[tuple[str, LayerTable]]]) -> Iterator[tuple[str, list[Score | None]]]:
    """Name and scores, one a question, of each line of baselines of a table that is made of several.

    Each of the ``questions`` holds tables of the same task and data with the names of who reads them.
    """
    for label in baseline_labels([table for tables in questions for _, table in tables]):
        for owner in baseline_owners(label, questions):
            scores = []
            for tables in questions:
                of_owner = [table for name, table in tables if owner in (None, name)]
                known = (line.main for table in of_owner for line in table.baselines if line.label == label)
                scores.append(next(known, None))
            if any(scores):
                yield ", ".join(filter(None, [label, owner])), scores


def baseline_labels(tables: Sequence[LayerTable]) -> tuple[str, ...]:
    """Labels of the baselines of tables, each once, in the order of :data:`CONTROLS`."""
    lines = [line for table in tables for line in table.baselines]
    return tuple(dict.fromkeys(line.label for line in sorted(lines, key=lambda line: CONTROLS.index(line.control))))


def baseline_owners(label: str, questions: Sequence[Sequence[tuple[str, LayerTable]]]) -> tuple[str | None, ...]:
    """The owner of each line of a baseline: None for all; or each name, where the scores of one question differ."""
    for tables in questions:
        if len({line.main for _, table in tables for line in table.baselines if line.label == label}) > 1:
            return tuple(dict.fromkeys(name for tables in questions for name, _ in tables))
    return (None,)


@dataclass(frozen=True)
class GroupLine:
    """One group of one table."""

    name: str
    n_items: int
    n_clusters: int
    n_skipped: int
    by_layer: Mapping[int, Score]
    """The table's main metric on the items of this group alone."""
    chance: float | None = None
    """The share of choices that are right by chance; None where nothing is chosen."""
    metric: str = ""
    """Metric of a statistic; empty for a group, whose metric is the table's main one."""
    baselines: Mapping[str, Score] = field(default_factory=dict)
    """Scores of baselines that read no layer, by label."""


@dataclass(frozen=True)
class GroupTable:
    """The groups behind one table of layers, or its further statistics."""

    of: LayerTable
    lines: tuple[GroupLine, ...]

    @property
    def are_statistics(self) -> bool:
        """Whether lines are statistics and not groups."""
        return any(line.metric for line in self.lines)

    @property
    def chances_differ(self) -> bool:
        """Whether chance is not the same for all groups."""
        return len({line.chance for line in self.lines}) > 1

    def table(self) -> Table:
        """Groups by layers, after what they stand beside."""
        of = self.of
        layers = [line.layer for line in of.lines]
        counts = {} if self.are_statistics else {"items": [count_cell(line.n_items) for line in self.lines]}
        if any(line.n_skipped for line in self.lines):
            counts["skipped"] = [count_cell(line.n_skipped) for line in self.lines]
        if self.chances_differ:
            scores = [None if line.chance is None else Score(line.chance) for line in self.lines]
            counts["chance"] = [score_cell(score, ACCURACY) for score in scores]
        baselines = [name for name in baseline_labels([of]) if any(name in line.baselines for line in self.lines)]
        lines = []
        for line, *cells in zip(self.lines, *counts.values(), strict=True):
            metric = line.metric or of.metric
            cells += [score_cell(line.baselines.get(name), metric, interval=False) for name in baselines]
            cells += [score_cell(line.by_layer.get(at), metric, interval=at == layers[-1]) for at in layers]
            lines.append(Line(line.name, tuple(cells)))
        model, interval = Note("model", str(of.about.model)), Note(INTERVAL, f"[ ] 95 %, of layer {layers[-1]}")
        units = [UNITS_NOTE] if self.are_statistics else []
        title = f"{of.task} · further statistics by layer" if self.are_statistics else of.title(" by group")
        corner, headers = "Statistic" if self.are_statistics else "Group", (*counts, *baselines, *map(str, layers))
        notes = (*data_notes(of.about), model, interval, *units)
        return Table(title, headers, tuple(lines), notes, corner, series=len(layers))


UNITS_NOTE = Note("units", "fractions in percent; bits and numbers as they are")


def group_tables(rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[GroupTable, ...]:
    """The groups of those tables whose items are in several, in order of first appearance."""
    by_table: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        of_layer = row.layer is not None and row.head is None
        if row.group is not None and row.control == ITSELF and of_layer and row.status == "ok":
            by_table[_key(row)].append(row)
    groups = []
    for table in tables:
        of_metric = [row for row in by_table[_key(table.about)] if row.metric == table.metric]
        baselines = [row for row in _baselines_of(rows, table) if row.metric == table.metric]
        lines = [
            _group_line(*([row for row in some if row.group == name] for some in (of_metric, baselines)))
            for name in group_names(of_metric)
        ]
        groups += [GroupTable(table, tuple(lines))] if lines else []
    return tuple(groups)


def _baselines_of(rows: Sequence[ResultRow], table: LayerTable) -> list[ResultRow]:
    """The rows of all baselines of what a table is about."""
    about = table.about
    question = (about.task, about.corpus, about.split)
    of_task = [row for row in rows if is_baseline(row) and (row.task, row.corpus, row.split) == question]
    return own_baselines(of_task, about.model, param_of(about, "settings", {}))


def statistic_tables(rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[GroupTable, ...]:
    """All statistics behind those tables that are about the vectors themselves and have more than they show."""
    found = []
    for table in tables:
        if not is_statistic(table.about):
            continue
        own = [row for row in rows if row.group is None and row.layer is not None and _key(row) == _key(table.about)]
        baselines = [row for row in _baselines_of(rows, table) if row.group is None]
        lines = []
        for name in dict.fromkeys(row.metric for row in own if row.metric != table.metric):
            line = _group_line(*([row for row in some if row.metric == name] for some in (own, baselines)))
            lines.append(replace(line, name=metric_title(name), metric=name))
        found += [GroupTable(table, tuple(lines))] if lines else []
    return tuple(found)


def group_table_of(groups: Sequence[GroupTable], task: str | None = None) -> GroupTable:
    """The one table of groups there is, or that of a task; a :class:`ResultsError` if it is none or several."""
    of_task = [one for one in groups if task in (None, one.of.task) and not one.are_statistics]
    if not of_task:
        which = "" if task is None else f" of task {task}"
        raise ResultsError(f"the items{which} do not stand in groups: there is nothing to show by group")
    if len(of_task) > 1:
        tasks = list(dict.fromkeys(one.of.task for one in of_task))
        how = f"task={' or '.join(map(repr, tasks))}" if len(tasks) > 1 else "only(model=…) of the results"
        raise ResultsError(f"{len(of_task)} tables of groups do not fit one figure: choose one by {how}")
    return of_task[0]


def group_names(rows: Sequence[ResultRow]) -> list[str]:
    """The groups in order of first appearance."""
    names = list(dict.fromkeys(str(row.group) for row in rows))
    # Rows that were read come by their names' letters, of which "stated 10 times" is before "stated 2 times".
    return sorted(names, key=natural_order) if names == sorted(names) else names


def _key(row: ResultRow) -> tuple[object, ...]:
    same = row.task, row.corpus, row.corpus_fingerprint, row.split, row.model, row.init, row.pooling
    return (*same, reading_of(row))


def _group_line(rows: Sequence[ResultRow], baselines: Sequence[ResultRow]) -> GroupLine:
    scores = {row.layer: score_of_row(row) for row in rows if row.layer is not None and row.value is not None}
    first, name = rows[0], str(rows[0].group)
    counts = first.n_items, first.n_clusters, first.n_skipped
    ordered = sorted(baselines, key=lambda row: CONTROLS.index(row.control))
    beside = {note_of(row)[0]: score_of_row(row) for row in ordered if row.value is not None}
    return GroupLine(name, *counts, dict(sorted(scores.items())), chances_of(first).get(name), baselines=beside)
