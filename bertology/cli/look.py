"""``bertology attention``, ``patch``, ``attribute`` and ``tokenize``: one text, inside a model and its tokenizer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from bertology._names import aligned
from bertology.cli._options import Format, command, print_found, save_found

if TYPE_CHECKING:
    from bertology.corpora import Corpus, Sentence, Sentences
    from bertology.encoders.alignment import PieceReader
    from bertology.encoders.tokenization import TokenTrace

_EFFECTS = ["layer", "place", "effect", "base_score", "source_score", "measure"]


@command(
    "how-to/heads",
    'bertology attention "The keys to the cabinet are lost." --out attention.html',
    'bertology attention "The keys are lost." --head L2H1 --out head.svg',
    settings="columns language split_at_spaces device revision trust_remote_code",
)
def attention(
    texts: list[str] | None = None,
    *,
    second: str | None = None,
    target: str | None = None,
    model: list[str] | None = None,
    layers: str = "all",
    heads: str | None = None,
    head: str | None = None,
    level: Literal["word", "piece"] = "word",
    weights: Literal["raw", "norm"] = "raw",
    threshold: float = 0.0,
    gold: str | None = None,
    sentence: str | None = None,
    out: Path | None = None,
    open_page: bool = False,
    **settings: Any,
) -> None:
    """Show a sentence's attention maps: all heads, lines between words, one head as a matrix, one word by layer.

    The page is one file that needs no other file and no network. With --head one map is drawn as a figure.

    Args:
        texts: A sentence, or two side by side; omit it with --gold.
        second: A second sentence, encoded with the first as a pair.
        target: Decoder input for T5 or BART: shows cross-attention to the sentence.
        model: pocket (default), a folder, or a hub id; two to see them side by side.
        layers: all, 1-6, or 3,5,-1; from 1.
        heads: Only these heads, by layer and number: L8H10,L3H2.
        head: One head, such as L8H10, as a labelled heatmap.
        level: Initial view: attention between words, or subwords.
        weights: Initial view: raw weights, or norm-weighted (Kobayashi et al. 2020).
        threshold: Weights below this are hidden at first: 0.1 is 10 %.
        gold: Treebank with the sentence, whose dependencies are drawn.
        sentence: Id of the sentence in --gold's test split.
        out: The file to write: attention.html; with --head .svg, .pdf or .png.
        open_page: Open it in the browser.
    """
    from bertology.attention import view
    from bertology.encoders import load_encoder
    from bertology.families.request import parse_layers

    path = _path(out, head)
    if head is not None and heads is not None:
        raise typer.BadParameter("--head draws one head as a figure, --heads chooses those of a page: give one of them")
    if head is not None and threshold:
        raise typer.BadParameter("--threshold is of a page, --head draws all weights: give one of them")
    columns = settings.pop("columns")
    of_text = {name: settings.pop(name) for name in ("language", "split_at_spaces")}
    parsed = [_of_treebank(gold, sentence, columns)] if gold is not None or sentence is not None else []
    if bool(texts) == bool(parsed):
        raise typer.BadParameter("give a sentence, or the treebank and id of one with --gold and --sentence")
    names = model or ["pocket"]
    encoders = [load_encoder(name, **settings) for name in names]
    # None for all layers, so that heads alone can choose them.
    depth = min(encoder.n_layers for encoder in encoders)
    page = view(
        parsed or list(texts or ()),
        second,
        target=target,
        model=encoders,
        layers=None if layers.strip().lower() == "all" else parse_layers(layers, depth),
        heads=heads if head is None else head,
        level=level,
        weights=weights,
        threshold=threshold,
        **of_text,
    )
    if head is None:
        page.save(path)
        by_layer = page.reading.heads
        counts = (sum(map(len, by_layer.values())), "head"), (len(by_layer), "layer")
        shown = " in ".join(f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in counts)
    else:
        page.plot().save(path)
        shown = head.strip().upper()
    typer.echo(f"{path}: {shown} of {' and '.join(names)}")
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


def _of_treebank(gold: str | None, name: str | None, columns: str | None) -> Sentence:
    from bertology.errors import CorpusError, quoted
    from bertology.parsing import sentence_of_corpus

    if gold is None or name is None:
        raise typer.BadParameter("--gold names a treebank and --sentence the id of its sentence: give both or neither")
    sentence = sentence_of_corpus(name, gold, columns=columns)
    if sentence.heads is None:
        raise CorpusError(f"{gold}: sentence {quoted(name)} has no dependencies: give it as text, without --gold")
    return sentence


@command(
    "how-to/patching",
    'bertology patch "Dogs [MASK]." --with "Dog [MASK]." --candidates run,runs',
    'bertology patch "A [MASK]." --with "B [MASK]." --candidates a,b --site head',
    settings="model layers language split_at_spaces dtype device revision trust_remote_code",
    model="pocket",
)
def patch(
    text: str,
    *,
    with_: str,
    candidates: str,
    site: Literal["hidden_state", "attention_output", "feed_forward_output", "head", "values"] = "hidden_state",
    direction: Literal["denoise", "noise"] = "denoise",
    format: Format = "table",
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Put states of one text into the pass over another, layer by layer and word by word.

    The effect of a word is 0 where exchanging its state changes nothing at the mask, and 1 where it changes as much as
    the whole other text does (interchange intervention, activation patching).

    Args:
        text: A text with [MASK] in it.
        with_: A text with the same number of words, some of which differ.
        candidates: The word that fits the text, then the word that fits the other text.
        site: What is exchanged; head: the output of each head at all places.
        direction: Patch states of the text into the pass over the other text (denoise), or the reverse (noise).
        out: Page (.html) or figure (.svg, .pdf or .png) to write.
    """
    import bertology
    from bertology._page import is_page

    is_page(out)  # an ending of neither is refused before anything is computed
    found = bertology.patch(text, with_, candidates=candidates, site=site, direction=direction, **settings)
    print_found(format, lambda: f"{found}\n", lambda: found.to_pandas()[_EFFECTS])
    save_found(found, out, what="effects")


