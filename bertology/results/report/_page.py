"""The page: one HTML document with its style, script, library and data inside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bertology import __version__
from bertology._page import asset, embedded_json, fill, policy
from bertology.results.report._heads import heads_section
from bertology.results.report._overview import overview_table
from bertology.results.report._payload import payload
from bertology.results.report._provenance import provenance
from bertology.results.report._runs import Question, Run, group_questions
from bertology.results.report._summary import Summary, caveats, headline, summarise
from bertology.results.report._text import SentenceTexts

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
    """The whole page.

    It makes no request: style, script and data are inside it, and its content security policy allows nothing else, by
    the hash of each.

    Args:
        runs: what it is about.
        texts: the sentences behind item ids; only ids are shown when left out.
    """
    questions = group_questions(runs)
    title = "bertology report: " + ", ".join(run.name for run in runs)
    style = "\n".join(asset(_HERE + name) for name in _STYLES)
    # Charts and details are of layers: where heads alone were asked there is nothing for their scripts to do.
    script = "\n".join(asset(_HERE + name) for name in (_SCRIPTS if questions else ()))
    theme = asset(_HERE + _THEME)
    data = embedded_json(payload(questions, texts or SentenceTexts()))
    compared = any(entry.table.compared for question in questions for entry in question.entries)
    values = {
        "star": "★ cannot be told apart from the best layer of its column and model. " if compared else "",
        "policy": policy(style, theme, script),
        "title": escape(title),
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
        "data": data,
        "script": script,
    }
    return fill(asset(_HERE + "assets/page.html"), values)


def _summaries(questions: Sequence[Question]) -> str:
    found = [summarise(question, entry) for question in questions for entry in question.entries]
    cards = [_card(summary) for summary in found]
    if len(cards) <= _MOST_OPEN:
        return f'<div class="cards">{"".join(cards)}</div>'
    shown, rest = cards[:_MOST_OPEN], cards[_MOST_OPEN:]
    return (
        f'<div class="cards">{"".join(shown)}</div>'
        f'<details class="more"><summary>{len(rest)} more in words</summary>'
        f'<div class="cards">{"".join(rest)}</div></details>'
    )


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
    """Says so where one task stands on data or in versions that may not be compared."""
    tasks = [question.first.task for question in questions]
    doubled = sorted({task for task in tasks if tasks.count(task) > 1})
    if not doubled:
        return ""
    names = escape(", ".join(doubled))
    return (
        f'<p class="notice">{names}: asked on different data, splits, versions or metrics. These stand in columns of '
        "their own and are never drawn in one chart, since their scores cannot be compared.</p>"
    )


def _filters(questions: Sequence[Question], *, compared: bool) -> str:
    """Choice of best sets, of a model and of columns, where there is anything to choose."""
    readers = list(dict.fromkeys(entry.label for question in questions for entry in question.entries))
    parts = []
    if compared:
        parts.append('<label class="chip"><input type="checkbox" id="filter-best">★ only</label>')
    if len(readers) > 1:
        options = "".join(f'<option value="{escape(reader)}">{escape(reader)}</option>' for reader in readers)
        parts.append(
            '<label class="field">Model <select id="filter-reader"><option value="">all</option>'
            f"{options}</select></label>"
        )
    if len(questions) > 1:
        boxes = "".join(
            f'<label class="chip"><input type="checkbox" data-column="q{place}" checked>'
            f"{escape(question.label)}</label>"
            for place, question in enumerate(questions)
        )
        parts.append(f'<fieldset id="columns" class="chips"><legend>Tasks</legend>{boxes}</fieldset>')
    return "".join(parts)


def _provenance(run: Run) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(heading)}</th><td>{escape(value)}</td></tr>' for heading, value in provenance(run)
    )
    return f'<h3>{escape(run.name)}</h3><div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'
