"""The page: one HTML document with its style, script, library and data inside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bertology import __version__
from bertology._files import explained_system_errors, write_derived
from bertology._page import asset, embedded_json, fill, policy
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
from bertology.results.report._summary import Summary, caveats, headline, summarise
from bertology.results.report._tables import heads_section, overview_table, provenance
from bertology.results.tables.rows import answers_itself
from bertology.results.views.across import baseline_owners
from bertology.results.views.grid import decimals, is_fraction, metric_title
from bertology.results.views.layer_grid import strength_text
from bertology.results.views.layers import BASELINE_LABELS, LayerLine

_HERE = "results/report/"
_STYLES = ("vendor/uPlot.min.css", "assets/page.css")
_SCRIPTS = (
    "vendor/uPlot.iife.min.js",
    "assets/start.js",
    "assets/tables.js",
    "assets/overview.js",
    "assets/chart.js",
    "assets/cloze.js",
    "assets/details.js",
)
# In the head, so that a page in the dark never flashes white.
_THEME = "assets/theme.js"
_MOST_OPEN = 6


def render_report(runs: Sequence[Run], texts: SentenceTexts | None = None) -> str:
    """The whole page, with the sentences behind item ids, or only ids when left out.

    It makes no request: style, script and data are inside it, and its content security policy allows nothing else, by
    the hash of each.
    """
    questions = group_questions(runs)
    style = "\n".join(asset(_HERE + name) for name in _STYLES)
    # Charts and details are of layers: where heads alone were asked there is nothing for their scripts to do.
    script = "\n".join(asset(_HERE + name) for name in (_SCRIPTS if questions else ()))
    theme = asset(_HERE + _THEME)
    compared = any(entry.table.compared for question in questions for entry in question.entries)
    values = {
        "star": "★ cannot be told apart from the best layer of its column and model. " if compared else "",
        "policy": policy(style, theme, script),
        "title": escape("bertology report: " + ", ".join(run.name for run in runs)),
        "headline": escape(headline(runs, questions)),
        "summary": _summaries(questions),
        "caveats": "".join(f'<p class="caveat">{escape(text)}</p>' for text in caveats(questions)),
        "apart": _apart(questions),
        "filters": _filters(questions, compared=compared),
        "layers_hidden": "" if questions else "hidden",
        "heads": heads_section(runs),
        "heads_link": '<a href="#heads">Heads</a>' if any(run.head_tables or run.step_tables for run in runs) else "",
        "overview": overview_table(questions),
        "provenance": "".join(_provenance(run) for run in runs),
        "version": escape(__version__),
        "style": style,
        "theme": theme,
        "data": embedded_json(_payload(questions, texts or SentenceTexts())),
        "script": script,
    }
    return fill(asset(_HERE + "assets/page.html"), values)


def _summaries(questions: Sequence[Question]) -> str:
    cards = [_card(summarise(question, entry)) for question in questions for entry in question.entries]
    shown, rest = ("".join(part) for part in (cards[:_MOST_OPEN], cards[_MOST_OPEN:]))
    heading = f"<summary>{len(cards) - _MOST_OPEN} more in words</summary>"
    more = f'<details class="more">{heading}<div class="cards">{rest}</div></details>' if rest else ""
    return f'<div class="cards">{shown}</div>{more}'


def _card(summary: Summary) -> str:
    points = "".join(f"<dt>{escape(heading)}</dt><dd>{escape(text)}</dd>" for heading, text in summary.points)
    best = f'<span class="best">{escape(summary.best)}</span>' if summary.best else ""
    return (
        f'<article class="card"><h3>{escape(summary.title)}</h3>'
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


def _filters(questions: Sequence[Question], *, compared: bool) -> str:
    """Choice of best sets, of a model and of columns, where there is anything to choose."""
    readers = list(dict.fromkeys(entry.label for question in questions for entry in question.entries))
    page = '<label class="chip"><input type="checkbox" id="filter-best">★ only</label>' if compared else ""
    if len(readers) > 1:
        page += '<label class="field">Model <select id="filter-reader"><option value="">all</option>'
        page += "".join(f'<option value="{escape(reader)}">{escape(reader)}</option>' for reader in readers)
        page += "</select></label>"
    if len(questions) > 1:
        page += '<fieldset id="columns" class="chips"><legend>Tasks</legend>'
        for place, label in enumerate(escape(question.label) for question in questions):
            page += f'<label class="chip"><input type="checkbox" data-column="q{place}" checked>{label}</label>'
        page += "</fieldset>"
    return page


def _provenance(run: Run) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(heading)}</th><td>{escape(value)}</td></tr>' for heading, value in provenance(run)
    )
    return f'<h3>{escape(run.name)}</h3><div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'


def _payload(questions: Sequence[Question], texts: SentenceTexts) -> dict[str, Any]:
    """Everything that is drawn or listed on demand: scores of layers, details, sentences."""
    sentences: dict[str, int] = {}
    budget = item_budget(sum(len(entry.table.lines) for question in questions for entry in question.entries))
    plain = []
    for question in questions:
        table = question.first
        tables = [[(entry.label, entry.table) for entry in question.entries]]
        owned = frozenset(label for label in BASELINE_LABELS if baseline_owners(label, tables) != (None,))
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
    return {"questions": plain, "sentences": list(sentences)}


def _entry(
    entry: Entry, texts: SentenceTexts, sentences: dict[str, int], budget: int, owned: Collection[str]
) -> dict[str, Any]:
    """The table of one reader; of the baselines in ``owned`` each reader has its own."""
    table = entry.table
    own_head = answers_itself(table.about)
    if own_head:
        details = cloze_details(entry, most_items=budget, with_text=texts.allowed)
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
    scores = {
        "main": line.main,
        "second": line.second,
        "random": line.random_init,
        "control": line.control_task,
        "selectivity": line.selectivity,
        "blind": line.blind,
    }
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
