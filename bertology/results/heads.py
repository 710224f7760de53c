"""Tables of attention heads, of models as wholes, and of where in a model tasks are solved."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertology.errors import ResultsError
from bertology.measures.descriptions import CONTROLS, DIVERGENCE, EXPECTED, GRAVITY, ITSELF
from bertology.results.rows import (
    ATTENTION,
    ResultRow,
    Score,
    is_baseline,
    mean_score,
    note_of,
    own_baselines,
    own_init,
    param_of,
    reading_of,
    score_of_row,
)
from bertology.results.table import (
    INTERVAL,
    NOTHING,
    STAR,
    Cell,
    Line,
    Note,
    Table,
    alignment_notes,
    count_cell,
    covered,
    data_notes,
    data_of,
    metric_title,
    model_of,
    number,
    score_cell,
    unit,
)
from bertology.results.views import UNITS_NOTE, LayerTable, natural_order, plain_about

_STEP = re.compile(r"(?P<order>.*?)(?P<step>\d+ %.*)")
_NAMED_ON_TEST = "†"
_INTERVAL = Note(
    INTERVAL, "[ ] 95 %, bootstrap over test sentences (neighbours together, where there are over a thousand)"
)


@dataclass(frozen=True)
class HeadScore:
    """The score of one head."""

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
    """Number of items that scores are shares of, or means over."""
    heads: Mapping[str, Score]
    """Scores on test, by head, in the order of the model."""
    order: tuple[str, ...]
    """The heads from the best to the worst, by what they are chosen by."""
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
        """Mean over all heads."""
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
    """Label and description of each baseline, by control."""

    def plain(self) -> dict[str, Any]:
        """The table with all its fields, as JSON has them."""
        return dataclasses.asdict(self) | {"about": plain_about(self.about)}

    def label(self, line: HeadLine) -> str:
        """The subject of a line; its metric where every line has one of its own."""
        return line.name if self.metric else metric_title(line.metric)

    @property
    def title(self) -> str:
        """The task, and what is shown of its heads."""
        percent = unit(self.metric or self.lines[0].metric)
        what = f"{metric_title(self.metric)} by head{percent}" if self.metric else "by head"
        return f"{self.task} · {what}"

    @property
    def heads(self) -> list[str]:
        """All heads in the order of the model."""
        return sorted({head for line in self.lines for head in line.heads}, key=head_place)

    def table(self) -> Table:
        """The best head of each line, the next best one, and what they are compared with."""
        with_random = any(line.random_init for line in self.lines)
        headers = ["items", "head", "score", "next", "mean", *(label for label, _ in self.baselines.values())]
        headers += ["random init"] if with_random else []
        lines = []
        for line in self.lines:
            others = [line.baselines.get(name) for name in self.baselines]
            others += [line.random_init.score if line.random_init else None] if with_random else []
            cells = (
                count_cell(line.n_items),
                Cell(line.best.head),
                score_cell(line.best.score, line.metric),
                _runner_up(line),
                score_cell(Score(line.mean), line.metric),
                *(score_cell(score, line.metric, interval=False) for score in others),
            )
            label = self.label(line) + ("" if line.chosen_apart else f" {_NAMED_ON_TEST}")
            lines.append(Line(label, cells, frozenset({2}) if line.stands_out else frozenset()))
        notes = tuple(self._notes(with_random))
        return Table(self.title, tuple(headers), tuple(lines), notes, corner="Asked", spare=("next", "mean"))

    def every_head(self) -> Table:
        """All heads by all lines, the head that was chosen marked."""
        lines = []
        for head in self.heads:
            cells = tuple(score_cell(line.heads.get(head), line.metric, interval=False) for line in self.lines)
            best = frozenset(column for column, line in enumerate(self.lines) if line.best.head == head)
            lines.append(Line(head, cells, best))
        for name, (label, _) in self.baselines.items():
            cells = tuple(score_cell(line.baselines.get(name), line.metric, interval=False) for line in self.lines)
            lines.append(Line(label, cells, baseline=True))
        notes = (*self._data(), Note(STAR, f"the best head, chosen on {self.chosen_on}"))
        headers = tuple(map(self.label, self.lines))
        what = f"{metric_title(self.metric)}, all heads" if self.metric else "heads"
        return Table(f"{self.task} · {what}", headers, tuple(lines), notes, corner="Head")

    def _data(self) -> Iterator[Note]:
        about = self.about
        skipped = f", {about.n_skipped:,} words skipped" if about.n_skipped else ""
        silver = ", labels made by a program (silver)" if about.annotation == "silver" else ""
        yield Note("data", f"{data_of(about)}{skipped}{silver}")
        yield from alignment_notes(about)
        if (pairs := param_of(about, "pairs")) is not None:
            apart = param_of(about, "pairs_apart")
            more = f"; two sentences too long for the model together are read apart ({apart:,} times)" if apart else ""
            yield Note("texts", f"{pairs:,} pairs of neighbouring sentences, for intervals drawn together{more}")
        yield Note("model", model_of(about))

    def _notes(self, with_random: bool) -> Iterator[Note]:
        if any(line.stands_out for line in self.lines):
            yield Note(STAR, "better than all that the head stands beside, the intervals apart")
        yield from self._data()
        if any("→" in line.name for line in self.lines):
            yield Note("→", "from the word that looks to the word that it looks at")
        if self.chosen_on == self.about.split:
            yield Note("heads", "are named by the scores shown, which flatters the best of them")
        else:
            yield Note("heads", f"are chosen on {self.chosen_on} and scored on {self.about.split}")
        if not all(line.chosen_apart for line in self.lines):
            few = f"too few on {self.chosen_on}: named by the scores shown, which flatters the best"
            yield Note(_NAMED_ON_TEST, few)
        yield _INTERVAL
        yield from (Note(label, text) for label, text in self.baselines.values() if text)
        if with_random:
            yield Note("random init", "the best head of one draw of random weights, chosen in the same way")


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
    return tuple(_head_table(same, own_baselines(baselines[key[:3]], same[0].model)) for key, same in of_table.items())


def head_place(head: str) -> tuple[int, ...]:
    """Layer and number of a head named as L8H10."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", head))


