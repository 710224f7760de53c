"""``bertology align``: which words of a text and of its translation belong together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bertology._page import is_page
from bertology.cli._shared import Device, Dtype, PageOrFigure, Revision, SplitAtSpaces, Trust, print_found, save_found

if TYPE_CHECKING:
    import pandas as pd

    from bertology.geometry.languages import AlignedTexts

_BAR = " ||| "


def align(
    text: Annotated[str | None, typer.Argument(help="A text; none with --file.", show_default=False)] = None,
    translation: Annotated[str | None, typer.Argument(help="Its translation.", show_default=False)] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="Align the lines of this file instead: TEXT ||| TRANSLATION.")
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="bilingual, a folder, or a hub id.")] = "bilingual",
    layer: Annotated[
        int | None,
        typer.Option("--layer", "-l", help="0 is the embeddings, -1 the last; two thirds of the way up if left out."),
    ] = None,
    method: Annotated[Literal["argmax", "itermax", "match"], typer.Option(help="Of SimAlign.")] = "argmax",
    distortion: Annotated[
        float, typer.Option(help="By how much similarity falls with the distance of places, from 0 to 1.")
    ] = 0.0,
    pooling: Annotated[str, typer.Option(help="A word's vector from its pieces': mean, first or last.")] = "mean",
    language: Annotated[
        str | None, typer.Option(help="Of the text and its translation, such as en,de: their rules find words.")
    ] = None,
    split_at_spaces: SplitAtSpaces = False,
    dtype: Dtype = "float32",
    device: Device = "auto",
    revision: Revision = None,
    trust_remote_code: Trust = False,
    format: Annotated[
        Literal["table", "pharaoh", "csv", "json"],
        typer.Option("--format", "-f", help="What to print; of a file pharaoh, a line of links i-j for each line."),
    ] = "table",
    out: PageOrFigure = None,
) -> None:
    """Link the words of a text with those of its translation, by the similarity of their vectors at one layer.

    As SimAlign does (Jalili Sabet et al. 2020). The page shows every layer. How often links are right is measured by
    the task languages:alignment, on text with gold links.
    """
    import bertology

    if (file is None) == (text is None) or (text is None) != (translation is None):
        raise typer.BadParameter("give a text and its translation, or --file with a pair in each line")
    if file is not None and out is not None:
        raise typer.BadParameter("it shows one pair: give a text and its translation", param_hint="--out")
    pairs = [(str(text), str(translation))] if file is None else _pairs(file)
    firsts, seconds = zip(*pairs, strict=True)
    found = bertology.align(
        list(firsts),
        list(seconds),
        model=model,
        layers="all" if layer is None or is_page(out) else (layer,),
        layer=layer,
        method=method,
        distortion=distortion,
        pooling=pooling,
        language=language,
        split_at_spaces=split_at_spaces,
        dtype=dtype,
        device=device,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    are_lines = format == "pharaoh" or (file is not None and format == "table")
    shown = _pharaoh if are_lines else _table
    print_found(format, lambda: shown(found), lambda: _frame(found), lambda: _plain(found))
    save_found(found[0], out, what="links")


def _pairs(file: Path) -> list[tuple[str, str]]:
    from bertology._inputs import read_text
    from bertology.errors import CorpusError

    pairs = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        first, bar, second = line.partition(_BAR.strip())
        if not (first.strip() and bar and second.strip()):
            raise CorpusError(f"{file}, line {number}: write a text and its translation, TEXT{_BAR}TRANSLATION")
        pairs.append((first.strip(), second.strip()))
    if not pairs:
        raise CorpusError(f"{file}: no line in it; write a text and its translation in each, TEXT{_BAR}TRANSLATION")
    return pairs


def _table(found: list[AlignedTexts]) -> str:
    return "\n\n".join(map(str, found)) + "\n"


def _pharaoh(found: list[AlignedTexts]) -> str:
    return "".join(f"{one.pharaoh()}\n" for one in found)


def _frame(found: list[AlignedTexts]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([one.to_pandas().assign(pair=number) for number, one in enumerate(found, 1)])


def _plain(found: list[AlignedTexts]) -> list[dict[str, Any]]:
    return [
        {
            "first": list(one.first.words),
            "second": list(one.second.words),
            "model": one.model,
            "layer": one.layer,
            "method": one.method,
            "links": one.links(),
        }
        for one in found
    ]
