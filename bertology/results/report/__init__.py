"""The report: the results of one or several runs as one HTML file. Start with ``_page.py``."""

from bertology.results.report._page import write_report

__all__ = ["write_report"]
