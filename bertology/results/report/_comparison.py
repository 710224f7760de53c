"""The page of a comparison: what differs between a model and its reference, where, and how sure that is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

from bertology._files import explained_system_errors
from bertology._names import layer_label
from bertology._page import full_page, write_page
from bertology.results._results import Results
from bertology.results.report._drawings import Curve, curves, head_heatmap
from bertology.results.report._runs import probe_of
from bertology.results.tables.rows import ResultRow
from bertology.results.views.compared import (
    ComparedTask,
    Difference,
    PairStatistic,
    at_null,
    compared_tasks,
    pair_statistics,
)
from bertology.results.views.grid import alignment_notes, interval_of, layers_named, metric_title, number, unit
from bertology.results.views.layers import Score

_HERE = "results/report/assets/"


@dataclass(frozen=True)
class PageTable:
    """A table that is shown as it is, such as one of sizes."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class PageCurves:
    """A chart of values by layer, such as retained knowledge."""

    title: str
    metric: str
    lines: tuple[Curve, ...]
    note: str = ""


@dataclass(frozen=True)
class ComparisonPage:
    """What a page of a comparison shows besides the results."""

    reference: str
    """Name of the reference in the rows."""
    tables: tuple[PageTable, ...] = ()
    curves: tuple[PageCurves, ...] = ()
    failures: tuple[str, ...] = ()
    """What could not be measured, a line each."""
    verdicts: tuple[str, ...] = ()
    """What the comparison comes to, shown before the findings."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Heading and value, shown above the findings."""


def render_comparison(results: Results, page: ComparisonPage) -> str:
    """The whole page; it makes no request, and needs no script but for the choice of a theme.

    Args:
        results: of the reference and the models, with the comparisons of models.
        page: what else is shown.

    Raises:
        ResultsError: there are no rows of the reference.
    """
    tasks = compared_tasks(results.rows, results.comparisons, reference=page.reference)
    statistics = pair_statistics(results.rows)
    asked = {one.task for one in tasks}
    compared = "".join(map(_task, _by_question(tasks))) + _aligned(row for row in results.rows if row.task in asked)
    models = list(dict.fromkeys([*(m for one in tasks for m in one.differences), *(one.model for one in statistics)]))
    named = [one.reference for one in tasks] + [one.reference for one in statistics]
    reference = named[0] if named else page.reference
    sections = dict(_sections(statistics))
    links = "".join(f'<a href="#{_anchor(title)}">{escape(title)}</a>' for title in sections)
    values = {
        "headline": escape(f"{', '.join(models)} compared with {reference}, layer by layer."),
        "about": "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in page.about.items()),
        "words": _words([*page.verdicts, *findings(tasks, statistics)]),
        "cost": "".join([*map(_table, page.tables), *map(_curves, page.curves)]),
        "tasks": compared if asked else "<p>No task was put to both models.</p>",
        "links": links,
        "statistics": "".join(
            f'<section id="{_anchor(title)}"><h2>{escape(title)}</h2>{body}</section>'
            for title, body in sections.items()
        ),
        "failures": _failures(page.failures),
        "provenance": _provenance(results),
    }
    return full_page(
        _HERE + "comparison.html",
        title=f"bertology comparison: {reference} and {', '.join(models)}",
        styles=[_HERE + "comparison.css"],
        scripts=(),
        values=values,
        data={},
    )


@explained_system_errors()
def write_comparison(results: Results, path: str | Path, page: ComparisonPage) -> Path:
    """Write :func:`render_comparison` as one HTML file, which is returned.

    Raises:
        ResultsError: there are no rows of the reference.
        StoreError: the file cannot be written.
    """
    return write_page(path, render_comparison(results, page))


