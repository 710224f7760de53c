"""Scores, their intervals, comparisons between them, and the baselines and controls that they are held against.

Every score is a :class:`Metric` of counts by cluster (``_metrics.py``, to be read first), so that any resample of
clusters can be scored from the same counts (``_bootstrap.py``).
"""

from bertology.measures.baselines import majority
from bertology.measures.comparisons import compare, over_runs
from bertology.measures.intervals import (
    N_RESAMPLES,
    Bootstrap,
    bootstrap,
    bootstrap_ratio,
    multibootstrap,
    ratio_intervals,
)
from bertology.measures.metrics import (
    METRICS,
    RELATION,
    UNSCORED,
    CountKind,
    Metric,
    count_labels,
    count_numbers,
    find_metric,
    read_heads,
    share_metric,
    sum_metric,
)
from bertology.measures.trees import rooted, tree_depths, tree_distances, tree_edges

__all__ = [
    "METRICS",
    "N_RESAMPLES",
    "RELATION",
    "UNSCORED",
    "Bootstrap",
    "CountKind",
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
    "ratio_intervals",
    "read_heads",
    "rooted",
    "share_metric",
    "sum_metric",
    "tree_depths",
    "tree_distances",
    "tree_edges",
]
