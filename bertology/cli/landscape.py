"""``bertology landscape``: the loss around a model, between two, or in the plane of three."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bertology.cli._shared import Device, only_with_file
from bertology.cli.probe import COLUMNS_HELP
from bertology.errors import BertologyError

_ENDINGS = (".yaml", ".yml")
_WITH_FILE = ("models", "out", "overwrite", "set_", "device", "quiet")


def landscape(
    context: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            help="One to three models of one shape: pocket, folders, or hub ids. Or a FILE that names them, such as "
            "experiments/hao-2019-landscape.yaml."
        ),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for table, record and figure; of a FILE runs/NAME.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a landscape that is there already.")] = False,
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
            "--set",
            metavar="KEY=VALUE",
            help="points=21, extent=[-1,1], radius=0.1, iterations=0 …, or a key of FILE; may be repeated.",
        ),
    ] = None,
    device: Device = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Evaluate the loss around a model, on the line between two, or in the plane of three.

    Prints the loss of each model, the barrier between them, sharpness, and the top and the least eigenvalue of the
    Hessian. Every point is evaluated on the same items with the same masks.
    """
    from bertology._settings import Place, Written, changed
    from bertology.landscapes import landscape as measure
    from bertology.landscapes import load_landscape

    if any(model.endswith(_ENDINGS) for model in models):
        file, *others = models
        if others:
            raise BertologyError(f"landscape: give models, or one FILE that names them, not {' '.join(models)}")
        only_with_file(context, _WITH_FILE, Path(file))
        written = load_landscape(file, changes=set_ or ())
        models, options, folder = list(written.models), written.options, out or Path("runs") / written.name
    else:
        if out is None:
            raise BertologyError("landscape: give --out, or a FILE that names the models")
        text = {"corpus": corpus, "columns": columns, "split": split, "head": head, "trajectory": trajectory or ()}
        options = {**text, "sentences": sentences, **changed(Written(Place("--set"), {}), set_ or ()).plain()}
        folder = out
    show = not quiet and sys.stderr.isatty()
    found = measure(*models, out=folder, overwrite=overwrite, device=device, progress=show, **options)
    typer.echo(found.summary())
    typer.echo(f"table and figure in {folder}", err=True)
