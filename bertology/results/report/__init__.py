"""Pages of results: the report of one or several runs (``_page.py``), and of a comparison (``_comparison.py``,
``_comparison_parts.py``)."""

from bertology.results.report._comparison import (
    ComparisonPage,
    findings,
    render_comparison,
    write_comparison,
)
from bertology.results.report._comparison_parts import head_findings, head_table, retained_charts, size_table
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
