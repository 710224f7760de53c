"""Metrics: functions of counts summed over clusters, the counts they need, all by name, and how tables show them."""

import re
import string
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._lazy import scipy
from bertology._names import check_name
from bertology.measures.trees import Edge, tree_edges

Floats = NDArray[np.float64]
CountKind = Literal["labels", "edges", "roots", "arcs", "answers", "choices", "changes", "agreement", "sums", "numbers"]
"""Kind of counts: labels of items; undirected edges, roots, or directed arcs with relations of trees; of a masked
language model ranks of answers, choices between two, effects of a change of the text, or agreement of answers; sums
over attention maps or vectors; numbers that are predicted."""
Bounds = Literal["share", "correlation", "none"]
"""Range of the values: in 0…1 in every cluster, as a share of items is; in −1…1 of the whole; any number."""


_Score = Callable[[NDArray[Any], Sequence[str]], Floats]
"""Function from counts ``[..., label, kind]`` summed over clusters, and the labels' names, to values ``[...]``."""


@dataclass(frozen=True)
class Metric:
    """A score computed from counts of labels, of parts of trees, of predictions at masks, or from sums over maps."""

    name: str
    higher_is_better: bool
    description: str
    """One line that says what is averaged over what."""
    function: _Score
    """Gives a fraction, or NaN where the metric is undefined."""
    count_kind: CountKind = "labels"
    """Kind of counts: see :func:`count_labels`, :func:`count_trees` and :class:`Grouped`."""
    which: Callable[[str], bool] | None = None
    """For a mean over some of the groups of items: whether a group takes part. None for a metric of all groups."""
    enters: Callable[[NDArray[Any], Sequence[str]], NDArray[np.bool_]] | None = None
    """Function from counts ``[cluster, label, kind]`` to the clusters that the metric is defined for, where each item
    is a cluster; None for a metric of all items."""
    bounds: Bounds = "share"
    """Intervals of a share that is 0 or 1 in every cluster are exact; no resample shows how a correlation varies that
    is the same in all."""

    def __call__(self, counts: NDArray[Any], labels: Sequence[str] = ()) -> Floats:
        """The metric of counts ``[..., label, kind]``, as values ``[...]``."""
        return self.function(counts, labels)


def sum_metric(name: str, description: str, *, higher_is_better: bool = True, bounds: Bounds = "none") -> Metric:
    """A metric of attention heads or of vectors: a ratio of two sums over sentences.

    The name ends in its unit, ``_nats``, ``_bits`` or ``_words``, if values are no fractions; the description states
    numerator and denominator in one line.
    """
    return Metric(name, higher_is_better, description, partial(_ratio_of_sums, 0, 1), "sums", bounds=bounds)


def share_metric(name: str, description: str, *, higher_is_better: bool = True) -> Metric:
    """A :func:`sum_metric` that is a share of items, or a mean of such shares, in every cluster."""
    return sum_metric(name, description, higher_is_better=higher_is_better, bounds="share")


def _ratio_of_sums(numerator: int, denominator: int, counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """One kind of counts ``[..., label, kind]`` over another, both summed over labels."""
    return ratio(counts[..., numerator].sum(axis=-1), counts[..., denominator].sum(axis=-1))


def _mean_of_ratios(numerator: int, denominator: int, counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """The mean over labels (groups of items) of one kind of counts over another."""
    occurs = counts[..., denominator] > 0
    shares = ratio(counts[..., numerator], counts[..., denominator])
    return ratio(np.where(occurs, shares, 0.0).sum(axis=-1), occurs.sum(axis=-1))


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> Floats:
    """``numerator / denominator``, NaN where the denominator is not above 0."""
    result = np.full(np.broadcast_shapes(np.shape(numerator), np.shape(denominator)), np.nan)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) > 0, dtype=np.float64)
    return result


def correlations(one: NDArray[Any], other: NDArray[Any]) -> Floats:
    """Pearson's correlations along the last axis, of ranks Spearman's; NaN where one is constant."""
    a, b = (values - values.mean(axis=-1, keepdims=True) for values in (one, other))
    return ratio((a * b).sum(axis=-1), np.sqrt(np.square(a).sum(axis=-1) * np.square(b).sum(axis=-1)))


Counts = NDArray[np.int32]
"""``[layer, cluster, label, 3]``: true positives, false positives, false negatives."""
TP, FP, FN = 0, 1, 2
OUTSIDE = "O"
"""The label of words outside any span in IOB schemes."""


