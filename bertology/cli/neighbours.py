"""``bertology neighbours``: the nearest occurrences of a word's occurrence in a corpus, by layer."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bertology._names import folder_name, layer_label
from bertology._text import aligned
from bertology.cli._shared import Device, Dtype, Format, Language, Revision, SplitAtSpaces, Trust, print_found, records
from bertology.cli.probe import COLUMNS_HELP

if TYPE_CHECKING:
    from bertology.corpora import Corpus, Sentence
    from bertology.geometry import Neighbours

_WIDTH = 100
_LEAST = 14
"""Characters of context on each side, at least."""


def neighbours(
    text: Annotated[
        str | None, typer.Argument(help="A sentence with the word; none with --sentence.", show_default=False)
    ] = None,
    *,
    word: Annotated[str, typer.Option("--word", "-w", help="The word whose neighbours are found.")],
    occurrence: Annotated[
        int | None, typer.Option(help="Which one, from 1, where the word stands in the text several times.")
    ] = None,
    corpus: Annotated[str, typer.Option("--corpus", "-c", help="What is searched: pocket, ud:en_ewt, a path.")] = (
        "pocket"
    ),
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    split: Annotated[str, typer.Option(help="Splits that are searched, with commas, or all.")] = "all",
    sentences: Annotated[
        int | None, typer.Option(help="Search at most so many sentences of each split, the first ones.")
    ] = None,
    sentence: Annotated[
        str | None,
        typer.Option(help="Id of a sentence of the corpus, instead of a text."),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="The word's own tag, to compare neighbours with.")] = None,
    sense: Annotated[str | None, typer.Option(help="The word's own sense, likewise.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="pocket, a folder, or a hub id.")] = "pocket",
    layers: Annotated[str, typer.Option("--layers", "-l", help="all, 0-6, or 3,5,-1; 0 is the embeddings.")] = "all",
    k: Annotated[int, typer.Option("--k", "-k", help="Neighbours in each layer.")] = 10,
    pooling: Annotated[str, typer.Option(help="A word's vector from its pieces': mean, first or last.")] = "mean",
    language: Language = None,
    split_at_spaces: SplitAtSpaces = False,
    dtype: Dtype = "float32",
    device: Device = "auto",
    revision: Revision = None,
    trust_remote_code: Trust = False,
    format: Format = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Page to write: a map, by layer.")] = None,
    points: Annotated[
        int | None, typer.Option(help="Words on the map at most: up to 50,000, by t-SNE 5,000.", show_default=False)
    ] = None,
    others: Annotated[bool, typer.Option(help="Draw a sample of other words too on the map.")] = True,
    projection: Annotated[
        Literal["pca", "tsne"], typer.Option(help="Of the map: principal components, or t-SNE for few words.")
    ] = "pca",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Find the nearest occurrences of a word's occurrence in a corpus, by the cosine of their vectors, in every layer.

    Prints the share of neighbours with the same word form, tag and sense, and each neighbour in its context. A tag or
    sense is known where the sentence is one of the corpus, or stated; else the most frequent one is shown. With --out
    also writes a page that shows them on a map, to be searched, and needs no network.
    """
    import bertology
    from bertology.corpora import load_corpus
    from bertology.corpora.formats.text import BY_SPACES

    if (text is None) == (sentence is None):
        raise typer.BadParameter("give a text, or the id of a sentence of the corpus with --sentence")
    if out is None and (points is not None or not others or projection != "pca"):
        raise typer.BadParameter("--points, --no-others and --projection are of a map: name its page with --out")
    loaded = load_corpus(corpus, columns=columns)
    found = bertology.neighbours(
        _of_corpus(loaded, str(sentence)) if text is None else text,
        word,
        occurrence=occurrence,
        corpus=loaded,
        model=model,
        layers=layers,
        k=k,
        split=split,
        tag=tag,
        sense=sense,
        progress=not quiet and sys.stderr.isatty(),
        sentences=sentences,
        pooling=pooling,
        language=language,
        split_at_spaces=split_at_spaces,
        dtype=dtype,
        device=device,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    if out is not None:
        page = found.map(points=points, others=others, projection=projection)
        page.save(out)
        typer.echo(f"{out}: {len(page.words):,} words in {len(found.layers)} layers", err=True)
    if loaded.notes.get("annotation") == BY_SPACES and not split_at_spaces:
        problem = "has words by white space, with the punctuation that stands at them"
        typer.echo(f"note: {loaded.name} {problem}; --split-at-spaces finds those of the text alike", err=True)
    print_found(format, lambda: _table(found), lambda: found.frame, lambda: _plain(found))


def _of_corpus(corpus: Corpus, name: str) -> Sentence:
    from bertology._names import name_not_found

    for sentences in corpus.splits.values():
        for number in range(len(sentences)):
            if sentences.id(number) == name:
                return sentences[number]
    ids = [one.id(number) for one in corpus.splits.values() for number in range(len(one))]
    raise name_not_found(f"sentence of {corpus.name}", name, ids, remedy="give the id of one of them")


def _table(found: Neighbours) -> str:
    """The shares by layer, then each layer's neighbours in context."""
    notes = [
        f"share of the {found.k} nearest of {len(found.text.words):,} words of {found.corpus}, by cosine, exact search",
        folder_name(found.model),
    ]
    if found.text.n_shared:
        notes.append(f"{found.text.n_shared:,} words share all subwords with another word and were not searched")
    if found.text.n_skipped:
        notes.append(f"{found.text.n_skipped:,} words have no vector and were not searched")
    text, (start, end) = found.sentence.text, found.sentence.spans[found.place]
    lines = [f"{text[:start]}[{text[start:end]}]{text[end:]}", "", *_shares(found), "", *notes]
    for layer in found.layers:
        lines += ["", f"layer {layer_label(layer)}", *_in_context(found, layer)]
    return "\n".join(lines) + "\n"


def _shares(found: Neighbours) -> list[str]:
    head, rows = ["layer", f"same word ({found.word})"], []
    kinds = found.annotated
    for kind in kinds:
        own = found.own(kind)
        head.append(f"most frequent {kind}" if own is None else f"same {kind} ({own})")
    for line in found.shares.to_dict("records"):
        cells = [layer_label(line["layer"]), f"{line['same_word']:.2f}"]
        for kind in kinds:
            known = found.own(kind) is not None
            most = f"{line[f'{kind}_share']:.2f} {line[kind] or '–'}"
            cells.append(f"{line[f'same_{kind}']:.2f}" if known else most)
        rows.append(cells)
    return aligned([head, *rows])


def _in_context(found: Neighbours, layer: int) -> list[str]:
    """A line a neighbour: cosine, context before, word, context after, tag and sense."""
    kinds = found.annotated
    nearest = found.at(layer)
    labels = [[getattr(one, kind) or "–" for kind in kinds] for one, _ in nearest]
    longest = max(len(one.word) for one, _ in nearest)
    taken = 12 + longest + sum(2 + max(map(len, column)) for column in zip(*labels, strict=True))
    width = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
    room = max(_LEAST, (width - taken) // 2)
    lines = []
    for (one, cosine), of_one in zip(nearest, labels, strict=True):
        before, after = (" ".join(part.split()) for part in one.context(room))
        lines.append([f"{cosine:6.3f}", before.rjust(room), one.word.center(longest), after.ljust(room), *of_one])
    return aligned(lines)


def _plain(found: Neighbours) -> dict[str, Any]:
    by_layer: dict[int, list[dict[str, Any]]] = {}
    for one in records(found.frame):
        by_layer.setdefault(one.pop("layer"), []).append(one)
    layers = [{**line, "neighbours": by_layer[line["layer"]]} for line in records(found.shares)]
    return {
        "text": found.sentence.text,
        "word": found.word,
        "span": list(found.sentence.spans[found.place]),
        "tag": found.tag,
        "sense": found.sense,
        "model": found.model,
        "corpus": found.corpus,
        "n_words": len(found.text.words),
        "n_skipped": found.text.n_skipped,
        "n_shared": found.text.n_shared,
        "layers": layers,
    }
