"""One description of a table, and how it becomes Markdown, LaTeX, HTML, CSV and text in a terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from string import Template
from typing import TYPE_CHECKING, Any, Literal, Self

from bertology._files import shortened
from bertology._names import Registry, evenly, folder_name
from bertology._page import asset, filled
from bertology.errors import BertologyError
from bertology.measures.metrics import METRICS, TWO_LINES, metric_form
from bertology.results.rows import INITS, ResultRow, Score

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table as RichTable

STAR = "★"
NOTHING = "–"
SEEDS = "seeds of the fit"
INTERVAL = "interval"
_SMALL = 0.1
"""Counted values that are smaller have one more decimal."""
_MOST_LETTERS = 44
_ABOUT = (
    *("task", "model", "corpus", "split", "task_version", "model_fingerprint", "corpus_fingerprint", "language"),
    *("annotation", "n_train", "n_items", "n_clusters", "n_skipped", "reading", "pooling"),
)
"""What files say of the rows behind a table; the first four in each line."""
# The order of packages has probes after results: of an installed one only what it says of itself is read here.
_PROBES: Registry[Any] = Registry("probe", "bertology.probes", "pos.v1")
_ROUNDING = 1e-6
"""Relative differences that are smaller are not drawn."""


@dataclass(frozen=True)
class Cell:
    """A number as text, and its interval as text."""

    text: str
    interval: str = ""
    score: Score | None = None
    """The numbers themselves; fractions, not percentages."""

    def __str__(self) -> str:
        return f"{self.text} {self.interval}".rstrip()


@dataclass(frozen=True)
class Line:
    """A row of cells."""

    label: str
    cells: tuple[Cell, ...]
    best: frozenset[int] = frozenset()
    """Places of the cells that are in the best set of their column."""
    baseline: bool = False
    about: ResultRow | None = None
    """A row of results behind the line, of tables whose lines differ in metric, model or corpus."""

    @property
    def row(self) -> ResultRow:
        """The row behind a line that has one."""
        assert self.about is not None
        return self.about


@dataclass(frozen=True)
class Note:
    """A line below the table: its subject and its text."""

    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}{' ' if self.about == STAR else ': '}{self.text}"


BEST_NOTE = Note(STAR, "statistically tied for best layer (paired bootstrap, Benjamini–Hochberg q < .05)")


@dataclass(frozen=True)
class Table:
    """A table of text and numbers, which every kind of view produces and every renderer takes."""

    title: str
    headers: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[Note, ...]
    corner: str = "Layer"
    spare: tuple[str, ...] = ()
    """Headers of columns that a terminal may leave out, in the order in which they are left out."""
    series: int = 0
    """Number of last columns that are a series, such as layers, which a terminal may thin out."""
    is_drawn: bool = False
    """Whether a terminal draws the intervals of the first column, and writes those of no other."""
    metric: str = ""
    """Metric of the scores, the first of several."""
    about: ResultRow | None = None
    """One of the rows that the table is made of, where all of them are about the same task, model and corpus."""

    @classmethod
    def of(
        cls,
        title: str,
        headers: Iterable[str],
        rows: Mapping[Any, Sequence[Any]],
        notes: Iterable[Note],
        *,
        metric: str | Sequence[str] | Mapping[Any, str] = "",
        intervals: bool | Collection[int] = True,
        best: Collection[tuple[Any, int]] = (),
        labels: Mapping[Any, str] | None = None,
        baselines: Collection[Any] = (),
        about: ResultRow | None = None,
        behind: Mapping[Any, ResultRow] | None = None,
        **more: Any,
    ) -> Self:
        """A table of values, each of which is written as its type demands.

        Args:
            title: what the table shows.
            headers: the columns.
            rows: values by row: scores, None for a missing one, numbers of items, texts, or cells.
            notes: what stands below, after the definitions of the metrics.
            metric: metric of all scores, or by column, or by row.
            intervals: whether scores are written with their intervals, or the places of the columns whose are.
            best: row and column of what is in the best set.
            labels: labels of rows, where these may be alike; otherwise rows are their own labels.
            baselines: rows of baselines.
            about: one of the rows of results behind it.
            behind: a row of results behind each row of the table.
            more: further fields.
        """
        lines = []
        for key, values in rows.items():
            cells, marked = [], set()
            for column, value in enumerate(values):
                if isinstance(value, Score | None):
                    of = metric if isinstance(metric, str) else metric[key if isinstance(metric, Mapping) else column]
                    interval = intervals if isinstance(intervals, bool) else column in intervals
                    value = score_cell(value, of, interval=interval)
                elif not isinstance(value, Cell):
                    value = Cell(value) if isinstance(value, str) else Cell(f"{value:,}", score=Score(value))
                cells.append(value)
                if (key, column) in best:
                    marked.add(column)
            known = labels[key] if labels else key, tuple(cells), frozenset(marked), key in baselines
            lines.append(Line(*known, (behind or {}).get(key)))
        metrics = (
            [metric] if isinstance(metric, str) else [*(metric.values() if isinstance(metric, Mapping) else metric)]
        )
        notes = (*measure_notes(metrics, about), *notes)
        main = next(filter(None, metrics), "")
        return cls(title, tuple(headers), tuple(lines), notes, metric=main, about=about, **more)

    @property
    def row(self) -> ResultRow:
        """The row that the table is about, of one that is about a single task, model and corpus."""
        assert self.about is not None
        return self.about

    @property
    def subject(self) -> str:
        """The first part of the title: the task, with what sets it apart."""
        return self.title.partition(" · ")[0]

    @property
    def task(self) -> str:
        """The task of the table; empty of several."""
        return self.about.task if self.about else ""

    def column(self, header: str) -> dict[str, Score]:
        """The scores in one column by the labels of their lines."""
        known = zip(self.lines, self.scores(header), strict=True)
        return {line.label: score for line, score in known if score is not None}

    def scores(self, header: str) -> list[Score | None]:
        """The score of each line in one column, None where there is none."""
        place = self.headers.index(header) if header in self.headers else None
        return [None if place is None else line.cells[place].score for line in self.lines]

    def columns(self, kept: Sequence[int]) -> Table:
        """The same table with some of its columns."""
        lines = []
        for line in self.lines:
            best = frozenset(number for number, place in enumerate(kept) if place in line.best)
            lines.append(replace(line, cells=tuple(line.cells[place] for place in kept), best=best))
        return replace(self, headers=tuple(self.headers[place] for place in kept), lines=tuple(lines))

    def thinned(self, most: int) -> Table:
        """The same table with at most so many columns of its series, evenly spread, the last one among them."""
        if most >= self.series:
            return self
        first = len(self.headers) - self.series
        shown = [first + at for at in evenly(self.series, most)]
        note = Note("columns", f"{self.series - len(shown)} more in the CSV, for want of room")
        return replace(self.columns([*range(first), *shown]), series=len(shown), notes=(*self.notes, note))

    def numbers(self) -> Iterator[dict[str, Any]]:
        """Each number with its place in the table and what it is about; a fraction, not a percentage."""
        for line in self.lines:
            about = line.about or self.about
            known = {name: getattr(about, name) for name in _ABOUT[:4]} if about else {}
            for column, (header, cell) in enumerate(zip(self.headers, line.cells, strict=True)):
                if (score := cell.score) is not None:
                    place = {"table": self.title, **known, "row": line.label, "column": header}
                    bounds = {"value": score.value, "ci_low": score.low, "ci_high": score.high}
                    yield {**place, **bounds, "in_best_set": column in line.best}

    def to_markdown(self) -> str:
        """A pipe table under a bold title, the best set in bold and starred, notes as a list."""
        rows = [list(map(markdown_escaped, (self.corner, *self.headers)))]
        for line in self.lines:
            texts = list(map(markdown_escaped, (line.label, *map(str, line.cells))))
            for column in line.best:
                texts[1 + column] = f"**{texts[1 + column]}** {STAR}"
            rows.append(texts)
        first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
        rows.insert(1, ["-" * first, *("-" * (width - 1) + ":" for width in others)])
        lines = [f"**{markdown_escaped(self.title)}**", ""]
        for label, *texts in rows:
            lines.append(f"| {' | '.join([label.ljust(first), *map(str.rjust, texts, others)])} |")
        return "\n".join([*lines, "", *("- " + markdown_escaped(str(note)) for note in self.notes)]) + "\n"

    @property
    def latex_label(self) -> str:
        """The label of a LaTeX table, from what the table is about: ``tab:pos``."""
        return "tab:" + re.sub(r"[^a-z0-9]+", "-", self.subject.lower()).strip("-")

    def to_latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        """A booktabs table, the best set in bold, the notes below it in small letters.

        Args:
            caption: LaTeX of the caption; one sentence on what is shown of which model when left out.
            label: the table's label; ``tab:`` and the task when left out.
        """
        wide = [any(line.cells[column].interval for line in self.lines) for column in range(len(self.headers))]
        head, kinds = [latex_escaped(self.corner)], "".join(r"r@{\,}l" if is_wide else "r" for is_wide in wide)
        for header, is_wide in zip(map(latex_escaped, self.headers), wide, strict=True):
            head.append(rf"\multicolumn{{2}}{{c}}{{{header}}}" if is_wide else header)
        parts: dict[bool, list[str]] = {False: [], True: []}
        for line in self.lines:
            texts = [latex_escaped(line.label)]
            for column, (cell, is_wide) in enumerate(zip(line.cells, wide, strict=True)):
                text = latex_escaped(cell.text)
                texts.append(rf"\textbf{{{text}}}" if column in line.best else text)
                if is_wide:
                    texts.append(rf"{{\footnotesize {latex_escaped(cell.interval)}}}" if cell.interval else "")
            parts[line.baseline].append(" & ".join(texts) + r" \\")
        rows = [" & ".join(head) + r" \\", r"\midrule", *parts[False], *[r"\midrule"] * bool(parts[True]), *parts[True]]
        known = {note.about: note.text for note in self.notes}
        model, data = known.get("model", "").partition(", ")[0], known.get("data", "").partition(": ")[0]
        shown = self.title.replace(" · ", ": ", 1), " on ".join(filter(None, [model, data]))
        notes = []
        for note in self.notes:
            subject = "Bold" if note.about == STAR else note.about[:1].upper() + note.about[1:]
            notes.append(rf"\emph{{{latex_escaped(subject)}}}: {latex_escaped(note.text)}.")
        return Template(asset("results/report/assets/table.tex")).substitute(
            caption=caption or latex_escaped("; ".join(filter(None, shown)) + "."),
            label=label or self.latex_label,
            kinds=kinds,
            lines="\n    ".join(rows),
            notes=_LATEX_NOTES.substitute(notes="\n  ".join(notes)) if notes else "",
        )

    def to_html(self) -> str:
        """A table for a page or notebook, light or dark, without any style sheet."""
        first_baseline = next((place for place, line in enumerate(self.lines) if line.baseline), None)
        return filled("results/report/assets/table.html", table=self, ruled=first_baseline)


class Tables(ABC):
    """A set of tables that is shown in a terminal or notebook, and written in every format."""

    @abstractmethod
    def shown(self) -> tuple[Table, ...]:
        """The tables as they are shown, in order."""

    def whole(self) -> tuple[Table, ...]:
        """The tables with all that there is no room to show, for other programs."""
        return self.shown()

    def to_markdown(self) -> str:
        """The tables as Markdown pipe tables."""
        return "\n".join(table.to_markdown() for table in self.shown())

    def to_latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        """Booktabs tables, the best set in bold, the protocol in small letters below.

        Args:
            caption: LaTeX of the first table's caption; one sentence on what is shown when left out.
            label: label of the first table, such as ``tab:probing``.
        """
        known, texts = Counter[str](), []
        for table in self.shown():
            name = label or table.latex_label
            known[name] += 1
            name += f"-{known[name]}" if known[name] > 1 else ""
            texts.append(table.to_latex(caption=caption, label=name))
            caption = label = None
        return "\n".join(texts)

    def to_html(self) -> str:
        """Tables for a page or notebook, with all of their style inline."""
        return "\n".join(table.to_html() for table in self.shown())

    def to_csv(self) -> str:
        """One line for each number of each table; fractions, not percentages."""
        out = io.StringIO()
        names = ["table", *_ABOUT[:4], "row", "column", "value", "ci_low", "ci_high", "in_best_set"]
        writer = csv.DictWriter(out, names, lineterminator="\n", restval="")
        writer.writeheader()
        for table in self.whole():
            writer.writerows(table.numbers())
        return out.getvalue()

    def to_json(self) -> str:
        """The numbers of each table, what they are about, and its notes; fractions, not percentages."""
        plain = []
        for table in self.whole():
            about = {name: getattr(table.about, name) for name in _ABOUT} if table.about else {}
            fields = {"title": table.title, "metric": table.metric, "about": about, "numbers": [*table.numbers()]}
            plain.append(fields | {"notes": {note.about: note.text for note in table.notes}})
        return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_text(self, *, width: int = 100) -> str:
        """The tables as in a terminal of ``width`` columns, without colour."""
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=width, no_color=True, highlight=False).print(self)
        return "\n".join(map(str.rstrip, out.getvalue().splitlines())) + "\n"

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        return self.to_text()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in self.shown():
            yield _rendered(table, options.max_width)


@dataclass(frozen=True, repr=False)
class TableView(Tables):
    """Tables that look across models or seeds, or at heads or groups."""

    tables: tuple[Table, ...]

    def shown(self) -> tuple[Table, ...]:
        """The tables themselves."""
        return self.tables

    def __repr__(self) -> str:
        return self.to_markdown()


def metric_title(metric: str) -> str:
    """A metric's name as one writes it in text."""
    return metric_form(metric).title


