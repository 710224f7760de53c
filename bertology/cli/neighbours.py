"""``bertology neighbours`` and ``align``: words near each other in a corpus, and in a text and its translation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from bertology._names import aligned, folder_name, layer_label
from bertology.cli._options import Format, command, print_found, records, save_found, shows_progress, terminal_width

if TYPE_CHECKING:
    from bertology.geometry import Neighbours

_BAR = " ||| "
_LEAST = 14
"""Characters of context on each side, at least."""


@command(
    "how-to/geometry",
    'bertology neighbours "We sat on the bank of the river." --word bank',
    'bertology neighbours "The dog sees." --word dog --layers 2 --out map.html',
    settings="model corpus columns layers sentences pooling language split_at_spaces dtype device revision "
    "trust_remote_code",
    model="pocket",
    corpus=("pocket", "Corpus to search: pocket, ud:en_ewt, a path."),
)
def neighbours(
    text: str | None = None,
    *,
    word: str,
    occurrence: int | None = None,
    split: str = "all",
    sentence: str | None = None,
    tag: str | None = None,
    sense: str | None = None,
    k: int = 10,
    format: Format = "table",
    out: Path | None = None,
    points: int | None = None,
    others: bool = True,
    projection: Literal["pca", "tsne"] = "pca",
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Find the nearest occurrences of a word's occurrence in a corpus, by the cosine of their vectors, in every layer.

    Prints the share of neighbours with the same word form, tag and sense, and each neighbour in its context. A tag or
    sense is known where the sentence is one of the corpus, or stated; else the most frequent one is shown. With --out
    also writes a page that shows them on a map, to be searched, and needs no network.

    Args:
        text: A sentence with the word; omit it with --sentence.
        word: The word whose neighbours are found.
        occurrence: Number of the occurrence, from 1, if the word occurs several times.
        split: Splits that are searched, with commas, or all.
        sentence: Id of a sentence of the corpus, instead of a text.
        tag: The word's own tag, to compare neighbours with.
        sense: The word's own sense, to compare neighbours with.
        k: Neighbours in each layer.
        out: Page to write: a map, by layer.
        points: Maximum number of words on the map: up to 50,000, with t-SNE 5,000.
        others: Draw a sample of other words too on the map.
        projection: Projection of the map: principal components, or t-SNE for few words.
    """
    import bertology
    from bertology.corpora import load_corpus
    from bertology.corpora.formats.columns import BY_SPACES

    if (text is None) == (sentence is None):
        raise typer.BadParameter("give a text, or the id of a sentence of the corpus with --sentence")
    if out is None and (points is not None or not others or projection != "pca"):
        raise typer.BadParameter("--points, --no-others and --projection are of a map: name its page with --out")
    loaded = load_corpus(settings.pop("corpus"), columns=settings.pop("columns"))
    asked: Any = text
    if sentence is not None:
        from bertology.parsing import sentence_by_id

        asked = sentence_by_id(sentence, loaded, tuple(loaded.splits))
    found = bertology.neighbours(
        asked,
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
    print_found(format, lambda: _table(found), lambda: found.frame, lambda: _plain(found))


def _table(found: Neighbours) -> str:
    """The shares by layer, then each layer's neighbours in context."""
    text, (start, end) = found.sentence.text, found.sentence.spans[found.place]
    own = {kind: found.own(kind) for kind in found.annotated}
    shares = [["layer", f"same word ({found.word})"]]
    shares[0] += [f"most frequent {kind}" if one is None else f"same {kind} ({one})" for kind, one in own.items()]
    for line in found.shares.to_dict("records"):
        cells = [layer_label(line["layer"]), f"{line['same_word']:.2f}"]
        for kind, one in own.items():
            most = f"{line[f'{kind}_share']:.2f} {line[kind] or '–'}"
            cells.append(most if one is None else f"{line[f'same_{kind}']:.2f}")
        shares.append(cells)
    notes = [
        f"share of the {found.k} nearest of {len(found.text.words):,} words of {found.corpus}, by cosine, exact search",
        folder_name(found.model),
    ]
    if found.text.n_shared:
        notes.append(f"{found.text.n_shared:,} words share all subwords with another word and were not searched")
    if found.text.n_skipped:
        notes.append(f"{found.text.n_skipped:,} words have no vector and were not searched")
    lines = [f"{text[:start]}[{text[start:end]}]{text[end:]}", "", *aligned(shares), "", *notes]
    for layer in found.layers:
        # A line for each neighbour: cosine, context before, word, context after, tag and sense.
        nearest = found.at(layer)
        labels = [[getattr(one, kind) or "–" for kind in own] for one, _ in nearest]
        longest = max(len(one.word) for one, _ in nearest)
        taken = 12 + longest + sum(2 + max(map(len, column)) for column in zip(*labels, strict=True))
        room = max(_LEAST, (terminal_width() - taken) // 2)
        rows = []
        for (near, cosine), of_one in zip(nearest, labels, strict=True):
            before, after = (" ".join(part.split()) for part in near.context(room))
            rows.append([f"{cosine:6.3f}", before.rjust(room), near.word.center(longest), after.ljust(room), *of_one])
        lines += ["", f"layer {layer_label(layer)}", *aligned(rows)]
    return "\n".join(lines) + "\n"


def _plain(found: Neighbours) -> dict[str, Any]:
    by_layer: dict[int, list[dict[str, Any]]] = {}
    for one in records(found.frame):
        by_layer.setdefault(one.pop("layer"), []).append(one)
    plain: dict[str, Any] = {
        "text": found.sentence.text,
        "word": found.word,
        "span": list(found.sentence.spans[found.place]),
    }
    plain |= {name: getattr(found, name) for name in ("tag", "sense", "model", "corpus")}
    plain |= {"n_words": len(found.text.words), "n_skipped": found.text.n_skipped, "n_shared": found.text.n_shared}
    return plain | {"layers": [{**line, "neighbours": by_layer[line["layer"]]} for line in records(found.shares)]}


@command(
    "how-to/geometry",
    'bertology align "Oscar has seen it." "Сази пида гилогане."',
    "bertology align --file pairs.txt --format pharaoh",
    settings="model pooling split_at_spaces dtype device revision trust_remote_code",
    model=("bilingual", "bilingual, a folder, or a hub id."),
)
def align(
    text: str | None = None,
    translation: str | None = None,
    *,
    file: Path | None = None,
    layer: int | None = None,
    method: Literal["argmax", "itermax", "match"] = "argmax",
    distortion: float = 0.0,
    language: str | None = None,
    format: Literal["table", "pharaoh", "csv", "json"] = "table",
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Link the words of a text with those of its translation, by the similarity of their vectors at one layer.

    As SimAlign does (Jalili Sabet et al. 2020). The page shows every layer. How often links are right is measured by
    the task languages:alignment, on text with gold links.

    Args:
        text: A text; omit it with --file.
        translation: Its translation.
        file: Align the lines of this file instead: TEXT ||| TRANSLATION.
        layer: 0 is the embeddings, -1 the last. Default: two thirds of the depth.
        method: Alignment method of SimAlign.
        distortion: Penalty on similarity for distance in relative position, from 0 to 1.
        language: Languages of text and translation, such as en,de, whose rules split words.
        format: What to print; for a file pharaoh: a line of links i-j for each line.
        out: Page (.html) or figure (.svg, .pdf or .png) to write.
    """
    import bertology
    from bertology._page import is_page

    is_shown = is_page(out)  # an ending of neither page nor figure is refused first
    if (file is None) == (text is None) or (text is None) != (translation is None):
        raise typer.BadParameter("give a text and its translation, or --file with a pair in each line")
    if file is not None and out is not None:
        raise typer.BadParameter("it shows one pair: give a text and its translation", param_hint="--out")
    pairs = [(str(text), str(translation))] if file is None else _pairs(file)
    firsts, seconds = map(list, zip(*pairs, strict=True))
    layers = "all" if layer is None or is_shown else (layer,)
    found = bertology.align(
        firsts, seconds, layers=layers, layer=layer, method=method, distortion=distortion, language=language, **settings
    )

    def frame() -> Any:
        import pandas as pd

        return pd.concat([one.to_pandas().assign(pair=number) for number, one in enumerate(found, 1)])

    def table() -> str:
        if format == "pharaoh" or file is not None:
            return "".join(f"{one.pharaoh()}\n" for one in found)
        return "\n\n".join(map(str, found)) + "\n"

    def plain() -> list[dict[str, Any]]:
        about = "model", "layer", "method"
        return [
            {"first": list(one.first.words), "second": list(one.second.words)}
            | {name: getattr(one, name) for name in about}
            | {"links": one.links()}
            for one in found
        ]

    print_found(format, table, frame, plain)
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
