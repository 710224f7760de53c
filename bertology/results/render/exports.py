"""Tables as Markdown, LaTeX, HTML, CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from bertology.results.views.grid import STAR, Cell, Grid, GridLine, Note, layer_label
from bertology.results.views.heads import HeadTable, StepTable
from bertology.results.views.layer_grid import strength_text
from bertology.results.views.layers import LayerTable, Score

_MARKDOWN = re.compile(r"[\\`*|]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\](?=\()|(?<!\w)_|_(?!\w)")
"""What Markdown would read as HTML, emphasis, code, a link or a further column."""
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def markdown_escaped(text: str) -> str:
    """Text that Markdown shows as it stands, in one line."""
    return _MARKDOWN.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), " ".join(text.splitlines()))


def grid_to_markdown(grid: Grid) -> str:
    """A pipe table under a bold title, the best set in bold and starred, notes as a list."""

    def cell(line: GridLine, column: int) -> str:
        text = markdown_escaped(str(line.cells[column]))
        return f"**{text}** {STAR}" if column in line.best else text

    header = list(map(markdown_escaped, (grid.corner, *grid.headers)))
    rows = [
        [markdown_escaped(line.label), *(cell(line, column) for column in range(len(line.cells)))]
        for line in grid.lines
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        "| " + " | ".join(_padded(text, width, first=place == 0) for place, (text, width) in enumerate(pairs)) + " |"
        for pairs in (list(zip(row, widths, strict=True)) for row in (header, rule, *rows))
    ]
    notes = [f"- {markdown_escaped(str(note))}" for note in grid.notes]
    return "\n".join([f"**{markdown_escaped(grid.title)}**", "", *lines, "", *notes]) + "\n"


def _padded(text: str, width: int, *, first: bool) -> str:
    return text.ljust(width) if first else text.rjust(width)


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"},
    **{STAR: r"$\star$", "·": r"$\cdot$", "−": "$-$", "–": "--"},
}


def latex_escaped(text: str) -> str:
    """Text that LaTeX sets as it stands."""
    return "".join(_LATEX.get(character, character) for character in text)


_PREAMBLE = r"% needs \usepackage{booktabs} and \usepackage{siunitx}"


def grid_to_latex(grid: Grid) -> str:
    """A booktabs table, numbers aligned by siunitx; the caption states what they are and how they were had."""
    columns = [_latex_column(grid, column) for column in range(len(grid.headers))]
    notes = [Note("Bold", note.text) if note.about == STAR else note for note in grid.notes]
    caption = latex_escaped(". ".join([grid.title, *(_sentence(str(note)) for note in notes)]))
    label = re.sub(r"[^a-z0-9]+", "-", grid.title.split("·")[0].lower()).strip("-")
    rows = [
        " & ".join([latex_escaped(line.label), *cells]) + r" \\"
        for line, *cells in zip(grid.lines, *(texts for _, _, texts in columns), strict=True)
    ]
    layers = [row for row, line in zip(rows, grid.lines, strict=True) if not line.baseline]
    baselines = [row for row, line in zip(rows, grid.lines, strict=True) if line.baseline]
    return "\n".join(
        [
            _PREAMBLE,
            r"\begin{table}[t]",
            r"  \centering",
            r"  \sisetup{detect-weight, mode=text}",
            rf"  \caption{{{caption}.}}",
            rf"  \label{{tab:{label}}}",
            rf"  \begin{{tabular}}{{l{''.join(kind for kind, _, _ in columns)}}}",
            r"    \toprule",
            "    " + " & ".join([latex_escaped(grid.corner), *(header for _, header, _ in columns)]) + r" \\",
            r"    \midrule",
            *(f"    {line}" for line in layers),
            *([r"    \midrule"] if baselines else []),
            *(f"    {line}" for line in baselines),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _latex_column(grid: Grid, column: int) -> tuple[str, str, list[str]]:
    """A column of numbers, and one of intervals next to it where there are any: their kinds, header and cells."""
    cells = [line.cells[column] for line in grid.lines]
    numbers = [_plain_number(cell) for cell in cells]
    wholes = [len(number.partition(".")[0].lstrip("-")) for number in numbers if number]
    sign = "-" if any(number.startswith("-") for number in numbers) else ""
    kind, header = f"S[table-format={sign}{max(wholes, default=1)}.1]", latex_escaped(grid.headers[column])
    texts = []
    for line, cell, number in zip(grid.lines, cells, numbers, strict=True):
        # What is not a number stands in braces, which siunitx leaves alone.
        text = number or (f"{{{latex_escaped(cell.text)}}}" if cell.text else "")
        texts.append(rf"\bfseries {text}" if column in line.best else text)
    if not any(cell.interval for cell in cells):
        return kind, f"{{{header}}}", texts
    intervals = [rf"{{\footnotesize {latex_escaped(cell.interval)}}}" if cell.interval else "" for cell in cells]
    both = [f"{text} & {interval}" for text, interval in zip(texts, intervals, strict=True)]
    return kind + r"@{\,}l", rf"\multicolumn{{2}}{{c}}{{{header}}}", both


def _plain_number(cell: Cell) -> str:
    """A number as siunitx reads it; empty where the cell holds none."""
    text = cell.text.replace("−", "-")
    return text if re.fullmatch(r"-?\d+\.\d", text) else ""


def _sentence(note: str) -> str:
    return note[:1].upper() + note[1:]


_CELL = "padding:.15em .7em;text-align:right;white-space:nowrap"
_RULE = "border-top:1px solid currentColor;"


def grid_to_html(grid: Grid) -> str:
    """A table that stands in a page or notebook, light or dark, without any style sheet."""
    parts = [
        '<table style="border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.6em 0">',
        f'<caption style="caption-side:top;text-align:left;font-weight:bold;padding:.3em 0">'
        f"{html.escape(grid.title)}</caption>",
        f'<thead><tr style="border-bottom:1px solid currentColor">{_heads(grid)}</tr></thead><tbody>',
    ]
    ruled = False
    for line in grid.lines:
        rule = _RULE if line.baseline and not ruled else ""
        ruled = ruled or line.baseline
        cells = "".join(_html_cell(line, column) for column in range(len(line.cells)))
        label = html.escape(line.label)
        parts.append(
            f'<tr style="{rule}"><th style="{_CELL};text-align:left;font-weight:normal">{label}</th>{cells}</tr>'
        )
    notes = "<br>".join(html.escape(str(note)) for note in grid.notes)
    parts.append(
        f'</tbody><tfoot><tr style="{_RULE}"><td colspan="{len(grid.headers) + 1}" '
        f'style="text-align:left;font-size:85%;opacity:.75;padding:.4em .7em">{notes}</td></tr></tfoot></table>'
    )
    return "\n".join(parts)


def _heads(grid: Grid) -> str:
    first = f'<th style="{_CELL};text-align:left">{html.escape(grid.corner)}</th>'
    return first + "".join(f'<th style="{_CELL}">{html.escape(header)}</th>' for header in grid.headers)


def _html_cell(line: GridLine, column: int) -> str:
    content = line.cells[column]
    text = html.escape(content.text)
    if column in line.best:
        text = f"<b>{text}</b>"
    if content.interval:
        text += f' <span style="opacity:.65;font-size:85%">{html.escape(content.interval)}</span>'
    star = f" {STAR}" if column in line.best else ""
    return f'<td style="{_CELL}">{text}{star}</td>'


_CSV_FIELDS = (
    *("task", "model", "corpus", "split", "row", "layer", "metric", "value", "ci_low", "ci_high", "in_best_set"),
    *("second_metric", "second_value", "random_init", "random_init_ci_low", "random_init_ci_high"),
    *("control_task_accuracy", "selectivity"),
    *("selectivity_ci_low", "selectivity_ci_high", "seed_sd", "blind", "strength"),
)


def tables_to_csv(tables: Sequence[LayerTable]) -> str:
    """One line for each layer and baseline of each table; numbers are those of ``results.parquet``, not percentages."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _CSV_FIELDS, lineterminator="\n", restval="")
    writer.writeheader()
    for table in tables:
        about = table.about
        common = {
            **{name: getattr(about, name) for name in ("task", "model", "corpus", "split")},
            "metric": table.metric,
            "second_metric": table.second_metric,
        }
        for line in table.lines:
            fields = {
                **{"row": layer_label(line.layer), "layer": line.layer, "in_best_set": line.in_best_set},
                **_spread(line.main, "value", "ci_low", "ci_high"),
                **_spread(line.second, "second_value"),
                **_spread(line.random_init, "random_init", "random_init_ci_low", "random_init_ci_high"),
                **_spread(line.control_task, "control_task_accuracy"),
                **_spread(line.selectivity, "selectivity", "selectivity_ci_low", "selectivity_ci_high"),
                **_spread(line.blind, "blind"),
                "seed_sd": line.seed_spread,
                "strength": strength_text(line),
            }
            writer.writerow({**common, **fields})
        for baseline in table.baselines:
            fields = {
                **_spread(baseline.main, "value", "ci_low", "ci_high"),
                **_spread(baseline.second, "second_value"),
            }
            writer.writerow({**common, **fields, "row": baseline.control, "model": baseline.model or ""})
    return out.getvalue()


