"""Scores, their intervals, comparisons between them, and the baselines and controls that they are held against.

Every score is a :class:`Metric` of counts by cluster (``_metric.py``, to be read first), so that any resample of
clusters can be scored from the same counts (``_bootstrap.py``).
"""

from bertology.measures._baselines import (
    SpanWords,
    control_labels,
    fraction_mask,
    lexical_labels,
    majority,
    word_majority,
)
from bertology.measures._bootstrap import N_RESAMPLES, Bootstrap, CiMethod, bootstrap
from bertology.measures._cloze_scores import Grouped, mean_over_groups
from bertology.measures._comparisons import (
    Comparison,
    best_set,
    center_of_gravity,
    compare,
    difference,
    differential_scores,
    expected_layer,
    kl_from_uniform,
    over_layers,
    over_runs,
    selectivity,
)
from bertology.measures._metric import Bounds, CountKind, Metric, share_metric, sum_metric
from bertology.measures._metrics import METRICS, count_labels, find_metric, grouped_macro_f1, label_scores, micro_f1
from bertology.measures._multibootstrap import MultiBootstrap, VarianceParts, multibootstrap
from bertology.measures._number_scores import count_numbers, mean_numbers
from bertology.measures._over_steps import before, mean_over_steps, step_reached
from bertology.measures._ratios import (
    RatioIntervals,
    bootstrap_ratio,
    intervals_over_clusters,
    ratio_intervals,
    sums_over_clusters,
)
from bertology.measures._task_scores import (
    ANSWER_F1,
    ENTITY_F1,
    EXACT_MATCH,
    PEARSON,
    binary_f1,
    count_answers,
    count_correlation,
    count_entities,
)
from bertology.measures._tree_scores import RELATION, UNSCORED, count_trees, read_edges, read_heads, read_root
from bertology.measures._trees import (
    check_tree,
    rooted,
    spanning_arborescences,
    spanning_trees,
    tree_depths,
    tree_distances,
    tree_edges,
)

__all__ = [
    "ANSWER_F1",
    "ENTITY_F1",
    "EXACT_MATCH",
    "METRICS",
    "N_RESAMPLES",
    "PEARSON",
    "RELATION",
    "UNSCORED",
    "Bootstrap",
    "Bounds",
    "CiMethod",
    "Comparison",
    "CountKind",
    "Grouped",
    "Metric",
    "MultiBootstrap",
    "RatioIntervals",
    "SpanWords",
    "VarianceParts",
    "before",
    "best_set",
    "binary_f1",
    "bootstrap",
    "bootstrap_ratio",
    "center_of_gravity",
    "check_tree",
    "compare",
    "control_labels",
    "count_answers",
    "count_correlation",
    "count_entities",
    "count_labels",
    "count_numbers",
    "count_trees",
    "difference",
    "differential_scores",
    "expected_layer",
    "find_metric",
    "fraction_mask",
    "grouped_macro_f1",
    "intervals_over_clusters",
    "kl_from_uniform",
    "label_scores",
    "lexical_labels",
    "majority",
    "mean_numbers",
    "mean_over_groups",
    "mean_over_steps",
    "micro_f1",
    "multibootstrap",
    "over_layers",
    "over_runs",
    "ratio_intervals",
    "read_edges",
    "read_heads",
    "read_root",
    "rooted",
    "selectivity",
    "share_metric",
    "spanning_arborescences",
    "spanning_trees",
    "step_reached",
    "sum_metric",
    "sums_over_clusters",
    "tree_depths",
    "tree_distances",
    "tree_edges",
    "word_majority",
]
