"""A table as text in cells, before any format: what each cell, title and note says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertology.results._intervals import DRAWS, SEEDS, interval_text
from bertology.results._names import layers_named
from bertology.results._rows import OWN_HEADS, chances_of, clusters_of, settings_of
from bertology.results._view import BASELINE_LABELS, INITS, BaselineLine, LayerLine, LayerTable, Score

STAR = "★"
NOTHING = "–"

_TITLES = {
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "uuas": "UUAS",
    "uas": "UAS",
    "las": "LAS",
    "dspr": "DSpr",
    "nspr": "NSpr",
    "mrr": "MRR",
    "micro_mrr": "MRR micro",
    "micro_p_at_1": "P@1 micro",
    **{f"p_at_{most}": f"P@{most}" for most in (1, 5, 10, 100)},
}
_THREE_DECIMALS = frozenset({"dspr", "nspr", "mrr", "importance"})
_NOT_FRACTIONS = frozenset({"codelength_bits", "compression", "distance"}) | _THREE_DECIMALS
_UNITS = ("_bits", "_nats", "_words")
"""What numbers that are no fractions are counted in, as their metrics' names end."""
_SMALL = 0.1
"""Numbers in units that are smaller have one more decimal."""


@dataclass(frozen=True)
class Cell:
    """A number as text, and its interval as text."""

    text: str
    interval: str = ""
    score: Score | None = None
    """The numbers themselves; fractions, not percentages."""

    def __str__(self) -> str:
        return f"{self.text} {self.interval}".rstrip()


@dataclass(frozen=True)
class GridLine:
    """A row of cells."""

    label: str
    cells: tuple[Cell, ...]
    best: frozenset[int] = frozenset()
    """Which cells are in the best set of their column."""
    baseline: bool = False


@dataclass(frozen=True)
class Note:
    """A line below the table: what it is about, and what it says."""

    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}{' ' if self.about == STAR else ': '}{self.text}"


@dataclass(frozen=True)
class Grid:
    """A table of text."""

    title: str
    headers: tuple[str, ...]
    """One a cell."""
    lines: tuple[GridLine, ...]
    notes: tuple[Note, ...]
    corner: str = "Layer"
    """The header of the labels."""


def metric_title(metric: str) -> str:
    """A metric's name as one writes it in text."""
    name, space, which = metric.partition(" ")
    return _TITLES.get(name, name.replace("_", " ")) + space + which


def layer_label(layer: int) -> str:
    """A layer's number; layer 0 says what it is."""
    return "0 · embeddings" if layer == 0 else str(layer)


def is_fraction(metric: str) -> bool:
    """Whether a metric is shown in percent."""
    return metric not in _NOT_FRACTIONS and not metric.endswith(_UNITS)


def number(value: float, *, metric: str = "accuracy") -> str:
    """A value with one decimal, in percent if the metric is a fraction; a correlation with three, bits with two."""
    shown = decimals(metric) + (_in_units(metric) and abs(value) < _SMALL)
    text = f"{100 * value if is_fraction(metric) else value:.{shown}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def _in_units(metric: str) -> bool:
    return metric.endswith(_UNITS) and metric not in _NOT_FRACTIONS


def decimals(metric: str) -> int:
    """How many a metric is shown with."""
    if _in_units(metric):
        return 2
    return 3 if metric in _THREE_DECIMALS else 1


def layer_grid(table: LayerTable) -> Grid:
    """The table of one task: layers, then baselines, then all that is needed to read them."""
    columns = _columns(table)
    best = frozenset({0})
    layers = [
        GridLine(
            layer_label(line.layer),
            tuple(_layer_cell(line, name, metric) for name, (_, metric) in columns.items()),
            best if line.in_best_set else frozenset(),
        )
        for line in table.lines
    ]
    baselines = [_baseline_line(line, table, columns) for line in table.baselines]
    unit = ", %" if is_fraction(table.metric) else ""
    silver = " · silver labels" if table.about.annotation == "silver" else ""
    reading = f" · {table.reading}" if table.one_of_several else ""
    return Grid(
        title=f"{table.task} · {metric_title(table.metric)} by layer{unit}{reading}{silver}",
        headers=tuple(header for header, _ in columns.values()),
        lines=(*layers, *baselines),
        notes=tuple(_notes(table)),
    )


def summary_grid(tables: Sequence[LayerTable]) -> Grid:
    """Layers by tasks: the main metric of each table side by side."""
    layers = sorted({line.layer for table in tables for line in table.lines})
    of_layer = [{line.layer: line for line in table.lines} for table in tables]
    lines = []
    for layer in layers:
        found = [lines_of.get(layer) for lines_of in of_layer]
        cells = tuple(
            score_cell(line.main if line else None, table.metric) for line, table in zip(found, tables, strict=True)
        )
        best = frozenset(column for column, line in enumerate(found) if line and line.in_best_set)
        lines.append(GridLine(layer_label(layer), cells, best))
    for label in BASELINE_LABELS:
        scores = [{b.label: b.main for b in table.baselines}.get(label) for table in tables]
        if any(scores):
            cells = tuple(score_cell(score, table.metric) for score, table in zip(scores, tables, strict=True))
            lines.append(GridLine(label, cells, baseline=True))
    notes = [_best_note()] if any(table.compared for table in tables) else []
    shared = _shared(tables)
    return Grid("layers by tasks, %", summary_headers(tables), tuple(lines), (*notes, *shared))


