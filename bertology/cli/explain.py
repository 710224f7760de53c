"""``bertology explain``: how one number of a run came about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explain(
    run: Annotated[Path, typer.Argument(help="Folder that --out of `probe` or `run` wrote.")],
    cell: Annotated[
        str, typer.Argument(help="Cell id of results.parquet, its first characters, or TASK@LAYER such as pos@7.")
    ],
) -> None:
    """Explain how one number came about: items, vectors, fit, predictions and interval, from the run's folder alone."""
    from rich import get_console

    from bertology.runner.explain import explain_cell

    typer.echo(explain_cell(run, cell, width=min(get_console().width, 100)))
