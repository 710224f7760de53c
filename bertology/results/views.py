"""Tables that people read, made of tidy rows: layers of each task; across tasks, models, seeds, groups and steps."""

import copy
import itertools
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import scipy
from bertology._names import by_key, layer_label, name_not_found
from bertology.errors import ResultsError
from bertology.measures.intervals import CiMethod, best_set
from bertology.measures.metrics import CONTROLS, ITSELF, LAYER_COLUMNS, metric_form, ranked_metrics, second_metric
from bertology.results import rows as result_rows
from bertology.results.rows import ATTENTION, ComparisonRow, ResultRow, Score, grouped, own_baselines, own_init
from bertology.results.table import (
    BEST_NOTE,
    INTERVAL,
    NOTHING,
    SEEDS,
    STAR,
    Cell,
    Note,
    Table,
    alignment_notes,
    apart,
    covered,
    data_notes,
    data_of,
    formatted_cell,
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
    over runs and sentences; where only some runs are shown, bounds are means of their bounds."""

    layer: int
    scores: Mapping[str, Score | None]
    """Scores by name in :data:`~bertology.measures.metrics.LAYER_COLUMNS`; attributes of the line, too."""
    seed_spread: Score | None
    """Standard deviation over seeds of the main metric."""
    by_seed: Mapping[int, Score]
    """The main metric's score of each seed."""
    in_best_set: bool | None
    """Whether the layer is not separable from the best one; None where layers were not compared."""
    strength: str = ""
    """The regularisation chosen on dev, scikit-learn's ``C``, of linear readouts: ``0.01 or 0.1`` if seeds differ."""

    def __getattr__(self, name: str) -> Score | None:
        if name in LAYER_COLUMNS:
            return self.scores.get(name)
        raise AttributeError(name)


@dataclass(frozen=True)
class BaselineLine:
    """A baseline that looks at no vector."""

    control: str
    label: str
    main: Score
    second: Score | None
    n_items: int = 0
    note: str = ""
    """Description of the baseline."""


@dataclass(frozen=True)
class LayerTable:
    """Scores of one task in all layers of one model, with controls and baselines."""

    task: str
    metric: str
    lines: tuple[LayerLine, ...]
    baselines: tuple[BaselineLine, ...]
    about: ResultRow
    """A row of the table, for what all of them share: model, corpus, readout, direction of the metric, counts."""
    rows: Sequence[ResultRow]
    """All rows of the layers, those of controls and random weights included."""
    groups: Sequence[ResultRow]
    """The same of groups of items."""
    beside: Sequence[ResultRow]
    """All rows of baselines, those of groups included."""
    n_seeds: int
    one_of_several: bool
    """Whether the same task, on the same data, was read off the same model in other ways too."""
    compared: bool
    """Whether layers were compared, so that a best set is known."""
    shown: Mapping[str, str]
    """The names of the columns in which some layer has a score, and of the main one, with their metrics."""

    @property
    def chosen_line(self) -> LayerLine | None:
        """The layer that scores best, the lowest of equals, or the last one by a metric that ranks no layers; None if
        no layer has a score."""
        if not metric_form(self.metric).ranks_layers:
            return next((line for line in reversed(self.lines) if line.main), None)
        sign = 1 if self.about.higher_is_better else -1
        scored = [(sign * line.main.value, -line.layer, line) for line in self.lines if line.main]
        return max(scored, key=lambda scores: scores[:2])[2] if scored else None

    @property
    def is_frozen(self) -> bool:
        """Whether the readout was fitted to the vectors of a reference."""
        return any(LAYER_COLUMNS[name].is_anew for name in self.shown)

    def title(self, what: str) -> str:
        """``pos · accuracy by layer, %``, with the readout where one task was read in several ways."""
        reading = f" · {self.about.reading}" if self.one_of_several else ""
        return f"{self.task}{what} · {metric_title(self.metric)} by layer{unit(self.metric)}{reading}"

    def table(self) -> Table:
        """Layers, then baselines, then the notes that are needed to read them."""
        shown, rows, best = self.shown, dict[str, list[Any]](), list[tuple[str, int]]()
        has_spread = any(line.seed_spread for line in self.lines)
        strengths = sorted({line.strength for line in self.lines})
        more = ["seed s.d."] * has_spread + ["C"] * (len(strengths) > 1)
        for line in self.lines:
            label = layer_label(line.layer)
            rows[label] = [line.scores[name] for name in shown]
            rows[label] += [line.seed_spread] * has_spread
            is_one = line.strength and " or " not in line.strength
            cell = Cell(line.strength, score=Score(float(line.strength)) if is_one else None)
            rows[label] += [cell] * (len(strengths) > 1)
            best += [(label, 0)] if line.in_best_set else []
        for baseline in self.baselines:
            # Columns that are not the task's own are empty in lines of baselines.
            rows[baseline.label] = [getattr(baseline, name, "") for name in shown] + [""] * len(more)
        return Table.of(
            self.title("") + (" · silver labels" if self.about.annotation == "silver" else ""),
            [*(LAYER_COLUMNS[name].title or metric_title(metric) for name, metric in shown.items()), *more],
            rows,
            _notes(self),
            metric=[*shown.values()] + [self.metric] * len(more),
            intervals=[place for place, name in enumerate(shown) if LAYER_COLUMNS[name].with_interval],
            best=best,
            baselines=[line.label for line in self.baselines],
            about=self.about,
            spare=("C", "seed s.d."),
            is_drawn=True,
        )

    def seeds(self) -> Table:
        """Layers by seeds: the main metric of each seed, and how much it varies."""
        seeds = sorted({seed for line in self.lines for seed in line.by_seed})
        headers = [*(f"seed {seed}" for seed in seeds), "mean", "s.d."]
        rows = {}
        for line in self.lines:
            rows[layer_label(line.layer)] = [*map(line.by_seed.get, seeds), line.main, line.seed_spread]
        of_seeds = Note("seeds", "seed 0 trains on all sentences of train, every other one on a resample of them")
        notes = (*data_notes(self.about), of_seeds, Note("s.d.", "standard deviation over seeds"))
        title = f"{self.task} by seed · {metric_title(self.metric)} by layer{unit(self.metric)}"
        return Table.of(title, headers, rows, notes, metric=self.metric, intervals=False, about=self.about)


def layer_tables(
    rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow], *, metric: str | None = None
) -> tuple[LayerTable, ...]:
    """A table for each task, corpus, split, model and reading, in order of first appearance.

    Readout configurations of one task are adjacent, in the order of a numeric setting.
    """
    refuse_mixtures(rows)
    question = ("task", "corpus", "split")
    same = (*question, "model", "pooling", "reading")
    scores = [row for row in rows if row.head is None]
    baselines = grouped([row for row in scores if row.is_baseline], *question)
    of_layers = [row for row in scores if row.layer is not None and not row.is_baseline]
    tables = grouped([row for row in of_layers if row.group is None], *same)
    groups = grouped([row for row in of_layers if row.group is not None], *same)
    times = Counter([key[:-1] for key in tables])
    # Readings of one question stand where the first of them does.
    questions = list(times)
    ordered = sorted(tables, key=lambda key: (questions.index(key[:-1]), natural_order(str(key[-1]))))
    found = []
    for key in ordered:
        parts = tables[key], groups.get(key, ()), baselines.get(key[:3], ())
        found.append(_layer_table(*parts, comparisons, metric, is_one=times[key[:-1]] == 1))
    return tuple(found)


