"""Commands whose options may stand in a file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import typer

from bertology.errors import BertologyError, cut_path


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
