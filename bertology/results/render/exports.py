"""Tables as Markdown, LaTeX, HTML, CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from string import Template
from typing import Any

from bertology._names import layer_label
from bertology.results.views.grid import STAR, Grid, GridLine, Note
from bertology.results.views.heads import HeadTable, StepTable
from bertology.results.views.layer_grid import strength_text
from bertology.results.views.layers import COLUMNS, BaselineLine, LayerLine, LayerTable, Score

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

    rows = [list(map(markdown_escaped, (grid.corner, *grid.headers)))]
    for line in grid.lines:
        rows.append([markdown_escaped(line.label), *(cell(line, column) for column in range(len(line.cells)))])
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    rows.insert(1, ["-" * first, *("-" * (width - 1) + ":" for width in others)])
    lines = []
    for label, *texts in rows:
        padded = (text.rjust(width) for text, width in zip(texts, others, strict=True))
        lines.append(f"| {' | '.join([label.ljust(first), *padded])} |")
    notes = [f"- {markdown_escaped(str(note))}" for note in grid.notes]
    return "\n".join([f"**{markdown_escaped(grid.title)}**", "", *lines, "", *notes]) + "\n"


_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"},
        **{STAR: r"$\star$", "·": r"$\cdot$", "−": "$-$", "–": "--"},
    }
)


def latex_escaped(text: str) -> str:
    """Text that LaTeX sets as it stands."""
    return text.translate(_LATEX)


_LATEX_TABLE = Template(r"""% needs \usepackage{booktabs} and \usepackage{siunitx}
\begin{table}[t]
  \centering
  \sisetup{detect-weight, mode=text}
  \caption{$caption}
  \label{$label}
  \begin{tabular}{l$kinds}
    \toprule
    $lines
    \bottomrule
  \end{tabular}
  \par\smallskip
  {\footnotesize\raggedright
  $notes
  \par}
