"""From rows about attention heads to tables: of each thing asked which head stands out, and beside what."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertology.results._rows import ResultRow, own_baselines, reading_of
from bertology.results._view import Score, natural_order, own_init

_STEP = re.compile(r"(?P<order>.*?)(?P<step>\d+ %.*)")
HEAD_BASELINES = {
    "offset": "best offset",
    "nearest": "nearest",
    "head_match": "same word",
    "rule": "rule",
}
"""Baselines that need no head, and what tables call them."""


@dataclass(frozen=True)
class HeadScore:
    """What one head does."""

    head: str
    """``L8H10``: layer and number, both from 1."""
    score: Score


@dataclass(frozen=True)
class HeadLine:
    """One thing asked of all heads."""

    name: str
    """What it is asked of, such as a relation; the metric itself where it is of everything."""
    metric: str
    n_items: int
    """What the named heads' scores are shares of, or means over."""
    heads: Mapping[str, Score]
    """Scores on test, by head, in the order of the model."""
    order: tuple[str, ...]
    """The heads as they were chosen, the best first."""
    baselines: Mapping[str, Score]
    random_init: HeadScore | None
    """The best head of random weights, chosen in the same way."""
    higher_is_better: bool = True
    chosen_apart: bool = True
    """Whether the heads were chosen on another split, if the table's were: it may have too little of what is asked."""

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
        """Whether the interval of the head that was chosen is better than those of all that it stands beside."""
        others = [*self.baselines.values(), *([self.random_init.score] if self.random_init else [])]
        own = self.best.score
        if own.low is None or own.high is None or not others:
            return False
        if self.higher_is_better:
            return all(own.low > _bound(other.high, other) for other in others)
        return all(own.high < _bound(other.low, other) for other in others)


@dataclass(frozen=True)
class HeadTable:
    """All that is asked of heads by one metric, or by metrics that are each of everything."""

    task: str
    metric: str
    """Empty where every line has a metric of its own."""
    lines: tuple[HeadLine, ...]
    about: ResultRow
    """A row of the table, for what all of them share."""
    chosen_on: str
    """The split by which heads were chosen; that of the scores where it is the same one."""


@dataclass(frozen=True)
class StepTable:
    """What becomes of the whole model step by step, such as with more and more heads off, in one order or another; or
    with each of its layers."""

    task: str
    metric: str
    orders: tuple[str, ...]
    """In which steps are taken; one without a name where there is but one."""
    lines: Mapping[str, Mapping[str, Score]]
    """By step and order."""
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
        elif row.control in HEAD_BASELINES:
            baselines[row.task, row.corpus, metric].append(row)
    return tuple(_table(found, own_baselines(baselines[key[:3]], found[0].model)) for key, found in of_table.items())


def step_tables(rows: Sequence[ResultRow]) -> tuple[StepTable, ...]:
    """A table for each task, model and metric of which something is known of whole layers, or of the model in steps.

    A step's name ends in how far it goes; before it stands the order: ``random 10 %``.
    """
    of_table: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        asked = row.readout in ("attention", "gates") and row.head is None and row.model is not None
        if asked and row.group is not None and row.value is not None:
            whole = row.layer is None
            of_table[row.task, row.corpus, row.model, reading_of(row), whole, row.metric].append(row)
    found = []
    for ours in of_table.values():
        steps: dict[str, dict[str, Score]] = {}
        for row in sorted(ours, key=lambda row: natural_order(_order_and_step(row)[1])):
            order, step = _order_and_step(row)
            steps.setdefault(step, {})[order] = _score(row)
        orders = sorted({order for scores in steps.values() for order in scores})
        found.append(StepTable(ours[0].task, ours[0].metric, tuple(orders), steps, ours[0]))

    def place(table: StepTable) -> tuple[str, bool, bool, str]:
        return table.task, table.of_layers, not table.about.main_metric, table.metric

    return tuple(sorted(found, key=place))


def _order_and_step(row: ResultRow) -> tuple[str, str]:
    name = str(row.group)
    if row.layer is not None:
        return name, f"layer {row.layer}"
    found = _STEP.fullmatch(name)
    return (found["order"].strip(), found["step"]) if found else ("", name)


def head_place(head: str) -> tuple[int, ...]:
    """Layer and number of a head named as L8H10."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", head))


def _table(rows: Sequence[ResultRow], baselines: Sequence[ResultRow]) -> HeadTable:
    init = own_init(rows)
    chosen_on = next((on for row in rows if (on := _chosen_on(row))), None)
    scored = [row for row in rows if row.split != chosen_on]
    own = [row for row in scored if row.init == init]
    by_dev: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    by_test: dict[tuple[str, str, str], dict[str, ResultRow]] = defaultdict(dict)
    for row in rows:
        key = (str(row.init), row.metric, row.group or "")
        if row.split == chosen_on and row.value is not None:
            by_dev[key][str(row.head)] = row.value
        elif row.split != chosen_on:
            by_test[key][str(row.head)] = row
    lines = []
    for metric, group in dict.fromkeys((row.metric, row.group or "") for row in own):
        heads = by_test[init, metric, group]
        order = _order(heads, by_dev[init, metric, group])
        beside = by_test["random", metric, group] if init != "random" else {}
        best = _order(beside, by_dev["random", metric, group])[:1]
        lines.append(
            HeadLine(
                name=group or metric,
                metric=metric,
                n_items=max(row.n_items for row in heads.values()),
                heads={head: _score(heads[head]) for head in sorted(heads, key=head_place)},
                order=order,
                baselines={
                    row.control: _score(row) for row in baselines if (row.metric, row.group or "") == (metric, group)
                },
                random_init=HeadScore(best[0], _score(beside[best[0]])) if best else None,
                higher_is_better=next(iter(heads.values())).higher_is_better,
                chosen_apart=chosen_on is None or bool(by_dev[init, metric, group]),
            )
        )
    lines.sort(key=lambda line: (-line.n_items, natural_order(line.name)))
    about = own[0]
    metric = about.metric if about.group is not None else ""
    return HeadTable(about.task, metric, tuple(lines), about, chosen_on or about.split)


def _order(heads: Mapping[str, ResultRow], by_dev: Mapping[str, float]) -> tuple[str, ...]:
    """The heads from the best to the worst by what they are chosen by; of equals the first in the model."""

    def place(head: str) -> tuple[float, tuple[int, ...]]:
        row = heads[head]
        value = by_dev.get(head, -np.inf) if by_dev else float(row.value or 0.0)
        return (-value if row.higher_is_better else value), head_place(head)

    return tuple(sorted(heads, key=place))


def _chosen_on(row: ResultRow) -> str | None:
    return json.loads(row.params_json)["chosen_on"] if '"chosen_on"' in row.params_json else None


def _score(row: ResultRow) -> Score:
    assert row.value is not None  # rows without a value were left out before
    return Score(row.value, row.ci_low, row.ci_high)


def _bound(bound: float | None, score: Score) -> float:
    return score.value if bound is None else bound
