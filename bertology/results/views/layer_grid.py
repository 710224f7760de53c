"""The table of one task as text in cells: layers, baselines, and the notes that say how to read the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bertology.results.tables.rows import answers_itself, chances_of, clusters_of, param_of
from bertology.results.tables.wording import DRAWS, SEEDS, interval_text, layers_named
from bertology.results.views.grid import (
    BEST_NOTE,
    NOTHING,
    Cell,
    Grid,
    GridLine,
    Note,
    layer_label,
    metric_title,
    number,
    score_cell,
    table_title,
)
from bertology.results.views.layers import INITS, BaselineLine, LayerLine, LayerTable

_BASELINE_NOTES = {
    "word_majority": Note("majority", "the label most frequent in training, of all words or of the same word form"),
    "lexical": Note(
        "words",
        "a logistic regression on the spans' words and places: no vector, no context; layer 0 reads pieces, so it "
        "knows more of words new to it",
    ),
    "linear_chain": Note("chain", "each word joined to the one before it, punctuation passed over"),
}
"""By control, what tables say of a baseline."""


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
    silver = " · silver labels" if table.about.annotation == "silver" else ""
    return Grid(
        title=table_title(table, "") + silver,
        headers=tuple(header for header, _ in columns.values()),
        lines=(*layers, *baselines),
        notes=tuple(_notes(table)),
    )


def _columns(table: LayerTable) -> Mapping[str, tuple[str, str]]:
    """The columns that are not empty: field of the line → header, metric."""
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


def _baseline_line(line: BaselineLine, table: LayerTable, columns: Mapping[str, tuple[str, str]]) -> GridLine:
    cells = {
        "main": score_cell(line.main, table.metric),
        "second": score_cell(line.second, table.second_metric or "", interval=False),
    }
    return GridLine(line.label, tuple(cells.get(name, Cell("")) for name in columns), baseline=True)


def _notes(table: LayerTable) -> list[Note]:
    """What one must know to read the numbers."""
    about = table.about
    parts = [
        str(about.model),
        f"{about.n_layers} layers" if about.n_layers is not None else "",
        INITS[about.init or "pretrained"],
        f"{about.pooling} of a word's pieces" if about.pooling else "",
    ]
    seeds = f", mean of {table.n_seeds} seeds" if table.n_seeds > 1 else ""
    comma = "," if "," in table.reading else ""
    trained = f"{comma} trained on {about.n_train:,} items{seeds}"
    own = ", the model's own head: nothing is trained"
    notes = [
        *([BEST_NOTE] if table.compared else []),
        Note("data", f"{about.corpus} {about.split}: {_counts(table)}"),
        Note("model", ", ".join(filter(None, parts))),
        Note("readout", f"{table.reading}{own if answers_itself(about) else trained}"),
    ]
    for end, layers in table.path_ends.items():
        notes.append(
            Note("strength", f"dev accuracy still rises at the end of the path ({end}): {layers_named(layers)}")
        )
    notes.append(Note("interval", f"[ ] 95 %, {_intervals(table)}"))
    if table.n_draws:
        notes.append(Note("random", _draws(table)))
    if any(line.control_task for line in table.lines):
        notes.append(Note("control", "each word form has a random label (Hewitt & Liang 2019); selectivity: less that"))
    if strengths := _strengths_in_words(table):
        notes.append(Note("C", strengths))
    if chances := chances_of(about):
        notes.append(Note("chance", f"{number(sum(chances.values()) / len(chances))} % of choices are right by chance"))
    if any(line.blind for line in table.lines):
        notes.append(Note("blind", "the same texts without what decides"))
    notes += _baseline_notes(table)
    if table.n_failed:
        notes.append(Note("failed", f"{table.n_failed} cell{'s' * (table.n_failed > 1)} without a score"))
    return notes


def _baseline_notes(table: LayerTable) -> Iterator[Note]:
    lines = {line.control: line for line in table.baselines}
    if answers_itself(table.about) and "majority" in lines:
        of_all = lines["majority"].n_items
        more = f"; over all {of_all:,} items" if of_all != table.about.n_items else ""
        yield Note(
            "oracle", f"the answer most frequent in each group of this test itself, which no model may look at{more}"
        )
    yield from (note for control, note in _BASELINE_NOTES.items() if control in lines)


def _intervals(table: LayerTable) -> str:
    """What the intervals of the main metric are over."""
    is_random = table.about.init not in (None, "pretrained")
    own_head, code = answers_itself(table.about), "codelength" in param_of(table.about, "settings", {})
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


def _strengths_in_words(table: LayerTable) -> str:
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