def _columns(table: LayerTable) -> Mapping[str, tuple[str, str]]:
    """The columns there is anything to say in: field of the line → header, metric."""
    every = {
        "main": (metric_title(table.metric), table.metric),
        "second": (metric_title(table.second_metric or ""), table.second_metric or ""),
        "random_init": ("random init", table.metric),
        "control_task": ("control task", table.control_metric),
        "selectivity": ("selectivity", "selectivity"),
        "blind": ("blind", table.metric),
        "seed_spread": ("seed s.d.", table.metric),
    }
    return {
        name: what
        for name, what in every.items()
        if name == "main" or any(getattr(line, name) is not None for line in table.lines)
    }


def _layer_cell(line: LayerLine, name: str, metric: str) -> Cell:
    value = getattr(line, name)
    if name == "seed_spread" and value is not None:
        return Cell(number(value, metric=metric))
    return score_cell(value, metric, interval=name in ("main", "selectivity"))


def score_cell(score: Score | None, metric: str, *, interval: bool = True) -> Cell:
    if score is None:
        return Cell(NOTHING)
    if not interval or score.low is None or score.high is None:
        return Cell(number(score.value, metric=metric), score=score)
    bounds = f"[{number(score.low, metric=metric)}, {number(score.high, metric=metric)}]"
    return Cell(number(score.value, metric=metric), bounds, score)


def _baseline_line(line: BaselineLine, table: LayerTable, columns: Mapping[str, tuple[str, str]]) -> GridLine:
    cells = {
        "main": score_cell(line.main, table.metric),
        "second": score_cell(line.second, table.second_metric or "", interval=False),
    }
    return GridLine(line.label, tuple(cells.get(name, Cell("")) for name in columns), baseline=True)


def _notes(table: LayerTable) -> list[Note]:
    """What one must know to read the numbers."""
    about = table.about
    notes = [_best_note()] if table.compared else []
    notes.append(Note("data", f"{about.corpus} {about.split}: {_counts(table)}"))
    parts = [
        str(about.model),
        f"{about.n_layers} layers" if about.n_layers is not None else "",
        INITS[about.init or "pretrained"],
        f"{about.pooling} of a word's pieces" if about.pooling else "",
    ]
    notes.append(Note("model", ", ".join(filter(None, parts))))
    seeds = f", mean of {table.n_seeds} seeds" if table.n_seeds > 1 else ""
    comma = "," if "," in table.reading else ""
    trained = f"{comma} trained on {about.n_train:,} items{seeds}"
    own = ", the model's own head: nothing is trained"
    notes.append(Note("readout", f"{table.reading}{own if answers_itself(table) else trained}"))
    for end, layers in table.path_ends.items():
        notes.append(
            Note("strength", f"dev accuracy still rises at the end of the path ({end}): {layers_named(layers)}")
        )
    notes.append(Note("interval", f"[ ] 95 %, {_intervals(table)}"))
    if table.n_draws:
        notes.append(Note("random", _draws(table)))
    if any(line.control_task for line in table.lines):
        notes.append(Note("control", "each word form has a random label (Hewitt & Liang 2019); selectivity: less that"))
    strengths = strengths_in_words(table)
    if strengths:
        notes.append(Note("C", strengths))
    chances = chances_of(about)
    if chances:
        mean = sum(chances.values()) / len(chances)
        notes.append(Note("chance", f"{number(mean)} % of choices are right by chance"))
    if any(line.blind for line in table.lines):
        notes.append(Note("blind", "the same texts without what decides"))
    if answers_itself(table) and any(line.control == "majority" for line in table.baselines):
        of_all = next(line.n_items for line in table.baselines if line.control == "majority")
        more = f"; over all {of_all:,} items" if of_all != about.n_items else ""
        answer = "the answer most frequent in each group of this test itself, which no model may look at"
        notes.append(Note("oracle", f"{answer}{more}"))
    if any(line.control == "word_majority" for line in table.baselines):
        notes.append(Note("majority", "the label most frequent in training, of all words or of the same word form"))
    if any(line.control == "lexical" for line in table.baselines):
        text = "a logistic regression on the spans' words and places: no vector, no context"
        notes.append(Note("words", f"{text}; layer 0 reads pieces, so it knows more of words new to it"))
    if any(line.control == "linear_chain" for line in table.baselines):
        notes.append(Note("chain", "each word joined to the one before it, punctuation passed over"))
    if table.n_failed:
        notes.append(Note("failed", f"{table.n_failed} cell{'s' * (table.n_failed > 1)} without a score"))
    return notes


