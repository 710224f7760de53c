"""``bertology tree``: the tree that a structural probe predicts for a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from bertology._names import aligned, folder_name
from bertology.cli._options import bars, command

if TYPE_CHECKING:
    from bertology.results.trees import TreeReading


@command(
    "how-to/trees",
    'bertology tree "The keys to the cabinet are lost."',
    "bertology tree --sentence test-1 --corpus pocket --out tree.svg",
    settings="model corpus columns language split_at_spaces pooling device revision trust_remote_code",
    model=(None, "A folder, or a hub id; pocket, or the model of --probe, when left out."),
    corpus=(None, "Treebank to fit the probe on: pocket, or that of --probe, when left out."),
    pooling=(None, "A word's vector from its subwords': mean, first or last; mean, or as --probe has."),
)
def tree(
    text: str | None = None,
    *,
    layer: int | None = None,
    probe: Path | None = None,
    sentence: str | None = None,
    rank: int | None = None,
    picture: Literal["arcs", "depths", "distances"] = "arcs",
    out: Path | None = None,
    format: Literal["table", "conllu", "tikz", "displacy"] = "table",
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Parse a sentence by a structural probe: heads, relations and depths that are linear in one layer.

    The probe is fitted on the treebank the first time, and kept.

    Args:
        text: A sentence; omit it with --sentence.
        layer: 0 is the embeddings; -1 the last layer; the best on dev when left out.
        probe: Use a fitted probe: its file, or the folder of a run.
        sentence: Id of a sentence of the corpus' test split, drawn beside its gold tree.
        rank: Rank of a probe that is fitted now.
        picture: What a picture shows.
        out: Picture to write: a .svg, .png or .tex file.
    """
    from bertology._files import write_derived
    from bertology.corpora import sentence_of_text
    from bertology.parsing import ParseRequest, parse, sentence_of_request
    from bertology.results.trees import to_displacy, to_svg, to_tikz

    if out is not None and out.suffix not in (".svg", ".png", ".tex"):
        raise typer.BadParameter(f"{out}: name a .svg, .png or .tex file", param_hint="--out")
    of_text = {name: settings.pop(name) for name in ("language", "split_at_spaces")}
    request = ParseRequest(layer=layer, probe=probe, rank=rank, **settings)
    if (text is None) == (sentence is None):
        raise typer.BadParameter("give a sentence, or the id of one with --sentence")
    chosen = sentence_of_request(str(sentence), request) if text is None else sentence_of_text(text, **of_text)
    reading = parse(chosen, request, progress=bars(quiet))
    if format == "displacy":
        printed = json.dumps(to_displacy(reading), ensure_ascii=False, indent=1) + "\n"
    else:
        printed = {"table": _table, "conllu": _conllu, "tikz": to_tikz}[format](reading)
    typer.echo(printed, nl=False)
    if out is not None:
        ending: Any = out.suffix.removeprefix(".")
        content = to_tikz(reading).encode() if ending == "tex" else to_svg(reading, picture=picture, ending=ending)
        write_derived(out.parent, {out.name: content})
        typer.echo(f"{picture} in {out}", err=True)


def _table(reading: TreeReading) -> str:
    """One line for each word: number, form, head, relation, depth, and the gold values if known."""
    words = reading.words

    def named(head: int) -> str:
        return "–" if head < 0 else f"{head} {words[head - 1]}" if head else "0 · root"

    columns = [["", *map(str, range(1, len(words) + 1))], ["word", *words]]
    if reading.heads:
        columns.append(["head", *map(named, reading.heads)])
    if reading.relations:
        columns.append(["relation", *(relation or "" for relation in reading.relations)])
    if reading.depths:
        columns.append(["depth", *(f"{depth:.1f}" for depth in reading.depths)])
    if reading.gold:
        columns.append(["gold", *map(named, reading.gold)])
    about = f"{folder_name(reading.model)}, layer {reading.layer}{' (embeddings)' if reading.layer == 0 else ''}"
    uuas = "" if reading.uuas is None else f"; {100 * reading.uuas:.0f} % of gold's edges found (UUAS)"
    rows = [*aligned(list(zip(*columns, strict=True))), "", about + uuas]
    if not reading.heads:
        rows.append("edges " + ", ".join(f"{a + 1}–{b + 1}" for a, b in reading.edges))
    return "\n".join(rows) + "\n"


def _conllu(reading: TreeReading) -> str:
    """Columns of CoNLL-U; words in no edge hang from the root's word, as a tree must have them all."""
    from bertology.errors import BertologyError

    if reading.heads is None:
        raise BertologyError("the probe knows no depths, so its tree has no direction: print it as table or tikz")
    root = reading.heads.index(0) + 1
    lines = []
    for place, (word, predicted) in enumerate(zip(reading.words, reading.heads, strict=True), 1):
        head = predicted if predicted >= 0 else root
        named = reading.relations[place - 1] if reading.relations else None
        relation = named or ("punct" if head == root else "dep")
        lines.append("\t".join([str(place), word, *["_"] * 4, str(head), relation, "_", "_"]))
    return "\n".join(lines) + "\n\n"
