"""The commands together, in panels. A module of commands is imported when one of them is used."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from bertology import __version__

# Typer itself names only one of the errors of a command that is not written as it should be; this is what all are.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)
_PANELS = {
    "Ask": {"probe": "ask", "compare": "ask", "run": "ask"},
    "Look at one text": {
        **{"cloze": "cloze", "attention": "look", "tree": "tree", "patch": "look", "attribute": "look"},
        **{"align": "neighbours", "neighbours": "neighbours", "tokenize": "look"},
    },
    "Change a model": {"finetune": "change", "compress": "change", "pretrain": "change", "landscape": "change"},
    "Keep": {
        **{"plan": "keep", "merge": "keep", "verify": "keep", "rerun": "keep", "report": "keep", "explain": "keep"},
        "cache": "keep",
    },
    "Look up": {
        **{"tasks": "lookup", "readouts": "lookup", "models": "lookup", "corpora": "lookup"},
        **{"schema": "lookup", "doctor": "lookup"},
    },
}
"""The commands of each panel of the help, with the modules they are in."""
_MODULES = {command: module for commands in _PANELS.values() for command, module in commands.items()}


def _imported(module: str) -> typer.Typer:
    """The commands of one module."""
    if module == "ask":
        from bertology.cli.ask import app
    elif module == "cloze":
        from bertology.cli.cloze import app
    elif module == "look":
        from bertology.cli.look import app
    elif module == "tree":
        from bertology.cli.tree import app
    elif module == "neighbours":
        from bertology.cli.neighbours import app
    elif module == "change":
        from bertology.cli.change import app
    elif module == "keep":
        from bertology.cli.keep import app
    else:
        from bertology.cli.lookup import app
    return app


def _summaries() -> dict[str, str]:
    """The first sentence of each command's docstring, without importing the command."""
    found = {"cache": "List, verify and prune stored activations and copies of models that were in memory."}
    for module in dict.fromkeys(_MODULES.values()):
        tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
        functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
        docs = {node.name: ast.get_docstring(node) for node in functions if node.name in _MODULES}
        found |= {name: doc.partition("\n\n")[0] for name, doc in docs.items() if doc}
    return found


class _Commands(TyperGroup):
    """The commands by name, each imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _MODULES:
            return None
        return typer.main.get_group(_imported(_MODULES[cmd_name])).commands[cmd_name]

    @property
    def commands(self) -> dict[str, Any]:
        """All of them, imported."""
        return {name: self.get_command(None, name) for name in _MODULES}

    @commands.setter
    def commands(self, value: object) -> None:
        """Commands are those of the panels."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of each panel with their summaries."""
        summaries = _summaries()
        for panel, commands in _PANELS.items():
            with formatter.section(panel):
                formatter.write_dl([(name, summaries[name]) for name in commands])


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
) -> None:
    """Where in a BERT-like encoder does a piece of knowledge live, and how sure are we?"""
