"""Tables that look across tasks, models, seeds or groups of items, such as relations or constructions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bertology._names import layer_label
from bertology.errors import ResultsError
from bertology.results.tables.controls import CONTROLS, is_baseline, note_of, own_baselines
from bertology.results.tables.rows import ResultRow, chances_of, is_statistic, param_of, reading_of
from bertology.results.views.grid import (
    BEST_NOTE,
    Cell,
    Grid,
    GridLine,
    Note,
    alignment_notes,
    apart,
    count_cell,
    covered,
    data_of,
    is_fraction,
    metric_title,
    model_of,
    score_cell,
    table_title,
    unit,
)
from bertology.results.views.layers import LayerTable, Score, natural_order, score_of_row


def summary_grid(tables: Sequence[LayerTable]) -> Grid:
    """Layers by tasks: the main metric of each table side by side."""
    of_layer = [{line.layer: line for line in table.lines} for table in tables]
    lines = []
    for layer in sorted(set().union(*of_layer)):
        row = [by_layer.get(layer) for by_layer in of_layer]
        cells = [score_cell(line.main if line else None, table.metric) for line, table in zip(row, tables, strict=True)]
        best = frozenset(column for column, line in enumerate(row) if line and line.in_best_set)
        lines.append(GridLine(layer_label(layer), tuple(cells), best))
    for label in baseline_labels(tables):
        scores = [{line.label: line.main for line in table.baselines}.get(label) for table in tables]
        if any(scores):
            cells = [score_cell(score, table.metric) for score, table in zip(scores, tables, strict=True)]
            lines.append(GridLine(label, tuple(cells), baseline=True))
    notes = [BEST_NOTE] if any(table.compared for table in tables) else []
    shared = [name for name in ("model", "corpus", "split") if not _differ(tables, name)]
    notes += [Note(name, str(getattr(tables[0].about, name))) for name in shared]
    notes += alignment_notes(*(table.about for table in tables))
    return Grid("layers by tasks, %", summary_headers(tables), tuple(lines), tuple(notes))


def summary_headers(tables: Sequence[LayerTable]) -> tuple[str, ...]:
    """The task, its metric, and whatever else sets the tables apart."""
    fields = [name for name in ("model", "corpus", "split", "pooling") if _differ(tables, name)]
    keys = [(table.task, *(getattr(table.about, name) for name in fields)) for table in tables]
    headers = []
    for table, (task, *others) in zip(tables, keys, strict=True):
        reading = [table.reading] if keys.count((task, *others)) > 1 else []
        headers.append(
            " ".join([task, metric_title(table.metric), *(str(value) for value in others if value), *reading])
        )
    return tuple(headers)


def _differ(tables: Sequence[LayerTable], field: str) -> bool:
    """Whether there are several values of a field; one that does not apply to a table has none there."""
    return len({getattr(table.about, field) for table in tables} - {None}) > 1


def model_grid(tables: Sequence[LayerTable]) -> Grid:
    """Models by tasks: the score of each model's best layer, and the number of that layer."""
    by_question: dict[tuple[str, ...], list[tuple[str, LayerTable]]] = defaultdict(list)
    # The model, then what may set it apart.
    models = apart([(model_of(t.about), t.about.pooling or "", t.reading if t.one_of_several else "") for t in tables])
    for model, table in zip(models, tables, strict=True):
        by_question[table.task, table.metric, table.about.corpus, table.about.split].append((model, table))
    lines = []
    for model in dict.fromkeys(models):
        cells = []
        for named in by_question.values():
            of_model = dict(named).get(model)
            best = of_model.best_line if of_model else None
            number_of_layer = Cell(str(best.layer), score=Score(best.layer)) if best else Cell("")
            cells += [score_cell(best.main if best else None, named[0][1].metric), number_of_layer]
        lines.append(GridLine(model, tuple(cells)))
    for name, scores in baseline_rows(list(by_question.values())):
        pairs = [(score_cell(score, key[1]), Cell("")) for score, key in zip(scores, by_question, strict=True)]
        lines.append(GridLine(name, tuple(cell for pair in pairs for cell in pair), baseline=True))
    # Task and metric, then corpus and split where they differ.
    differ = [part for part in (2, 3) if len({key[part] for key in by_question}) > 1]
    titles = (" ".join([key[0], metric_title(key[1]), *(key[part] for part in differ)]) for key in by_question)
    headers = tuple(header for title in titles for header in (title, "layer"))
    notes = (
        Note("data", "; ".join(dict.fromkeys(data_of(table.about) for table in tables))),
        *alignment_notes(*(table.about for table in tables)),
        Note("interval", f"[ ] 95 %, {covered([table.n_seeds for table in tables])}"),
        Note("score", "of the layer that scores best in the split shown, which flatters every model a little"),
        Note("models", "were not compared in pairs: overlapping intervals do not say that they are alike"),
    )
    percent = ", %" if all(is_fraction(table.metric) for table in tables) else ""
    return Grid(f"models by tasks{percent}", headers, tuple(lines), notes, corner="Model")


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
    """What baselines of tables are called, each once, in the order of :data:`CONTROLS`."""
    lines = [line for table in tables for line in table.baselines]
    return tuple(dict.fromkeys(line.label for line in sorted(lines, key=lambda line: CONTROLS.index(line.control))))


