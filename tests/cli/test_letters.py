"""A letter means one thing in all commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import typer

from bertology.cli._app import app

ALIKE = {"--layer": "--layers", "--task": "--tasks"}
"""Options of one thing or several of it."""


def options(command: Any, path: str = "bertology") -> Iterator[tuple[str, str, str]]:
    """Command, short form and long form of every option that has both."""
    for name, below in getattr(command, "commands", {}).items():
        yield from options(below, f"{path} {name}")
    for parameter in command.params:
        long = next((one for one in parameter.opts if one.startswith("--")), "")
        yield from ((path, one, long) for one in parameter.opts if len(one) == 2 and long)


def test_a_letter_means_one_thing() -> None:
    meanings: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for command, letter, long in options(typer.main.get_command(app)):
        meanings[letter][ALIKE.get(long, long)].append(command)
    assert list(meanings["-m"]) == ["--model"]
    assert list(meanings["-c"]) == ["--corpus"]
    assert not {letter: dict(of) for letter, of in meanings.items() if len(of) > 1}