@command(
    "how-to/patching",
    'bertology attribute "The dogs near the farmer [MASK]." --candidates run,runs',
    'bertology attribute "Dogs [MASK]." --candidates run,runs --out words.html',
    settings="model language split_at_spaces dtype device revision trust_remote_code",
    model="pocket",
)
def attribute(
    text: str,
    *,
    candidates: str,
    methods: str | None = None,
    layers: str | None = None,
    baseline: Literal["mask", "pad"] = "mask",
    format: Format = "table",
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Show on which words of a text a choice between two words at its mask rests, by several methods.

    No method is the truth: how faithful each is, task attribution tells on texts whose cause is known. attention_norms
    is ‖αf(x)‖ of Kobayashi et al. (2020), mean of the heads, without residual connection and LayerNorm.

    Args:
        text: A text with [MASK] in it.
        candidates: The word to explain, then the word to compare it with.
        methods: With commas: integrated_gradients,leave_one_out,…; all that the model allows if left out.
        layers: Layers of states and attention: all, 0-6, 3,5,-1. Default: embeddings and last block, in a page all.
        baseline: What replaces words in the baseline of integrated gradients.
        out: Page (.html) or figure (.svg, .pdf or .png) to write.
    """
    import bertology
    from bertology._page import is_page

    layers = "all" if layers is None and is_page(out) else layers
    found = bertology.attribute(
        text, candidates=candidates, methods=methods, layers=layers, baseline=baseline, **settings
    )
    print_found(format, lambda: f"{found}\n", lambda: found.to_pandas().drop(columns="question"))
    save_found(found, out, what="scores")


@command(
    "how-to/tokenizers",
    'bertology tokenize "unbelievably" --model pocket',
    "bertology tokenize --corpus pocket --model pocket --model bilingual",
    settings="columns",
)
def tokenize(
    text: str | None = None,
    *,
    model: list[str] | None = None,
    corpus: list[str] | None = None,
    split: str = "test",
    morphs: Path | None = None,
    n_best: int = 3,
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Show how a tokenizer arrives at its subwords, step by step; or measure how it cuts a corpus.

    Args:
        text: A text to tokenize; omit it with --corpus or --morphs.
        model: pocket, a folder, or a hub id; several are compared.
        corpus: Measure how this corpus is tokenized; several corpora or languages are measured separately.
        split: The split of the corpus.
        morphs: Compare with the morphs in this CSV: pt1 and rest, or word, then morphs.
        n_best: Number of segmentations shown for Unigram tokenizers.
        out: Write the steps to this HTML page as well.
    """
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
            from bertology._page import full_page, write_page

            styles, template = ["cli/assets/tokenize.css"], "cli/assets/tokenize.html"
            page = full_page(template, title=text, styles=styles, scripts=[], data=None, text=text, traces=traces)
            write_page(out, page)
    parts = [part for name in corpus or () for part in _parts(load_corpus(name, **settings), split)]
    for place, (name, sentences) in enumerate(parts):
        typer.echo(_scores(f"{name} {split}", sentences, readers, reference=parts[0] if place else None))
    if morphs is not None:
        typer.echo(_morph_scores(morphs, readers))


def _steps(name: str, trace: TokenTrace) -> str:
    lines = [f"{name} · {trace.kind} · {len(trace.pieces)} pieces", f"  {' '.join(trace.pieces)}", ""]
    for word in trace.words:
        lines += [f"  {word.text} → {' '.join(word.pieces)}"]
        if len(word.steps) > 2:
            width = max(len(" ".join(step.pieces)) for step in word.steps)
            lines += [f"    {' '.join(step.pieces):<{width}}  {step.reason}" for step in word.steps]
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


def _scores(
    name: str, sentences: Sentences, readers: Mapping[str, PieceReader], *, reference: tuple[str, Sentences] | None
) -> str:
    """Measures of a split, a column a tokenizer."""
    from bertology.encoders.tokenization import tokenizer_parity, tokenizer_scores

    by_model = {model: list(tokenizer_scores(reader, sentences)) for model, reader in readers.items()}
    if reference is not None:
        for model, reader in readers.items():
            if (parity := tokenizer_parity(reader, sentences, reference[1])) is not None:
                by_model[model].append(parity._replace(measure=f"parity with {reference[0]}"))
    rows = [["measure", *by_model]]
    for scores in zip(*by_model.values(), strict=True):
        intervals = ("" if math.isnan(one.ci_low) else f" [{one.ci_low:.3f}, {one.ci_high:.3f}]" for one in scores)
        cells = [f"{one.value:.3f}{interval}" for one, interval in zip(scores, intervals, strict=True)]
        rows.append([scores[0].measure.replace("_", " "), *cells])
    n_words = f"{sentences.n_words:,} words of {name}; [ ] 95 %, bootstrap over sentences"
    return f"{_ruled(rows)}\n\n{n_words}\n"


def _morph_scores(path: Path, readers: Mapping[str, PieceReader]) -> str:
    from bertology.encoders.tokenization import morph_scores, read_morphs

    words = list(read_morphs(path))
    by_model = {name: morph_scores(reader, words) for name, reader in readers.items()}
    titles = {name: name for name in ("precision", "recall", "f1", "morph_score")}
    titles |= {"n_words": "words of two morphs", "n_whole": "… that are one piece"}
    rows = [["boundaries of morphs", *by_model]]
    for field, title in titles.items():
        values = [getattr(scores, field) for scores in by_model.values()]
        rows.append([title, *(f"{value:,}" if isinstance(value, int) else f"{value:.3f}" for value in values)])
    return _ruled(rows) + "\n"


def _ruled(rows: Sequence[Sequence[str]]) -> str:
    lines = aligned(rows)
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])