def findings(tasks: Sequence[ComparedTask], statistics: Sequence[PairStatistic]) -> list[str]:
    """What changed: a sentence for each task and model, and for the main statistic of each measure by layer."""
    found = []
    for task in tasks:
        for model, differences in task.differences.items():
            found.append(f"{_title(task)}, {model}: {_changed(differences, task.metric)}")
    for one in statistics:
        if one.metric.endswith("_change"):
            found.append(f"{_named(one, statistics)}: {_apart(one)}")
        spread = {layer: score.value for layer, score in one.by_layer.items()}
        if one.about.main_metric and len(spread) > 1 and max(spread.values()) > min(spread.values()):
            low, high = min(spread, key=lambda layer: spread[layer]), max(spread, key=lambda layer: spread[layer])
            values = [number(spread[layer], metric=one.metric) + unit(one.metric)[1:] for layer in (low, high)]
            where = f"least in layer {low} ({values[0]}), most in layer {high} ({values[1]})"
            found.append(f"{_named(one, statistics)}: {where}.")
    return found


def _named(one: PairStatistic, others: Sequence[PairStatistic]) -> str:
    """A statistic and its model, with the corpus where there are several."""
    several = len({other.corpus for other in others}) > 1
    return f"{metric_title(one.metric)} ({one.task}{f' on {one.corpus}' if several else ''}), {one.model}"


def _changed(differences: Mapping[int, Difference], metric: str) -> str:
    if not differences:
        return "no layer was compared with the reference."
    sure = {layer: one for layer, one in differences.items() if one.is_sure}
    if not sure:
        return f"no layer differs from the reference (of {len(differences)}, at a false discovery rate of 5 %)."
    parts = []
    for sign, word in ((1, "higher"), (-1, "lower")):
        layers = [layer for layer, one in sure.items() if one.value * sign > 0]
        if layers:
            most = max(layers, key=lambda layer: abs(sure[layer].value))
            amount = number(abs(sure[most].value), metric=metric) + (" points" if unit(metric) else "")
            parts.append(f"{word} in {layers_named(layers)}, by {amount} at most (layer {most})")
    return "; ".join(parts) + "."


def _apart(one: PairStatistic) -> str:
    """In which layers a change is apart from 0."""
    sure = [layer for layer, score in one.by_layer.items() if score.low is not None and score.high is not None]
    parts = []
    for word, is_so in (("above 0", _is_above), ("below 0", _is_below)):
        layers = [layer for layer in sure if is_so(one.by_layer[layer])]
        if layers:
            most = max(layers, key=lambda layer: abs(one.by_layer[layer].value))
            amount = number(abs(one.by_layer[most].value), metric=one.metric)
            parts.append(f"{word} in {layers_named(layers)}, by {amount} at most (layer {most})")
    return f"{'; '.join(parts) or 'in no layer apart from 0'}, by 95 % intervals."


def _is_above(score: Score) -> bool:
    return score.low is not None and score.low > 0


def _is_below(score: Score) -> bool:
    return score.high is not None and score.high < 0


def _words(sentences: Sequence[str]) -> str:
    lines = "".join(f"<li>{escape(text)}</li>" for text in sentences)
    return f'<ul class="findings">{lines}</ul>' if lines else ""


def _title(task: ComparedTask) -> str:
    reading = f", {task.reading}" if task.reading else ""
    return f"{task.task} on {task.corpus}{reading}"


def _by_question(tasks: Sequence[ComparedTask]) -> list[list[ComparedTask]]:
    """Tasks that differ in nothing but their corpora together."""
    found: dict[tuple[str, str, str], list[ComparedTask]] = defaultdict(list)
    for task in tasks:
        found[task.task, task.metric, task.reading].append(task)
    return list(found.values())


