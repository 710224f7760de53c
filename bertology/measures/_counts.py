"""What a metric needs to know of predictions: true positives, false positives and false negatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Counts = NDArray[np.int32]
"""``[layer, cluster, label, 3]``: true positives, false positives, false negatives."""

TP, FP, FN = 0, 1, 2


def count_labels(gold: ArrayLike, pred: ArrayLike, cluster: ArrayLike, *, n_labels: int, n_clusters: int) -> Counts:
    """Count, for each layer, cluster and label, what was found, wrongly claimed and missed.

    Any metric over labels, and any resampling of clusters, can be computed from these counts alone.

    Args:
        gold: ``int [item]`` true label. It may be a label that training never saw: such a label is simply never
            predicted.
        pred: ``int [layer, item]`` predicted label.
        cluster: ``int [item]`` number of the cluster (sentence) an item stands in. Numbers should leave no gaps:
            an empty cluster is resampled like any other.
        n_labels: how many labels there are, those that training never saw included.
        n_clusters: how many clusters there are.

    Returns:
        ``int32 [layer, cluster, label, 3]``: true positives, false positives, false negatives.

    Raises:
        ValueError: shapes do not fit, or a label or cluster number is out of range.
    """
    gold, pred, cluster = np.asarray(gold), np.asarray(pred), np.asarray(cluster)
    if pred.ndim != 2 or gold.shape != pred.shape[1:] or cluster.shape != gold.shape:
        raise ValueError(f"shapes do not fit: gold {gold.shape}, pred {pred.shape}, cluster {cluster.shape}")
    for name, numbers, bound in (("gold", gold, n_labels), ("pred", pred, n_labels), ("cluster", cluster, n_clusters)):
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < bound):
            raise ValueError(f"{name} has numbers outside 0…{bound - 1}: {numbers.min()}…{numbers.max()}")
    size = n_clusters * n_labels * 3
    counts = np.empty((len(pred), n_clusters, n_labels, 3), dtype=np.int32)
    base = cluster.astype(np.int64) * n_labels
    missed = (base + gold) * 3 + FN
    for layer, labels in enumerate(pred):
        wrong = labels != gold
        found = (base + labels) * 3 + np.where(wrong, FP, TP)
        flat = np.bincount(found, minlength=size) + np.bincount(missed[wrong], minlength=size)
        counts[layer] = flat.reshape(n_clusters, n_labels, 3)
    return counts


def count_label_sets(
    gold: ArrayLike, pred: ArrayLike, cluster: ArrayLike, *, members: ArrayLike, n_clusters: int
) -> Counts:
    """Count as :func:`count_labels` does where an item may have any number of labels: each label is a yes or no.

    Args:
        gold: ``int [item]`` set of true labels, as a place in ``members``.
        pred: ``int [layer, item]`` set of predicted labels.
        cluster: ``int [item]`` number of the cluster (sentence) an item stands in.
        members: ``bool [set, label]`` which labels each set has.
        n_clusters: how many clusters there are.

    Returns:
        ``int32 [layer, cluster, label, 3]``: true positives, false positives, false negatives.

    Raises:
        ValueError: shapes do not fit, or a number is out of range.
    """
    gold, pred, cluster = np.asarray(gold), np.asarray(pred), np.asarray(cluster)
    of_set = np.asarray(members, dtype=np.bool_)
    if pred.ndim != 2 or gold.shape != pred.shape[1:] or cluster.shape != gold.shape:
        raise ValueError(f"shapes do not fit: gold {gold.shape}, pred {pred.shape}, cluster {cluster.shape}")
    n_sets, n_labels = of_set.shape
    for name, numbers, bound in (("gold", gold, n_sets), ("pred", pred, n_sets), ("cluster", cluster, n_clusters)):
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < bound):
            raise ValueError(f"{name} has numbers outside 0…{bound - 1}: {numbers.min()}…{numbers.max()}")
    counts = np.zeros((len(pred), n_clusters, n_labels, 3), dtype=np.int32)
    truth = of_set[gold]
    for layer, numbers in enumerate(pred):
        claimed = of_set[numbers]
        for kind, found in ((TP, truth & claimed), (FP, claimed & ~truth), (FN, truth & ~claimed)):
            items, labels = np.nonzero(found)
            flat = np.bincount(cluster[items] * n_labels + labels, minlength=n_clusters * n_labels)
            counts[layer, :, :, kind] = flat.reshape(n_clusters, n_labels)
    return counts