def named(rows: Sequence[ResultRow], names: Mapping[str, str]) -> tuple[ResultRow, ...]:
    """The rows with their models called by :func:`short_names`."""
    renamed = []
    for row in rows:
        if (name := names.get(row.model or "", row.model)) != row.model:
            # Nothing but a text changes: to check all fields again takes far longer where rows are many.
            row = copy.copy(row)
            object.__setattr__(row, "model", name)
        renamed.append(row)
    return tuple(renamed)


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
        for key, same in grouped(some, *within).items():
            values = sorted(dict.fromkeys([str(getattr(row, of)) for row in same]))
            if len(values) > 1:
                names = key if isinstance(key, tuple) else (key,)
                place, both = ", ".join(map(" ".join, zip(within, map(str, names), strict=True))), " and ".join(values)
                raise ResultsError(f"{place}: rows of {of} {both} cannot stand in one view; keep one with only({of}=…)")


def _layer_table(
    rows: Sequence[ResultRow],
    groups: Sequence[ResultRow],
    of_question: Sequence[ResultRow],
    comparisons: Sequence[ComparisonRow],
    wanted: str | None,
    *,
    is_one: bool,
) -> LayerTable:
    scored = [row for row in rows if row.value is not None and row.status == "ok"]
    init = own_init(rows)
    of_init = [row for row in scored if row.init == init]
    own = [row for row in of_init if row.control == ITSELF]
    # The metric that the table is about, and the one next to it.
    known = {row.metric for row in own if not metric_form(row.metric).is_difference}
    if wanted is not None and wanted not in known:
        raise name_not_found(f"metric of task {rows[0].task}", wanted, known)
    flagged = sorted({row.metric for row in own if row.main_metric and row.metric in known})
    main = wanted or (flagged or ranked_metrics(known) or [rows[0].metric])[0]
    second = second_metric(main, known)
    # Labels drawn at random mean nothing but right or wrong; or how many bits they take.
    preferred = {column.prefers for column in LAYER_COLUMNS.values()} & {row.metric for row in own}
    control_metric = next(iter(preferred), main)
    random = [row for row in scored if row.init == "random" != init and row.control == ITSELF]
    columns, shown = dict[str, dict[int, list[ResultRow]]](), dict[str, str]()
    for name, one in LAYER_COLUMNS.items():
        of_control = [row for row in of_init if row.control == name] if one.source == "control" else []
        of_source = {"init": random, "difference": of_init, "control": of_control}.get(one.source, own)
        of = name if one.source in ("metric", "difference") else control_metric if one.prefers else main
        of = second or "" if name == "second" else of
        columns[name] = _by_layer(of_source, of)
        shown |= {name: of} if columns[name] or name == "main" else {}
    about = next((row for row in own if row.metric == main), rows[0])
    best = _best_layers(columns["main"], comparisons, about) if metric_form(main).ranks_layers else {}
    lines = []
    for layer in sorted({row.layer for row in rows if row.init == init and row.layer is not None}):
        runs = columns["main"].get(layer, [])
        scores = {name: result_rows.mean_score(of_layer.get(layer, ())) for name, of_layer in columns.items()}
        values = np.array([[row.value] for row in runs], dtype=np.float64)
        spread = Score(float(np.std(values, axis=0, ddof=1)[0])) if len(runs) > 1 else None
        by_seed = {row.seed: row.score for row in runs if row.seed is not None}
        strengths = {row.param("strength") for row in runs if row.readout == "linear"} - {None}
        more = dict(sorted(by_seed.items())), best.get(layer), " or ".join(map("{:g}".format, sorted(strengths)))
        lines.append(LayerLine(layer, scores, spread, *more))
    beside = own_baselines(of_question, rows[0].model, rows[0].param("settings", {}))
    return LayerTable(
        task=about.task,
        metric=main,
        lines=tuple(lines),
        baselines=_baselines([row for row in beside if row.group is None], main, second),
        about=about,
        rows=rows,
        groups=groups,
        beside=beside,
        n_seeds=len({row.seed for row in own}),
        one_of_several=not is_one,
        compared=bool(best),
        shown=shown,
    )


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


def _best_layers(
    by_layer: Mapping[int, Sequence[ResultRow]], comparisons: Sequence[ComparisonRow], about: ResultRow
) -> dict[int, bool]:
    """Whether each layer is in the best set; empty where layers were not compared."""
    layers, columns, values, pairs = sorted(by_layer), dict[str, int](), [], []
    for column, layer in enumerate(layers):
        columns |= dict.fromkeys([row.cell_id for row in by_layer[layer]], column)
        values.append(np.mean([row.value for row in by_layer[layer]]))
    for row in comparisons:
        if row.metric == about.metric and row.cell_a in columns and row.cell_b in columns:
            pairs.append((columns[row.cell_a], columns[row.cell_b], row.p_adj))
    inside = best_set(values, pairs, q=result_rows.FALSE_DISCOVERY_RATE, higher_is_better=about.higher_is_better)
    return dict(zip(layers, inside.tolist(), strict=True)) if pairs else {}


def _baselines(rows: Sequence[ResultRow], main: str, second: str | None) -> tuple[BaselineLine, ...]:
    by_metric, lines = grouped([row for row in rows if row.value is not None], "control", "metric"), []
    for control in CONTROLS:
        first, other = (by_metric.get((control, metric), [])[:1] for metric in (main, second))
        if score := result_rows.mean_score(first):
            label, note = first[0].note
            lines.append(BaselineLine(control, label, score, result_rows.mean_score(other), first[0].n_items, note))
    return tuple(lines)


