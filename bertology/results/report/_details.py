"""What lies behind one table: predictions of all layers, scores by label, confusions, items that are wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import count_labels, label_scores
from bertology.results.report._runs import Entry
from bertology.results.report._text import SentenceTexts, SplitText
from bertology.results.tables.predictions import Predictions
from bertology.results.tables.rows import ResultRow, reading_of
from bertology.results.views.frames import tally_of, tree_items
from bertology.results.views.layers import Score

_OF_A_PAIR = 12
"""Items listed of each pair of layers, at least, that one has wrong and the other right."""
MOST_LABELS = 200
"""Labels whose scores are listed."""
MOST_CONFUSED = 20
"""Labels that have a row and column of their own in the confusion matrix."""
MOST_ITEMS = 3000
"""Wrong items listed of one table."""
ALL_PREDICTIONS = 150_000
"""Predictions of wrong items listed, of all layers of all tables together, but of each table ``LEAST_ITEMS`` items."""
LEAST_ITEMS = 200


class NoDetailsError(Exception):
    """There are no predictions of single items to show; caught where details are made."""


def _own_rows(entry: Entry) -> list[ResultRow]:
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


def kept_predictions(entry: Entry) -> tuple[tuple[int, ...], list[Predictions], int | None]:
    """The layers whose predictions were kept, these of the lowest seed, and that seed.

    Raises:
        NoDetailsError: there are none, or not of the same items.
    """
    rows = _own_rows(entry)
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
    return layers, predictions, seed


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


def details_of(entry: Entry, texts: SentenceTexts, sentences: dict[str, int], *, most_items: int) -> dict[str, Any]:
    """All that the page shows of single labels and items of one table, as plain values.

    Args:
        entry: the table and its run.
        texts: where sentences are found.
        sentences: all that the page holds, with their numbers; those needed here are added.
        most_items: how many wrong items to list.
    """
    try:
        layers, predictions, seed = kept_predictions(entry)
    except NoDetailsError as reason:
        return {"missing": str(reason)}
    if (tally := tally_of(entry.table.metric)) != "labels":
        predictions = [tree_items(one, tally) for one in predictions]
    labels, gold, pred = _by_frequency(predictions)
    wrong = np.asarray(pred != gold[None])
    chosen = chosen_items(wrong, most_items)
    ids = [predictions[0].item_ids[item] for item in chosen.tolist()]
    corpus, split = entry.table.about.corpus_fingerprint, entry.table.about.split
    text = texts.of(corpus, split)
    return {
        "layers": list(layers),
        "labels": labels,
        "nItems": len(gold),
        "perLabel": _label_scores(gold, pred, len(labels)),
        "confusion": _confusions(gold, pred, len(labels)),
        "confused": min(MOST_CONFUSED, len(labels)),
        "wrongRight": wrong_right(wrong),
        "nWrong": int(wrong.any(axis=0).sum()),
        "ids": ids,
        "gold": gold[chosen].tolist(),
        "pred": pred[:, chosen].tolist(),
        "places": [_place(text, item, sentences) for item in ids],
        "seed": seed,
        "noText": "" if text else texts.reason(corpus),
    }


def _by_frequency(predictions: Sequence[Predictions]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """The labels, the most frequent gold label first; ``[item]`` gold and ``[layer, item]`` predicted ones."""
    names = sorted({label for one in predictions for label in one.labels})
    place = {name: number for number, name in enumerate(names)}

    def coded(one: Predictions, column: NDArray[np.integer]) -> NDArray[np.int64]:
        codes: NDArray[np.int64] = np.array([place[label] for label in one.labels], dtype=np.int64)[column]
        return codes

    gold = coded(predictions[0], predictions[0].gold)
    pred = np.stack([coded(one, one.pred) for one in predictions])
    order = np.argsort(-np.bincount(gold, minlength=len(names)), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return [names[number] for number in order], rank[gold], rank[pred]


def _label_scores(gold: NDArray[np.int64], pred: NDArray[np.int64], n_labels: int) -> dict[str, Any]:
    """Precision, recall and F1 of each label by layer, at most ``MOST_LABELS`` labels; null where undefined."""
    together = np.zeros(len(gold), dtype=np.int64)
    scores = []
    for of_layer in pred:
        # One layer at a time: many labels make the counts of all layers large.
        counts = count_labels(gold, of_layer[None], together, n_labels=n_labels, n_clusters=1)
        scores.append(label_scores(counts[0, 0]))
    support = np.bincount(gold, minlength=n_labels)[:MOST_LABELS]
    named = {
        name: [rounded(getattr(score, name)[:MOST_LABELS]) for score in scores]
        for name in ("precision", "recall", "f1")
    }
    return {"support": support.tolist(), **named}


def rounded(values: Iterable[float | None], digits: int = 4) -> list[float | None]:
    """Numbers as the page holds them; null where there is none."""
    return [None if value is None or not np.isfinite(value) else round(float(value), digits) for value in values]


def rounded_score(score: Score | None) -> list[float | None] | None:
    """Value, lower and upper bound."""
    return None if score is None else rounded((score.value, score.low, score.high), digits=6)


def _confusions(gold: NDArray[np.int64], pred: NDArray[np.int64], n_labels: int) -> list[list[list[int]]]:
    """For each layer ``[gold, predicted, count]`` of all pairs that occur; rare labels are one, the last."""
    size = min(MOST_CONFUSED, n_labels) + 1
    shown, matrices = np.minimum(gold, size - 1), []
    for of_layer in np.minimum(pred, size - 1):
        pairs = np.bincount(shown * size + of_layer, minlength=size * size)
        matrices.append([[int(p) // size, int(p) % size, int(pairs[p])] for p in np.flatnonzero(pairs)])
    return matrices


def _place(split: SplitText | None, item: str, sentences: dict[str, int]) -> list[int] | None:
    """The number of an item's sentence, and where its spans begin and end in it; None where that is not known."""
    where = split.find(item) if split else None
    if where is None:
        return None
    text, spans = where
    number = sentences.setdefault(text, len(sentences))
    return [number, *(_utf16(text[:edge]) for span in spans for edge in span)]


def _utf16(text: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def item_budget(n_layers: int) -> int:
    """How many wrong items each table may list, of tables that have so many layers together."""
    return max(LEAST_ITEMS, min(MOST_ITEMS, ALL_PREDICTIONS // max(1, n_layers)))