def unit(metric: str) -> str:
    """The unit of a metric as titles have it: ``, %`` for a fraction."""
    return ", %" if metric_form(metric).is_fraction else ""


def titled(metric: str) -> str:
    """A metric's name and unit: ``accuracy, %``."""
    return metric_title(metric) + unit(metric)


def number(value: float, *, metric: str = "") -> str:
    """A value with one decimal, in percent if the metric is a fraction; a correlation with three, bits with two."""
    form = metric_form(metric)
    shown = form.decimals + (form.unit == "counted" and abs(value) < _SMALL)
    text = f"{100 * value if form.is_fraction else value:.{shown}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def interval_of(score: Score | None, metric: str) -> str:
    """``[91.4, 92.5]``; empty where a score has no interval."""
    if score is None or score.low is None or score.high is None:
        return ""
    return f"[{number(score.low, metric=metric)}, {number(score.high, metric=metric)}]"


def written(score: Score, metric: str) -> str:
    """A score with its interval, if it has one."""
    return f"{number(score.value, metric=metric)} {interval_of(score, metric)}".rstrip()


def score_cell(score: Score | None, metric: str, *, interval: bool = True) -> Cell:
    """A score as text, with its interval if it has one and ``interval`` is true."""
    if score is None:
        return Cell(NOTHING)
    return Cell(number(score.value, metric=metric), interval_of(score, metric) if interval else "", score)


