"""The commands together, in panels."""

import os
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from bertology import __version__
from bertology.cli import ask, change, keep, look, lookup  # noqa: F401 - they register commands
from bertology.cli._options import COMMANDS, closing

# Typer itself names only one of the errors of a command that is not written as it should be; this is what all are.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)
_PANELS = {
    "Ask": "probe compare primer run",
    "Look at one text": "cloze answer attention tree patch circuit attribute align neighbours tokenize dimensions "
    "explore",
    "Change a model": "finetune compress pretrain landscape",
    "Keep": "plan merge verify rerun report paper explain cache",
    "Look up": "tasks readouts models corpora schema doctor",
}
"""The commands of each panel of the help."""
_CACHE = "List, verify and prune stored activations and copies of models that were in memory."


class _Commands(TyperGroup):
    """The commands by name; the options of each are made when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return " ".join(_PANELS.values()).split()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        epilog = closing("how-to/cache", "bertology cache list", "bertology cache prune --older-than-days 30 --dry-run")
        one = typer.Typer(rich_markup_mode=None, add_completion=False, help=_CACHE, epilog=epilog)
        for name in [cmd_name] if cmd_name in COMMANDS else [f"cache {name}" for name in ("list", "verify", "prune")]:
            COMMANDS[name].add(one, name.rpartition(" ")[2])
        return typer.main.get_command(one)

    @property
    def commands(self) -> dict[str, Any]:
        """All of them, with their options."""
        return {name: self.get_command(None, name) for name in self.list_commands(None)}

    @commands.setter
    def commands(self, value: object) -> None:
        """Commands are those of the panels."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of each panel with their summaries."""
        for panel, names in _PANELS.items():
            with formatter.section(panel):
                formatter.write_dl(
                    [(name, COMMANDS[name].summary if name in COMMANDS else _CACHE) for name in names.split()]
                )


app = typer.Typer(
    name="bertology",
    cls=_Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"bertology {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Download nothing: use models and data that are in the caches.")
    ] = False,
) -> None:
    """Where in a BERT-like encoder does a piece of knowledge live, and how sure are we?"""
    if offline:
        os.environ.update(BERTOLOGY_OFFLINE="1", HF_HUB_OFFLINE="1")