def grids_to_csv(grids: Sequence[Grid]) -> str:
    """One line for each number of each table; fractions, not percentages."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", "column", "value", "ci_low", "ci_high", "in_best_set"])
    for grid in grids:
        for line in grid.lines:
            for column, (header, cell) in enumerate(zip(grid.headers, line.cells, strict=True)):
                if cell.score is None:
                    continue
                bounds = ["" if bound is None else bound for bound in (cell.score.low, cell.score.high)]
                writer.writerow([grid.title, line.label, header, cell.score.value, *bounds, column in line.best])
    return out.getvalue()


def _spread(score: Score | None, *names: str) -> dict[str, Any]:
    values = () if score is None else (score.value, score.low, score.high)
    return dict(zip(names, values, strict=False))


_OF_ONE_ROW = frozenset(
    {
        *("cell_id", "status", "layer", "seed", "control", "n_params", "params_json", "skip_reasons"),
        *("metric", "main_metric", "higher_is_better", "value", "stderr", "ci_low", "ci_high", "ci_method"),
        *("init_seed", "n_runs", "mean", "mean_stderr", "mean_ci_low", "mean_ci_high", "mean_ci_method"),
        *("device", "dtype", "wall_s", "started_utc", "predictions_sha256"),
    }
)


def tables_to_json(
    tables: Sequence[LayerTable], heads: Sequence[HeadTable] = (), steps: Sequence[StepTable] = ()
) -> str:
    """The tables with all their fields; numbers are those of ``results.parquet``, not percentages."""
    plain = []
    every: Sequence[LayerTable | HeadTable | StepTable] = (*tables, *heads, *steps)
    for table in every:
        fields = dataclasses.asdict(table)
        fields["about"] = {name: value for name, value in fields["about"].items() if name not in _OF_ONE_ROW}
        plain.append(fields)
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
