"""The page of a comparison: what differs between a model and its reference, where, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from bertology._lazy import pd
from bertology._names import by_key, layer_label
from bertology._page import full_page
from bertology.measures.metrics import ITSELF, Part, metric_form
from bertology.results import table as tables
from bertology.results._results import Results
from bertology.results.compared import Compared
from bertology.results.rows import FALSE_DISCOVERY_RATE, ResultRow, Score
from bertology.results.table import Cell, Note, Table
from bertology.results.views import head_place

_HERE = "results/report/assets/"
_SURE = "★: the models differ at a false discovery rate of 5 %, over all layers and models of a task."


def render_comparison(
    results: Results,
    every: Sequence[Compared],
    *,
    reference: str,
    words: Sequence[str],
    failures: Sequence[str],
    frames: Mapping[str, pd.DataFrame],
) -> str:
    """The whole page; it makes no request, and needs no script but for the choice of a theme.

    Args:
        results: of the reference and the models.
        every: the scores of tasks that were put to all of them, and the statistics of pairs of models.
        reference: its name in the tables.
        words: the changes, a line each.
        failures: measures that failed, a line each.
        frames: ``sizes``, ``retained`` and ``heads`` as of :class:`bertology.ModelComparison`, where they are measured.
    """
    models = ", ".join(dict.fromkeys(one.model for one in every))
    of_both = [one for one in every if one.of_reference]
    questions = by_key(((one.task, one.metric, one.reading, one.corpus), one) for one in of_both)
    of_tasks = by_key((one.task, one) for one in every if not one.of_reference)
    made = {"sizes": _sizes, "heads": _changed_heads, "retained": _retained}
    wholes = [table for name, of in made.items() if name in frames for table in of(frames[name])]
    asked = {one.task for one in of_both}
    tasks = [_task(same) for same in questions.values()]
    sections: list[tuple[Any, ...]] = [("Whole models", "", wholes, ())] if wholes else []
    sections.append(("Tasks by layer", _SURE, tasks, _aligned(row for row in results.rows if row.task in asked)))
    for name, of_task in of_tasks.items():
        question = getattr(tables.probe_of(of_task[0].about), "question", name)
        sections.append((question, f"Task {name}.", list(_statistics(of_task)), _aligned(one.about for one in of_task)))
    return full_page(
        _HERE + "comparison.html",
        title=f"bertology comparison: {reference} and {models}",
        styles=[_HERE + "comparison.css"],
        scripts=(),
        data={},
        headline=f"{models} compared with {reference}, layer by layer.",
        words=words,
        sections=sections,
        failures=failures,
        provenance=_provenance(results),
        chart_of=layer_chart,
    )


def findings(every: Sequence[Compared]) -> Iterator[str]:
    """A line for each task and statistic of a model: the layers that differ, and where a statistic is least and most.

    Scores of tasks differ at a false discovery rate of 5 %, changes where their 95 % intervals are apart from 0.
    """
    for one in every:
        by_layer, parts = {layer: score.value for layer, score in one.by_layer.items()}, list[str]()
        if one.of_reference:
            parts += _by_side(one.sure, len(one.differences), one.metric)
        elif metric_form(one.metric).part == "change":
            apart = {
                layer: score
                for layer, score in one.by_layer.items()
                if score.low is not None and score.high is not None and (score.low > 0 or score.high < 0)
            }
            parts += _by_side(apart, len(by_layer), one.metric)
        if not one.of_reference and one.about.main_metric and len(set(by_layer.values())) > 1:
            ends = min(by_layer, key=lambda layer: by_layer[layer]), max(by_layer, key=lambda layer: by_layer[layer])
            values = (
                f"{tables.number(by_layer[layer], metric=one.metric)}{tables.unit(one.metric)[1:]}" for layer in ends
            )
            parts.append(" to ".join(f"{value} (layer {layer})" for value, layer in zip(values, ends, strict=True)))
        if parts:
            yield f"{_title(one)}, {tables.metric_title(one.metric)}, {one.model}: {'; '.join(parts)}"


def _by_side(sure: Mapping[int, Score], n_layers: int, metric: str) -> Iterator[str]:
    """The layers on each side that has any, and how far the farthest of them is, with its interval."""
    if not sure:
        yield f"0 of {n_layers} layers differ"
    for word, of_side in (("higher", dict(sure)), ("lower", {layer: -score for layer, score in sure.items()})):
        found = {layer: score for layer, score in of_side.items() if score.value > 0}
        if found:
            most = max(found, key=lambda layer: found[layer].value)
            amount = tables.written(found[most], metric) + " points" * bool(tables.unit(metric))
            yield f"{word} in {tables.layers_named(list(found))}, by at most {amount} (layer {most})"


def _title(one: Compared) -> str:
    return f"{one.task} on {one.corpus}{f', {one.reading}' if one.reading else ''}"


def _aligned(rows: Iterable[ResultRow]) -> list[Note]:
    """The line on data and alignment of some rows, one for each task, corpus and model."""
    first = {(row.task, row.corpus, row.model): row for row in rows if row.control == ITSELF}
    return list(tables.alignment_notes(*first.values()))


def _task(same: Sequence[Compared]) -> Table:
    """One task on one corpus: the reference, each model, and its difference."""
    first, metric = same[0], same[0].metric
    layers = sorted({layer for one in same for layer in (*one.of_reference, *one.by_layer)})
    headers, best = [first.reference], set[tuple[str, int]]()
    rows = {layer_label(layer): [tables.score_cell(first.of_reference.get(layer), metric)] for layer in layers}
    for one in same:
        headers += [one.model, f"{one.model} − {one.reference}"]
        for layer, row in zip(layers, rows.values(), strict=True):
            row += [tables.score_cell(one.by_layer.get(layer), metric), _difference(one, layer)]
        best |= {(layer_label(layer), len(headers) - 1) for layer in one.sure}
    title = f"{_title(first)} · {tables.titled(metric)}"
    return Table.of(title, headers, rows, (), best=best, metric=metric, about=first.about)


def _difference(one: Compared, layer: int) -> Cell:
    """A difference; of models of unlike depth with the layer of the reference that a score was compared with."""
    if (found := one.differences.get(layer)) is None:
        return Cell(tables.NOTHING)
    text = tables.number(found.value, metric=one.metric)
    sign = "+" if float(text.replace("−", "-")) > 0 else ""
    other = "" if (place := one.reference_layers[layer]) == layer else f" (layer {place})"
    return Cell(sign + text, tables.interval_of(found, one.metric) + other)  # without its score, which no chart draws


_BESIDE: Mapping[Part, str] = {"null": "words in random order", "reference": "reference"}
"""Parts of a metric that are drawn in the chart of the one of the model, and what their curves are called."""


def _beside(metric: str) -> str:
    """The metric in whose chart another belongs; empty for one that has its own."""
    form = metric_form(metric)
    return form.base if form.part in _BESIDE else ""


def _statistics(of_task: Sequence[Compared]) -> Iterator[Table]:
    """The tables of a task: of each metric by layer, of each model by head, and of whole models."""
    metrics = list(dict.fromkeys(one.metric for one in of_task))
    for metric in (metric for metric in metrics if _beside(metric) not in metrics):
        same = [one for one in of_task if metric in (one.metric, _beside(one.metric))]
        how: dict[str, Any] = {"metric": metric, "about": same[0].about}  # of which the note on the measure is made
        several = len({one.corpus for one in same}) > 1
        names = [f"{one.model}, {one.corpus}" if several else one.model for one in same]
        names = [
            name if one.metric == metric else f"{name}, {_BESIDE[metric_form(one.metric).part]}"
            for name, one in zip(names, same, strict=True)
        ]
        by_layer = [(name, one) for name, one in zip(names, same, strict=True) if one.by_layer]
        rows: dict[str, list[Cell]] = {}
        for layer in sorted({layer for _, one in by_layer for layer in one.by_layer}):
            cells = rows[layer_label(layer)] = []
            for _, one in by_layer:
                score, null = one.by_layer.get(layer), " · at its null" * (layer in (one.at_null or ()))
                cells.append(Cell(tables.NOTHING if score is None else tables.written(score, metric), null, score))
        if rows:
            yield Table.of(tables.titled(metric), [name for name, _ in by_layer], rows, (), **how)
        for name, one in zip(names, same, strict=True):
            if one.by_head:
                yield _heads(f"{tables.titled(metric)} · {name}", one.by_head, how)
        if wholes := {name: [one.of_model] for name, one in zip(names, same, strict=True) if one.of_model}:
            yield Table.of(tables.titled(metric), [tables.metric_title(metric)], wholes, (), corner="Model", **how)


def _heads(title: str, by_head: Mapping[str, Score], how: Mapping[str, Any]) -> Table:
    """Attention heads, the first layer at the bottom."""
    places = {head_place(name): score for name, score in by_head.items()}
    heads = range(1, max(head for _, head in places) + 1)
    layers = sorted({layer for layer, _ in places}, reverse=True)
    rows = {f"L{layer}": [places.get((layer, head)) for head in heads] for layer in layers}
    return Table.of(title, map(str, heads), rows, (), corner="Heads", **how)


def _provenance(results: Results) -> list[tuple[str, str]]:
    facts = {
        "models": [f"{row.model} (weights {str(row.model_fingerprint)[:12]})" for row in results.rows if row.model],
        "corpora": [f"{row.corpus}, {row.split} ({row.corpus_fingerprint[:12]})" for row in results.rows],
        "versions": [row.versions.strip("{}").replace('"', "") for row in results.rows],
    }
    return [(name, "; ".join(dict.fromkeys(texts))) for name, texts in facts.items() if texts]


def _sizes(sizes: pd.DataFrame) -> Iterator[Table]:
    rows = {}
    for row in sizes.to_dict("records"):
        rows[row["model"]] = [
            f"{row['bytes_on_disk'] / 1e6:.2f}",
            f"{row['parameters'] / 1e6:.2f}",
            f"{row['nonzero'] / row['parameters']:.0%}",
            f"{row['pieces_per_second']:,.0f}",
            Cell(f"{row['speedup']:.2f}", f"[{row['speedup_low']:.2f}, {row['speedup_high']:.2f}]"),
        ]
    headers = "MB on disk", "weights, millions", "not zero", "subwords a second", "speed-up"
    note = Note("speed", "on this machine; [ ] the least and the largest")
    yield Table.of("Size and speed", headers, rows, [note], corner="Model")


def _retained(frame: pd.DataFrame) -> Iterator[Table]:
    """A table for each task and metric: the share of knowledge that each model retained, by layer."""
    text = "(model − floor) / (reference − floor), the floor the better of baselines and random weights; [ ] 95 %"
    for (task, corpus, metric), of_task in frame.groupby(["task", "corpus", "metric"], sort=False):
        by_model = {str(model): rows.set_index("layer") for model, rows in of_task.groupby("model", sort=False)}
        rows = {}
        for layer in sorted(of_task["layer"].unique()):
            found = (of.loc[layer] if layer in of.index else None for of in by_model.values())
            scores = (of if of is None else Score(of["retained"], of["ci_low"], of["ci_high"]) for of in found)
            rows[layer_label(int(layer))] = [None if s is None or math.isnan(s.value) else s for s in scores]
        title = f"Retained of {task} on {corpus} · {tables.metric_title(str(metric))}, %"
        yield Table.of(title, by_model, rows, [Note("retained", text)])


def head_findings(heads: pd.DataFrame) -> Iterator[str]:
    """A line for each model and task of heads, from a table as of :func:`bertology.comparison.head_changes`."""
    for (task, corpus, model), of_task in heads.groupby(["task", "corpus", "model"], sort=False):
        sure = _clearest(of_task)
        text = f"{task} on {corpus}, {model}: {len(sure):,} of {len(of_task):,} statistics of heads differ"
        for row in sure[:1].to_dict("records"):
            text += f"; most clearly {_head_name(row)} ({_shown(row, 'reference_value')} to {_shown(row, 'value')})"
        yield text


def _changed_heads(heads: pd.DataFrame) -> Iterator[Table]:
    """The statistics that change most clearly, a few of each kind: by model and task."""
    sure, groups = _clearest(heads), ["model", "task", "corpus"]
    first = sure.groupby([*groups, "metric"]).head(3).sort_values(groups, kind="stable")
    rows: dict[int, list[str | Cell]] = {}
    for place, row in enumerate(first.to_dict("records")):
        difference, *ends = (_shown(row, f"difference{end}") for end in ("", "_low", "_high"))
        values = [_shown(row, name) for name in ("reference_value", "value")]
        rows[place] = [row["task"], row["corpus"], _head_name(row), *values, Cell(difference, f"[{', '.join(ends)}]")]
    text = f"{len(sure):,} of {len(heads):,} statistics, at a false discovery rate of 5 %; all are in heads.csv"
    headers = ("task", "corpus", "statistic", "reference", "model's", "difference")
    labels = dict(enumerate(first["model"]))
    notes = [Note("differ", text)]
    yield Table.of("Heads that change most clearly", headers, rows, notes, labels=labels, corner="Model")


def _clearest(heads: pd.DataFrame) -> pd.DataFrame:
    """The statistics that differ, the clearest first: by the difference over the width of its interval."""
    sure = heads[heads["p_adj"] < FALSE_DISCOVERY_RATE]
    width = sure["difference_high"] - sure["difference_low"]
    return sure.loc[(sure["difference"].abs() / width).sort_values(ascending=False, kind="stable").index]


def _head_name(row: Mapping[Any, Any]) -> str:
    group = f" of {row['group']}" if isinstance(row["group"], str) else ""
    return f"{tables.metric_title(str(row['metric']))}{group}, {row['head']}"


def _shown(row: Mapping[Any, Any], column: str) -> str:
    return tables.number(row[column], metric=str(row["metric"])) + tables.unit(str(row["metric"]))[1:]


# Charts are SVG in the colours of the theme, so that they are there where scripts are off. The template
# draws them; these are places in its drawing.
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 546.0, 14.0, 226.0
_TICKS, _MOST_LAYERS = 5, 13
_MOST_PLAIN = 1e7
"""Ticks from here on are written with exponents."""


def layer_chart(table: Table) -> dict[str, Any] | None:
    """Positions of ticks, layers and the points of a table's scores with their intervals; None without any score."""
    layers, lines = [int(line.label.partition(" ")[0]) for line in table.lines], []
    for name in table.headers:
        known = {int(label.partition(" ")[0]): score for label, score in table.column(name).items()}
        lines.append((name, {layer: score for layer, score in known.items() if math.isfinite(score.value)}))
    every = [score for _, known in lines for score in known.values()]
    values = [value for score in every for value in (score.value, score.low, score.high) if value is not None]
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return None
    # Round numbers that enclose all values.
    ends = tables.axis_ends(min(values), max(values), metric=table.metric)
    ticks = [float(tick) for tick in MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends)]
    depth = layers[-1] - layers[0]

    def x(layer: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * ((layer - layers[0]) / depth if depth else 0.5)

    def y(value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return None
        return _TOP + (_BOTTOM - _TOP) * (ticks[-1] - value) / (ticks[-1] - ticks[0])

    drawn = []
    for name, known in ((name, known) for name, known in lines if known):
        points = [
            {"x": x(layer), "y": y(score.value), "low": y(score.low), "high": y(score.high)}
            | {"title": f"{name}, {layer}: {tables.written(score, table.metric)}"}
            for layer, score in known.items()
        ]
        band = [point for point in points if None not in (point["low"], point["high"])]
        drawn.append({"name": name, "points": points, "band": band if len(band) > 1 else []})
    # Ticks have all the decimals that their steps need; very large and very small ones exponents.
    scale = 100 if metric_form(table.metric).is_fraction else 1
    step = scale * (ticks[1] - ticks[0])
    digits = next((count for count in range(9) if math.isclose(step, round(step, count), rel_tol=1e-6)), None)
    plain = digits is not None and scale * max(map(abs, ticks)) < _MOST_PLAIN
    texts = [f"{scale * tick + 0.0:{f'.{digits}f' if plain else '.7g'}}".replace("-", "−") for tick in ticks]
    shown = layers[:: math.ceil(len(layers) / _MOST_LAYERS)]
    places = {"ticks": list(zip(map(y, ticks), texts, strict=True)), "layers": [(x(layer), layer) for layer in shown]}
    return {**places, "lines": drawn}
