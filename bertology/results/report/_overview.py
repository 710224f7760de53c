"""The table of layers by tasks, a row for each layer of each model, as HTML that sorts and filters."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bertology.results._grid import STAR, baseline_owners, is_fraction, layer_label, metric_title, number
from bertology.results._view import BASELINE_LABELS, LayerLine, LayerTable, Score
from bertology.results.report._runs import Question

_STAR_ROOM = '<span class="star"></span>'


def overview_table(questions: Sequence[Question]) -> str:
    """Main scores of all tables; baselines below, which belong to no layer."""
    readers = list(dict.fromkeys(entry.label for question in questions for entry in question.entries))
    with_model = len(readers) > 1
    heads = [_head("Model", "reader", numeric=False)] if with_model else []
    heads.append(_head("Layer", "layer"))
    for place, question in enumerate(questions):
        unit = ", %" if is_fraction(question.first.metric) else ""
        heads.append(_head(question.label, f"q{place}", note=f"{metric_title(question.first.metric)}{unit}"))
    body = [row for reader in readers for row in _rows(reader, questions, with_model=with_model)]
    return "\n".join(
        [
            '<table id="overview-table" class="numbers sortable">',
            '<caption class="sr-only">Main score by layer and task</caption>',
            f"<thead><tr>{''.join(heads)}</tr></thead>",
            f"<tbody>{''.join(body)}</tbody>",
            f"<tfoot>{''.join(_baselines(questions, with_model=with_model))}</tfoot>",
            "</table>",
        ]
    )


def _head(text: str, key: str, *, note: str = "", numeric: bool = True) -> str:
    below = f'<span class="unit">{escape(note)}</span>' if note else ""
    kind = "number" if numeric else "text"
    return (
        f'<th scope="col" aria-sort="none" data-key="{key}" data-kind="{kind}">'
        f'<button type="button" class="sort"><span class="name">{escape(text)}</span>{below}</button></th>'
    )


def _rows(reader: str, questions: Sequence[Question], *, with_model: bool) -> list[str]:
    """A row for each layer of one reader."""
    tables: dict[int, tuple[int, LayerTable]] = {}
    for place, question in enumerate(questions):
        for number_of_entry, entry in enumerate(question.entries):
            if entry.label == reader:
                tables[place] = (number_of_entry, entry.table)
    lines = {
        (place, line.layer): (entry, table, line)
        for place, (entry, table) in tables.items()
        for line in table.lines
    }  # fmt: skip
    rows = []
    for layer in sorted({layer for _, layer in lines}):
        cells = [f'<th scope="row" class="text" data-key="reader">{escape(reader)}</th>'] if with_model else []
        label = f'<td class="layer" data-key="layer" data-value="{layer}">{escape(layer_label(layer))}</td>'
        if not with_model:
            label = label.replace("<td", '<th scope="row"').replace("</td>", "</th>")
        cells.append(label)
        for place in range(len(questions)):
            found = lines.get((place, layer))
            cells.append(_cell(place, *found) if found else _empty(place))
        rows.append(f'<tr data-layer="{layer}" data-reader="{escape(reader)}">{"".join(cells)}</tr>')
    return rows


def _cell(place: int, entry: int, table: LayerTable, line: LayerLine) -> str:
    if line.main is None:
        return _empty(place)
    star = f'<span class="star">{STAR if line.in_best_set else ""}</span>'
    text = number(line.main.value, metric=table.metric)
    what = f"{table.task}, layer {line.layer}: {text}; show details"
    sign = 1 if table.higher_is_better else -1
    return (
        f'<td data-key="q{place}" data-value="{line.main.value:.6f}" data-good="{sign * line.main.value:.6f}"'
        f"{' data-best' if line.in_best_set else ''}>"
        f'<button type="button" class="score" data-question="{place}" data-entry="{entry}" data-layer="{line.layer}" '
        f'aria-label="{escape(what)}">{text}</button>{star}{_interval(line.main, table.metric)}</td>'
    )


def _empty(place: int) -> str:
    return f'<td data-key="q{place}" class="nothing">–</td>'


def _interval(score: Score, metric: str) -> str:
    if score.low is None or score.high is None:
        return ""
    return f'<span class="ci">[{number(score.low, metric=metric)}, {number(score.high, metric=metric)}]</span>'


def _baseline(place: int, score: Score, metric: str) -> str:
    text = number(score.value, metric=metric)
    return f'<td data-key="q{place}">{text}{_STAR_ROOM}{_interval(score, metric)}</td>'


def _baselines(questions: Sequence[Question], *, with_model: bool) -> list[str]:
    rows = []
    by_question = [[(entry.label, entry.table) for entry in question.entries] for question in questions]
    lines = [(label, owner) for label in BASELINE_LABELS for owner in baseline_owners(label, by_question)]
    for label, owner in lines:
        cells, any_found = [], False
        for place, (question, tables) in enumerate(zip(questions, by_question, strict=True)):
            ours = [table for reader, table in tables if owner in (None, reader)]
            scores = [line.main for table in ours for line in table.baselines if line.label == label]
            any_found = any_found or bool(scores)
            cells.append(_baseline(place, scores[0], question.first.metric) if scores else _empty(place))
        if any_found:
            span = ' colspan="2"' if with_model else ""
            name = escape(", ".join(filter(None, [label, owner])))
            rows.append(f'<tr><th scope="row"{span}>{name}</th>{"".join(cells)}</tr>')
    return rows
