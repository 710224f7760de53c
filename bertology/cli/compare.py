"""``bertology compare``: what differs between a model and its reference, layer by layer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bertology.cli._shared import Device
from bertology.cli.probe import COLUMNS_HELP


def compare(
    models: Annotated[list[str], typer.Argument(help="The reference, then those compared with it: folders, hub ids.")],
    *,
    tasks: Annotated[str, typer.Option("--tasks", "--task", "-t", help="Tasks with commas: pos,deprel.")] = "pos",
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", "-c", help="pocket, which is the default, ud:en_ewt, a folder or a file; or several."),
    ] = None,
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    measures: Annotated[
        str,
        typer.Option(
            help="auto: all that the models have in common; or names with commas: frozen_probe, vectors, attention, "
            "weights, masked_loss, restoring, label_clusters, size_and_speed; or none."
        ),
    ] = "auto",
    layers: Annotated[str, typer.Option("--layers", "-l", help="all, 0-6, or 3,5,-1; 0 is the embeddings.")] = "all",
    controls: Annotated[str, typer.Option(help="As in `bertology probe`: random, majority …, all or none.")] = "none",
    sentences: Annotated[int | None, typer.Option(min=2, help="At most so many sentences of each split.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Fits of each task.")] = 1,
    dtype: Annotated[str, typer.Option(help="Models compute in float32, bfloat16 or float16.")] = "float32",
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the run; runs/comparison when left out.")
    ] = None,
    format: Annotated[Literal["text", "csv"], typer.Option("--format", "-f", help="What to print.")] = "text",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Compare models with a reference: tasks by layer with paired differences, vectors, attention, weights and losses.

    Prints what changed, and writes comparison.html, a page with charts and tables, into the run's folder. What is
    finished there is not computed again. Exit status 1 if something could not be computed.
    """
    import bertology

    asked = {"columns": columns, "sentences": sentences}
    of_corpus: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    found = bertology.compare(
        *models,
        tasks=tasks,
        corpus=tuple(corpus or ["pocket"]),
        measures=measures,
        layers=layers,
        controls=controls,
        out=out or Path("runs") / "comparison",
        progress=not quiet and sys.stderr.isatty(),
        seeds=seeds,
        dtype=dtype,
        device=device,
        **of_corpus,
    )
    typer.echo(str(found) if format == "text" else found.to_pandas().to_csv(index=False), nl=format == "text")
    for line in found.left_out:
        typer.echo(f"left out: {line}", err=True)
    for line in found.failures:
        typer.echo(f"failed: {line}", err=True)
    typer.echo(f"page and tables in {found.folder}", err=True)
    raise typer.Exit(1 if found.failures else 0)
