"""Each table in words: the question, the data, the best layers, baselines and controls, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertology.results.report._runs import Entry, Question, Run, probe_of
from bertology.results.tables.rows import ResultRow, answers_itself, chances_of, clusters_of
from bertology.results.views.frames import tally_of
from bertology.results.views.grid import (
    data_of,
    interval_of,
    is_fraction,
    layers_named,
    metric_title,
    model_of,
    number,
)
from bertology.results.views.heads import HeadTable, StepTable, best_head_grid, line_label
from bertology.results.views.layer_grid import layer_grid
from bertology.results.views.layers import COLUMNS, LayerLine, LayerTable, Score

_PERCENT = "\u00a0%"


@dataclass(frozen=True)
class Summary:
    """One table in words."""

    title: str
    metric: str
    figure: str
    interval: str
    best: str
    points: tuple[tuple[str, str], ...]


def headline(runs: Sequence[Run], questions: Sequence[Question]) -> str:
    """One sentence on all there is."""
    if not questions:
        return _headline_of_heads(runs)
    readers = {entry.label for question in questions for entry in question.entries}
    tables = [entry.table for question in questions for entry in question.entries]
    layers = {line.layer for table in tables for line in table.lines}
    sizes: dict[str, dict[tuple[str, str], int]] = {}
    for about in (table.about for table in tables):
        unit = clusters_of(about).partition(" of ")[0].removesuffix("s")
        noun, size = ("prompt", about.n_items) if answers_itself(about) else (unit, about.n_clusters)
        of_data, data = sizes.setdefault(noun, {}), (about.corpus_fingerprint, about.split)
        of_data[data] = max(of_data.get(data, 0), size)
    scored = [counted(sum(sizes[noun].values()), noun) for noun in sorted(sizes, key=lambda noun: noun == "prompt")]
    models = {table.about.model for table in tables}
    ways = f" in {len(readers)} ways" if len(readers) > len(models) else ""
    where = f", from {counted(len(runs), 'run')}" if len(runs) > 1 else ""
    return (
        f"{counted(len(questions), 'question')} put to {counted(len(layers), 'layer')} of "
        f"{counted(len(models), 'model')}{ways}; answers scored on {' and '.join(scored)}{where}."
    )


def about(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """What the report is about: heading and value of models, corpora, tasks, date and number of scores."""
    tables: list[LayerTable | HeadTable | StepTable] = []
    for run in runs:
        tables += (*run.tables, *run.head_tables, *run.step_tables)
    models = dict.fromkeys(", ".join(filter(None, [model_of(t.about), _size(t.about)])) for t in tables)
    rows = [row for run in runs for row in run.results.rows]
    days = sorted({row.started_utc[:10] for row in rows if row.started_utc})
    facts = {
        "Models": list(models),
        "Corpora": list(dict.fromkeys(data_of(table.about) for table in tables)),
        "Tasks": list(dict.fromkeys(table.task for table in tables)),
        "Date": [" to ".join(dict.fromkeys([days[0], days[-1]]))] if days else [],
        "Scores": [f"{sum(row.value is not None for row in rows):,} in {counted(len(runs), 'run')}"],
    }
    return [(heading, "; ".join(values)) for heading, values in facts.items() if values]


def _size(about: ResultRow) -> str:
    return "" if about.n_layers is None else f"{about.n_layers} layers"


def _headline_of_heads(runs: Sequence[Run]) -> str:
    tables = [table for run in runs for table in run.head_tables]
    things = len({(table.task, table.metric, line.name) for table in tables for line in table.lines})
    n_heads = max((len(line.heads) for table in tables for line in table.lines), default=0)
    models = {table.about.model for table in tables}
    return (
        f"{counted(things, 'thing')} asked of {counted(n_heads, 'attention head')} of {counted(len(models), 'model')}. "
        "What a head looks at is not what the model makes of it: attention is no explanation by itself."
    )


def caveats(questions: Sequence[Question]) -> list[str]:
    """What scores do not show: those of trained probes, and those of the model's own head."""
    own = {answers_itself(entry.table.about) for question in questions for entry in question.entries}
    trained = "A probe shows what can be decoded from a layer, not that the model uses it."
    head = (
        "Where the model's own head is asked, it is not trained for the question. It was made to read the last layer "
        "alone: a low score at a lower layer says that the head finds nothing there, not that nothing is there."
    )
    return [text for text, there in ((trained, False in own), (head, True in own)) if there]


