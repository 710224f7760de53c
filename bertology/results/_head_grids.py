"""Tables of attention heads as text in cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bertology.errors import ResultsError
from bertology.results._grid import (
    NOTHING,
    STAR,
    Cell,
    Grid,
    GridLine,
    Note,
    is_fraction,
    metric_title,
    number,
    score_cell,
)
from bertology.results._head_tables import HEAD_BASELINES, HeadLine, HeadTable, StepTable, head_place
from bertology.results._view import INITS, Score

_HERE = "†"
_BESIDE = {
    "offset": "the word at that distance which is right most often where heads are chosen",
    "nearest": "the candidate that stands nearest",
    "head_match": "the nearest candidate with the same word, else the nearest",
    "rule": "what the rules of the probe choose",
}


def best_head_grid(table: HeadTable) -> Grid:
    """Of each thing asked the head that stands out, the one after it, and what they stand beside."""
    known = [name for name in HEAD_BASELINES if any(name in line.baselines for line in table.lines)]
    with_random = any(line.random_init for line in table.lines)
    headers = ["items", "head", "score", "next", "mean", *(HEAD_BASELINES[name] for name in known)]
    lines = []
    for line in table.lines:
        cells = [
            Cell(f"{line.n_items:,}", score=Score(line.n_items)),
            Cell(line.best.head),
            score_cell(line.best.score, line.metric),
            _runner_up(line),
            Cell(number(line.mean, metric=line.metric), score=Score(line.mean)),
            *(score_cell(line.baselines.get(name), line.metric, interval=False) for name in known),
        ]
        if with_random:
            cells.append(score_cell(line.random_init.score if line.random_init else None, line.metric, interval=False))
        label = (line.name if table.metric else metric_title(line.metric)) + ("" if line.chosen_apart else f" {_HERE}")
        lines.append(GridLine(label, tuple(cells), frozenset({2}) if line.stands_out else frozenset()))
    if with_random:
        headers.append("random init")
    unit = ", %" if is_fraction(table.metric or table.lines[0].metric) else ""
    title = f"{table.task} · {metric_title(table.metric)} by head{unit}" if table.metric else f"{table.task} · by head"
    return Grid(title, tuple(headers), tuple(lines), tuple(_notes(table, known, with_random)), corner="Asked")


def every_head_grid(table: HeadTable) -> Grid:
    """All heads by all that is asked of them, the head that was chosen marked."""
    heads = sorted({head for line in table.lines for head in line.heads}, key=head_place)
    lines = [
        GridLine(
            head,
            tuple(score_cell(line.heads.get(head), line.metric, interval=False) for line in table.lines),
            frozenset(column for column, line in enumerate(table.lines) if line.best.head == head),
        )
        for head in heads
    ]
    for name, label in HEAD_BASELINES.items():
        if any(name in line.baselines for line in table.lines):
            cells = tuple(score_cell(line.baselines.get(name), line.metric, interval=False) for line in table.lines)
            lines.append(GridLine(label, cells, baseline=True))
    notes = (*_data(table), Note(STAR, f"the best head, chosen on {table.chosen_on}"))
    headers = tuple(line.name if table.metric else metric_title(line.metric) for line in table.lines)
    title = f"{table.task} · heads" if not table.metric else f"{table.task} · {metric_title(table.metric)}, all heads"
    return Grid(title, headers, tuple(lines), notes, corner="Head")


def step_grid(table: StepTable) -> Grid:
    """Steps by the orders in which they are taken, with intervals."""
    lines = [
        GridLine(step, tuple(score_cell(scores.get(order), table.metric) for order in table.orders))
        for step, scores in table.lines.items()
    ]
    about = table.about
    notes = (Note("data", f"{about.corpus} {about.split}"), Note("model", str(about.model)), _INTERVAL)
    unit = ", %" if is_fraction(table.metric) else ""
    headers = tuple(order or metric_title(table.metric) for order in table.orders)
    what = "by whole layers" if table.of_layers else "of the whole model"
    title = f"{table.task} · {metric_title(table.metric)} {what}{unit}"
    return Grid(title, headers, tuple(lines), notes, corner="Step")


def head_table_of(tables: Sequence[HeadTable], task: str | None = None) -> HeadTable:
    """The first table of heads there is, or that of a task.

    Raises:
        ResultsError: there is none.
    """
    found = next((table for table in tables if task in (None, table.task)), None)
    if found is None:
        raise ResultsError(f"no score{'' if task is None else f' of task {task}'} is that of an attention head")
    return found


def step_table_of(tables: Sequence[StepTable], metric: str | None = None) -> StepTable:
    """The first table of steps there is, or that of a metric.

    Raises:
        ResultsError: there is none.
    """
    found = next((table for table in tables if metric in (None, table.metric)), None)
    if found is None:
        known = ", ".join(dict.fromkeys(table.metric for table in tables))
        raise ResultsError(f"nothing was asked of the whole model{f' by {metric}: there is {known}' if known else ''}")
    return found


_INTERVAL = Note(
    "interval", "[ ] 95 %, bootstrap over test sentences (neighbours together, where there are over a thousand)"
)


def _runner_up(line: HeadLine) -> Cell:
    if len(line.order) < 2:
        return Cell(NOTHING)
    head = line.order[1]
    score = line.heads[head]
    return Cell(f"{head} {number(score.value, metric=line.metric)}", score=score)


def _data(table: HeadTable) -> list[Note]:
    about = table.about
    skipped = f", {about.n_skipped:,} words skipped" if about.n_skipped else ""
    silver = ", labels made by a program (silver)" if about.annotation == "silver" else ""
    return [
        Note("data", f"{about.corpus} {about.split}{skipped}{silver}"),
        *_pairs(json.loads(about.params_json)),
        Note("model", ", ".join(filter(None, [str(about.model), INITS[about.init or "pretrained"]]))),
    ]


def _pairs(params: Mapping[str, Any]) -> list[Note]:
    """Where sentences were read two at a time, how many were."""
    if "pairs" not in params:
        return []
    apart = params["pairs_apart"]
    more = f"; two sentences too long for the model together are read apart ({apart:,} times)" if apart else ""
    return [Note("texts", f"{params['pairs']:,} pairs of neighbouring sentences, for intervals drawn together{more}")]


def _notes(table: HeadTable, baselines: Sequence[str], with_random: bool) -> list[Note]:
    notes = []
    if any(line.stands_out for line in table.lines):
        notes.append(Note(STAR, "better than all that the head stands beside, the intervals apart"))
    notes += _data(table)
    if any("→" in line.name for line in table.lines):
        notes.append(Note("→", "from the word that looks to the word that it looks at"))
    if table.chosen_on == table.about.split:
        notes.append(Note("heads", "are named by the scores shown, which flatters the best of them"))
    else:
        notes.append(Note("heads", f"are chosen on {table.chosen_on} and scored on {table.about.split}"))
    if not all(line.chosen_apart for line in table.lines):
        notes.append(Note(_HERE, f"too few on {table.chosen_on}: named by the scores shown, which flatters the best"))
    notes.append(_INTERVAL)
    notes += [Note(HEAD_BASELINES[name], _BESIDE[name]) for name in baselines]
    if with_random:
        notes.append(Note("random init", "the best head of one draw of random weights, chosen in the same way"))
    return notes
