"""``bertology report``: runs as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bertology.cli.probe import COLUMNS_HELP


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders that --out of other commands left.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; RUN/report.html for one run, report.html for several."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", "-c", help="Name or path of a corpus to take sentences from; may be repeated."),
    ] = None,
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    text: Annotated[
        bool, typer.Option("--text/--no-text", help="Show sentences of the corpora, or only their ids.")
    ] = True,
) -> None:
    """Write one HTML file that tells what runs found; it opens from disk and asks nothing of any network.

    It holds a summary in words, a table of layers by tasks, a chart, labels, confusions, the words that one layer got
    wrong and another right, and where the numbers come from.
    """
    from bertology._files import real_path
    from bertology.results.report import write_report

    path = out or (runs[0] / "report.html" if len(set(map(real_path, runs))) == 1 else Path("report.html"))
    write_report(runs, path, corpora=corpus or (), columns=columns, with_text=text)
    typer.echo(f"report in {path}")
