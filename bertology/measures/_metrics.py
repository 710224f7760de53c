"""Metrics as functions of counts, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._names import name_not_found
from bertology.measures._cloze_scores import CLOZE_METRICS
from bertology.measures._counts import FN, FP, TP
from bertology.measures._metric import Floats, Metric, ratio
from bertology.measures._tree_scores import TREE_METRICS

OUTSIDE = "O"
"""The label of words outside any span in IOB schemes."""


def _f1(counts: NDArray[Any]) -> Floats:
    return ratio(2.0 * counts[..., TP], 2.0 * counts[..., TP] + counts[..., FP] + counts[..., FN])


def _accuracy(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    found = counts[..., TP].sum(axis=-1)
    return ratio(found, found + counts[..., FN].sum(axis=-1))


def _macro_f1(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    present = counts[..., TP] + counts[..., FN] > 0
    return ratio(np.where(present, _f1(counts), 0.0).sum(axis=-1), present.sum(axis=-1))


def micro_f1(*, without: Collection[str]) -> Metric:
    """F1 over all items' labels, some of which only say that there is nothing to find.

    Args:
        without: the labels left out.
    """

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        keep = [number for number in range(counts.shape[-2]) if number >= len(labels) or labels[number] not in without]
        return _f1(counts[..., keep, :].sum(axis=-2))

    left_out = " and ".join(sorted(without))
    return Metric("micro_f1", True, f"F1 over all items' labels, the label {left_out} left out", score)


def grouped_macro_f1(name: str, description: str, *, group: Callable[[str], str | None]) -> Metric:
    """Mean F1 over groups of labels: a prediction is right if its label is, and counts in its label's group.

    Args:
        name: what the metric is called.
        description: one line that says what is averaged over what.
        group: the group of a label; None for labels that belong to none.
    """

    def score(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
        groups: dict[str, list[int]] = {}
        for number, label in enumerate(labels):
            found = group(label)
            if found is not None:
                groups.setdefault(found, []).append(number)
        if not groups:
            return np.full(counts.shape[:-2], np.nan)
        summed = np.stack([counts[..., members, :].sum(axis=-2) for members in groups.values()], axis=-2)
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
        )
    }
    | TREE_METRICS
    | CLOZE_METRICS
)
"""All metrics, by name."""


def find_metric(name: str | Metric) -> Metric:
    """The metric called ``name``; a metric itself is what it is.

    Raises:
        NameNotFoundError: there is none; the message names the nearest ones.
    """
    if isinstance(name, Metric):
        return name
    if name not in METRICS:
        raise name_not_found("metric", name, METRICS)
    return METRICS[name]


@dataclass(frozen=True)
class LabelScores:
    """How well each label is told from the others; all arrays are ``[..., label]``."""

    precision: Floats
    """Share of predictions of the label that are right; NaN where it is never predicted."""
    recall: Floats
    """Share of the label's items that are found; NaN where it does not occur."""
    f1: Floats
    """Harmonic mean of both; NaN where the label neither occurs nor is predicted."""
    support: NDArray[np.int64]
    """How many items have the label."""
    predicted: NDArray[np.int64]
    """How many items are given the label."""


def label_scores(counts: NDArray[Any]) -> LabelScores:
    """Precision, recall and F1 of each label, from counts ``[..., label, 3]`` summed over clusters."""
    support = counts[..., TP] + counts[..., FN]
    predicted = counts[..., TP] + counts[..., FP]
    return LabelScores(
        precision=ratio(counts[..., TP], predicted),
        recall=ratio(counts[..., TP], support),
        f1=_f1(counts),
        support=support.astype(np.int64),
        predicted=predicted.astype(np.int64),
    )
