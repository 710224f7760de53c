"""Options of commands, most of them made from the settings they set; and how commands print and write results."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

import typer

from bertology._machine import MEMORY_VARIABLE, memory_for_vectors
from bertology._page import PageAndFigure, is_page
from bertology.errors import BertologyError, cut_path

if TYPE_CHECKING:
    import pandas as pd

    from bertology.activations.progress import Progress

Command = TypeVar("Command", bound=Callable[..., None])

_FLAGS = {
    "model": ("--model", "-m"),
    "corpus": ("--corpus", "-c"),
    "layers": ("--layers", "-l"),
    "stored_dtype": ("--store-dtype",),
    "test_split": ("--split", "--test-split"),
}
"""Names on the command line that are not those of the setting."""
_OF_TEXTS = {
    "language": (str | None, None, "Language of the text, such as en or zh: its rules find words, not Unicode's."),
    "split_at_spaces": (bool, False, "The words of the text are separated by spaces."),
}
"""Options of commands that read a text, by name: type, default and help."""
EXAMPLES = "Examples:"
_DOCS = "Documentation:"


def closing(page: str, *examples: str) -> str:
    """The end of a command's help: two examples, and the page of the documentation that explains it."""
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\n{EXAMPLES}\n{lines}\n\n{_DOCS} docs/{page}.md"


def with_options(*names: str, **changed: Any) -> Callable[[Command], Command]:
    """Give a command the options of settings, which it takes as ``**settings``.

    Type, default and help are those of the setting, described once, in :mod:`bertology.families.request`.

    Args:
        names: settings of :class:`~bertology.families.request.ProbeRequest`, or options of commands that read a text.
        changed: by name, a default of this command's own; or a default and a help text.
    """

    def decorated(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        n_first = 1 + sum(one.kind is not inspect.Parameter.KEYWORD_ONLY for one in own)
        parameters = [*own[:n_first], *(_parameter(name, changed) for name in names), *own[n_first:]]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorated


def _parameter(name: str, changed: Mapping[str, Any]) -> inspect.Parameter:
    """The option of one setting."""
    from bertology.families.request import flat_setting

    if name in _OF_TEXTS:
        kind, default, text = _OF_TEXTS[name]
    else:
        field = flat_setting(name)
        kind, default, text = _kind_of(field.annotation), field.get_default(), field.description
        default = None if field.is_required() else default
    if name in changed:
        default, text = changed[name] if isinstance(changed[name], tuple) else (changed[name], text)
    if default is None:
        kind = kind | None
    plain = " ".join(re.sub(r"`|\*(\w+)\*", r"\1", text).split())
    option = typer.Option(*_FLAGS.get(name, ()), help=plain)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _kind_of(annotation: Any) -> Any:
    """The type of an option for a setting: a flag, a whole number, or a text that the settings check."""
    parts = [part for part in get_args(annotation) if part is not NoneType]
    is_number = annotation is int or (parts and all(int in (part, *get_args(part)[:1]) for part in parts))
    return bool if annotation is bool else int if is_number else str


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
        help="Memory that the run may use, such as 4GB. Default: free memory. A quarter of it caches vectors.",
    ),
]
"""Put into the environment, where other processes of the run find it."""
Trust = Annotated[bool, typer.Option(help="Run Python code that comes with a model; a file alone cannot grant it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Format = Annotated[Literal["table", "csv", "json"], typer.Option("--format", "-f", help="What to print.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting: models[0].dtype=bfloat16; may be repeated."),
]


def _with_ending(path: Path | None) -> Path | None:
    is_page(path)
    return path


PageOrFigure = Annotated[
    Path | None,
    typer.Option("--out", "-o", callback=_with_ending, help="Page (.html) or figure (.svg, .pdf or .png) to write."),
]
"""Its ending is checked before anything is computed."""


def shows_progress(quiet: bool) -> bool:
    """Whether to draw progress bars: by default on a terminal only."""
    return not quiet and sys.stderr.isatty()


def bars(quiet: bool) -> Callable[[str], Progress]:
    """The progress display of each job from its label."""
    from bertology.activations.progress import BarProgress, silent

    return BarProgress if shows_progress(quiet) else lambda _: silent


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
    """Write the page or figure of what was found, and its path on standard error; nothing without a path."""
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


def changed_settings(changes: Sequence[str] | None) -> dict[str, Any]:
    """Settings that stand on the command line as ``key=value``."""
    from bertology._settings import Place, Written, changed

    plain: dict[str, Any] = changed(Written(Place("--set"), {}), changes or ()).plain()
    return plain


def confirm(question: str, *, otherwise: str) -> None:
    """Ask the person at the terminal whether to go on; disagreement ends the command.

    Raises:
        BertologyError: there is no terminal, so that nobody can be asked; the message is ``otherwise``.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BertologyError(otherwise)
    typer.confirm(question, abort=True, err=True)
