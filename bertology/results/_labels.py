"""Which labels are told apart, and what is taken for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bertology.measures import count_labels, label_scores
from bertology.results._predictions import Predictions

if TYPE_CHECKING:
    import pandas as pd


def per_label_scores(predictions: Predictions) -> pd.DataFrame:
    """Precision, recall and F1 of every label that occurs or is predicted.

    Returns:
        One row a label, the most frequent first, with columns ``precision``, ``recall``, ``f1`` (fractions, NaN where
        undefined), ``support`` (items with the label) and ``predicted`` (items given it).
    """
    import pandas as pd

    n_items, n_labels = len(predictions.gold), len(predictions.labels)
    everything = np.zeros(n_items, dtype=np.int64)
    counts = count_labels(predictions.gold, predictions.pred[None], everything, n_labels=n_labels, n_clusters=1)
    scores = label_scores(counts[0, 0])
    frame = pd.DataFrame(
        {
            "precision": scores.precision,
            "recall": scores.recall,
            "f1": scores.f1,
            "support": scores.support,
            "predicted": scores.predicted,
        },
        index=pd.Index(list(predictions.labels), name="label"),
    )
    frame = frame[(frame["support"] > 0) | (frame["predicted"] > 0)]
    return frame.sort_index().sort_values("support", ascending=False, kind="stable")


def confusion(predictions: Predictions) -> pd.DataFrame:
    """How many items of each gold label (rows) were given each label (columns), the most frequent gold label first."""
    import pandas as pd

    n_labels = len(predictions.labels)
    pairs = np.bincount(predictions.gold.astype(np.int64) * n_labels + predictions.pred, minlength=n_labels**2)
    order = per_label_scores(predictions).index
    names = list(predictions.labels)
    frame = pd.DataFrame(pairs.reshape(n_labels, n_labels), index=names, columns=names)
    return frame.loc[order, order].rename_axis(index="gold", columns="pred")
