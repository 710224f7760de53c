"""How tables are written, before any format: cells, titles and notes as text; names, numbers, intervals in words."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bertology._names import folder_name
from bertology.results.tables.rows import ResultRow
from bertology.results.views.layers import INITS, LayerTable, Score

STAR = "★"
NOTHING = "–"

_TITLES = {
    "f1": "F1",
    "entity_f1": "entity F1",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    **{name: name.upper() for name in ("uuas", "uas", "las", "mrr", "cka", "rsa")},
    "rsa_spearman": "RSA of ranks",
    "divergence_bits": "Jensen–Shannon divergence, bits",
    "relative_l2": "relative L2 distance",
    "dspr": "DSpr",
    "nspr": "NSpr",
    "micro_mrr": "MRR micro",
    "micro_p_at_1": "P@1 micro",
    **{f"p_at_{most}": f"P@{most}" for most in (1, 5, 10, 100)},
}
_THREE_DECIMALS = frozenset({"dspr", "nspr", "mrr", "importance"})
_NOT_FRACTIONS = frozenset({"codelength_bits", "compression", "distance", "hulls_model", "hulls_reference"})
_NOT_FRACTIONS |= _THREE_DECIMALS
_UNITS = ("_bits", "_nats", "_words", "_dimensions", "_neighbours", "_clusters")
"""What numbers that are no fractions are counted in, as their metrics' names end."""
_FRACTIONS = frozenset({"mutual_neighbours"})
"""Fractions whose names end like a unit."""
_SMALL = 0.1
"""Numbers in units that are smaller have one more decimal."""
_MOST_LETTERS = 44
_ROUNDING = 1e-6
"""Relative differences that are smaller are not drawn."""
SEEDS = "seeds of the fit"


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


BEST_NOTE = Note(STAR, "not separable from the best layer (paired bootstrap, Benjamini–Hochberg q < .05)")


@dataclass(frozen=True)
class Grid:
    """A table of text."""

    title: str
    headers: tuple[str, ...]
    lines: tuple[GridLine, ...]
    notes: tuple[Note, ...]
    corner: str = "Layer"

    def columns(self, kept: Sequence[int]) -> Grid:
        """The same table with some of its columns."""
        lines = (
            replace(
                line,
                cells=tuple(line.cells[place] for place in kept),
                best=frozenset(number for number, place in enumerate(kept) if place in line.best),
            )
            for line in self.lines
        )
        return replace(self, headers=tuple(self.headers[place] for place in kept), lines=tuple(lines))


def metric_title(metric: str) -> str:
    """A metric's name as one writes it in text."""
    name, space, which = metric.partition(" ")
    return _TITLES.get(name, name.replace("_", " ")) + space + which


def is_fraction(metric: str) -> bool:
    """Whether a metric is shown in percent."""
    return metric not in _NOT_FRACTIONS and not _in_units(metric)


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


def axis_ends(low: float, high: float, *, metric: str, margin: float = 0.0) -> tuple[float, float]:
    """The ends of an axis around values between ``low`` and ``high``, with a share of their span as a margin.

    An axis ends at 0 where no value is on its other side, and that of fractions and correlations at ±1 likewise. Equal
    values, and such as differ by rounding alone, stand on an axis of 2 % of their size.
    """
    size = max(abs(low), abs(high)) or 1.0
    low, high = (0.0 if abs(end) < _ROUNDING * size else end for end in (low, high))
    room = margin * (high - low) if high - low > _ROUNDING * size else 0.01 * size
    least, most = low - room, high + room
    bottoms, tops = ((-1.0, 0.0), (0.0, 1.0)) if is_bounded(metric) else ((0.0, 0.0), (0.0, 0.0))
    least = max(least, *(limit if limit <= low else least for limit in bottoms))
    return least, min(most, *(limit if least < limit >= high else most for limit in tops))


def is_bounded(metric: str) -> bool:
    """Whether a metric is a fraction or a correlation, which ends at ±1."""
    return is_fraction(metric) or metric in _THREE_DECIMALS


def _in_units(metric: str) -> bool:
    return metric.endswith(_UNITS) and metric not in _NOT_FRACTIONS | _FRACTIONS


def interval_of(score: Score | None, metric: str) -> str:
    """``[91.4, 92.5]``; empty where a score has no interval."""
    if score is None or score.low is None or score.high is None:
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


def data_of(row: ResultRow | TextCounts) -> str:
    """Corpus and split of a row."""
    return f"{row.corpus} {row.split}"


@dataclass(frozen=True)
class TextCounts:
    """What the line on data and alignment is made of, for scores that are no result rows; fields as of these."""

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


