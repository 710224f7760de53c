"""The report of one or several runs: one HTML document with its style, script and data inside it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertology._files import explained_system_errors, write_derived
from bertology._names import layer_label
from bertology._page import full_page
from bertology.errors import StoreError
from bertology.measures.descriptions import (
    ACCURACY,
    CHOICES,
    CONTROL_TASK,
    IN_SCRIPTS,
    LAYER_COLUMNS,
    SELECTIVITY,
    metric_form,
)
from bertology.results._items import tally_of
from bertology.results.heads import HeadTable, StepTable
from bertology.results.report._runs import (
    Entry,
    Question,
    Run,
    SentenceTexts,
    cloze_details,
    find_sentences,
    group_questions,
    item_budget,
    label_details,
    probe_of,
    read_runs,
    rounded_score,
)
from bertology.results.rows import ResultRow, Score, answers_itself, chances_of, clusters_of
from bertology.results.table import (
    INTERVAL,
    Table,
    data_of,
    interval_of,
    layers_named,
    metric_title,
    model_of,
    number,
    titled,
)
from bertology.results.views import LayerLine, LayerTable, baseline_labels, baseline_owners, baseline_rows

_HERE = "results/report/assets/"
_OF_ALL = "start.js", "tables.js", "heatmap.js"
# Charts and details are of layers: where heads alone were asked there is nothing for their scripts to do.
_OF_LAYERS = "overview.js", "chart.js", "cloze.js", "details.js"
# What they offer and keep is all that the others made.
_LAST = "download.js", "state.js"
_SHOWN_SCORES = tuple(LAYER_COLUMNS)[:5]
"""Scores of a line of which the heatmap, the table and the chart show one."""
_PERCENT = "\u00a0%"
_HEADS_NAMED = 5


@explained_system_errors()
def write_report(
    runs: Sequence[str | Path],
    path: str | Path,
    *,
    corpora: Sequence[str] = (),
    columns: str | None = None,
    with_text: bool = True,
) -> Path:
    """Write the results of ``runs`` as one HTML file, which is returned and needs no other file and no network.

    Args:
        runs: folders that runs left.
        path: the file to write.
        corpora: names or paths of corpora to take sentences from; those the runs name are tried as well, as far as
            they are on this machine.
        columns: what the columns of ``corpora`` hold, where they are column files: ``form,xpos,chunk``.
        with_text: whether sentences may stand in the file; otherwise only their ids do.

    Raises:
        ResultsError: a folder is not a run, or a file in it is broken or was written by a newer version.
        StoreError: the file cannot be written.
        BertologyError: a corpus of ``corpora`` cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"cannot write {path}: it is a folder; name a file in --out")
    read = read_runs(runs)
    page = render_report(read, find_sentences(read, corpora=corpora, columns=columns, with_text=with_text))
    write_derived(path.parent, {path.name: page.encode()}, remedy="name another file with --out")
    return path


def render_report(runs: Sequence[Run], texts: SentenceTexts | None = None) -> str:
    """The whole page, with the sentences behind item ids, or only ids when left out.

    It makes no request: style, script and data are inside it, and its content security policy allows nothing else, by
    the hash of each.
    """
    questions = group_questions(runs)
    scripts = (*_OF_ALL, *(_OF_LAYERS if questions else ()), *_LAST)
    heads = [(run, table) for run in runs for table in run.view.head_tables]
    tasks = [question.first.task for question in questions]
    return full_page(
        _HERE + "page.html",
        title="bertology report: " + ", ".join(run.name for run in runs),
        styles=(),
        scripts=[_HERE + name for name in scripts],
        data=_payload(questions, runs, texts or SentenceTexts()),
        headline=_headline(runs, questions) if questions else _headline_of_heads(runs),
        about=_about(runs),
        apart=", ".join(sorted({task for task in tasks if tasks.count(task) > 1})),
        questions=questions,
        compared=any(entry.table.compared for question in questions for entry in question.entries),
        **_choices(questions, [table for _, table in heads]),
        cards=_cards(questions, [table for _, table in heads]),
        caveats=_caveats(questions),
        head_maps=[_titled(table.title, run, table, runs, f"h{n}") for n, (run, table) in enumerate(heads)],
        heads=list(_heads_section(runs)),
        over_steps=list(_tables_of({run.name: run.over_steps.shown() for run in runs if run.over_steps is not None})),
        wholes=list(_tables_of({run.name: run.view.wholes for run in runs if run.view.wholes})),
        overview=_overview(questions),
        provenance=[(run.name, _provenance(run)) for run in runs],
        layer_label=layer_label,
        number=number,
        interval_of=interval_of,
        titled=titled,
    )