def _notes(table: LayerTable) -> Iterator[Note]:
    """The notes that one needs to read the numbers."""
    about, init = table.about, own_init(table.rows)
    main = [row for row in table.rows if row.metric == table.metric and row.control == ITSELF and row.value is not None]
    controls = {str(row.control): note for row in table.rows if (note := row.note)[1]}
    if table.compared:
        yield BEST_NOTE
    yield from data_notes(about)
    if reference := about.param("reference"):
        yield Note("reference", f"{reference}{', to which the readout was fitted' if table.is_frozen else ''}")
    yield Note("readout", _readout(table, controls.get(ITSELF, ("", ""))[1]))
    path_ends: dict[str, set[int]] = defaultdict(set)
    for row in main:
        if (end := row.param("path_end")) is not None:
            path_ends[str(end) if row.init == init else f"{end}, random init"].add(row.layer or 0)
    for end, layers in path_ends.items():
        where = layers_named(sorted(layers))
        yield Note("strength", f"dev accuracy still rises at the end of the path ({end}): {where}")
    yield Note(INTERVAL, f"[ ] 95 %, {_intervals(table, [row for row in main if row.init == init])}")
    if n_draws := len({row.init_seed for row in main if row.init == "random" != init}):
        scores = [s for line in table.lines if (s := line.random_init) and s.low is not None and s.high is not None]
        reach = max((max(s.high - s.value, s.value - s.low) for s in scores), default=None)  # type: ignore[operator]
        most = "" if reach is None or n_draws == 1 else f", ± {number(reach, metric=table.metric)} at most (95 %)"
        how = "one random initialisation" if n_draws == 1 else f"mean of {n_draws} random initialisations"
        yield Note("random init", how + most)
    for name in table.shown:
        if any(LAYER_COLUMNS[name].note):
            yield Note(*LAYER_COLUMNS[name].note)
    for control, note in controls.items():
        if control in LAYER_COLUMNS:
            yield Note(*note)
    if len({line.strength for line in table.lines}) > 1:
        differences = (f"; {name} depends on it" for name in table.shown if LAYER_COLUMNS[name].source == "difference")
        yield Note("C", "inverse strength of the regularisation, chosen on dev" + "".join(differences))
    if chances := about.chances:
        yield Note("chance", f"{number(sum(chances.values()) / len(chances))} % of choices are correct at random")
    for baseline in table.baselines:
        of_other_items = f"over all {baseline.n_items:,} items" if baseline.n_items != about.n_items else ""
        if text := "; ".join(filter(None, [baseline.note, of_other_items])):
            yield Note(baseline.label, text)
    if failed := {row.cell_id for row in table.rows if row.status == "failed"}:
        yield Note("failed", f"{len(failed)} cells without a score")


_STATISTICS = {
    result_rows.VECTORS: "statistics of the vectors",
    result_rows.ENCODERS: "statistics of the models",
    result_rows.INTERVENTIONS: "the model's predictions with states changed",
}
_METHODS: Mapping[str, str] = {
    CiMethod.BCA: "bootstrap over {} (BCa, {:,} resamples)",
    CiMethod.RUNS_BCA: "bootstrap over seeds × {} (BCa, {:,} resamples)",
    CiMethod.EXACT: "exact over {} where all are right or all wrong",
    CiMethod.NONE: "none from a single one of the {}",
}


def _readout(table: LayerTable, note: str) -> str:
    """The readout, or the task's own ``note`` on what it fits, and the number of items that it was fitted to."""
    about = table.about
    fitted = f"fitted to {about.n_train:,} items of train" if about.n_train else ""
    fitted = fitted or ("" if note else "nothing is fitted")
    if lens := about.param("lens"):
        fitted = f"fitted to masked words of {lens} train"
    parts = (
        note or _STATISTICS.get(about.readout or "", about.reading),
        "the model's own head" if about.answers_itself and not about.param("lens") else "",
        fitted + " in each fold" * bool(about.param("folds")),
        f"mean of {table.n_seeds} seeds" if table.n_seeds > 1 else "",
    )
    return "; ".join(filter(None, parts))


def _intervals(table: LayerTable, main: Sequence[ResultRow]) -> str:
    """The method of the main metric's intervals, what they cover and what they leave out."""
    about, units = table.about, table.about.clusters
    is_fitted = not (about.answers_itself or about.is_statistic)
    if is_fitted:
        units = f"{'training' if 'codelength' in about.param('settings', {}) else 'test'} {units}"
    n_runs, methods = Counter(row.layer for row in main), set[str | None]()
    for row in main:
        of_mean = row.mean is not None and row.n_runs == n_runs[row.layer]
        methods.add(row.mean_ci_method if of_mean else row.ci_method)
    names = [re.fullmatch(r"(.*?)-?(\d*)", one).groups() for one in sorted(filter(None, methods))]  # type: ignore[union-attr]
    texts = [_METHODS.get(name, name).format(units, int(resamples or 0)) for name, resamples in names]
    over_seeds = any(name == CiMethod.RUNS_BCA for name, _ in names)
    if over_seeds and table.n_seeds < _FEW_RUNS:
        texts.append(f"{table.n_seeds} seeds are too few to estimate how much seeds differ")
    not_over = [SEEDS] if is_fitted and not over_seeds else []
    not_over += [] if about.init in (None, "pretrained") else ["draws of random weights"]
    if not_over and any(name != CiMethod.NONE for name, _ in names):
        texts.append(f"not over {' or '.join(not_over)}")
    return "; ".join(texts) or "not computed"


def summary_table(tables: Sequence[LayerTable]) -> Table:
    """Layers by tasks: the main metric of each table side by side; of many tasks :func:`tasks_table`."""
    if len(tables) > MOST_SIDE_BY_SIDE:
        return tasks_table(tables)
    lines = [{line.layer: line for line in table.lines} for table in tables]
    rows: dict[str, list[Any]] = {}
    for layer in sorted(set().union(*lines)):
        rows[layer_label(layer)] = [of[layer].main if layer in of else None for of in lines]
    of_baselines = [{line.label: line.main for line in table.baselines} for table in tables]
    labels = baseline_labels(tables)
    rows |= {label: [of.get(label) for of in of_baselines] for label in labels}
    best = {(layer_label(at), column) for column, of in enumerate(lines) for at in of if of[at].in_best_set}
    notes = [*([BEST_NOTE] if any(table.compared for table in tables) else []), *_shared_notes(tables)]
    metrics, headers = [table.metric for table in tables], summary_headers(tables)
    return Table.of("layers by tasks, %", headers, rows, notes, metric=metrics, best=best, baselines=labels)


