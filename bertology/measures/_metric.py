"""What a metric is: a function of counts that were summed over clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CountKind = Literal["labels", "edges", "roots", "arcs", "answers", "choices", "changes", "agreement", "sums", "numbers"]
"""What is counted: labels of items; undirected edges, roots, or directed arcs with relations of trees; of a masked
language model ranks of answers, choices between two, effects of a change of the text, or agreement of answers; sums
over attention maps or vectors; numbers that are predicted."""
Bounds = Literal["share", "correlation", "none"]
"""What a value can be: in 0…1 in every cluster, as a share of items is; in −1…1 of the whole; any number."""


@dataclass(frozen=True)
class Metric:
    """A score computed from counts of labels, of parts of trees, of predictions at masks, or from sums over maps."""

    name: str
    higher_is_better: bool
    description: str
    """One line that says what is averaged over what."""
    function: Callable[[NDArray[Any], Sequence[str]], Floats]
    """From counts ``[..., label, kind]`` summed over clusters, and the labels' names, to values ``[...]``: a fraction,
    or NaN where the metric is undefined."""
    count_kind: CountKind = "labels"
    """What is counted: see :func:`count_labels`, :func:`count_trees` and :class:`Grouped`."""
    which: Callable[[str], bool] | None = None
    """For a mean over some of the groups of items: whether a group takes part. None for a metric of all groups."""
    enters: Callable[[NDArray[Any], Sequence[str]], NDArray[np.bool_]] | None = None
    """From counts ``[cluster, label, kind]`` to which clusters the metric is defined for, where each item is a cluster;
    None for a metric of all items."""
    bounds: Bounds = "share"
    """Intervals of a share that is 0 or 1 in every cluster are exact; no resample shows how a correlation varies that
    is the same in all."""

    def __call__(self, counts: NDArray[Any], labels: Sequence[str] = ()) -> Floats:
        """The metric of counts ``[..., label, kind]``, as values ``[...]``."""
        return self.function(counts, labels)


def sum_metric(name: str, description: str, *, higher_is_better: bool = True, bounds: Bounds = "none") -> Metric:
    """A metric of attention heads or of vectors: a ratio of two sums over sentences.

    Args:
        name: ends in its unit, ``_nats``, ``_bits`` or ``_words``, if values are no fractions.
        description: one line that states numerator and denominator.
        higher_is_better: whether high values are the ones of interest.
        bounds: what a value can be.
    """
    return Metric(name, higher_is_better, description, partial(ratio_of_sums, 0, 1), "sums", bounds=bounds)


def share_metric(name: str, description: str, *, higher_is_better: bool = True) -> Metric:
    """A :func:`sum_metric` that is a share of items, or a mean of such shares, in every cluster."""
    return sum_metric(name, description, higher_is_better=higher_is_better, bounds="share")


def ratio_of_sums(numerator: int, denominator: int, counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """One kind of counts ``[..., label, kind]`` over another, both summed over labels."""
    return ratio(counts[..., numerator].sum(axis=-1), counts[..., denominator].sum(axis=-1))


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> Floats:
    """``numerator / denominator``, NaN where the denominator is not above 0."""
    result = np.full(np.broadcast_shapes(np.shape(numerator), np.shape(denominator)), np.nan)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) > 0, dtype=np.float64)
    return result
