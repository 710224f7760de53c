"""Predicted trees as items one can count: an edge by its length, an arc by its relation, a sentence by its root."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bertology.measures import METRICS, RELATION, UNSCORED, CountKind, read_edges, read_root
from bertology.results._predictions import Predictions

_LONGEST = 8
_NOT_FOUND = "not found"
_Item = tuple[str, str, str]
"""Words of a sentence, counted from 1; what is true of them; what is predicted."""


def tally_of(metric: str) -> CountKind:
    """What a metric counts; of one that is not registered, labels."""
    return METRICS[metric].count_kind if metric in METRICS else "labels"


def tree_items(predictions: Predictions, tally: CountKind) -> Predictions:
    """The parts of predicted trees, each an item with a label.

    Args:
        predictions: whole sentences, trees written as text.
        tally: ``edges`` become items labelled by how many words they reach (those of gold, punctuation left out);
            ``arcs`` words labelled by their relation, found if head and relation are right; ``roots`` the sentences'
            roots.
    """
    parts = {"edges": _edges, "arcs": _arcs, "roots": _roots}[tally]
    labels: dict[str, int] = {}
    ids, cluster, gold, pred = [], [], [], []
    for item, sentence in enumerate(predictions.item_ids):
        name = sentence.rpartition(":")[0]
        true, found = (predictions.labels[int(codes[item])] for codes in (predictions.gold, predictions.pred))
        for words, label, predicted in parts(true, found):
            ids.append(f"{name}:{words}")
            cluster.append(int(predictions.cluster[item]))
            gold.append(labels.setdefault(label, len(labels)))
            pred.append(labels.setdefault(predicted, len(labels)))
    columns = (np.array(values, dtype=np.int64) for values in (cluster, gold, pred))
    of_cluster, true_codes, found_codes = columns
    score = np.full(len(ids), np.nan)
    return Predictions(ids, of_cluster, predictions.cluster_ids, true_codes, found_codes, score, tuple(labels))


def length_label(n_words: int) -> str:
    """What edges that reach ``n_words`` words are called."""
    return f"{_LONGEST} words or more" if n_words >= _LONGEST else f"{n_words} word{'s' * (n_words > 1)}"


def _edges(true: str, found: str) -> Iterator[_Item]:
    there = read_edges(found)
    for first, last in sorted(read_edges(true)):
        label = length_label(last - first)
        yield f"{first + 1},{last + 1}", label, label if (first, last) in there else _NOT_FOUND


def _arcs(true: str, found: str) -> Iterator[_Item]:
    for word, (mark, other) in enumerate(zip(true.split(" "), found.split(" "), strict=True), start=1):
        if mark != UNSCORED:
            head, _, relation = mark.partition(RELATION)
            predicted, _, named = other.partition(RELATION)
            yield str(word), relation, named if predicted == head else _NOT_FOUND


def _roots(true: str, found: str) -> Iterator[_Item]:
    marks = true.split(" ")
    if "0" in marks:
        root = marks.index("0")
        yield str(root + 1), "root", "root" if read_root(found) == root else _NOT_FOUND
