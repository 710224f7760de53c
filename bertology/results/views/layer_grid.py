"""The table of one task as text in cells: layers, baselines, and the notes that say how to read the numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bertology._names import layer_label
from bertology.measures.intervals import CiMethod
from bertology.results.tables.rows import (
    INTERVENTIONS,
    VECTORS,
    answers_itself,
    chances_of,
    clusters_of,
    is_statistic,
    param_of,
)
from bertology.results.views.grid import (
    BEST_NOTE,
    NOTHING,
    SEEDS,
    Cell,
    Grid,
    GridLine,
    Note,
    alignment_notes,
    layers_named,
    metric_title,
    number,
    score_cell,
    table_title,
)
from bertology.results.views.layers import COLUMNS, INITS, LayerLine, LayerTable

_FEW_RUNS = 5
"""Fewer runs than these are too few to estimate how much runs differ."""


def layer_grid(table: LayerTable) -> Grid:
    """The table of one task: layers, then baselines, then all that is needed to read them."""
    metrics = {"second": table.second_metric or "", "control_task": table.control_metric}
    metrics |= {name: name for name in ("selectivity", "completeness", "others_kept")}
    titles = {**COLUMNS, "main": metric_title(table.metric), "second": metric_title(metrics["second"])}
    # Those that are not empty: field of the line → header, metric.
    columns = {
        name: (title, metrics.get(name, table.metric))
        for name, title in (titles | {"seed_spread": "seed s.d."}).items()
        if name == "main" or any(getattr(line, name) is not None for line in table.lines)
    }
    best = frozenset({0})
    lines = [
        GridLine(
            layer_label(line.layer),
            tuple(_layer_cell(line, name, metric) for name, (_, metric) in columns.items()),
            best if line.in_best_set else frozenset(),
        )
        for line in table.lines
    ]
    for baseline in table.baselines:
        cells = {
            "main": score_cell(baseline.main, table.metric),
            "second": score_cell(baseline.second, table.second_metric or "", interval=False),
        }
        lines.append(GridLine(baseline.label, tuple(cells.get(name, Cell("")) for name in columns), baseline=True))
    silver = " · silver labels" if table.about.annotation == "silver" else ""
    headers = tuple(header for header, _ in columns.values())
    return Grid(table_title(table, "") + silver, headers, tuple(lines), tuple(_notes(table)))


def _layer_cell(line: LayerLine, name: str, metric: str) -> Cell:
    value = getattr(line, name)
    if name == "seed_spread" and value is not None:
        return Cell(number(value, metric=metric))
    return score_cell(value, metric, interval=name in ("main", "selectivity"))


def _notes(table: LayerTable) -> Iterator[Note]:
    """What one must know to read the numbers."""
    about = table.about
    is_cls = param_of(about, "settings", {}).get("pool") == "cls"
    if table.compared:
        yield BEST_NOTE
    yield Note("data", f"{about.corpus} {about.split}: {_counts(table)}")
    yield from alignment_notes(about)
    parts = [
        str(about.model),
        f"{about.n_layers} layers" if about.n_layers is not None else "",
        INITS[about.init or "pretrained"],
        "the special token before the text"
        if is_cls
        else f"{about.pooling} of a word's pieces"
        if about.pooling
        else "",
    ]
    yield Note("model", ", ".join(filter(None, parts)))
    if reference := param_of(about, "reference"):
        is_frozen = any(line.refit for line in table.lines)
        yield Note("reference", f"{reference}{', to which the readout was fitted' if is_frozen else ''}")
    trained = f"{',' * (',' in table.reading)} trained on {about.n_train:,} items"
    trained += " in each fold" if param_of(about, "folds") else ""
    trained += f", mean of {table.n_seeds} seeds" if table.n_seeds > 1 else ""
    if about.readout == INTERVENTIONS:
        fitted = f", as fitted to {about.n_train:,} words" if about.n_train else ""
        yield Note("readout", f"none: the model's predictions with states changed{fitted}")
    elif is_statistic(about):
        of = "vectors" if about.readout == VECTORS else "models"
        train = f", from {about.n_train:,} items of train" if about.n_train else ""
        _, fits = table.notes.get("none", ("", "the task's own" if train else ""))
        yield Note("readout", f"{fits}{train}" if fits else f"none: statistics of the {of} themselves")
    else:
        lens = param_of(about, "lens")
        fitted = f"{',' * (',' in table.reading)} fitted to masked words of {lens} train"
        own = fitted if lens else ", the model's own head: nothing is trained"
        yield Note("readout", f"{table.reading}{own if answers_itself(about) else trained}")
    for end, layers in table.path_ends.items():
        rises = f"dev accuracy still rises at the end of the path ({end}): {layers_named(layers)}"
        yield Note("strength", rises)
    yield Note("interval", f"[ ] 95 %, {_intervals(table)}")
    if table.n_draws:
        yield Note("random", _draws(table))
    if any(line.completeness for line in table.lines):
        yield Note("gone", "completeness: share of what an oracle finds of the property, beyond guessing, that is gone")
    if any(line.others_kept for line in table.lines):
        yield Note("others", "selectivity: share of what oracles find of other properties that is kept")
    yield from (Note(label, text) for control, (label, text) in table.notes.items() if control in COLUMNS)
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


def _intervals(table: LayerTable) -> str:
    """How intervals of the main metric were made, what they are over and what they leave out."""
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
    """What the column of random weights is the mean of, and how sure it is."""
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
        layers.setdefault(strength_text(line), []).append(line.layer)
    if len(layers) < 2:
        return ""
    chosen = "; ".join(f"{text or NOTHING} in {layers_named(of_text)}" for text, of_text in layers.items())
    compared = any(line.selectivity for line in table.lines)
    return f"chosen on dev: {chosen}{'; selectivity depends on it' if compared else ''}"


def strength_text(line: LayerLine) -> str:
    """``0.1``; of seeds that differ ``0.01 or 0.1``."""
    return " or ".join(f"{strength:g}" for strength in line.strengths)


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
