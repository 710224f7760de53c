"""Metrics of trees predicted from vectors, as the papers define them (Hewitt & Manning 2019, section 4.2).

A sentence is one item. Its tree is written as text, a mark for each word separated by spaces: the number of its head
(``2 0 2 _``), head and relation (``2:nsubj 0:root 2:obj _``), or its depth (``1.02 0.1 1.3 _``); ``_`` marks words that
are not scored, which are punctuation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures._metric import Bounds, CountKind, Floats, Metric, ratio, ratio_of_sums
from bertology.measures._trees import Edge, tree_edges

UNSCORED = "_"
"""The mark of a word that is not scored."""
RELATION = ":"
"""Separates a head and the relation to it; relations may contain it as well."""
CORRELATED_LENGTHS = (5, 50)
"""Lengths of sentences, in words, over which correlations are averaged (section 4.2)."""
_SENTENCES, _CORRELATION = 2, 3


def count_trees(
    gold: NDArray[np.integer[Any]],
    pred: NDArray[np.integer[Any]],
    marks: Sequence[str],
    correlation: NDArray[np.floating[Any]],
    *,
    count_kind: CountKind,
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Counts for metrics of trees, by sentence and length.

    Args:
        gold: ``[sentence]`` the true tree, as a place in ``marks``.
        pred: ``[layer, sentence]`` the predicted tree.
        marks: the texts.
        correlation: ``[layer, sentence]`` Spearman's correlation of predicted and true distances or depths, over all
            words of the sentence; NaN where a sentence has none.
        count_kind: ``edges`` without direction, ``roots``, or ``arcs`` with direction and relation.

    Returns:
        ``[layer, sentence, length, 4]``, and the lengths as text. The four are for ``edges``: gold edges predicted,
        gold edges, sentences with a correlation, the sum of their correlations; for ``roots`` the same of roots, one a
        sentence; for ``arcs`` correct heads, words, correct heads with correct relations, 0.
    """
    count = _COUNTS[count_kind]
    lengths = np.array([marks[code].count(" ") + 1 for code in gold.tolist()])
    distinct, places = np.unique(lengths, return_inverse=True)
    counts = np.zeros((*pred.shape, len(distinct), 4))
    sentences = np.arange(len(gold))
    known = np.isfinite(correlation)
    for layer, codes in enumerate(pred):
        pairs = zip(gold.tolist(), codes.tolist(), strict=True)
        counts[layer, sentences, places] = [count(marks[one], marks[other]) for one, other in pairs]
        if count_kind != "arcs":
            counts[layer, sentences, places, _SENTENCES] = known[layer]
            counts[layer, sentences, places, _CORRELATION] = np.where(known[layer], correlation[layer], 0.0)
    return counts, tuple(str(length) for length in distinct.tolist())


def read_heads(text: str) -> tuple[int, ...]:
    """Heads written as text, −1 for words that are not scored; without relations."""
    return tuple(-1 if mark == UNSCORED else int(mark.partition(RELATION)[0]) for mark in text.split(" "))


@lru_cache(maxsize=1 << 16)
def read_edges(text: str) -> frozenset[Edge]:
    """The undirected edges between scored words, of heads written as text."""
    heads = read_heads(text)
    return tree_edges(heads, [head >= 0 for head in heads])


@lru_cache(maxsize=1 << 16)
def read_root(text: str) -> int:
    """The place of the least deep of the scored words, from depths written as text."""
    depths = [np.inf if mark == UNSCORED else float(mark) for mark in text.split(" ")]
    return int(np.argmin(depths))


def _count_edges(gold: str, pred: str) -> tuple[float, float, float, float]:
    edges = read_edges(gold)
    return len(edges & read_edges(pred)), len(edges), 0.0, 0.0


def _count_roots(gold: str, pred: str) -> tuple[float, float, float, float]:
    # Where the root is punctuation, no scored word has depth 0.
    if "0" not in gold.split(" "):
        return 0.0, 0.0, 0.0, 0.0
    return float(read_root(gold) == read_root(pred)), 1.0, 0.0, 0.0


def _count_arcs(gold: str, pred: str) -> tuple[float, float, float, float]:
    words = [
        (one.partition(RELATION), other.partition(RELATION))
        for one, other in zip(gold.split(" "), pred.split(" "), strict=True)
        if one != UNSCORED
    ]
    heads = [(one, other) for one, other in words if one[0] == other[0]]
    labelled = sum(one[2] == other[2] for one, other in heads)
    return len(heads), len(words), labelled, 0.0


_COUNTS: dict[str, Callable[[str, str], tuple[float, float, float, float]]] = {
    "edges": _count_edges,
    "roots": _count_roots,
    "arcs": _count_arcs,
}
_Score = Callable[[NDArray[Any], Sequence[str]], Floats]


def _correlation(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """Mean over lengths of the mean over the sentences of that length, all of whose words weigh the same."""
    wanted = _correlated(labels)
    sentences = counts[..., wanted, _SENTENCES]
    occurs = sentences > 0.5
    means = ratio(counts[..., wanted, _CORRELATION], np.where(occurs, sentences, 0.0))
    return ratio(np.where(occurs, means, 0.0).sum(axis=-1), occurs.sum(axis=-1))


def _correlated(labels: Sequence[str]) -> list[int]:
    shortest, longest = CORRELATED_LENGTHS
    return [place for place, length in enumerate(labels) if shortest <= int(length) <= longest]


def _has_correlation(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.bool_]:
    return np.asarray(counts[..., _correlated(labels), _SENTENCES].sum(axis=-1) > 0)


def _has_any(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.bool_]:
    return np.asarray(counts[..., 1].sum(axis=-1) > 0)


def _metric(name: str, description: str, function: _Score, count_kind: CountKind) -> Metric:
    enters = _has_correlation if function is _correlation else _has_any
    bounds: Bounds = "correlation" if function is _correlation else "share"
    return Metric(name, True, description, function, count_kind, enters=enters, bounds=bounds)


_SHARE = partial(ratio_of_sums, 0, 1)
_DISTANCES = "Spearman correlation of distances, by word, its mean over lengths of 5 to 50 words"
_DEPTHS = "Spearman correlation of depths, by sentence, its mean over lengths of 5 to 50 words"
TREE_METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _metric("uuas", "share of undirected edges found, punctuation left out", _SHARE, "edges"),
        _metric("dspr", _DISTANCES, _correlation, "edges"),
        _metric("root_accuracy", "share of sentences whose root is least deep", _SHARE, "roots"),
        _metric("nspr", _DEPTHS, _correlation, "roots"),
        _metric("uas", "share of words with the right head, punctuation left out", _SHARE, "arcs"),
        _metric("las", "share of words with the right head and relation", partial(ratio_of_sums, 2, 1), "arcs"),
    )
}
"""The metrics of trees, by name."""
