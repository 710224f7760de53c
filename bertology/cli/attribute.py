"""``bertology attribute``: which words of a text a choice between two words at its mask rests on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer


def attribute(
    text: Annotated[str, typer.Argument(help="A text with [MASK] in it.", show_default=False)],
    *,
    candidates: Annotated[
        str,
        typer.Option(
            "--candidates",
            "-c",
            help="The word that is explained, then the one it is compared with.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option("--model", "-m", help="pocket, a folder, or a hub id.")] = "pocket",
    methods: Annotated[
        str | None,
        typer.Option(help="With commas: integrated_gradients,leave_one_out,…; all that the model allows if left out."),
    ] = None,
    layers: Annotated[str, typer.Option("--layers", "-l", help="Of states and attention: all, 0-6, 3,5,-1.")] = "-1",
    baseline: Annotated[
        Literal["mask", "pad"], typer.Option(help="What words are replaced by where integrated gradients start.")
    ] = "mask",
    dtype: Annotated[str, typer.Option(help="The model computes in float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with a hub model.")] = False,
    format: Annotated[Literal["table", "csv", "json"], typer.Option("--format", "-f", help="What to print.")] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Figure (.svg, .pdf or .png) to write.")] = None,
) -> None:
    """Say which words of a text a choice between two words at its mask rests on, by several methods.

    No method is the truth: how faithful each is, task attribution tells on texts whose cause is known.
    """
    import bertology

    found = bertology.attribute(
        text,
        candidates=candidates,
        model=model,
        methods=methods,
        layers=layers,
        baseline=baseline,
        dtype=dtype,
        device=device,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    frame = found.to_pandas().drop(columns="question")
    printed = {
        "table": lambda: f"{found}\n",
        "csv": lambda: str(frame.to_csv(index=False, lineterminator="\n")),
        "json": lambda: json.dumps(json.loads(frame.to_json(orient="records")), ensure_ascii=False, indent=1) + "\n",
    }
    typer.echo(printed[format](), nl=False)
    if out is not None:
        found.save(out)
        typer.echo(f"scores in {out}", err=True)