def _shared_notes(tables: Sequence[LayerTable]) -> Iterator[Note]:
    """What all tables are of, and how the words of their data are aligned."""
    for name in ("model", "corpus", "split"):
        values = {getattr(table.about, name) for table in tables} - {None}
        if len(values) == 1:
            yield Note(name, str(values.pop()))
    yield from alignment_notes(*(table.about for table in tables))


MOST_SIDE_BY_SIDE = 6
"""Largest number of tasks that stand side by side as columns; more of them are the rows of a table."""


def are_variants(tables: Sequence[LayerTable]) -> bool:
    """Whether tables are of many tasks that differ by what stands after a colon, such as all features of a corpus."""
    return len(tables) > MOST_SIDE_BY_SIDE and len({table.task.partition(":")[0] for table in tables}) == 1


def tasks_table(tables: Sequence[LayerTable]) -> Table:
    """Tasks by layers: the main metric of each table in a row, with its counts, controls, baselines and best layers."""
    layers, labels = sorted({line.layer for table in tables for line in table.lines}), baseline_labels(tables)
    stem = f"{tables[0].task.partition(':')[0]}:" if are_variants(tables) else ""
    names = apart([[table.task.removeprefix(stem), *_details(table)] for table in tables])
    beside = [name for name in ("random_init", "selectivity") if any(name in table.shown for table in tables)]
    titles = [LAYER_COLUMNS[name].title for name in beside]
    headers = ["items", "classes", *labels, *titles, "best", "layers", *map(str, layers)]
    rows, best, baselines = dict[str, list[Any]](), list[tuple[str, int]](), dict[str, BaselineLine]()
    for name, table in zip(names, tables, strict=True):
        of_baselines, top = {line.label: line for line in table.baselines}, table.chosen_line
        baselines |= of_baselines
        by_layer = {line.layer: line.main for line in table.lines}
        tied = [line.layer for line in table.lines if line.in_best_set]
        rows[name] = [table.about.n_items, table.about.n_classes]
        rows[name] += [of_baselines[label].main if label in of_baselines else None for label in labels]
        rows[name] += [top.scores[column] if top else None for column in (*beside, "main")]
        rows[name] += [layers_named(tied or [top.layer]).partition(" ")[2] if top else "", *map(by_layer.get, layers)]
        best += [(name, headers.index(str(layer))) for layer in tied]
    how = f"score of the best layer, chosen on the split shown, which makes it a little too high{_last(tables)}"
    notes = [Note("best", how)]
    notes += [Note("layers", BEST_NOTE.text)] if best else []
    notes += [Note(INTERVAL, f"[ ] 95 %, {covered([table.n_seeds for table in tables])}")]
    notes += [Note(" and ".join(titles), "of that layer")] if titles else []
    notes += [Note(label, baselines[label].note) for label in labels] + [*_shared_notes(tables)]
    left_out = dict.fromkeys(table.about.param("left_out", "") for table in tables)
    return Table.of(
        f"{stem.removesuffix(':') or 'tasks'} by layers, %",
        headers,
        rows,
        [*notes, *(Note("left out", text) for text in left_out if text)],
        metric={name: table.metric for name, table in zip(names, tables, strict=True)},
        intervals={headers.index("best")},
        best=best,
        corner="Task",
        spare=tuple(titles),
        series=len(layers),
    )


def _last(tables: Sequence[LayerTable]) -> str:
    """The end of a note on best layers: the metrics that have none, for which the last layer is shown."""
    names = dict.fromkeys(metric_title(table.metric) for table in tables if not metric_form(table.metric).ranks_layers)
    return f"; of {', '.join(names)}, by which no layer is the best, of the last layer" if names else ""


def summary_headers(tables: Sequence[LayerTable]) -> tuple[str, ...]:
    """The task, its metric, and whatever else sets the tables apart."""
    return tuple(apart([[f"{table.task} {metric_title(table.metric)}", *_details(table)] for table in tables]))


def _details(table: LayerTable) -> list[str]:
    """What may set tables of one task apart."""
    about = table.about
    return [one or "" for one in (about.model, about.corpus, about.split, about.pooling, about.reading)]


def model_table(tables: Sequence[LayerTable]) -> Table:
    """Models by tasks: the score of each model's best layer, and the number of that layer; see :attr:`chosen_line`."""
    by_question: dict[tuple[str, ...], dict[str, LayerTable]] = defaultdict(dict)
    # The model, then what may set it apart.
    every = [(table.about, table.one_of_several) for table in tables]
    models = apart([(model_of(row), row.pooling or "", row.reading if several else "") for row, several in every])
    for model, table in zip(models, tables, strict=True):
        by_question[table.task, table.metric, table.about.corpus, table.about.split][model] = table
    baselines = dict(baseline_rows([list(of.items()) for of in by_question.values()]))
    headers = apart([[f"{key[0]} {metric_title(key[1])}", *key[2:]] for key in by_question])
    rows: dict[str, list[Any]] = {}
    for model in dict.fromkeys(models):
        best = [of[model].chosen_line if model in of else None for of in by_question.values()]
        rows[model] = [part for line in best for part in ((line.main, line.layer) if line else (None, ""))]
    rows |= {name: [part for score in scores for part in (score, "")] for name, scores in baselines.items()}
    notes = (
        Note("data", "; ".join(dict.fromkeys(data_of(table.about) for table in tables))),
        *alignment_notes(*(table.about for table in tables)),
        Note(INTERVAL, f"[ ] 95 %, {covered([table.n_seeds for table in tables])}"),
        Note("score", f"of the best layer, chosen on the split shown, which makes it a little too high{_last(tables)}"),
        Note("models", "were not compared in pairs: overlapping intervals do not say that they are alike"),
    )
    percent = ", %" if all(metric_form(table.metric).is_fraction for table in tables) else ""
    how: dict[str, Any] = {"metric": [one for key in by_question for one in (key[1], "")], "baselines": baselines}
    headers = [one for header in headers for one in (header, "layer")]
    return Table.of(f"models by tasks{percent}", headers, rows, notes, corner="Model", **how)


def baseline_rows(questions: Sequence[Sequence[tuple[str, LayerTable]]]) -> Iterator[tuple[str, list[Score | None]]]:
    """Name and scores, one a question, of each line of baselines of a table that is made of several.

    Each of the ``questions`` holds tables of the same task and data with the names of who reads them.
    """
    for label in baseline_labels([table for tables in questions for _, table in tables]):
        for owner in baseline_owners(label, questions):
            scores = []
            for tables in questions:
                lines = (line for name, table in tables if owner in (None, name) for line in table.baselines)
                scores.append(next((line.main for line in lines if line.label == label), None))
            if any(scores):
                yield ", ".join(filter(None, [label, owner])), scores