def _head_table(rows: Sequence[ResultRow], baselines: Sequence[ResultRow]) -> HeadTable:
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


def _runner_up(line: HeadLine) -> Cell:
    if len(line.order) < 2:
        return Cell(NOTHING)
    head = line.order[1]
    score = line.heads[head]
    return Cell(f"{head} {number(score.value, metric=line.metric)}", score=score)


def head_table_of(tables: Sequence[HeadTable], task: str | None = None) -> HeadTable:
    """The first table of heads there is, or that of a task."""
    for table in tables:
        if task in (None, table.task):
            return table
    raise ResultsError(f"no score{'' if task is None else f' of task {task}'} is that of an attention head")


@dataclass(frozen=True)
class StepTable:
    """Scores of the whole model step by step, such as with more and more heads off in some order, or without each of
    its layers."""

    task: str
    metric: str
    orders: tuple[str, ...]
    """The orders in which steps are taken; one without a name where there is but one."""
    lines: Mapping[str, Mapping[str, Score]]
    about: ResultRow

    @property
    def of_layers(self) -> bool:
        """Whether steps are layers."""
        return self.about.layer is not None

    def plain(self) -> dict[str, Any]:
        """The table with all its fields, as JSON has them."""
        return dataclasses.asdict(self) | {"about": plain_about(self.about)}

    def table(self) -> Table:
        """Steps by the orders in which they are taken, with intervals."""
        lines = [
            Line(step, tuple(score_cell(scores.get(order), self.metric) for order in self.orders))
            for step, scores in self.lines.items()
        ]
        notes = (*data_notes(self.about), Note("model", str(self.about.model)), _INTERVAL)
        headers = tuple(order or metric_title(self.metric) for order in self.orders)
        what = "by whole layers" if self.of_layers else "of the whole model"
        title = f"{self.task} · {metric_title(self.metric)} {what}{unit(self.metric)}"
        return Table(title, headers, tuple(lines), notes, corner="Step")


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


def step_table_of(tables: Sequence[StepTable], metric: str | None = None) -> StepTable:
    """The first table of steps there is, or that of a metric."""
    for table in tables:
        if metric in (None, table.metric):
            return table
    known = ", ".join(dict.fromkeys(table.metric for table in tables))
    raise ResultsError(f"nothing was asked of the whole model{f' by {metric}: there is {known}' if known else ''}")


_READOUT = "encoders"
_EVERY = "all"


def whole_tables(rows: Sequence[ResultRow]) -> tuple[Table, ...]:
    """A table for each task and model that was measured as a whole: groups of items by statistics."""
    by_task: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        if row.readout == _READOUT and row.layer is None and row.head is None and row.value is not None:
            asked = (row.task, row.corpus_fingerprint, row.split, row.model, row.init, reading_of(row))
            by_task[*asked, param_of(row, "reference")].append(row)
    return tuple(map(_whole_table, by_task.values()))


