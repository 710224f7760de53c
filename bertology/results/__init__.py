"""Results of a run: tidy tables, and views of them.

Start with ``_results.py``: :class:`Results` is what ``probe`` returns and what a folder holds. ``tables/`` has the rows
and predictions and the files they are kept in, ``views/`` makes tables that people read from rows, ``render/`` writes
and draws them, ``report/`` makes one HTML page of several runs, ``trees/`` draws parsed sentences.
"""

from bertology.results._results import Results, read_results
from bertology.results.fitted import FitOrigin, FittedProbe, Items, written_place
from bertology.results.predictions import (
    FITS,
    SET_MARK,
    ClozeOutcomes,
    HeadSums,
    PredictionFolder,
    Predictions,
    read_head_sums,
    read_labels,
    read_outcomes,
    read_predictions,
    read_scores,
    split_sets,
    write_head_sums,
    write_predictions,
)
from bertology.results.rows import ComparisonRow, ResultRow, comparison_rows, read_result_rows, reading_of, score_of

__all__ = [
    "FITS",
    "SET_MARK",
    "ClozeOutcomes",
    "ComparisonRow",
    "FitOrigin",
    "FittedProbe",
    "HeadSums",
    "Items",
    "PredictionFolder",
    "Predictions",
    "ResultRow",
    "Results",
    "comparison_rows",
    "read_head_sums",
    "read_labels",
    "read_outcomes",
    "read_predictions",
    "read_result_rows",
    "read_results",
    "read_scores",
    "reading_of",
    "score_of",
    "split_sets",
    "write_head_sums",
    "write_predictions",
    "written_place",
]
