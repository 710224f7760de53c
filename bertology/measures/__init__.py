"""Scores, how sure they are, and what they must be held against."""

from bertology._layer_weights import center_of_gravity, kl_from_uniform
from bertology.measures._baselines import majority, word_majority
from bertology.measures._bootstrap import (
    Bootstrap,
    bootstrap,
    difference,
    mean_over_seeds,
    seed_spread,
    selectivity,
)
from bertology.measures._comparisons import Comparison, benjamini_hochberg, best_set, compare
from bertology.measures._controls import control_labels
from bertology.measures._counts import Counts, count_labels
from bertology.measures._layers import LEAST_GAIN, ExpectedLayer, differential_scores, expected_layer
from bertology.measures._metrics import METRICS, LabelScores, Metric, find_metric, label_scores

__all__ = [
    "LEAST_GAIN",
    "METRICS",
    "Bootstrap",
    "Comparison",
    "Counts",
    "ExpectedLayer",
    "LabelScores",
    "Metric",
    "benjamini_hochberg",
    "best_set",
    "bootstrap",
    "center_of_gravity",
    "compare",
    "control_labels",
    "count_labels",
    "difference",
    "differential_scores",
    "expected_layer",
    "find_metric",
    "kl_from_uniform",
    "label_scores",
    "majority",
    "mean_over_seeds",
    "seed_spread",
    "selectivity",
    "word_majority",
]
