"""Scores of trees read off vectors, as the papers define them (Hewitt & Manning 2019, section 4.2).

A sentence is one item. What is predicted of it is written as text, a mark for each word parted by spaces: the number of
the word it hangs from (``2 0 2 _``), the same with the relation (``2:nsubj 0:root 2:obj _``), or its depth
(``1.02 0.1 1.3 _``); ``_`` stands for words that do not count, which are punctuation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures._metric import Floats, Metric, Tally, ratio
from bertology.measures._trees import Edge, tree_edges

UNSCORED = "_"
"""The mark of a word that does not count."""
RELATION = ":"
"""Parts a head and the relation to it; relations may have more of them."""
CORRELATED_LENGTHS = (5, 50)
"""Lengths of sentences, in words, over which correlations are averaged (section 4.2)."""
_SENTENCES, _CORRELATION = 2, 3


def count_trees(
    gold: NDArray[np.integer[Any]],
    pred: NDArray[np.integer[Any]],
    marks: Sequence[str],
    correlation: NDArray[np.floating[Any]],
    *,
    tally: Tally,
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """What metrics of trees are made of, by sentence and length.

    Args:
        gold: ``[sentence]`` what is true of each, as a place in ``marks``.
        pred: ``[layer, sentence]`` what is predicted.
        marks: the texts.
        correlation: ``[layer, sentence]`` Spearman's correlation of predicted and true distances or depths, over all
            words of the sentence; NaN where a sentence has none.
        tally: ``edges`` without direction, ``roots``, or ``arcs`` with direction and relation.

    Returns:
        ``[layer, sentence, length, 4]``, and the lengths as text. The four are for ``edges``: edges found, edges there
        are, sentences with a correlation, the sum of their correlations; for ``roots`` the same of roots, one a
        sentence; for ``arcs`` right heads, words, right heads with right relations, nothing.
    """
    count = _COUNTS[tally]
    lengths = np.array([marks[code].count(" ") + 1 for code in gold.tolist()])
    distinct, places = np.unique(lengths, return_inverse=True)
    found = np.zeros((*pred.shape, len(distinct), 4))
    sentences = np.arange(len(gold))
    known = np.isfinite(correlation)
    for layer, codes in enumerate(pred):
        pairs = zip(gold.tolist(), codes.tolist(), strict=True)
        found[layer, sentences, places] = [count(marks[one], marks[other]) for one, other in pairs]
        if tally != "arcs":
            found[layer, sentences, places, _SENTENCES] = known[layer]
            found[layer, sentences, places, _CORRELATION] = np.where(known[layer], correlation[layer], 0.0)
    return found, tuple(str(length) for length in distinct.tolist())


def read_heads(text: str) -> tuple[int, ...]:
    """Heads written as text, −1 for words that do not count; relations are left out."""
    return tuple(-1 if mark == UNSCORED else int(mark.partition(RELATION)[0]) for mark in text.split(" "))


@lru_cache(maxsize=1 << 16)
def read_edges(text: str) -> frozenset[Edge]:
    """The undirected edges of heads written as text, between words that count."""
    heads = read_heads(text)
    return tree_edges(heads, [head >= 0 for head in heads])


@lru_cache(maxsize=1 << 16)
def read_root(text: str) -> int:
    """The place of the least deep of the words that count, from depths written as text."""
    depths = [np.inf if mark == UNSCORED else float(mark) for mark in text.split(" ")]
    return int(np.argmin(depths))


def _count_edges(gold: str, pred: str) -> tuple[float, float, float, float]:
    there = read_edges(gold)
    return len(there & read_edges(pred)), len(there), 0.0, 0.0


def _count_roots(gold: str, pred: str) -> tuple[float, float, float, float]:
    # Where the root is punctuation, no word that counts has depth 0.
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


_COUNTS: Mapping[str, Callable[[str, str], tuple[float, float, float, float]]] = MappingProxyType(
    {"edges": _count_edges, "roots": _count_roots, "arcs": _count_arcs}
)


def _share(over: int, under: int) -> Callable[[NDArray[Any], Sequence[str]], Floats]:
    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        summed = counts.sum(axis=-2)
        return ratio(summed[..., over], summed[..., under])

    return score


def _correlation(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """Mean over lengths of the mean over the sentences of that length, all of whose words weigh the same."""
    wanted = _correlated(labels)
    sentences, sums = counts[..., wanted, _SENTENCES], counts[..., wanted, _CORRELATION]
    there = sentences > 0.5
    means = ratio(sums, np.where(there, sentences, 0.0))
    return ratio(np.where(there, means, 0.0).sum(axis=-1), there.sum(axis=-1))


def _correlated(labels: Sequence[str]) -> list[int]:
    shortest, longest = CORRELATED_LENGTHS
    return [place for place, length in enumerate(labels) if shortest <= int(length) <= longest]


def _has_correlation(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.bool_]:
    return np.asarray(counts[..., _correlated(labels), _SENTENCES].sum(axis=-1) > 0)


def _has_any(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.bool_]:
    return np.asarray(counts[..., 1].sum(axis=-1) > 0)


TREE_METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "uuas",
            True,
            "share of undirected edges found, punctuation left out",
            _share(0, 1),
            "edges",
            enters=_has_any,
        ),
        Metric(
            "dspr",
            True,
            "Spearman correlation of distances, by word, its mean over lengths of 5 to 50 words",
            _correlation,
            "edges",
            enters=_has_correlation,
        ),
        Metric(
            "root_accuracy", True, "share of sentences whose root is least deep", _share(0, 1), "roots", enters=_has_any
        ),
        Metric(
            "nspr",
            True,
            "Spearman correlation of depths, by sentence, its mean over lengths of 5 to 50 words",
            _correlation,
            "roots",
            enters=_has_correlation,
        ),
        Metric(
            "uas",
            True,
            "share of words with the right head, punctuation left out",
            _share(0, 1),
            "arcs",
            enters=_has_any,
        ),
        Metric("las", True, "share of words with the right head and relation", _share(2, 1), "arcs", enters=_has_any),
    )
}
"""The metrics of trees, by name."""
