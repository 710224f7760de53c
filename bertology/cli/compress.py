"""``bertology compress``: make a smaller or coarser model of an encoder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bertology.cli._shared import Device


def compress(
    model: Annotated[str, typer.Argument(help="pocket, a folder, or a hub id.")],
    *,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="magnitude, heads, neurons, layers, low_rank, quantise or distil; several with commas.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model folder to be written.")],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the method, such as share=0.5; of several methods magnitude.share=0.5. May be repeated.",
        ),
    ] = None,
    speed: Annotated[
        str | None, typer.Option(help="Measure speed on this corpus: the model, the new one, and int8 arithmetic.")
    ] = None,
    device: Device = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Prune, quantise, shorten or distil an encoder.

    Writes a Hugging Face model folder with a model card, which `bertology probe --model` reads like any other. A
    distillation that was stopped goes on when the same command is given again.
    """
    from bertology._settings import Place, Written, changed
    from bertology.compression import compress as compress_model
    from bertology.compression import dynamic_int8, pieces_per_second, weight_bytes
    from bertology.corpora import load_corpus
    from bertology.encoders import load_encoder
    from bertology.families.request import parse_names

    settings = changed(Written(Place("--set"), {}), set_ or ()).plain()
    made = compress_model(
        model,
        parse_names(method),
        out=out,
        device=device,
        progress=not quiet and sys.stderr.isatty(),
        **settings,
    )
    typer.echo(made.summary())
    if speed is not None:
        corpus = load_corpus(speed)
        sentences = corpus[next(iter(corpus.splits))][:400]
        before, after = load_encoder(model, device="cpu"), made.encoder(device="cpu")
        for what, encoder in (
            (before.source.title, before),
            (str(out), after),
            (f"{before.source.title}, int8 arithmetic", dynamic_int8(before)),
        ):
            rate, size = pieces_per_second(encoder, sentences), weight_bytes(encoder)
            typer.echo(f"{what}: {rate:,.0f} pieces/s on the processor, {size / 1e6:.2f} MB of weights without heads")
    typer.echo(f"model in {out}", err=True)
