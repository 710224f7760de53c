"""What messages tell a person to write is there to be written: options, keywords of functions, keys of experiments."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from bertology.cli._app import app
from bertology.families import request as settings

ROOT = Path(__file__).parents[1]
FOREIGN = {"--nthreads"}
"""Options of other programs, whose command line the message gives whole."""
OPTION, COMMAND = r"(?<![\w-])--[a-z][a-z-]*", r"`bertology ([a-z]+(?: (?:list|prune|verify))?)"
KEYWORD, KEY = r"\b([a-z_]+)=(?=['…]|True|False)", r"`([a-z_]+): "


@cache
def trees() -> dict[str, ast.Module]:
    files = [path for folder in ("bertology", "probes") for path in sorted((ROOT / folder).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in files}


def messages() -> Iterator[tuple[str, str]]:
    """Every string of several words but docstrings, and where it stands; of a string with places, each part."""
    for name, tree in trees().items():
        expressions = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        docstrings = {id(value) for value in expressions}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            if is_text and " " in node.value:
                yield f"{name}:{node.lineno}", node.value


def promises(pattern: str) -> list[tuple[str, str]]:
    return [(where, match) for where, text in messages() for match in re.findall(pattern, text)]


def commands(command: Any = None, name: str = "") -> dict[str, set[str]]:
    """The options of each command."""
    command = command or typer.main.get_command(app)
    found = {name: {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}}
    for below, other in getattr(command, "commands", {}).items():
        found |= commands(other, f"{name} {below}".strip())
    return found


def parameters() -> set[str]:
    """Names of arguments of functions, and of fields of classes."""
    found = set()
    for node in (node for tree in trees().values() for node in ast.walk(tree)):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def keys() -> set[str]:
    models = [found for found in vars(settings).values() if isinstance(found, type) and issubclass(found, BaseModel)]
    return {name for model in models for name in model.model_fields}


KNOWN = {
    "option": (
        OPTION,
        lambda: {option for options in commands().values() for option in options} | FOREIGN | {"--help"},
    ),
    "command": (COMMAND, lambda: set(commands())),
    "keyword": (KEYWORD, parameters),
    "key": (KEY, keys),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_what_messages_promise_is_there(kind: str) -> None:
    pattern, known = KNOWN[kind]
    promised = promises(pattern)
    assert promised
    there = known()
    assert not [(where, name) for where, name in promised if name not in there]


def test_wherever_a_corpus_is_named_its_columns_can_be() -> None:
    named = {name for name, options in commands().items() if options & {"--corpus", "--gold"}}
    assert {"probe", "tree", "attention", "report"} <= named
    named -= {"explore"}  # whose corpora have the columns of named ones
    assert all("--columns" in commands()[name] for name in named)
    assert {"columns", "test_on_columns"} <= set(settings.CorpusSettings.model_fields)