def formatted_cell(score: Score | None, spec: str) -> Cell:
    """A score and its interval, if it has one, written by a format such as ``.2f``."""
    if score is None:
        return Cell(NOTHING)
    bounds = [] if score.low is None or score.high is None else [score.low, score.high]
    text, *ends = (f"{value:{spec}}".replace("-", "−") for value in (score.value, *bounds))
    return Cell(text, f"[{', '.join(ends)}]" if ends else "", score)


def axis_ends(low: float, high: float, *, metric: str, margin: float = 0.0) -> tuple[float, float]:
    """The ends of an axis around values between ``low`` and ``high``, with a share of their span as a margin.

    An axis ends at 0 where no value is on its other side, and that of fractions and correlations at ±1 likewise. Equal
    values, and such as differ by rounding alone, stand on an axis of 2 % of their size.
    """
    size = max(abs(low), abs(high)) or 1.0
    exact = (0.0, -1.0, 1.0) if metric_form(metric).is_bounded else (0.0,)
    low, high = (next((at for at in exact if abs(end - at) < 10 * _ROUNDING * size), end) for end in (low, high))
    room = margin * (high - low) if high - low > _ROUNDING * size else 0.01 * size
    least, most = low - room, high + room
    bottoms, tops = ((-1.0, 0.0), (0.0, 1.0)) if metric_form(metric).is_bounded else ((0.0, 0.0), (0.0, 0.0))
    least = max(least, *(limit if limit <= low else least for limit in bottoms))
    return least, min(most, *(limit if least < limit >= high else most for limit in tops))


