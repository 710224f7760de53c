"""The report of one or several runs: one HTML document with its style, script and data inside it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertology._files import explained_system_errors, write_derived
from bertology._names import layer_label
from bertology._page import full_page
from bertology.errors import StoreError
from bertology.measures.metrics import LAYER_COLUMNS, metric_form
from bertology.results._items import tally_of
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
from bertology.results.rows import ResultRow
from bertology.results.table import (
    Table,
    data_of,
    interval_of,
    layers_named,
    model_of,
    number,
    titled,
)
from bertology.results.views import (
    HeadTable,
    LayerTable,
    StepTable,
    baseline_labels,
    baseline_owners,
    baseline_rows,
)

_HERE = "results/report/assets/"
_PROMPT = "prompt"
_OF_ALL = "start", "tables", "heatmap"
# Charts and details are of layers: where heads alone were asked there is nothing for their scripts to do.
_OF_LAYERS = "overview", "chart", "cloze", "details"
# What they offer and keep is all that the others made.
_LAST = "download", "state"


def counted(count: int, noun: str) -> str:
    """``1 layer``, ``5 layers``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


_IN_TEMPLATE = counted, data_of, interval_of, layer_label, layers_named, metric_form, model_of, number, titled


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
    entries = [(f"q{place}", question, entry) for place, question in enumerate(questions) for entry in question.entries]
    heads = {f"h{place}": table for place, table in enumerate(of for run in runs for of in run.view.head_tables)}
    tasks = [question.first.task for question in questions]
    cards = [
        _card(entry.table, title=f"{question.label} · {entry.label}", model=entry.label, task=column)
        for column, question, entry in entries
    ]
    cards += [
        _card(of, title=f"{of.task} · {model_of(of.about)}", model=str(of.about.model), task=column)
        for column, of in heads.items()
    ]
    # What a reader may choose, each by its value and label.
    models = dict.fromkeys([*(entry.label for *_, entry in entries), *(str(of.about.model) for of in heads.values())])
    several = len({of.about.model for of in heads.values()}) > 1
    columns = {column: question.label for column, question, _ in entries}
    columns |= {column: f"{of.task} · {of.about.model}" if several else of.task for column, of in heads.items()}
    shown = {
        name
        for *_, entry in entries
        for line in entry.table.lines
        for name, one in line.scores.items()
        if one is not None
    }
    scores = {
        column.script or name: column.title or f"{name} metric"
        for name, column in LAYER_COLUMNS.items()
        if column.in_csv == "always" and name in shown
    }
    sections = list(_heads_section(runs))
    return full_page(
        _HERE + "page.html",
        title="bertology report: " + ", ".join(run.name for run in runs),
        styles=(),
        scripts=[f"{_HERE}{name}.js" for name in (*_OF_ALL, *(_OF_LAYERS if questions else ()), *_LAST)],
        data=_payload(questions, list(heads.values()), texts or SentenceTexts()),
        sizes=_sizes(entry.table.about for *_, entry in entries),
        n_runs=len(runs),
        of_heads=list(heads.values()),
        n_heads=max((len(line.heads) for of in heads.values() for line in of.lines), default=0),
        n_things=len({(of.task, of.metric, line.name) for of in heads.values() for line in of.lines}),
        about=_about(runs),
        apart=", ".join(sorted({task for task in tasks if tasks.count(task) > 1})),
        questions=questions,
        compared=any(entry.table.compared for *_, entry in entries),
        models=[(model, model) for model in models],
        columns=list(columns.items()),
        scores=list(scores.items()),
        cards=cards,
        own_heads={entry.table.about.answers_itself for *_, entry in entries},
        head_maps=[one for one in sections if one["task"]],
        heads=sections,
        over_steps=_tables_of({run.name: run.over_steps.shown() for run in runs if run.over_steps is not None}),
        wholes=_tables_of({run.name: run.view.wholes for run in runs if run.view.wholes}),
        overview=_overview(questions),
        provenance=[(run.name, _provenance(run)) for run in runs],
        **{function.__name__: function for function in _IN_TEMPLATE},
        ranks=lambda metric: tally_of(metric) != "changes",
        layer_columns=LAYER_COLUMNS,
    )


