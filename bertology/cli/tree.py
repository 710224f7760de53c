"""``bertology tree``: the tree that a structural probe finds in a sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bertology._names import folder_name
from bertology.cli.probe import COLUMNS_HELP

if TYPE_CHECKING:
    from bertology.corpora import Sentence
    from bertology.results.trees import TreeReading


class Format(StrEnum):
    """What the tree is printed as."""

    table = "table"
    conllu = "conllu"
    tikz = "tikz"
    displacy = "displacy"


class Picture(StrEnum):
    """What a file shows."""

    arcs = "arcs"
    depths = "depths"
    distances = "distances"


def tree(
    text: Annotated[str | None, typer.Argument(help="A sentence; none with --sentence.")] = None,
    *,
    layer: Annotated[
        int | None,
        typer.Option("--layer", "-l", help="0 is the embeddings; -1 the last layer; the best on dev when left out."),
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="pocket, a folder, or a hub id.")] = "pocket",
    corpus: Annotated[
        str, typer.Option("--corpus", "-c", help="Treebank to fit the probe on, where there is none yet.")
    ] = "pocket",
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    probe: Annotated[Path | None, typer.Option(help="A kept probe instead: its file, or the folder of a run.")] = None,
    sentence: Annotated[
        str | None, typer.Option(help="Id of a sentence of the corpus' test split, drawn beside its gold tree.")
    ] = None,
    split_at_spaces: Annotated[bool, typer.Option(help="The words of TEXT are parted by spaces.")] = False,
    rank: Annotated[int | None, typer.Option(help="Rank of a probe that is fitted now.")] = None,
    pooling: Annotated[str, typer.Option(help="A word's vector from its pieces': mean, first or last.")] = "mean",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with a hub model.")] = False,
    picture: Annotated[Picture, typer.Option(help="What a picture shows.")] = Picture.arcs,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Picture to write: a .svg, .png or .tex file.")
    ] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="What to print.")] = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Parse a sentence by a structural probe: heads, relations and depths that are linear in one layer.

    The probe is fitted on the treebank the first time, and kept.
    """
    from bertology.activations import BarProgress, silent
    from bertology.parsing import ParseRequest, parse

    _check_ending(out)
    request = ParseRequest(
        layer=layer,
        model=model,
        corpus=corpus,
        columns=columns,
        probe=probe,
        rank=rank,
        pooling=pooling,
        device=device,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    asked = _sentence(text, sentence, corpus, columns, is_split=split_at_spaces)
    show = not quiet and sys.stderr.isatty()
    reading = parse(asked, request, progress=BarProgress if show else lambda _: silent)
    typer.echo(_PRINTED[format](reading), nl=False)
    if out is not None:
        _write(reading, out, picture.value)
        typer.echo(f"{picture.value} in {out}", err=True)


def _sentence(text: str | None, name: str | None, corpus: str, columns: str | None, *, is_split: bool) -> Sentence:
    from bertology.parsing import sentence_of_corpus, sentence_of_text

    if (text is None) == (name is None):
        raise typer.BadParameter("give a sentence, or the id of one with --sentence")
    if text is not None:
        return sentence_of_text(text, is_split=is_split)
    return sentence_of_corpus(str(name), corpus, columns=columns)


def _check_ending(out: Path | None) -> None:
    if out is not None and out.suffix not in (".svg", ".png", ".tex"):
        raise typer.BadParameter(f"{out}: name a .svg, .png or .tex file", param_hint="--out")


def _write(reading: TreeReading, out: Path, picture: Literal["arcs", "depths", "distances"]) -> None:
    from bertology._sealed import write_derived
    from bertology.results.trees import to_png, to_svg, to_tikz

    if out.suffix == ".tex":
        content = to_tikz(reading).encode()
    else:
        content = (to_svg if out.suffix == ".svg" else to_png)(reading, picture=picture)
    write_derived(out.parent, {out.name: content})


def _table(reading: TreeReading) -> str:
    """A line a word: number, form, head, relation, depth; gold beside them where it is known."""
    heads, relations, depths = reading.heads, reading.relations, reading.depths
    lines = [["", "word", *(["head"] if heads else []), *(["relation"] if relations else []),
              *(["depth"] if depths else []), *(["gold"] if reading.gold else [])]]  # fmt: skip
    for place, word in enumerate(reading.words):
        line = [str(place + 1), word]
        if heads:
            head = heads[place]
            line.append("–" if head < 0 else "0 · root" if head == 0 else f"{head} {reading.words[head - 1]}")
        if relations:
            line.append(relations[place] or "")
        if depths:
            line.append(f"{depths[place]:.1f}")
        if reading.gold:
            head = reading.gold[place]
            line.append(f"{head} {reading.words[head - 1]}" if head else "0 · root")
        lines.append(line)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    found = reading.uuas
    about = f"{folder_name(reading.model)}, layer {reading.layer}{' (embeddings)' if reading.layer == 0 else ''}"
    rows += ["", about + ("" if found is None else f"; {100 * found:.0f} % of gold's edges found (UUAS)")]
    if not heads:
        rows.append("edges " + ", ".join(f"{a + 1}–{b + 1}" for a, b in reading.edges))
    return "\n".join(rows) + "\n"


def _conllu(reading: TreeReading) -> str:
    """Columns of CoNLL-U; words in no edge hang from the root's word, as a tree must have them all."""
    from bertology.errors import BertologyError

    if reading.heads is None:
        raise BertologyError("the probe knows no depths, so its tree has no direction: print it as table or tikz")
    root = reading.heads.index(0) + 1
    lines = []
    for place, word in enumerate(reading.words):
        head = reading.heads[place] if reading.heads[place] >= 0 else root
        relation = (reading.relations[place] if reading.relations else None) or ("punct" if head == root else "dep")
        lines.append("\t".join([str(place + 1), word, *["_"] * 4, str(head), relation, "_", "_"]))
    return "\n".join(lines) + "\n\n"


def _tikz(reading: TreeReading) -> str:
    from bertology.results.trees import to_tikz

    return to_tikz(reading)


def _displacy(reading: TreeReading) -> str:
    from bertology.results.trees import to_displacy

    return json.dumps(to_displacy(reading), ensure_ascii=False, indent=1) + "\n"


_PRINTED: dict[Format, Callable[[TreeReading], str]] = {
    Format.table: _table,
    Format.conllu: _conllu,
    Format.tikz: _tikz,
    Format.displacy: _displacy,
}
