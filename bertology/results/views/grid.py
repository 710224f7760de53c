"""A table as text in cells, before any format: cells, titles, notes, and how numbers are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bertology.results.tables.rows import ResultRow
from bertology.results.views.layers import INITS, LayerTable, Score

STAR = "★"
NOTHING = "–"

_TITLES = {
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "uuas": "UUAS",
    "uas": "UAS",
    "las": "LAS",
    "dspr": "DSpr",
    "nspr": "NSpr",
    "mrr": "MRR",
    "micro_mrr": "MRR micro",
    "micro_p_at_1": "P@1 micro",
    **{f"p_at_{most}": f"P@{most}" for most in (1, 5, 10, 100)},
}
_THREE_DECIMALS = frozenset({"dspr", "nspr", "mrr", "importance"})
_NOT_FRACTIONS = frozenset({"codelength_bits", "compression", "distance"}) | _THREE_DECIMALS
_UNITS = ("_bits", "_nats", "_words")
"""What numbers that are no fractions are counted in, as their metrics' names end."""
_SMALL = 0.1
"""Numbers in units that are smaller have one more decimal."""


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
class GridLine:
    """A row of cells."""

    label: str
    cells: tuple[Cell, ...]
    best: frozenset[int] = frozenset()
    """Which cells are in the best set of their column."""
    baseline: bool = False


@dataclass(frozen=True)
class Note:
    """A line below the table: its subject and its text."""

    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}{' ' if self.about == STAR else ': '}{self.text}"


@dataclass(frozen=True)
class Grid:
    """A table of text."""

    title: str
    headers: tuple[str, ...]
    """One a cell."""
    lines: tuple[GridLine, ...]
    notes: tuple[Note, ...]
    corner: str = "Layer"
    """The header of the labels."""

    def columns(self, kept: Sequence[int]) -> Grid:
        """The same table with some of its columns."""
        lines = tuple(
            replace(
                line,
                cells=tuple(line.cells[place] for place in kept),
                best=frozenset(number for number, place in enumerate(kept) if place in line.best),
            )
            for line in self.lines
        )
        return replace(self, headers=tuple(self.headers[place] for place in kept), lines=lines)


def metric_title(metric: str) -> str:
    """A metric's name as one writes it in text."""
    name, space, which = metric.partition(" ")
    return _TITLES.get(name, name.replace("_", " ")) + space + which


def layer_label(layer: int) -> str:
    """A layer's number; layer 0 is marked as the embeddings."""
    return "0 · embeddings" if layer == 0 else str(layer)


def is_fraction(metric: str) -> bool:
    """Whether a metric is shown in percent."""
    return metric not in _NOT_FRACTIONS and not metric.endswith(_UNITS)


def unit(metric: str) -> str:
    """What titles have after a metric: ``, %`` of a fraction."""
    return ", %" if is_fraction(metric) else ""


def number(value: float, *, metric: str = "accuracy") -> str:
    """A value with one decimal, in percent if the metric is a fraction; a correlation with three, bits with two."""
    shown = decimals(metric) + (_in_units(metric) and abs(value) < _SMALL)
    text = f"{100 * value if is_fraction(metric) else value:.{shown}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def decimals(metric: str) -> int:
    """How many a metric is shown with."""
    return 2 if _in_units(metric) else 3 if metric in _THREE_DECIMALS else 1


def _in_units(metric: str) -> bool:
    return metric.endswith(_UNITS) and metric not in _NOT_FRACTIONS


def interval_of(score: Score, metric: str) -> str:
    """``[91.4, 92.5]``; empty where a score has no interval."""
    if score.low is None or score.high is None:
        return ""
    return f"[{number(score.low, metric=metric)}, {number(score.high, metric=metric)}]"


def score_cell(score: Score | None, metric: str, *, interval: bool = True) -> Cell:
    """A score as text, with its interval if it has one and ``interval`` is true."""
    if score is None:
        return Cell(NOTHING)
    return Cell(number(score.value, metric=metric), interval_of(score, metric) if interval else "", score)


def count_cell(items: int) -> Cell:
    """A number of items."""
    return Cell(f"{items:,}", score=Score(items))


def data_of(row: ResultRow) -> str:
    """Corpus and split of a row."""
    return f"{row.corpus} {row.split}"


def model_of(row: ResultRow) -> str:
    """The model of a row, and how its weights were made if not by pretraining."""
    return ", ".join(filter(None, [str(row.model), INITS[row.init or "pretrained"]]))


def table_title(table: LayerTable, what: str) -> str:
    """``pos · accuracy by layer, %``, with the readout where one task was read in several ways."""
    reading = f" · {table.reading}" if table.one_of_several else ""
    return f"{table.task}{what} · {metric_title(table.metric)} by layer{unit(table.metric)}{reading}"


BEST_NOTE = Note(STAR, "not separable from the best layer (paired bootstrap, Benjamini–Hochberg q < .05)")
