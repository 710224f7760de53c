"""``bertology patch``: which states of a text decide between two words at its mask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer


def patch(
    text: Annotated[str, typer.Argument(help="A text with [MASK] in it.", show_default=False)],
    *,
    with_: Annotated[
        str, typer.Option("--with", help="A text of as many words that differs in some.", show_default=False)
    ],
    candidates: Annotated[
        str,
        typer.Option(
            "--candidates", "-c", help="The word that the text calls for, then the other's.", show_default=False
        ),
    ],
    model: Annotated[str, typer.Option("--model", "-m", help="pocket, a folder, or a hub id.")] = "pocket",
    layers: Annotated[str, typer.Option("--layers", "-l", help="all, or numbers and ranges: 0-6, 3,5,-1.")] = "all",
    site: Annotated[
        Literal["hidden_state", "attention_output", "feed_forward_output", "head", "values"],
        typer.Option(help="What is exchanged; head: the output of each head at all places."),
    ] = "hidden_state",
    direction: Annotated[
        Literal["denoise", "noise"],
        typer.Option(help="Put states of the text into the pass over the other (denoise), or the other way round."),
    ] = "denoise",
    dtype: Annotated[str, typer.Option(help="The model computes in float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with a hub model.")] = False,
    format: Annotated[Literal["table", "csv", "json"], typer.Option("--format", "-f", help="What to print.")] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Heatmap (.svg, .pdf or .png) to write.")] = None,
) -> None:
    """Put states of one text into the pass over another, layer by layer and word by word.

    The effect of a word is 0 where exchanging its state changes nothing at the mask, and 1 where it changes as much as
    the whole other text does (interchange intervention, activation patching).
    """
    import bertology

    found = bertology.patch(
        text,
        with_,
        candidates=candidates,
        model=model,
        layers=layers,
        site=site,
        direction=direction,
        dtype=dtype,
        device=device,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    frame = found.to_pandas()[["layer", "place", "effect"]]
    printed = {
        "table": lambda: f"{found}\n",
        "csv": lambda: str(frame.to_csv(index=False, lineterminator="\n")),
        "json": lambda: json.dumps(json.loads(frame.to_json(orient="records")), ensure_ascii=False, indent=1) + "\n",
    }
    typer.echo(printed[format](), nl=False)
    if out is not None:
        found.save(out)
        typer.echo(f"effects in {out}", err=True)