\end{table}
""")


def grids_to_latex(grids: Sequence[Grid], *, caption: str | None = None, label: str | None = None) -> str:
    """Booktabs tables, each under a label of its own; ``caption`` and ``label`` are those of the first."""
    known: Counter[str] = Counter()
    texts = []
    for place, grid in enumerate(grids):
        name = label if label is not None and place == 0 else latex_label(grid)
        known[name] += 1
        name += f"-{known[name]}" if known[name] > 1 else ""
        texts.append(grid_to_latex(grid, caption=caption if place == 0 else None, label=name))
    return "\n".join(texts)


def latex_label(grid: Grid) -> str:
    """What a table is referred to by, from what it is about: ``tab:pos``."""
    return "tab:" + re.sub(r"[^a-z0-9]+", "-", grid.title.split("·")[0].lower()).strip("-")


def grid_to_latex(grid: Grid, *, caption: str | None = None, label: str | None = None) -> str:
    """A booktabs table, numbers aligned by siunitx; how they were had stands below it in small letters.

    Args:
        grid: the table.
        caption: LaTeX of the caption; one sentence on what is shown of which model when left out.
        label: to refer to it by; ``tab:`` and the task when left out.
    """
    columns = [_latex_column(grid, column) for column in range(len(grid.headers))]
    notes = [Note("Bold", note.text) if note.about == STAR else note for note in grid.notes]
    small = (rf"\emph{{{latex_escaped(one.about.capitalize())}}}: {latex_escaped(one.text)}." for one in notes)
    parts: tuple[list[str], ...] = ([], [], [])
    for part, text, *cells in zip(
        [0, *(1 + line.baseline for line in grid.lines)],
        [grid.corner, *(line.label for line in grid.lines)],
        *([header, *texts] for _, header, texts in columns),
        strict=True,
    ):
        parts[part].append(" & ".join([latex_escaped(text), *cells]) + r" \\")
    head, layers, baselines = parts
    lines = [*head, r"\midrule", *layers, *([r"\midrule"] if baselines else []), *baselines]
    kinds = "".join(kind for kind, _, _ in columns)
    return _LATEX_TABLE.substitute(
        caption=caption or latex_escaped(_sentence(grid)),
        label=label or latex_label(grid),
        kinds=kinds,
        lines="\n    ".join(lines),
        notes="\n  ".join(small),
    )


def _sentence(grid: Grid) -> str:
    """What a table shows, of which model on which data, as in ``pos: accuracy by layer, %; pocket on pocket test``."""
    notes = {note.about: note.text for note in grid.notes}
    model, data = notes.get("model", "").partition(", ")[0], notes.get("data", "").partition(": ")[0]
    where = " on ".join(filter(None, [model, data]))
    return "; ".join(filter(None, [grid.title.replace(" · ", ": ", 1), where])) + "."


def _latex_column(grid: Grid, column: int) -> tuple[str, str, list[str]]:
    """A column of numbers, and one of intervals next to it where there are any: their kinds, header and cells."""
    cells = [line.cells[column] for line in grid.lines]
    plain = [cell.text.replace("−", "-") for cell in cells]
    # Numbers as siunitx reads them; empty where a cell holds none.
    numbers = [text if re.fullmatch(r"-?\d+\.\d", text) else "" for text in plain]
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


_CELL = "padding:.15em .7em;text-align:right;white-space:nowrap"
_RULE = "border-top:1px solid currentColor;"
_HTML_TABLE = Template(f"""\
<table style="border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.6em 0">
<caption style="caption-side:top;text-align:left;font-weight:bold;padding:.3em 0">$title</caption>
<thead><tr style="border-bottom:1px solid currentColor"><th style="{_CELL};text-align:left">$corner</th>$heads</tr>\
</thead><tbody>
$lines</tbody><tfoot><tr style="{_RULE}"><td colspan="$width" \
style="text-align:left;font-size:85%;opacity:.75;padding:.4em .7em">$notes</td></tr></tfoot></table>""")


def grid_to_html(grid: Grid) -> str:
    """A table that stands in a page or notebook, light or dark, without any style sheet."""
    lines = []
    first_baseline = next((line for line in grid.lines if line.baseline), None)
    for line in grid.lines:
        rule = _RULE if line is first_baseline else ""
        label = f'<th style="{_CELL};text-align:left;font-weight:normal">{html.escape(line.label)}</th>'
        cells = "".join(_html_cell(line, column) for column in range(len(line.cells)))
        lines.append(f'<tr style="{rule}">{label}{cells}</tr>\n')
    return _HTML_TABLE.substitute(
        title=html.escape(grid.title),
        corner=html.escape(grid.corner),
        heads="".join(f'<th style="{_CELL}">{html.escape(header)}</th>' for header in grid.headers),
        lines="".join(lines),
        width=len(grid.headers) + 1,
        notes="<br>".join(html.escape(str(note)) for note in grid.notes),
    )


def _html_cell(line: GridLine, column: int) -> str:
    content = line.cells[column]
    bold, end, star = ("<b>", "</b>", f" {STAR}") if column in line.best else ("", "", "")
    text = f"{bold}{html.escape(content.text)}{end}"
    if content.interval:
        text += f' <span style="opacity:.65;font-size:85%">{html.escape(content.interval)}</span>'
    return f'<td style="{_CELL}">{text}{star}</td>'


_CSV_SCORES = {name: (name, f"{name}_ci_low", f"{name}_ci_high") for name in COLUMNS} | {
    "main": ("value", "ci_low", "ci_high"),
    "second": ("second_value",),
    "control_task": ("control_task_accuracy",),
    "blind": ("blind",),
}
"""Columns of a score and its bounds, by field of a line."""
_CSV_FIELDS = (
    *("task", "model", "corpus", "split", "row", "layer", "metric", *_CSV_SCORES["main"], "in_best_set"),
    *("second_metric", *_CSV_SCORES["second"], *_CSV_SCORES["random_init"], *_CSV_SCORES["control_task"]),
    *(*_CSV_SCORES["selectivity"], "seed_sd", "blind", "strength"),
)
"""Columns of every table; those of further controls follow where there are any."""


def tables_to_csv(tables: Sequence[LayerTable]) -> str:
    """One line for each layer and baseline of each table; numbers are those of ``results.parquet``, not percentages."""
    lines: list[dict[str, Any]] = []
    for table in tables:
        about = table.about
        common = {
            **{name: getattr(about, name) for name in ("task", "model", "corpus", "split")},
            "metric": table.metric,
            "second_metric": table.second_metric,
        }
        for line in table.lines:
            place = {"row": layer_label(line.layer), "layer": line.layer, "in_best_set": line.in_best_set}
            more = {"seed_sd": line.seed_spread, "strength": strength_text(line)}
            lines.append({**common, **place, **_csv_scores(line), **more})
        for baseline in table.baselines:
            fields = {"row": baseline.control, "model": baseline.model or ""}
            lines.append({**common, **_csv_scores(baseline), **fields})
    out = io.StringIO()
    further = dict.fromkeys(name for line in lines for name in line if name not in _CSV_FIELDS)
    writer = csv.DictWriter(out, (*_CSV_FIELDS, *further), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
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


def _csv_scores(line: LayerLine | BaselineLine) -> dict[str, float | None]:
    fields: dict[str, float | None] = {}
    for name, columns in _CSV_SCORES.items():
        score: Score | None = getattr(line, name, None)
        if score is not None:
            values = zip(columns, (score.value, score.low, score.high), strict=False)
            fields |= {column: value for column, value in values if value is not None}
    return fields


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
