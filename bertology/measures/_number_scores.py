"""Scores of predicted numbers from sums over clusters, and baselines that predict means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.measures._metric import Floats, Metric, ratio

_N, _GOLD, _GOLD_SQUARED, _ERROR_SQUARED, _RANK, _RANK_SQUARED, _OTHER, _OTHER_SQUARED, _BOTH = range(9)


def count_numbers(gold: ArrayLike, pred: ArrayLike, cluster: ArrayLike, *, n_clusters: int) -> Floats:
    """Sums by layer and cluster from which R² and Spearman's correlation follow, for the data and its resamples.

    Ranks are those among all items; a resample keeps them.

    Args:
        gold: ``[item]`` true numbers.
        pred: ``[layer, item]`` predicted numbers.
        cluster: ``int [item]`` number of the cluster (sentence) of each item.
        n_clusters: number of clusters.

    Returns:
        ``[layer, cluster, 1, 9]``: items, sums of gold and its square and of the squared error (in standard deviations
        of gold), sums of the ranks of gold and of predictions, of their squares and of their product.
    """
    from scipy.stats import rankdata

    gold, pred, cluster = np.asarray(gold, np.float64), np.asarray(pred, np.float64), np.asarray(cluster)
    spread = float(gold.std()) or 1.0
    scaled = (gold - gold.mean()) / spread
    ranks = _centred(rankdata(gold))
    sums = np.empty((len(pred), n_clusters, 1, 9))
    for layer, numbers in enumerate(pred):
        others, errors = _centred(rankdata(numbers)), (numbers - gold) / spread
        terms = (
            np.ones_like(gold),
            *(scaled, scaled**2, errors**2, ranks, ranks**2, others, others**2, ranks * others),
        )
        for kind, values in enumerate(terms):
            sums[layer, :, 0, kind] = np.bincount(cluster, weights=values, minlength=n_clusters)
    return sums


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


def _variance(sums: NDArray[Any], total: int, squares: int) -> Floats:
    """Sum of squared differences from the mean."""
    return np.asarray(sums[..., squares] - ratio(sums[..., total] ** 2, sums[..., _N]))


def _r2(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    sums = counts.sum(axis=-2)
    return 1 - ratio(sums[..., _ERROR_SQUARED], _variance(sums, _GOLD, _GOLD_SQUARED))


def _spearman(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    sums = counts.sum(axis=-2)
    both = sums[..., _BOTH] - ratio(sums[..., _RANK] * sums[..., _OTHER], sums[..., _N])
    spreads = (_variance(sums, _RANK, _RANK_SQUARED), _variance(sums, _OTHER, _OTHER_SQUARED))
    return ratio(both, np.sqrt(np.maximum(spreads[0] * spreads[1], 0)))


NUMBER_METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "r2", True, "share of the variance of the numbers that is predicted (R²)", _r2, "numbers", bounds="none"
        ),
        Metric(
            "spearman",
            True,
            "Spearman's rank correlation of true and predicted numbers",
            _spearman,
            "numbers",
            bounds="correlation",
        ),
    )
}