@dataclass(frozen=True)
class TextCounts:
    """The counts behind the note on data and alignment, for scores that are no result rows; fields as of these."""

    task: str
    model: str
    corpus: str
    split: str
    n_items: int
    n_unknown: int | None
    n_shared: int | None
    shared_subwords: Literal["exclude", "include"] | None
    n_long: int | None
    n_repeated: int | None
    left_out: str | None


def data_of(row: ResultRow | TextCounts) -> str:
    """Corpus and split of a row."""
    return f"{row.corpus} {row.split}"


def data_notes(row: ResultRow) -> Iterator[Note]:
    """What the numbers of one model are about: the data and what of them was left out, alignment, and the model."""
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(json.loads(row.skip_reasons).items()))
    is_whole = row.group is None and row.head is None  # other rows have the items of a group or head
    counts = {
        f"{row.n_items:,} {row.param('unit', 'items')} in {row.n_clusters:,} {row.clusters}": is_whole,
        f"{row.n_classes} classes": is_whole and row.n_classes,
        f"{row.n_skipped:,} skipped" + f" ({reasons})" * bool(reasons): is_whole or row.n_skipped,
        f"{row.n_unseen_label:,} with a label unseen in training": row.n_unseen_label,
        "labels made by a program (silver)": row.annotation == "silver",
    }
    known = ", ".join(text for text, is_known in counts.items() if is_known)
    yield Note("data", f"{data_of(row)}: {known}" if known else data_of(row))
    yield from alignment_notes(row)
    pooled = f"{row.pooling} of a word's subwords" if row.pooling else ""
    if row.param("settings", {}).get("pool") == "cls":
        pooled = "the special token before the text"
    depth = "" if row.n_layers is None else f"{row.n_layers} layers"
    yield Note("model", ", ".join(filter(None, [str(row.model), depth, INITS[row.init or "pretrained"], pooled])))


