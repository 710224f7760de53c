"""``bertology attention``, ``patch``, ``attribute`` and ``tokenize``: one text, inside a model and its tokenizer."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bertology._names import aligned
from bertology._page import is_page
from bertology.cli._options import Format, PageOrFigure, closing, print_found, save_found, with_options

if TYPE_CHECKING:
    from bertology.corpora import Corpus, Sentence, Sentences
    from bertology.encoders.alignment import PieceReader
    from bertology.encoders.tokenization import TokenTrace

app = typer.Typer(rich_markup_mode=None)
_EFFECTS = ["layer", "place", "effect", "base_score", "source_score", "measure"]
_OF_A_MODEL = ("language", "split_at_spaces", "dtype", "device", "revision", "trust_remote_code")


@app.command(
    epilog=closing(
        "how-to/heads",
        'bertology attention "The keys to the cabinet are lost." --out attention.html',
        'bertology attention "The keys are lost." --head L2H1 --out head.svg',
    )
)
@with_options("columns", "language", "split_at_spaces", "device", "revision", "trust_remote_code")
def attention(
    texts: Annotated[
        list[str] | None, typer.Argument(help="A sentence, or two side by side; omit it with --gold.")
    ] = None,
    *,
    second: Annotated[str | None, typer.Option(help="A second sentence, encoded with the first as a pair.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Decoder input for T5 or BART: shows cross-attention to the sentence.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="pocket (default), a folder, or a hub id; two to see them side by side."),
    ] = None,
    layers: Annotated[str, typer.Option("--layers", "-l", help="all, 1-6, or 3,5,-1; from 1.")] = "all",
    heads: Annotated[str | None, typer.Option(help="Only these heads, by layer and number: L8H10,L3H2.")] = None,
    head: Annotated[str | None, typer.Option(help="One head, such as L8H10, as a labelled heatmap.")] = None,
    level: Annotated[
        Literal["word", "piece"], typer.Option(help="Initial view: attention between words, or subwords.")
    ] = "word",
    weights: Annotated[
        Literal["raw", "norm"],
        typer.Option(help="Initial view: raw weights, or norm-weighted (Kobayashi et al. 2020)."),
    ] = "raw",
    threshold: Annotated[float, typer.Option(help="Weights below this are hidden at first: 0.1 is 10 %.")] = 0.0,
    gold: Annotated[str | None, typer.Option(help="Treebank with the sentence, whose dependencies are drawn.")] = None,
    sentence: Annotated[str | None, typer.Option(help="Id of the sentence in --gold's test split.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write: attention.html; with --head .svg, .pdf or .png."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    **settings: Any,
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
    of_text = {name: settings.pop(name) for name in ("language", "split_at_spaces")}
    columns = settings.pop("columns")
    given = [_of_corpus(gold, sentence, columns)] if gold is not None or sentence is not None else []
    if bool(texts) == bool(given):
        raise typer.BadParameter("give a sentence, or the treebank and id of one with --gold and --sentence")
    names = model or ["pocket"]
    encoders = [load_encoder(name, **settings) for name in names]
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
        **of_text,
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


@app.command(
    epilog=closing(
        "how-to/patching",
        'bertology patch "Dogs [MASK]." --with "Dog [MASK]." --candidates run,runs',
        'bertology patch "A [MASK]." --with "B [MASK]." --candidates a,b --site head',
    )
)
@with_options("model", "layers", *_OF_A_MODEL, model="pocket")
def patch(
    text: Annotated[str, typer.Argument(help="A text with [MASK] in it.", show_default=False)],
    *,
    with_: Annotated[
        str,
        typer.Option("--with", help="A text with the same number of words, some of which differ.", show_default=False),
    ],
    candidates: Annotated[
        str,
        typer.Option(
            "--candidates",
            help="The word that fits the text, then the word that fits the other text.",
            show_default=False,
        ),
    ],
    site: Annotated[
        Literal["hidden_state", "attention_output", "feed_forward_output", "head", "values"],
        typer.Option(help="What is exchanged; head: the output of each head at all places."),
    ] = "hidden_state",
    direction: Annotated[
        Literal["denoise", "noise"],
        typer.Option(
            help="Patch states of the text into the pass over the other text (denoise), or the reverse (noise)."
        ),
    ] = "denoise",
    format: Format = "table",
    out: PageOrFigure = None,
    **settings: Any,
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
        site=site,
        direction=direction,
        **settings,
    )
    print_found(format, lambda: f"{found}\n", lambda: found.to_pandas()[_EFFECTS])
    save_found(found, out, what="effects")


@app.command(
    epilog=closing(
        "how-to/patching",
        'bertology attribute "The dogs near the farmer [MASK]." --candidates run,runs',
        'bertology attribute "Dogs [MASK]." --candidates run,runs --out words.html',
    )
)
@with_options("model", *_OF_A_MODEL, model="pocket")
def attribute(
    text: Annotated[str, typer.Argument(help="A text with [MASK] in it.", show_default=False)],
    *,
    candidates: Annotated[
        str,
        typer.Option(
            "--candidates",
            help="The word to explain, then the word to compare it with.",
            show_default=False,
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(help="With commas: integrated_gradients,leave_one_out,…; all that the model allows if left out."),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            "--layers",
            "-l",
            help="Layers of states and attention: all, 0-6, 3,5,-1. Default: embeddings and last block, in a page all.",
        ),
    ] = None,
    baseline: Annotated[
        Literal["mask", "pad"], typer.Option(help="What replaces words in the baseline of integrated gradients.")
    ] = "mask",
    format: Format = "table",
    out: PageOrFigure = None,
    **settings: Any,
) -> None:
    """Say which words of a text a choice between two words at its mask rests on, by several methods.

    No method is the truth: how faithful each is, task attribution tells on texts whose cause is known. attention_norms
    is ‖αf(x)‖ of Kobayashi et al. (2020), mean of the heads, without residual connection and LayerNorm.
    """
    import bertology

    found = bertology.attribute(
        text,
        candidates=candidates,
        methods=methods,
        layers="all" if layers is None and is_page(out) else layers,
        baseline=baseline,
        **settings,
    )
    print_found(format, lambda: f"{found}\n", lambda: found.to_pandas().drop(columns="question"))
    save_found(found, out, what="scores")


@app.command(
    epilog=closing(
        "how-to/tokenizers",
        'bertology tokenize "unbelievably" --model pocket',
        "bertology tokenize --corpus pocket --model pocket --model bilingual",
    )
)
@with_options("columns")
def tokenize(
    text: Annotated[str | None, typer.Argument(help="A text to tokenize; omit it with --corpus or --morphs.")] = None,
    *,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="pocket, a folder, or a hub id; several are compared.")
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            "-c",
            help="Measure how this corpus is tokenized; several corpora or languages are measured separately.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="The split of the corpus.")] = "test",
    morphs: Annotated[
        Path | None,
        typer.Option(help="Compare with the morphs in this CSV: pt1 and rest, or word, then morphs."),
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Number of segmentations shown for Unigram tokenizers.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Write the steps to this HTML page as well.")] = None,
    **settings: Any,
) -> None:
    """Show how a tokenizer arrives at its pieces, step by step; or measure how it cuts a corpus."""
    from bertology.corpora import load_corpus
    from bertology.encoders import resolve_model
    from bertology.encoders.loading import load_reader
    from bertology.encoders.tokenization import trace_tokens
    from bertology.errors import CorpusError

    if text is None and not corpus and morphs is None:
        raise CorpusError("nothing to cut: give a text, --corpus or --morphs")
    if out is not None and not text:
        raise CorpusError("--out writes the steps of a text: give one")
    sources = [resolve_model(name) for name in model or ["pocket"]]
    readers = {source.title: load_reader(source) for source in sources}
    if text is not None:
        traces = {name: trace_tokens(reader.backend, text, n_best=n_best) for name, reader in readers.items()}
        for name, trace in traces.items():
            typer.echo(_steps(name, trace))
        if out is not None:
            _write_page(out, text, traces)
    parts = [part for name in corpus or () for part in _parts(load_corpus(name, **settings), split)]
    for place, (name, sentences) in enumerate(parts):
        typer.echo(_table(f"{name} {split}", sentences, readers, reference=parts[0] if place else None))
    if morphs is not None:
        typer.echo(_morph_table(morphs, readers))


def _steps(name: str, trace: TokenTrace) -> str:
    lines = [f"{name} · {trace.kind} · {len(trace.pieces)} pieces", f"  {' '.join(trace.pieces)}", ""]
    for word in trace.words:
        steps = word.steps if len(word.steps) > 2 else word.steps[-1:]
        width = max(len(" ".join(step.pieces)) for step in steps)
        lines += [f"  {word.text} → {' '.join(word.pieces)}"]
        if len(word.steps) > 2:
            lines += [f"    {' '.join(step.pieces):<{width}}  {step.reason}" for step in steps]
    return "\n".join(lines) + "\n"


def _parts(corpus: Corpus, split: str) -> list[tuple[str, Sentences]]:
    """The split of a corpus by its name, or of a corpus of several languages that of each language."""
    from bertology.corpora import ParallelText

    if split not in corpus:
        raise corpus.split_not_found(split)
    sentences = corpus[split]
    if "language" not in sentences.target_layers:
        return [(corpus.name, sentences)]
    text = ParallelText.of(sentences)
    return [(f"{language} of {corpus.name}", text.alone(language)) for language in text.languages]


def _table(
    name: str, sentences: Sentences, readers: dict[str, PieceReader], *, reference: tuple[str, Sentences] | None
) -> str:
    from bertology.encoders.tokenization import tokenizer_parity, tokenizer_scores

    by_model = {model: list(tokenizer_scores(reader, sentences)) for model, reader in readers.items()}
    if reference is not None:
        for model, reader in readers.items():
            if (parity := tokenizer_parity(reader, sentences, reference[1])) is not None:
                by_model[model].append(parity._replace(measure=f"parity with {reference[0]}"))
    rows = [["measure", *by_model]]
    for scores in zip(*by_model.values(), strict=True):
        cells = []
        for score in scores:
            interval = "" if math.isnan(score.ci_low) else f" [{score.ci_low:.3f}, {score.ci_high:.3f}]"
            cells.append(f"{score.value:.3f}{interval}")
        rows.append([scores[0].measure.replace("_", " "), *cells])
    n_words = f"{sentences.n_words:,} words of {name}; [ ] 95 %, bootstrap over sentences"
    return f"{_aligned(rows)}\n\n{n_words}\n"


def _morph_table(path: Path, readers: dict[str, PieceReader]) -> str:
    from bertology.encoders.tokenization import morph_scores, read_morphs

    words = list(read_morphs(path))
    by_model = {name: morph_scores(reader, words) for name, reader in readers.items()}
    fields = ("precision", "recall", "f1", "morph_score", "n_words", "n_whole")
    rows = [["boundaries of morphs", *by_model]]
    for field in fields:
        values = [getattr(scores, field) for scores in by_model.values()]
        cells = [f"{value:,}" if isinstance(value, int) else f"{value:.3f}" for value in values]
        rows.append([{"n_words": "words of two morphs", "n_whole": "… that are one piece"}.get(field, field), *cells])
    return _aligned(rows) + "\n"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    lines = aligned(rows)
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])


def _write_page(path: Path, text: str, traces: dict[str, TokenTrace]) -> None:
    from bertology._page import full_page, write_page

    def shown(pieces: Sequence[str]) -> str:
        return "".join(f'<span class="p">{html.escape(piece)}</span>' for piece in pieces)

    parts = []
    for name, trace in traces.items():
        parts.append(f"<h2>{html.escape(name)} · {trace.kind} · {len(trace.pieces)} pieces</h2>")
        for word in trace.words:
            rows = "".join(f"<tr><td>{html.escape(s.reason)}</td><td>{shown(s.pieces)}</td></tr>" for s in word.steps)
            summary = f"<summary>{html.escape(word.text)} → {shown(word.pieces)}</summary>"
            parts.append(f'<details>{summary}<div class="scroll"><table>{rows}</table></div></details>')
    folder = "cli/assets/tokenize."
    values = {"text": html.escape(text), "body": "".join(parts)}
    page = full_page(f"{folder}html", title=text, styles=[f"{folder}css"], scripts=[], values=values, data=None)
    write_page(path, page)
