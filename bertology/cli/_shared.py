"""What several commands share: options, printing and writing of what was found, and options that stand in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bertology._memory import MEMORY_VARIABLE, memory_for_vectors
from bertology._page import PageAndFigure, is_page
from bertology.errors import BertologyError, cut_path

if TYPE_CHECKING:
    import pandas as pd

Dtype = Annotated[str, typer.Option(help="The model computes in float32, bfloat16 or float16.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")]


def _with_memory(size: str | None) -> str | None:
    if size is not None:
        os.environ[MEMORY_VARIABLE] = size
        memory_for_vectors()
    return size


Memory = Annotated[
    str | None,
    typer.Option(
        callback=_with_memory,
        metavar="SIZE",
        help="Memory that the run may use, such as 4GB; what is free. A quarter of it holds vectors between passes.",
    ),
]
"""Put into the environment, where other processes of the run find it."""
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")]
Trust = Annotated[bool, typer.Option(help="Run Python code that comes with a model; a file alone cannot grant it.")]
Language = Annotated[
    str | None, typer.Option(help="Of the text, such as en or zh: its rules find words, not those of Unicode.")
]
SplitAtSpaces = Annotated[bool, typer.Option(help="The words of the text are parted by spaces.")]
Format = Annotated[Literal["table", "csv", "json"], typer.Option("--format", "-f", help="What to print.")]


def _with_ending(path: Path | None) -> Path | None:
    is_page(path)
    return path


PageOrFigure = Annotated[
    Path | None,
    typer.Option("--out", "-o", callback=_with_ending, help="Page (.html) or figure (.svg, .pdf or .png) to write."),
]
"""Its ending is checked before anything is computed."""


def print_found(
    format: str, table: Callable[[], str], frame: Callable[[], pd.DataFrame], plain: Callable[[], Any] | None = None
) -> None:
    """Print what was found.

    Args:
        format: ``table``, ``csv`` or ``json``.
        table: the text for people.
        frame: the rows of CSV, and of JSON where ``plain`` is left out.
        plain: the value of JSON.
    """
    if format == "json":
        value = records(frame()) if plain is None else plain()
        text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    else:
        text = frame().to_csv(index=False, lineterminator="\n") if format == "csv" else table()
    typer.echo(text, nl=False)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as values of JSON; a number that is not finite is None."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return rows


def save_found(found: PageAndFigure, out: Path | None, *, what: str) -> None:
    """Write the page or figure of what was found, and where it is on standard error; nothing without a path."""
    if out is not None:
        found.save(out)
        typer.echo(f"{what} in {out}", err=True)


def only_with_file(context: typer.Context, allowed: Collection[str], file: Path) -> None:
    """Refuse options that a file of settings would have to yield to, or that would yield to it.

    Args:
        context: of the command.
        allowed: names of the parameters that go with a file.
        file: that was given.

    Raises:
        BertologyError: another option was given.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise BertologyError(
                f"{parameter.opts[0]} does not go with {cut_path(file)}: change its settings with --set"
            )
