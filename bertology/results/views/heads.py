"""Attention heads: of each thing measured the head that stands out, and what it is compared with."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertology.errors import ResultsError
from bertology.results.tables.controls import CONTROLS, is_baseline, note_of, own_baselines
from bertology.results.tables.rows import ATTENTION, ResultRow, param_of, reading_of
from bertology.results.views.grid import (
    NOTHING,
    STAR,
    Cell,
    Grid,
    GridLine,
    Note,
    alignment_notes,
    count_cell,
    data_of,
    metric_title,
    model_of,
    number,
    score_cell,
    unit,
)
from bertology.results.views.layers import Score, natural_order, own_init, score_of_row

_STEP = re.compile(r"(?P<order>.*?)(?P<step>\d+ %.*)")
_NAMED_ON_TEST = "†"
_INTERVAL = Note(
    "interval", "[ ] 95 %, bootstrap over test sentences (neighbours together, where there are over a thousand)"
)


@dataclass(frozen=True)
class HeadScore:
    """What one head does."""

    head: str
    """``L8H10``: layer and number, both from 1."""
    score: Score


@dataclass(frozen=True)
class HeadLine:
    """One measure of all heads."""

    name: str
    """The group that it is about, such as a relation; the metric itself where it is about everything."""
    metric: str
    n_items: int
    """What the named heads' scores are shares of, or means over."""
    heads: Mapping[str, Score]
    """Scores on test, by head, in the order of the model."""
    order: tuple[str, ...]
    baselines: Mapping[str, Score]
    random_init: HeadScore | None
    """The best head of random weights, chosen in the same way."""
    higher_is_better: bool = True
    chosen_apart: bool = True
    """False where the table's heads were chosen on another split, which has too few items of this line."""

    @property
    def best(self) -> HeadScore:
        """The head that was chosen, and its score on test."""
        return HeadScore(self.order[0], self.heads[self.order[0]])

    @property
    def mean(self) -> float:
        """Of all heads."""
        return float(np.mean([score.value for score in self.heads.values()]))

    @property
    def stands_out(self) -> bool:
        """Whether the interval of the head that was chosen is better than those of baselines and random weights."""
        others = [*self.baselines.values(), *([self.random_init.score] if self.random_init else [])]
        low, high = self.best.score.low, self.best.score.high
        if low is None or high is None or not others:
            return False
        if self.higher_is_better:
            return all(low > (other.value if other.high is None else other.high) for other in others)
        return all(high < (other.value if other.low is None else other.low) for other in others)


@dataclass(frozen=True)
class HeadTable:
    """Scores of heads by one metric, a line a group; or by several metrics, each about everything."""

    task: str
    metric: str
    """Empty where every line has a metric of its own."""
    lines: tuple[HeadLine, ...]
    about: ResultRow
    chosen_on: str
    """The split by which heads were chosen; that of the scores where it is the same one."""
    baselines: Mapping[str, tuple[str, str]]
    """By control what the baseline is called, and what it is."""


@dataclass(frozen=True)
class StepTable:
    """What becomes of the whole model step by step, such as with more and more heads off, in one order or another; or
    with each of its layers."""

    task: str
    metric: str
    orders: tuple[str, ...]
    """In which steps are taken; one without a name where there is but one."""
    lines: Mapping[str, Mapping[str, Score]]
    about: ResultRow

    @property
    def of_layers(self) -> bool:
        """Whether steps are layers."""
        return self.about.layer is not None


def head_tables(rows: Sequence[ResultRow]) -> tuple[HeadTable, ...]:
    """A table for each task, model, reading and metric, in order of first appearance."""
    of_table: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    baselines: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        if row.status != "ok" or row.value is None:
            continue
        metric = row.metric if row.group is not None else ""
        if row.head is not None:
            of_table[row.task, row.corpus, metric, row.model, reading_of(row)].append(row)
        elif is_baseline(row):
            baselines[row.task, row.corpus, metric].append(row)
    return tuple(_table(same, own_baselines(baselines[key[:3]], same[0].model)) for key, same in of_table.items())


def step_tables(rows: Sequence[ResultRow]) -> tuple[StepTable, ...]:
    """A table for each task, model and metric of which something is known of whole layers, or of the model in steps.

    A step's name ends in how far it goes; before it stands the order: ``random 10 %``.
    """
    of_table: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        of_steps = row.readout in ATTENTION and row.head is None and row.model is not None
        if of_steps and row.group is not None and row.value is not None:
            whole = row.layer is None
            of_table[row.task, row.corpus, row.model, reading_of(row), whole, row.metric].append(row)
    tables = []
    for same in of_table.values():
        places = sorted(((*_order_and_step(row), row) for row in same), key=lambda place: natural_order(place[1]))
        steps: dict[str, dict[str, Score]] = defaultdict(dict)
        for order, step, row in places:
            steps[step][order] = score_of_row(row)
        orders = sorted({order for order, _, _ in places})
        tables.append(StepTable(same[0].task, same[0].metric, tuple(orders), dict(steps), same[0]))
    return tuple(sorted(tables, key=lambda t: (t.task, t.of_layers, not t.about.main_metric, t.metric)))


