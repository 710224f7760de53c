"""The report: one HTML file that tells what a run, or several, found."""

from bertology.results.report._page import render_report
from bertology.results.report._runs import Run, read_runs
from bertology.results.report._text import SentenceTexts, find_sentences
from bertology.results.report._write import write_report

__all__ = ["Run", "SentenceTexts", "find_sentences", "read_runs", "render_report", "write_report"]