def _overview(questions: Sequence[Question]) -> dict[str, Any]:
    """Main scores of all tables, a row for each layer of each reader; baselines below, which belong to no layer."""
    cells: dict[tuple[str, int], list[dict[str, Any] | None]] = defaultdict(lambda: [None] * len(questions))
    for place, question in enumerate(questions):
        for number_of_entry, entry in enumerate(question.entries):
            table = entry.table
            common = {"entry": number_of_entry, "task": table.task, "metric": table.metric}
            common["sign"] = 1 if table.higher_is_better else -1
            for line in table.lines:
                shown = {**common, "main": line.main, "best": line.in_best_set}
                cells[entry.label, line.layer][place] = shown if line.main else None
    readers = list(dict.fromkeys(entry.label for question in questions for entry in question.entries))
    ordered = sorted(cells.items(), key=lambda item: (readers.index(item[0][0]), item[0][1]))
    rows = [{"reader": reader, "layer": layer, "cells": of_layer} for (reader, layer), of_layer in ordered]
    baselines = baseline_rows([[(entry.label, entry.table) for entry in question.entries] for question in questions])
    return {"rows": rows, "with_model": len(readers) > 1, "baselines": list(baselines)}


def _heads_section(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Tables of heads and steps, which the page hides with their model and task.

    Their titles name the model, and the run where several asked for heads of that model.
    """
    of_models = Counter(model for run in runs for model in {str(of.about.model) for of in run.view.head_tables})
    n_heads = 0
    for run in runs:
        tables: list[HeadTable | StepTable] = [*run.view.head_tables, *run.view.step_tables]
        for table in tables:
            shown, model, task = table.table(), str(table.about.model), ""
            if isinstance(table, HeadTable):
                task, n_heads = f"h{n_heads}", n_heads + 1
            title = f"{shown.title} · {model}" + f" · {run.name}" * (of_models[model] > 1)
            yield {"title": title, "model": model, "task": task, "table": shown}


def _tables_of(by_run: Mapping[str, Iterable[Table]]) -> list[dict[str, Any]]:
    """Static tables, named by their run if there are several."""
    return [
        {"title": table.title + (f" · {name}" if len(by_run) > 1 else ""), "table": table, "model": ""}
        for name, tables in by_run.items()
        for table in tables
    ]


def _payload(questions: Sequence[Question], heads: Sequence[HeadTable], texts: SentenceTexts) -> dict[str, Any]:
    """Everything that is drawn or listed on demand: scores of layers, details, sentences."""
    sentences: dict[str, int] = {}
    budget = item_budget(sum(len(entry.table.lines) for question in questions for entry in question.entries))
    plain = []
    for question in questions:
        table, tables = question.first, [(entry.label, entry.table) for entry in question.entries]
        labels = baseline_labels([of for _, of in tables])
        # Of these baselines each reader has its own.
        owned = {label for label in labels if baseline_owners(label, [tables]) != (None,)}
        is_preferred = any(column.prefers == table.metric for column in LAYER_COLUMNS.values())
        plain.append(
            {"label": question.label, "task": table.task, **_form(table.metric), "isAccuracy": is_preferred}
            | {"higherIsBetter": table.higher_is_better}
            | {"entries": [_entry(entry, texts, sentences, budget, owned) for entry in question.entries]}
        )
    of_heads = []
    for of in heads:
        lines = [
            {"name": of.label(line), **_form(line.metric), "higherIsBetter": line.higher_is_better}
            | {"best": of.heads.index(line.best.head), "standsOut": line.stands_out}
            | {"scores": [rounded_score(line.heads.get(head), digits=4) for head in of.heads]}
            for line in of.lines
        ]
        of_heads.append({"model": str(of.about.model), "heads": of.heads, "lines": lines})
    return {"questions": plain, "sentences": list(sentences), "heads": of_heads}


def _form(metric: str) -> dict[str, Any]:
    form = metric_form(metric)
    return {"metric": form.title, "percent": form.is_fraction, "decimals": form.decimals}


def _entry(
    entry: Entry, texts: SentenceTexts, sentences: dict[str, int], budget: int, owned: Collection[str]
) -> dict[str, Any]:
    """The table of one reader; of the baselines in ``owned`` each reader has its own."""
    table, own_head = entry.table, entry.table.about.answers_itself
    second = metric_form(table.second_metric or "")
    lines = [
        {"layer": line.layer}
        | {LAYER_COLUMNS[name].script or name: rounded_score(score) for name, score in line.scores.items()}
        | {"spread": None if line.seed_spread is None else round(line.seed_spread, 6)}
        | {"best": line.in_best_set, "strength": line.strength}
        for line in table.lines
    ]
    baselines = [
        {"name": f"{line.label}, {entry.label}" if line.label in owned else line.label}
        | {"main": rounded_score(line.main), "second": rounded_score(line.second)}
        for line in table.baselines
    ]
    details = cloze_details if own_head else label_details
    return {
        "label": entry.label,
        "run": entry.run.name,
        "second": second.title or None,
        "secondPercent": second.is_fraction,
        "secondDecimals": second.decimals,
        "seeds": table.n_seeds,
        "compared": table.compared,
        "lines": lines,
        "baselines": baselines,
        "ownHead": own_head,
        "details": details(entry, texts, sentences, most_items=budget),
    }


def _sizes(rows: Iterable[ResultRow]) -> dict[str, int]:
    """The number of sentences, or of what else clusters are, that answers are scored on; that of prompts last."""
    sizes: dict[str, dict[tuple[str, str], int]] = {}
    for about in rows:
        unit = about.clusters.partition(" of ")[0].removesuffix("s")
        noun, size = (_PROMPT, about.n_items) if about.answers_itself else (unit, about.n_clusters)
        of_data, data = sizes.setdefault(noun, {}), (about.corpus_fingerprint, about.split)
        of_data[data] = max(of_data.get(data, 0), size)
    return {noun: sum(sizes[noun].values()) for noun in sorted(sizes, key=lambda noun: noun == _PROMPT)}


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
        "Scores": [f"{sum(row.value is not None for row in rows):,} in {counted(len(runs), 'run')}"],
    }
    return [(heading, text) for heading, values in facts.items() if (text := "; ".join(values))]


def _card(table: LayerTable | HeadTable, **more: Any) -> dict[str, Any]:
    """A table that the page describes in words, hidden with its model or its task, with the notes of the table."""
    probe, about = probe_of(table.about), table.about
    question = "" if probe is None else str(probe.question).strip()
    name = f"task {about.task}, {about.task_version}"
    asked = f"{question[:1].upper()}{question[1:].rstrip('.')} ({name})." if question else f"{name.capitalize()}."
    notes = {note.about: note.text for note in table.table().notes}
    of_heads = isinstance(table, HeadTable)
    return {"table": table, "of_heads": of_heads, "about": about, "asked": asked, "notes": notes, **more}


def _provenance(run: Run) -> list[tuple[str, str]]:
    """Heading and value of everything a run says of how it was made."""
    rows = run.results.rows
    times = sorted({row.started_utc for row in rows if row.started_utc})
    versions: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for name, version in json.loads(row.versions).items():
            versions[str(name)].add(str(version))
    timed = [(row, row.wall_s) for row in rows if row.wall_s is not None and row.started_utc]
    jobs = {(row.task, row.model, row.init, row.started_utc) for row, _ in timed}
    took = f"{sum(seconds for _, seconds in timed):,.1f} s in {counted(len(jobs), 'fit')}"

    def all_of(values: Iterable[object]) -> str:
        return "; ".join(dict.fromkeys(str(value) for value in values if value not in (None, "")))

    n_cells = counted(len({row.cell_id for row in rows}), "cell")
    n_kept = counted(len({row.cell_id for row in rows if row.predictions_sha256 is not None}), "cell")
    facts = {
        "folder": run.name,
        "experiment": all_of(row.experiment for row in rows),
        "tables": f"schema {all_of(row.schema_version for row in rows)}, {counted(len(rows), 'row')}, {n_cells}",
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
        "fitting took": took if jobs else "",
        "predictions": f"{n_kept} kept, with SHA-256",
    }
    return [(heading, value) for heading, value in facts.items() if value]
