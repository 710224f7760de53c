"""The commands together."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from bertology import __version__
from bertology.cli import (
    align,
    attention,
    attribute,
    cache,
    cloze,
    compare,
    compress,
    doctor,
    explain,
    finetune,
    landscape,
    listings,
    neighbours,
    patch,
    pretrain,
    probe,
    report,
    run,
    tokenize,
    tree,
)

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


for command in (
    *(
        probe.probe,
        run.run,
        run.plan,
        run.merge,
        run.verify,
        run.rerun,
        run.schema,
        report.report,
        explain.explain,
        tree.tree,
    ),
    *(cloze.cloze, attention.attention, listings.tasks, listings.readouts, listings.models, listings.corpora),
    *(doctor.doctor, pretrain.pretrain, finetune.finetune, compress.compress, tokenize.tokenize),
    *(neighbours.neighbours, align.align, landscape.landscape, compare.compare, patch.patch, attribute.attribute),
):
    app.command()(command)
app.add_typer(cache.app, name="cache")
