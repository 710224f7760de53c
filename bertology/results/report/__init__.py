"""Pages of results: the report of one or several runs (``_page.py``), and of a comparison (``comparison.py``)."""

from bertology.results.report._page import write_report

__all__ = ["write_report"]
