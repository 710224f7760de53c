"""What lies behind one table: scores by label, confusions, and the words that one layer got wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import count_labels, label_scores
from bertology.results._predictions import Predictions
from bertology.results._tree_items import tally_of, tree_items
from bertology.results.report._layers import NoDetailsError, chosen_items, kept_predictions, own_rows, wrong_right
from bertology.results.report._runs import Entry
from bertology.results.report._text import SentenceTexts

MOST_LABELS = 200
"""Labels whose scores are listed."""
MOST_CONFUSED = 20
"""Labels that have a row and column of their own in the confusion matrix."""
MOST_ITEMS = 3000
"""Wrong items listed of one table."""
ALL_PREDICTIONS = 150_000
"""Predictions of wrong items listed, of all layers of all tables together, but of each table ``LEAST_ITEMS`` items."""
LEAST_ITEMS = 200


@dataclass(frozen=True)
class Layers:
    """The predictions of all layers of one table, on the same items."""

    layers: tuple[int, ...]
    item_ids: Sequence[str]
    labels: tuple[str, ...]
    """The most frequent gold label first."""
    gold: NDArray[np.int64]
    """``[item]`` place in ``labels``"""
    pred: NDArray[np.int64]
    """``[layer, item]`` place in ``labels``"""

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """``[layer, item]`` whether the prediction is not the gold label."""
        return np.asarray(self.pred != self.gold[None])


def details_of(entry: Entry, texts: SentenceTexts, sentences: list[str], *, most_items: int) -> dict[str, Any]:
    """All that the page shows of single labels and items of one table, as plain values.

    Args:
        entry: the table and its run.
        texts: where sentences are found.
        sentences: all that the page holds; those needed here are added.
        most_items: how many wrong items to list.
    """
    try:
        found = _layers(entry)
    except NoDetailsError as reason:
        return {"missing": str(reason)}
    about = entry.table.about
    scores = _label_scores(found)
    items = chosen_items(found.wrong, most_items)
    return {
        "layers": list(found.layers),
        "labels": list(found.labels),
        "nItems": len(found.gold),
        "perLabel": scores,
        "confusion": _confusions(found),
        "confused": min(MOST_CONFUSED, len(found.labels)),
        "wrongRight": wrong_right(found.wrong),
        "nWrong": int(found.wrong.any(axis=0).sum()),
        **_items(found, items, entry, texts, sentences),
        "seed": min((row.seed for row in own_rows(entry) if row.seed is not None), default=None),
        "noText": "" if texts.of(about.corpus_fingerprint, about.split) else texts.reason(about.corpus_fingerprint),
    }


def _layers(entry: Entry) -> Layers:
    layers, predictions = kept_predictions(entry)
    if (tally := tally_of(entry.table.metric)) != "labels":
        predictions = [tree_items(found, tally) for found in predictions]
    return _by_frequency(layers, predictions)


def _by_frequency(layers: tuple[int, ...], predictions: Sequence[Predictions]) -> Layers:
    """Predictions whose labels are numbered alike, the most frequent gold label first."""
    names = sorted({label for found in predictions for label in found.labels})
    place = {name: number for number, name in enumerate(names)}

    def coded(found: Predictions, column: NDArray[np.integer]) -> NDArray[np.int64]:
        codes: NDArray[np.int64] = np.array([place[label] for label in found.labels], dtype=np.int64)[column]
        return codes

    gold = coded(predictions[0], predictions[0].gold)
    pred = np.stack([coded(found, found.pred) for found in predictions])
    order = np.argsort(-np.bincount(gold, minlength=len(names)), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    labels = tuple(names[number] for number in order)
    return Layers(layers, predictions[0].item_ids, labels, rank[gold], rank[pred])


def _label_scores(found: Layers) -> dict[str, Any]:
    """Precision, recall and F1 of each label by layer, at most ``MOST_LABELS`` labels; null where undefined."""
    n_labels = len(found.labels)
    together = np.zeros(len(found.gold), dtype=np.int64)
    scores = []
    for pred in found.pred:
        # One layer at a time: many labels make the counts of all layers large.
        counts = count_labels(found.gold, pred[None], together, n_labels=n_labels, n_clusters=1)
        scores.append(label_scores(counts[0, 0]))
    support = np.bincount(found.gold, minlength=n_labels)[:MOST_LABELS]
    return {
        "support": support.tolist(),
        **{
            name: [_rounded(getattr(score, name)[:MOST_LABELS]) for score in scores]
            for name in ("precision", "recall", "f1")
        },
    }


def _rounded(values: NDArray[np.floating]) -> list[float | None]:
    return [round(float(value), 4) if np.isfinite(value) else None for value in values]


def _confusions(found: Layers) -> list[list[list[int]]]:
    """For each layer ``[gold, predicted, count]`` of all pairs that occur; rare labels are one, the last."""
    size = min(MOST_CONFUSED, len(found.labels)) + 1
    gold = np.minimum(found.gold, size - 1)
    matrices = []
    for pred in np.minimum(found.pred, size - 1):
        pairs = np.bincount(gold * size + pred, minlength=size * size)
        matrices.append([[int(p) // size, int(p) % size, int(pairs[p])] for p in np.flatnonzero(pairs)])
    return matrices


def _items(
    found: Layers, chosen: NDArray[np.int64], entry: Entry, texts: SentenceTexts, sentences: list[str]
) -> dict[str, Any]:
    """The chosen items by column: id, gold label, predicted labels by layer, and where its spans stand."""
    about = entry.table.about
    split = texts.of(about.corpus_fingerprint, about.split)
    numbers = {text: number for number, text in enumerate(sentences)}
    places: list[list[int] | None] = []
    for item in chosen.tolist():
        where = split.find(found.item_ids[item]) if split else None
        if where is None:
            places.append(None)
            continue
        text, spans = where
        if text not in numbers:
            numbers[text] = len(sentences)
            sentences.append(text)
        places.append([numbers[text], *(_utf16(text[:edge]) for span in spans for edge in span)])
    return {
        "ids": [found.item_ids[item] for item in chosen.tolist()],
        "gold": found.gold[chosen].tolist(),
        "pred": found.pred[:, chosen].tolist(),
        "places": places,
    }


def _utf16(text: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def item_budget(n_layers: int) -> int:
    """How many wrong items each table may list, of tables that have so many layers together."""
    return max(LEAST_ITEMS, min(MOST_ITEMS, ALL_PREDICTIONS // max(1, n_layers)))
