"""``bertology attention``: the attention maps of a sentence as one page, or one of them as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bertology.cli._shared import Device, Language, Revision, SplitAtSpaces, Trust
from bertology.cli.probe import COLUMNS_HELP

if TYPE_CHECKING:
    from bertology.corpora import Sentence


def attention(
    texts: Annotated[
        list[str] | None, typer.Argument(help="A sentence, or two side by side; none with --gold.")
    ] = None,
    *,
    second: Annotated[str | None, typer.Option(help="A sentence that follows, read with it as a pair.")] = None,
    target: Annotated[
        str | None, typer.Option(help="What the decoder of T5 or BART reads: shows cross-attention to the sentence.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="pocket (default), a folder, or a hub id; two to see them side by side."),
    ] = None,
    layers: Annotated[str, typer.Option("--layers", "-l", help="all, 1-6, or 3,5,-1; from 1.")] = "all",
    heads: Annotated[str | None, typer.Option(help="Heads alone, by layer and number: L8H10,L3H2.")] = None,
    head: Annotated[str | None, typer.Option(help="One head, such as L8H10, as a labelled heatmap.")] = None,
    level: Annotated[Literal["word", "piece"], typer.Option(help="Shown first: between words, or pieces.")] = "word",
    weights: Annotated[
        Literal["raw", "norm"],
        typer.Option(help="Shown first: raw weights, or norm-weighted (Kobayashi et al. 2020)."),
    ] = "raw",
    threshold: Annotated[float, typer.Option(help="Weights below it are not drawn at first: 0.1 is 10 %.")] = 0.0,
    gold: Annotated[str | None, typer.Option(help="Treebank with the sentence, whose dependencies are drawn.")] = None,
    sentence: Annotated[str | None, typer.Option(help="Id of the sentence in --gold's test split.")] = None,
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    language: Language = None,
    split_at_spaces: SplitAtSpaces = False,
    device: Device = "auto",
    revision: Revision = None,
    trust_remote_code: Trust = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write: attention.html; with --head .svg, .pdf or .png."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Look at a sentence's attention maps: all heads, lines between words, one head as a matrix, one word by layer.

    The page is one file that needs nothing beside itself, no network either. With --head one map is drawn as a figure.
    """
    from bertology.attention import view
    from bertology.encoders import load_encoder
    from bertology.families.request import parse_layers

    path = _path(out, head)
    if head is not None and heads is not None:
        raise typer.BadParameter("--head draws one head as a figure, --heads chooses those of a page: give one of them")
    if head is not None and threshold:
        raise typer.BadParameter("--threshold is of a page, --head draws all weights: give one of them")
    given = [_of_corpus(gold, sentence, columns)] if gold is not None or sentence is not None else []
    if bool(texts) == bool(given):
        raise typer.BadParameter("give a sentence, or the treebank and id of one with --gold and --sentence")
    names = model or ["pocket"]
    encoders = [
        load_encoder(name, device=device, revision=revision, trust_remote_code=trust_remote_code) for name in names
    ]
    # None for all layers, so that heads alone can choose them.
    depth = min(encoder.n_layers for encoder in encoders)
    chosen = None if layers.strip().lower() == "all" else parse_layers(layers, depth)
    page = view(
        given or list(texts or ()),
        second,
        target=target,
        model=encoders,
        layers=chosen,
        heads=heads if head is None else head,
        level=level,
        weights=weights,
        threshold=threshold,
        language=language,
        split_at_spaces=split_at_spaces,
    )
    if head is None:
        page.save(path)
        by_layer = page.reading.heads
        n_heads = sum(map(len, by_layer.values()))
        typer.echo(f"{path}: {_count(n_heads, 'head')} in {_count(len(by_layer), 'layer')} of {' and '.join(names)}")
    else:
        page.plot().save(path)
        typer.echo(f"{path}: {head.strip().upper()} of {' and '.join(names)}")
    if open_page:
        typer.launch(path.resolve().as_uri())


def _path(out: Path | None, head: str | None) -> Path:
    """The file to write: a page, or a figure of one head."""
    if out is None:
        return Path("attention.html" if head is None else "attention.svg")
    is_figure = out.suffix.lower() in (".svg", ".pdf", ".png")
    if head is None and is_figure:
        raise typer.BadParameter(
            f"{out} is the name of a figure, which is of one head: add --head L2H1, or name a page"
        )
    if head is not None and not is_figure:
        raise typer.BadParameter(f"--head draws a figure, not {out}: name a file that ends in .svg, .pdf or .png")
    return out


def _of_corpus(gold: str | None, name: str | None, columns: str | None) -> Sentence:
    from bertology.errors import CorpusError, quoted
    from bertology.parsing import sentence_of_corpus

    if gold is None or name is None:
        raise typer.BadParameter("--gold names a treebank and --sentence the id of its sentence: give both or neither")
    sentence = sentence_of_corpus(name, gold, columns=columns)
    if sentence.heads is None:
        raise CorpusError(f"{gold}: sentence {quoted(name)} has no dependencies: give it as text, without --gold")
    return sentence


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
