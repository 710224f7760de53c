"""Scores of fine-tuned models as GLUE, CoNLL and SQuAD report them: counts by cluster, and metrics of such counts."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.measures._metric import Floats, Metric, ratio, ratio_of_sums
from bertology.measures._metrics import FN, FP, OUTSIDE, TP, Counts

_N, _GOLD, _GOLD_SQUARED, _PRED, _PRED_SQUARED, _BOTH = range(6)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def binary_f1(positive: str) -> Metric:
    """F1 of one label, as GLUE reports it for MRPC and QQP; undefined where there is no such label."""

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        if positive not in labels:
            return np.full(counts.shape[:-2], np.nan)
        return _f1(counts[..., list(labels).index(positive), :])

    return Metric("f1", True, f"F1 of the label {positive}", score)


def _f1(counts: NDArray[Any]) -> Floats:
    return ratio(2.0 * counts[..., TP], 2.0 * counts[..., TP] + counts[..., FP] + counts[..., FN])


def _entity_f1(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    return _f1(counts.sum(axis=-2))


ENTITY_F1 = Metric("entity_f1", True, "F1 over all entities: boundaries and type have to be right", _entity_f1)


def count_entities(
    gold: Sequence[str], pred: Sequence[str], cluster: ArrayLike, *, n_clusters: int
) -> tuple[Counts, tuple[str, ...]]:
    """Entities found, found wrongly and missed, by cluster and type, as conlleval counts them (Tjong Kim Sang 2002).

    Tags are IOB2, those predicted as they come: an ``I-`` that continues no entity of its type begins one.

    Args:
        gold: ``[word]`` true tags in the order of the text.
        pred: ``[word]`` predicted tags.
        cluster: ``int [word]`` number of the sentence of each word, in which entities end.
        n_clusters: number of sentences.

    Returns:
        ``int32 [1, cluster, type, 3]`` as of :func:`count_labels`, and the types.
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


def count_correlation(gold: ArrayLike, pred: ArrayLike, cluster: ArrayLike, *, n_clusters: int) -> Floats:
    """``[1, cluster, 1, 6]`` sums from which Pearson's correlation follows, for the data and its resamples.

    Arguments are those of :func:`count_numbers`, for one layer.
    """
    true, guessed = np.asarray(gold, np.float64), np.asarray(pred, np.float64)
    # Centred, as the difference of two large sums would lose digits; a correlation stays the same.
    true, guessed = true - true.mean(), guessed - guessed.mean()
    terms = (np.ones_like(true), true, true**2, guessed, guessed**2, true * guessed)
    sums = [np.bincount(np.asarray(cluster), weights=values, minlength=n_clusters) for values in terms]
    return np.stack(sums, axis=-1).astype(np.float64)[None, :, None, :]


def _pearson(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    sums = counts.sum(axis=-2)
    both = sums[..., _BOTH] - ratio(sums[..., _GOLD] * sums[..., _PRED], sums[..., _N])
    spreads = [
        sums[..., squared] - ratio(sums[..., plain] ** 2, sums[..., _N])
        for plain, squared in ((_GOLD, _GOLD_SQUARED), (_PRED, _PRED_SQUARED))
    ]
    return ratio(both, np.sqrt(np.maximum(spreads[0] * spreads[1], 0)))


PEARSON = Metric(
    "pearson", True, "Pearson's correlation of true and predicted numbers", _pearson, "sums", bounds="correlation"
)


def count_answers(gold: Sequence[Sequence[str]], pred: Sequence[str], cluster: ArrayLike, *, n_clusters: int) -> Floats:
    """``[1, cluster, 1, 3]`` sums of exact matches and of F1 of answers, and the number of questions.

    As the evaluation script of SQuAD: case, punctuation, articles and white space do not count, the best of several
    true answers does. No answer is an empty text, which matches nothing else.

    Args:
        gold: ``[question]`` true answers; an empty sequence for a question that has none.
        pred: ``[question]`` predicted answer.
        cluster: ``int [question]`` number of the text that each question is about.
        n_clusters: number of texts.
    """
    best = [
        max((_match(_normal(answer), _normal(guess)) for answer in (answers or [""])), key=sum)
        for answers, guess in zip(gold, pred, strict=True)
    ]
    terms = (*np.array(best, dtype=np.float64).reshape(-1, 2).T, np.ones(len(best)))
    sums = [np.bincount(np.asarray(cluster), weights=values, minlength=n_clusters) for values in terms]
    return np.stack(sums, axis=-1).astype(np.float64)[None, :, None, :]


def _normal(answer: str) -> list[str]:
    return _ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def _match(gold: list[str], guess: list[str]) -> tuple[float, float]:
    """Whether two answers are the same, and the F1 of their words."""
    same = float(gold == guess)
    common = sum((Counter(gold) & Counter(guess)).values())
    return same, 2 * common / (len(gold) + len(guess)) if gold and guess else same


EXACT_MATCH = Metric(
    "exact_match", True, "share of questions whose answer is predicted as it is", partial(ratio_of_sums, 0, 2), "sums"
)
ANSWER_F1 = Metric(
    "answer_f1", True, "F1 of words in the answer, mean over questions", partial(ratio_of_sums, 1, 2), "sums"
)