def counted(count: int, noun: str) -> str:
    """``1 layer``, ``5 layers``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def summarise(question: Question, entry: Entry) -> Summary:
    """One table in words."""
    table = entry.table
    best = table.best_line
    if _only_moves(table):
        # No layer is the best: the last one, which is the model's own answer, is spoken of.
        best = next((line for line in reversed(table.lines) if line.main), None)
    title = f"{question.label} · {entry.label}"
    question_asked, name = _question(table.about), f"task {table.about.task}, {table.about.task_version}"
    asked = f"{question_asked[:1].upper()}{question_asked[1:].rstrip('.')} ({name})."
    notes = {note.about: note.text for note in layer_grid(table).notes}
    of_what = f"Model {notes['model']}. Corpus {notes['data']}. Readout {notes['readout']}.{_aligned(notes)}"
    points = [("Asked", asked if question_asked else f"{name.capitalize()}."), ("Of what", of_what)]
    if best is None or best.main is None:
        failed = f"No layer has a score: all {counted(table.n_failed, 'cell')} failed."
        return Summary(title, metric_title(table.metric), "–", "", "no score", (*points, ("Found", failed)))
    result, layers = _found(table, best), layers_named(_best_set(table) or [best.layer])
    if _only_moves(table):
        result, layers = _moved(table), ""
    how_sure = _how_sure(table, notes["interval"].removeprefix("[ ] "))
    points += [("Found", result), ("Against", _against(table, best)), ("How sure", how_sure)]
    figure, interval = _amount(best.main.value, table.metric), interval_of(best.main, table.metric)
    return Summary(title, metric_title(table.metric), figure, interval, layers, tuple(points))


def _aligned(notes: Mapping[str, str]) -> str:
    """The line on data and alignment, as one more sentence."""
    return f" Alignment: {notes['alignment']}." if "alignment" in notes else ""


_HEADS_NAMED = 5


def summarise_heads(table: HeadTable) -> Summary:
    """A table of attention heads in words."""
    about, first = table.about, table.lines[0]
    question_asked, name = _question(about), f"task {about.task}, {about.task_version}"
    notes = best_head_grid(table).notes
    found = [
        f"{line_label(table, line)}: {line.best.head} with {_with_interval(line.best.score, line.metric)}"
        for line in table.lines[:_HEADS_NAMED]
    ]
    more = f"; and {len(table.lines) - len(found)} more" if len(table.lines) > len(found) else ""
    n_better = sum(line.stands_out for line in table.lines)
    beside = [note for note in notes if note.about in ("heads", "interval")]
    aligned = _aligned({note.about: note.text for note in notes})
    points = (
        ("Asked", f"{question_asked.rstrip('.')} ({name})." if question_asked else f"{name.capitalize()}."),
        ("Of what", f"Model {model_of(about)}. Corpus {data_of(about)}. {counted(len(first.heads), 'head')}.{aligned}"),
        ("Found", f"The best heads: {'; '.join(found)}{more}."),
        ("Against", f"In {n_better} of {len(table.lines)} the best head is better than all baselines that were run."),
        ("How sure", " ".join(f"{note.about.strip().capitalize()} {note.text}." for note in beside)),
    )
    score, title = first.best.score, f"{about.task} · {model_of(about)}"
    metric = f"{metric_title(first.metric)}, {line_label(table, first)}" if table.metric else metric_title(first.metric)
    return Summary(title, metric, _amount(score.value, first.metric), interval_of(score, first.metric), "", points)


def _only_moves(table: LayerTable) -> bool:
    """Whether a score is neither good nor bad: how much a change of the text moves."""
    return tally_of(table.metric) == "changes"


def _best_set(table: LayerTable) -> list[int]:
    return [line.layer for line in table.lines if line.in_best_set]


def _amount(value: float, metric: str) -> str:
    return f"{number(value, metric=metric)}{_PERCENT if is_fraction(metric) else ''}"


def _with_interval(score: Score, metric: str) -> str:
    return f"{_amount(score.value, metric)} {interval_of(score, metric)}".rstrip()


def _difference(value: float, metric: str) -> str:
    return f"{number(abs(value), metric=metric)}{' points' if is_fraction(metric) else ''}"


def _question(about: ResultRow) -> str:
    """What a task asks, as its probe puts it; empty where that probe is not installed here."""
    probe = probe_of(about)
    return "" if probe is None else str(probe.question).strip()


def _moved(table: LayerTable) -> str:
    """For changes of the text, the score of the last layer, and the range over all layers."""
    scored = [(line.main.value, line.layer) for line in table.lines if line.main]
    score, layer = next((line.main, line.layer) for line in reversed(table.lines) if line.main)
    own = ", the model's own answer," if answers_itself(table.about) and layer == table.about.n_layers else ""
    text = f"Layer {layer}{own} has {metric_title(table.metric)} {_with_interval(score, table.metric)}."
    least, most = min(scored), max(scored)
    if least[0] == most[0]:
        return text
    ends = " and ".join(f"{_amount(value, table.metric)} (layer {layer})" for value, layer in (least, most))
    return f"{text} Over all layers it lies between {ends}. More is neither better nor worse."


def _found(table: LayerTable, best: LayerLine) -> str:
    assert best.main is not None
    metric, last = metric_title(table.metric), table.lines[-1]
    has_answer = answers_itself(table.about) and last.layer == table.about.n_layers and last.main is not None
    own = ", the model's own answer," if has_answer and best is last else ""
    parts = [f"Layer {best.layer}{own} scores best, with {metric} {_with_interval(best.main, table.metric)}."]
    same = [layer for layer in _best_set(table) if layer != best.layer]
    if same and len(same) + 1 == len(table.lines):
        parts.append("No other layer can be told apart from it.")
    elif same:
        parts.append(f"{layers_named(same).capitalize()} cannot be told apart from it; the others can.")
    elif table.compared and len(table.lines) > 1:
        parts.append("All other layers can be told apart from it.")
    bottom = table.lines[0]
    if bottom.layer == 0 and bottom.main and best.layer != 0 and not bottom.in_best_set:
        gain = _difference(best.main.value - bottom.main.value, table.metric)
        # The head reads the mask there as it stands in the text, a pseudo-log-likelihood every word so.
        blindly = "where no word has seen another" if answers_itself(table.about) else "which sees no context"
        parts.append(f"That is {gain} better than layer 0 ({_amount(bottom.main.value, table.metric)}), {blindly}.")
    if has_answer and best is not last and last.main:
        parts.append(f"Layer {last.layer}, the model's own answer, has {_with_interval(last.main, table.metric)}.")
    return " ".join(parts)


def _against(table: LayerTable, best: LayerLine) -> str:
    assert best.main is not None
    parts = []
    for line in table.baselines:
        apart = best.main.value - line.main.value
        side = "above" if apart >= 0 else "below"
        own = f"layer {best.layer} is {_difference(apart, table.metric)} {side}"
        what = f" ({line.note})" if line.note else ""
        parts.append(f"{line.label.capitalize()}{what} gives {_amount(line.main.value, table.metric)}: {own}.")
    if best.random_init:
        parts.append(f"With random weights, layer {best.layer} gives {_with_interval(best.random_init, table.metric)}.")
    for control, (_, text) in table.notes.items():
        score = getattr(best, control) if control in COLUMNS and control != "control_task" else None
        if score is not None:
            title = COLUMNS[control].capitalize()
            parts.append(f"{title} ({text}): layer {best.layer} has {_with_interval(score, table.metric)}.")
    if chances := chances_of(table.about):
        parts.append(f"By chance {_amount(sum(chances.values()) / len(chances), 'choice_accuracy')} would be right.")
    rule = f" ({table.notes['control_task'][1].partition(';')[0]})" if "control_task" in table.notes else ""
    if best.control_task and best.selectivity:
        selectivity = _with_interval(best.selectivity, "selectivity").replace(_PERCENT, " points")
        right = _amount(best.control_task.value, "accuracy")
        parts.append(f"On the control task{rule} it is right in {right}, a selectivity of {selectivity}.")
    elif best.control_task:
        parts.append(f"The control task{rule} has {_with_interval(best.control_task, table.control_metric)}.")
    return " ".join(parts) or "No baseline and no control was run: the score has nothing to be held against."


def _how_sure(table: LayerTable, intervals: str) -> str:
    own = answers_itself(table.about)
    parts = [f"Intervals: {intervals}."]
    if table.compared:
        same = "prompts" if own else "sentences"
        parts.append(f"Layers were compared in pairs on the same {same}, corrected by Benjamini–Hochberg (q < .05).")
    elif len(table.lines) > 1 and not _only_moves(table):
        parts.append("Layers were not compared in pairs, so no set of best layers is marked.")
    spread = [line.seed_spread for line in table.lines if line.seed_spread is not None]
    if own:
        parts.append("Nothing is trained, so that no seed could change the scores.")
    elif spread:
        seeds = f"Over {table.n_seeds} seeds, which resample the training data, the standard deviation"
        parts.append(f"{seeds} is at most {_difference(max(spread), table.metric)}.")
    else:
        parts.append("One seed: how scores vary with the training sample was not measured.")
    if own and table.about.n_skipped:
        parts.append(f"{counted(table.about.n_skipped, 'item')} could not be scored and count in nothing.")
    if table.n_failed:
        parts.append(f"{counted(table.n_failed, 'cell')} failed, without a score.")
    if table.about.annotation == "silver":
        parts.append("Labels were made by a program (silver): agreement with them is not correctness.")
    return " ".join(parts)