def _choices(questions: Sequence[Question], heads: Sequence[HeadTable]) -> dict[str, Any]:
    """Models, tasks and scores that a reader may choose, each by its value and label."""
    models = [entry.label for question in questions for entry in question.entries]
    models = list(dict.fromkeys([*models, *(str(table.about.model) for table in heads)]))
    several = len({table.about.model for table in heads}) > 1
    columns = [(f"q{place}", question.label) for place, question in enumerate(questions)]
    columns += [
        (f"h{place}", f"{table.task} · {table.about.model}" if several else table.task)
        for place, table in enumerate(heads)
    ]
    lines = [line for question in questions for entry in question.entries for line in entry.table.lines]
    scores = [
        (IN_SCRIPTS.get(name, name), LAYER_COLUMNS[name].title or f"{name} metric")
        for name in _SHOWN_SCORES
        if any(line.scores[name] is not None for line in lines)
    ]
    return {"models": [(model, model) for model in models], "columns": columns, "scores": scores}


def _overview(questions: Sequence[Question]) -> dict[str, Any]:
    """Main scores of all tables, a row for each layer of each reader; baselines below, which belong to no layer."""
    rows = []
    readers = list(dict.fromkeys(entry.label for question in questions for entry in question.entries))
    for reader in readers:
        cells: dict[int, list[dict[str, Any] | None]] = defaultdict(lambda: [None] * len(questions))
        for place, question in enumerate(questions):
            for number_of_entry, entry in enumerate(question.entries):
                table = entry.table
                common = {"entry": number_of_entry, "task": table.task, "metric": table.metric}
                common["sign"] = 1 if table.higher_is_better else -1
                for line in table.lines if entry.label == reader else ():
                    shown = {**common, "main": line.main, "best": line.in_best_set}
                    cells[line.layer][place] = shown if line.main else None
        rows += [{"reader": reader, "layer": layer, "cells": of_layer} for layer, of_layer in sorted(cells.items())]
    baselines = baseline_rows([[(entry.label, entry.table) for entry in question.entries] for question in questions])
    return {"rows": rows, "with_model": len(readers) > 1, "baselines": list(baselines)}


def _titled(title: str, run: Run, table: HeadTable | StepTable, runs: Sequence[Run], task: str) -> dict[str, Any]:
    """A title that names the model, and the run where several asked for heads of that model."""
    model = table.about.model
    same = [one for one in runs if any(of.about.model == model for of in one.view.head_tables)]
    return {"title": f"{title} · {model}" + f" · {run.name}" * (len(same) > 1), "model": str(model), "task": task}


