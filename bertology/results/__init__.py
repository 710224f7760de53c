"""What was found: tidy tables, and views of them."""

from bertology.results._cloze_predictions import ClozeOutcomes, ClozePredictions, read_outcomes
from bertology.results._formats import View
from bertology.results._grid_view import GridView
from bertology.results._groups import GroupLine, GroupTable, group_scores
from bertology.results._head_sums import HeadSums, read_head_sums, write_head_sums
from bertology.results._labels import confusion, per_label_scores
from bertology.results._predictions import (
    SET_MARK,
    PredictedLabels,
    PredictionFolder,
    Predictions,
    prediction_schema,
    read_labels,
    read_predictions,
    read_scores,
    split_sets,
    write_predictions,
)
from bertology.results._results import Results, read_results
from bertology.results._rows import (
    SCHEMA_VERSION,
    ComparisonRow,
    ResultRow,
    comparison_rows,
    mean_of,
    reading_of,
    score_of,
)
from bertology.results._schema import comparison_schema, result_schema
from bertology.results._store import read_comparison_rows, read_result_rows, write_results
from bertology.results._view import BaselineLine, LayerLine, LayerTable, Score, layer_tables

__all__ = [
    "SCHEMA_VERSION",
    "SET_MARK",
    "BaselineLine",
    "ClozeOutcomes",
    "ClozePredictions",
    "ComparisonRow",
    "GridView",
    "GroupLine",
    "GroupTable",
    "HeadSums",
    "LayerLine",
    "LayerTable",
    "PredictedLabels",
    "PredictionFolder",
    "Predictions",
    "ResultRow",
    "Results",
    "Score",
    "View",
    "comparison_rows",
    "comparison_schema",
    "confusion",
    "group_scores",
    "layer_tables",
    "mean_of",
    "per_label_scores",
    "prediction_schema",
    "read_comparison_rows",
    "read_head_sums",
    "read_labels",
    "read_outcomes",
    "read_predictions",
    "read_result_rows",
    "read_results",
    "read_scores",
    "reading_of",
    "result_schema",
    "score_of",
    "split_sets",
    "write_head_sums",
    "write_predictions",
    "write_results",
]
