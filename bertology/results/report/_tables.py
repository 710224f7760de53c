"""Tables of the page: layers by tasks, which sort and filter; heads with small maps; where the numbers come from."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from bertology._names import layer_label
from bertology.results.report._runs import Question, Run
from bertology.results.report._summary import counted
from bertology.results.tables.rows import ResultRow
from bertology.results.views.across import baseline_rows
from bertology.results.views.grid import STAR, Grid, interval_of, metric_title, number, unit
from bertology.results.views.heads import HeadTable, StepTable, best_head_grid, step_grid
from bertology.results.views.layers import LayerLine, LayerTable, Score

_STAR_ROOM = '<span class="star"></span>'
"""The schema since which rows share the time of their fit."""


def overview_table(questions: Sequence[Question]) -> str:
    """Main scores of all tables; baselines below, which belong to no layer."""
    readers = list(dict.fromkeys(entry.label for question in questions for entry in question.entries))
    with_model = len(readers) > 1
    heads = [_head("Model", "reader", numeric=False)] if with_model else []
    heads.append(_head("Layer", "layer"))
    for place, question in enumerate(questions):
        metric = question.first.metric
        heads.append(_head(question.label, f"q{place}", note=f"{metric_title(metric)}{unit(metric)}"))
    body = (row for reader in readers for row in _rows(reader, questions, with_model=with_model))
    return f"""<table id="overview-table" class="numbers sortable">
