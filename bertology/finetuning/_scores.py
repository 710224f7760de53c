"""Predictions of a model for the items of a split, and their scores with intervals over items and over seeds."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from bertology.finetuning._items import Collator, Inputs, Items, Kind, Row, TuningTask, second_start
from bertology.measures import Metric, bootstrap, count_labels, count_numbers, find_metric, over_runs
from bertology.measures.intervals import Bootstrap
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

_BATCH = 64
_MOST_PIECES = 30
"""Pieces in an answer, as in the code of Devlin et al. (2019)."""
_BEST = 20
"""First and last places of an answer that are tried with each other."""
_LABELS = "labels", "start_positions", "end_positions"
Variant = Callable[[], AbstractContextManager[Any]]
"""A function that makes a context inside which a model is changed for one pass."""


def predictions(
    model: Any, task: TuningTask, inputs: Inputs, collator: Collator, variants: Sequence[Variant] = (nullcontext,)
) -> list[pd.DataFrame]:
    """One table for each variant of a model, with one row for each item: what is true and what is predicted.

    Columns are ``item_id``, ``cluster_id``, ``gold``, ``pred`` and ``score``: the natural logarithm of the probability
    of the predicted label, the number, or of answers the sum of their logits, less those of no answer where some
    training questions have none. An item that the model cannot read has an empty prediction, which is wrong, and no
    score. Each batch is read by all variants, in their order, before the next.
    """
    items, found = inputs.items, [dict[int, tuple[str, float]]() for _ in variants]
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    with torch.inference_mode():
        for rows in inputs.batches(_BATCH):
            batch = {name: value.to(device) for name, value in collator(rows).items() if name not in _LABELS}
            for of_variant, variant in zip(found, variants, strict=True):
                with variant():
                    output = model(**batch)
                for item, text, score in _read(task, items, rows, output):
                    if item not in of_variant or score > of_variant[item][1]:
                        of_variant[item] = text, score
    model.train(was_training)
    tables = []
    for of_variant in found:
        predicted = [of_variant.get(item, ("", np.nan)) for item in range(len(items))]
        given = items.table[["item_id", "cluster_id", "gold"]]
        tables.append(given.assign(pred=[text for text, _ in predicted], score=[score for _, score in predicted]))
    return tables


def _read(task: TuningTask, items: Items, rows: list[Row], output: Any) -> Iterator[tuple[int, str, float]]:
    if task.kind == "answers":
        ends = [output[f"{end}_logits"] for end in ("start", "end") if "logits" not in output]
        logits = torch.stack(ends, -1) if ends else output["logits"]
        for row, values in zip(rows, logits.float().cpu().numpy(), strict=True):
            yield _answer(items, row, values, may_be_empty=task.has_unanswered)
        return
    values = output["logits"].float().cpu()
    if task.kind == "numbers":
        for row, number in zip(rows, values[:, 0].tolist(), strict=True):
            yield int(row.items[0]), repr(number), number
        return
    scores = values.log_softmax(-1)
    best, codes = scores.max(-1)
    for place, row in enumerate(rows):
        where = (place, torch.from_numpy(row.places)) if task.kind == "tags" else (place, None)
        chosen = codes[where].flatten().tolist(), best[where].flatten().tolist()
        for item, code, score in zip(row.items.tolist(), *chosen, strict=True):
            yield item, task.labels[code], score


def _answer(items: Items, row: Row, logits: NDArray[np.float32], *, may_be_empty: bool) -> tuple[int, str, float]:
    """The best answer in a window, empty if no answer is better; and its score."""
    item = int(row.items[0])
    assert row.offsets is not None
    inside = np.flatnonzero(row.segments == 1)
    starts, ends = (inside[np.argsort(-logits[inside, side])[:_BEST]] for side in (0, 1))
    sums = logits[starts, 0][:, None] + logits[ends, 1][None, :]
    length = ends[None, :] - starts[:, None]
    sums = np.where((length >= 0) & (length < _MOST_PIECES), sums, -np.inf)
    if not np.isfinite(sums).any():
        return item, "", -np.inf
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    score = float(sums[first, last]) - may_be_empty * float(logits[0].sum())
    sentence = items.sentences[int(items.place[item])]
    text = sentence.text[second_start(sentence) :]
    answer = text[row.offsets[starts[first], 0] : row.offsets[ends[last], 1]]
    return item, "" if may_be_empty and score < 0 else answer, score


_IOB = ("B-", "I-")
Counted = tuple[NDArray[Any], tuple[str, ...], list[Metric]]
"""Counts ``[1, cluster, label, kind]``, names of the labels, and metrics of these counts."""


def counted(predictions: pd.DataFrame, task: TuningTask) -> list[Counted]:
    """Counts of predictions (columns ``cluster_id``, ``gold`` and ``pred``), and the metrics computed from them."""
    kind, labels = task.kind, task.labels
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
            metrics.append(binary_f1(task.positive or labels[1]))
        return [(counts, names, metrics)]
    if not any(label.startswith(_IOB) for label in labels):
        return [(counts, names, metrics)]
    entities, types = count_entities(gold, pred, cluster, n_clusters=n_clusters)
    return [(entities, types, [ENTITY_F1]), (counts, names, [*metrics, find_metric("micro_f1")])]


def scores(predictions: pd.DataFrame, task: TuningTask) -> dict[str, Bootstrap]:
    """All metrics of some predictions, the main one first, with 95 % intervals over clusters of items."""
    found: dict[str, Bootstrap] = {}
    for counts, names, metrics in counted(predictions, task):
        found |= bootstrap(counts, metrics, labels=names)
    return found


def values(predictions: pd.DataFrame, task: TuningTask) -> dict[str, float]:
    """All metrics of some predictions, without intervals."""
    return {
        metric.name: float(metric(counts.sum(axis=1)[0], names))
        for counts, names, metrics in counted(predictions, task)
        for metric in metrics
    }


def majority(predictions: pd.DataFrame, train: Sequence[str], task: TuningTask) -> dict[str, float]:
    """Scores of one prediction for every item: the most frequent label of train, of numbers their mean; no answers."""
    if task.kind == "answers":
        return {}
    mean = task.kind == "numbers"
    constant = repr(float(np.mean([float(text) for text in train]))) if mean else Counter(train).most_common(1)[0][0]
    found = values(predictions.assign(pred=constant), task)
    return {metric: value for metric, value in found.items() if math.isfinite(value)}


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
