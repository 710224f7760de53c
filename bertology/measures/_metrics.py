"""Scores of predicted labels: counts by cluster and label, metrics of such counts, and all metrics by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._names import name_not_found
from bertology.measures._cloze_scores import CLOZE_METRICS
from bertology.measures._metric import Floats, Metric, ratio
from bertology.measures._number_scores import NUMBER_METRICS
from bertology.measures._tree_scores import TREE_METRICS

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
    """True positives, false positives and false negatives by layer, cluster and label.

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

    Returns:
        ``int32 [layer, cluster, label, 3]``: true positives, false positives, false negatives.

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
    if members is not None:
        return _count_sets(gold, pred, cluster, np.asarray(members, dtype=np.bool_), n_clusters)
    size = n_clusters * n_labels * 3
    counts = np.empty((len(pred), n_clusters, n_labels, 3), dtype=np.int32)
    base = cluster.astype(np.int64) * n_labels
    missed = (base + gold) * 3 + FN
    for layer, labels in enumerate(pred):
        wrong = labels != gold
        claimed = (base + labels) * 3 + np.where(wrong, FP, TP)
        flat = np.bincount(claimed, minlength=size) + np.bincount(missed[wrong], minlength=size)
        counts[layer] = flat.reshape(n_clusters, n_labels, 3)
    return counts


def _count_sets(
    gold: NDArray[Any], pred: NDArray[Any], cluster: NDArray[Any], of_set: NDArray[np.bool_], n_clusters: int
) -> Counts:
    n_labels = of_set.shape[1]
    counts = np.zeros((len(pred), n_clusters, n_labels, 3), dtype=np.int32)
    truth = of_set[gold]
    for layer, numbers in enumerate(pred):
        claimed = of_set[numbers]
        for kind, hits in ((TP, truth & claimed), (FP, claimed & ~truth), (FN, truth & ~claimed)):
            items, labels = np.nonzero(hits)
            flat = np.bincount(cluster[items] * n_labels + labels, minlength=n_clusters * n_labels)
            counts[layer, :, :, kind] = flat.reshape(n_clusters, n_labels)
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
    return Metric("micro_f1", True, f"F1 over all items' labels, the label {left_out} left out", score)


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


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("accuracy", True, "share of items whose label is predicted", _accuracy),
            Metric("macro_f1", True, "mean F1 over the labels that occur in the gold items", _macro_f1),
            micro_f1(without=(OUTSIDE,)),
            Metric(
                "matthews",
                True,
                "Matthews' correlation of gold and predicted labels (Gorodkin 2004)",
                _matthews,
                bounds="correlation",
            ),
        )
    }
    | TREE_METRICS
    | CLOZE_METRICS
    | NUMBER_METRICS
)
"""All metrics, by name."""


def find_metric(name: str | Metric) -> Metric:
    """The metric called ``name``; a metric is returned as it is.

    Raises:
        NameNotFoundError: no metric has that name; the message gives the nearest ones.
    """
    if isinstance(name, Metric):
        return name
    if name not in METRICS:
        raise name_not_found("metric", name, METRICS)
    return METRICS[name]


@dataclass(frozen=True)
class LabelScores:
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
    support = counts[..., TP] + counts[..., FN]
    predicted = counts[..., TP] + counts[..., FP]
    precision, recall = ratio(counts[..., TP], predicted), ratio(counts[..., TP], support)
    return LabelScores(precision, recall, _f1(counts), support.astype(np.int64), predicted.astype(np.int64))