def _task(tasks: Sequence[ComparedTask]) -> str:
    """One task: of each corpus a chart of all models, and a table of differences with columns for each corpus."""
    several, charts = len(tasks) > 1, []
    layers = sorted({layer for task in tasks for scores in task.scores.values() for layer in scores})
    lines, headings = {layer: [layer_label(layer)] for layer in layers}, ["layer"]
    for task in tasks:
        title = f"{_title(task)}: {metric_title(task.metric)}"
        drawn = [Curve(model, scores) for model, scores in task.scores.items()]
        chart = curves(drawn, metric=task.metric, label=f"{title} by layer of {', '.join(task.scores)}")
        caption = f"<figcaption>{escape(task.corpus)}</figcaption>" if several else ""
        charts.append(f"<figure>{caption}{chart}</figure>")
        of = f"{task.corpus}: " if several else ""
        headings.append(of + task.reference)
        headings += [of + heading for model in task.differences for heading in (model, f"{model} − {task.reference}")]
        for layer, line in lines.items():
            line.append(_value(task.scores[task.reference].get(layer), task.metric))
            for model, differences in task.differences.items():
                line.append(_value(task.scores[model].get(layer), task.metric))
                difference = differences.get(layer)
                line.append(_difference(difference, task.metric) + _other_layer(difference, layer))
    table = _rows(headings, list(lines.values()))
    first = tasks[0]
    corpora = " and ".join(task.corpus for task in tasks)
    title = f"{_title(replace(first, corpus=corpora))}: {metric_title(first.metric)}{unit(first.metric)}"
    beside, below = ("", table) if several else (table, "")
    return f'<h3>{escape(title)}</h3><div class="pair">{"".join(charts)}{beside}</div>{below}'


def _other_layer(difference: Difference | None, layer: int) -> str:
    """Of models of different depth, the layer of the reference that a score was compared with."""
    if difference is None or difference.reference_layer == layer:
        return ""
    return f" (layer {difference.reference_layer})"


def _sections(statistics: Sequence[PairStatistic]) -> Iterator[tuple[str, str]]:
    """By task of comparison its charts: of each metric a curve a model, and a heatmap of heads a model."""
    for task in dict.fromkeys(one.task for one in statistics):
        of_task = [one for one in statistics if one.task == task]
        probe = probe_of(of_task[0].about)
        question = "" if probe is None else str(probe.question)
        body = f'<p class="hint">{escape(question)}</p><div class="pair">'
        metrics = {one.metric for one in of_task}
        for metric in dict.fromkeys(one.metric for one in of_task):
            if _beside(metric) not in metrics:
                body += _metric(metric, [one for one in of_task if metric in (one.metric, _beside(one.metric))])
        yield task, f"{body}</div>{_aligned(one.about for one in of_task)}"


def _aligned(rows: Iterable[ResultRow]) -> str:
    """The line on data and alignment of some rows, one for each task, corpus and model."""
    first = {(row.task, row.corpus, row.model): row for row in rows if row.control == "none"}
    return "".join(f'<p class="hint">{escape(str(note))}</p>' for note in alignment_notes(*first.values()))


_NULL = " · at its null"
_BESIDE = {"_null": "words in random order", "_reference": "reference"}
"""Endings of metrics that are drawn in the chart of the one without them, and what their curves are called."""


def _beside(metric: str) -> str:
    """The metric in whose chart another belongs; empty for one that has its own."""
    return next((metric.removesuffix(ending) for ending in _BESIDE if metric.endswith(ending)), "")


def _metric(metric: str, statistics: Sequence[PairStatistic]) -> str:
    title, described = escape(metric_title(metric) + unit(metric)), _described(statistics[0], metric)
    note = f'<figcaption class="hint">{escape(described)}</figcaption>' if described else ""
    parts = []
    by_layer = [one for one in statistics if one.by_layer]
    if by_layer:
        lines = [Curve(_pair_name(one, by_layer), one.by_layer) for one in by_layer]
        chart = curves(lines, metric=metric, label=f"{metric_title(metric)} by layer")
        nulls = [at_null(one, by_layer) for one in by_layer]
        rows = [
            (
                layer_label(layer),
                *(
                    _score(one.by_layer.get(layer), metric) + (_NULL if layer in of_null else "")
                    for one, of_null in zip(by_layer, nulls, strict=True)
                ),
            )
            for layer in sorted({layer for one in by_layer for layer in one.by_layer})
        ]
        numbers = _rows(["layer", *(line.name for line in lines)], rows)
        parts.append(f"{chart}<details><summary>The numbers</summary>{numbers}</details>")
    for one in statistics:
        if one.by_head:
            name = _pair_name(one, statistics)
            drawing = head_heatmap(one.by_head, metric=metric, label=f"{metric_title(metric)} of heads, {name}")
            parts.append(f"<p>{escape(name)}</p>{drawing}")
    whole = [one for one in statistics if one.of_model is not None]
    if whole:
        rows = [(_pair_name(one, whole), _score(one.of_model, metric)) for one in whole]
        parts.append(_rows(["model", metric_title(metric)], rows))
    return f"<figure><h3>{title}</h3>{note}{''.join(parts)}</figure>"


