"""Scores of predictions: the metrics of each kind of task, with intervals over items and over seeds."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bertology.finetuning._items import Kind
from bertology.measures import Bootstrap, Metric, bootstrap, count_labels, count_numbers, find_metric, over_runs
from bertology.measures.metrics import (
    ANSWER_F1,
    ENTITY_F1,
    EXACT_MATCH,
    PEARSON,
    binary_f1,
    count_answers,
    count_correlation,
    count_entities,
)

_IOB = ("B-", "I-")
Counted = tuple[NDArray[Any], tuple[str, ...], list[Metric]]
"""Counts ``[1, cluster, label, kind]``, names of the labels, and metrics of these counts."""


def counted(predictions: pd.DataFrame, kind: Kind, labels: Sequence[str], *, positive: str | None) -> list[Counted]:
    """Counts of predictions, and the metrics that are computed from them.

    Args:
        predictions: the columns ``cluster_id``, ``gold`` and ``pred``.
        kind: of the task.
        labels: labels of train, those that can be predicted.
        positive: of two labels the one whose F1 is computed; the second when left out.

    """
    clusters, cluster = np.unique(predictions["cluster_id"].to_numpy(), return_inverse=True)
    n_clusters = len(clusters)
    gold, pred = predictions["gold"].tolist(), predictions["pred"].tolist()
    if kind == "numbers":
        true, guessed = ([math.nan if text == "" else float(text) for text in texts] for texts in (gold, pred))
        ranked = count_numbers(true, [guessed], cluster, n_clusters=n_clusters)
        return [
            (count_correlation(true, guessed, cluster, n_clusters=n_clusters), (), [PEARSON]),
            (ranked, (), [find_metric("spearman"), find_metric("r2")]),
        ]
    if kind == "answers":
        truth = [json.loads(answers) for answers in gold]
        return [(count_answers(truth, pred, cluster, n_clusters=n_clusters), (), [EXACT_MATCH, ANSWER_F1])]
    names = (*labels, *sorted({*gold, *pred} - {*labels}))
    code = {name: number for number, name in enumerate(names)}
    codes = [np.array([code[label] for label in side]) for side in (gold, pred)]
    counts = count_labels(codes[0], codes[1][None], cluster, n_labels=len(names), n_clusters=n_clusters)
    metrics = [find_metric("accuracy"), find_metric("macro_f1")]
    if kind == "labels":
        metrics.append(find_metric("matthews"))
        if len(labels) == 2:
            metrics.append(binary_f1(positive or labels[1]))
        return [(counts, names, metrics)]
    if not any(label.startswith(_IOB) for label in labels):
        return [(counts, names, metrics)]
    entities, types = count_entities(gold, pred, cluster, n_clusters=n_clusters)
    return [(entities, types, [ENTITY_F1]), (counts, names, [*metrics, find_metric("micro_f1")])]


def scores(
    predictions: pd.DataFrame, kind: Kind, labels: Sequence[str], *, positive: str | None
) -> dict[str, Bootstrap]:
    """All metrics of some predictions with 95 % intervals over clusters of items; arguments as of :func:`counted`."""
    found: dict[str, Bootstrap] = {}
    for counts, names, metrics in counted(predictions, kind, labels, positive=positive):
        found |= bootstrap(counts, metrics, labels=names)
    return found


def values(predictions: pd.DataFrame, kind: Kind, labels: Sequence[str], *, positive: str | None) -> dict[str, float]:
    """All metrics of some predictions, without intervals; arguments as of :func:`counted`."""
    return {
        metric.name: float(metric(counts.sum(axis=1)[0], names))
        for counts, names, metrics in counted(predictions, kind, labels, positive=positive)
        for metric in metrics
    }


def majority(predictions: pd.DataFrame, train: Sequence[str], kind: Kind) -> pd.DataFrame | None:
    """Predictions of one and the same for every item: the most frequent label of train, of numbers their mean."""
    if kind == "answers":
        return None
    if kind == "numbers":
        return predictions.assign(pred=repr(float(np.mean([float(text) for text in train]))))
    return predictions.assign(pred=Counter(train).most_common(1)[0][0])


def collapsed(predictions: pd.DataFrame, kind: Kind) -> str | None:
    """The one label that is predicted for all items, where these have several; None where there is no such label."""
    is_one = kind in ("labels", "tags") and predictions["pred"].nunique() == 1 and predictions["gold"].nunique() > 1
    return str(predictions["pred"].iloc[0]) if is_one else None


def score_rows(runs: Sequence[Bootstrap]) -> dict[str, Any]:
    """The mean of a metric over runs with its interval for other runs and items, as fields of a row."""
    whole = over_runs(runs)
    by_run = np.array([run.values[0] for run in runs])
    return {
        "value": float(whole.values[0]),
        "stderr": float(whole.stderr[0]),
        "ci_low": float(whole.ci_low[0]),
        "ci_high": float(whole.ci_high[0]),
        "ci_method": whole.ci_methods[0],
        "seed_sd": float(by_run.std(ddof=1)) if len(runs) > 1 else math.nan,
        "n_seeds": len(runs),
        "n_clusters": whole.n_clusters,
    }
