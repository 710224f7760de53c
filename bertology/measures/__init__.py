"""Scores, how sure they are, and what they must be held against."""

from bertology._layer_weights import (
    center_of_gravity,
    kl_from_uniform,
)
from bertology.measures._arborescences import (
    spanning_arborescences,
)
from bertology.measures._baselines import (
    majority,
    majority_labels,
    word_majority,
    word_majority_labels,
)
from bertology.measures._bootstrap import (
    BCA,
    EXACT,
    N_RESAMPLES,
    NO_INTERVAL,
    RUNS_BCA,
    Bootstrap,
    bootstrap,
    difference,
    seed_spread,
    selectivity,
)
from bertology.measures._cloze_scores import (
    Grouped,
    count_agreement,
    count_answers,
    count_changes,
    count_choices,
    mean_over_groups,
)
from bertology.measures._comparisons import (
    Comparison,
    benjamini_hochberg,
    best_set,
    compare,
)
from bertology.measures._controls import (
    control_labels,
)
from bertology.measures._counts import (
    FN,
    FP,
    TP,
    Counts,
    count_label_sets,
    count_labels,
)
from bertology.measures._depths import (
    over_layers,
)
from bertology.measures._fractions import (
    fraction_mask,
)
from bertology.measures._head_scores import (
    head_metric,
)
from bertology.measures._layers import (
    LEAST_GAIN,
    ExpectedLayer,
    differential_scores,
    expected_layer,
)
from bertology.measures._lexical import (
    LexicalAnswers,
    SpanWords,
    lexical_labels,
)
from bertology.measures._metric import (
    Metric,
    Tally,
)
from bertology.measures._metrics import (
    METRICS,
    LabelScores,
    find_metric,
    grouped_macro_f1,
    label_scores,
    micro_f1,
)
from bertology.measures._ratios import (
    RatioIntervals,
    bootstrap_ratio,
    ratio_intervals,
)
from bertology.measures._runs import (
    mean_over_seeds,
    over_runs,
)
from bertology.measures._tree_scores import (
    CORRELATED_LENGTHS,
    RELATION,
    UNSCORED,
    count_trees,
    read_edges,
    read_heads,
    read_root,
)
from bertology.measures._trees import (
    Edge,
    check_tree,
    rooted,
    spanning_arborescence,
    spanning_tree,
    spanning_trees,
    tree_depths,
    tree_distances,
    tree_edges,
)

__all__ = [
    "BCA",
    "CORRELATED_LENGTHS",
    "EXACT",
    "FN",
    "FP",
    "LEAST_GAIN",
    "METRICS",
    "NO_INTERVAL",
    "N_RESAMPLES",
    "RELATION",
    "RUNS_BCA",
    "TP",
    "UNSCORED",
    "Bootstrap",
    "Comparison",
    "Counts",
    "Edge",
    "ExpectedLayer",
    "Grouped",
    "LabelScores",
    "LexicalAnswers",
    "Metric",
    "RatioIntervals",
    "SpanWords",
    "Tally",
    "benjamini_hochberg",
    "best_set",
    "bootstrap",
    "bootstrap_ratio",
    "center_of_gravity",
    "check_tree",
    "compare",
    "control_labels",
    "count_agreement",
    "count_answers",
    "count_changes",
    "count_choices",
    "count_label_sets",
    "count_labels",
    "count_trees",
    "difference",
    "differential_scores",
    "expected_layer",
    "find_metric",
    "fraction_mask",
    "grouped_macro_f1",
    "head_metric",
    "kl_from_uniform",
    "label_scores",
    "lexical_labels",
    "majority",
    "majority_labels",
    "mean_over_groups",
    "mean_over_seeds",
    "micro_f1",
    "over_layers",
    "over_runs",
    "ratio_intervals",
    "read_edges",
    "read_heads",
    "read_root",
    "rooted",
    "seed_spread",
    "selectivity",
    "spanning_arborescence",
    "spanning_arborescences",
    "spanning_tree",
    "spanning_trees",
    "tree_depths",
    "tree_distances",
    "tree_edges",
    "word_majority",
    "word_majority_labels",
]
