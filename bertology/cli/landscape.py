"""``bertology landscape``: the loss around a model, between two, or in the plane of three."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bertology.cli.probe import COLUMNS_HELP


def landscape(
    models: Annotated[list[str], typer.Argument(help="One to three models of one shape: pocket, folders, or hub ids.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for table, record and figure.")],
    corpus: Annotated[str, typer.Option("--corpus", "-c", help="pocket, ud:en_ewt, a folder or a file.")] = "pocket",
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    split: Annotated[str, typer.Option(help="Split whose sentences the loss is over.")] = "dev",
    sentences: Annotated[int, typer.Option(min=1, help="At most so many sentences, the first ones.")] = 200,
    head: Annotated[
        str | None,
        typer.Option(help="A fine-tuned model's folder, tuned/seed-1: the loss is that of its task, not of masks."),
    ] = None,
    trajectory: Annotated[
        list[str] | None,
        typer.Option(help="A checkpoint, or a folder with checkpoint-N in it, to project; may be repeated."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="points=21, extent=[-1,1], radius=0.1, iterations=0 …; may be repeated."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Evaluate the loss around a model, on the line between two, or in the plane of three.

    Prints the loss of each model, the barrier between them, sharpness and the top eigenvalue of the Hessian. Every
    point is evaluated on the same items with the same masks.
    """
    from bertology._settings import Place, Written, changed
    from bertology.landscapes import landscape as measure

    settings = {"sentences": sentences, **changed(Written(Place("--set"), {}), set_ or ()).plain()}
    found = measure(
        *models,
        corpus=corpus,
        columns=columns,
        split=split,
        head=head,
        trajectory=trajectory or (),
        out=out,
        device=device,
        progress=not quiet and sys.stderr.isatty(),
        **settings,
    )
    typer.echo(found.summary())
    typer.echo(f"table and figure in {out}", err=True)
