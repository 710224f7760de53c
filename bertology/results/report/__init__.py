"""Pages of results: the report of one or several runs (``_page.py``), and of a comparison (``_comparison.py``)."""

from bertology.results.report._comparison import (
    ComparisonPage,
    PageCurves,
    PageTable,
    findings,
    render_comparison,
    write_comparison,
)
from bertology.results.report._drawings import Curve
from bertology.results.report._page import write_report

__all__ = [
    "ComparisonPage",
    "Curve",
    "PageCurves",
    "PageTable",
    "findings",
    "render_comparison",
    "write_comparison",
    "write_report",
]