def _heads_section(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Tables of heads and steps, which the page hides with their model and task."""
    n_heads = 0
    for run in runs:
        for heads in run.view.head_tables:
            yield {**_titled(heads.title, run, heads, runs, f"h{n_heads}"), "table": heads.table()}
            n_heads += 1
        for steps in run.view.step_tables:
            shown = steps.table()
            yield {**_titled(shown.title, run, steps, runs, ""), "table": shown}


def _tables_of(by_run: Mapping[str, Iterable[Table]]) -> Iterator[dict[str, Any]]:
    """Tables that neither sort nor hide, named by their run where there are several."""
    for name, tables in by_run.items():
        for table in tables:
            yield {"title": table.title + (f" · {name}" if len(by_run) > 1 else ""), "table": table, "model": ""}


def _payload(questions: Sequence[Question], runs: Sequence[Run], texts: SentenceTexts) -> dict[str, Any]:
    """Everything that is drawn or listed on demand: scores of layers, details, sentences."""
    sentences: dict[str, int] = {}
    budget = item_budget(sum(len(entry.table.lines) for question in questions for entry in question.entries))
    plain = []
    for question in questions:
        table = question.first
        tables = [[(entry.label, entry.table) for entry in question.entries]]
        owned = frozenset(
            label
            for label in baseline_labels([entry.table for entry in question.entries])
            if baseline_owners(label, tables) != (None,)
        )
        form = metric_form(table.metric)
        plain.append(
            {
                "label": question.label,
                "task": table.task,
                "metric": form.title,
                "percent": form.is_fraction,
                "decimals": form.decimals,
                "isAccuracy": table.metric == ACCURACY,
                "higherIsBetter": table.higher_is_better,
                "entries": [_entry(entry, texts, sentences, budget, owned) for entry in question.entries],
            }
        )
    heads = [_heads(table) for run in runs for table in run.view.head_tables]
    return {"questions": plain, "sentences": list(sentences), "heads": heads}


def _heads(table: HeadTable) -> dict[str, Any]:
    """Scores of all heads, by what is measured of them."""
    heads, lines = table.heads, []
    for line in table.lines:
        form = metric_form(line.metric)
        lines.append(
            {
                "name": table.label(line),
                "metric": form.title,
                "percent": form.is_fraction,
                "decimals": form.decimals,
                "higherIsBetter": line.higher_is_better,
                "best": heads.index(line.best.head),
                "standsOut": line.stands_out,
                "scores": [rounded_score(line.heads.get(head), digits=4) for head in heads],
            }
        )
    return {"model": str(table.about.model), "heads": heads, "lines": lines}


def _entry(
    entry: Entry, texts: SentenceTexts, sentences: dict[str, int], budget: int, owned: Collection[str]
) -> dict[str, Any]:
    """The table of one reader; of the baselines in ``owned`` each reader has its own."""
    table = entry.table
    own_head = answers_itself(table.about)
    second = metric_form(table.second_metric or "")
    details = cloze_details if own_head else label_details
    return {
        "label": entry.label,
        "run": entry.run.name,
        "second": second.title or None,
        "secondPercent": second.is_fraction,
        "secondDecimals": second.decimals,
        "seeds": table.n_seeds,
        "compared": table.compared,
        "lines": [_line(line) for line in table.lines],
        "baselines": [
            {
                "name": f"{line.label}, {entry.label}" if line.label in owned else line.label,
                "main": rounded_score(line.main),
                "second": rounded_score(line.second),
            }
            for line in table.baselines
        ],
        "ownHead": own_head,
        "details": details(entry, texts, sentences, most_items=budget),
    }


def _line(line: LayerLine) -> dict[str, Any]:
    return {
        "layer": line.layer,
        **{IN_SCRIPTS.get(name, name): rounded_score(score) for name, score in line.scores.items()},
        "spread": None if line.seed_spread is None else round(line.seed_spread, 6),
        "best": line.in_best_set,
        "strength": line.strength,
    }


def _headline(runs: Sequence[Run], questions: Sequence[Question]) -> str:
    """One sentence on all there is."""
    readers = {entry.label for question in questions for entry in question.entries}
    tables = [entry.table for question in questions for entry in question.entries]
    layers = {line.layer for table in tables for line in table.lines}
    sizes: dict[str, dict[tuple[str, str], int]] = {}
    for about in (table.about for table in tables):
        unit = clusters_of(about).partition(" of ")[0].removesuffix("s")
        noun, size = ("prompt", about.n_items) if answers_itself(about) else (unit, about.n_clusters)
        of_data, data = sizes.setdefault(noun, {}), (about.corpus_fingerprint, about.split)
        of_data[data] = max(of_data.get(data, 0), size)
    scored = [_counted(sum(sizes[noun].values()), noun) for noun in sorted(sizes, key=lambda noun: noun == "prompt")]
    models = {table.about.model for table in tables}
    ways = f" in {len(readers)} ways" if len(readers) > len(models) else ""
    where = f", from {_counted(len(runs), 'run')}" if len(runs) > 1 else ""
    return (
        f"{_counted(len(questions), 'question')} put to {_counted(len(layers), 'layer')} of "
        f"{_counted(len(models), 'model')}{ways}; answers scored on {' and '.join(scored)}{where}."
    )


def _headline_of_heads(runs: Sequence[Run]) -> str:
    tables = [table for run in runs for table in run.view.head_tables]
    things = len({(table.task, table.metric, line.name) for table in tables for line in table.lines})
    n_heads = max((len(line.heads) for table in tables for line in table.lines), default=0)
    models = {table.about.model for table in tables}
    return (
        f"{_counted(things, 'thing')} asked of {_counted(n_heads, 'attention head')} of "
        f"{_counted(len(models), 'model')}. What a head looks at is not what the model makes of it: attention is no "
        "explanation by itself."
    )


def _about(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Heading and value of the models, corpora, tasks, date and number of scores of the report."""
    tables: list[LayerTable | HeadTable | StepTable] = []
    for run in runs:
        tables += (*run.view.tables, *run.view.head_tables, *run.view.step_tables)
    rows = [row for run in runs for row in run.results.rows]
    days = sorted({row.started_utc[:10] for row in rows if row.started_utc})
    facts: dict[str, Iterable[str]] = {
        "Models": dict.fromkeys(
            model_of(table.about) + (f", {depth} layers" if (depth := table.about.n_layers) is not None else "")
            for table in tables
        ),
        "Corpora": dict.fromkeys(data_of(table.about) for table in tables),
        "Tasks": dict.fromkeys(table.task for table in tables),
        "Date": [" to ".join(dict.fromkeys([days[0], days[-1]]))] if days else [],
        "Scores": [f"{sum(row.value is not None for row in rows):,} in {_counted(len(runs), 'run')}"],
    }
    return [(heading, text) for heading, values in facts.items() if (text := "; ".join(values))]


def _caveats(questions: Sequence[Question]) -> list[str]:
    """Limits of what scores of trained probes, and of the model's own head, show."""
    own = {answers_itself(entry.table.about) for question in questions for entry in question.entries}
    trained = "A probe shows what can be decoded from a layer, not that the model uses it."
    head = (
        "Where the model's own head is asked, it is not trained for the question. It was made to read the last layer "
        "alone: a low score at a lower layer says that the head finds nothing there, not that nothing is there."
    )
    return [text for text, is_so in ((trained, False in own), (head, True in own)) if is_so]


def _counted(count: int, noun: str) -> str:
    """``1 layer``, ``5 layers``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _cards(questions: Sequence[Question], heads: Sequence[HeadTable]) -> list[dict[str, Any]]:
    """Tables in words, each hidden with its model or its task."""
    of_layers = [
        _summary(question, entry) | {"model": entry.label, "task": f"q{place}"}
        for place, question in enumerate(questions)
        for entry in question.entries
    ]
    of_heads = [
        _summary_of_heads(table) | {"model": str(table.about.model), "task": f"h{place}"}
        for place, table in enumerate(heads)
    ]
    return of_layers + of_heads


def _asked(about: ResultRow) -> str:
    """The question of a task, as its probe puts it if that is installed here, and the name of the task."""
    probe, name = probe_of(about), f"task {about.task}, {about.task_version}"
    question = "" if probe is None else str(probe.question).strip()
    return f"{question[:1].upper()}{question[1:].rstrip('.')} ({name})." if question else f"{name.capitalize()}."


def _summary(question: Question, entry: Entry) -> dict[str, Any]:
    """One table in words."""
    table = entry.table
    only_moves = tally_of(table.metric) == "changes"
    best = table.best_line
    if only_moves:
        # No layer is the best: the last one, which is the model's own answer, is spoken of.
        best = next((line for line in reversed(table.lines) if line.main), None)
    notes = {note.about: note.text for note in table.table().notes}
    of_what = f"Model {notes['model']}. Corpus {notes['data']}. Readout {notes['readout']}.{_aligned(notes)}"
    points = [("Asked", _asked(table.about)), ("Of what", of_what)]
    card = {"title": f"{question.label} · {entry.label}", "metric": metric_title(table.metric), "points": points}
    if best is None or best.main is None:
        failed = f"No layer has a score: all {_counted(table.n_failed, 'cell')} failed."
        points.append(("Found", failed))
        return card | {"figure": "–", "interval": "", "best": "no score"}
    found = _moved(table) if only_moves else _found(table, best)
    how_sure = _how_sure(table, notes[INTERVAL].removeprefix("[ ] "))
    points += [("Found", found), ("Against", _against(table, best)), ("How sure", how_sure)]
    layers = "" if only_moves else layers_named(_best_set(table) or [best.layer])
    figure, interval = _amount(best.main.value, table.metric), interval_of(best.main, table.metric)
    return card | {"figure": figure, "interval": interval, "best": layers}


def _aligned(notes: Mapping[str, str]) -> str:
    """The line on data and alignment, as one more sentence."""
    return f" Alignment: {notes['alignment']}." if "alignment" in notes else ""


def _summary_of_heads(table: HeadTable) -> dict[str, Any]:
    """A table of attention heads in words."""
    about, first = table.about, table.lines[0]
    notes = {note.about: note.text for note in table.table().notes}
    found = [
        f"{table.label(line)}: {line.best.head} with {_with_interval(line.best.score, line.metric)}"
        for line in table.lines[:_HEADS_NAMED]
    ]
    more = f"; and {len(table.lines) - len(found)} more" if len(table.lines) > len(found) else ""
    n_better = sum(line.stands_out for line in table.lines)
    n_heads, aligned = _counted(len(first.heads), "head"), _aligned(notes)
    points = (
        ("Asked", _asked(about)),
        ("Of what", f"Model {model_of(about)}. Corpus {data_of(about)}. {n_heads}.{aligned}"),
        ("Found", f"The best heads: {'; '.join(found)}{more}."),
        ("Against", f"In {n_better} of {len(table.lines)} the best head is better than all baselines that were run."),
        ("How sure", " ".join(f"{of.capitalize()} {notes[of]}." for of in ("heads", INTERVAL))),
    )
    score, metric = first.best.score, metric_title(first.metric)
    return {
        "title": f"{about.task} · {model_of(about)}",
        "metric": f"{metric}, {table.label(first)}" if table.metric else metric,
        "figure": _amount(score.value, first.metric),
        "interval": interval_of(score, first.metric),
        "best": "",
        "points": points,
    }


def _best_set(table: LayerTable) -> list[int]:
    return [line.layer for line in table.lines if line.in_best_set]


def _amount(value: float, metric: str) -> str:
    return f"{number(value, metric=metric)}{_PERCENT if metric_form(metric).is_fraction else ''}"


def _with_interval(score: Score, metric: str) -> str:
    return f"{_amount(score.value, metric)} {interval_of(score, metric)}".rstrip()


def _difference(value: float, metric: str) -> str:
    return f"{number(abs(value), metric=metric)}{' points' if metric_form(metric).is_fraction else ''}"


def _moved(table: LayerTable) -> str:
    """The score of the last layer, and the range over all layers, for changes of the text."""
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
        score = best.scores.get(control) if control != CONTROL_TASK else None
        if score is not None:
            title = LAYER_COLUMNS[control].title.capitalize()
            parts.append(f"{title} ({text}): layer {best.layer} has {_with_interval(score, table.metric)}.")
    if chances := chances_of(table.about):
        parts.append(f"By chance {_amount(sum(chances.values()) / len(chances), CHOICES)} would be right.")
    rule = f" ({table.notes[CONTROL_TASK][1].partition(';')[0]})" if CONTROL_TASK in table.notes else ""
    if best.control_task and best.selectivity:
        selectivity = _with_interval(best.selectivity, SELECTIVITY).replace(_PERCENT, " points")
        right = _amount(best.control_task.value, ACCURACY)
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
    elif len(table.lines) > 1 and tally_of(table.metric) != "changes":
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
        parts.append(f"{_counted(table.about.n_skipped, 'item')} could not be scored and count in nothing.")
    if table.n_failed:
        parts.append(f"{_counted(table.n_failed, 'cell')} failed, without a score.")
    if table.about.annotation == "silver":
        parts.append("Labels were made by a program (silver): agreement with them is not correctness.")
    return " ".join(parts)


def _provenance(run: Run) -> list[tuple[str, str]]:
    """Heading and value of everything a run says of how it was made."""
    rows = run.results.rows
    times = sorted({row.started_utc for row in rows if row.started_utc})
    versions: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for name, version in json.loads(row.versions).items():
            versions[str(name)].add(str(version))

    def all_of(values: Iterable[object]) -> str:
        return "; ".join(dict.fromkeys(str(value) for value in values if value not in (None, "")))

    n_cells = _counted(len({row.cell_id for row in rows}), "cell")
    n_kept = _counted(len({row.cell_id for row in rows if row.predictions_sha256 is not None}), "cell")
    facts = {
        "folder": run.name,
        "experiment": all_of(row.experiment for row in rows),
        "tables": f"schema {all_of(row.schema_version for row in rows)}, {_counted(len(rows), 'row')}, {n_cells}",
        "tasks": all_of(f"{row.task} {row.task_version}" for row in rows),
        "models": all_of(f"{run.models[row.model]}, {row.init}: {row.model_fingerprint}" for row in rows if row.model),
        "corpora": all_of(f"{row.corpus} {row.split}: {row.corpus_fingerprint}" for row in rows),
        "readouts": all_of(f"{row.readout}.{row.readout_version}" for row in rows if row.readout),
        "pooling": all_of(row.pooling for row in rows),
        "seeds": all_of(row.seed for row in rows),
        "device": all_of(row.device for row in rows),
        "dtype": all_of(row.dtype for row in rows),
        "versions": "; ".join(f"{name} {' and '.join(sorted(known))}" for name, known in sorted(versions.items())),
        "intervals": all_of(method for row in rows for method in (row.ci_method, row.mean_ci_method)),
        "started": " to ".join(dict.fromkeys([times[0], times[-1]])) if times else "",
        "fitting took": _took(rows),
        "predictions": f"{n_kept} kept, with SHA-256",
    }
    return [(heading, value) for heading, value in facts.items() if value]


def _took(rows: Sequence[ResultRow]) -> str:
    """The time of all fits."""
    timed = [(row, row.wall_s) for row in rows if row.wall_s is not None and row.started_utc]
    jobs = {(row.task, row.model, row.init, row.started_utc) for row, _ in timed}
    return f"{sum(seconds for _, seconds in timed):,.1f} s in {_counted(len(jobs), 'fit')}" if jobs else ""
