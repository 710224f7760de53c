"""What came out, in words: what was asked, of what, what was found, beside what, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bertology.errors import BertologyError
from bertology.probing import get_probe
from bertology.results._grid import is_fraction, layer_grid, metric_title, number
from bertology.results._view import BASELINES, LayerLine, LayerTable, Score
from bertology.results.report._runs import Entry, Question, Run

_PERCENT = "\u00a0%"


@dataclass(frozen=True)
class Summary:
    """One table in words."""

    title: str
    metric: str
    figure: str
    """The best score, with its unit."""
    interval: str
    best: str
    """Which layers."""
    points: tuple[tuple[str, str], ...]
    """Heading and sentences."""


def headline(runs: Sequence[Run], questions: Sequence[Question]) -> str:
    """One sentence on all there is."""
    readers = {entry.label for question in questions for entry in question.entries}
    tables = [entry.table for question in questions for entry in question.entries]
    layers = {line.layer for table in tables for line in table.lines}
    items: dict[tuple[str, str], int] = {}
    for table in tables:
        place = (table.about.corpus_fingerprint, table.about.split)
        items[place] = max(items.get(place, 0), table.about.n_clusters)
    models = {table.about.model for table in tables}
    ways = f" in {len(readers)} ways" if len(readers) > len(models) else ""
    where = f", from {counted(len(runs), 'run')}" if len(runs) > 1 else ""
    return (
        f"{counted(len(questions), 'question')} put to {counted(len(layers), 'layer')} of "
        f"{counted(len(models), 'model')}{ways}; answers scored on {counted(sum(items.values()), 'sentence')}{where}."
    )


def counted(count: int, noun: str) -> str:
    """``1 layer``, ``5 layers``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def summarise(question: Question, entry: Entry) -> Summary:
    """One table in words."""
    table = entry.table
    best = _best_line(table)
    title = f"{question.label} · {entry.label}"
    found = [("Asked", _asked(table)), ("Of what", _of_what(table))]
    if best is None or best.main is None:
        failed = f"No layer has a score: all {counted(table.n_failed, 'cell')} failed."
        return Summary(title, metric_title(table.metric), "–", "", "no score", (*found, ("Found", failed)))
    found += [("Found", _found(table, best)), ("Against", _beside(table, best)), ("How sure", _how_sure(table))]
    return Summary(
        title,
        metric_title(table.metric),
        _amount(best.main.value, table.metric),
        _interval(best.main, table.metric),
        _layers_named(_best_set(table) or [best.layer]),
        tuple((heading, text) for heading, text in found if text),
    )


def _best_line(table: LayerTable) -> LayerLine | None:
    scored = [line for line in table.lines if line.main is not None]
    sign = 1 if table.higher_is_better else -1
    return max(scored, key=lambda line: sign * line.main.value if line.main else 0.0, default=None)


def _best_set(table: LayerTable) -> list[int]:
    return [line.layer for line in table.lines if line.in_best_set]


def _layers_named(layers: Sequence[int]) -> str:
    """``layer 3``, ``layers 1 and 2``, ``layers 1, 2 and 5–9``."""
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][-1] + 1:
            spans[-1].append(layer)
        else:
            spans.append([layer])
    names = [
        text
        for span in spans
        for text in ([f"{span[0]}–{span[-1]}"] if len(span) > 2 else [str(layer) for layer in span])
    ]
    return f"layer{'s' * (len(layers) > 1)} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _amount(value: float, metric: str) -> str:
    return f"{number(value, metric=metric)}{_PERCENT if is_fraction(metric) else ''}"


def _interval(score: Score, metric: str) -> str:
    if score.low is None or score.high is None:
        return ""
    return f"[{number(score.low, metric=metric)}, {number(score.high, metric=metric)}]"


def _with_interval(score: Score, metric: str) -> str:
    return f"{_amount(score.value, metric)} {_interval(score, metric)}".rstrip()


