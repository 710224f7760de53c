"""Models side by side: the score of each at each layer, and which of them cannot be told from the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bertology._names import short_names
from bertology.errors import ResultsError
from bertology.measures.comparisons import best_set
from bertology.results.tables.rows import ComparisonRow, ResultRow, comparison_of, reading_of
from bertology.results.views.layers import FALSE_DISCOVERY_RATE, mean_score

if TYPE_CHECKING:
    import pandas as pd


def model_frame(rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow]) -> pd.DataFrame:
    """A line for each model at each layer, and at its best layer, of all tasks whose models were compared.

    Columns are ``task``, ``corpus``, ``metric``, ``at`` (``layer 3``, or ``best layer``), ``layer``, ``model``,
    ``value``, ``ci_low`` and ``ci_high`` (of all its items; fractions), and ``in_best_set``: whether the model is not
    separable from the best one there (``p_adj`` of at least 0.05).

    Raises:
        ResultsError: no models were compared.
    """
    import pandas as pd

    by_cell: dict[str, list[ResultRow]] = {}
    for row in rows:
        if row.main_metric and row.control == "none" and row.group is None and row.value is not None and row.model:
            by_cell.setdefault(row.cell_id, []).append(row)
    names = short_names(row.model for row in rows)
    lines: list[dict[str, Any]] = []
    # Comparisons of two models, both of which are here.
    of_models = [
        row for row in comparisons if ": models at " in row.family and by_cell.keys() >= {row.cell_a, row.cell_b}
    ]
    for family in dict.fromkeys(row.family for row in of_models):
        of_family = [row for row in comparisons if row.family == family]
        is_best = ": models at their best layers " in family
        layers = [None] if is_best else sorted({row.layer_a for row in of_family if row.layer_a is not None})
        for layer in layers:
            pairs = [row for row in of_family if layer in (None, row.layer_a)]
            lines += _lines(pairs, by_cell, rows, names, at="best layer" if is_best else f"layer {layer}")
    if not lines:
        raise ResultsError("no models were compared; give several to probe(model=…), or call bertology.compare_models")
    return pd.DataFrame(lines)


def _lines(
    pairs: Sequence[ComparisonRow],
    by_cell: dict[str, list[ResultRow]],
    rows: Sequence[ResultRow],
    names: dict[str, str],
    *,
    at: str,
) -> Iterator[dict[str, Any]]:
    cells = list(dict.fromkeys(cell for row in pairs for cell in (row.cell_a, row.cell_b)))
    firsts = [by_cell[cell][0] for cell in cells]
    scores = [mean_score(_runs(first, rows)) for first in firsts]
    column = {cell: number for number, cell in enumerate(cells)}
    compared = [comparison_of(row, column[row.cell_a], column[row.cell_b]) for row in pairs]
    values = [float("nan") if score is None else score.value for score in scores]
    better = firsts[0].higher_is_better
    inside = best_set(values, compared, q=FALSE_DISCOVERY_RATE, higher_is_better=better)
    for first, score, is_inside in zip(firsts, scores, inside.tolist(), strict=True):
        assert score is not None  # as these rows have values
        about = {"task": first.task, "corpus": first.corpus, "metric": first.metric, "at": at, "layer": first.layer}
        interval = {"value": score.value, "ci_low": score.low, "ci_high": score.high}
        yield {**about, "model": names[str(first.model)], **interval, "in_best_set": is_inside}


def _runs(first: ResultRow, rows: Sequence[ResultRow]) -> list[ResultRow]:
    """The rows of the same score under all seeds."""
    fields = ("task", "corpus_fingerprint", "split", "model", "init", "pooling", "layer", "metric", "control", "group")

    def key(row: ResultRow) -> tuple[Any, ...]:
        return tuple(getattr(row, name) for name in fields)

    return [row for row in rows if key(row) == key(first) and reading_of(row) == reading_of(first)]