def _whole_table(rows: Sequence[ResultRow]) -> Table:
    about, main = rows[0], {row.metric for row in rows if row.main_metric}
    metrics = sorted(dict.fromkeys(row.metric for row in rows), key=lambda name: name not in main)
    lines = []
    for group in sorted(dict.fromkeys(row.group or "" for row in rows), key=bool):
        of_group = {row.metric: row for row in rows if (row.group or "") == group}
        scores = [score_of_row(of_group[name]) if name in of_group else None for name in metrics]
        cells = [
            # Those of all would leave no room for labels.
            score_cell(score, name, interval=not group and name in main)
            for score, name in zip(scores, metrics, strict=True)
        ]
        n_items = next(iter(of_group.values())).n_items
        lines.append(Line(group or _EVERY, (count_cell(n_items), *cells)))
    notes = (
        *data_notes(about),
        Note("model", f"{about.model}, beside {param_of(about, 'reference')}"),
        Note(INTERVAL, "[ ] 95 %, of the main statistic; the tables of the run have all"),
        UNITS_NOTE,
    )
    headers = ("items", *map(metric_title, metrics))
    return Table(f"{about.task} · the whole model", headers, tuple(lines), notes, corner="Items")


MIX, CUMULATIVE, CONCATENATED = "edge_mix", "edge_cumulative", "edge_cat"


@dataclass(frozen=True)
class PipelineLine:
    """One task in one model: its scores from single layers and from mixtures, and at which depth they come about."""

    task: str
    metric: str
    about: ResultRow
    lexical: Score | None
    best: Score | None
    best_layers: tuple[int, ...]
    """Layers statistically tied with the best; that layer alone where layers were not compared."""
    mix: Score | None
    random_mix: Score | None
    """The same from random weights, where those are a control."""
    concatenated: Score | None
    """The score from the first and last layer side by side."""
    center_of_gravity: Score | None
    """Mean layer under the mixture's weights (Tenney et al. 2019b, eq. 2). Its bounds are 95 % over seeds, which draw
    the training data anew; of one seed there are none, as no test sentence has a part in it."""
    divergence: Score | None
    """Divergence of the mixture's weights from equal ones, in bits (eq. 2)."""
    expected_layer: Score | None
    """Mean layer at which the score of mixtures of layers 0…ℓ grows (eq. 4)."""
    weights: tuple[float, ...]
    """Weights of layers 0…L in the mixture; empty where none was learned."""
    gains: tuple[float, ...]
    """Gains that layers 1…L add to the score of the mixtures below them (eq. 3); empty where not measured."""
    n_seeds: int
    pace: float | None = None
    """Factor of the mixture's learned numbers before the softmax; None where it is not known."""


def pipeline_lines(rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[PipelineLine, ...]:
    """A line for each task, corpus and model that was read by a mixture, in order of first appearance."""
    mixed = [row for row in rows if row.readout in (MIX, CUMULATIVE) and row.control == ITSELF and row.status == "ok"]
    return tuple(
        _line([row for row in rows if row.model and _key(row) == key], key, tables)
        for key in dict.fromkeys(map(_key, mixed))
    )


def overview_of(tables: Sequence[LayerTable]) -> tuple[LayerTable, ...]:
    """The tables that are laid side by side: of tasks read from single layers, those alone."""
    single = {_key(table.about) for table in tables if table.about.readout != CUMULATIVE}
    return tuple(t for t in tables if t.about.readout != CUMULATIVE or _key(t.about) not in single)


def _key(row: ResultRow) -> tuple[str | None, ...]:
    return (row.task, row.corpus, row.split, row.model, row.pooling)


def _line(rows: Sequence[ResultRow], key: tuple[str | None, ...], tables: Sequence[LayerTable]) -> PipelineLine:
    scored = [row for row in rows if row.control == ITSELF and row.value is not None]
    # Random weights stand beside pretrained ones as a control, but may be what is asked about.
    init = own_init(scored)
    own = [row for row in scored if row.init == init]
    of_task = [table for table in tables if _key(table.about) == key]
    single = next((table for table in of_task if table.about.readout not in (MIX, CUMULATIVE, CONCATENATED)), None)
    cumulative = next((table for table in of_task if table.about.readout == CUMULATIVE), None)
    about = own[0] if own else rows[0]
    metric = next((row.metric for row in own if row.main_metric), about.metric)
    lowest = single or cumulative
    best = single.best_line if single else None
    members = tuple(line.layer for line in single.lines if line.main and line.in_best_set) if single else ()
    mixes = (param_of(row, "details", {}) for row in own if row.readout == MIX and row.metric == metric)
    details: Mapping[str, Any] = next(mixes, {})
    grown = [line.main.value for line in cumulative.lines if line.main] if cumulative else []
    return PipelineLine(
        task=about.task,
        metric=metric,
        about=about,
        lexical=next((line.main for line in lowest.lines if line.layer == 0), None) if lowest else None,
        best=best.main if best else None,
        best_layers=members or ((best.layer,) if best else ()),
        mix=_score(own, MIX, metric),
        random_mix=_score([row for row in scored if row.init == "random"], MIX, metric) if init != "random" else None,
        concatenated=_score(own, CONCATENATED, metric),
        center_of_gravity=_over_seeds(own, GRAVITY),
        divergence=_score(own, MIX, DIVERGENCE),
        expected_layer=_score(own, CUMULATIVE, EXPECTED),
        n_seeds=len({row.seed for row in own}),
        weights=tuple(details.get("mix_weights", ())),
        gains=tuple(after - before for before, after in itertools.pairwise(grown)),
        pace=details.get("mix_pace"),
    )


def _score(rows: Sequence[ResultRow], readout: str, metric: str) -> Score | None:
    of_metric = [row for row in rows if row.readout == readout and row.metric == metric and row.layer is None]
    return mean_score([row for row in of_metric if reading_of(row) == reading_of(of_metric[0])])


def _over_seeds(rows: Sequence[ResultRow], metric: str) -> Score | None:
    """The mean over seeds of a statistic of mixtures' weights, with Student's t on their spread."""
    by_seed = {row.seed: row.value for row in rows if row.readout == MIX and row.metric == metric}
    values = [value for value in by_seed.values() if value is not None]
    if len(values) < 2:
        return Score(values[0]) if values else None
    from scipy.special import stdtrit

    mean, half = float(np.mean(values)), float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1))
    return Score(mean, mean - half, mean + half)


