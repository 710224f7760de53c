"""``bertology pretrain``: make a pocket model from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def pretrain(
    experiment: Annotated[Path, typer.Argument(help="Recipe, such as experiments/pretrain-pocket.yaml.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("pocket-model"),
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting; may be repeated.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="Processor threads.")] = None,
) -> None:
    """Pretrain a small BERT on the pocket world.

    Start the same command again to go on with a run that was stopped. The folder is a Hugging Face model folder with
    a model card; settings and held-out figures are in its training.json.
    """
    from bertology.pocket import load_settings
    from bertology.pocket import pretrain as pretrain_model

    settings = load_settings(experiment, changes=set_ or ())
    made = pretrain_model(settings, out, device=device, threads=threads, echo=typer.echo)
    typer.echo(f"model in {made.folder}")
