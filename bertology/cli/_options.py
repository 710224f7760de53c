"""Commands made from functions, their options from signatures and settings; how commands print and write results."""

import ast
import inspect
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

import typer

from bertology._lazy import pd
from bertology._machine import MEMORY_VARIABLE, memory_for_vectors
from bertology.errors import BertologyError, cut_path

if TYPE_CHECKING:
    from bertology._page import PageAndFigure
    from bertology.activations.progress import Progress

Function = TypeVar("Function", bound=Callable[..., None])
Format = Literal["table", "csv", "json"]
_WIDTH = 100


def _with_memory(size: str | None) -> str | None:
    """Put the size into the environment, where other processes of the run find it."""
    if size is not None:
        os.environ[MEMORY_VARIABLE] = size
        memory_for_vectors()
    return size


_OPTIONS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("options.toml").read_text("utf-8"))
"""Common properties of parameters of commands by name; the file says what they are."""
_OPTIONS["memory"]["callback"] = _with_memory


@dataclass(frozen=True)
class Command:
    """A function as a command; its options are the keyword-only parameters, and the settings it takes as a mapping."""

    function: Callable[..., None]
    page: str
    """The page of the documentation that explains it."""
    examples: tuple[str, ...]
    settings: str
    """Settings of :class:`~bertology.families.request.ProbeRequest`, where type, default and help are described."""
    of: Mapping[str, str]
    """Further options by the function whose parameters they are, or the class whose fields they are, ``module:name``,
    which has their type, default and help; ``name=--flags`` where they go by another name. Arguments that a command
    does not describe itself are described there."""
    changed: Mapping[str, Any]
    """Defaults of this command's own by option, or a default and a help text."""

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return str(inspect.getdoc(self.function)).partition("\n\n")[0]

    def add(self, app: typer.Typer, name: str) -> None:
        """Add the command to an application."""
        about, described = _described(str(inspect.getdoc(self.function)))
        signature = inspect.signature(self.function, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        n_first = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in own) + 1  # settings follow the first option
        options = list[inspect.Parameter]()
        for path, names in {"": self.settings, **self.of}.items():
            known = _parameters(path) if path else {}
            for one, _, flags in (written.partition("=") for written in names.split()):
                kind, default, text = known[one] if path else _of_setting(one)
                if one in self.changed:
                    changed = self.changed[one]
                    default, text = changed if isinstance(changed, tuple) else (changed, text)
                extra = {**_OPTIONS.get(one, {})}
                usual = extra.pop("flags", "")
                option = typer.Option(*(flags or usual).split(), **{**(extra if path else {}), "help": _plain(text)})
                annotation: Any = Annotated[kind | None if default is None else kind, option]
                made = inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                options.append(made)
            described = {one: _plain(text) for one, (*_, text) in known.items()} | described
        parameters = [_own(one, described) for one in own]
        parameters[n_first:n_first] = options

        def function(**given: Any) -> None:
            if {"quiet", "model"} & given.keys() and shows_progress(given.get("quiet", False)):
                # Libraries and models take seconds to load. The next line or bar is written over this one.
                print("loading …", end="\r", file=sys.stderr, flush=True)
            self.function(**given)

        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        function.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name, help=about, epilog=closing(self.page, *self.examples) if self.page else None)(function)


def _own(one: inspect.Parameter, described: Mapping[str, str]) -> inspect.Parameter:
    """A parameter of a command as an argument or option."""
    if one.annotation is typer.Context:
        return one
    extra = {**_OPTIONS.get(one.name, {})}
    extra["help"] = described.get(one.name, extra.get("help"))
    flags = extra.pop("flags", "").split()
    if one.kind is one.KEYWORD_ONLY:
        option = typer.Option(*flags, **extra)
    else:
        option = typer.Argument(metavar=extra.get("metavar"), help=extra["help"])
    return one.replace(annotation=Annotated[one.annotation, option])


def _of_setting(name: str) -> tuple[Any, Any, str]:
    """Type, default and help of a setting: a flag, a whole number, or a text that the settings check."""
    from bertology.families.request import flat_setting

    field = flat_setting(name)
    parts = [part for part in get_args(field.annotation) if part is not NoneType]
    is_number = field.annotation is int or (parts and all(int in (part, *get_args(part)[:1]) for part in parts))
    kind = bool if field.annotation is bool else int if is_number else str
    return kind, "pocket" if field.is_required() else field.get_default(), str(field.description)