def _intervals(table: LayerTable) -> str:
    """What the intervals of the main metric are over."""
    is_random = table.about.init not in (None, "pretrained")
    own_head, code = answers_itself(table), "codelength" in settings_of(table.about)
    not_over = [*([] if own_head else [SEEDS]), *([DRAWS] if is_random else [])]
    units = clusters_of(table.about) if own_head else "training sentences" if code else "test sentences"
    return interval_text(table.ci_methods, units=units, n_seeds=table.n_seeds, not_over=not_over)


def _draws(table: LayerTable) -> str:
    """What the column of random weights is the mean of, and how sure it is."""
    if table.n_draws == 1:
        return "init: one draw of random weights; another may give other scores"
    scores = [line.random_init for line in table.lines if line.random_init]
    reach = [max(s.high - s.value, s.value - s.low) for s in scores if s.low is not None and s.high is not None]
    most = f", ± {number(max(reach), metric=table.metric)} at most (95 %, over draws × sentences)" if reach else ""
    return f"init: mean of {table.n_draws} draws of random weights{most}"


def answers_itself(table: LayerTable) -> bool:
    """Whether the model's own head is asked: nothing is trained, items are texts, clusters what they are about."""
    return table.about.readout in OWN_HEADS


def strengths_in_words(table: LayerTable) -> str:
    """The regularisation chosen for each layer, where it is not the same in all; else empty."""
    by_strength: dict[str, list[int]] = {}
    for line in table.lines:
        by_strength.setdefault(strength_text(line), []).append(line.layer)
    if len(by_strength) < 2:
        return ""
    chosen = "; ".join(f"{text or NOTHING} in {layers_named(layers)}" for text, layers in by_strength.items())
    compared = any(line.selectivity for line in table.lines)
    more = "; selectivity depends on it" if compared else ""
    return f"chosen on dev: {chosen}{more}"


def strength_text(line: LayerLine) -> str:
    """``0.1``; of seeds that differ ``0.01 or 0.1``."""
    return " or ".join(f"{strength:g}" for strength in line.strengths)


def _counts(table: LayerTable) -> str:
    about = table.about
    parts = [
        f"{about.n_items:,} items in {about.n_clusters:,} {clusters_of(about)}",
        *([f"{about.n_classes} classes"] if about.n_classes else []),
    ]
    if about.n_skipped:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(table.skip_reasons.items()))
        parts.append(f"{about.n_skipped:,} skipped ({reasons})" if reasons else f"{about.n_skipped:,} skipped")
    else:
        parts.append("none skipped")
    if about.n_unseen_label:
        parts.append(f"{about.n_unseen_label:,} with a label unseen in training")
    if about.annotation == "silver":
        parts.append("labels made by a program (silver)")
    return ", ".join(parts)


def _best_note() -> Note:
    return Note(STAR, "not separable from the best layer (paired bootstrap, Benjamini–Hochberg q < .05)")


def summary_headers(tables: Sequence[LayerTable]) -> tuple[str, ...]:
    """The task, its metric, and whatever else sets the tables apart."""
    fields = [name for name in ("model", "corpus", "split", "pooling") if _differ(tables, name)]
    times = Counter((table.task, *(getattr(table.about, name) for name in fields)) for table in tables)
    several = {key for key, number in times.items() if number > 1}
    return tuple(
        " ".join(
            [
                table.task,
                metric_title(table.metric),
                *(str(getattr(table.about, name)) for name in fields if getattr(table.about, name)),
                *([table.reading] if (table.task, *(getattr(table.about, name) for name in fields)) in several else []),
            ]
        )
        for table in tables
    )


def baseline_owners(label: str, questions: Sequence[Sequence[tuple[str, LayerTable]]]) -> tuple[str | None, ...]:
    """How many lines a baseline has where several tables stand in one, and whose each of them is.

    Args:
        label: the baseline's.
        questions: tables of the same task and data, each with the name of who reads it.

    Returns:
        None, one line for all; or all names, where the scores of one question differ.
    """
    of_question = [
        {line.main for _, table in tables for line in table.baselines if line.label == label} for tables in questions
    ]
    if all(len(scores) < 2 for scores in of_question):
        return (None,)
    return tuple(dict.fromkeys(name for tables in questions for name, _ in tables))


def _shared(tables: Sequence[LayerTable]) -> list[Note]:
    fields = [name for name in ("model", "corpus", "split") if not _differ(tables, name)]
    return [Note(name, str(getattr(tables[0].about, name))) for name in fields]


def _differ(tables: Sequence[LayerTable], field: str) -> bool:
    """Whether there are several values of a field; one that does not apply to a table has none there."""
    return len({getattr(table.about, field) for table in tables} - {None}) > 1