def probe_of(about: ResultRow) -> Any:
    """The probe of a task; None where it is not installed here."""
    stem, _, argument = about.task.partition(":")
    try:
        entry = _PROBES.newest(f"{stem}.{about.task_version}")
        probe: Any = entry.load() if entry else None
        if hasattr(probe, "make"):  # of a family of probes that differ by what stands after the colon
            probe = probe.make(argument) if argument else probe.default
    except BertologyError:
        return None
    return probe


def measure_notes(metrics: Iterable[str], about: ResultRow | None) -> Iterator[Note]:
    """The definitions of the metrics of a table, as far as they are known."""
    stated = {name: metric.description for name, metric in METRICS.items()}
    if about is not None:
        declared = getattr(probe_of(about), "metrics", ())
        stated |= {one.name: one.description for one in declared if not isinstance(one, str)}
        stated |= about.param("measures", {})
    known = {name: stated[name] for name in dict.fromkeys(metrics) if name in stated}
    for name, description in known.items():
        yield Note(metric_title(name) if len(known) > 1 else "measure", description)


def alignment_notes(*rows: ResultRow | TextCounts) -> Iterator[Note]:
    """The note on data and alignment under a table that is made of some rows; none where nothing is known."""
    by_text: dict[str, list[str]] = {}
    for row in rows:
        if row.n_unknown is None or not row.n_items:  # such as of weights, which are no words
            continue
        treatment = {None: "", "exclude": " (left out)", "include": " (included)"}[row.shared_subwords]
        reasons = json.loads(row.left_out or "{}")
        why = f" ({', '.join(f'{reason} {number:,}' for reason, number in reasons.items())})" if reasons else ""
        text = (
            f"words with unknown subwords {row.n_unknown:,}, "
            f"sharing all subwords with another word {row.n_shared or 0:,}{treatment if row.n_shared else ''}, "
            f"in sentences over the length limit {row.n_long or 0:,}, "
            f"{'' if row.n_repeated is None else f'texts of test also in train {row.n_repeated:,}, '}"
            f"sentences left out {sum(reasons.values()):,}{why}"
        )
        by_text.setdefault(text, []).append(f"{row.task} of {row.model} on {data_of(row)}")
    named = (f"{', '.join(names)}: {text}" if len(by_text) > 1 else text for text, names in by_text.items())
    if by_text:
        yield Note("alignment", "; ".join(named))