def _described(doc: str) -> tuple[str, dict[str, str]]:
    """A docstring up to its arguments, and what it says of each."""
    about, _, listed = doc.partition("\n\nArgs:\n")
    parts = re.split(r"^ {4}(\w+): ", listed.partition("\n\n")[0], flags=re.MULTILINE)
    return about, {name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _plain(text: str) -> str:
    """A description without markup."""
    return " ".join(re.sub(r":\w+:(?=`)|`\"?|\"?`|\*(\w+)\*", r"\1", text).split())


@cache
def _parameters(path: str) -> dict[str, tuple[Any, Any, str]]:
    """Type, default and help of all parameters of a function, or fields of a class.

    They are read from the source, since what commands call takes seconds to import.
    """
    module, _, place = path.partition(":")
    spec: Any = find_spec(module)
    found: Any = ast.parse(spec.loader.get_source(module))
    for name in place.split("."):
        *_, found = (one for one in found.body if getattr(one, "name", "") == name)
    if isinstance(found, ast.ClassDef):
        fields: list[Any] = [both for both in pairwise(found.body) if isinstance(both[0], ast.AnnAssign)]
        texts = {one.target.id: ast.literal_eval(after.value) for one, after in fields if isinstance(after, ast.Expr)}
        rows = [(one.target.id, one.annotation, one.value) for one, _ in fields]
    else:
        every, (_, texts) = found.args, _described(str(ast.get_docstring(found)))
        required = [None] * (len(every.args) - len(every.defaults))
        defaults = zip(every.args + every.kwonlyargs, [*required, *every.defaults, *every.kw_defaults], strict=True)
        rows = [(one.arg, one.annotation, value) for one, value in defaults if one.annotation]
    parameters = {}
    for name, annotation, value in rows:
        kind, text = ast.unparse(annotation).removesuffix(" | None"), texts.get(name, "")
        plain: Any = {"bool": bool, "int": int, "float": float, "Path": Path}.get(kind, str)
        default = inspect.Parameter.empty if value is None else getattr(value, "value", None)  # None for an empty tuple
        parameters[name] = eval(kind) if kind.startswith("Literal[") else plain, default, text[:1].upper() + text[1:]
    return parameters


COMMANDS: dict[str, Command] = {}
"""The commands by name; those of a group as ``cache list``."""


def command(
    page: str = "",
    *examples: str,
    name: str = "",
    settings: str = "",
    of: dict[str, str] | None = None,
    **changed: Any,
) -> Callable[[Function], Function]:
    """Register a function as a command of its name, or of another; otherwise as :class:`Command`."""

    def decorated(function: Function) -> Function:
        COMMANDS[name or function.__name__] = Command(function, page, examples, settings, of or {}, changed)
        return function

    return decorated


def closing(page: str, *examples: str) -> str:
    """The end of a command's help: two examples, and the page of the documentation that explains it."""
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\nDocumentation: docs/{page}.md"


def terminal_width() -> int:
    """Columns of a table: those of the terminal, and 100 where standard output is none."""
    return shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH


def shows_progress(quiet: bool) -> bool:
    """Whether to draw progress bars: by default on a terminal only."""
    return not quiet and sys.stderr.isatty()


def bars(quiet: bool) -> "Callable[[str], Progress]":
    """The progress display of each job from its label."""
    from bertology.activations.progress import BarProgress, silent

    return BarProgress if shows_progress(quiet) else lambda _: silent


def print_found(
    format: str,
    lines: Sequence[str],
    frame: "Callable[[], pd.DataFrame]",
    about: Mapping[str, Any] | None = None,
    *,
    notes: Sequence[str] = (),
) -> None:
    """Print a result as lines for people, its rows as CSV, or as JSON: what it is about and its rows, or these alone.

    In JSON a table is a list of its rows, where a number that is not finite is null. Notes follow the lines; where a
    program reads what is printed they go to standard error.
    """
    if format == "csv":
        typer.echo(frame().to_csv(index=False, lineterminator="\n"), nl=False)
    elif format == "json":
        found = frame() if about is None else {**about, "rows": frame()}
        plain: Callable[[pd.DataFrame], Any] = lambda table: json.loads(table.to_json(orient="records"))  # noqa: E731
        typer.echo(json.dumps(found, default=plain, ensure_ascii=False, indent=1))
    else:
        typer.echo("\n".join([*lines, *notes]))
    for note in notes if format in ("csv", "json") else ():
        typer.echo(note, err=True)


def save_found(found: "PageAndFigure", out: Path | None, *, what: str) -> None:
    """Write the page or figure of a result, and its path on standard error; nothing without a path."""
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
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise BertologyError(f"{option.opts[0]} does not go with {cut_path(file)}: change its settings with --set")


def changed_settings(changes: Sequence[str] | None) -> dict[str, Any]:
    """Settings that stand on the command line as ``key=value``."""
    from bertology._settings import changed, plain

    settings: dict[str, Any] = plain(changed({}, changes or ()))
    return settings


def confirm(question: str, *, otherwise: str) -> None:
    """Ask the person at the terminal whether to go on; disagreement ends the command.

    Raises:
        BertologyError: there is no terminal, so that nobody can be asked; the message is ``otherwise``.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BertologyError(otherwise)
    typer.confirm(question, abort=True, err=True)
