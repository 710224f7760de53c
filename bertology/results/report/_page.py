"""The page: one HTML document with its style, script, library and data inside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bertology._files import explained_system_errors, write_derived
from bertology._page import full_page
from bertology.errors import StoreError
from bertology.results.report._details import cloze_details, item_budget, label_details, rounded_score
from bertology.results.report._runs import (
    Entry,
    Question,
    Run,
    SentenceTexts,
    find_sentences,
    group_questions,
    read_runs,
)
from bertology.results.report._summary import Summary, about, caveats, headline, summarise, summarise_heads
from bertology.results.report._tables import (
    heads_maps,
    heads_section,
    overview_table,
    provenance,
    shown_with,
    steps_section,
    wholes_section,
)
from bertology.results.tables.rows import answers_itself
from bertology.results.views.across import baseline_labels, baseline_owners
from bertology.results.views.grid import decimals, is_fraction, metric_title
from bertology.results.views.heads import HeadTable, head_place, line_label
from bertology.results.views.layer_grid import strength_text
from bertology.results.views.layers import COLUMNS, LayerLine

_HERE = "results/report/assets/"
_OF_ALL = "start.js", "tables.js", "heatmap.js"
# Charts and details are of layers: where heads alone were asked there is nothing for their scripts to do.
_OF_LAYERS = "overview.js", "chart.js", "cloze.js", "details.js"
# What they offer and keep is all that the others made.
_LAST = "download.js", "state.js"
_MOST_OPEN = 6
_PLAIN = {"random_init": "random", "control_task": "control"}
"""What the script calls scores of a line."""


def render_report(runs: Sequence[Run], texts: SentenceTexts | None = None) -> str:
    """The whole page, with the sentences behind item ids, or only ids when left out.

    It makes no request: style, script and data are inside it, and its content security policy allows nothing else, by
    the hash of each.
    """
    questions = group_questions(runs)
    scripts = (*_OF_ALL, *(_OF_LAYERS if questions else ()), *_LAST)
    compared = any(entry.table.compared for question in questions for entry in question.entries)
    values = {
        "star": "★ cannot be told apart from the best layer of its column and model. " if compared else "",
        "headline": escape(headline(runs, questions)),
        "about": "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in about(runs)),
        "choices": _choices(questions, runs),
        "head_maps": heads_maps(runs),
        "summary": _summaries(questions, runs),
        "caveats": "".join(f'<p class="caveat">{escape(text)}</p>' for text in caveats(questions)),
        "apart": _apart(questions),
        "best_filter": '<label class="chip"><input type="checkbox" id="filter-best">★ only</label>' if compared else "",
        "layers_hidden": "" if questions else "hidden",
        "heads": heads_section(runs),
        "over_steps": steps_section(runs),
        "wholes": wholes_section(runs),
        "wholes_link": '<a href="#wholes">Whole models</a>' if any(run.wholes for run in runs) else "",
        "steps_link": '<a href="#over-steps">Over training</a>' if any(run.over_steps for run in runs) else "",
        "heads_link": '<a href="#heads">Heads</a>' if any(run.head_tables or run.step_tables for run in runs) else "",
        "overview": overview_table(questions),
        "provenance": "".join(_provenance(run) for run in runs),
    }
    return full_page(
        _HERE + "page.html",
        title="bertology report: " + ", ".join(run.name for run in runs),
        styles=(),
        scripts=[_HERE + name for name in scripts],
        values=values,
        data=_payload(questions, runs, texts or SentenceTexts()),
    )


def _summaries(questions: Sequence[Question], runs: Sequence[Run]) -> str:
    cards = [
        _card(summarise(question, entry), entry.label, f"q{place}")
        for place, question in enumerate(questions)
        for entry in question.entries
    ]
    heads = [table for run in runs for table in run.head_tables]
    cards += [_card(summarise_heads(table), str(table.about.model), f"h{place}") for place, table in enumerate(heads)]
    shown, rest = ("".join(part) for part in (cards[:_MOST_OPEN], cards[_MOST_OPEN:]))
    heading = f"<summary>{len(cards) - _MOST_OPEN} more in words</summary>"
    more = f'<details class="more" id="more">{heading}<div class="cards">{rest}</div></details>' if rest else ""
    return f'<div class="cards">{shown}</div>{more}'


def _card(summary: Summary, model: str, task: str) -> str:
    """A table in words; the page hides it with its ``model`` or its ``task``."""
    points = "".join(f"<dt>{escape(heading)}</dt><dd>{escape(text)}</dd>" for heading, text in summary.points)
    best = f'<span class="best">{escape(summary.best)}</span>' if summary.best else ""
    return (
        f'<article class="card"{shown_with(model, task)}><h3>{escape(summary.title)}</h3>'
        f'<p class="figure"><strong>{escape(summary.figure)}</strong> {escape(summary.metric)} '
        f'<span class="ci">{escape(summary.interval)}</span>{best}</p>'
        f"<dl>{points}</dl></article>"
    )


def _apart(questions: Sequence[Question]) -> str:
    """Warns where one task was scored on different data, splits, versions or metrics."""
    tasks = [question.first.task for question in questions]
    names = ", ".join(sorted({task for task in tasks if tasks.count(task) > 1}))
    warning = (
        f"{escape(names)}: asked on different data, splits, versions or metrics. These stand in columns of their own "
        "and are never drawn in one chart, since their scores cannot be compared."
    )
    return f'<p class="notice">{warning}</p>' if names else ""


_SCORES = {
    "main": "main metric",
    "second": "second metric",
    "random_init": "random init",
    "control_task": "control task",
    "selectivity": "selectivity",
}
"""Fields of a line of which the heatmap, the table and the chart show one, and what the page calls them."""


def _choices(questions: Sequence[Question], runs: Sequence[Run]) -> str:
    """Choice of models, of tasks and of a score, where there is anything to choose."""
    models = [entry.label for question in questions for entry in question.entries]
    heads = [table for run in runs for table in run.head_tables]
    models = list(dict.fromkeys([*models, *(str(table.about.model) for table in heads)]))
    page = _boxes("models", "Models", [(model, f'data-model="{escape(model)}"') for model in models])
    tasks = [(q.label, f'data-column="q{place}"') for place, q in enumerate(questions)]
    several = len({table.about.model for table in heads}) > 1
    tasks += [
        (f"{table.task} · {table.about.model}" if several else table.task, f'data-column="h{place}"')
        for place, table in enumerate(heads)
    ]
    page += _boxes("columns", "Tasks", tasks)
    lines = [line for question in questions for entry in question.entries for line in entry.table.lines]
    known = {name: text for name, text in _SCORES.items() if any(getattr(line, name) is not None for line in lines)}
    if len(known) > 1:
        options = "".join(f'<option value="{_PLAIN.get(name, name)}">{text}</option>' for name, text in known.items())
        page += f'<label class="field">Score <select id="score">{options}</select></label>'
    return page


def _boxes(name: str, legend: str, choices: Sequence[tuple[str, str]]) -> str:
    if len(choices) < 2:
        return ""
    boxes = "".join(
        f'<label class="chip"><input type="checkbox" {attribute} checked>{escape(label)}</label>'
        for label, attribute in choices
    )
    return f'<fieldset id="{name}" class="chips"><legend>{legend}</legend>{boxes}</fieldset>'


def _provenance(run: Run) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(heading)}</th><td>{escape(value)}</td></tr>' for heading, value in provenance(run)
    )
    title = escape(f"How {run.name} was made")
    return (
        f'<h3>{escape(run.name)}</h3><div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f'<table class="facts"><tbody>{rows}</tbody></table></div>'
    )


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
        plain.append(
            {
                "label": question.label,
                "task": table.task,
                "metric": metric_title(table.metric),
                "percent": is_fraction(table.metric),
                "decimals": decimals(table.metric),
                "isAccuracy": table.metric == "accuracy",
                "higherIsBetter": table.higher_is_better,
                "entries": [_entry(entry, texts, sentences, budget, owned) for entry in question.entries],
            }
        )
    heads = [_heads(table) for run in runs for table in run.head_tables]
    return {"questions": plain, "sentences": list(sentences), "heads": heads}


def _heads(table: HeadTable) -> dict[str, Any]:
    """Scores of all heads, by what is measured of them."""
    heads = sorted({head for line in table.lines for head in line.heads}, key=head_place)
    lines = [
        {
            "name": line_label(table, line),
            "metric": metric_title(line.metric),
            "percent": is_fraction(line.metric),
            "decimals": decimals(line.metric),
            "higherIsBetter": line.higher_is_better,
            "best": heads.index(line.best.head),
            "standsOut": line.stands_out,
            "scores": [rounded_score(line.heads.get(head), digits=4) for head in heads],
        }
        for line in table.lines
    ]
    return {"model": str(table.about.model), "heads": heads, "lines": lines}


def _entry(
    entry: Entry, texts: SentenceTexts, sentences: dict[str, int], budget: int, owned: Collection[str]
) -> dict[str, Any]:
    """The table of one reader; of the baselines in ``owned`` each reader has its own."""
    table = entry.table
    own_head = answers_itself(table.about)
    if own_head:
        details = cloze_details(entry, texts, sentences, most_items=budget)
    else:
        details = label_details(entry, texts, sentences, most_items=budget)
    return {
        "label": entry.label,
        "run": entry.run.name,
        "second": metric_title(table.second_metric) if table.second_metric else None,
        "secondPercent": is_fraction(table.second_metric or ""),
        "secondDecimals": decimals(table.second_metric or ""),
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
        "details": details,
    }


def _line(line: LayerLine) -> dict[str, Any]:
    scores = {_PLAIN.get(name, name): getattr(line, name) for name in COLUMNS}
    return {
        "layer": line.layer,
        **{name: rounded_score(score) for name, score in scores.items()},
        "spread": None if line.seed_spread is None else round(line.seed_spread, 6),
        "best": line.in_best_set,
        "strength": strength_text(line),
    }


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