<caption class="sr-only">Main score by layer and task</caption>
<thead><tr>{"".join(heads)}</tr></thead>
<tbody>{"".join(body)}</tbody>
<tfoot>{"".join(_baselines(questions, with_model=with_model))}</tfoot>
</table>"""


def _head(text: str, key: str, *, note: str = "", numeric: bool = True) -> str:
    below = f'<span class="unit">{escape(note)}</span>' if note else ""
    kind = "number" if numeric else "text"
    return (
        f'<th scope="col" aria-sort="none" data-key="{key}" data-kind="{kind}">'
        f'<button type="button" class="sort"><span class="name">{escape(text)}</span>{below}</button></th>'
    )


def _rows(reader: str, questions: Sequence[Question], *, with_model: bool) -> Iterator[str]:
    """A row for each layer of one reader."""
    cells: dict[int, dict[int, str]] = defaultdict(dict)
    for place, question in enumerate(questions):
        for number_of_entry, entry in enumerate(question.entries):
            for line in entry.table.lines if entry.label == reader else ():
                cells[line.layer][place] = _cell(place, number_of_entry, entry.table, line)
    model = f'<th scope="row" class="text" data-key="reader">{escape(reader)}</th>' if with_model else ""
    start, end = ("<td", "</td>") if with_model else ('<th scope="row"', "</th>")
    for layer, of_layer in sorted(cells.items()):
        label = f'{start} class="layer" data-key="layer" data-value="{layer}">{escape(layer_label(layer))}{end}'
        scores = "".join(of_layer.get(place) or _empty(place) for place in range(len(questions)))
        yield f'<tr data-layer="{layer}" data-reader="{escape(reader)}">{model}{label}{scores}</tr>'


def _cell(place: int, entry: int, table: LayerTable, line: LayerLine) -> str:
    if line.main is None:
        return _empty(place)
    star = f'<span class="star">{STAR if line.in_best_set else ""}</span>'
    text = number(line.main.value, metric=table.metric)
    what = f"{table.task}, layer {line.layer}: {text}; show details"
    sign = 1 if table.higher_is_better else -1
    return (
        f'<td data-key="q{place}" data-value="{line.main.value:.6f}" data-good="{sign * line.main.value:.6f}"'
        f"{_bounds(line.main)}{' data-best' if line.in_best_set else ''}>"
        f'<button type="button" class="score" data-question="{place}" data-entry="{entry}" data-layer="{line.layer}" '
        f'aria-label="{escape(what)}">{text}</button>{star}{_interval(line.main, table.metric)}</td>'
    )


def _empty(place: int) -> str:
    return f'<td data-key="q{place}" class="nothing">–</td>'


def _interval(score: Score, metric: str) -> str:
    interval = interval_of(score, metric)
    return f'<span class="ci">{interval}</span>' if interval else ""


def _baselines(questions: Sequence[Question], *, with_model: bool) -> Iterator[str]:
    span = ' colspan="2"' if with_model else ""
    for name, scores in baseline_rows([[(e.label, e.table) for e in question.entries] for question in questions]):
        cells = []
        for place, (question, score) in enumerate(zip(questions, scores, strict=True)):
            metric = question.first.metric
            text = f"{number(score.value, metric=metric)}{_STAR_ROOM}{_interval(score, metric)}" if score else ""
            value = f' data-value="{score.value:.6f}"{_bounds(score)}' if score else ""
            cells.append(f'<td data-key="q{place}"{value}>{text}</td>' if score else _empty(place))
        # A baseline of one model's items has that model's name after its own.
        owner = name.partition(", ")[2]
        yield f'<tr data-reader="{escape(owner)}"><th scope="row"{span}>{escape(name)}</th>{"".join(cells)}</tr>'


def heads_maps(runs: Sequence[Run]) -> str:
    """Places of the heatmaps of heads, which the script draws."""
    maps = []
    for place, (run, table) in enumerate((of, table) for of in runs for table in of.head_tables):
        title = best_head_grid(table).title + _whose(run, table, runs)
        maps.append(
            f"<div{shown_with(table.about.model, f'h{place}')}>"
            f'<h3>{escape(title)}</h3><figure class="heads" data-drawing="{escape(title)}">'
            '<div class="drawing scroll" tabindex="0" role="group" aria-roledescription="heatmap" '
            f'aria-label="{escape(title)}. Arrow keys move from head to head."></div>'
            '<div class="tip" aria-hidden="true" hidden></div><p class="sr-only" role="status"></p>'
            '<figcaption class="hint">Columns are heads, by layer from left to right; shades run from the worst to the '
            "best head of each row. Framed, and named before it, is the head that was chosen: ★ where it is better "
            "than all that it stands beside.</figcaption></figure></div>"
        )
    return "".join(maps)


def _whose(run: Run, table: HeadTable | StepTable, runs: Sequence[Run]) -> str:
    """The model of a table of heads, and the run where several asked for heads of that model."""
    same = [one for one in runs if any(of.about.model == table.about.model for of in one.head_tables)]
    return f" · {table.about.model}" + (f" · {run.name}" if len(same) > 1 else "")


def heads_section(runs: Sequence[Run]) -> str:
    """The section on heads; empty where no head was asked."""
    parts, n_heads = [], 0
    for run in runs:
        for heads in run.head_tables:
            shown = shown_with(heads.about.model, f"h{n_heads}")
            parts.append(_table(best_head_grid(heads), _whose(run, heads, runs), shown))
            n_heads += 1
        for steps in run.step_tables:
            parts.append(_table(step_grid(steps), _whose(run, steps, runs), shown_with(steps.about.model, "")))
    section = (
        '<section id="heads" aria-labelledby="heads-title"><h2 id="heads-title">Attention heads</h2>'
        f"{''.join(parts)}</section>"
    )
    return section if parts else ""


def steps_section(runs: Sequence[Run]) -> str:
    """The section on checkpoints of a training; empty where no run has any."""
    grids = {run.name: run.over_steps.grids() for run in runs if run.over_steps is not None}
    hint = '<p class="hint">All other parts of this page are about the last checkpoint of each training.</p>'
    return _grids_section("over-steps", "Over the training", hint, grids)


def wholes_section(runs: Sequence[Run]) -> str:
    """The section on whole models and their references; empty where no run has any."""
    return _grids_section("wholes", "Whole models", "", {run.name: run.wholes for run in runs if run.wholes})


def _grids_section(name: str, title: str, hint: str, by_run: Mapping[str, Iterable[Grid]]) -> str:
    """A section of tables that neither sort nor hide; empty where there is none."""
    whose = {run: f" · {run}" if len(by_run) > 1 else "" for run in by_run}
    parts = "".join(_table(grid, whose[run], "") for run, grids in by_run.items() for grid in grids)
    heading = f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>'
    return f"{heading}{hint}{parts}</section>" if parts else ""


def shown_with(model: str | None, task: str) -> str:
    """Attributes of what the page hides with its model or its task: ``q0`` of layers, ``h0`` of heads."""
    return f' data-of-model="{escape(str(model))}" data-of-task="{task}"'


def _table(grid: Grid, whose: str, shown: str) -> str:
    head = "".join(f'<th scope="col">{escape(header)}</th>' for header in (grid.corner, *grid.headers))
    rows = []
    for line in grid.lines:
        cells = []
        for column, cell in enumerate(line.cells):
            star = ' <span class="star">★</span>' if column in line.best else ""
            interval = f' <span class="ci">{escape(cell.interval)}</span>' if cell.interval else ""
            # A cell that names a head next to its score is text.
            known = cell.score if cell.score and " " not in cell.text else None
            value = f' data-value="{known.value:.6g}"{_bounds(known)}' if known else ""
            cells.append(f"<td{value}>{escape(cell.text)}{interval}{star}</td>")
        rows.append(f'<tr><th scope="row" class="text">{escape(line.label)}</th>{"".join(cells)}</tr>')
    notes = "<br>".join(escape(str(note)) for note in grid.notes)
    title = escape(grid.title + whose)
    return (
        f"<div{shown}><h3>{title}</h3>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table class="numbers">'
        f'<thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div><p class="hint">{notes}</p></div>'
    )


def _bounds(score: Score) -> str:
    """The interval of a score, for what is made of the table in the page."""
    if score.low is None or score.high is None:
        return ""
    return f' data-low="{score.low:.6f}" data-high="{score.high:.6f}"'


def provenance(run: Run) -> list[tuple[str, str]]:
    """Heading and value of everything a run says of how it was made."""
    rows = run.results.rows
    times = sorted({row.started_utc for row in rows if row.started_utc})
    versions: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for name, version in json.loads(row.versions).items():
            versions[str(name)].add(str(version))
    facts = [
        ("folder", run.name),
        ("experiment", _all(row.experiment for row in rows)),
        ("tables", f"schema {_all(str(row.schema_version) for row in rows)}, {counted(len(rows), 'row')}, "
                   f"{counted(len(_cells(rows)), 'cell')}"),
        ("tasks", _all(f"{row.task} {row.task_version}" for row in rows)),
        ("models", _all(f"{run.models[row.model]}, {row.init}: {row.model_fingerprint}" for row in rows if row.model)),
        ("corpora", _all(f"{row.corpus} {row.split}: {row.corpus_fingerprint}" for row in rows)),
        ("readouts", _all(f"{row.readout}.{row.readout_version}" for row in rows if row.readout)),
        ("pooling", _all(row.pooling for row in rows)),
        ("seeds", _all(None if row.seed is None else str(row.seed) for row in rows)),
        ("device", _all(row.device for row in rows)),
        ("dtype", _all(row.dtype for row in rows)),
        ("versions", "; ".join(f"{name} {' and '.join(sorted(known))}" for name, known in sorted(versions.items()))),
        ("intervals", _all(method for row in rows for method in (row.ci_method, row.mean_ci_method))),
        ("started", " to ".join(dict.fromkeys([times[0], times[-1]])) if times else ""),
        ("fitting took", _took(rows)),
        ("predictions", f"{counted(len(_cells(rows, kept=True)), 'cell')} kept, with SHA-256"),
    ]  # fmt: skip
    return [(heading, value) for heading, value in facts if value]


def _all(values: Iterable[str | None]) -> str:
    """The values there are, in order of first appearance."""
    return "; ".join(dict.fromkeys(value for value in values if value))


def _cells(rows: Sequence[ResultRow], *, kept: bool = False) -> set[str]:
    """All cells, or those of which predictions are kept."""
    return {row.cell_id for row in rows if not kept or row.predictions_sha256 is not None}


def _took(rows: Sequence[ResultRow]) -> str:
    """The time of all fits."""
    timed = [(row, row.wall_s) for row in rows if row.wall_s is not None and row.started_utc]
    jobs = {(row.task, row.model, row.init, row.started_utc) for row, _ in timed}
    return f"{sum(seconds for _, seconds in timed):,.1f} s in {counted(len(jobs), 'fit')}" if jobs else ""
