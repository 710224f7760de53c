"""Tables that look across tasks, models or seeds, as text in cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bertology.results.tables.wording import apart, covered
from bertology.results.views.grid import (
    BEST_NOTE,
    NOTHING,
    Cell,
    Grid,
    GridLine,
    Note,
    data_of,
    is_fraction,
    layer_label,
    metric_title,
    model_of,
    number,
    score_cell,
    unit,
)
from bertology.results.views.layers import BASELINE_LABELS, LayerLine, LayerTable, Score


def summary_grid(tables: Sequence[LayerTable]) -> Grid:
    """Layers by tasks: the main metric of each table side by side."""
    of_layer = [{line.layer: line for line in table.lines} for table in tables]
    lines = []
    for layer in sorted(set().union(*of_layer)):
        row = [by_layer.get(layer) for by_layer in of_layer]
        cells = [score_cell(line.main if line else None, table.metric) for line, table in zip(row, tables, strict=True)]
        best = frozenset(column for column, line in enumerate(row) if line and line.in_best_set)
        lines.append(GridLine(layer_label(layer), tuple(cells), best))
    for label in BASELINE_LABELS:
        scores = [{b.label: b.main for b in table.baselines}.get(label) for table in tables]
        if any(scores):
            cells = [score_cell(score, table.metric) for score, table in zip(scores, tables, strict=True)]
            lines.append(GridLine(label, tuple(cells), baseline=True))
    notes = [BEST_NOTE] if any(table.compared for table in tables) else []
    about = tables[0].about
    notes += [
        Note(name, str(getattr(about, name))) for name in ("model", "corpus", "split") if not _differ(tables, name)
    ]
    return Grid("layers by tasks, %", summary_headers(tables), tuple(lines), tuple(notes))


def model_grid(tables: Sequence[LayerTable]) -> Grid:
    """Models by tasks: the score of each model's best layer, and the number of that layer."""
    questions = list(dict.fromkeys(map(_question, tables)))
    models = apart(list(map(_described, tables)))
    by_place = {(model, _question(table)): table for model, table in zip(models, tables, strict=True)}
    lines = []
    for model in dict.fromkeys(models):
        pairs = [_best_cells(by_place.get((model, question))) for question in questions]
        lines.append(GridLine(model, tuple(cell for pair in pairs for cell in pair)))
    named = list(zip(models, tables, strict=True))
    by_question = [[(name, table) for name, table in named if _question(table) == question] for question in questions]
    for name, scores in baseline_rows(by_question):
        pairs = [(score_cell(score, question[1]), Cell("")) for score, question in zip(scores, questions, strict=True)]
        lines.append(GridLine(name, tuple(cell for pair in pairs for cell in pair), baseline=True))
    headers = [header for question in questions for header in (_header(question, questions), "layer")]
    notes = (
        Note("data", "; ".join(dict.fromkeys(data_of(table.about) for table in tables))),
        Note("interval", f"[ ] 95 %, {covered([table.n_seeds for table in tables])}"),
        Note("score", "of the layer that scores best in the split shown, which flatters every model a little"),
        Note("models", "were not compared in pairs: overlapping intervals do not say that they are alike"),
    )
    percent = ", %" if all(is_fraction(table.metric) for table in tables) else ""
    return Grid(f"models by tasks{percent}", tuple(headers), tuple(lines), notes, corner="Model")


def baseline_rows(questions: Sequence[Sequence[tuple[str, LayerTable]]]) -> Iterator[tuple[str, list[Score | None]]]:
    """Name and scores, one a question, of each line of baselines of a table that is made of several.

    Args:
        questions: tables of the same task and data, each with the name of who reads it.
    """
    for label in BASELINE_LABELS:
        for owner in baseline_owners(label, questions):
            scores = []
            for tables in questions:
                of_owner = [table for name, table in tables if owner in (None, name)]
                known = (line.main for table in of_owner for line in table.baselines if line.label == label)
                scores.append(next(known, None))
            if any(scores):
                yield ", ".join(filter(None, [label, owner])), scores


def baseline_owners(label: str, questions: Sequence[Sequence[tuple[str, LayerTable]]]) -> tuple[str | None, ...]:
    """The owner of each line of a baseline, in a table that is made of several.

    Returns:
        None, one line for all; or all names, where the scores of one question differ.
    """
    of_question = [
        {line.main for _, table in tables for line in table.baselines if line.label == label} for tables in questions
    ]
    if all(len(scores) < 2 for scores in of_question):
        return (None,)
    return tuple(dict.fromkeys(name for tables in questions for name, _ in tables))


def seed_grid(table: LayerTable) -> Grid:
    """Layers by seeds: the main metric of each seed, and how much it varies."""
    seeds = sorted({seed for line in table.lines for seed in line.by_seed})
    lines = []
    for line in table.lines:
        cells = [score_cell(line.by_seed.get(seed), table.metric, interval=False) for seed in seeds]
        lines.append(GridLine(layer_label(line.layer), (*cells, *_over_seeds(line, table.metric))))
    notes = (
        Note("model", str(table.about.model)),
        Note("data", data_of(table.about)),
        Note("seeds", "seed 0 trains on all sentences of train, every other one on a resample of them"),
        Note("s.d.", "standard deviation over seeds"),
    )
    title = f"{table.task} by seed · {metric_title(table.metric)} by layer{unit(table.metric)}"
    return Grid(title, (*(f"seed {seed}" for seed in seeds), "mean", "s.d."), tuple(lines), notes)


def _over_seeds(line: LayerLine, metric: str) -> tuple[Cell, Cell]:
    mean = score_cell(line.main, metric, interval=False)
    if line.seed_spread is None:
        return mean, Cell(NOTHING)
    return mean, Cell(number(line.seed_spread, metric=metric), score=Score(line.seed_spread))


def _question(table: LayerTable) -> tuple[str, ...]:
    about = table.about
    return (table.task, table.metric, about.corpus, about.split)


def _header(question: tuple[str, ...], questions: Sequence[tuple[str, ...]]) -> str:
    """Task and metric, then corpus and split where they differ."""
    more = [question[part] for part in (2, 3) if len({other[part] for other in questions}) > 1]
    return " ".join([question[0], metric_title(question[1]), *more])


def _described(table: LayerTable) -> tuple[str, ...]:
    """The model, then what may set it apart."""
    return (model_of(table.about), table.about.pooling or "", table.reading if table.one_of_several else "")


def _best_cells(table: LayerTable | None) -> tuple[Cell, Cell]:
    """The best layer's score, and its number."""
    best = table.best_line if table else None
    if table is None or best is None:
        return Cell(NOTHING), Cell("")
    return score_cell(best.main, table.metric), Cell(str(best.layer), score=Score(best.layer))


def summary_headers(tables: Sequence[LayerTable]) -> tuple[str, ...]:
    """The task, its metric, and whatever else sets the tables apart."""
    fields = [name for name in ("model", "corpus", "split", "pooling") if _differ(tables, name)]
    keys = [(table.task, *(getattr(table.about, name) for name in fields)) for table in tables]
    return tuple(
        " ".join(
            [
                key[0],
                metric_title(table.metric),
                *(str(value) for value in key[1:] if value),
                *([table.reading] if keys.count(key) > 1 else []),
            ]
        )
        for table, key in zip(tables, keys, strict=True)
    )


def _differ(tables: Sequence[LayerTable], field: str) -> bool:
    """Whether there are several values of a field; one that does not apply to a table has none there."""
    return len({getattr(table.about, field) for table in tables} - {None}) > 1