def baseline_owners(label: str, questions: Sequence[Sequence[tuple[str, LayerTable]]]) -> tuple[str | None, ...]:
    """The owner of each line of a baseline: None for all; or each name, where the scores of one question differ."""
    for tables in questions:
        if len({line.main for _, table in tables for line in table.baselines if line.label == label}) > 1:
            return tuple(dict.fromkeys(name for tables in questions for name, _ in tables))
    return (None,)


def seed_grid(table: LayerTable) -> Grid:
    """Layers by seeds: the main metric of each seed, and how much it varies."""
    seeds = sorted({seed for line in table.lines for seed in line.by_seed})
    lines = []
    for line in table.lines:
        scores = [*map(line.by_seed.get, seeds), line.main]
        cells = [score_cell(score, table.metric, interval=False) for score in scores]
        spread = None if line.seed_spread is None else Score(line.seed_spread)
        lines.append(GridLine(layer_label(line.layer), (*cells, score_cell(spread, table.metric))))
    notes = (
        Note("model", str(table.about.model)),
        Note("data", data_of(table.about)),
        *alignment_notes(table.about),
        Note("seeds", "seed 0 trains on all sentences of train, every other one on a resample of them"),
        Note("s.d.", "standard deviation over seeds"),
    )
    title = f"{table.task} by seed · {metric_title(table.metric)} by layer{unit(table.metric)}"
    return Grid(title, (*(f"seed {seed}" for seed in seeds), "mean", "s.d."), tuple(lines), notes)


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
    """How often choices would be right by chance; None where nothing is chosen."""
    metric: str = ""
    """What ``by_layer`` is of a statistic; empty of a group, whose metric is the table's main one."""
    baselines: Mapping[str, Score] = field(default_factory=dict)
    """By what tables call them, the same of baselines that read no layer."""


@dataclass(frozen=True)
class GroupTable:
    """The groups behind one table of layers, or its further statistics."""

    table: LayerTable
    lines: tuple[GroupLine, ...]

    @property
    def are_statistics(self) -> bool:
        """Whether lines are statistics and not groups."""
        return any(line.metric for line in self.lines)

    @property
    def chances_differ(self) -> bool:
        """Whether chance is not the same for all groups."""
        return len({line.chance for line in self.lines}) > 1


def group_tables(rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[GroupTable, ...]:
    """The groups of those tables whose items are in several, in order of first appearance."""
    by_table: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        of_layer = row.layer is not None and row.head is None
        if row.group is not None and row.control == "none" and of_layer and row.status == "ok":
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
        names = [name for name in dict.fromkeys(row.metric for row in own) if name != table.metric]
        baselines = [row for row in _baselines_of(rows, table) if row.group is None]
        lines = [
            _group_line(*([row for row in some if row.metric == name] for some in (own, baselines))) for name in names
        ]
        named = zip(lines, names, strict=True)
        found.append(
            GroupTable(table, tuple(replace(line, name=metric_title(name), metric=name) for line, name in named))
        )
    return tuple(one for one in found if one.lines)


def group_table_of(groups: Sequence[GroupTable], task: str | None = None) -> GroupTable:
    """The one table of groups there is, or that of a task; a :class:`ResultsError` if it is none or several."""
    of_task = [one for one in groups if task in (None, one.table.task) and not one.are_statistics]
    if not of_task:
        which = "" if task is None else f" of task {task}"
        raise ResultsError(f"the items{which} do not stand in groups: there is nothing to show by group")
    if len(of_task) > 1:
        tasks = list(dict.fromkeys(one.table.task for one in of_task))
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


def group_grid(groups: GroupTable, *, most_layers: int | None = None) -> Grid:
    """Groups by layers, at most so many, from the first to the last, after what they stand beside."""
    table = groups.table
    every = [line.layer for line in table.lines]
    most = min(len(every), most_layers or len(every))
    layers = [every[round(at * (len(every) - 1) / (most - 1))] for at in range(most)] if most > 1 else every[-1:]
    counts = {} if groups.are_statistics else {"items": [count_cell(line.n_items) for line in groups.lines]}
    if any(line.n_skipped for line in groups.lines):
        counts["skipped"] = [count_cell(line.n_skipped) for line in groups.lines]
    if groups.chances_differ:
        scores = [None if line.chance is None else Score(line.chance) for line in groups.lines]
        counts["chance"] = [score_cell(score, "accuracy") for score in scores]
    baselines = [name for name in baseline_labels([table]) if any(name in line.baselines for line in groups.lines)]
    lines = []
    for line, *cells in zip(groups.lines, *counts.values(), strict=True):
        metric = line.metric or table.metric
        cells += [score_cell(line.baselines.get(name), metric, interval=False) for name in baselines]
        cells += [score_cell(line.by_layer.get(at), metric, interval=at == layers[-1]) for at in layers]
        lines.append(GridLine(line.name, tuple(cells)))
    notes = [
        Note("data", data_of(table.about)),
        *alignment_notes(table.about),
        Note("model", str(table.about.model)),
        Note("interval", f"[ ] 95 %, of layer {layers[-1]}"),
    ]
    if left_out := len(every) - len(layers):
        notes.append(Note("layers", f"{left_out} more in the other formats, for want of room"))
    headers = (*counts, *baselines, *map(str, layers))
    if groups.are_statistics:
        notes.append(Note("units", "fractions in percent; bits and numbers as they are"))
        title = f"{table.task} · further statistics by layer"
        return Grid(title, headers, tuple(lines), tuple(notes), corner="Statistic")
    return Grid(table_title(table, " by group"), headers, tuple(lines), tuple(notes), corner="Group")
