"""The rows that a person means by the scores of a task, as a data frame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bertology._names import short_names
from bertology.results._names import named
from bertology.results._rows import ResultRow, reading_of, sort_key
from bertology.results._view import mean_score, own_init

if TYPE_CHECKING:
    import pandas as pd

_KEY = ("task", "corpus", "split", "model", "pooling", "readout", "layer", "metric")
_TYPES = {"layer": "Int64", "n_items": "int64", "n_seeds": "int64"} | dict.fromkeys(
    ("value", "ci_low", "ci_high"), "float64"
)


def score_frame(rows: Sequence[ResultRow]) -> pd.DataFrame:
    """:meth:`Results.scores`."""
    import pandas as pd

    ours = [row for row in rows if _is_score(row)]
    asked: dict[tuple[str, str | None], list[ResultRow]] = defaultdict(list)
    for row in ours:
        asked[row.task, row.model].append(row)
    init = {question: own_init(of_one) for question, of_one in asked.items()}
    cells: dict[tuple[Any, ...], list[ResultRow]] = defaultdict(list)
    for row in named(sorted(ours, key=sort_key), names := short_names(row.model for row in rows)):
        cells[tuple(reading_of(row) if name == "readout" else getattr(row, name) for name in _KEY)].append(row)
    full = {short: name for name, short in names.items()}
    frame = []
    for key, found in cells.items():
        own = [row for row in found if row.init == init[row.task, full[str(row.model)]]]
        score = mean_score(own)
        if score is not None:
            counts = {"n_items": own[0].n_items, "n_seeds": len({row.seed for row in own})}
            bounds = {"value": score.value, "ci_low": score.low, "ci_high": score.high}
            frame.append({**dict(zip(_KEY, key, strict=True)), **bounds, **counts})
    return pd.DataFrame(frame, columns=[*_KEY, "value", "ci_low", "ci_high", "n_items", "n_seeds"]).astype(_TYPES)


def _is_score(row: ResultRow) -> bool:
    """Whether a row is a score of a task itself, of all its items: no control, no baseline, no head, no group."""
    whole = row.model is not None and row.head is None and row.group is None
    scored = row.status == "ok" and row.value is not None
    return whole and scored and row.control == "none" and row.metric != "selectivity"
