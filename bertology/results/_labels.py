"""Which labels are told apart, and what is taken for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bertology.measures import count_label_sets, count_labels, label_scores
from bertology.results._predictions import Predictions, split_sets

if TYPE_CHECKING:
    import pandas as pd


def per_label_scores(predictions: Predictions) -> pd.DataFrame:
    """Precision, recall and F1 of every label that occurs or is predicted.

    Returns:
        One row a label, the most frequent first, with columns ``precision``, ``recall``, ``f1`` (fractions, NaN where
        undefined), ``support`` (items with the label), ``predicted`` (items given it), and of the label as a yes or no
        ``tp``, ``fp``, ``fn`` and ``tn`` items.
    """
    import pandas as pd

    everything = np.zeros(len(predictions.gold), dtype=np.int64)
    labels: Sequence[str] = predictions.labels
    gold, pred = predictions.gold, predictions.pred[None]
    if predictions.label_sets:
        labels, members = split_sets(labels)
        counts = count_label_sets(gold, pred, everything, members=members, n_clusters=1)
    else:
        counts = count_labels(gold, pred, everything, n_labels=len(labels), n_clusters=1)
    scores = label_scores(counts[0, 0])
    true_positives, false_positives, false_negatives = counts[0, 0].T
    frame = pd.DataFrame(
        {
            "precision": scores.precision,
            "recall": scores.recall,
            "f1": scores.f1,
            "support": scores.support,
            "predicted": scores.predicted,
            "tp": true_positives,
            "fp": false_positives,
            "fn": false_negatives,
            "tn": len(gold) - counts[0, 0].sum(axis=-1),
        },
        index=pd.Index(list(labels), name="label"),
    )
    frame = frame[(frame["support"] > 0) | (frame["predicted"] > 0)]
    return frame.sort_index().sort_values("support", ascending=False, kind="stable")


def confusion(predictions: Predictions) -> pd.DataFrame:
    """How many items of each gold label (rows) were given each label (columns), the most frequent gold label first.

    Where an item may have any number of labels, rows and columns are the sets of them.
    """
    import pandas as pd

    predictions = replace(predictions, label_sets=False)
    n_labels = len(predictions.labels)
    pairs = np.bincount(predictions.gold.astype(np.int64) * n_labels + predictions.pred, minlength=n_labels**2)
    order = per_label_scores(predictions).index
    names = list(predictions.labels)
    frame = pd.DataFrame(pairs.reshape(n_labels, n_labels), index=names, columns=names)
    return frame.loc[order, order].rename_axis(index="gold", columns="pred")