def model_of(row: ResultRow) -> str:
    """The model of a row, and how its weights were made if not by pretraining."""
    return ", ".join(filter(None, [str(row.model), INITS[row.init or "pretrained"]]))


def brief(name: str | None) -> str:
    """A model's or corpus's name for a figure: of a local path its last part, of a long name beginning and end."""
    return shortened("+".join(map(folder_name, str(name).split("+"))), _MOST_LETTERS)


def without_folders(reading: str) -> str:
    """A readout configuration in words, its files by their last part: ``masked_lm.v1, vocabulary words.txt``."""
    return re.sub(r"(?<= )\S*/(?=\S)", "", reading)


def apart(described: Sequence[Sequence[str]]) -> list[str]:
    """The first part of each description, and those of the others that are needed to tell all of them apart.

    An empty part does not apply, such as the pooling of what reads no vectors, and sets no description apart.
    """
    return apart_in_groups([described])[0]


def apart_in_groups(groups: Sequence[Sequence[Sequence[str]]]) -> list[list[str]]:
    """The same where descriptions need to differ within each group only; all are made of the same parts."""
    kept = [0]
    for part in range(1, max((len(one) for group in groups for one in group), default=0)):
        for group in groups:
            known = {(tuple(one[k] for k in kept), one[part]) for one in group if one[part]}
            if len(known) > len({labels for labels, _ in known}):
                kept.append(part)
                break
    return [[" · ".join(one[k] for k in kept if one[k]) for one in group] for group in groups]


def layers_named(layers: Sequence[int]) -> str:
    """``layer 3``, ``layers 1 and 2``, ``layers 1, 2 and 5–9``."""
    names: list[str] = []
    for _, run in groupby(enumerate(layers), lambda at: at[1] - at[0]):  # layers in a row
        span = [layer for _, layer in run]
        names += [f"{span[0]}–{span[-1]}"] if len(span) > 2 else map(str, span)
    *first, last = names
    return f"layer{'s' * (len(layers) > 1)} {', '.join(first)}{' and ' if first else ''}{last}"


def covered(n_seeds: Sequence[int]) -> str:
    """The sampling that intervals of several tables cover, by the number of seeds of each."""
    if all(n > 1 for n in n_seeds):
        return "over seeds × test sentences"
    also = ", of tables with several seeds over seeds too" if any(n > 1 for n in n_seeds) else ""
    return f"over test sentences{also or f'; not over {SEEDS}'}"


_MARKDOWN = re.compile(r"[\\`*|]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\](?=\()|(?<!\w)_|_(?!\w)")
"""Characters that Markdown would take for HTML, emphasis, code, a link or a further column."""
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def markdown_escaped(text: str) -> str:
    """Text that Markdown shows as it stands, in one line."""
    return _MARKDOWN.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), " ".join(text.splitlines()))


_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"},
        **{STAR: r"$\star$", "·": r"$\cdot$", "−": "$-$", "–": "--"},
    }
)
_LATEX_NOTES = Template(r"""  \par\smallskip
  {\footnotesize\raggedright
  $notes
  \par}
""")


def latex_escaped(text: str) -> str:
    """Text that LaTeX sets as it stands."""
    return text.translate(_LATEX)


_RULES_ONLY = "    \n    \n ── \n    \n ── \n ── \n    \n    \n"
_STRIP_MOST, _STRIP_LEAST = 28, 12
_LEAST_NAME = 20
"""Letters of a line's label that are always shown."""
_BEST = "bold green"


