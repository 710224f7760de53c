"""``bertology neighbours`` and ``align``: words near each other in a corpus, and in a text and its translation."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bertology._names import aligned, folder_name, layer_label
from bertology._page import is_page
from bertology.cli._options import (
    Format,
    PageOrFigure,
    Quiet,
    closing,
    print_found,
    records,
    save_found,
    shows_progress,
    with_options,
)

if TYPE_CHECKING:
    import pandas as pd

    from bertology.corpora import Corpus, Sentence
    from bertology.geometry import Neighbours
    from bertology.geometry.alignment import AlignedTexts

app = typer.Typer(rich_markup_mode=None)
_BAR = " ||| "
_WIDTH = 100
_LEAST = 14
"""Characters of context on each side, at least."""


@app.command(
    epilog=closing(
        "how-to/geometry",
        'bertology neighbours "We sat on the bank of the river." --word bank',
        'bertology neighbours "The dog sees." --word dog --layers 2 --out map.html',
    )
)
@with_options(
    *("model", "corpus", "columns", "layers", "sentences", "pooling", "language", "split_at_spaces", "dtype", "device"),
    *("revision", "trust_remote_code"),
    model="pocket",
    corpus=("pocket", "What is searched: pocket, ud:en_ewt, a path."),
)
def neighbours(
    text: Annotated[
        str | None, typer.Argument(help="A sentence with the word; omit it with --sentence.", show_default=False)
    ] = None,
    *,
    word: Annotated[str, typer.Option("--word", "-w", help="The word whose neighbours are found.")],
    occurrence: Annotated[
        int | None, typer.Option(help="Number of the occurrence, from 1, if the word occurs several times.")
    ] = None,
    split: Annotated[str, typer.Option(help="Splits that are searched, with commas, or all.")] = "all",
    sentence: Annotated[
        str | None,
        typer.Option(help="Id of a sentence of the corpus, instead of a text."),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="The word's own tag, to compare neighbours with.")] = None,
    sense: Annotated[str | None, typer.Option(help="The word's own sense, to compare neighbours with.")] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="Neighbours in each layer.")] = 10,
    format: Format = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Page to write: a map, by layer.")] = None,
    points: Annotated[
        int | None,
        typer.Option(help="Maximum number of words on the map: up to 50,000, with t-SNE 5,000.", show_default=False),
    ] = None,
    others: Annotated[bool, typer.Option(help="Draw a sample of other words too on the map.")] = True,
    projection: Annotated[
        Literal["pca", "tsne"],
        typer.Option(help="Projection of the map: principal components, or t-SNE for few words."),
    ] = "pca",
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Find the nearest occurrences of a word's occurrence in a corpus, by the cosine of their vectors, in every layer.

    Prints the share of neighbours with the same word form, tag and sense, and each neighbour in its context. A tag or
    sense is known where the sentence is one of the corpus, or stated; else the most frequent one is shown. With --out
    also writes a page that shows them on a map, to be searched, and needs no network.
    """
    import bertology
    from bertology.corpora import load_corpus
    from bertology.corpora.formats.columns import BY_SPACES

    if (text is None) == (sentence is None):
        raise typer.BadParameter("give a text, or the id of a sentence of the corpus with --sentence")
    if out is None and (points is not None or not others or projection != "pca"):
        raise typer.BadParameter("--points, --no-others and --projection are of a map: name its page with --out")
    loaded = load_corpus(settings.pop("corpus"), columns=settings.pop("columns"))
    found = bertology.neighbours(
        _of_corpus(loaded, str(sentence)) if text is None else text,
        word,
        occurrence=occurrence,
        corpus=loaded,
        k=k,
        split=split,
        tag=tag,
        sense=sense,
        progress=shows_progress(quiet),
        **settings,
    )
    if out is not None:
        page = found.map(points=points, others=others, projection=projection)
        page.save(out)
        typer.echo(f"{out}: {len(page.words):,} words in {len(found.layers)} layers", err=True)
    if loaded.notes.get("annotation") == BY_SPACES and not settings["split_at_spaces"]:
        problem = "has words by white space, with the punctuation that stands at them"
        typer.echo(f"note: {loaded.name} {problem}; --split-at-spaces finds those of the text alike", err=True)
    print_found(format, lambda: _neighbour_table(found), lambda: found.frame, lambda: _neighbour_plain(found))


def _of_corpus(corpus: Corpus, name: str) -> Sentence:
    from bertology._names import name_not_found

    for sentences in corpus.splits.values():
        for number in range(len(sentences)):
            if sentences.id(number) == name:
                return sentences[number]
    ids = [one.id(number) for one in corpus.splits.values() for number in range(len(one))]
    raise name_not_found(f"sentence of {corpus.name}", name, ids, remedy="give the id of one of them")


def _neighbour_table(found: Neighbours) -> str:
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
    """One line for each neighbour: cosine, context before, word, context after, tag and sense."""
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


def _neighbour_plain(found: Neighbours) -> dict[str, Any]:
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


@app.command(
    epilog=closing(
        "how-to/geometry",
        'bertology align "Oscar has seen it." "Сази пида гилогане."',
        "bertology align --file pairs.txt --format pharaoh",
    )
)
@with_options(
    *("model", "pooling", "split_at_spaces", "dtype", "device", "revision", "trust_remote_code"),
    model=("bilingual", "bilingual, a folder, or a hub id."),
)
def align(
    text: Annotated[str | None, typer.Argument(help="A text; omit it with --file.", show_default=False)] = None,
    translation: Annotated[str | None, typer.Argument(help="Its translation.", show_default=False)] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="Align the lines of this file instead: TEXT ||| TRANSLATION.")
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option("--layer", "-l", help="0 is the embeddings, -1 the last. Default: two thirds of the depth."),
    ] = None,
    method: Annotated[
        Literal["argmax", "itermax", "match"], typer.Option(help="Alignment method of SimAlign.")
    ] = "argmax",
    distortion: Annotated[
        float, typer.Option(help="Penalty on similarity for distance in relative position, from 0 to 1.")
    ] = 0.0,
    language: Annotated[
        str | None, typer.Option(help="Languages of text and translation, such as en,de, whose rules split words.")
    ] = None,
    format: Annotated[
        Literal["table", "pharaoh", "csv", "json"],
        typer.Option("--format", "-f", help="What to print; for a file pharaoh: a line of links i-j for each line."),
    ] = "table",
    out: PageOrFigure = None,
    **settings: Any,
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
        layers="all" if layer is None or is_page(out) else (layer,),
        layer=layer,
        method=method,
        distortion=distortion,
        language=language,
        **settings,
    )
    are_lines = format == "pharaoh" or (file is not None and format == "table")
    shown = _pharaoh if are_lines else _links_table
    print_found(format, lambda: shown(found), lambda: _links_frame(found), lambda: _links_plain(found))
    save_found(found[0], out, what="links")


def _pairs(file: Path) -> list[tuple[str, str]]:
    from bertology._files import read_text
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


def _links_table(found: list[AlignedTexts]) -> str:
    return "\n\n".join(map(str, found)) + "\n"


def _pharaoh(found: list[AlignedTexts]) -> str:
    return "".join(f"{one.pharaoh()}\n" for one in found)


def _links_frame(found: list[AlignedTexts]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([one.to_pandas().assign(pair=number) for number, one in enumerate(found, 1)])


def _links_plain(found: list[AlignedTexts]) -> list[dict[str, Any]]:
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
