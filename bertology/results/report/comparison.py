"""The page of a comparison: what differs between a model and its reference, where, and how sure that is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import MaxNLocator

from bertology._names import layer_label
from bertology._page import full_page
from bertology.measures.metrics import ITSELF, Part, metric_form
from bertology.results._results import Results
from bertology.results.compared import Compared
from bertology.results.report._page import probe_of
from bertology.results.rows import FALSE_DISCOVERY_RATE, ResultRow, Score
from bertology.results.table import (
    NOTHING,
    STAR,
    Note,
    alignment_notes,
    axis_ends,
    layers_named,
    metric_title,
    number,
    titled,
    unit,
    written,
)
from bertology.results.views import head_place

if TYPE_CHECKING:
    import pandas as pd

_HERE = "results/report/assets/"
Curve = tuple[str, Mapping[int, Score]]
"""The name of a line, and its scores by layer."""
Shown = dict[str, Any]
"""A table or chart as the template draws it."""


def render_comparison(
    results: Results,
    every: Sequence[Compared],
    *,
    reference: str,
    verdicts: Sequence[str] = (),
    failures: Sequence[str] = (),
    sizes: pd.DataFrame | None = None,
    retained: pd.DataFrame | None = None,
    heads: pd.DataFrame | None = None,
) -> str:
    """The whole page; it makes no request, and needs no script but for the choice of a theme.

    Args:
        results: of the reference and the models.
        every: the scores of tasks that were put to all of them, and the statistics of pairs of models.
        reference: its name in the tables.
        verdicts: the outcome of the comparison, shown before the findings.
        failures: measures that failed, a line each.
        sizes: as of :func:`bertology.comparison.size_and_speed`.
        retained: as of :func:`bertology.comparison.retained`, with a column ``model``.
        heads: as of :func:`bertology.comparison.head_changes`, with a column ``model``.
    """
    models = list(dict.fromkeys(one.model for one in every))
    asked = {one.task for one in every if one.of_reference}
    statistics = [one for one in every if not one.of_reference]
    questions: dict[tuple[str, str, str], dict[str, list[Compared]]] = defaultdict(lambda: defaultdict(list))
    for one in every:
        if one.of_reference:
            questions[one.task, one.metric, one.reading][one.corpus].append(one)
    sections = []
    for name in dict.fromkeys(one.task for one in statistics):
        of_task = [one for one in statistics if one.task == name]
        metrics, probe = list(dict.fromkeys(one.metric for one in of_task)), probe_of(of_task[0].about)
        own = {metric: [one for one in of_task if metric in (one.metric, _beside(one.metric))] for metric in metrics}
        charts = [_chart(metric, same) for metric, same in own.items() if _beside(metric) not in metrics]
        anchor = "of-" + "".join(letter if letter.isalnum() else "-" for letter in name)
        question, aligned = "" if probe is None else str(probe.question), _aligned(one.about for one in of_task)
        sections.append({"title": name, "anchor": anchor, "question": question, "charts": charts, "aligned": aligned})
    tables = [shown(frame) for shown, frame in ((_size_table, sizes), (_head_table, heads)) if frame is not None]
    return full_page(
        _HERE + "comparison.html",
        title=f"bertology comparison: {reference} and {', '.join(models)}",
        styles=[_HERE + "comparison.css"],
        scripts=(),
        data={},
        headline=f"{', '.join(models)} compared with {reference}, layer by layer.",
        words=[*verdicts, *findings(every)],
        tables=tables,
        charts=() if retained is None else list(_retained_charts(retained)),
        tasks=list(map(_task, questions.values())),
        aligned=_aligned(row for row in results.rows if row.task in asked),
        sections=sections,
        failures=failures,
        provenance=_provenance(results),
        chart_of=_curves,
        heads_of=_heads,
    )


def findings(every: Sequence[Compared]) -> list[str]:
    """The changes: a sentence for each task and model, and for the main statistic of each measure by layer."""
    found = []
    several = len({one.corpus for one in every if not one.of_reference}) > 1
    for one in every:
        if one.of_reference:
            found.append(f"{_title(one)}, {one.model}: {_changed(one)}")
            continue
        named = f"{metric_title(one.metric)} ({one.task}{f' on {one.corpus}' if several else ''}), {one.model}"
        if metric_form(one.metric).part == "change":
            found.append(f"{named}: {_apart(one)}")
        spread = {layer: score.value for layer, score in one.by_layer.items()}
        if one.about.main_metric and len(spread) > 1 and max(spread.values()) > min(spread.values()):
            low, high = min(spread, key=lambda layer: spread[layer]), max(spread, key=lambda layer: spread[layer])
            values = [number(spread[layer], metric=one.metric) + unit(one.metric)[1:] for layer in (low, high)]
            where = f"least in layer {low} ({values[0]}), most in layer {high} ({values[1]})"
            found.append(f"{named}: {where}.")
    return found


def _changed(one: Compared) -> str:
    if not one.differences:
        return "no layer was compared with the reference."
    if not one.sure:
        return f"no layer differs from the reference (of {len(one.differences)}, at a false discovery rate of 5 %)."
    higher = {layer: value for layer, value in one.sure.items() if value > 0}
    lower = {layer: value for layer, value in one.sure.items() if value < 0}
    points = " points" if unit(one.metric) else ""
    return "; ".join(_by_side({"higher": higher, "lower": lower}, one.metric, points)) + "."


def _apart(one: Compared) -> str:
    """The layers in which a change is apart from 0."""
    sure = {layer: score for layer, score in one.by_layer.items() if score.low is not None and score.high is not None}
    above = {layer: score.value for layer, score in sure.items() if score.low is not None and score.low > 0}
    below = {layer: score.value for layer, score in sure.items() if score.high is not None and score.high < 0}
    parts = _by_side({"above 0": above, "below 0": below}, one.metric, "")
    return f"{'; '.join(parts) or 'in no layer apart from 0'}, by 95 % intervals."


def _by_side(sides: Mapping[str, Mapping[int, float]], metric: str, points: str) -> Iterator[str]:
    """The layers on each side that has any, and how far the farthest of them is."""
    for word, values in sides.items():
        if values:
            most = max(values, key=lambda layer: abs(values[layer]))
            amount = number(abs(values[most]), metric=metric) + points
            yield f"{word} in {layers_named(list(values))}, by {amount} at most (layer {most})"


def _title(one: Compared) -> str:
    return f"{one.task} on {one.corpus}{f', {one.reading}' if one.reading else ''}"


def _task(by_corpus: Mapping[str, Sequence[Compared]]) -> Shown:
    """One task: for each corpus a chart of all models, and a table of differences with columns for each corpus."""
    every, charts, headings = [one for of in by_corpus.values() for one in of], [], ["layer"]
    metric = every[0].metric
    layers = sorted({layer for one in every for layer in (*one.of_reference, *one.by_layer)})
    lines = {layer: [layer_label(layer)] for layer in layers}
    for corpus, (first, *others) in by_corpus.items():
        curves = {first.reference: first.of_reference} | {one.model: one.by_layer for one in (first, *others)}
        label = f"{_title(first)}: {metric_title(metric)} by layer of {', '.join(curves)}"
        charts.append((corpus, label, list(curves.items())))
        of = f"{corpus}: " if len(by_corpus) > 1 else ""
        headings.append(of + first.reference)
        headings += [of + name for one in (first, *others) for name in (one.model, f"{one.model} − {one.reference}")]
        for layer, line in lines.items():
            # Without intervals, which the chart shows.
            values = [_score((score := of_it.get(layer)) and Score(score.value), metric) for of_it in curves.values()]
            line.append(values[0])
            for one, value in zip((first, *others), values[1:], strict=True):
                line += [value, _difference(one, layer)]
    corpora = " and ".join(by_corpus)
    reading = f", {every[0].reading}" if every[0].reading else ""
    title = f"{every[0].task} on {corpora}{reading}: {titled(metric)}"
    lists = {"headings": headings, "lines": list(lines.values())}
    return {"title": title, "metric": metric, "charts": charts, **lists}


def _aligned(rows: Iterable[ResultRow]) -> list[Note]:
    """The line on data and alignment of some rows, one for each task, corpus and model."""
    first = {(row.task, row.corpus, row.model): row for row in rows if row.control == ITSELF}
    return list(alignment_notes(*first.values()))


_AT_NULL = " · at its null"
_BESIDE: Mapping[Part, str] = {"null": "words in random order", "reference": "reference"}
"""Parts of a metric that are drawn in the chart of the one of the model, and what their curves are called."""


def _beside(metric: str) -> str:
    """The metric in whose chart another belongs; empty for one that has its own."""
    form = metric_form(metric)
    return form.base if form.part in _BESIDE else ""


def _chart(metric: str, statistics: Sequence[Compared]) -> dict[str, Any]:
    """The curves, heatmaps and numbers of one metric."""
    by_layer = [one for one in statistics if one.by_layer]
    lines = [(_pair_name(one, by_layer), one.by_layer) for one in by_layer]
    rows = []
    for layer in sorted({layer for one in by_layer for layer in one.by_layer}):
        scores = ((_score(one.by_layer.get(layer), metric), one.at_null or ()) for one in by_layer)
        rows.append((layer_label(layer), *(text + _AT_NULL * (layer in null) for text, null in scores)))
    heads = [(_pair_name(one, statistics), one.by_head) for one in statistics if one.by_head]
    wholes = [one for one in statistics if one.of_model is not None]
    probe, name = probe_of(statistics[0].about), metric_title(metric)
    known = () if probe is None else probe.scores
    return {
        "title": titled(metric),
        "name": name,
        "note": next((score.description for score in known if score.name == metric), ""),
        "metric": metric,
        "lines": lines,
        "label": f"{name} by layer",
        "headings": ["layer", *(name for name, _ in lines)],
        "rows": rows,
        "heads": [(of, by_head, f"{name} of heads, {of}") for of, by_head in heads],
        "wholes": [(_pair_name(one, wholes), _score(one.of_model, metric)) for one in wholes],
    }


def _pair_name(one: Compared, others: Sequence[Compared]) -> str:
    several = len({other.corpus for other in others}) > 1
    name = f"{one.model}, {one.corpus}" if several else one.model
    is_beside = _beside(one.metric) in {other.metric for other in others}
    ending = _BESIDE[metric_form(one.metric).part] if is_beside else ""
    return f"{name}, {ending}" if ending else name


def _score(score: Score | None, metric: str) -> str:
    return NOTHING if score is None else written(score, metric)


def _difference(one: Compared, layer: int) -> str:
    """A difference; of models of unlike depth with the layer of the reference that a score was compared with."""
    if (found := one.differences.get(layer)) is None:
        return NOTHING
    sign = "+" if float(number(found.value, metric=one.metric).replace("−", "-")) > 0 else ""
    other = "" if (place := one.reference_layers[layer]) == layer else f" (layer {place})"
    return f"{sign}{written(found, one.metric)}{f' {STAR}' if layer in one.sure else ''}{other}"


def _provenance(results: Results) -> list[tuple[str, str]]:
    sizes: dict[tuple[str, str], int] = {}
    for row in results.rows:
        sizes[row.corpus, row.split] = max(row.n_clusters, sizes.get((row.corpus, row.split), 0))
    facts = {
        "models": [f"{row.model} (weights {str(row.model_fingerprint)[:12]})" for row in results.rows if row.model],
        "corpora": [f"{corpus}, {split}: {size:,} sentences" for (corpus, split), size in sizes.items()],
        "versions": [row.versions.strip("{}").replace('"', "") for row in results.rows],
    }
    return [(name, "; ".join(dict.fromkeys(texts))) for name, texts in facts.items() if texts]


_SHOWN_HEADS = 3


def _size_table(sizes: pd.DataFrame) -> Shown:
    """A line for each model."""
    headings = ("model", "MB on disk", "weights, millions", "not zero", "subwords a second", "speed-up")
    lines = [
        (
            row["model"],
            f"{row['bytes_on_disk'] / 1e6:.2f}",
            f"{row['parameters'] / 1e6:.2f}",
            f"{row['nonzero'] / row['parameters']:.0%}",
            f"{row['pieces_per_second']:,.0f}",
            f"{row['speedup']:.2f} [{row['speedup_low']:.2f}, {row['speedup_high']:.2f}]",
        )
        for row in sizes.to_dict("records")
    ]
    note = "On this machine; the brackets are the least and the largest."
    return {"title": "Size and speed", "headings": headings, "lines": lines, "note": note}


def _retained_charts(frame: pd.DataFrame) -> Iterator[Shown]:
    """The curves of all models, a chart for each task and metric."""
    note = (
        "(model − floor) / (reference − floor), the floor the better of baselines and random weights; 95 % intervals."
    )
    for (task, corpus, metric), of_task in frame.groupby(["task", "corpus", "metric"], sort=False):
        lines = []
        for model, rows in of_task.groupby("model", sort=False):
            values = rows[["layer", "retained", "ci_low", "ci_high"]].itertuples(index=False)
            lines.append((str(model), {int(layer): Score(*bounds) for layer, *bounds in values}))
        title = f"Retained of {task} on {corpus}, {metric_title(str(metric))}, %"
        yield {"title": title, "metric": "", "lines": lines, "note": note}


def head_findings(heads: pd.DataFrame) -> Iterator[str]:
    """A sentence for each model and task of heads, from a table as of :func:`bertology.comparison.head_changes`."""
    for (task, corpus, model), of_task in heads.groupby(["task", "corpus", "model"], sort=False):
        sure = _clearest(of_task)
        text = f"{task} on {corpus}, {model}: {len(sure):,} of {len(of_task):,} statistics of heads differ"
        for row in sure[:1].to_dict("records"):
            text += f", most clearly {_head_name(row)} ({_shown(row, 'reference_value')} to {_shown(row, 'value')})"
        yield text + "."


def _head_table(heads: pd.DataFrame) -> Shown:
    """The statistics that change most clearly, a few of each kind: by model and task."""
    sure = _clearest(heads)
    groups = ["model", "task", "corpus"] if heads["corpus"].nunique() > 1 else ["model", "task"]
    first = sure.groupby([*groups, "metric"]).head(_SHOWN_HEADS).sort_values(groups, kind="stable")
    lines = [
        (
            *(row[name] for name in groups),
            _head_name(row),
            _shown(row, "reference_value"),
            _shown(row, "value"),
            f"{_shown(row, 'difference')} [{_shown(row, 'difference_low')}, {_shown(row, 'difference_high')}]",
        )
        for row in first.to_dict("records")
    ]
    headings = (*groups, "statistic", "reference", "model's", "difference")
    note = f"Of {len(heads):,} statistics {len(sure):,} differ at a false discovery rate of 5 %; all are in heads.csv."
    return {"title": "Heads that change most clearly", "headings": headings, "lines": lines, "note": note}


def _clearest(heads: pd.DataFrame) -> pd.DataFrame:
    """The statistics that differ, the clearest first: by the difference over the width of its interval."""
    sure = heads[heads["p_adj"] < FALSE_DISCOVERY_RATE]
    width = sure["difference_high"] - sure["difference_low"]
    return sure.loc[(sure["difference"].abs() / width).sort_values(ascending=False, kind="stable").index]


def _head_name(row: Mapping[Any, Any]) -> str:
    group = f" of {row['group']}" if isinstance(row["group"], str) else ""
    return f"{metric_title(str(row['metric']))}{group}, {row['head']}"


def _shown(row: Mapping[Any, Any], column: str) -> str:
    return number(row[column], metric=str(row["metric"])) + unit(str(row["metric"]))[1:]


# Charts are SVG in the colours of the theme, so that they are there where scripts are off. The template
# draws them; these are places in its drawing.
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 546.0, 14.0, 226.0
_TICKS, _MOST_LAYERS = 5, 13
_MOST_PLAIN = 1e7
"""Ticks from here on are written with exponents."""


def _curves(lines: Sequence[Curve], metric: str) -> Shown | None:
    """Positions of ticks, layers and the points of scores with their intervals; None without any finite score."""
    values = [v for _, scores in lines for s in scores.values() for v in (s.value, s.low, s.high) if v is not None]
    values = [value for value in values if math.isfinite(value)]
    layers = sorted({layer for _, scores in lines for layer in scores})
    if not values or not layers:
        return None
    # Round numbers that enclose all values.
    ends = axis_ends(min(values), max(values), metric=metric)
    ticks = [float(tick) for tick in MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends)]
    depth = layers[-1] - layers[0]

    def x(layer: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * ((layer - layers[0]) / depth if depth else 0.5)

    def y(value: float | None) -> float | None:
        return None if value is None else _TOP + (_BOTTOM - _TOP) * (ticks[-1] - value) / (ticks[-1] - ticks[0])

    of_lines = []
    for name, scores in lines:
        points: list[Shown] = [
            {"x": x(layer), "y": y(score.value), "low": y(score.low), "high": y(score.high)}
            | {"title": f"{name}, {layer}: {written(score, metric)}"}
            for layer, score in sorted(scores.items())
            if math.isfinite(score.value)
        ]
        band = [point for point in points if point["low"] is not None and point["high"] is not None]
        is_drawn = len(band) > 1 and all(math.isfinite(point[end]) for point in band for end in ("low", "high"))
        of_lines.append({"name": name, "points": points, "band": band if is_drawn else []})
    # Ticks have all the decimals that their steps need; very large and very small ones exponents.
    scale = 100 if metric_form(metric).is_fraction else 1
    step = scale * (ticks[1] - ticks[0])
    digits = next((count for count in range(9) if math.isclose(step, round(step, count), rel_tol=1e-6)), None)
    plain = digits is not None and scale * max(map(abs, ticks)) < _MOST_PLAIN
    texts = [f"{scale * tick + 0.0:{f'.{digits}f' if plain else '.7g'}}".replace("-", "−") for tick in ticks]
    shown = layers[:: math.ceil(len(layers) / _MOST_LAYERS)]
    places = {"ticks": list(zip(map(y, ticks), texts, strict=True)), "layers": [(x(layer), layer) for layer in shown]}
    return {**places, "lines": of_lines}


def _heads(heads: Mapping[str, Score], metric: str) -> Shown:
    """Rows, columns and shades of attention heads: rows are layers, the first at the bottom, columns are heads."""
    places = {name: head_place(name) for name in heads}
    layers = sorted({layer for layer, _ in places.values()}, reverse=True)
    values = [score.value for score in heads.values() if math.isfinite(score.value)]
    low, high = min(values, default=0.0), max(values, default=0.0)
    cells = [
        {"row": layers.index(layer), "column": head - 1, "title": f"{name}: {written(score, metric)}"}
        | {"shade": (score.value - low) / ((high - low) or 1.0) if math.isfinite(score.value) else 0.0}
        for (name, score), (layer, head) in zip(heads.items(), places.values(), strict=True)
    ]
    ends = " to ".join(number(value, metric=metric) for value in (low, high)) + unit(metric)[1:]
    return {"layers": layers, "n_heads": max(head for _, head in places.values()), "cells": cells, "ends": ends}
