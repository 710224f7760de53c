"""The commands together."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from bertology import __version__
from bertology.cli import attention, cache, cloze, doctor, listings, pretrain, probe, report, run, runs, tree

# Typer itself names only one of the errors of a command that is not written as it should be; this is what all are.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)

app = typer.Typer(
    name="bertology",
    help="Where in a BERT-like encoder does a piece of knowledge live, and how sure are we?",
    pretty_exceptions_enable=False,
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


app.command("probe")(probe.probe)
app.command("run")(run.run)
app.command("plan")(run.plan)
app.command("merge")(runs.merge)
app.command("verify")(runs.verify)
app.command("rerun")(runs.rerun)
app.command("schema")(run.schema)
app.command("report")(report.report)
app.command("tree")(tree.tree)
app.command("cloze")(cloze.cloze)
app.command("attention")(attention.attention)
app.command("tasks")(listings.tasks)
app.command("readouts")(listings.readouts)
app.command("models")(listings.models)
app.command("corpora")(listings.corpora)
app.command("doctor")(doctor.doctor)
app.command("pretrain")(pretrain.pretrain)
app.add_typer(cache.app, name="cache")
