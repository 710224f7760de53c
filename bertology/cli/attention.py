"""``bertology attention``: the attention maps of a sentence as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bertology.cli.probe import COLUMNS_HELP

if TYPE_CHECKING:
    from bertology.corpora import Sentence


def attention(
    text: Annotated[str | None, typer.Argument(help="A sentence; none with --gold.")] = None,
    *,
    second: Annotated[str | None, typer.Option(help="A sentence that follows, read with it as a pair.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="pocket, a folder, or a hub id.")] = "pocket",
    layers: Annotated[str, typer.Option("--layers", "-l", help="all, 1-6, or 3,5,-1; from 1.")] = "all",
    heads: Annotated[str | None, typer.Option(help="Heads alone, by layer and number: L8H10,L3H2.")] = None,
    level: Annotated[Literal["word", "piece"], typer.Option(help="Shown first: between words, or pieces.")] = "word",
    weights: Annotated[
        Literal["raw", "norm"],
        typer.Option(help="Shown first: raw weights, or norm-weighted (Kobayashi et al. 2020)."),
    ] = "raw",
    gold: Annotated[str | None, typer.Option(help="Treebank with the sentence, whose dependencies are drawn.")] = None,
    sentence: Annotated[str | None, typer.Option(help="Id of the sentence in --gold's test split.")] = None,
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with a hub model.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("attention.html"),
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Look at a sentence's attention maps: all heads, lines between words, one word through the layers.

    The page is one file that needs nothing beside itself, no network either.
    """
    from bertology.attention import view
    from bertology.encoders import load_encoder
    from bertology.families.request import parse_layers

    text_or_gold = _sentence(text, gold, sentence, columns)
    encoder = load_encoder(model, device=device, revision=revision, trust_remote_code=trust_remote_code)
    # None for all layers, so that heads alone can choose them.
    chosen = None if layers.strip().lower() == "all" else parse_layers(layers, encoder.n_layers)
    page = view(text_or_gold, second, model=encoder, layers=chosen, heads=heads, level=level, weights=weights)
    path = page.save(out)
    by_layer = page.reading.heads
    n_heads = sum(map(len, by_layer.values()))
    typer.echo(f"{path}: {_count(n_heads, 'head')} in {_count(len(by_layer), 'layer')} of {model}")
    if open_page:
        typer.launch(path.resolve().as_uri())


def _sentence(text: str | None, gold: str | None, name: str | None, columns: str | None) -> str | Sentence:
    from bertology.errors import CorpusError, quoted
    from bertology.parsing import sentence_of_corpus

    if (gold is None) != (name is None):
        raise typer.BadParameter("--gold names a treebank and --sentence the id of its sentence: give both or neither")
    if (text is None) == (gold is None):
        raise typer.BadParameter("give a sentence, or the treebank and id of one with --gold and --sentence")
    if gold is None or name is None:
        return str(text)
    sentence = sentence_of_corpus(name, gold, columns=columns)
    if sentence.heads is None:
        raise CorpusError(f"{gold}: sentence {quoted(name)} has no dependencies: give it as text, without --gold")
    return sentence


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
