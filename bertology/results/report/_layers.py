"""The predictions of all layers behind one table, and which of their mistakes to list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertology.results._predictions import Predictions
from bertology.results._rows import ResultRow, reading_of
from bertology.results.report._runs import Entry

_OF_A_PAIR = 12


class NoDetailsError(Exception):
    """Why nothing can be told of single items; caught where details are made."""


def own_rows(entry: Entry) -> list[ResultRow]:
    """The rows of a table's own scores, without its controls."""
    about = entry.table.about
    same = ("task", "corpus_fingerprint", "split", "model", "init", "pooling", "head")
    return [
        row
        for row in entry.run.results.rows
        if row.control == "none"
        and row.layer is not None
        and row.status == "ok"
        and all(getattr(row, name) == getattr(about, name) for name in same)
        and reading_of(row) == entry.table.reading
    ]


def kept_predictions(entry: Entry) -> tuple[tuple[int, ...], list[Predictions]]:
    """The layers whose predictions were kept, and these, of the lowest seed.

    Raises:
        NoDetailsError: there are none, or not of the same items.
    """
    rows = own_rows(entry)
    seed = min((row.seed for row in rows if row.seed is not None), default=None)
    cells = {row.layer: row.cell_id for row in rows if row.seed == seed and row.layer is not None}
    kept = entry.run.results.predictions
    layers = tuple(sorted(layer for layer, cell in cells.items() if cell in kept))
    if not layers:
        raise NoDetailsError("the run kept no predictions of single items")
    predictions = [kept[cells[layer]] for layer in layers]
    first = list(predictions[0].item_ids)
    if any(list(other.item_ids) != first for other in predictions[1:]):
        raise NoDetailsError("the layers were not scored on the same items")
    return layers, predictions


def wrong_right(wrong: NDArray[np.bool_]) -> list[list[int]]:
    """How many items each layer (rows) got wrong that another (columns) got right; on the diagonal all its mistakes."""
    as_numbers = wrong.astype(np.int64)
    counts = as_numbers @ (1 - as_numbers).T
    np.fill_diagonal(counts, as_numbers.sum(axis=1))
    plain: list[list[int]] = counts.tolist()
    return plain


def chosen_items(wrong: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
    """Items that some layer got wrong; of more than ``most`` some for every pair of layers, the rest evenly."""
    candidates = np.flatnonzero(wrong.any(axis=0))
    if len(candidates) <= most:
        return candidates
    chosen: set[int] = set()
    for a in wrong:
        for b in wrong:
            chosen.update(_evenly(np.flatnonzero(a & ~b), _OF_A_PAIR).tolist())
    if len(chosen) < most:
        rest = np.setdiff1d(candidates, list(chosen))
        chosen.update(_evenly(rest, most - len(chosen)).tolist())
    return np.sort(_evenly(np.array(sorted(chosen), dtype=np.int64), most))


def _evenly(places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).round().astype(np.int64)]
