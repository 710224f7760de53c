"""Tables that look across models and seeds, as text in cells."""

from __future__ import annotations

from collections.abc import Sequence

from bertology.results._grid import (
    NOTHING,
    Cell,
    Grid,
    GridLine,
    Note,
    baseline_owners,
    is_fraction,
    layer_label,
    metric_title,
    number,
    score_cell,
)
from bertology.results._intervals import covered
from bertology.results._names import apart
from bertology.results._view import BASELINE_LABELS, INITS, LayerLine, LayerTable, Score


def model_grid(tables: Sequence[LayerTable]) -> Grid:
    """Models by tasks: each model's best layer, its score and, beside it, which layer that is."""
    questions = list(dict.fromkeys(map(_question, tables)))
    models = apart(list(map(_described, tables)))
    by_place = {(model, _question(table)): table for model, table in zip(models, tables, strict=True)}
    lines = []
    for model in dict.fromkeys(models):
        cells: list[Cell] = []
        for question in questions:
            cells += _best_cells(by_place.get((model, question)))
        lines.append(GridLine(model, tuple(cells)))
    named = list(zip(models, tables, strict=True))
    by_question = [[(model, t) for model, t in named if _question(t) == question] for question in questions]
    for label in BASELINE_LABELS:
        for owner in baseline_owners(label, by_question):
            ours = [table for model, table in named if owner in (None, model)]
            found = [_baseline(label, question, ours) for question in questions]
            if any(score for score, _ in found):
                pairs = [(score_cell(score, metric), Cell("")) for score, metric in found]
                name = ", ".join(filter(None, [label, owner]))
                lines.append(GridLine(name, tuple(cell for pair in pairs for cell in pair), baseline=True))
    headers = [header for question in questions for header in (_header(question, questions), "layer")]
    notes = (
        Note("data", "; ".join(dict.fromkeys(f"{table.about.corpus} {table.about.split}" for table in tables))),
        Note("interval", f"[ ] 95 %, {covered([table.n_seeds for table in tables])}"),
        Note("score", "of the layer that scores best in the split shown, which flatters every model a little"),
        Note("models", "were not compared in pairs: overlapping intervals do not say that they are alike"),
    )
    return Grid("models by tasks" + _unit(tables), tuple(headers), tuple(lines), notes, corner="Model")


def seed_grid(table: LayerTable) -> Grid:
    """Layers by seeds: the main metric of each seed, and how much it varies."""
    seeds = sorted({seed for line in table.lines for seed in line.by_seed})
    lines = []
    for line in table.lines:
        cells = [score_cell(line.by_seed.get(seed), table.metric, interval=False) for seed in seeds]
        lines.append(GridLine(layer_label(line.layer), (*cells, *_over_seeds(line, table.metric))))
    about = table.about
    notes = (
        Note("model", str(about.model)),
        Note("data", f"{about.corpus} {about.split}"),
        Note("seeds", "seed 0 trains on all sentences of train, every other one on a resample of them"),
        Note("s.d.", "standard deviation over seeds"),
    )
    title = f"{table.task} by seed · {metric_title(table.metric)} by layer{_unit([table])}"
    return Grid(title, (*(f"seed {seed}" for seed in seeds), "mean", "s.d."), tuple(lines), notes)


def _over_seeds(line: LayerLine, metric: str) -> tuple[Cell, Cell]:
    mean = score_cell(line.main, metric, interval=False)
    if line.seed_spread is None:
        return mean, Cell(NOTHING)
    return mean, Cell(number(line.seed_spread, metric=metric), score=Score(line.seed_spread))


def _unit(tables: Sequence[LayerTable]) -> str:
    return ", %" if all(is_fraction(table.metric) for table in tables) else ""


def _question(table: LayerTable) -> tuple[str, ...]:
    about = table.about
    return (table.task, table.metric, about.corpus, about.split)


def _header(question: tuple[str, ...], questions: Sequence[tuple[str, ...]]) -> str:
    """Task and metric, then corpus and split where they differ."""
    more = [question[part] for part in (2, 3) if len({other[part] for other in questions}) > 1]
    return " ".join([question[0], metric_title(question[1]), *more])


def _described(table: LayerTable) -> tuple[str, ...]:
    """The model, then what may set it apart."""
    about = table.about
    model = ", ".join(filter(None, [str(about.model), INITS[about.init or "pretrained"]]))
    return (model, about.pooling or "", table.reading if table.one_of_several else "")


def _best_cells(table: LayerTable | None) -> tuple[Cell, Cell]:
    """The best layer's score, and its number."""
    if table is None:
        return Cell(NOTHING), Cell("")
    sign = 1 if table.higher_is_better else -1
    scored = [(sign * line.main.value, -line.layer, line) for line in table.lines if line.main]
    if not scored:
        return Cell(NOTHING), Cell("")
    best = max(scored, key=lambda found: found[:2])[2]
    return score_cell(best.main, table.metric), Cell(str(best.layer), score=Score(best.layer))


def _baseline(label: str, question: tuple[str, ...], tables: Sequence[LayerTable]) -> tuple[Score | None, str]:
    found = [b.main for t in tables if _question(t) == question for b in t.baselines if b.label == label]
    return (found[0] if found else None), question[1]