def _difference(value: float, metric: str) -> str:
    return f"{number(abs(value), metric=metric)}{' points' if is_fraction(metric) else ''}"


def _asked(table: LayerTable) -> str:
    about = table.about
    try:
        question = get_probe(f"{about.task}.{about.task_version}").question.strip()
    except BertologyError:
        # A probe of another package need not be installed where its results are read.
        question = ""
    name = f"task {about.task}, {about.task_version}"
    return f"{question[:1].upper()}{question[1:].rstrip('.')} ({name})." if question else f"{name.capitalize()}."


def _of_what(table: LayerTable) -> str:
    notes = {note.about: note.text for note in layer_grid(table).notes}
    return f"Model {notes['model']}. Corpus {notes['data']}. Readout {notes['readout']}."


def _found(table: LayerTable, best: LayerLine) -> str:
    assert best.main is not None
    metric = metric_title(table.metric)
    parts = [f"Layer {best.layer} scores best, with {metric} {_with_interval(best.main, table.metric)}."]
    same = [layer for layer in _best_set(table) if layer != best.layer]
    if same and len(same) + 1 == len(table.lines):
        parts.append("No other layer can be told apart from it.")
    elif same:
        parts.append(f"{_layers_named(same).capitalize()} cannot be told apart from it; the others can.")
    elif table.compared and len(table.lines) > 1:
        parts.append("All other layers can be told apart from it.")
    bottom = table.lines[0]
    if bottom.layer == 0 and bottom.main and best.layer != 0 and not bottom.in_best_set:
        gain = _difference(best.main.value - bottom.main.value, table.metric)
        parts.append(
            f"That is {gain} better than layer 0 ({_amount(bottom.main.value, table.metric)}), which sees no context."
        )
    return " ".join(parts)


def _beside(table: LayerTable, best: LayerLine) -> str:
    assert best.main is not None
    parts = []
    for line in table.baselines:
        apart = best.main.value - line.main.value
        side = "above" if apart >= 0 else "below"
        name = "Majority by word form" if line.control == "word_majority" else BASELINES[line.control].capitalize()
        parts.append(
            f"{name} gives {_amount(line.main.value, table.metric)}: layer {best.layer} is "
            f"{_difference(apart, table.metric)} {side}."
        )
    if best.random_init:
        parts.append(f"With random weights, layer {best.layer} gives {_with_interval(best.random_init, table.metric)}.")
    if best.control_task and best.selectivity:
        parts.append(
            f"On the control task it is right in {_amount(best.control_task.value, 'accuracy')}, "
            f"a selectivity of {_with_interval(best.selectivity, 'selectivity').replace(_PERCENT, ' points')}."
        )
    elif best.control_task:
        parts.append(f"The control task has {_with_interval(best.control_task, table.control_metric)}.")
    return " ".join(parts) or "No baseline and no control was run: the score has nothing to be held against."


def _how_sure(table: LayerTable) -> str:
    notes = {note.about: note.text for note in layer_grid(table).notes}
    parts = [f"Intervals: {notes['interval'].removeprefix('[ ] ')}."]
    if table.compared:
        parts.append("Layers were compared in pairs on the same sentences, corrected by Benjamini–Hochberg (q < .05).")
    elif len(table.lines) > 1:
        parts.append("Layers were not compared in pairs, so no set of best layers is marked.")
    spread = [line.seed_spread for line in table.lines if line.seed_spread is not None]
    if spread:
        parts.append(
            f"Over {table.n_seeds} seeds, which resample the training data, the standard deviation is "
            f"at most {_difference(max(spread), table.metric)}."
        )
    else:
        parts.append("One seed: how scores vary with the training sample was not measured.")
    if table.n_failed:
        parts.append(f"{counted(table.n_failed, 'cell')} failed, without a score.")
    if table.about.annotation == "silver":
        parts.append("Labels were made by a program (silver): agreement with them is not correctness.")
    return " ".join(parts)
