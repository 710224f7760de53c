"""What a metric is: a function of counts that were summed over sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Tally = Literal["labels", "edges", "roots", "arcs", "answers", "choices", "changes", "agreement", "heads"]
"""What is counted: labels of items; of trees undirected edges, roots, or directed arcs with their relations; of what a
masked language model says places of answers, choices, what a change of the text moves, or answers that agree; sums over
attention maps."""


@dataclass(frozen=True)
class Metric:
    """A score computed from counts of labels, of what trees have in common, or of what is said at masks."""

    name: str
    higher_is_better: bool
    description: str
    """One line that says what is averaged over what."""
    function: Callable[[NDArray[Any], Sequence[str]], Floats]
    """From counts ``[..., label, kind]`` summed over clusters, and the labels' names, to values ``[...]``: a fraction,
    or NaN where the metric is undefined."""
    tally: Tally = "labels"
    """What it counts: :func:`count_labels` says what its three kinds are, :func:`count_trees` what those of trees, and
    :func:`count_answers` and those after it what those of a masked language model."""
    which: Callable[[str], bool] | None = None
    """Of a mean over some of the groups of items, whether a group takes part; None for a metric of all of them."""
    enters: Callable[[NDArray[Any], Sequence[str]], NDArray[np.bool_]] | None = None
    """From counts ``[cluster, label, kind]`` to which clusters have anything to say to it, where an item is a cluster;
    None for a metric of all items."""

    def __call__(self, counts: NDArray[Any], labels: Sequence[str] = ()) -> Floats:
        """The metric of counts ``[..., label, kind]``, as values ``[...]``."""
        return self.function(counts, labels)


def ratio(over: NDArray[Any], under: NDArray[Any]) -> Floats:
    """``over / under``, NaN where there is nothing to divide by."""
    result = np.full(np.broadcast_shapes(np.shape(over), np.shape(under)), np.nan)
    np.divide(over, under, out=result, where=np.asarray(under) > 0, dtype=np.float64)
    return result
