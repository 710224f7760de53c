"""Scores, their intervals, comparisons between them, and the baselines and controls that they are held against.

Every score is a :class:`Metric` of counts by cluster (``metrics``, to be read first), so that any resample of clusters
can be scored from the same counts (``intervals``).
"""

from bertology.measures.baselines import majority
from bertology.measures.intervals import bootstrap, bootstrap_ratio, compare, multibootstrap, over_runs
from bertology.measures.metrics import (
    Metric,
    count_labels,
    count_numbers,
    find_metric,
    read_heads,
    share_metric,
    sum_metric,
)
from bertology.measures.trees import tree_distances, tree_edges

__all__ = [
    "Metric",
    "bootstrap",
    "bootstrap_ratio",
    "compare",
    "count_labels",
    "count_numbers",
    "find_metric",
    "majority",
    "multibootstrap",
    "over_runs",
    "read_heads",
    "share_metric",
    "sum_metric",
    "tree_distances",
    "tree_edges",
]
