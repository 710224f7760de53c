"""``bertology patch``: which states of a text decide between two words at its mask."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

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

_COLUMNS = ["layer", "place", "effect", "base_score", "source_score", "measure"]


def patch(
    text: Annotated[str, typer.Argument(help="A text with [MASK] in it.", show_default=False)],
    *,
    with_: Annotated[
        str, typer.Option("--with", help="A text of as many words that differs in some.", show_default=False)
    ],
    candidates: Annotated[
        str,
        typer.Option("--candidates", help="The word that the text calls for, then the other's.", show_default=False),
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
    language: Language = None,
    split_at_spaces: SplitAtSpaces = False,
    dtype: Dtype = "float32",
    device: Device = "auto",
    revision: Revision = None,
    trust_remote_code: Trust = False,
    format: Format = "table",
    out: PageOrFigure = None,
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
        language=language,
        split_at_spaces=split_at_spaces,
        dtype=dtype,
        device=device,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    print_found(format, lambda: f"{found}\n", lambda: found.to_pandas()[_COLUMNS])
    save_found(found, out, what="effects")
