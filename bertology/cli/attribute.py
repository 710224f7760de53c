"""``bertology attribute``: which words of a text a choice between two words at its mask rests on."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bertology._page import is_page
from bertology.cli._shared import (
    Device,
    Dtype,
    Format,
    Language,
    PageOrFigure,
    Revision,
    SplitAtSpaces,
    Trust,
    print_found,
    save_found,
)


def attribute(
    text: Annotated[str, typer.Argument(help="A text with [MASK] in it.", show_default=False)],
    *,
    candidates: Annotated[
        str,
        typer.Option(
            "--candidates",
            help="The word that is explained, then the one it is compared with.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option("--model", "-m", help="pocket, a folder, or a hub id.")] = "pocket",
    methods: Annotated[
        str | None,
        typer.Option(help="With commas: integrated_gradients,leave_one_out,…; all that the model allows if left out."),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            "--layers",
            "-l",
            help="Of states and attention: all, 0-6, 3,5,-1; left out, embeddings and last block, of a page all.",
        ),
    ] = None,
    baseline: Annotated[
        Literal["mask", "pad"], typer.Option(help="What words are replaced by where integrated gradients start.")
    ] = "mask",
    language: Language = None,
    split_at_spaces: SplitAtSpaces = False,
    dtype: Dtype = "float32",
    device: Device = "auto",
    revision: Revision = None,
    trust_remote_code: Trust = False,
    format: Format = "table",
    out: PageOrFigure = None,
) -> None:
    """Say which words of a text a choice between two words at its mask rests on, by several methods.

    No method is the truth: how faithful each is, task attribution tells on texts whose cause is known. attention_norms
    is ‖αf(x)‖ of Kobayashi et al. (2020), mean of the heads, without residual connection and LayerNorm.
    """
    import bertology

    found = bertology.attribute(
        text,
        candidates=candidates,
        model=model,
        methods=methods,
        layers="all" if layers is None and is_page(out) else layers,
        baseline=baseline,
        language=language,
        split_at_spaces=split_at_spaces,
        dtype=dtype,
        device=device,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    print_found(format, lambda: f"{found}\n", lambda: found.to_pandas().drop(columns="question"))
    save_found(found, out, what="scores")
