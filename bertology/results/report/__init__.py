"""Pages of results: the report of one or several runs (``_page.py``), and of a comparison (``_comparison.py``)."""

from bertology.results.report._comparison import (
    ComparisonPage,
    findings,
    head_findings,
    head_table,
    render_comparison,
    retained_charts,
    size_table,
    write_comparison,
)
from bertology.results.report._page import write_report

__all__ = [
    "ComparisonPage",
    "findings",
    "head_findings",
    "head_table",
    "render_comparison",
    "retained_charts",
    "size_table",
    "write_comparison",
    "write_report",
]
