"""A question to the person at the terminal."""

from __future__ import annotations

import sys

import typer

from bertology.errors import BertologyError


def confirm(question: str, *, otherwise: str) -> None:
    """Ask whether to go on; a person who does not agree ends the command.

    Args:
        question: what is to be done.
        otherwise: the error where nobody can be asked, since the command runs in a script.

    Raises:
        BertologyError: there is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BertologyError(otherwise)
    typer.confirm(question, abort=True, err=True)