def count_labels(
    gold: ArrayLike,
    pred: ArrayLike,
    cluster: ArrayLike,
    *,
    n_labels: int,
    n_clusters: int,
    members: ArrayLike | None = None,
) -> Counts:
    """True positives, false positives and false negatives: ``int32 [layer, cluster, label, 3]``.

    Any metric over labels, and any resampling of clusters, can be computed from these counts alone. Where an item has
    any number of labels, each is a binary decision.

    Args:
        gold: ``int [item]`` true label, which may be absent from training: such a label is never predicted.
        pred: ``int [layer, item]`` predicted label.
        cluster: ``int [item]`` number of the cluster (sentence) an item stands in. Numbers should leave no gaps:
            an empty cluster is resampled like any other.
        n_labels: number of labels, those absent from training included.
        n_clusters: number of clusters.
        members: ``bool [set, label]`` which labels each set has, where ``gold`` and ``pred`` are sets by their places.

    Raises:
        ValueError: shapes do not fit, or a label or cluster number is out of range.
    """
    gold, pred, cluster = np.asarray(gold), np.asarray(pred), np.asarray(cluster)
    if pred.ndim != 2 or gold.shape != pred.shape[1:] or cluster.shape != gold.shape:
        raise ValueError(f"shapes do not fit: gold {gold.shape}, pred {pred.shape}, cluster {cluster.shape}")
    n_codes = n_labels if members is None else len(np.asarray(members))
    for name, numbers, bound in (("gold", gold, n_codes), ("pred", pred, n_codes), ("cluster", cluster, n_clusters)):
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < bound):
            raise ValueError(f"{name} has numbers outside 0…{bound - 1}: {numbers.min()}…{numbers.max()}")
    counts = np.zeros((len(pred), n_clusters, n_labels, 3), dtype=np.int32)
    base = cluster.astype(np.int64) * n_labels
    if members is not None:
        of_set = np.asarray(members, dtype=np.bool_)
        truth = of_set[gold]
        for layer, numbers in enumerate(pred):
            claimed = of_set[numbers]
            for kind, hits in ((TP, truth & claimed), (FP, claimed & ~truth), (FN, truth & ~claimed)):
                items, labels = np.nonzero(hits)
                flat = np.bincount(base[items] + labels, minlength=n_clusters * n_labels)
                counts[layer, :, :, kind] = flat.reshape(n_clusters, n_labels)
        return counts
    size = n_clusters * n_labels * 3
    missed = (base + gold) * 3 + FN
    for layer, labels in enumerate(pred):
        wrong = labels != gold
        claimed = (base + labels) * 3 + np.where(wrong, FP, TP)
        flat = np.bincount(claimed, minlength=size) + np.bincount(missed[wrong], minlength=size)
        counts[layer] = flat.reshape(n_clusters, n_labels, 3)
    return counts


def _f1(counts: NDArray[Any]) -> Floats:
    return ratio(2.0 * counts[..., TP], 2.0 * counts[..., TP] + counts[..., FP] + counts[..., FN])