def pipeline_table(lines: Sequence[PipelineLine]) -> Table:
    """Tasks by what is known of their depth."""
    if not lines:
        raise ResultsError(f"no task was read by a mixture of layers: run it with readouts {MIX} and {CUMULATIVE}")
    several = len({line.about.model for line in lines}) > 1
    labels = (f"{line.task} · {line.about.model}" if several else line.task for line in lines)
    cells = [_cells(line) for line in lines]
    headers = tuple(cells[0])
    rows = tuple(Line(label, tuple(of_line.values())) for label, of_line in zip(labels, cells, strict=True))
    notes = (
        Note("layer 0", "the embeddings alone: what the words themselves say"),
        Note("which", "layers not separable from the best (paired bootstrap, Benjamini–Hochberg q < .05)"),
        Note("centre of gravity", _about_gravity(lines)),
        Note(
            "expected layer",
            "mean layer at which mixtures of layers 0…ℓ gain (Tenney et al. 2019b); – where they gain too little, "
            "beyond the layers where some lose",
        ),
        Note("random init", "the mixture, of the same model with random weights"),
        Note(INTERVAL, f"[ ] 95 %, {covered([line.n_seeds for line in lines])}"),
    )
    # What is known of no task has no column.
    kept = [place for place in range(len(headers)) if any(row.cells[place].text not in (NOTHING, "") for row in rows)]
    about = tuple(note for note in notes if note.about in (INTERVAL, *(headers[place] for place in kept)))
    about += tuple(alignment_notes(*(line.about for line in lines)))
    return Table("where in the model tasks are solved, %", headers, rows, about, corner="Task").columns(kept)


def _about_gravity(lines: Sequence[PipelineLine]) -> str:
    known = [line for line in lines if line.center_of_gravity]
    drawn = any(line.center_of_gravity and line.center_of_gravity.low is not None for line in known)
    pace = next((line.pace for line in known if line.pace), None)
    over = "[ ] over seeds, which draw the training data anew" if drawn else "no interval: it comes from one seed's fit"
    more = f"; the weights are learned {pace:g} times as fast as others, on which it depends" if pace else ""
    return f"mean layer under the weights of the learned mixture; KL: how far they are from equal; {over}{more}"


def _cells(line: PipelineLine) -> dict[str, Cell]:
    return {
        "metric": Cell(metric_title(line.metric)),
        "layer 0": score_cell(line.lexical, line.metric, interval=False),
        "best layer": score_cell(line.best, line.metric),
        "which": Cell(", ".join(map(str, line.best_layers))),
        "mix of all": score_cell(line.mix, line.metric),
        "random init": score_cell(line.random_mix, line.metric, interval=False),
        "first + last": score_cell(line.concatenated, line.metric, interval=False),
        "centre of gravity": _depth(line.center_of_gravity),
        "KL, bits": _depth(line.divergence),
        "expected layer": _depth(line.expected_layer),
    }


def _depth(score: Score | None) -> Cell:
    if score is None:
        return Cell(NOTHING)
    bounds = [bound for bound in (score.low, score.high) if bound is not None]
    text, *ends = (f"{value:.2f}".replace("-", "−") for value in (score.value, *bounds))
    return Cell(text, f"[{', '.join(ends)}]" if len(ends) == 2 else "", score)
