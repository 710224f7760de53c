"""Results of a run: tidy tables, and views of them.

Start with ``_results.py``: :class:`Results` is what ``probe`` returns and what a folder holds. ``rows.py`` and
``predictions.py`` have the tidy tables and their files. ``views.py``, ``heads.py``, ``over_steps.py`` and
``compared.py`` make of them what people read; ``table.py`` is the one description of a table that every format takes.
``figures.py`` draws, ``report/`` makes one HTML page of several runs, ``trees.py`` shows parsed sentences.
"""

from bertology.results._results import OverSteps, Results, read_results
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
    "OverSteps",
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
