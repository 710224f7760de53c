"""Results of a run: tidy tables, and views of them.

Start with ``_results.py``: :class:`Results` is what ``probe`` returns and what a folder holds. ``rows.py`` and
``predictions.py`` have the tidy tables and their files. ``views.py`` and ``compared.py`` make of them what people read;
``table.py`` is the one description of a table that every format takes.
``figures.py`` draws, ``report/`` makes one HTML page of several runs, ``trees.py`` shows parsed sentences.
"""

from bertology.results._results import OverSteps, Results, read_results
from bertology.results.predictions import Predictions
from bertology.results.rows import ResultRow

__all__ = ["OverSteps", "Predictions", "ResultRow", "Results", "read_results"]