def baseline_labels(tables: Sequence[LayerTable]) -> tuple[str, ...]:
    """Labels of the baselines of tables, each once, in the order of controls."""
    lines = [line for control in CONTROLS for table in tables for line in table.baselines if line.control == control]
    return tuple(dict.fromkeys([line.label for line in lines]))


def baseline_owners(label: str, questions: Sequence[Sequence[tuple[str, LayerTable]]]) -> tuple[str | None, ...]:
    """The owner of each line of a baseline: None for all; or each name, where the scores of one question differ."""
    for tables in questions:
        if len({line.main for _, table in tables for line in table.baselines if line.label == label}) > 1:
            return tuple(dict.fromkeys(name for tables in questions for name, _ in tables))
    return (None,)


UNITS_NOTE = Note("units", "fractions in percent; bits and other numbers unscaled")


def group_rows(table: LayerTable, *, statistics: bool = False) -> dict[str, list[ResultRow]]:
    """The rows of each group of items behind a table, in order of first appearance.

    Or of all ``statistics`` behind a table that is about the vectors themselves and has more than it shows.
    """
    about, rows = table.about, table.rows if statistics else table.groups
    if statistics and not about.is_statistic:
        return {}
    own = [row for row in rows if (row.init, row.control, row.status) == (about.init, ITSELF, "ok")]
    own = [row for row in own if (row.metric == table.metric) != statistics]
    by_name = grouped(own, "metric" if statistics else "group")
    return {name: by_name[name] for name in (by_name if statistics else group_names(own))}


def group_tables(tables: Sequence[LayerTable], *, statistics: bool = False) -> tuple[Table, ...]:
    """Groups by layers of those tables whose items are in several groups, or all ``statistics``: :func:`group_rows`."""
    found = []
    for table in tables:
        by_name, about = group_rows(table, statistics=statistics), table.about
        if not by_name:
            continue
        layers = [line.layer for line in table.lines]
        keys = {name: (None, name) if statistics else (name, table.metric) for name in by_name}
        beside = {(row.group, row.metric, row.note[0]): row.score for row in table.beside if row.value is not None}
        labels = [label for label in baseline_labels([table]) if any((*of, label) in beside for of in keys.values())]
        chances = {name: of[0].chances.get(str(of[0].group)) for name, of in by_name.items()}
        chances = chances if len(set(chances.values())) > 1 else {}
        skips = any(of[0].n_skipped for of in by_name.values())
        headers = ["items"] * (not statistics) + ["skipped"] * skips + ["chance"] * bool(chances)
        lines: dict[str, list[Any]] = {}
        for name, of in by_name.items():
            line: list[Any] = [of[0].n_items] * (not statistics) + [of[0].n_skipped] * skips
            if chances:
                line.append(NOTHING if (chance := chances[name]) is None else score_cell(Score(chance), ""))
            by_layer = {row.layer: row.score for row in of if row.value is not None}
            line += [*(beside.get((*keys[name], label)) for label in labels), *map(by_layer.get, layers)]
            lines[metric_title(name) if statistics else name] = line
        interval = Note(INTERVAL, f"[ ] 95 %, of layer {layers[-1]}")
        metrics = dict(zip(lines, by_name if statistics else [table.metric] * len(lines), strict=True))
        found.append(
            Table.of(
                f"{table.task} · further statistics by layer" if statistics else table.title(" by group"),
                [*headers, *labels, *map(str, layers)],
                lines,
                (*data_notes(about), interval, *([UNITS_NOTE] * statistics)),
                metric=metrics,
                intervals={len(headers) + len(labels) + len(layers) - 1},
                about=about,
                corner=STATISTIC if statistics else "Group",
                series=len(layers),
            )
        )
    return tuple(found)


def group_names(rows: Sequence[ResultRow]) -> list[str]:
    """The groups in order of first appearance."""
    names = list(dict.fromkeys(str(row.group) for row in rows))
    # Rows that were read come by their names' letters, of which "stated 10 times" is before "stated 2 times".
    return sorted(names, key=natural_order) if names == sorted(names) else names


STATISTIC = "Statistic"
"""The corner of a table of further statistics."""
MEASURED = "Measured"
"""The corner of a table of the best heads."""
_NAMED_ON_TEST = "†"
_OVER_TEST = "[ ] 95 %, bootstrap over test sentences (over blocks of neighbours if more than 1,000)"


def head_tables(rows: Sequence[ResultRow]) -> tuple[tuple[Table, Table], ...]:
    """Two tables for each task, model, reading and metric, in order of first appearance.

    The first has the best head of each group of items, or by each metric of all items, the next best one, and what they
    are compared with; the second all heads by these groups or metrics, those that were chosen marked.
    """
    scored = [row for row in rows if row.status == "ok" and row.value is not None]
    asked = [((row.task, row.corpus, row.metric if row.group is not None else ""), row) for row in scored]
    baselines = by_key((key, row) for key, row in asked if row.head is None and row.is_baseline)
    of_table = by_key(((*key, row.model, row.reading), row) for key, row in asked if row.head is not None)
    own = ((same, own_baselines(baselines.get(key[:3], []), same[0].model)) for key, same in of_table.items())
    return tuple(itertools.starmap(_head_tables, own))