def _rendered(table: Table, width: int) -> RenderableType:
    """A table for the terminal, as much of it as there is room for."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    dropped = list[str]()
    for header in table.spare:
        if _width(table) <= width - 2:
            break
        dropped += [header] if header in table.headers else []
        table = table.columns([place for place, name in enumerate(table.headers) if name != header])
    if table.series:  # shorter labels, and as many columns of the series as there is room for
        names = [shortened(line.label, max(_LEAST_NAME, width // 3)) for line in table.lines]
        if len(set(names)) == len(names):
            lines = (replace(line, label=name) for line, name in zip(table.lines, names, strict=True))
            table = replace(table, lines=tuple(lines))
        thinner = (table.thinned(most) for most in range(table.series, 1, -1))
        table = next((thin for thin in thinner if _width(thin) <= width - 2), table.thinned(1))
        more = [Note("left to the CSV", ", ".join(dropped))] if dropped else []
        table = replace(table, notes=(*table.notes, *more))
    strips = _strips(table, min(_STRIP_MOST, width - _width(table) - 6)) if table.is_drawn else ()
    notes = RichTable.grid(padding=(0, 2))
    for note in table.notes:
        notes.add_row(Text(note.about, style=_BEST if note.about == STAR else "dim"), Text(note.text, style="dim"))
    title = Text(table.title, style="bold")
    parts = [table] if strips else _abreast(table, width - 2)
    whole = [part for one in parts for part in (_rich(one, strips, folds=_width(one) > width - 2), Text())]
    return Padding(Group(title, Text(), *whole, notes), (1, 1))


def _abreast(table: Table, width: int) -> list[Table]:
    """The table, or tables of as many of its columns as fit, one below the other, so that no cell is cut."""
    ends = range(len(table.headers), 0, -1)
    end = next((end for end in ends if _width(table.columns(range(end))) <= width), min(1, len(table.headers)))
    if end in (0, len(table.headers)):
        return [table]
    end -= end > 1 and table.headers[end] == "layer"  # stays with its score
    return [table.columns(range(end)), *_abreast(table.columns(range(end, len(table.headers))), width)]


def _width(table: Table) -> int:
    from rich.console import Console

    return Console(width=1000).measure(_rich(table)).maximum


def _rich(table: Table, strips: Sequence[str] = (), *, folds: bool = False) -> RichTable:
    """The table itself, with the drawing of intervals as a last column; long labels may be folded."""
    from rich.box import Box
    from rich.table import Table as RichTable
    from rich.text import Text

    out = RichTable(box=Box(_RULES_ONLY), pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    out.add_column(table.corner.lower(), no_wrap=not folds)
    for header in table.headers:
        out.add_column(TWO_LINES.get(header, header.replace(" ", "\n")), justify="right", no_wrap=True)
    if strips:
        out.add_column("", no_wrap=True)
    for place, line in enumerate(table.lines):
        plain = "dim" if line.baseline else ""
        cells = [Text(line.label, style=_BEST if line.best and not line.baseline else plain)]
        for column, cell in enumerate(line.cells):
            best = column in line.best
            text = Text(cell.text, style=_BEST if best else plain)
            if not (table.is_drawn and column):
                text.append(f" {cell.interval}" if cell.interval else "", style="dim")
                text.append("" if table.series else f" {STAR}" if best else "  ", style=_BEST)
            cells.append(text)
        cells += [Text(strip, style=_BEST if line.best else "") for strip in strips[place : place + 1]]
        ends = place + 1 < len(table.lines) and table.lines[place + 1].baseline and not line.baseline
        out.add_row(*cells, end_section=ends)
    return out


def _strips(table: Table, room: int) -> list[str]:
    """A drawing of each line's interval, ``──●──``; none where there is no room or nothing to tell apart."""
    scores = [line.cells[0].score for line in table.lines if not line.baseline]
    bounds = [b for score in scores if score for b in (score.value, score.low, score.high) if b is not None]
    if room < _STRIP_LEAST or len(scores) < 2 or not bounds or min(bounds) == max(bounds):
        return []
    least, span, strips = min(bounds), max(bounds) - min(bounds), []
    for score in scores:
        line: list[str] = []
        if score is not None:
            ends = (score.value if bound is None else bound for bound in (score.value, score.low, score.high))
            at, low, high = (round((end - least) / span * (room - 1)) for end in ends)
            line = [" "] * low + ["─"] * (high - low + 1)
            line[at] = "●"
        strips.append("".join(line))
    return strips