def alignment_notes(*rows: ResultRow | TextCounts) -> Iterator[Note]:
    """The line on data and alignment under a table that is made of some rows; none where nothing is known."""
    by_text: dict[str, list[str]] = {}
    for row in rows:
        if text := _alignment(row):
            by_text.setdefault(text, []).append(f"{row.task} of {row.model} on {data_of(row)}")
    named = (f"{', '.join(names)}: {text}" if len(by_text) > 1 else text for text, names in by_text.items())
    if by_text:
        yield Note("alignment", "; ".join(named))


def _alignment(row: ResultRow | TextCounts) -> str:
    """What there is to know of how the texts behind a row align with subwords and splits."""
    if row.n_unknown is None or not row.n_items:  # such as of weights, which are no words
        return ""
    treatment = {None: "", "exclude": " (left out)", "include": " (included)"}[row.shared_subwords]
    reasons = json.loads(row.left_out or "{}")
    parts = [
        f"words with unknown subwords {row.n_unknown:,}",
        f"sharing all subwords {row.n_shared or 0:,}{treatment if row.n_shared else ''}",
        f"in sentences over the length limit {row.n_long or 0:,}",
    ]
    if row.n_repeated is not None:
        parts.append(f"texts of test also in train {row.n_repeated:,}")
    why = f" ({', '.join(f'{reason} {number:,}' for reason, number in reasons.items())})" if reasons else ""
    return ", ".join([*parts, f"sentences left out {sum(reasons.values()):,}{why}"])


def model_of(row: ResultRow) -> str:
    """The model of a row, and how its weights were made if not by pretraining."""
    return ", ".join(filter(None, [str(row.model), INITS[row.init or "pretrained"]]))


def table_title(table: LayerTable, what: str) -> str:
    """``pos · accuracy by layer, %``, with the readout where one task was read in several ways."""
    reading = f" · {table.reading}" if table.one_of_several else ""
    return f"{table.task}{what} · {metric_title(table.metric)} by layer{unit(table.metric)}{reading}"


def brief(name: str | None) -> str:
    """A model's or corpus's name for a figure: of a local path its last part, of a long name beginning and end."""
    return shortened("+".join(map(folder_name, str(name).split("+"))), _MOST_LETTERS)


def without_folders(reading: str) -> str:
    """A readout configuration in words, its files by their last part: ``masked_lm.v1, vocabulary words.txt``."""
    return re.sub(r"(?<= )\S*/(?=\S)", "", reading)


def shortened(text: str, most: int) -> str:
    """A text of at most ``most`` letters, cut in its middle: beginnings and ends tell names apart."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def named(rows: Sequence[ResultRow], names: Mapping[str, str]) -> tuple[ResultRow, ...]:
    """The rows with their models called by :func:`short_names`."""

    def renamed(row: ResultRow) -> ResultRow:
        # Nothing but a text changes: to check all fields again takes far longer where rows are many.
        other = copy.copy(row)
        object.__setattr__(other, "model", names[str(row.model)])
        return other

    return tuple(row if names.get(row.model or "", row.model) == row.model else renamed(row) for row in rows)


def apart(described: Sequence[Sequence[str]]) -> list[str]:
    """Of each description the first part, and those of the others that are needed to tell all of them apart.

    An empty part does not apply, such as the pooling of what reads no vectors, and sets no description apart.
    """
    return apart_in_groups([described])[0]


def apart_in_groups(groups: Sequence[Sequence[Sequence[str]]]) -> list[list[str]]:
    """The same where descriptions need to differ within each group only; all are made of the same parts."""
    kept = [0]
    for part in range(1, max((len(one) for group in groups for one in group), default=0)):
        for group in groups:
            known = [one for one in group if one[part]]
            labels = {tuple(one[k] for k in kept) for one in known}
            more = {tuple(one[k] for k in (*kept, part)) for one in known}
            if len(more) > len(labels):
                kept.append(part)
                break
    return [[" · ".join(one[k] for k in kept if one[k]) for one in group] for group in groups]


def layers_named(layers: Sequence[int]) -> str:
    """``layer 3``, ``layers 1 and 2``, ``layers 1, 2 and 5–9``."""
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][-1] + 1:
            spans[-1].append(layer)
        else:
            spans.append([layer])
    names: list[str] = []
    for span in spans:
        names += [f"{span[0]}–{span[-1]}"] if len(span) > 2 else map(str, span)
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"layer{'s' * (len(layers) > 1)} {listed}"


def covered(n_seeds: Sequence[int]) -> str:
    """What the intervals of several tables are over, by how many seeds their scores are means of."""
    if all(n > 1 for n in n_seeds):
        return "over seeds × test sentences"
    also = ", of tables with several seeds over seeds too" if any(n > 1 for n in n_seeds) else ""
    return f"over test sentences{also or f'; not over {SEEDS}'}"