def head_place(head: str) -> tuple[int, ...]:
    """Layer and number of a head named as L8H10."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", head))


def _head_tables(rows: Sequence[ResultRow], baselines: Sequence[ResultRow]) -> tuple[Table, Table]:
    """The best heads and all heads of one task, model and reading, by one metric or, of all items, by several."""
    init, chosen_on = own_init(rows), next((on for row in rows if (on := row.param("chosen_on"))), None)
    dev = grouped([row for row in rows if row.split == chosen_on], "init", "metric", "group")
    test = grouped([row for row in rows if row.split != chosen_on], "init", "metric", "group")
    about = next(row for row in rows if row.init == init and row.split != chosen_on)
    metric = about.metric if about.group is not None else ""
    n_items = {key: max(row.n_items for row in heads) for key, heads in test.items() if key[0] == init}
    keys = sorted(n_items, key=lambda key: (-n_items[key], natural_order(key[2] or key[1])))
    notes = {str(row.control): row.note for row in baselines if (init, row.metric, row.group) in n_items}
    controls = sorted(notes, key=CONTROLS.index)
    with_random = init != "random" and any(("random", *key[1:]) in test for key in keys)
    best, behind, scores = dict[str, list[Any]](), dict[str, ResultRow](), dict[str, dict[str, Score]]()
    starred = list[tuple[str, int]]()
    for key in keys:
        fresh = "random", *key[1:]
        ordered = _from_best(test[key], dev.get(key, ()))
        random = _from_best(test[fresh], dev.get(fresh, ()))[:1] if with_random and fresh in test else []
        beside = {str(row.control): row.score for row in baselines if (row.metric, row.group) == key[1:]}
        name = str(key[2]) if metric else metric_title(key[1])
        scores[name] = {str(row.head): row.score for row in sorted(ordered, key=lambda row: head_place(str(row.head)))}
        mean = Score(float(np.mean([score.value for score in scores[name].values()])))
        others = [*map(beside.get, controls), *[random[0].score if random else None] * with_random]
        first = behind[name] = ordered[0]
        best[name] = [n_items[key], str(first.head), first.score, NOTHING, mean, *others]
        for row in ordered[1:2]:
            best[name][3] = Cell(f"{row.head} {number(row.score.value, metric=key[1])}", score=row.score)
        better = [first.score.is_better_than(one, higher_is_better=first.higher_is_better) for one in others if one]
        starred += [(name, 2)] if None not in (first.ci_low, first.ci_high) and better and all(better) else []
    on_test = {name for name, key in zip(best, keys, strict=True) if chosen_on is not None and key not in dev}
    labels, where = [notes[control][0] for control in controls], chosen_on or about.split
    told = {STAR: starred, "→": any("→" in name for name in best), _NAMED_ON_TEST: on_test, "random init": with_random}
    described = [Note(*notes[control]) for control in controls]
    shown = Table.of(
        f"{about.task} · {f'{metric_title(metric)} by head{unit(metric)}' if metric else 'by head'}",
        ["items", "head", "score", "next", "mean", *labels, *["random init"] * with_random],
        best,
        _head_notes(about, where, described, told),
        metric={name: row.metric for name, row in behind.items()},
        intervals={2},
        best=starred,
        labels={name: f"{name} {_NAMED_ON_TEST}" if name in on_test else name for name in best},
        about=about,
        behind=behind,
        corner=MEASURED,
        spare=("next", "mean"),
    )
    return shown, _all_heads(shown, scores, labels, metric, where)


def _all_heads(
    shown: Table, scores: Mapping[str, Mapping[str, Score]], baselines: Sequence[str], metric: str, chosen_on: str
) -> Table:
    """All heads by the lines of a table of the best ones, these marked."""
    heads = sorted(set().union(*scores.values()), key=head_place)
    rows = {head: [of.get(head) for of in scores.values()] for head in heads}
    rows |= {label: shown.scores(label) for label in baselines}
    return Table.of(
        f"{shown.task} · {f'{metric_title(metric)}, all heads' if metric else 'heads'}",
        scores,
        rows,
        [*_head_data(shown.row), Note(STAR, f"the best head, chosen on {chosen_on}")],
        metric=[line.row.metric for line in shown.lines],
        intervals=False,
        best={(str(line.row.head), column) for column, line in enumerate(shown.lines)},
        baselines=baselines,
        about=shown.about,
        corner="Head",
    )


def _head_notes(about: ResultRow, chosen_on: str, baselines: Sequence[Note], told: Mapping[str, Any]) -> Iterator[Note]:
    """The notes below the best heads; of those in ``told`` the ones that apply."""
    flatters = "by the scores shown, which flatters the best of them"
    how = flatters if chosen_on == about.split else f"on {chosen_on}, scored on {about.split}"
    yield from _head_data(about)
    texts = {
        STAR: "better than baselines and random weights: intervals do not overlap",
        "→": "from the attending word to the attended word",
        "heads": f"are chosen {how}; next: the second best; mean: of all heads",
        _NAMED_ON_TEST: f"too few items on {chosen_on}: chosen {flatters}",
        INTERVAL: _OVER_TEST,
    }
    yield from [Note(subject, text) for subject, text in texts.items() if told.get(subject, True)]
    yield from baselines
    if told["random init"]:
        yield Note("random init", "the best head of one random initialisation, chosen in the same way")


def _head_data(about: ResultRow) -> Iterator[Note]:
    yield from data_notes(about)
    if (pairs := about.param("pairs")) is not None:
        apart = about.param("pairs_apart", 0)
        more = f"; {apart:,} too long for the model together, read apart" if apart else ""
        yield Note("texts", f"{pairs:,} pairs of neighbouring sentences, for intervals drawn together{more}")


def _from_best(heads: Sequence[ResultRow], on_dev: Sequence[ResultRow]) -> list[ResultRow]:
    """Heads from the best to the worst by what they are chosen by; of equals the first in the model."""
    chosen_by = {row.head: -row.score.value if row.higher_is_better else row.score.value for row in on_dev or heads}
    return sorted(heads, key=lambda row: (chosen_by.get(row.head, np.inf), head_place(str(row.head))))


def step_tables(rows: Sequence[ResultRow]) -> tuple[tuple[Table, ...], tuple[Table, ...]]:
    """The whole model step by step, such as with more and more heads off in some orders, or without each of its layers.

    There is a table for each task, model and metric. A step's name ends in how far it goes; before it stands the order:
    ``random 10 %``. Other sets of heads that are off next to steps have tables of their own, which come second.
    """
    of_models = [row for row in rows if row.readout in ATTENTION and row.head is None and row.model is not None]
    of_steps = [row for row in of_models if row.group is not None and row.value is not None]
    asked = [(row.task, row.corpus, row.model, row.reading, row.layer is None, row.metric) for row in of_steps]
    tables, sets = [], list[ResultRow]()
    for same in by_key(zip(asked, of_steps, strict=True)).values():
        if in_steps := [row for row in same if row.layer is None and _STEP.fullmatch(str(row.group))]:
            sets += [row for row in same if not _STEP.fullmatch(str(row.group))]
            same = in_steps
        about, steps = same[0], defaultdict[str, dict[str, Score]](dict)
        for row in same:
            match = _STEP.fullmatch(str(row.group)) if row.layer is None else None
            order, step = match.groups() if match else ("", str(row.group))
            order, step = (order.strip(), step) if row.layer is None else (step, f"layer {row.layer}")
            steps[step][order] = row.score
        orders = sorted({order for of_step in steps.values() for order in of_step})
        lines = {step: [steps[step].get(order) for order in orders] for step in sorted(steps, key=natural_order)}
        what = "by whole layers" if about.layer is not None else "of the whole model"
        title = f"{about.task} · {metric_title(about.metric)} {what}{unit(about.metric)}"
        headers = [order or metric_title(about.metric) for order in orders]
        notes = (*data_notes(about), Note(INTERVAL, _OVER_TEST))
        tables.append(Table.of(title, headers, lines, notes, metric=about.metric, about=about, corner="Step"))
    tables.sort(key=lambda of: (of.task, of.row.layer is not None, not of.row.main_metric, of.metric))
    return tuple(tables), tuple(map(_set_table, grouped(sets, "task", "corpus", "model", "reading").values()))


_STEP = re.compile(r"(.*?)(\d+ %.*)")


def _set_table(rows: Sequence[ResultRow]) -> Table:
    """The model with some sets of heads off, by metrics."""
    about, metrics = rows[0], list(dict.fromkeys(row.metric for row in rows))
    scores = {(str(row.group), row.metric): row.score for row in rows}
    lines = {group: [scores.get((group, metric)) for metric in metrics] for group, _ in scores}
    notes = (*data_notes(about), *(Note(*note) for note in about.param("notes", ())), Note(INTERVAL, _OVER_TEST))
    headers, title = [metric_title(metric) + unit(metric) for metric in metrics], f"{about.task} · sets of heads off"
    return Table.of(title, headers, lines, notes, metric=metrics, about=about, corner="Off")


def whole_tables(every: Sequence[ResultRow]) -> tuple[Table, ...]:
    """A table for each task and model that was measured as a whole: groups of items by statistics."""
    of_models = [row for row in every if row.readout == result_rows.ENCODERS and row.layer is None and row.head is None]
    asked = operator.attrgetter("task", "corpus_fingerprint", "split", "model", "init", "reading")
    scored = ((asked(row), row.param("reference"), row) for row in of_models if row.value is not None)
    tables = []
    for same in by_key(((key, reference), row) for key, reference, row in scored).values():
        about, main = same[0], {row.metric for row in same if row.main_metric}
        groups: dict[str, dict[str, ResultRow]] = defaultdict(dict)
        for row in sorted(same, key=lambda row: bool(row.group)):
            groups[row.group or "all"][row.metric] = row
        metrics = sorted(dict.fromkeys(row.metric for row in same), key=lambda name: name not in main)
        rows: dict[str, list[Any]] = {}
        for name, of in groups.items():
            rows[name] = [next(iter(of.values())).n_items]
            for metric in metrics:
                # Intervals of all would leave no room for labels.
                interval = name == "all" and metric in main
                rows[name].append(score_cell(of[metric].score if metric in of else None, metric, interval=interval))
        intervals = Note(INTERVAL, "[ ] 95 %, of the main statistic; the tables of the run have all")
        notes = (*data_notes(about), Note("reference", str(about.param("reference"))), intervals, UNITS_NOTE)
        headers = ["items", *map(metric_title, metrics)]
        how: dict[str, Any] = {"metric": ["", *metrics], "about": about, "corner": "Items"}
        tables.append(Table.of(f"{about.task} · the whole model", headers, rows, notes, **how))
    return tuple(tables)


MIX, CUMULATIVE, CONCATENATED = "edge_mix", "edge_cumulative", "edge_cat"
_GRAVITY, _KL, _EXPECTED = "centre of gravity", "KL, bits", "expected layer"


question_of = operator.attrgetter("task", "corpus", "split", "model", "pooling")
"""What a row of a task that is read from layers, or from mixtures of them, is an answer to."""


def pipeline_tables(rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[Table, ...]:
    """Three tables of the tasks that were read by a mixture of layers, a line for each task, corpus and model.

    The first has their scores from single layers and from mixtures, and at which depth they come about: the centre of
    gravity is the mean layer under the mixture's weights (Tenney et al. 2019b, eq. 2), with bounds over seeds, which
    draw the training data anew; KL is the divergence of the weights from equal ones; the expected layer is where
    mixtures of layers 0…ℓ gain (eq. 4). The second has the weight of each layer in the mixture, the third the gain that
    each layer adds to the score of the mixtures below it (eq. 3). Without mixtures there are none.
    """
    of_mixtures = [row for row in rows if row.readout in (MIX, CUMULATIVE) and row.control == ITSELF]
    mixed = dict.fromkeys(question_of(row) for row in of_mixtures if row.status == "ok")
    if not mixed:
        return ()
    found = (_mixture(key, rows, tables) for key in mixed)
    behind, depths, weights, gains, seeds, paces = zip(*found, strict=True)
    several = len({row.model for row in behind}) > 1
    how: dict[str, Any] = {"behind": dict(enumerate(behind)), "corner": "Task"}
    how["labels"] = {n: f"{row.task} · {row.model}" if several else row.task for n, row in enumerate(behind)}
    # What is known of no task has no column.
    headers = [one for one in depths[0] if any(of[one].text not in (NOTHING, "") for of in depths)]
    cells = {n: [of[header] for header in headers] for n, of in enumerate(depths)}
    drawn, pace = any(of[_GRAVITY].interval for of in depths), next(filter(None, paces), None)
    over = "[ ] over seeds, which draw the training data anew" if drawn else "no interval: it comes from one seed's fit"
    faster = f"; the weights are learned {pace:g} times as fast as others, on which it depends" if pace else ""
    texts = {**_DEPTHS, _GRAVITY: _DEPTHS[_GRAVITY] + over + faster, INTERVAL: f"[ ] 95 %, {covered(seeds)}"}
    notes = [Note(header, text) for header, text in texts.items() if header in (*headers, INTERVAL)]
    notes += alignment_notes(*behind)
    shown = [Table.of("where in the model tasks are solved, %", headers, cells, notes, **how)]
    for title, every in (("weight of each layer in the mixture", weights), ("gain of each layer", gains)):
        layers = sorted(set().union(*every))
        of_layers = {n: [of.get(layer) for layer in layers] for n, of in enumerate(every)}
        shown.append(Table.of(title, map(str, layers), of_layers, (), series=len(layers), **how))
    return tuple(shown)


def _mixture(key: Any, rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[Any, ...]:
    """A line of the tables of mixtures.

    Returns a row behind it, its depths, weights and gains by layer, the number of seeds, and the factor of the learned
    numbers before the softmax, None without a centre of gravity or where it is not known.
    """
    of_key = [row for row in rows if row.model and question_of(row) == key]
    scored = [row for row in of_key if row.control == ITSELF and row.value is not None]
    # Random weights stand beside pretrained ones as a control, but may be what is asked about.
    init = own_init(scored)
    own = [row for row in scored if row.init == init]
    by_readout: dict[str | None, LayerTable] = {}
    for table in tables:
        if question_of(table.about) == key:
            readout = table.about.readout
            by_readout.setdefault(readout if readout in (MIX, CUMULATIVE, CONCATENATED) else "single", table)
    about = own[0] if own else of_key[0]
    metric = next((row.metric for row in own if row.main_metric), about.metric)
    of_mix = (row.param("details", {}) for row in own if row.readout == MIX and row.metric == metric)
    details: Mapping[str, Any] = next(of_mix, {})
    mixtures = by_readout[CUMULATIVE].lines if CUMULATIVE in by_readout else ()
    grown = [(line.layer, line.main.value) for line in mixtures if line.main]
    depths = _depth(own, [row for row in scored if row.init == "random" != init], metric, by_readout)
    learned = details.get("mix_weights", ())
    layers = details.get("layers") or range(len(learned))
    weights = {layer: formatted_cell(Score(weight), ".2f") for layer, weight in zip(layers, learned, strict=True)}
    steps = itertools.pairwise(grown)
    gains = {layer: score_cell(Score(after - before), metric) for (_, before), (layer, after) in steps}
    pace = details.get("mix_pace") if depths[_GRAVITY].score else None
    return about, depths, weights, gains, len({row.seed for row in own}), pace


_DEPTHS = {
    "layer 0": "the embeddings alone, before any context",
    "which": "layers statistically tied with the best (paired bootstrap, Benjamini–Hochberg q < .05)",
    _GRAVITY: "mean layer under the weights of the learned mixture; KL: how far they are from equal; ",
    _EXPECTED: "mean layer at which mixtures of layers 0…ℓ gain (Tenney et al. 2019b); "
    f"{NOTHING} where they gain too little, beyond the layers where some lose",
    "random init": "the mixture, of the same model with random weights",
}
"""What the columns of the table of depths are."""


def _depth(
    own: Sequence[ResultRow], random: Sequence[ResultRow], metric: str, by_readout: Mapping[str | None, LayerTable]
) -> dict[str, Cell]:
    """A line of the table of depths: all of its columns."""
    single = by_readout.get("single")
    lowest = single or by_readout.get(CUMULATIVE)
    best = single.chosen_line if single else None
    tied = [str(line.layer) for line in single.lines if line.main and line.in_best_set] if single else []
    names = {metric_form(row.metric).depth: row.metric for row in own}
    shown = {
        "layer 0": next((line.main for line in lowest.lines if line.layer == 0), None) if lowest else None,
        "best layer": best.main if best else None,
        "mix of all": _mixed_score(own, MIX, metric),
        "random init": _mixed_score(random, MIX, metric),
        "first + last": _mixed_score(own, CONCATENATED, metric),
    }
    cells = {"metric": Cell(metric_title(metric))}
    for header, score in shown.items():
        cells[header] = score_cell(score, metric, interval=header in ("best layer", "mix of all"))
        if header == "best layer":
            cells["which"] = Cell(", ".join(tied) or (str(best.layer) if best else ""))
    cells[_GRAVITY] = formatted_cell(_over_seeds(own, names.get("mean", "")), ".2f")
    cells[_KL] = formatted_cell(_mixed_score(own, MIX, names.get("divergence", "")), ".2f")
    return cells | {_EXPECTED: formatted_cell(_mixed_score(own, CUMULATIVE, names.get("growth", "")), ".2f")}


def _mixed_score(rows: Sequence[ResultRow], readout: str, metric: str) -> Score | None:
    of_metric = [row for row in rows if row.readout == readout and row.metric == metric and row.layer is None]
    return result_rows.mean_score([row for row in of_metric if row.reading == of_metric[0].reading])


def _over_seeds(rows: Sequence[ResultRow], metric: str) -> Score | None:
    """The mean over seeds of a statistic of mixtures' weights, with Student's t on their spread."""
    by_seed = {row.seed: row.value for row in rows if row.readout == MIX and row.metric == metric}
    values = [value for value in by_seed.values() if value is not None]
    if len(values) < 2:
        return Score(values[0]) if values else None
    mean, half = float(np.mean(values)), float(scipy.special.stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1))
    return Score(mean, mean - half, mean + half)


@dataclass(frozen=True)
class StepTable(Table):
    """Layers by steps of one task over one training, or over several that differ in their seed alone."""

    training: str = ""
    """The part of their names that the checkpoints have in common."""
    steps: tuple[int, ...] = ()
    """Numbers of updates of the columns that are a series."""
    n_seeds: int = 1
    """Number of trainings."""
    best_layer: int = 0
    """The layer that is best at the last step, the lowest of equals."""
    drawn: Mapping[float, NDArray[np.float64]] = field(default_factory=dict, compare=False, repr=False)
    """``[resample]`` checkpoints at which it has each share of its gain, in replicates; empty without a sure gain."""

    def by_layer(self) -> dict[int, list[Score | None]]:
        """The scores of each layer by step."""
        lines = (line for line in self.lines if not line.baseline)
        return {line.row.layer or 0: [cell.score for cell in line.cells[-len(self.steps) :]] for line in lines}


def is_score_of_layer(row: ResultRow) -> bool:
    """Whether a row is the main score of a task at one layer of one checkpoint, as curves over steps are made of."""
    whole = row.group is None and row.head is None and row.layer is not None and row.step is not None
    return whole and row.main_metric and row.control == ITSELF and row.status == "ok" and row.init != "random"


def has_steps(rows: Sequence[ResultRow]) -> set[tuple[str, str]]:
    """The tasks and trainings of which there are scores of layers at two checkpoints."""
    steps = by_key(((row.task, row.training), row.step) for row in rows if is_score_of_layer(row))
    return {key for key, of_training in steps.items() if len({*of_training}) > 1}


def beside_steps(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows that curves over steps do not show: models without steps, and tasks of heads at the last step."""
    shown = has_steps(rows)
    left = [row for row in last_steps(rows) if row.step is None or (row.task, row.training) not in shown]
    tasks = {row.task for row in left if row.model is not None}  # the others have baselines alone
    return tuple(row for row in left if row.task in tasks)


def last_steps(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows without those of all but the last checkpoint of each training and pretraining seed."""
    of_training = operator.attrgetter("training", "pretraining_seed")
    steps = by_key((of_training(row), row.step) for row in rows if row.step is not None)
    last = {key: max(of_steps) for key, of_steps in steps.items()}
    return tuple(row for row in rows if row.step is None or row.step == last[of_training(row)])