def _described(one: PairStatistic, metric: str) -> str:
    """What the probe says of one of its metrics; empty where it is not installed here."""
    probe = probe_of(one.about)
    return "" if probe is None else next((known.description for known in probe.scores if known.name == metric), "")


def _pair_name(one: PairStatistic, others: Sequence[PairStatistic]) -> str:
    several = len({other.corpus for other in others}) > 1
    name = f"{one.model}, {one.corpus}" if several else one.model
    kinds = {other.metric for other in others}
    ending = next((text for end, text in _BESIDE.items() if one.metric.removesuffix(end) in kinds - {one.metric}), "")
    return f"{name}, {ending}" if ending else name


def _score(score: Score | None, metric: str) -> str:
    return "–" if score is None else f"{number(score.value, metric=metric)} {interval_of(score, metric)}".rstrip()


def _value(score: Score | None, metric: str) -> str:
    """Without its interval, which the chart shows."""
    return _score(score and Score(score.value), metric)


def _difference(found: Difference | None, metric: str) -> str:
    if found is None:
        return "–"
    text = _score(Score(found.value, found.low, found.high), metric)
    sign = "+" if float(number(found.value, metric=metric).replace("−", "-")) > 0 else ""
    return f"{sign}{text}{' ★' if found.is_sure else ''}"


def _rows(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in lines
    )
    table = f'<table class="numbers"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(headings[-1])}">{table}</div>'


def _table(table: PageTable) -> str:
    note = f'<p class="hint">{escape(table.note)}</p>' if table.note else ""
    return f"<h3>{escape(table.title)}</h3>{note}{_rows(table.headings, table.lines)}"


def _curves(chart: PageCurves) -> str:
    note = f'<figcaption class="hint">{escape(chart.note)}</figcaption>' if chart.note else ""
    drawing = curves(chart.lines, metric=chart.metric, label=chart.title)
    return f"<h3>{escape(chart.title)}</h3><figure>{note}{drawing}</figure>"


def _failures(failures: Sequence[str]) -> str:
    lines = "".join(f"<li>{escape(text)}</li>" for text in failures)
    return f'<p>Not measured:</p><ul class="findings">{lines}</ul>' if lines else ""


def _provenance(results: Results) -> str:
    sizes: dict[tuple[str, str], int] = {}
    for row in results.rows:
        sizes[row.corpus, row.split] = max(row.n_clusters, sizes.get((row.corpus, row.split), 0))
    facts = {
        "models": [f"{row.model} (weights {str(row.model_fingerprint)[:12]})" for row in results.rows if row.model],
        "corpora": [f"{corpus}, {split}: {size:,} sentences" for (corpus, split), size in sizes.items()],
        "versions": [row.versions.strip("{}").replace('"', "") for row in results.rows],
    }
    return "".join(
        f'<tr><th scope="row">{name}</th><td>{escape("; ".join(dict.fromkeys(texts)))}</td></tr>'
        for name, texts in facts.items()
        if texts
    )


def _anchor(title: str) -> str:
    return "of-" + "".join(letter if letter.isalnum() else "-" for letter in title)