def _accuracy(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    correct = counts[..., TP].sum(axis=-1)
    return ratio(correct, correct + counts[..., FN].sum(axis=-1))


def _macro_f1(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    present = counts[..., TP] + counts[..., FN] > 0
    return ratio(np.where(present, _f1(counts), 0.0).sum(axis=-1), present.sum(axis=-1))


def _matthews(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    correct = counts[..., TP].sum(axis=-1, dtype=np.float64)
    gold = np.asarray(counts[..., TP] + counts[..., FN], dtype=np.float64)
    claimed = np.asarray(counts[..., TP] + counts[..., FP], dtype=np.float64)
    n_items = gold.sum(axis=-1)
    spread = (n_items**2 - (gold**2).sum(axis=-1)) * (n_items**2 - (claimed**2).sum(axis=-1))
    value = ratio(correct * n_items - (gold * claimed).sum(axis=-1), np.sqrt(np.maximum(spread, 0)))
    # With one label only, gold or predicted, the covariance is 0: no association, as scikit-learn has it.
    return np.where((spread <= 0) & (n_items > 0), 0.0, value)


def micro_f1(*, without: Collection[str]) -> Metric:
    """F1 over all items' labels but those in ``without``, such as the one for *no relation*."""

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        keep = [number for number in range(counts.shape[-2]) if number >= len(labels) or labels[number] not in without]
        return _f1(counts[..., keep, :].sum(axis=-2))

    left_out = " and ".join(sorted(without))
    return Metric("micro_f1", True, f"F1 over the labels of all items, any label {left_out} left out", score)


def grouped_macro_f1(name: str, description: str, *, group: Callable[[str], str | None]) -> Metric:
    """Mean F1 over groups of labels: a prediction is right if its label is, and counts in its label's group.

    ``group`` gives the group of a label, None for labels that belong to none.
    """

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        of_label = [group(label) for label in labels]
        groups = [name for name in dict.fromkeys(of_label) if name is not None]
        if not groups:
            return np.full(counts.shape[:-2], np.nan)
        members = [[number for number, own in enumerate(of_label) if own == name] for name in groups]
        summed = np.stack([counts[..., numbers, :].sum(axis=-2) for numbers in members], axis=-2)
        # A group that does not occur has no score of its own, in the whole as in a resample.
        return _macro_f1(summed, ())

    return Metric(name, True, description, score)


def binary_f1(positive: str) -> Metric:
    """F1 of one label, as GLUE reports it for MRPC and QQP; undefined where there is no such label."""

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        if positive not in labels:
            return np.full(counts.shape[:-2], np.nan)
        return _f1(counts[..., list(labels).index(positive), :])

    return Metric("f1", True, f"F1 of the label {positive}", score)


def count_entities(
    gold: Sequence[str], pred: Sequence[str], cluster: ArrayLike, *, n_clusters: int
) -> tuple[Counts, tuple[str, ...]]:
    """Entities found, found wrongly and missed, by cluster and type, as conlleval counts them (Tjong Kim Sang 2002).

    Tags are IOB2, those predicted as they come: an ``I-`` that continues no entity of its type begins one. Gold and
    predicted tags are ``[word]`` in the order of the text, with the number of each word's sentence, in which entities
    end. Returns ``int32 [1, cluster, type, 3]`` as of :func:`count_labels`, and the types.
    """
    sentence = np.asarray(cluster)
    truth, claimed = (set(_entities(tags, sentence)) for tags in (gold, pred))
    types = tuple(sorted({kind for *_, kind in truth | claimed}))
    counts = np.zeros((1, n_clusters, max(1, len(types)), 3), dtype=np.int32)
    for kind, entities in ((TP, truth & claimed), (FP, claimed - truth), (FN, truth - claimed)):
        for first, _, name in entities:
            counts[0, sentence[first], types.index(name), kind] += 1
    return counts, types


def _entities(tags: Sequence[str], sentence: NDArray[Any]) -> Iterator[tuple[int, int, str]]:
    """First word, end (exclusive) and type of each entity."""
    start, kind = 0, ""
    for place, tag in enumerate((*tags, OUTSIDE)):
        mark, _, name = tag.partition("-")
        is_new = place == len(tags) or (place > 0 and sentence[place] != sentence[place - 1])
        goes_on = mark == "I" and name == kind and not is_new
        if kind and not goes_on:
            yield start, place, kind
        if not goes_on:
            start, kind = place, name


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
    lengths = np.array([marks[code].count(" ") + 1 for code in gold.tolist()])
    distinct, places = np.unique(lengths, return_inverse=True)
    counts = np.zeros((*pred.shape, len(distinct), 4))
    sentences = np.arange(len(gold))
    known = np.isfinite(correlation)
    for layer, codes in enumerate(pred):
        for sentence, (one, other) in enumerate(zip(gold.tolist(), codes.tolist(), strict=True)):
            true, guess, found = marks[one], marks[other], counts[layer, sentence, places[sentence]]
            if count_kind == "edges":
                found[:2] = len(read_edges(true) & read_edges(guess)), len(read_edges(true))
            elif count_kind == "roots":
                # Where the root is punctuation, no scored word has depth 0.
                found[:2] = (read_root(true) == read_root(guess), 1) if "0" in true.split(" ") else (0, 0)
            else:
                for word, named in zip(true.split(" "), guess.split(" "), strict=True):
                    same_head = word.partition(RELATION)[0] == named.partition(RELATION)[0]
                    found[:3] += (same_head, 1, word == named) if word != UNSCORED else 0
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


def _correlation(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """Mean over lengths of the mean over the sentences of that length, all of whose words weigh the same."""
    return _mean_of_ratios(_CORRELATION, _SENTENCES, counts[..., _correlated(labels), :], labels)


def _correlated(labels: Sequence[str]) -> list[int]:
    shortest, longest = CORRELATED_LENGTHS
    return [place for place, length in enumerate(labels) if shortest <= int(length) <= longest]


def _has_correlation(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.bool_]:
    return np.asarray(counts[..., _correlated(labels), _SENTENCES].sum(axis=-1) > 0)


def _has_any(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.bool_]:
    return np.asarray(counts[..., 1].sum(axis=-1) > 0)


_RANKS = 1, 5, 10, 100
_SENSITIVE = 0.01  # least difference between two probabilities that counts as one (Ettinger 2020, section 5.2)


@dataclass(frozen=True)
class Grouped:
    """Items of a cloze task by cluster and group, and the counts that metrics need of them.

    All counts are ``[cell, cluster, group, kind]``.
    """

    cluster: NDArray[np.integer[Any]]  # [item] number of its cluster
    group: NDArray[np.integer[Any]]  # [item] number of its group
    n_clusters: int
    n_groups: int

    def count_answers(self, ranks: NDArray[np.integer[Any]]) -> Floats:
        """``[…, 6]`` items scored; items whose answer is among the first 1, 5, 10 and 100; the sum of reciprocal ranks.

        From ``[cell, item]`` ranks of the correct answer, 1 for the first; 0 where an item was not scored.
        """
        scored = ranks > 0
        among_first = [scored & (ranks <= most) for most in _RANKS]
        return self._sums([scored, *among_first, ratio(scored, np.where(scored, ranks, 1))])

    def count_choices(self, scores: Floats, distractors: Floats) -> Floats:
        """``[…, 6]`` choices made; correct ones; items scored; items with a correct answer more probable by over 0.01;
        the sum of differences of log probabilities; 1 where an item was scored.

        A tie is no choice: it counts neither as correct nor as wrong.

        Args:
            scores: ``[cell, item]`` log probability of the correct answer; NaN where it was not scored.
            distractors: ``[cell, item]`` log probability of the best distractor.
        """
        scored = ~(np.isnan(scores) | np.isnan(distractors))
        with np.errstate(invalid="ignore"):
            kinds = [
                scored & (scores != distractors),
                scored & (scores > distractors),
                scored,
                scored & (np.exp(scores) - np.exp(distractors) > _SENSITIVE),
                np.where(scored, scores - distractors, 0.0),
            ]
        counts = self._sums(kinds)
        return np.concatenate([counts, counts[..., 2:3] > 0], axis=-1)

    def count_changes(self, ranks: NDArray[np.integer[Any]], scores: Floats, before: Floats) -> Floats:
        """``[…, 3]`` items scored; items with another prediction in a changed text; the sum of lost probability.

        Args:
            ranks: ``[cell, item]`` rank in the changed text of the word predicted before it; 0 where not scored.
            scores: ``[cell, item]`` its log probability in the changed text.
            before: ``[cell, item]`` its log probability in the original text.
        """
        scored = ranks > 0
        lost = np.where(scored, np.exp(np.where(scored, before, 0)) - np.exp(np.where(scored, scores, 0)), 0.0)
        return self._sums([scored, scored & (ranks > 1), lost])

    def count_agreement(self, pred: NDArray[np.integer[Any]], ranks: NDArray[np.integer[Any]]) -> Floats:
        """``[…, 4]`` pairs of items of one cluster and group; pairs with the same prediction; clusters; clusters whose
        items are all correct (Elazar et al. 2021, section 4.2). Clusters of one item have no pair.

        Args:
            pred: ``[cell, item]`` number of the predicted word.
            ranks: ``[cell, item]`` rank of the correct answer; 0 where an item was not scored.
        """
        scored, correct = ranks > 0, ranks == 1
        counts = np.zeros((len(pred), self.n_clusters * self.n_groups, 4))
        for cell in range(len(pred)):
            place = self._place[scored[cell]]
            n = np.bincount(place, minlength=counts.shape[1])
            # Of every word that is predicted n times in a cluster, n (n − 1) / 2 pairs agree.
            keys, times = np.unique(np.stack([place, pred[cell, scored[cell]]]), axis=1, return_counts=True)
            agreeing = np.bincount(keys[0], weights=times * (times - 1) / 2, minlength=counts.shape[1])
            n_correct = np.bincount(self._place[correct[cell]], minlength=counts.shape[1])
            counts[cell] = np.stack([n * (n - 1) / 2, agreeing, n > 0, (n > 0) & (n_correct == n)], axis=1)
        return counts.reshape(len(pred), self.n_clusters, self.n_groups, 4)

    @property
    def _place(self) -> NDArray[np.int64]:
        """``[item]`` number of its pair of cluster and group."""
        return np.asarray(np.asarray(self.cluster, dtype=np.int64) * self.n_groups + self.group)

    def _sums(self, kinds: Sequence[NDArray[Any]]) -> Floats:
        """Sums of ``[cell, item]`` kinds."""
        place, size = self._place, self.n_clusters * self.n_groups
        sums = [[np.bincount(place, weights=values, minlength=size) for values in kind] for kind in kinds]
        shape = len(kinds[0]), self.n_clusters, self.n_groups, len(kinds)
        return np.stack(sums, axis=-1).reshape(shape).astype(np.float64, copy=False)


def mean_over_groups(name: str, description: str, *, of: Metric, which: Callable[[str], bool]) -> Metric:
    """A metric of a cloze task, a mean like ``of``, over the groups whose names ``which`` accepts."""

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        members = [number for number, label in enumerate(labels) if which(label)]
        return of(counts[..., members, :])

    return Metric(name, of.higher_is_better, description, score, of.count_kind, which, bounds=of.bounds)


_N, _GOLD, _GOLD_SQUARED, _ERROR_SQUARED, _RANK, _RANK_SQUARED, _OTHER, _OTHER_SQUARED, _BOTH, _UNSCALED = range(10)


def count_numbers(gold: ArrayLike, pred: ArrayLike, cluster: ArrayLike, *, n_clusters: int) -> Floats:
    """Sums by layer and cluster from which R² and Spearman's correlation follow, for the data and its resamples.

    True numbers are ``[item]``, predicted ones ``[layer, item]``, with the number of the cluster of each item. Ranks
    are those among all items; a resample keeps them. Returns ``[layer, cluster, 1, 10]``: items, sums of gold and its
    square and of the squared error (in standard deviations of gold), sums of the ranks of gold and of predictions, of
    their squares and of their product, and the sum of the squared error in the unit of the numbers.
    """
    gold, pred = np.asarray(gold, np.float64), np.asarray(pred, np.float64)
    spread = float(gold.std()) or 1.0
    scaled = (gold - gold.mean()) / spread
    ranks = _centred(scipy.stats.rankdata(gold))
    layers = []
    for numbers in pred:
        others, errors = _centred(scipy.stats.rankdata(numbers)), (numbers - gold) / spread
        of_ranks = (ranks, ranks**2, others, others**2, ranks * others)
        terms = (np.ones_like(gold), scaled, scaled**2, errors**2, *of_ranks, (numbers - gold) ** 2)
        layers.append(_sums_by_cluster(terms, cluster, n_clusters))
    return np.concatenate(layers) if layers else np.empty((0, n_clusters, 1, 10))


def _sums_by_cluster(terms: Iterable[Floats], cluster: ArrayLike, n_clusters: int) -> Floats:
    """``[1, cluster, 1, term]`` sums of ``[item]`` terms over the items of each cluster."""
    sums = [np.bincount(np.asarray(cluster), weights=values, minlength=n_clusters) for values in terms]
    return np.stack(sums, axis=-1).astype(np.float64)[None, :, None, :]


def mean_numbers(
    train_words: ArrayLike, train: Floats, test_words: ArrayLike, *, n_words: int
) -> tuple[Floats, Floats]:
    """``[test item]`` the mean of the training numbers, and the mean of those of the item's own word form.

    A form that training lacks (−1) has the mean of all.
    """
    words, asked = np.asarray(train_words), np.asarray(test_words)
    mean = float(train.mean())
    times = np.bincount(words, minlength=n_words + 1)
    by_word = np.bincount(words, weights=train, minlength=n_words + 1) / np.maximum(times, 1)
    by_word[times == 0] = mean  # the last place is that of no form, −1
    return np.full(len(asked), mean), by_word[asked]


def _centred(ranks: NDArray[Any]) -> Floats:
    """Ranks from −½ to ½."""
    return np.asarray((ranks - (len(ranks) + 1) / 2) / len(ranks), dtype=np.float64)


def _variance(sums: NDArray[Any], total: int) -> Floats:
    """Sum of squared differences from the mean; the sum of squares stands after the sum."""
    return np.asarray(sums[..., total + 1] - ratio(sums[..., total] ** 2, sums[..., _N]))


def _r2(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    sums = counts.sum(axis=-2)
    return 1 - ratio(sums[..., _ERROR_SQUARED], _variance(sums, _GOLD))


def _rmse(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    return np.sqrt(_ratio_of_sums(_UNSCALED, _N, counts, labels))


def _correlation_of(first: int, second: int, product: int, counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """Correlation of two numbers, from the places of their sums and of the sum of their products."""
    sums = counts.sum(axis=-2)
    covariance = sums[..., product] - ratio(sums[..., first] * sums[..., second], sums[..., _N])
    return ratio(covariance, np.sqrt(np.maximum(_variance(sums, first) * _variance(sums, second), 0)))


def count_correlation(gold: ArrayLike, pred: ArrayLike, cluster: ArrayLike, *, n_clusters: int) -> Floats:
    """``[1, cluster, 1, 6]`` sums from which Pearson's correlation follows, for the data and its resamples.

    Arguments are those of :func:`count_numbers`, for one layer.
    """
    true, guessed = np.asarray(gold, np.float64), np.asarray(pred, np.float64)
    # Centred, as the difference of two large sums would lose digits; a correlation stays the same.
    true, guessed = true - true.mean(), guessed - guessed.mean()
    terms = (np.ones_like(true), true, true**2, guessed, guessed**2, true * guessed)
    return _sums_by_cluster(terms, cluster, n_clusters)


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def count_answers(gold: Sequence[Sequence[str]], pred: Sequence[str], cluster: ArrayLike, *, n_clusters: int) -> Floats:
    """``[1, cluster, 1, 3]`` sums of exact matches and of F1 of answers, and the number of questions.

    As the evaluation script of SQuAD: case, punctuation, articles and white space do not count, the best of several
    true answers of a ``[question]`` does; a question that has none has an empty sequence of them. No answer is an empty
    text, which matches nothing else. The ``cluster`` of a question is the text that it is about.
    """
    best = []
    for answers, guess in zip(gold, pred, strict=True):
        said, found = _normal(guess), []
        for true in map(_normal, answers or [""]):
            same, common = float(true == said), sum((Counter(true) & Counter(said)).values())
            found.append((same, 2 * common / (len(true) + len(said)) if true and said else same))
        best.append(max(found, key=sum))
    terms = (*np.array(best, dtype=np.float64).reshape(-1, 2).T, np.ones(len(best)))
    return _sums_by_cluster(terms, cluster, n_clusters)


def _normal(answer: str) -> list[str]:
    return _ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


_SHARE, _LABELLED = partial(_ratio_of_sums, 0, 1), partial(_ratio_of_sums, 2, 1)
_PLACE = partial(_correlation_of, _RANK, _OTHER, _BOTH)
_BY_LENGTH = "mean over sentence lengths of 5 to 50 words"
_STEREOTYPED = (
    "share of pairs whose more stereotyping sentence is more probable, ties left out: 50 % is no preference, and most "
    "pairs of CrowS-Pairs are faulty (Blodgett et al. 2021)"
)
_MASCULINE = (
    "share of sentences whose masculine pronoun is more probable, ties left out: it is the more frequent one in text, "
    "and 50 % does not say that a model is without bias (cf. Blodgett et al. 2021)"
)
_CLOZE: Mapping[str, tuple[CountKind, int, int, str]] = {
    "p_at_1": ("answers", 1, 0, "share of answers that are predicted first"),
    "p_at_5": ("answers", 2, 0, "share of answers among the first 5 predictions"),
    "p_at_10": ("answers", 3, 0, "share of answers among the first 10 predictions"),
    "p_at_100": ("answers", 4, 0, "share of answers among the first 100 predictions"),
    "mrr": ("answers", 5, 0, "mean reciprocal rank of the answer"),
    "choice_accuracy": ("choices", 1, 0, "share of correct choices, ties left out"),
    "stereotyped_share": ("choices", 1, 0, _STEREOTYPED),
    "masculine_share": ("choices", 1, 0, _MASCULINE),
    "masculine_log_odds_nats": ("choices", 4, 2, "log-odds of the masculine against the feminine pronoun"),
    "sensitivity": ("choices", 3, 2, "share of items whose correct word is more probable by over 0.01"),
    "consistency": ("agreement", 1, 0, "share of pairs of phrasings of a fact with the same prediction"),
    "all_right": ("agreement", 3, 2, "share of facts that are predicted in all their phrasings"),
    "moved": ("changes", 1, 0, "share of items whose first prediction differs in the changed text"),
    "probability_lost": ("changes", 2, 0, "probability that the first prediction loses in the changed text"),
}
"""Metrics of cloze tasks: the kind of counts, two places in them, of which one is divided by the other, and what the
quotient is, whose mean over groups is taken."""
_ALSO_MICRO = ("p_at_1", "mrr", "choice_accuracy", "stereotyped_share", "masculine_share")
"""Those that are taken over all items, too, under names that begin with ``micro_``."""
_CLOZE_BOUNDS: Mapping[str, Bounds] = {"probability_lost": "correlation", "masculine_log_odds_nats": "none"}


def _metrics() -> Iterator[Metric]:
    matthews = "Matthews' correlation of gold and predicted labels (Gorodkin 2004)"
    yield Metric("accuracy", True, "share of items whose label is predicted", _accuracy)
    yield Metric("macro_f1", True, "mean F1 over the labels that occur in the gold items", _macro_f1)
    yield micro_f1(without=(OUTSIDE,))
    yield Metric("matthews", True, matthews, _matthews, bounds="correlation")
    trees: Sequence[tuple[str, CountKind, str, _Score]] = (
        ("uuas", "edges", "share of undirected tree edges found, punctuation left out", _SHARE),
        ("dspr", "edges", f"Spearman's ρ of predicted and true tree distances from a word, {_BY_LENGTH}", _correlation),
        ("root_accuracy", "roots", "share of sentences whose root is predicted to be least deep", _SHARE),
        ("nspr", "roots", f"Spearman's ρ of predicted and true tree depths of words, {_BY_LENGTH}", _correlation),
        ("uas", "arcs", "share of words with the right head, punctuation left out", _SHARE),
        ("las", "arcs", "share of words with the right head and relation, punctuation left out", _LABELLED),
    )
    for name, kind, description, function in trees:
        known = (_has_correlation, "correlation") if function is _correlation else (_has_any, "share")
        yield Metric(name, True, description, function, kind, None, *known)  # type: ignore[arg-type]
    for name, (kind, above, below, description) in _CLOZE.items():
        ratios, bounds = partial(_mean_of_ratios, above, below), _CLOZE_BOUNDS.get(name, "share")
        yield Metric(name, True, f"{description}, mean over groups", ratios, kind, bounds=bounds)
        if name in _ALSO_MICRO:
            ratios = partial(_ratio_of_sums, above, below)
            yield Metric(f"micro_{name}", True, f"{description}, over all items", ratios, kind, bounds=bounds)
    explained = "share of the variance of the true numbers that is predicted (R²)"
    yield Metric("r2", True, explained, _r2, "numbers", bounds="none")
    ranks = "Spearman's rank correlation of true and predicted numbers"
    yield Metric("spearman", True, ranks, _PLACE, "numbers", bounds="correlation")
    error = "root mean squared error of predicted numbers, in their own unit"
    yield Metric("rmse", False, error, _rmse, "numbers", bounds="none")


METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _metrics()})
"""All metrics of probes, by name."""
_ENTITIES = "F1 over all entities: boundaries and type have to be right"
_PEARSON = "Pearson's correlation of true and predicted numbers"
_EXACT = "share of questions whose answer is predicted as it is"
_WORDS = "F1 of words in the answer, mean over questions"
ENTITY_F1 = replace(micro_f1(without=()), name="entity_f1", description=_ENTITIES)
PEARSON = Metric("pearson", True, _PEARSON, partial(_correlation_of, 1, 3, 5), "sums", bounds="correlation")
EXACT_MATCH = Metric("exact_match", True, _EXACT, partial(_ratio_of_sums, 0, 2), "sums")
ANSWER_F1 = Metric("answer_f1", True, _WORDS, partial(_ratio_of_sums, 1, 2), "sums")


def find_metric(name: str | Metric) -> Metric:
    """The metric called ``name``; a metric is returned as it is.

    Raises:
        NameNotFoundError: no metric has that name; the message gives the nearest ones.
    """
    if isinstance(name, Metric):
        return name
    check_name("metric", name, METRICS)
    return METRICS[name]


class LabelScores(NamedTuple):
    """Precision, recall and F1 of each label; all arrays are ``[..., label]``."""

    precision: Floats
    """Share of predictions of the label that are right; NaN where it is never predicted."""
    recall: Floats
    """Share of the label's items that are predicted as such; NaN where it does not occur."""
    f1: Floats
    support: NDArray[np.int64]
    """Number of items with the label."""
    predicted: NDArray[np.int64]
    """Number of items predicted as the label."""


def label_scores(counts: NDArray[Any]) -> LabelScores:
    """Precision, recall and F1 of each label, from counts ``[..., label, 3]`` summed over clusters."""
    support, predicted = counts[..., TP] + counts[..., FN], counts[..., TP] + counts[..., FP]
    precision, recall = ratio(counts[..., TP], predicted), ratio(counts[..., TP], support)
    return LabelScores(precision, recall, _f1(counts), support.astype(np.int64), predicted.astype(np.int64))


Control = Literal[
    "none", "majority", "word_majority", "length", "lexical", "linear_chain", "control_task", "blind", "offset",
    "nearest", "head_match", "rule", "mean", "word_mean", "first", "last", "diagonal", "rescaled", "refit",
    "reference",
]  # fmt: skip
CONTROLS: tuple[str, ...] = get_args(Control)
"""Names of controls in the order in which tables have them; ``none`` is the task itself."""
ITSELF: Final = "none"
_DOTTED = "majority"
_METRIC_ORDER = (
    *("accuracy", "macro_f1", "micro_f1", "uuas", "dspr", "root_accuracy", "nspr", "uas", "las"),
    *("p_at_1", "p_at_10", "mrr", "choice_accuracy", "sensitivity", "consistency", "moved", "probability_lost"),
)
_SECOND = "macro_f1"
"""The metric that adds most to a task's main one."""


def is_dotted(control: str) -> bool:
    """Whether the line of a baseline is dotted in figures; others are dashed."""
    return control == _DOTTED


def ranked_metrics(metrics: Collection[str]) -> list[str]:
    """Metrics in the order in which one is taken as a table's main metric, where the task names none."""
    return sorted(metrics, key=[*_METRIC_ORDER, *sorted(metrics)].index)


def second_metric(main: str, metrics: Collection[str]) -> str | None:
    """The metric that stands next to the main one."""
    return next((name for name in (_SECOND, *ranked_metrics(metrics)) if name in metrics and name != main), None)


TWO_LINES = {"selectivity": "selec-\ntivity", "macro-F1": "macro-\nF1", "micro-F1": "micro-\nF1"}
"""Titles that narrow columns break in other places than between words."""

Unit = Literal["fraction", "correlation", "number", "counted"]
"""Fractions stand in percent; correlations, ranks and p-values, bounded by ±1, with three decimals; what is counted in
bits or words with two decimals, small values with three."""
_DECIMALS: Mapping[Unit, int] = {"fraction": 1, "correlation": 3, "number": 1, "counted": 2}
_P_VALUE = re.compile(r"_p(?:_(?!at_)|$)")
_COUNTED = ("_bits", "_nats", "_words", "_dimensions", "_neighbours", "_clusters", "squared_error")
"""Endings of metrics that are counted in a unit."""
Part = Literal["", "null", "reference", "change"]
"""Subjects of a metric of two models: the model, words in random order, the reference, or the difference of both."""
_PARTS: Mapping[str, Part] = {"_null": "null", "_reference": "reference", "_change": "change"}
Depth = Literal["", "mean", "divergence", "growth"]
"""Quantities of a mixture of layers: mean layer under its weights, their divergence from equal ones, mean
layer at which a score grows."""


@dataclass(frozen=True)
class MetricForm:
    """The format of values of a metric."""

    title: str
    """The metric's name in running text."""
    unit: Unit = "fraction"
    is_difference: bool = False
    """Whether values are a task's score less that of a control, which rank no layer."""
    depth: Depth = ""
    base: str = ""
    """The metric of the model itself, of one that has another ``part``."""
    part: Part = ""
    ranks_layers: bool = True
    """Whether a layer can be the best by it."""

    @property
    def is_fraction(self) -> bool:
        """Whether values stand in percent."""
        return self.unit == "fraction"

    @property
    def is_bounded(self) -> bool:
        """Whether values end at ±1."""
        return self.unit in ("fraction", "correlation")

    @property
    def decimals(self) -> int:
        """Number of decimals."""
        return _DECIMALS[self.unit]


_DEPTHS: Mapping[str, Depth] = {
    "center_of_gravity": "mean",
    "kl_from_uniform_bits": "divergence",
    "expected_layer": "growth",
}


@cache
def _shown() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8"))


def _title(metric: str) -> str:
    """The title of a metric: its own, or that of a part of its name with what the rest says."""
    known = _shown()
    if metric in known["titles"]:
        return str(known["titles"][metric])
    stem, space, which = metric.partition(" ")
    if space:
        return f"{_title(stem)} {which}"
    for kind, cut in (("beginnings", str.removeprefix), ("endings", str.removesuffix)):
        for part, text in known[kind].items():
            if (rest := cut(metric, part)) != metric:
                return str(text).format(_title(rest))
    return metric.replace("_", " ")


@lru_cache(maxsize=512)
def metric_form(metric: str) -> MetricForm:
    """The format of a metric; after a space its name may hold the items that it is computed from.

    Titles, units that do not follow from names, and which metrics rank no layers, are those of ``metrics.toml``.
    """
    known = _shown()
    stated: Unit | None = next((unit for unit, names in known["units"].items() if metric in names), None)
    ending = "" if stated else next((ending for ending in _PARTS if metric.endswith(ending)), "")
    base, part = (metric.removesuffix(ending), _PARTS[ending]) if ending else ("", "")
    other: Unit = "correlation" if _P_VALUE.search(metric) else "fraction"
    unit: Unit = stated or ("counted" if metric.endswith(_COUNTED) or "_bits_" in metric else other)
    is_difference, depth = metric == "selectivity", _DEPTHS.get(metric, "")
    return MetricForm(_title(metric), unit, is_difference, depth, base, part, metric not in known["unranked"])


@dataclass(frozen=True)
class LayerColumn:
    """One score that a table of layers may have in each line."""

    title: str
    """The column's header; empty where the metric's title is the header."""
    source: Literal["task", "control", "metric", "difference", "init"] = "control"
    """The rows that the column is made of: scores of the task by its main metrics; of a control; of the task by the
    metric of this name; by that metric among all controls; or of random weights."""
    look: tuple[str, str] | None = None
    """Colour and marker of its line in figures; None where it is not drawn."""
    with_interval: bool = False
    prefers: str = ""
    """The metric of a control's scores, where the task has it; else the task's main one."""
    difference: str = ""
    """The column of what the task's score has more than the control's."""
    note: tuple[str, str] = ("", "")
    """Subject and text of a note under tables that have the column."""
    is_anew: bool = False
    """Whether it is a readout fitted anew next to one that was fitted to a reference, which the task's own is then."""
    script: str = ""
    """Name of the column in scripts of pages, where that is another one."""


LAYER_COLUMNS: Mapping[str, LayerColumn] = {
    "main": LayerColumn("", "task", with_interval=True),
    "second": LayerColumn("", "task"),
    "random_init": LayerColumn("random init", "init", look=("vermilion", "s"), script="random"),
    "control_task": LayerColumn(
        "control task", look=("green", "^"), prefers="accuracy", difference="selectivity", script="control"
    ),
    "selectivity": LayerColumn("selectivity", "difference", with_interval=True),
    "blind": LayerColumn("blind", look=("green", "v")),
    "rescaled": LayerColumn("rescaled", look=("vermilion", "v")),
    "refit": LayerColumn("refitted", look=("green", "D"), is_anew=True),
    "reference": LayerColumn("reference", look=("purple", "s")),
    "completeness": LayerColumn(
        "completeness",
        "metric",
        note=("completeness", "share of the property, beyond the most frequent label, that a readout no longer finds"),
    ),
    "others_kept": LayerColumn("other labels kept", "metric"),
}
"""The columns of a table of layers by the names that its lines have for them, in order."""
DRAWN_COLUMNS = ("control_task", "blind", "random_init", "rescaled", "refit", "reference")
"""The columns that a figure of scores by layer has a line for, in the order in which they are drawn."""