def _order_and_step(row: ResultRow) -> tuple[str, str]:
    name = str(row.group)
    if row.layer is not None:
        return name, f"layer {row.layer}"
    match = _STEP.fullmatch(name)
    return (match["order"].strip(), match["step"]) if match else ("", name)


def head_place(head: str) -> tuple[int, ...]:
    """Layer and number of a head named as L8H10."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", head))


def _table(rows: Sequence[ResultRow], baselines: Sequence[ResultRow]) -> HeadTable:
    init = own_init(rows)
    chosen_on = next((on for row in rows if (on := param_of(row, "chosen_on"))), None)
    by_dev: dict[tuple[str, str, str], dict[str, ResultRow]] = defaultdict(dict)
    by_test: dict[tuple[str, str, str], dict[str, ResultRow]] = defaultdict(dict)
    for row in rows:
        by_split = by_dev if row.split == chosen_on else by_test
        by_split[str(row.init), row.metric, row.group or ""][str(row.head)] = row
    lines = []
    for _, metric, group in [key for key in by_test if key[0] == init]:
        heads, on_dev = by_test[init, metric, group], by_dev[init, metric, group]
        random = by_test.get(("random", metric, group), {}) if init != "random" else {}
        best = _order(random, by_dev["random", metric, group])[:1]
        same = [row for row in baselines if (row.metric, row.group or "") == (metric, group)]
        lines.append(
            HeadLine(
                name=group or metric,
                metric=metric,
                n_items=max(row.n_items for row in heads.values()),
                heads={head: score_of_row(heads[head]) for head in sorted(heads, key=head_place)},
                order=_order(heads, on_dev),
                baselines={row.control: score_of_row(row) for row in same},
                random_init=HeadScore(best[0], score_of_row(random[best[0]])) if best else None,
                higher_is_better=next(iter(heads.values())).higher_is_better,
                chosen_apart=chosen_on is None or bool(on_dev),
            )
        )
    lines.sort(key=lambda line: (-line.n_items, natural_order(line.name)))
    about = next(row for row in rows if row.init == init and row.split != chosen_on)
    metric = about.metric if about.group is not None else ""
    known = {name for line in lines for name in line.baselines}
    notes = {str(row.control): note_of(row) for row in baselines if row.control in known}
    ordered = {name: notes[name] for name in CONTROLS if name in notes}
    return HeadTable(about.task, metric, tuple(lines), about, chosen_on or about.split, ordered)


def _order(heads: Mapping[str, ResultRow], on_dev: Mapping[str, ResultRow]) -> tuple[str, ...]:
    """The heads from the best to the worst by what they are chosen by; of equals the first in the model."""

    def place(head: str) -> tuple[float, tuple[int, ...]]:
        row = (on_dev or heads).get(head)
        value = -np.inf if row is None or row.value is None else row.value
        return (-value if heads[head].higher_is_better else value), head_place(head)

    return tuple(sorted(heads, key=place))


def best_head_grid(table: HeadTable) -> Grid:
    """For each line the head that stands out, the next best one, and what they are compared with."""
    with_random = any(line.random_init for line in table.lines)
    headers = ["items", "head", "score", "next", "mean", *(label for label, _ in table.baselines.values())]
    headers += ["random init"] if with_random else []
    lines = []
    for line in table.lines:
        others = [line.baselines.get(name) for name in table.baselines]
        others += [line.random_init.score if line.random_init else None] if with_random else []
        cells = (
            count_cell(line.n_items),
            Cell(line.best.head),
            score_cell(line.best.score, line.metric),
            _runner_up(line),
            score_cell(Score(line.mean), line.metric),
            *(score_cell(score, line.metric, interval=False) for score in others),
        )
        label = line_label(table, line) + ("" if line.chosen_apart else f" {_NAMED_ON_TEST}")
        lines.append(GridLine(label, cells, frozenset({2}) if line.stands_out else frozenset()))
    percent = unit(table.metric or table.lines[0].metric)
    what = f"{metric_title(table.metric)} by head{percent}" if table.metric else "by head"
    notes = tuple(_notes(table, with_random))
    return Grid(f"{table.task} · {what}", tuple(headers), tuple(lines), notes, corner="Asked")


def _runner_up(line: HeadLine) -> Cell:
    if len(line.order) < 2:
        return Cell(NOTHING)
    head = line.order[1]
    score = line.heads[head]
    return Cell(f"{head} {number(score.value, metric=line.metric)}", score=score)


def line_label(table: HeadTable, line: HeadLine) -> str:
    """What a line is about; its metric where every line has one of its own."""
    return line.name if table.metric else metric_title(line.metric)


def every_head_grid(table: HeadTable) -> Grid:
    """All heads by all lines, the head that was chosen marked."""
    lines = []
    for head in sorted({head for line in table.lines for head in line.heads}, key=head_place):
        cells = tuple(score_cell(line.heads.get(head), line.metric, interval=False) for line in table.lines)
        best = frozenset(column for column, line in enumerate(table.lines) if line.best.head == head)
        lines.append(GridLine(head, cells, best))
    for name, (label, _) in table.baselines.items():
        cells = tuple(score_cell(line.baselines.get(name), line.metric, interval=False) for line in table.lines)
        lines.append(GridLine(label, cells, baseline=True))
    notes = (*_data(table), Note(STAR, f"the best head, chosen on {table.chosen_on}"))
    headers = tuple(line_label(table, line) for line in table.lines)
    what = f"{metric_title(table.metric)}, all heads" if table.metric else "heads"
    return Grid(f"{table.task} · {what}", headers, tuple(lines), notes, corner="Head")


def step_grid(table: StepTable) -> Grid:
    """Steps by the orders in which they are taken, with intervals."""
    lines = [
        GridLine(step, tuple(score_cell(scores.get(order), table.metric) for order in table.orders))
        for step, scores in table.lines.items()
    ]
    data = Note("data", data_of(table.about)), *alignment_notes(table.about)
    notes = (*data, Note("model", str(table.about.model)), _INTERVAL)
    headers = tuple(order or metric_title(table.metric) for order in table.orders)
    what = "by whole layers" if table.of_layers else "of the whole model"
    title = f"{table.task} · {metric_title(table.metric)} {what}{unit(table.metric)}"
    return Grid(title, headers, tuple(lines), notes, corner="Step")


def head_table_of(tables: Sequence[HeadTable], task: str | None = None) -> HeadTable:
    """The first table of heads there is, or that of a task."""
    for table in tables:
        if task in (None, table.task):
            return table
    raise ResultsError(f"no score{'' if task is None else f' of task {task}'} is that of an attention head")


def step_table_of(tables: Sequence[StepTable], metric: str | None = None) -> StepTable:
    """The first table of steps there is, or that of a metric."""
    for table in tables:
        if metric in (None, table.metric):
            return table
    known = ", ".join(dict.fromkeys(table.metric for table in tables))
    raise ResultsError(f"nothing was asked of the whole model{f' by {metric}: there is {known}' if known else ''}")


def _data(table: HeadTable) -> Iterator[Note]:
    about = table.about
    skipped = f", {about.n_skipped:,} words skipped" if about.n_skipped else ""
    silver = ", labels made by a program (silver)" if about.annotation == "silver" else ""
    yield Note("data", f"{data_of(about)}{skipped}{silver}")
    yield from alignment_notes(about)
    if (pairs := param_of(about, "pairs")) is not None:
        apart = param_of(about, "pairs_apart")
        more = f"; two sentences too long for the model together are read apart ({apart:,} times)" if apart else ""
        yield Note("texts", f"{pairs:,} pairs of neighbouring sentences, for intervals drawn together{more}")
    yield Note("model", model_of(about))


def _notes(table: HeadTable, with_random: bool) -> Iterator[Note]:
    if any(line.stands_out for line in table.lines):
        yield Note(STAR, "better than all that the head stands beside, the intervals apart")
    yield from _data(table)
    if any("→" in line.name for line in table.lines):
        yield Note("→", "from the word that looks to the word that it looks at")
    if table.chosen_on == table.about.split:
        yield Note("heads", "are named by the scores shown, which flatters the best of them")
    else:
        yield Note("heads", f"are chosen on {table.chosen_on} and scored on {table.about.split}")
    if not all(line.chosen_apart for line in table.lines):
        few = f"too few on {table.chosen_on}: named by the scores shown, which flatters the best"
        yield Note(_NAMED_ON_TEST, few)
    yield _INTERVAL
    yield from (Note(label, text) for label, text in table.baselines.values() if text)
    if with_random:
        yield Note("random init", "the best head of one draw of random weights, chosen in the same way")
